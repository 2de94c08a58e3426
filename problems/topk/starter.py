"""Top-K router: a correct kernel to start from. Make it fast, then `judge submit` it.

`custom_kernel` is called with unseen data every time; see statement.md for every rule.
"""

import torch


def custom_kernel(data):
    # logits bf16 [tokens, experts], bias fp32 [experts]; weights fp32 and ids int32 [tokens, k] are
    # the judge's own tensors: writing into them saves a copy inside the clock.
    logits, bias, k, n_group, topk_group, scale, renormalise, weights, ids = data
    tokens, experts = logits.shape

    # The bias takes part in the choice only. Add in fp32: bf16 cannot tell 2.60 from 2.61.
    s = torch.sigmoid(logits.float())
    choice = s + bias
    choice = torch.where(choice.isnan(), -torch.inf, choice)

    if n_group > 1:
        # A group's score is the sum of its two largest choices; the others are closed with -inf
        # (0 would win over negative choices).
        group_choice = choice.view(tokens, n_group, experts // n_group)
        group_score = group_choice.topk(2, dim=2).values.sum(dim=2)
        best_groups = group_score.topk(topk_group, dim=1).indices
        closed = torch.ones_like(group_score, dtype=torch.bool)
        closed.scatter_(1, best_groups, False)
        group_choice = group_choice.masked_fill(closed[:, :, None], -torch.inf)
        choice = group_choice.view(tokens, experts)

    top, chosen = choice.topk(k, dim=1)

    # The weight is the chosen expert's s; an expert that only fills up the row weighs 0.
    w = torch.where(top == -torch.inf, 0.0, s.gather(1, chosen))
    if renormalise:
        w = w / w.sum(dim=1, keepdim=True).clamp(min=1e-20)

    weights.copy_(w * scale)
    ids.copy_(chosen)
    return weights, ids
