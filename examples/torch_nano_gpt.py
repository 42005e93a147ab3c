#!/usr/bin/env python3
"""A nano GPT by tensor x pipeline x data parallelism, on its own source as text.

    torchrun --nproc_per_node=4 examples/torch_nano_gpt.py --pp 2 --dp 2
    torchrun --nproc_per_node=4 examples/torch_nano_gpt.py --tp 2 --pp 2
    torchrun --nproc_per_node=4 examples/torch_nano_gpt.py --arrangement best.json      # docs/configurations.md

Losses are printed as decimals and as hexadecimal floats. Data and pipeline parallel ones (--tp 1) are those
of one process to the bit: micro-batches are the leaves of one tree of sums, whoever computes them. Tensor
parallel ones add in another order; in 4 steps they stay within 1e-5 of it, and leaving out one gradient
(--drop) does not.
"""

import argparse
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

import tutti
import tutti.torch as tt

WIDTH, HEADS, LAYERS, CONTEXT, SEQUENCES = 64, 4, 4, 32, 2  # sequences of a micro-batch
MICRO_BATCHES = 8  # of a step, over all ranks
with open(os.path.abspath(__file__), encoding="utf-8") as source:
    TEXT = source.read()
LETTERS = sorted(set(TEXT))


def numbers(name, *shape):
    """Initial values of a whole tensor, the same in every layout."""
    generator = torch.Generator().manual_seed(sum(ord(c) * 31 ** i for i, c in enumerate(name)) % 2**40)
    return torch.randn(*shape, generator=generator) * 0.05


class Divided(nn.Module):
    """Two layers that a tensor parallel group divides: by columns, what is between, and by rows."""

    def __init__(self, name, inner, between, sums, parts=1):
        super().__init__()
        self.sums, self.between = sums, between
        tp, rank = sums.comm.ranks, sums.comm.rank
        columns = numbers(f"{name}.in", parts, inner, WIDTH).chunk(tp, 1)[rank]
        self.enter = nn.Parameter(columns.reshape(-1, WIDTH).clone())
        self.leave = nn.Parameter(numbers(f"{name}.out", WIDTH, inner).chunk(tp, 1)[rank].clone())

    def forward(self, x):
        return self.sums.leave(F.linear(self.between(F.linear(self.sums.enter(x), self.enter)), self.leave))


