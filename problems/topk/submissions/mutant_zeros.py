# expect: wrong answer
"""Returns zeros."""


def custom_kernel(data):
    weights, ids = data[-2:]
    weights.zero_()
    ids.zero_()
    return weights, ids
