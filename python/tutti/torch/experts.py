"""Experts over the ranks of a group: dispatch and combine of tokens, with least-loaded balancing.

What belongs together is said by two tensors, the chosen experts and the counts of all ranks, so that a
backward pass exchanges no counts again, and micro-batches may overlap in any order.
"""

import numpy
import torch

import tutti
from tutti.errors import InvalidInput
from tutti.torch._groups import communicator
from tutti.torch._handles import bytes_view, find, named, type_name


PER_TOKEN, PER_SLOT = -1, -2  # in the place of a number of rows


# ---- the ops -------------------------------------------------------------------------------------

@torch.library.custom_op("tutti::count_tokens", mutates_args=())
def _count(topk: torch.Tensor, switch: str) -> torch.Tensor:
    return find(switch).exchange_counts(topk)


@_count.register_fake
def _(topk, switch):
    found = find(switch)
    return topk.new_empty((found.comm.ranks, found.experts), dtype=torch.int64)


@torch.library.custom_op("tutti::group_ends", mutates_args=())
def _ends(counts: torch.Tensor, switch: str) -> torch.Tensor:
    return find(switch).own_group_ends(counts)


@_ends.register_fake
def _(counts, switch):
    return counts.new_empty((find(switch).groups,), dtype=torch.int32)


@torch.library.custom_op("tutti::dispatch", mutates_args=())
def _dispatch(x: torch.Tensor, topk: torch.Tensor, counts: torch.Tensor, switch: str,
              rows: int) -> torch.Tensor:
    """x has a row for each token if `rows` is PER_TOKEN, else one for each slot: then `rows` are those of the
    result, if they are known, or PER_SLOT."""
    return find(switch).move_out(x, topk, counts, rows != PER_TOKEN)


@_dispatch.register_fake
def _(x, topk, counts, switch, rows):
    if isinstance(rows, int) and rows < 0:
        rows = torch.library.get_ctx().new_dynamic_size()
    return x.new_empty((rows, x.shape[1]))


@torch.library.custom_op("tutti::combine", mutates_args=())
def _combine(rows: torch.Tensor, topk: torch.Tensor, counts: torch.Tensor,
             switch: str) -> torch.Tensor:
    return find(switch).move_back(rows, topk, counts)


@_combine.register_fake
def _(rows, topk, counts, switch):
    return rows.new_empty((topk.numel(), rows.shape[1]))


def _remember_dispatch(ctx, inputs, output):
    _, topk, counts, ctx.switch, rows = inputs
    ctx.kept = find(ctx.switch)
    ctx.k = topk.shape[1] if rows == PER_TOKEN else 1
    ctx.save_for_backward(topk, counts)


def _dispatch_backward(ctx, grad):
    slots = _combine(grad, *ctx.saved_tensors, ctx.switch)
    return slots.reshape(-1, ctx.k, slots.shape[1]).sum(1), None, None, None, None


def _remember_combine(ctx, inputs, output):
    rows, topk, counts, ctx.switch = inputs
    ctx.kept = find(ctx.switch)
    ctx.rows = rows.shape[0]
    ctx.save_for_backward(topk, counts)


def _combine_backward(ctx, grad):
    return _dispatch(grad, *ctx.saved_tensors, ctx.switch, ctx.rows), None, None, None


_dispatch.register_autograd(_dispatch_backward, setup_context=_remember_dispatch)
_combine.register_autograd(_combine_backward, setup_context=_remember_combine)


@torch.library.custom_op("tutti::helper_weights", mutates_args=())
def _helpers(weights: torch.Tensor, counts: torch.Tensor, switch: str,
             backward: bool) -> torch.Tensor:
    return find(switch).move_weights(weights, counts, backward)


@_helpers.register_fake
def _(weights, counts, switch, backward):
    found = find(switch)
    return weights.new_empty((found.each if backward else found.helpers, *weights.shape[1:]))


