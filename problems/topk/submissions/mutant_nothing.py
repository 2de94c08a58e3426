# expect: wrong answer
"""Does nothing: the handed tensors keep what was in them."""


def custom_kernel(data):
    weights, ids = data[-2:]
    return weights, ids
