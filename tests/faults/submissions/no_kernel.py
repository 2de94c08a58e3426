# expect: compile error
def kernel(data):
    return data
