# expect: compile error
def custom_kernel(data)
    return data
