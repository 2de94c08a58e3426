# expect: wrong answer
"""Chooses from all groups."""

import torch


def custom_kernel(data):
    logits, bias, k, n_group, topk_group, scale, renormalise, weights, ids = data
    tokens, experts = logits.shape
    s = torch.sigmoid(logits.float())
    choice = s + bias
    choice = choice.masked_fill(choice.isnan(), -torch.inf)
    top, chosen = choice.topk(k, dim=1)
    w = s.gather(1, chosen).masked_fill(top == -torch.inf, 0.0)
    if renormalise:
        w = w / w.sum(1, keepdim=True).clamp(min=1e-20)
    weights.copy_(w * scale)
    ids.copy_(chosen)
    return weights, ids
