"""Movers on tensors: exchanges by a plan and sums over ranks, for autograd and torch.compile.

Everything here is a custom op behind an object that holds plan and communicator. Make the objects once,
outside of what is compiled, and keep them. Every rank of the communicator makes the same calls in the
same order, in the backward pass, too.

Memory: tensors in host memory, or on CUDA devices: then calls go on PyTorch's current stream, and the device
        that is current where the communicator is made is the one. Results are new tensors.
Types:  any that the library has; what is added in a type of 16 or 8 bits is added in float32.
"""

import math

import torch

import tutti
from tutti.errors import InvalidInput
from tutti.torch._groups import communicator
from tutti.torch._handles import HOST, STREAMS, find, named, stream_of, type_name

# Types that an exchange adds, those of 16 bits in float32.
_SUMMED = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


# ---- exchanges -----------------------------------------------------------------------------------

@torch.library.custom_op("tutti::exchange", mutates_args=())
def _exchange(x: torch.Tensor, plan: str, backward: bool) -> torch.Tensor:
    return find(plan).move(x, backward)


@_exchange.register_fake
def _(x, plan, backward):
    return x.new_empty((find(plan).rows(not backward), *x.shape[1:]))


def _remember_exchange(ctx, inputs, output):
    _, ctx.plan, ctx.backward = inputs
    ctx.kept = find(ctx.plan)


_exchange.register_autograd(
    lambda ctx, grad: (_exchange(grad, ctx.plan, not ctx.backward), None, None),
    setup_context=_remember_exchange)


class _Direction:
    """One direction of an exchange: what is known of it before the type of rows is."""

    def __init__(self, plan, rank):
        self.plan = plan
        self.parcels = plan.parcels
        ends = sorted((p.target, p.target_offset, p.length) for p in self.parcels)
        self.meets = any(a[0] == b[0] and a[1] + a[2] > b[1] for a, b in zip(ends, ends[1:]))
        own = sum(length for target, _, length in ends if target == rank)
        self.covered = not self.meets and own == plan.target_sizes[rank]
        self.movers = {}

    def in_elements(self, row):
        """The same plan for rows taken apart, as sums need it."""
        if row == 1:
            return self.plan
        return tutti.Resharding(
            ranks=self.plan.ranks, source_sizes=[n * row for n in self.plan.source_sizes],
            target_sizes=[n * row for n in self.plan.target_sizes],
            parcels=[tutti.Parcel(source=p.source, target=p.target, length=p.length * row,
                                  source_offset=p.source_offset * row,
                                  target_offset=p.target_offset * row) for p in self.parcels])

    def mover(self, dtype, row):
        if (dtype, row) not in self.movers:
            self.movers[dtype, row] = (
                tutti.Exchange(self.in_elements(row), dtype=dtype, reduce="sum") if self.meets else
                tutti.Exchange(self.plan, dtype=dtype, row=row))
        return self.movers[dtype, row]


class Exchange:
    """A tutti.Resharding on tensors: y = exchange(x).

    The first dimension of `x` is the plan's local buffer on this rank, the others are a row. The
    gradient goes the same ways back; where the plan handed an element to several ranks, their gradients
    are added, in ascending rank. With `reduce="sum"` elements may meet in the forward pass, too.

    >>> import torch, tutti, tutti.torch as tt
    >>> plan = tutti.reshard(tutti.even(8, 2), tutti.zigzag(8, 2))
    >>> def main(comm):
    ...     x = (torch.arange(4.0) + 4 * comm.rank).requires_grad_()
    ...     y = tt.Exchange(plan, comm)(x)
    ...     (y * y).sum().backward()
    ...     return y.tolist(), x.grad.tolist()
    >>> tutti.run(main, ranks=2)[0]
    ([0.0, 1.0, 6.0, 7.0], [0.0, 2.0, 4.0, 6.0])
    """

    def __init__(self, plan, group=None, *, reduce=None):
        if reduce not in (None, "sum"):
            raise InvalidInput(f"Exchange: reduce is {reduce!r}; pass \"sum\" or nothing")
        self.comm = communicator(group)
        if self.comm.ranks != plan.ranks:
            raise InvalidInput(f"Exchange: the plan has {plan.ranks} ranks, the group {self.comm.ranks}")
        self.plan = plan
        self._directions = [_Direction(plan, self.comm.rank),
                            _Direction(tutti.reverse(plan), self.comm.rank)]
        if self._directions[0].meets and reduce is None:
            raise InvalidInput("Exchange: elements of several ranks meet at one place; pass "
                               "reduce=\"sum\" if they are to be added")
        self.name = named(self)

    def __call__(self, x):
        return _exchange(x, self.name, False)

    def __repr__(self):
        return f"<tutti.torch.Exchange: {self.rows(False)} rows to {self.rows(True)}, {self.comm}>"

    def rows(self, target):
        """This rank's rows, of the source or the target."""
        sizes = self.plan.target_sizes if target else self.plan.source_sizes
        return sizes[self.comm.rank]

    def move(self, x, backward):
        """What the op does: rows of the source to the target, or back."""
        have, want = self.rows(backward), self.rows(not backward)
        if x.dim() < 1 or x.shape[0] != have:
            raise InvalidInput(f"Exchange: x has the shape {list(x.shape)}; rank {self.comm.rank} of the "
                               f"plan has {have} rows" + (" of gradients" if backward else ""))
        name = type_name(x, "Exchange", STREAMS)
        row = math.prod(x.shape[1:])
        direction = self._directions[backward]
        wide = direction.meets and x.dtype not in _SUMMED
        source = (x.float() if wide else x).contiguous()
        make = source.new_empty if direction.covered else source.new_zeros
        target = make((want, *x.shape[1:]))
        if row > 0:
            with stream_of(x):
                direction.mover("float32" if wide else name, row).run(self.comm, source, target)
        return target.to(x.dtype)


