"""Weights of helped experts travel while tokens do: dispatch and the moves of least-loaded experts (LLEP) as
one op, whose gradients travel likewise.
"""

import torch

from tutti.errors import InvalidInput
from tutti.torch._handles import find, type_name
from tutti.torch.experts import TokenSwitch


# ---- the ops -------------------------------------------------------------------------------------

@torch.library.custom_op("tutti::dispatch_with_weights", mutates_args=())
def _dispatch(x: torch.Tensor, topk: torch.Tensor, counts: torch.Tensor, weights: list[torch.Tensor],
              switch: str) -> list[torch.Tensor]:
    return find(switch).move_out_with_weights(x, topk, counts, weights)


@_dispatch.register_fake
def _(x, topk, counts, weights, switch):
    found = find(switch)
    rows = x.new_empty((torch.library.get_ctx().new_dynamic_size(), x.shape[1]))
    return [rows] + [w.new_empty((found.helpers, *w.shape[1:])) for w in weights]


@torch.library.custom_op("tutti::combine_with_weights", mutates_args=())
def _combine(rows: torch.Tensor, topk: torch.Tensor, counts: torch.Tensor, weights: list[torch.Tensor],
             switch: str) -> list[torch.Tensor]:
    return find(switch).move_back_with_weights(rows, topk, counts, weights)


@_combine.register_fake
def _(rows, topk, counts, weights, switch):
    found = find(switch)
    return [rows.new_empty((topk.numel(), rows.shape[1]))] + \
        [w.new_empty((found.each, *w.shape[1:])) for w in weights]


def _remember(ctx, inputs, output):
    _, topk, counts, _, ctx.switch = inputs
    ctx.kept = find(ctx.switch)
    ctx.save_for_backward(topk, counts)


def _backward(ctx, grads):
    topk, counts = ctx.saved_tensors
    slots, *home = _combine(grads[0], topk, counts, grads[1:], ctx.switch)
    return slots.reshape(-1, topk.shape[1], slots.shape[1]).sum(1), None, None, home, None


_dispatch.register_autograd(_backward, setup_context=_remember)


# ---- the moves -----------------------------------------------------------------------------------

class _Move:
    """One tensor of weights on its way to helpers, or of gradients home."""

    def __init__(self, comm, tensor, sent, received):
        """`sent[r]` are the entries of the tensor that go to rank r; so many come from each."""
        entry = tensor.new_empty((1, *tensor.shape[1:])).numel()
        order = torch.tensor([i for some in sent for i in some], dtype=torch.int64)
        self._given = tensor.index_select(0, order)
        self.arrived = tensor.new_empty((sum(received), *tensor.shape[1:]))
        self._request = comm.all_to_all_v(self._given, self.arrived, [len(some) * entry for some in sent],
                                          [n * entry for n in received], wait=False)

    def wait(self):
        self._request.wait()
        return self.arrived


class OverlappedSwitch(TokenSwitch):
    """A TokenSwitch with helpers whose weights move behind the tokens, on a communicator of their own:

        rows, h1, h2 = switch.dispatch_with_weights(x, topk, counts, w1, w2)

    `rows` are dispatch()'s, and h1, h2 what helper_weights() gives of w1 and w2. Weights and their
    gradients travel in their own type; gradients are added in float32 at home, in rank order.

    >>> import torch, tutti, tutti.torch as tt
    >>> def main(comm):
    ...     switch = tt.OverlappedSwitch(comm, experts=2, helpers=1, gate=1.0)
    ...     topk = torch.zeros(4, 1, dtype=torch.int64)                # all to expert 0
    ...     counts = switch.count(topk)
    ...     weights = torch.full((1, 2), comm.rank + 5.0)
    ...     rows, helped = switch.dispatch_with_weights(torch.ones(4, 2), topk, counts, weights)
    ...     return len(rows), helped.tolist()
    >>> tutti.run(main, ranks=2)
    [(4, [[0.0, 0.0]]), (4, [[5.0, 5.0]])]
    """

    def __init__(self, group=None, **options):
        super().__init__(group, **options)
        if self.helpers < 1:
            raise InvalidInput("OverlappedSwitch: helpers is 0; a TokenSwitch is enough then")
        self._beside = self.comm.split(0, self.comm.rank)

    def dispatch_with_weights(self, x, topk, counts, *weights):
        return _dispatch(x, topk, counts, list(weights), self.name)

    def _moves(self, counts):
        """(expert's place at home, its home, helper, slot there) of each, by helper."""
        return [(expert % self.each, expert // self.each, helper, slot)
                for helper, mine in enumerate(self._slots(self._plan(counts)))
                for slot, expert in enumerate(mine)]

    def _check(self, tensors, first):
        for tensor in tensors:
            type_name(tensor, "OverlappedSwitch")
            if tensor.dim() < 1 or tensor.shape[0] != first:
                raise InvalidInput(f"OverlappedSwitch: weights have the shape {list(tensor.shape)}; the first "
                                   f"dimension is {first}")

    def move_out_with_weights(self, x, topk, counts, weights):
        """What the op does."""
        self._check(weights, self.each)
        moves, ranks, rank = self._moves(counts), range(self.comm.ranks), self.comm.rank
        sent = [[place for place, home, helper, _ in moves if (home, helper) == (rank, r)] for r in ranks]
        slots = [slot for r in ranks for _, home, helper, slot in moves if (home, helper) == (r, rank)]
        received = [sum((home, helper) == (r, rank) for _, home, helper, _ in moves) for r in ranks]
        under_way = [_Move(self._beside, w, sent, received) for w in weights] if moves else []
        rows = self.move_out(x, topk, counts, False)
        results = [w.new_zeros((self.helpers, *w.shape[1:])) for w in weights]
        for result, move in zip(results, under_way):
            result[slots] = move.wait()
        self.moves += len(moves) * len(weights)
        return [rows, *results]

    def move_back_with_weights(self, rows, topk, counts, gradients):
        """What the op's gradient does."""
        self._check(gradients, self.helpers)
        moves, ranks, rank = self._moves(counts), range(self.comm.ranks), self.comm.rank
        sent = [[slot for _, home, helper, slot in moves if (home, helper) == (r, rank)] for r in ranks]
        places = [place for r in ranks for place, home, helper, _ in moves if (home, helper) == (rank, r)]
        received = [sum((home, helper) == (rank, r) for _, home, helper, _ in moves) for r in ranks]
        under_way = [_Move(self._beside, g, sent, received) for g in gradients] if moves else []
        self.moves += len(moves) * len(gradients)
        slots = self.move_back(rows, topk, counts)
        wide = [g.new_zeros((self.each, *g.shape[1:]),
                            dtype=torch.float64 if g.dtype == torch.float64 else torch.float32)
                for g in gradients]
        for total, move in zip(wide, under_way):
            for place, gradient in zip(places, move.wait()):
                total[place] += gradient
        return [slots, *(total.to(g.dtype) for total, g in zip(wide, gradients))]


__all__ = ["OverlappedSwitch"]
