# expect: accepted
def custom_kernel(data):
    x, y = data
    return y.copy_(2 * x)
