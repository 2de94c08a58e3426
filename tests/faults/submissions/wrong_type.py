# expect: wrong answer
def custom_kernel(data):
    return "2 * x"
