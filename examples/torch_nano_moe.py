#!/usr/bin/env python3
"""A nano GPT of experts by data x context x expert parallelism, on its own source as text.

    torchrun --nproc_per_node=4 examples/torch_nano_moe.py --cp 2
    torchrun --nproc_per_node=4 examples/torch_nano_moe.py --cp 4 --helpers 1

Sequences are divided over groups of --cp ranks (zig-zag), which attend by a ring; other ranks have other
sequences. Experts are divided over all ranks: the two meshes are folded over one job. With --helpers ranks
whose experts are popular lend tokens and weights to others. Sums come in another order than in one process:
in 4 steps losses stay within 1e-5 of its, and leaving out one gradient (--drop) does not.
"""

import argparse
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

import tutti
import tutti.torch as tt

WIDTH, HEADS, LAYERS, CONTEXT, SEQUENCES = 32, 4, 2, 32, 4  # sequences of a step, over all ranks
EXPERTS, K = 4, 2
with open(os.path.abspath(__file__), encoding="utf-8") as source:
    TEXT = source.read()
LETTERS = sorted(set(TEXT))


class Block(nn.Module):
    def __init__(self, number, attend, helpers):
        super().__init__()
        self.attend = attend
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.heads = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.experts = tt.MixtureOfExperts(WIDTH, 2 * WIDTH, EXPERTS, K, helpers=helpers, gate=1.0,
                                           capacity=SEQUENCES * CONTEXT * K, seed=number)

    def forward(self, x):
        q, k, v = self.heads(self.norms[0](x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(self.attend(q, k, v).transpose(1, 2).flatten(2))
        return x + self.experts(self.norms[1](x))


class Model(nn.Module):
    def __init__(self, attend, helpers):
        super().__init__()
        torch.manual_seed(0)
        self.attend = attend
        self.letters = nn.Embedding(len(LETTERS), WIDTH)
        self.places = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block(i, attend, helpers) for i in range(LAYERS))
        self.head = nn.Linear(WIDTH, len(LETTERS), bias=False)

    def forward(self, x):
        x = self.letters(x) + self.places(self.attend.positions)
        for block in self.blocks:
            x = block(x)
        return self.head(x), sum(block.experts.load_balance for block in self.blocks)

    def shared_parameters(self):
        """Those that every rank has: all but the experts."""
        return [p for name, p in self.named_parameters() if not name.endswith((".w1", ".w2"))]


def data(step):
    generator = torch.Generator().manual_seed(step)
    begins = torch.randint(len(TEXT) - CONTEXT - 1, (SEQUENCES,), generator=generator)
    codes = torch.tensor([[LETTERS.index(c) for c in TEXT[b:b + CONTEXT + 1]] for b in begins.tolist()])
    return codes[:, :-1], codes[:, 1:]


def train(cp=1, helpers=0, steps=4, drop=False):
    """Losses of all steps, and how often weights went to a helper."""
    torch.set_num_threads(1)
    ranks = dist.get_world_size()
    mesh = tutti.Mesh(cp=cp, dp=ranks // cp)
    everybody, groups = tt.communicator(), tt.communicators(mesh)
    place = mesh.coordinates_of(dist.get_rank())
    model = Model(tt.ContextAttention(tutti.zigzag(CONTEXT, cp), groups["cp"]), helpers)
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.5), []
    for step in range(steps):
        x, target = (model.attend.shard(t.chunk(ranks // cp)[place["dp"]], 1) for t in data(step))
        y, balance = model(x)
        # Each rank has its part of the whole loss, so gradients are sums over ranks.
        loss = F.cross_entropy(y.flatten(0, 1), target.flatten(), reduction="sum") / (SEQUENCES * CONTEXT)
        (loss + 0.01 * balance / ranks).backward()
        if drop and dist.get_rank() == 0:
            model.blocks[0].experts.w1.grad.zero_()
        # Experts have the gradients of all ranks' tokens already.
        total = loss.detach()
        tutti.all_reduce_together(everybody, [*[p.grad for p in model.shared_parameters()], total], True)
        losses.append(total.item())
        optimizer.step()
        optimizer.zero_grad()
    return losses, sum(block.experts.switch.moves for block in model.blocks)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cp", type=int, default=1)
    parser.add_argument("--helpers", type=int, default=0)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--drop", action="store_true", help="leave out a gradient of rank 0")
    asked = parser.parse_args()
    dist.init_process_group("gloo")
    losses, moves = train(asked.cp, asked.helpers, asked.steps, asked.drop)
    if dist.get_rank() == 0:
        for step, loss in enumerate(losses):
            print(f"step {step} loss {loss:.6f} {loss.hex()}")
        print(f"weights of {moves} experts went to helpers", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
