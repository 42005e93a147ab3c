"""Experts over two groups (MoE Parallel Folding, arXiv:2504.14960): each expert lives on the ranks of one
etp group, which split its weights, and experts are spread over the ep group."""

import torch

from tutti.errors import InvalidInput
from tutti.torch._groups import communicator
from tutti.torch._handles import find, named, type_name
from tutti.torch.experts import TokenSwitch


# ---- the op --------------------------------------------------------------------------------------

@torch.library.custom_op("tutti::share_rows", mutates_args=())
def _share(x: torch.Tensor, sizes: torch.Tensor, rows: str, add: bool) -> torch.Tensor:
    """The rows of all ranks, or the sum over ranks of this rank's rows; sizes[r] are rank r's."""
    return find(rows).move(x, sizes, add)


@_share.register_fake
def _(x, sizes, rows, add):
    return x.new_empty((torch.library.get_ctx().new_dynamic_size(), *x.shape[1:]))


def _remember(ctx, inputs, output):
    _, sizes, ctx.rows, ctx.add = inputs
    ctx.kept = find(ctx.rows)
    ctx.save_for_backward(sizes)


_share.register_autograd(
    lambda ctx, grad: (_share(grad, *ctx.saved_tensors, ctx.rows, not ctx.add), None, None, None),
    setup_context=_remember)


class SharedRows:
    """Rows of all ranks of a group to all of them, or summed and given out, with as many of each rank as a
    tensor says: sizes is int64[ranks]. Each is the other's gradient. Types of 16 bits are added in float32.

    >>> import torch, tutti, tutti.torch as tt
    >>> def main(comm):
    ...     rows, sizes = tt.SharedRows(comm), torch.tensor([1, 2])
    ...     x = torch.full((comm.rank + 1, 1), float(comm.rank + 1), requires_grad=True)
    ...     y = rows.gather(x, sizes)
    ...     rows.scatter(y, sizes).sum().backward()
    ...     return y.ravel().tolist(), x.grad.ravel().tolist()
    >>> tutti.run(main, ranks=2)[1]
    ([1.0, 2.0, 2.0], [2.0, 2.0])
    """

    def __init__(self, group=None):
        self.comm = communicator(group)
        self.name = named(self)

    def gather(self, x, sizes):
        return _share(x, sizes, self.name, False)

    def scatter(self, x, sizes):
        return _share(x, sizes, self.name, True)

    def move(self, x, sizes, add):
        """What the op does."""
        type_name(x, "SharedRows")
        each = sizes.tolist()
        have, want = each[self.comm.rank], sum(each)
        if add:
            have, want = want, have
        if len(each) != self.comm.ranks or x.dim() < 1 or x.shape[0] != have:
            raise InvalidInput(f"SharedRows: x has the shape {list(x.shape)} and sizes are {each}; rank "
                               f"{self.comm.rank} of {self.comm.ranks} gives {have} rows")
        row = x[0].numel() if x.shape[0] else x.new_empty((1, *x.shape[1:])).numel()
        counts, target = [n * row for n in each], x.new_empty((want, *x.shape[1:]))
        if add:
            self.comm.reduce_scatter_v(x.contiguous(), target, counts)
        else:
            self.comm.all_gather_v(x.contiguous(), target, counts)
        return target


# ---- the switch ----------------------------------------------------------------------------------

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
