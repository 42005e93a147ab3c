"""Sequence parallelism whose groups are chosen for each batch (FlexSP): long sequences get many ranks, short
ones few, and every group computes at once.

Inside a group tokens of a sequence are divided evenly, and attention trades tokens for heads and back
(DeepSpeed-Ulysses, arXiv:2309.14509).
"""

import torch
import torch.nn.functional as F

import tutti
from tutti.errors import InvalidInput
from tutti.torch._groups import communicator
from tutti.torch.movers import Exchange
from tutti.torch.rows import TradedRows


def _share(length, part, parts):
    """begin and length of a part of a sequence that is divided evenly, longer parts first."""
    each, more = divmod(length, parts)
    return part * each + min(part, more), each + (part < more)


class SequenceGroups:
    """Chooses groups for batches. `cost` is a tutti.FitCost, equal on all ranks; the group has a power of
    two of ranks. Communicators of all sizes of groups are made here, once, so that batches make none.

        groups = tt.SequenceGroups(cost, group)
        for lengths, homes, x in batches:            # of all sequences; x: rows of those that live here
            for part in groups.plan(lengths, homes):
                y = model(part.bring(x), part)       # which calls part.attention(q, k, v)
                ... part.send_back(y) ...

    Collective: making it, and each plan().
    """

    def __init__(self, cost, group=None):
        self.comm, self.cost = communicator(group), cost
        ranks = self.comm.ranks
        if ranks & (ranks - 1):
            raise InvalidInput(f"SequenceGroups: {ranks} ranks are no power of two")
        self._groups = {1: self.comm} if ranks == 1 else {}
        size = 1
        while size <= ranks and ranks > 1:
            self._groups[size] = self.comm if size == ranks else self.comm.split(self.comm.rank // size)
            size *= 2
        self._trades = {size: TradedRows(made) for size, made in self._groups.items()}

    def plan(self, lengths, homes, *, least=1):
        """SequencePart objects of a batch, one for each micro-batch, in order; `homes[i]` is the rank whose
        rows have sequence i, those of a rank one behind the other. Raises Infeasible where a sequence fits
        nowhere."""
        lengths, homes = list(lengths), list(homes)
        if len(lengths) != len(homes) or any(not 0 <= home < self.comm.ranks for home in homes):
            raise InvalidInput(f"SequenceGroups: {len(lengths)} sequences have {len(homes)} homes, which are "
                               f"ranks 0 to {self.comm.ranks - 1}")
        batch = tutti.split_batch(lengths, self.comm.ranks, self.cost, least)
        return [SequencePart(self, chosen, lengths, homes) for chosen in batch.micro_batches]


class SequencePart:
    """A micro-batch as groups see it. On this rank: `sequences`, the numbers of its group's; `positions`,
    of each row its place in its sequence; `ranks`, the group's. `groups` is the whole tutti.GroupPlan."""

    def __init__(self, owner, plan, lengths, homes):
        self._comm, self.groups = owner.comm, plan
        mine = next(g for g in plan.groups if g.ranks.place_of(owner.comm.rank) >= 0)
        self.ranks, self.sequences = mine.ranks, list(mine.sequences)
        self._lengths = [lengths[s] for s in self.sequences]
        self._trade = owner._trades[len(mine.ranks)]
        place = mine.ranks.place_of(owner.comm.rank)
        shares = [_share(n, place, len(mine.ranks)) for n in self._lengths]
        self.positions = torch.cat([torch.arange(begin, begin + n) for begin, n in shares]
                                   or [torch.arange(0)])
        self._rows = [sum(_share(n, p, len(mine.ranks))[1] for n in self._lengths)
                      for p in range(len(mine.ranks))]
        self._order = self._arrival()
        self._bring = Exchange(self._resharding(lengths, homes), owner.comm)
        self._back = None

    def _resharding(self, lengths, homes):
        """Rows from homes to the ranks of the sequences' groups."""
        ranks, begins, sizes = self._comm.ranks, [], [0] * self._comm.ranks
        for length, home in zip(lengths, homes):
            begins.append(sizes[home])
            sizes[home] += length
        parcels, targets = [], [0] * ranks
        for group in self.groups.groups:
            for number in group.sequences:
                for place, rank in enumerate(group.ranks):
                    first, count = _share(lengths[number], place, len(group.ranks))
                    if count:
                        parcels.append(tutti.Parcel(source=homes[number], target=rank, length=count,
                                                    source_offset=begins[number] + first,
                                                    target_offset=targets[rank]))
                    targets[rank] += count
        return tutti.Resharding(ranks=ranks, parcels=parcels, source_sizes=sizes, target_sizes=targets)

    def _arrival(self):
        """For each row of the group's sequences, in their order, its place in the rows by rank."""
        ranks, places, begins = len(self.ranks), [], []
        for rank in range(ranks):
            begins.append(sum(self._rows[:rank]))
        for length in self._lengths:
            for rank in range(ranks):
                count = _share(length, rank, ranks)[1]
                places.append(torch.arange(begins[rank], begins[rank] + count))
                begins[rank] += count
        return torch.cat(places or [torch.arange(0)])

    def bring(self, x):
        """This rank's rows of the micro-batch, from rows of all sequences that live here."""
        return self._bring(x)

    def send_back(self, y):
        """Rows at home, from rows of this rank; 0 where another micro-batch has the sequence."""
        if self._back is None:
            self._back = Exchange(tutti.reverse(self._bring.plan), self._comm)
        return self._back(y)

    def _heads(self, x):
        """[rows of the group, heads here, width], in the sequences' order."""
        ranks = len(self.ranks)
        parts = x.unflatten(1, (ranks, -1)).transpose(0, 1).flatten(0, 1)
        own = torch.tensor(self._rows)
        sent = torch.full((ranks,), x.shape[0], dtype=torch.int64)
        return self._trade(parts, sent, own).index_select(0, self._order.to(x.device))

    def _tokens(self, x):
        """[rows here, all heads, width] of what _heads() gave."""
        ranks, here = len(self.ranks), len(self.positions)
        own = torch.tensor(self._rows)
        received = torch.full((ranks,), here, dtype=torch.int64)
        parts = self._trade(x.index_select(0, self._order.argsort().to(x.device)), own, received)
        return parts.unflatten(0, (ranks, here)).transpose(0, 1).flatten(1, 2)

    def attention(self, q, k, v, *, causal=True, scale=None):
        """Attention of each sequence over itself: [rows here, heads, width] each, whose heads the group's
        size divides."""
        ranks = len(self.ranks)
        if q.dim() != 3 or k.shape != v.shape or q.shape[0] != len(self.positions) or \
                q.shape[0] != k.shape[0] or q.shape[1] % ranks or k.shape[1] % ranks:
            raise InvalidInput(f"SequencePart: q {list(q.shape)}, k {list(k.shape)}, v {list(v.shape)} are not "
                               f"[{len(self.positions)}, heads, width] with heads that {ranks} ranks divide")
        if ranks == 1:
            q, k, v = (x.index_select(0, self._order.to(x.device)) for x in (q, k, v))
        else:
            q, k, v = (self._heads(x) for x in (q, k, v))
        outputs = [_attend(*(x.narrow(0, begin, n) for x in (q, k, v)), causal, scale)
                   for begin, n in zip(_begins(self._lengths), self._lengths)]
        y = torch.cat(outputs) if outputs else q
        return y if ranks == 1 else self._tokens(y)


def _begins(lengths):
    return [sum(lengths[:i]) for i in range(len(lengths))]


def _attend(q, k, v, causal, scale):
    """[tokens, heads, width] each, of one sequence."""
    q, k, v = (x.transpose(0, 1).unsqueeze(0) for x in (q, k, v))
    y = F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale,
                                       enable_gqa=q.shape[1] != k.shape[1])
    return y.squeeze(0).transpose(0, 1)
