"""Experts over two groups (MoE Parallel Folding, arXiv:2504.14960): each expert lives on the ranks of one
etp group, which split its weights, and experts are spread over the ep group."""

import torch

from tutti.torch._groups import communicator
from tutti.torch.experts import TokenSwitch
from tutti.torch.rows import SharedRows


class FoldedSwitch:
    """A TokenSwitch whose experts are split over a second group: each rank of `etp` holds a part of the
    experts of its place in `ep`, and computes partial results for the tokens of all ranks of ep x etp.

        counts = switch.count(topk)                     # int64[etp ranks, ep ranks, experts]
        rows = switch.dispatch(x, topk, counts)         # by expert, etp rank, ep rank, token
        slots = switch.combine(partial_results, topk, counts)       # added over etp: [tokens * k, width]

    `topk`, group_ends() and dispatch_slots() are as in TokenSwitch. The rank at place (t, e) belongs to
    the ep group of all ranks at t, and to the etp group of all at e. Any type; results in 16 bits are added
    in float32. Collective over ep x etp: count, dispatch, combine and their backward passes.

    >>> import torch, tutti, tutti.torch as tt
    >>> def main(comm):
    ...     groups = tt.communicators(tutti.Mesh(etp=2, ep=2), comm)
    ...     switch = tt.FoldedSwitch(groups["ep"], groups["etp"], experts=2)
    ...     topk = torch.tensor([[1], [0]])
    ...     counts = switch.count(topk)
    ...     rows = switch.dispatch(torch.tensor([[1.0], [2.0]]) + 10 * comm.rank, topk, counts)
    ...     return rows.ravel().tolist(), switch.combine(rows, topk, counts).ravel().tolist()
    >>> tutti.run(main, ranks=4)[3]
    ([1.0, 21.0, 11.0, 31.0], [62.0, 64.0])
    """

    def __init__(self, ep=None, etp=None, *, experts, capacity=None):
        self.switch = TokenSwitch(ep, experts=experts, capacity=capacity)
        etp = None if etp is None else communicator(etp)
        self.etp = None if etp is None or etp.ranks == 1 else SharedRows(etp)
        self.experts, self.each = experts, self.switch.each

    def _own(self, counts):
        """Of this rank's experts: int64[etp ranks, ep ranks, experts here]."""
        first = self.switch.comm.rank * self.each
        return counts[:, :, first:first + self.each]

    @property
    def _place(self):
        return 0 if self.etp is None else self.etp.comm.rank

    def count(self, topk):
        counts = self.switch.count(topk).unsqueeze(0)
        if self.etp is None:
            return counts
        return self.etp.gather(counts, torch.ones(self.etp.comm.ranks, dtype=torch.int64))

    def _order(self, counts):
        """For each row by expert its place in the rows as they arrive: by etp rank, then expert."""
        sizes = self._own(counts).sum(1)
        expert = torch.arange(self.each).repeat(sizes.shape[0]).repeat_interleave(sizes.reshape(-1))
        return expert.argsort(stable=True)

    def _spread(self, rows, counts):
        if self.etp is None:
            return rows
        rows = self.etp.gather(rows, self._own(counts).sum((1, 2)))
        return rows.index_select(0, self._order(counts))

    def dispatch(self, x, topk, counts):
        return self._spread(self.switch.dispatch(x, topk, counts[self._place]), counts)

    def dispatch_slots(self, values, topk, counts):
        return self._spread(self.switch.dispatch_slots(values, topk, counts[self._place]), counts)

    def rows_of_experts(self, counts):
        """int64[experts here]: how many rows each has."""
        return self._own(counts).sum((0, 1))

    def group_ends(self, counts):
        """int32[experts here]: where the rows of each end, for grouped_mm."""
        return self.rows_of_experts(counts).cumsum(0).to(torch.int32)

    def combine(self, results, topk, counts):
        if self.etp is not None:
            arrived = results.index_select(0, self._order(counts).argsort())
            results = self.etp.scatter(arrived, self._own(counts).sum((1, 2)))
        return self.switch.combine(results, topk, counts[self._place])

    def close(self):
        """As TokenSwitch.close()."""
        self.switch.close()
