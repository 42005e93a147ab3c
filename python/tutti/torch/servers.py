"""Core attention on other ranks than those that hold the tokens (core attention disaggregation, DistCA):
slices of long documents go to ranks with less work, with the keys that they attend to, and come back.
"""

import torch
import torch.nn.functional as F

import tutti
from tutti.errors import InvalidInput
from tutti.torch._groups import communicator
from tutti.torch.movers import Exchange


class AttentionServers:
    """Causal attention of the documents of one batch, each over itself: y = servers(q, k, v).

    q, k, v and y are [tokens of this rank, heads, width], the documents whose home this rank is one behind
    the other, in the order of `documents`: (tokens, home) of all ranks, equal on all. q may have a multiple
    of the heads of k and v. Each query row is attended to in one place with all its keys. Gradients go the
    same ways.

    epsilon        of the mean work, that a rank may lack
    grain          slices are multiples of so many tokens
    query, key_value   bytes of a row, by which the plan weighs moves against work; take them from the
                   model: 2 * heads * width and 4 * key heads * width in bfloat16

    `plan` is the tutti.AttentionPlan. Make one for each batch; that compares plans, and no communicator is
    made. Collective, as each call is.

    >>> import torch, tutti, tutti.torch as tt
    >>> def main(comm):
    ...     servers = tt.AttentionServers([(64, 0), (16, 1)], comm, grain=4)
    ...     x = torch.ones([64, 16][comm.rank], 2, 4)
    ...     return tuple(servers(x, x, x).shape), servers.plan.balance.loads
    >>> tutti.run(main, ranks=2)
    [((64, 2, 4), [1040, 1176]), ((16, 2, 4), [1040, 1176])]
    """

    def __init__(self, documents, group=None, *, epsilon=0.1, grain=128, query=2, key_value=4, scale=None):
        self.comm, self.scale = communicator(group), scale
        self.documents = [tutti.AttentionDocument(tokens=n, home=home) for n, home in documents]
        self.plan = tutti.plan_attention(self.documents, self.comm.ranks, epsilon, grain, query, key_value)
        self.tokens = sum(d.tokens for d in self.documents if d.home == self.comm.rank)
        self.runs = self.plan.runs[self.comm.rank]
        self._queries = Exchange(self.plan.queries, self.comm)
        self._keys = Exchange(self.plan.keys, self.comm)
        self._outputs = Exchange(tutti.reverse(self.plan.queries), self.comm)

    def __call__(self, q, k, v):
        if q.dim() != 3 or k.shape != v.shape or q.shape[0] != self.tokens or k.shape[0] != self.tokens or \
                q.shape[1] % k.shape[1]:
            raise InvalidInput(f"AttentionServers: q {list(q.shape)}, k {list(k.shape)}, v {list(v.shape)} are "
                               f"not [{self.tokens}, heads, width] with heads of q a multiple of k's")
        queries = [q, self._queries(q)]
        keys = [torch.stack([k, v], 1)]
        keys.append(self._keys(keys[0]))
        outputs = [[], []]  # of own rows, and of those that arrived
        for run in self.runs:
            away = run.is_remote
            rows = queries[away].narrow(0, run.query_offset, run.rows)
            both = keys[away].narrow(0, run.key_offset, run.first + run.rows)
            outputs[away].append((run, _attend(rows, both[:, 0], both[:, 1], run.first, self.scale)))
        own, remote = (_assembled(done, like) for done, like in zip(outputs, queries))
        # Zeros that hang on what arrived: every rank takes part in all exchanges of the backward pass.
        nothing = keys[1][:0].sum() + queries[1][:0].sum()
        return own + self._outputs(remote + nothing)


def _assembled(outputs, like):
    """Rows at their places; 0 where there is none."""
    if not outputs:
        return torch.zeros_like(like)
    places = torch.cat([torch.arange(run.query_offset, run.query_offset + run.rows, device=like.device)
                        for run, _ in outputs])
    rows = torch.cat([output for _, output in outputs])
    return torch.zeros_like(like).index_copy(0, places, rows)


def _attend(q, k, v, first, scale):
    """Rows first, first + 1, ... of a document over its keys up to each."""
    mask = q.new_ones(q.shape[0], k.shape[0], dtype=torch.bool).tril(first) if first else None
    q, k, v = (x.transpose(0, 1).unsqueeze(0) for x in (q, k, v))
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None, scale=scale,
                                       enable_gqa=q.shape[1] != k.shape[1])
    return y.squeeze(0).transpose(0, 1)
