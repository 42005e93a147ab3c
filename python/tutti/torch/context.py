"""Attention over a sequence that is divided over ranks: rings with a merge of partial softmax, for any
placement of the sequence, and gathered keys with bits that do not depend on the number of ranks.
"""

import torch

import tutti
from tutti.errors import InvalidInput
from tutti.torch._groups import communicator
from tutti.torch._handles import find, named, type_name
from tutti.torch.movers import Exchange


# The score of a key that is not seen: so low that its weight is 0, and finite, so that derivatives are.
_HIDDEN = -1e30


# ---- partial attention ---------------------------------------------------------------------------

def _scores(q, k, mask, scale):
    scores = torch.matmul(q, k.transpose(-1, -2)) * scale
    return scores if mask is None else scores.masked_fill(~mask, _HIDDEN)


def _weights(scores, lse):
    return torch.exp(scores - lse.unsqueeze(-1))


def _partial(q, k, v, mask, scale):
    scores = _scores(q, k, mask, scale)
    lse = torch.logsumexp(scores, -1)
    return torch.matmul(_weights(scores, lse), v), lse


def merge_partials(output, lse, more, more_lse):
    """Attention over two sets of keys from that over each: outputs [..., width] and logs of sums of
    exponentials [...]; a row without any key has the log -infinity (the merge of FlashAttention and
    Hydragen, arXiv:2402.05099). Returns output and log; differentiable.

    >>> import torch, tutti.torch as tt
    >>> one, none = (torch.ones(1, 2), torch.zeros(1)), (torch.zeros(1, 2), torch.full((1,), -torch.inf))
    >>> tt.context.merge_partials(*one, *none)
    (tensor([[1., 1.]]), tensor([0.]))
    """
    both = torch.logaddexp(lse, more_lse)
    safe = both.masked_fill(both == float("-inf"), 0)
    return (output * torch.exp(lse - safe).unsqueeze(-1) +
            more * torch.exp(more_lse - safe).unsqueeze(-1)), both


def _spread(x, heads):
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], dim=1)


def _gather_heads(x, heads):
    return x if x.shape[1] == heads else x.unflatten(1, (heads, -1)).sum(2)


# ---- the ring ------------------------------------------------------------------------------------

@torch.library.custom_op("tutti::ring_attention", mutates_args=())
def _ring(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
          attention: str) -> tuple[torch.Tensor, torch.Tensor]:
    return find(attention).forward_ring(q, k, v)


@_ring.register_fake
def _(q, k, v, attention):
    return (torch.empty_like(q, memory_format=torch.contiguous_format),
            q.new_empty(q.shape[:-1], dtype=find(attention).wide(q.dtype)))