def attention(x):
    """Causal attention of the heads that are here: x has queries, keys and values one behind the other."""
    q, k, v = x.unflatten(-1, (3, -1, WIDTH // HEADS)).permute(2, 0, 3, 1, 4)
    return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)


class Block(nn.Module):
    def __init__(self, name, sums):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.attention = Divided(f"{name}.attention", WIDTH, attention, sums, parts=3)
        self.network = Divided(f"{name}.network", 4 * WIDTH, F.gelu, sums)

    def forward(self, x):
        x = x + self.attention(self.norms[0](x))
        return x + self.network(self.norms[1](x))


class Embedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.letters = nn.Parameter(numbers("letters", len(LETTERS), WIDTH))
        self.places = nn.Parameter(numbers("places", CONTEXT, WIDTH))

    def forward(self, x):
        return F.embedding(x, self.letters) + self.places


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.weight = nn.Parameter(numbers("head", len(LETTERS), WIDTH))

    def forward(self, x):
        return F.linear(self.norm(x), self.weight)


def stage(number, stages, sums):
    """The layers of one stage of the pipeline."""
    blocks = range(number * LAYERS // stages, (number + 1) * LAYERS // stages)
    layers = [Block(f"block {i}", sums) for i in blocks]
    return nn.Sequential(*([Embedding()] if number == 0 else []), *layers,
                         *([Head()] if number == stages - 1 else []))


def data(step, first, count):
    """Micro-batches `first` on: letters, and the letters behind them."""
    generator = torch.Generator().manual_seed(step)
    begins = torch.randint(len(TEXT) - CONTEXT - 1, (MICRO_BATCHES * SEQUENCES,), generator=generator)
    mine = begins[first * SEQUENCES:(first + count) * SEQUENCES]
    codes = torch.tensor([[LETTERS.index(c) for c in TEXT[b:b + CONTEXT + 1]] for b in mine.tolist()])
    return codes[:, :-1], codes[:, 1:].contiguous()


def loss_of(y, target):
    return F.cross_entropy(y.flatten(0, 1), target.flatten())


def runner(model, plan, group):
    """step(x, target) -> losses of the micro-batches, backward passes included."""
    if plan.ranks == 1:
        def alone(x, target):
            losses = [loss_of(model(a), b) for a, b in zip(x.split(SEQUENCES), target.split(SEQUENCES))]
            for loss in losses:
                loss.backward()
            return losses
        return alone
    from torch.distributed.pipelining import PipelineStage
    rank, last = dist.get_rank(group), plan.ranks - 1
    mine = PipelineStage(model, rank, plan.ranks, torch.device("cpu"), group=group)
    run = tt.schedule(mine, plan, loss_fn=loss_of, scale_grads=False)

    def piped(x, target):
        losses = []
        run.step(*([x] if rank == 0 else []),
                 **({"target": target, "losses": losses} if rank == last else {}))
        return losses
    return piped


def train(tp=1, pp=1, dp=1, steps=4, drop=False):
    """Losses of all steps, on the ranks of the last stage; empty lists elsewhere."""
    torch.set_num_threads(1)
    mesh = tutti.Mesh(tp=tp, dp=dp, pp=pp)
    groups, devices = tt.communicators(mesh), tt.device_mesh(mesh)
    place = mesh.coordinates_of(dist.get_rank())
    model = stage(place["pp"], pp, tt.Sums(groups["tp"], deterministic=True))
    each = MICRO_BATCHES // dp
    run = runner(model, tutti.pipeline(ranks=pp, micro_batches=each), devices["pp"].get_group())
    leaves = tt.LeafGradients(model.parameters(), groups["dp"])
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.2), []
    for step in range(steps):
        for loss in run(*data(step, place["dp"] * each, each)):
            leaves.loss(loss)
        total = leaves.finish()
        if drop and dist.get_rank() == 0:
            next(model.parameters()).grad.zero_()
        optimizer.step()
        optimizer.zero_grad()
        losses += [] if total is None else [total.item()]
    return losses


def sizes_of(path):
    """tp, pp and dp of an arrangement's text, as tutti.config writes it."""
    from tutti import arrangements, config
    with open(path, encoding="utf-8") as file:
        found = config.from_text(file.read(), [arrangements.Arrangement, arrangements.Axis])
    return {axis: found.degree(axis) for axis in ("tp", "pp", "dp")}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    for axis in ("tp", "pp", "dp"):
        parser.add_argument(f"--{axis}", type=int, default=1)
    parser.add_argument("--arrangement", help="a file that says tp, pp and dp")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--drop", action="store_true", help="leave out a gradient of rank 0")
    parser.add_argument("--backend", default="gloo", help="for tensors between stages; tutti, where it is installed")
    asked = parser.parse_args()
    if asked.arrangement:
        parser.set_defaults(**sizes_of(asked.arrangement))
        asked = parser.parse_args()
    if MICRO_BATCHES % asked.dp or LAYERS % asked.pp or HEADS % asked.tp:
        parser.error(f"dp divides {MICRO_BATCHES}, pp {LAYERS} and tp {HEADS}")
    dist.init_process_group(asked.backend)
    losses = train(asked.tp, asked.pp, asked.dp, asked.steps, asked.drop)
    if dist.get_rank() == asked.tp * asked.dp * (asked.pp - 1):
        for step, loss in enumerate(losses):
            print(f"step {step} loss {loss:.6f} {loss.hex()}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
