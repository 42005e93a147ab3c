#!/usr/bin/env python3
"""Nano models on parts of tutti.torch that are no parallelism of their own, on this source as text.

    torchrun --nproc_per_node=4 examples/torch_nano_parts.py low_rank
    torchrun --nproc_per_node=4 examples/torch_nano_parts.py activations
    torchrun --nproc_per_node=4 examples/torch_nano_parts.py groups
    torchrun --nproc_per_node=4 examples/torch_nano_parts.py servers

low_rank      blocks of low-rank layers, divided at their wide sides (BOOST): four collectives a block
activations   each rank measures its blocks and has a third of their activations copied or recomputed (ProTrain)
groups        documents of unequal lengths, and groups of ranks chosen for each batch (FlexSP)
servers       the same documents at home, and slices of the long ones attended to elsewhere (CAD)

In 4 steps losses stay within 1e-5 of one process's, and leaving out one gradient (--drop) does not.
"""

import argparse
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

import tutti
import tutti.torch as tt

WIDTH, HEADS, LAYERS, CONTEXT, SEQUENCES, INNER = 32, 4, 2, 32, 4, 8
LENGTHS = [48, 20, 7, 33, 5, 15]  # of the documents of a batch
with open(os.path.abspath(__file__), encoding="utf-8") as source:
    TEXT = source.read()
LETTERS = sorted(set(TEXT))


def text(step, lengths):
    """Letters of documents, and those that follow each."""
    generator = torch.Generator().manual_seed(step)
    begins = torch.randint(len(TEXT) - max(lengths) - 1, (len(lengths),), generator=generator).tolist()
    codes = [torch.tensor([LETTERS.index(c) for c in TEXT[b:b + n + 1]]) for b, n in zip(begins, lengths)]
    return [code[:-1] for code in codes], [code[1:] for code in codes]


class Block(nn.Module):
    """Rows of tokens; `attend` gets queries, keys and values of [tokens, heads, width of a head]."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.heads = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.network = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x, attend):
        q, k, v = self.heads(self.norms[0](x)).unflatten(-1, (3, HEADS, -1)).unbind(-3)
        x = x + self.out(attend(q, k, v).flatten(-2))
        return x + self.network(self.norms[1](x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.letters = nn.Embedding(len(LETTERS), WIDTH)
        self.places = nn.Embedding(max(LENGTHS + [CONTEXT]), WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, len(LETTERS), bias=False)

    def forward(self, letters, positions, attend):
        x = self.letters(letters) + self.places(positions)
        for block in self.blocks:
            x = block(x, attend)
        return self.head(x)


class LowRankModel(nn.Module):
    """Every rank has its part of the width of all layers."""

    def __init__(self, sums):
        super().__init__()
        ranks, rank = sums.comm.ranks, sums.comm.rank
        generator = torch.Generator().manual_seed(0)
        tables = [torch.randn(rows, WIDTH, generator=generator) * 0.3
                  for rows in (len(LETTERS), CONTEXT, len(LETTERS))]
        self.letters, self.places, self.head = (nn.Parameter(t.chunk(ranks, 1)[rank].clone()) for t in tables)
        self.sums = sums
        self.blocks = nn.ModuleList(tt.LowRankBlock(WIDTH, 2 * WIDTH, HEADS, INNER, sums, seed=i,
                                                    recompute=i == 1) for i in range(LAYERS))

    def forward(self, letters):
        x = self.letters[letters] + self.places
        for block in self.blocks:
            x = block(x)
        return self.sums.leave(x @ self.head.T)


def loss_of(y, targets, tokens):
    """A rank's part of the mean over all tokens."""
    return F.cross_entropy(y.flatten(0, -2), targets.flatten(), reduction="sum") / tokens


def low_rank():
    """Every rank computes the whole loss, of its part of the width."""
    sums = tt.Sums(wire="float32")
    model = LowRankModel(sums)

    def loss(step):
        x, targets = (torch.stack(t) for t in text(step, [CONTEXT] * SEQUENCES))
        return loss_of(model(x), targets, x.numel())
    return model, loss, False


