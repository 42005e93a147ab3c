"""Rows of tensors between ranks, with counts that change from call to call: counts are tensors, known to
the ranks that they concern. Movers by plans, whose counts stay, are in movers.py."""

import torch

from tutti.errors import InvalidInput
from tutti.torch._groups import communicator
from tutti.torch._handles import STREAMS, find, named, stream_of, type_name


# ---- rows of all ranks ---------------------------------------------------------------------------

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
        type_name(x, "SharedRows", STREAMS)
        each = sizes.tolist()
        have, want = each[self.comm.rank], sum(each)
        if add:
            have, want = want, have
        if len(each) != self.comm.ranks or x.dim() < 1 or x.shape[0] != have:
            raise InvalidInput(f"SharedRows: x has the shape {list(x.shape)} and sizes are {each}; rank "
                               f"{self.comm.rank} of {self.comm.ranks} gives {have} rows")
        row = x.new_empty((1, *x.shape[1:])).numel()
        counts, target = [n * row for n in each], x.new_empty((want, *x.shape[1:]))
        with stream_of(x):
            if add:
                self.comm.reduce_scatter_v(x.contiguous(), target, counts)
            else:
                self.comm.all_gather_v(x.contiguous(), target, counts)
        return target


# ---- rows to each rank ---------------------------------------------------------------------------

@torch.library.custom_op("tutti::trade_rows", mutates_args=())
def _trade(x: torch.Tensor, sent: torch.Tensor, received: torch.Tensor, rows: str) -> torch.Tensor:
    return find(rows).move(x, sent, received)


@_trade.register_fake
def _(x, sent, received, rows):
    return x.new_empty((torch.library.get_ctx().new_dynamic_size(), *x.shape[1:]))


def _remember_trade(ctx, inputs, output):
    _, sent, received, ctx.rows = inputs
    ctx.kept = find(ctx.rows)
    ctx.save_for_backward(received, sent)


_trade.register_autograd(
    lambda ctx, grad: (_trade(grad, *ctx.saved_tensors, ctx.rows), None, None, None),
    setup_context=_remember_trade)


class TradedRows:
    """Rows from each rank to each: y = rows(x, sent, received), where sent[r] rows of x go to rank r, one
    behind the other, and received[r] come from it. Both are int64[ranks]. The gradient goes back likewise.

    >>> import torch, tutti, tutti.torch as tt
    >>> def main(comm):
    ...     x = torch.tensor([[0.0], [1.0], [1.0]]) + 10 * comm.rank
    ...     sent = torch.tensor([1, 2])
    ...     received = sent[comm.rank].repeat(2)
    ...     return tt.TradedRows(comm)(x, sent, received).ravel().tolist()
    >>> tutti.run(main, ranks=2)
    [[0.0, 10.0], [1.0, 1.0, 11.0, 11.0]]
    """

    def __init__(self, group=None):
        self.comm = communicator(group)
        self.name = named(self)

    def __call__(self, x, sent, received):
        return _trade(x, sent, received, self.name)

    def move(self, x, sent, received):
        """What the op does."""
        type_name(x, "TradedRows", STREAMS)
        given, got = sent.tolist(), received.tolist()
        if len(given) != self.comm.ranks or len(got) != self.comm.ranks or x.dim() < 1 or \
                x.shape[0] != sum(given):
            raise InvalidInput(f"TradedRows: x has the shape {list(x.shape)}, {given} rows go out and {got} "
                               f"come, of {self.comm.ranks} ranks")
        target = x.new_empty((sum(got), *x.shape[1:]))
        row = x.new_empty((1, *x.shape[1:])).numel()
        with stream_of(x):
            self.comm.all_to_all_v(x.contiguous(), target, [n * row for n in given], [n * row for n in got])
        return target
