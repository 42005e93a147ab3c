"""A mixture of experts over the ranks of a group, as a module."""

import torch
import torch.nn.functional as F
from torch import nn

from tutti.errors import InvalidInput
from tutti.torch.experts import TokenSwitch
from tutti.torch.helpers import OverlappedSwitch


class MixtureOfExperts(nn.Module):
    """Router and experts: y = moe(x) for x of [..., width], with k of `experts` networks
    width -> hidden -> width for each token. A rank holds experts / ranks of them.

    `w1` is [experts / ranks, width, hidden] and `w2` [experts / ranks, hidden, width]; `router` is a
    Linear without a bias, equal on all ranks (its gradients are this rank's: add them over the group).
    Initial values depend on the expert's number and the seed only, not on the number of ranks.
    Weights that go to helpers move while tokens do. `load_balance` is the auxiliary loss of the last call, over the tokens of all ranks.
    """

    def __init__(self, width, hidden, experts, k, group=None, *, capacity=None, helpers=0, gate=1.3,
                 seed=0):
        super().__init__()
        if width % 4 or hidden % 4:
            raise InvalidInput(f"MixtureOfExperts: width {width} and hidden {hidden} must be multiples "
                               "of 4, as grouped_mm needs rows of whole 16 bytes")
        self.switch = (OverlappedSwitch(group, experts=experts, capacity=capacity, helpers=helpers, gate=gate)
                       if helpers else TokenSwitch(group, experts=experts, capacity=capacity))
        self.k, self.experts = k, experts
        self.router = nn.Linear(width, experts, bias=False)
        each, first = self.switch.each, self.switch.comm.rank * self.switch.each

        def values(expert, rows, columns):
            numbers = torch.Generator().manual_seed(seed * 1_000_003 + expert)
            return torch.randn(rows, columns, generator=numbers) * rows ** -0.5
        with torch.no_grad():
            self.router.weight.copy_(values(experts, width, experts).T)
        mine = range(first, first + each)
        self.w1 = nn.Parameter(torch.stack([values(e, width, hidden) for e in mine]))
        self.w2 = nn.Parameter(torch.stack([values(e + experts + 1, hidden, width) for e in mine]))

    def forward(self, x):
        tokens = x.reshape(-1, x.shape[-1])
        probabilities = F.softmax(self.router(tokens), dim=-1)
        scores, topk = probabilities.topk(self.k, dim=-1)
        counts = self.switch.count(topk)
        share = counts.sum(0) / counts.sum()
        self.load_balance = self.experts * (share * probabilities.mean(0)).sum()
        w1, w2 = self.w1, self.w2
        if self.switch.helpers:
            rows, h1, h2 = self.switch.dispatch_with_weights(tokens, topk, counts, w1, w2)
            w1, w2 = torch.cat([w1, h1]), torch.cat([w2, h2])
        else:
            rows = self.switch.dispatch(tokens, topk, counts)
        ends = self.switch.group_ends(counts)
        rows = F.grouped_mm(F.gelu(F.grouped_mm(rows, w1, offs=ends)), w2, offs=ends)
        slots = self.switch.combine(rows, topk, counts).view(-1, self.k, x.shape[-1])
        return (slots * scores.unsqueeze(-1)).sum(1).view(x.shape)