def _remember_helpers(ctx, inputs, output):
    _, counts, ctx.switch, _ = inputs
    ctx.kept = find(ctx.switch)
    ctx.save_for_backward(counts)


_helpers.register_autograd(
    lambda ctx, grad: (_helpers(grad, *ctx.saved_tensors, ctx.switch, True), None, None, None),
    setup_context=_remember_helpers)


# ---- the switch ----------------------------------------------------------------------------------

class TokenSwitch:
    """Sends tokens to the ranks of their experts, and results back. Expert e lives on rank
    e // (experts / ranks).

        counts = switch.count(topk)                 # int64[ranks, experts], one small exchange
        rows = switch.dispatch(x, topk, counts)     # this rank's rows: by expert, source rank, token
        ends = switch.group_ends(counts)            # int32: where each expert's rows end, for grouped_mm
        ... results of the shape of rows ...
        slots = switch.combine(results, topk, counts)           # [tokens * k, width]
        y = (slots.view(tokens, k, -1) * scores.unsqueeze(-1)).sum(1)

    `topk` is int64[tokens, k]. Scores stay here, so that they have gradients by PyTorch's own
    arithmetic; rows of tokens that were dropped are 0.

    capacity          rows that this rank has room for, whatever their experts; more is refused on all
                      ranks before anything is sent. None: room is made anew where it lacks
    expert_capacity   tokens that each rank sends to an expert at most, the first ones; -1: all
    helpers, gate     least-loaded experts (LLEP): if the fullest rank has more than `gate` times the
                      mean, experts lend tokens and weights to at most `helpers` slots of other ranks.
                      group_ends() has these behind the rank's own experts, and helper_weights() gives
                      their weights, whose gradients come home.

    Collective, in the same order on all ranks: count, dispatch, combine, helper_weights, their backward
    passes, and close(), which frees the memory for rows.

    >>> import torch, tutti, tutti.torch as tt
    >>> def main(comm):
    ...     switch = tt.TokenSwitch(comm, experts=2, capacity=8)
    ...     topk = torch.tensor([[1, 0], [1, 0]])
    ...     counts = switch.count(topk)
    ...     rows = switch.dispatch(torch.tensor([[1.0], [2.0]]) + 10 * comm.rank, topk, counts)
    ...     slots = switch.combine(rows * (comm.rank + 1), topk, counts)
    ...     return rows.ravel().tolist(), slots.ravel().tolist()
    >>> tutti.run(main, ranks=2)[0]
    ([1.0, 2.0, 11.0, 12.0], [2.0, 1.0, 4.0, 2.0])
    """

    def __init__(self, group=None, *, experts, capacity=None, expert_capacity=-1, helpers=0, gate=1.3,
                 min_tokens=1):
        self.comm = communicator(group)
        ranks = self.comm.ranks
        if experts < 1 or experts % ranks:
            raise InvalidInput(f"TokenSwitch: {experts} experts are not a multiple of {ranks} ranks")
        if helpers < 0 or (helpers and expert_capacity >= 0):
            raise InvalidInput("TokenSwitch: helpers is 0 or more, and a switch that balances drops "
                               "nothing: leave expert_capacity out")
        self.experts, self.capacity, self.expert_capacity = experts, capacity, expert_capacity
        self.helpers, self.gate, self.min_tokens = helpers, gate, min_tokens
        self.each = experts // ranks
        self.groups = self.each + helpers  # of rows on a rank
        self.moves = 0  # of weights to a helper's slot, over all ranks and calls
        self._rows = {}
        self.name = named(self)

    def count(self, topk):
        return _count(topk, self.name)

    def dispatch(self, x, topk, counts):
        return _dispatch(x, topk, counts, self.name, PER_TOKEN)

    def dispatch_slots(self, values, topk, counts):
        """As dispatch(), with a row of its own for each slot: [tokens * k, width], scores say."""
        return _dispatch(values, topk, counts, self.name, PER_SLOT)

    def group_ends(self, counts):
        return _ends(counts, self.name)

    def combine(self, results, topk, counts):
        return _combine(results, topk, counts, self.name)

    def helper_weights(self, weights, counts):
        """[helpers, ...] of the experts' weights [experts / ranks, ...]; 0 where a slot helps nobody."""
        return _helpers(weights, counts, self.name, False)

    def close(self):
        """Frees the memory for rows, on all ranks. Without it that lives as long as the switch; the last
        reference to one must then go at the same place of every rank's program."""
        self._rows.clear()

    # ---- what the ops do ------------------------------------------------------------------------

    def exchange_counts(self, topk):
        if topk.dim() != 2 or topk.dtype not in (torch.int32, torch.int64):
            raise InvalidInput(f"TokenSwitch: topk is {topk.dtype}{list(topk.shape)}; pass "
                               "int64[tokens, k], the experts of each token")
        if topk.numel() and not 0 <= int(topk.min()) <= int(topk.max()) < self.experts:
            raise InvalidInput(f"TokenSwitch: topk has experts {int(topk.min())} to {int(topk.max())}; "
                               f"there are 0 to {self.experts - 1}")
        own = torch.bincount(topk.reshape(-1), minlength=self.experts)
        if self.expert_capacity >= 0:
            own.clamp_(max=self.expert_capacity)
        counts = own.new_empty((self.comm.ranks, self.experts))
        self.comm.all_gather(own, counts)
        return counts

    def _plan(self, counts):
        return tutti.plan_experts(counts.sum(0).tolist(), self.comm.ranks, self.gate,
                                  min_units=self.min_tokens)

    def _slots(self, plan):
        """For each rank the experts that it helps; those beyond its slots stay at home."""
        return [slots[:self.helpers] for slots in tutti.helper_slots(plan)]

    def _group_of(self, slots, run):
        """The group, counted over all ranks, that computes a run of tokens."""
        home = run.expert // self.each
        if run.target != home and run.expert in slots[run.target]:
            return run.target * self.groups + self.each + slots[run.target].index(run.expert)
        return home * self.groups + run.expert % self.each

    def _spread(self, topk, counts):
        """`topk` and `counts` of groups instead of experts."""
        if self.helpers == 0:
            return topk, counts
        plan = self._plan(counts)
        slots = self._slots(plan)
        spread = numpy.zeros((self.comm.ranks, self.comm.ranks * self.groups), numpy.int64)
        chosen = topk.reshape(-1).numpy()
        order = numpy.argsort(chosen, kind="stable")  # slots by expert, in the source's order
        begin = numpy.searchsorted(chosen[order], numpy.arange(self.experts))
        groups = numpy.zeros(chosen.size, numpy.int64)
        for run in tutti.route_tokens(plan, counts.reshape(-1).tolist()):
            group = self._group_of(slots, run)
            spread[run.source, group] += run.length
            if run.source == self.comm.rank:
                first = begin[run.expert] + run.begin
                groups[order[first:first + run.length]] = group
        return torch.from_numpy(groups).view(topk.shape), torch.from_numpy(spread)

    def _index(self, topk, counts, each_slot):
        topk, counts = self._spread(topk, counts)
        index = tutti.build_index(topk.reshape(-1).numpy(), k=1 if each_slot else topk.shape[1],
                                  experts=counts.shape[1], capacity=self.expert_capacity)
        return index, tutti.Counts(ranks=self.comm.ranks, values=counts.reshape(-1).tolist(),
                                   sums=counts.sum(0).tolist())

    def own_group_ends(self, counts):
        _, counts = self._spread(torch.empty(0, 1, dtype=torch.int64), counts)
        first = self.comm.rank * self.groups
        return counts[:, first:first + self.groups].sum(0).cumsum(0).to(torch.int32)

    def _window(self, x, counts):
        """Memory for rows of this type and width, made at their first use; `counts` are of groups."""
        key = type_name(x, "TokenSwitch"), x.shape[1]
        made, room = self._rows.get(key, (None, -1))
        if self.capacity is None:  # all ranks see the same counts, and so make it anew together
            want = max(sum(counts.sums[r * self.groups:(r + 1) * self.groups])
                       for r in range(self.comm.ranks))
            want = room if want <= room else max(want, room + room // 2)
        else:
            want = self.capacity
        if want != room:
            del made
            self._rows.pop(key, None)
            self._rows[key] = (tutti.RowDispatch(self.comm, experts=self.comm.ranks * self.groups,
                                                 capacity=want, dtype=key[0], width=key[1]), want)
        return self._rows[key][0]

    def move_out(self, x, topk, counts, each_slot):
        want = topk.numel() if each_slot else topk.shape[0]
        if x.dim() != 2 or x.shape[0] != want:
            raise InvalidInput(f"TokenSwitch: x has the shape {list(x.shape)}, and topk "
                               f"{list(topk.shape)} needs {want} rows")
        index, counts = self._index(topk, counts, each_slot)
        window = self._window(x, counts)
        window.dispatch(index, counts, x.contiguous())
        rows = x.new_empty((window.offsets[-1], x.shape[1]))
        if rows.numel():
            bytes_view(rows)[:] = window.rows.reshape(-1).view("uint8")
        window.release()
        return rows

    def move_back(self, rows, topk, counts):
        index, counts = self._index(topk, counts, False)
        window = self._window(rows, counts)
        window.prepare(index, counts)
        if rows.shape[0] != window.offsets[-1]:
            raise InvalidInput(f"TokenSwitch: there are results of {rows.shape[0]} rows, and "
                               f"{window.offsets[-1]} rows were dispatched to rank {self.comm.rank}")
        if rows.numel():
            window.rows.reshape(-1).view("uint8")[:] = bytes_view(rows.contiguous())
        results = rows.new_empty((index.rows, rows.shape[1]))
        window.combine(index, results)
        row_of_slot = torch.from_numpy(numpy.asarray(index.row_of_slot, numpy.int64))
        if self.expert_capacity < 0:
            return results[row_of_slot]
        kept = row_of_slot >= 0
        slots = rows.new_zeros((topk.numel(), rows.shape[1]))
        slots[kept] = results[row_of_slot[kept]]
        return slots

    def move_weights(self, weights, counts, backward):
        """Weights of experts to helpers' slots, or the gradients of slots home, added in rank order."""
        first = weights.shape[0]
        want, have = (self.each, self.helpers) if backward else (self.helpers, self.each)
        if first != have:
            raise InvalidInput(f"TokenSwitch: weights have the shape {list(weights.shape)}; the first "
                               f"dimension is {have}")
        elements = weights[0].numel() if first else 0
        parcels = self._weight_parcels(counts, elements)
        wide = weights.float() if weights.dtype != torch.float64 else weights
        result = wide.new_zeros((want, *weights.shape[1:]))
        if parcels:
            plan = tutti.Resharding(ranks=self.comm.ranks, parcels=parcels,
                                    source_sizes=[self.each * elements] * self.comm.ranks,
                                    target_sizes=[self.helpers * elements] * self.comm.ranks)
            mover = tutti.Exchange(tutti.reverse(plan) if backward else plan,
                                   dtype=type_name(wide, "TokenSwitch"),
                                   reduce="sum" if backward else "")
            mover.run(self.comm, wide.contiguous(), result)
            self.moves += len(parcels)
        return result.to(weights.dtype)

    def _weight_parcels(self, counts, elements):
        slots = self._slots(self._plan(counts)) if elements else []
        return [tutti.Parcel(source=expert // self.each, target=target, length=elements,
                             source_offset=expert % self.each * elements,
                             target_offset=slot * elements)
                for target, mine in enumerate(slots) for slot, expert in enumerate(mine)]
