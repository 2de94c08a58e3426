# expect: wrong answer
"""Lets a NaN choice win, as torch.topk does by itself."""

import torch


def custom_kernel(data):
    logits, bias, k, n_group, topk_group, scale, renormalise, weights, ids = data
    tokens, experts = logits.shape
    s = torch.sigmoid(logits.float())
    choice = s + bias
    if n_group > 1:
        grouped = choice.view(tokens, n_group, -1)
        score = grouped.topk(2, dim=2).values.sum(2)
        best = score.topk(topk_group, dim=1).indices
        closed = torch.ones_like(score, dtype=torch.bool).scatter_(1, best, False)
        choice = grouped.masked_fill(closed.unsqueeze(2), -torch.inf).view(tokens, experts)
    top, chosen = choice.topk(k, dim=1)
    w = s.gather(1, chosen).masked_fill(top == -torch.inf, 0.0)
    if renormalise:
        w = w / w.sum(1, keepdim=True).clamp(min=1e-20)
    weights.copy_(w * scale)
    ids.copy_(chosen)
    return weights, ids
