# expect: runtime error
import a_module_that_nobody_has


def custom_kernel(data):
    return data[1]