def causal(q, k, v):
    """Attention of [sequences, tokens, heads, width]."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)


def activations():
    """Every rank has some of the sequences, and a plan of its own."""
    model, comm = Model(), tt.communicator()

    def loss(step):
        x, targets = (torch.stack(t).chunk(comm.ranks)[comm.rank]
                      for t in text(step, [CONTEXT] * SEQUENCES))
        return loss_of(model(x, torch.arange(CONTEXT), causal), targets, SEQUENCES * CONTEXT)
    measured = tt.measure_blocks(model.blocks, lambda: loss(0))
    model.zero_grad()
    whole = tutti.judge(measured, tutti.search_memory(measured, limit=1 << 40)).peak
    third = sum(block.activations for block in measured.blocks) // 3
    plan = tutti.search_memory(measured, limit=whole - third)
    tt.place_activations(model.blocks, tutti.activation_places(measured, plan))
    return model, loss, True


def homes(ranks):
    return [i % ranks for i in range(len(LENGTHS))]


def of_home(documents, comm):
    """The documents that live on this rank, one behind the other."""
    own = [d for d, home in zip(documents, homes(comm.ranks)) if home == comm.rank]
    return torch.cat(own or [torch.empty(0, dtype=torch.int64)])


def groups():
    """Rows go to the groups that the batch's lengths ask for."""
    model, comm = Model(), tt.communicator()
    cost = tutti.FitCost(square=1e-3, linear=1e-2, constant=0.1, layers=LAYERS, hidden=WIDTH,
                         bandwidth=[10.0] * 6, tokens_per_rank=max(64 // comm.ranks, 30) * 2)
    chosen = tt.SequenceGroups(cost)

    def loss(step):
        x, targets = (of_home(t, comm) for t in text(step, LENGTHS))
        total = 0
        for part in chosen.plan(LENGTHS, homes(comm.ranks)):
            rows = part.bring(torch.stack([x, targets], 1))
            y = model(rows[:, 0], part.positions, part.attention)
            total = total + loss_of(y, rows[:, 1], sum(LENGTHS))
        return total
    return model, loss, True


def servers():
    """Rows stay at home; only core attention travels."""
    model, comm = Model(), tt.communicator()
    places = of_home([torch.arange(n) for n in LENGTHS], comm)

    def loss(step):
        x, targets = (of_home(t, comm) for t in text(step, LENGTHS))
        attend = tt.AttentionServers(list(zip(LENGTHS, homes(comm.ranks))), grain=1, epsilon=0.05)
        return loss_of(model(x, places, attend), targets, sum(LENGTHS))
    return model, loss, True


SYSTEMS = {"low_rank": low_rank, "activations": activations, "groups": groups, "servers": servers}


def train(system, steps=4, drop=False):
    """The losses of all steps."""
    torch.set_num_threads(1)
    comm = tt.communicator()
    model, loss_of_step, is_shared = SYSTEMS[system]()
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.5 if is_shared else 0.02), []
    for step in range(steps):
        loss = loss_of_step(step)
        loss.backward()
        if drop and comm.rank == 0:
            model.blocks[0].get_parameter("shrink.down" if system == "low_rank" else "out.weight").grad.zero_()
        total = loss.detach().clone()
        if is_shared:  # every rank has all weights, and its part of the loss
            tutti.all_reduce_together(comm, [*[p.grad for p in model.parameters()], total], True)
        losses.append(total.item())
        optimizer.step()
        optimizer.zero_grad()
    return losses


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("system", choices=SYSTEMS)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--drop", action="store_true", help="leave out a gradient of rank 0")
    asked = parser.parse_args()
    dist.init_process_group("gloo")
    losses = train(asked.system, asked.steps, asked.drop)
    if dist.get_rank() == 0:
        for step, loss in enumerate(losses):
            print(f"step {step} loss {loss:.6f} {loss.hex()}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