@torch.library.custom_op("tutti::ring_attention_backward", mutates_args=())
def _ring_backward(grad: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
                   output: torch.Tensor, lse: torch.Tensor,
                   attention: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return find(attention).backward_ring(grad, q, k, v, output, lse)


@_ring_backward.register_fake
def _(grad, q, k, v, output, lse, attention):
    return tuple(torch.empty_like(x, memory_format=torch.contiguous_format) for x in (q, k, v))


def _remember_ring(ctx, inputs, output):
    q, k, v, ctx.attention = inputs
    ctx.kept = find(ctx.attention)
    ctx.save_for_backward(q, k, v, *output)


_ring.register_autograd(
    lambda ctx, grad, _: (*_ring_backward(grad, *ctx.saved_tensors, ctx.attention), None),
    setup_context=_remember_ring)


class ContextAttention:
    """Attention where each rank holds the tokens that `sharding` gives it: y = attention(q, k, v).

    q, k, v are [batch, heads, tokens of this rank, width]; q may have a multiple of the heads of k and v.
    Any tutti.Sharding of the sequence will do: even(), zigzag() and striped() with equal work under the
    causal mask, blocks() and what planners give. `positions` are this rank's places in the sequence, for
    rotary embeddings; shard(x, dim) takes them from a whole tensor.

    causal    a token sees itself and earlier ones
    lengths   of documents that lie one behind the other in the sequence; tokens see their own document
    scale     of scores; by default width ** -0.5
    rotate    "ring": keys and values go round the ranks behind the computation, and partial results are
              merged (Ring Attention, arXiv:2310.01889); in the backward pass gradients go round with them.
              "gather": every rank gets all keys and values, and merges blocks of `chunk` keys in the
              sequence's order for each `chunk` queries. Where shards consist of whole chunks, outputs have
              equal bits on any number of ranks; gradients of keys are added in rank order.

    A block that the mask hides is not computed. Sums are in float32, for float64 in float64. The scores of a
    rank's queries with one rank's keys (ring) or of one chunk with another (gather) are in memory.

    >>> import torch, tutti, tutti.torch as tt
    >>> x = torch.randn(3, 1, 2, 8, 4)
    >>> def main(comm):
    ...     attention = tt.ContextAttention(tutti.zigzag(8, 2), comm)
    ...     own = attention(*attention.shard(x, dim=3))
    ...     whole = torch.nn.functional.scaled_dot_product_attention(*x, is_causal=True)
    ...     return torch.allclose(own, attention.shard(whole, dim=2), atol=1e-6)
    >>> tutti.run(main, ranks=2)
    [True, True]
    """

    def __init__(self, sharding, group=None, *, causal=True, lengths=None, scale=None, rotate="ring",
                 chunk=None):
        self.comm = communicator(group)
        if sharding.ranks != self.comm.ranks or sharding.copies != 1:
            raise InvalidInput(f"ContextAttention: the sharding has {sharding.ranks} ranks and "
                               f"{sharding.copies} copies; the group has {self.comm.ranks}, and a token is "
                               "on one rank")
        if rotate not in ("ring", "gather") or (rotate == "gather") != (chunk is not None):
            raise InvalidInput("ContextAttention: rotate is \"ring\", or \"gather\" with a chunk")
        if lengths is not None and sum(lengths) != sharding.size:
            raise InvalidInput(f"ContextAttention: the documents have {sum(lengths)} tokens, the sequence "
                               f"{sharding.size}")
        self.sharding, self.causal, self.scale = sharding, causal, scale
        self.rotate, self.chunk = rotate, chunk
        self._places = [torch.cat([torch.arange(s.begin, s.begin + s.length) for s in sharding.shards
                                   if s.rank == rank] or [torch.arange(0)])
                        for rank in range(sharding.ranks)]
        self._document = None if lengths is None else torch.repeat_interleave(
            torch.arange(len(lengths)), torch.tensor(lengths))
        self.computed = 0  # blocks, of all calls
        if rotate == "gather":
            self._gather = Exchange(tutti.reshard(sharding, tutti.replicated(sharding.size,
                                                                             sharding.ranks)), self.comm)
        self.name = named(self)

    @property
    def positions(self):
        return self._places[self.comm.rank]

    def shard(self, x, dim):
        """This rank's tokens of a tensor that has all of them along `dim`."""
        return x.index_select(dim, self.positions)

    def __call__(self, q, k, v):
        if self.rotate == "gather":
            return self._gathered(q, k, v)
        return _ring(q, k, v, self.name)[0]

    @staticmethod
    def wide(dtype):
        return dtype if dtype == torch.float64 else torch.float32

    def _check(self, q, k, v):
        type_name(q, "ContextAttention")
        own = len(self.positions)
        if q.dim() != 4 or k.shape != v.shape or q.shape[2] != own or k.shape[2] != own or \
                q.shape[1] % k.shape[1] or q.shape[3] != k.shape[3]:
            raise InvalidInput(f"ContextAttention: q {list(q.shape)}, k {list(k.shape)}, v {list(v.shape)} "
                               f"are not [batch, heads, {own}, width] with heads of q a multiple of k's")

    def _mask(self, queries, keys):
        """Which query sees which key: a mask, None for all, False for none."""
        mask = None
        if self.causal:
            if len(keys) == 0 or len(queries) == 0 or int(queries.max()) < int(keys.min()):
                return False
            if int(queries.min()) < int(keys.max()):
                mask = queries.unsqueeze(1) >= keys.unsqueeze(0)
        if self._document is not None:
            same = self._document[queries].unsqueeze(1) == self._document[keys].unsqueeze(0)
            mask = same if mask is None else mask & same
            if not mask.any():
                return False
        return mask

    # ---- what the ops of the ring do ------------------------------------------------------------

    def _pass_on(self, block, source):
        """Starts to send a block, which came from `source`, to the next rank, and to receive the block of
        the rank before. Returns that and the request."""
        ranks, rank = self.comm.ranks, self.comm.rank
        shape = list(block.shape)
        shape[3] = len(self._places[(source - 1) % ranks])
        arriving = block.new_empty(shape)
        sent, received = [0] * ranks, [0] * ranks
        sent[(rank + 1) % ranks] = block.numel()
        received[(rank - 1) % ranks] = arriving.numel()
        return arriving, self.comm.all_to_all_v(block, arriving, sent, received, wait=False)

    def forward_ring(self, q, k, v):
        self._check(q, k, v)
        ranks, rank, heads = self.comm.ranks, self.comm.rank, q.shape[1]
        wide, scale = q.to(self.wide(q.dtype)), self.scale or q.shape[-1] ** -0.5
        output = torch.zeros_like(wide, memory_format=torch.contiguous_format)
        lse = wide.new_full(wide.shape[:-1], _HIDDEN)
        block = torch.stack([k, v])
        for step in range(ranks):
            source = (rank - step) % ranks
            arriving = request = None
            if step + 1 < ranks:
                arriving, request = self._pass_on(block, source)
            mask = self._mask(self.positions, self._places[source])
            if mask is not False:
                keys, values = (_spread(x.to(wide.dtype), heads) for x in block)
                output, lse = merge_partials(output, lse, *_partial(wide, keys, values, mask, scale))
                self.computed += 1
            if request is not None:
                request.wait()
                block = arriving
        return output.to(q.dtype), lse

    def backward_ring(self, grad, q, k, v, output, lse):
        ranks, rank, heads = self.comm.ranks, self.comm.rank, q.shape[1]
        wide, scale = q.to(lse.dtype), self.scale or q.shape[-1] ** -0.5
        grad = grad.to(lse.dtype)
        delta = (grad * output.to(lse.dtype)).sum(-1, keepdim=True)
        grad_q = torch.zeros_like(wide, memory_format=torch.contiguous_format)
        block, gradients = torch.stack([k, v]), None
        for step in range(ranks):
            source = (rank - step) % ranks
            arriving = request = None
            if step + 1 < ranks:
                arriving, request = self._pass_on(block, source)
            added = torch.zeros_like(block, dtype=lse.dtype)
            mask = self._mask(self.positions, self._places[source])
            if mask is not False:
                keys, values = (_spread(x.to(wide.dtype), heads) for x in block)
                p = _weights(_scores(wide, keys, mask, scale), lse)
                inner = p * (torch.matmul(grad, values.transpose(-1, -2)) - delta) * scale
                grad_q += torch.matmul(inner, keys)
                added[0] = _gather_heads(torch.matmul(inner.transpose(-1, -2), wide), k.shape[1])
                added[1] = _gather_heads(torch.matmul(p.transpose(-1, -2), grad), k.shape[1])
            if request is not None:
                request.wait()
                block = arriving
            gradients = added if gradients is None else gradients + added
            if ranks > 1:  # they follow their keys, one step behind, and come home with the last
                gradients, request = self._pass_on(gradients, source)
                request.wait()
        return grad_q.to(q.dtype), *(x.to(q.dtype, copy=True) for x in gradients)

    # ---- gathered keys --------------------------------------------------------------------------

    def _gathered(self, q, k, v):
        self._check(q, k, v)
        heads, scale = q.shape[1], self.scale or q.shape[-1] ** -0.5
        wide = q.to(self.wide(q.dtype))
        rows = torch.stack([k, v]).to(wide.dtype).permute(3, 0, 1, 2, 4)  # tokens first
        keys, values = self._gather(rows).permute(1, 2, 3, 0, 4).unbind(0)
        keys, values = _spread(keys, heads), _spread(values, heads)
        outputs = []
        for begin in range(0, wide.shape[2], self.chunk):
            places = self.positions[begin:begin + self.chunk]
            queries = wide[:, :, begin:begin + self.chunk].contiguous()
            outputs.append(self._over_chunks(queries, places, keys, values, scale))
        return (torch.cat(outputs, 2) if outputs else wide).to(q.dtype)

    def _over_chunks(self, queries, places, keys, values, scale):
        output = torch.zeros_like(queries)
        lse = queries.new_full(queries.shape[:-1], _HIDDEN)
        for first in range(0, self.sharding.size, self.chunk):
            some = torch.arange(first, min(first + self.chunk, self.sharding.size))
            mask = self._mask(places, some)
            if mask is False:
                continue
            parts = (x[:, :, some[0]:some[-1] + 1].contiguous() for x in (keys, values))
            output, lse = merge_partials(output, lse, *_partial(queries, *parts, mask, scale))
            self.computed += 1
        return output
