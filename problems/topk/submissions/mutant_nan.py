# expect: wrong answer
"""Returns NaN weights beside ids in range."""

import torch


def custom_kernel(data):
    k = data[2]
    weights, ids = data[-2:]
    weights.fill_(float("nan"))
    ids.copy_(torch.arange(k).expand_as(ids))
    return weights, ids