def ragged_all_gather(counts, group=None):
    """An Exchange that gives every rank the rows of all ranks: counts[r] rows are rank r's. The gradient
    is a reduce-scatter with these counts.

    >>> import torch, tutti, tutti.torch as tt
    >>> def main(comm):
    ...     x = torch.full((comm.rank + 1, 2), float(comm.rank), requires_grad=True)
    ...     y = tt.ragged_all_gather([1, 2], comm)(x)
    ...     y.sum().backward()
    ...     return y[:, 0].tolist(), x.grad[0].tolist()
    >>> tutti.run(main, ranks=2)[1]
    ([0.0, 1.0, 1.0], [2.0, 2.0])
    """
    shares = tutti.contiguous(counts)
    return Exchange(tutti.reshard(shares, tutti.replicated(shares.size, len(counts))), group)


def ragged_reduce_scatter(counts, group=None):
    """An Exchange that adds the rows of all ranks and leaves counts[r] of them on rank r. The gradient is
    an all-gather with these counts."""
    gather = ragged_all_gather(counts, group)
    return Exchange(tutti.reverse(gather.plan), gather.comm, reduce="sum")


# ---- sums ----------------------------------------------------------------------------------------

@torch.library.custom_op("tutti::all_reduce_together", mutates_args=())
def _sum(tensors: list[torch.Tensor], sums: str, add: bool, add_back: bool) -> list[torch.Tensor]:
    return find(sums).add(tensors, add)


@_sum.register_fake
def _(tensors, sums, add, add_back):
    return [torch.empty_like(x, memory_format=torch.contiguous_format) for x in tensors]


def _remember_sum(ctx, inputs, output):
    _, ctx.sums, ctx.add, ctx.add_back = inputs
    ctx.kept = find(ctx.sums)


_sum.register_autograd(
    lambda ctx, grads: (_sum(grads, ctx.sums, ctx.add_back, ctx.add), None, None, None),
    setup_context=_remember_sum)


class Sums:
    """Sums over the ranks of a group, with gradients. Each method takes one tensor or several; several
    progress together, as one group, and may have different types and shapes.

    all_reduce()    y = sum of x over ranks; gradients are summed as well: that is the derivative where
                    every rank has a loss of its own
    enter()         y = x, and gradients are summed: a replicated tensor enters work that ranks divide
    leave()         y = sum of x, and gradients pass: partial results leave it, and what follows is the
                    same on all ranks (enter and leave are f and g of Megatron-LM, arXiv:1909.08053)

    deterministic   equal inputs give equal bits, whatever the algorithm
    wire            "float32" or "float64": tensors of a call go as one collective, cast to it, added and
                    rounded once (BOOST); each is of that type or of 16 bits
    calls           counts calls over the ranks, forward and backward

    >>> import torch, tutti, tutti.torch as tt
    >>> def main(comm):
    ...     sums = tt.Sums(comm)
    ...     x = torch.full((2,), comm.rank + 1.0, requires_grad=True)
    ...     y, n = sums.leave(x * x, torch.tensor([1]))
    ...     y.sum().backward()
    ...     return y.tolist(), n.tolist(), x.grad.tolist()
    >>> tutti.run(main, ranks=2)[1]
    ([5.0, 5.0], [2], [4.0, 4.0])
    """

    def __init__(self, group=None, *, deterministic=False, wire=None):
        self.comm = communicator(group)
        self.deterministic, self.wire = deterministic, wire
        self.calls = 0
        self.name = named(self)

    def _apply(self, tensors, add, add_back):
        results = _sum(list(tensors), self.name, add, add_back)
        return results[0] if len(tensors) == 1 else results

    def all_reduce(self, *tensors):
        return self._apply(tensors, True, True)

    def enter(self, *tensors):
        return self._apply(tensors, False, True)

    def leave(self, *tensors):
        return self._apply(tensors, True, False)

    def add(self, tensors, add):
        """What the op does: copies, added over the ranks if `add`."""
        for x in tensors:
            type_name(x, "Sums", STREAMS if self.wire is None else HOST)
        copies = [x.clone(memory_format=torch.contiguous_format) for x in tensors]
        if not add or not copies:
            return copies
        self.calls += 1
        if self.wire is None:
            with stream_of(copies[0]):
                tutti.all_reduce_together(self.comm, copies, self.deterministic)
        else:
            tutti.all_reduce_fused(self.comm, copies, self.wire, self.deterministic)
        return copies
