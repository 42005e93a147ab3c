#!/usr/bin/env python3
"""Trains a small classifier with DistributedDataParallel over Tutti.

    torchrun --nproc_per_node=4 examples/torch_ddp.py [--epochs 5] [--backend tutti]

Each rank reads its share of a data set that is made on the spot (two spirals); at the end every rank has the
same network, and rank 0 says how well it tells the spirals apart. docs/pytorch.md says how to install.
"""

import argparse
import math

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import tutti_torch  # noqa: F401  (registers the backend where torch is older than 2.14)


def spirals(points):
    """Two spirals, as (place, which) pairs."""
    generator = torch.Generator().manual_seed(0)
    turn = torch.rand(points, generator=generator) * 3 * math.pi
    which = torch.arange(points) % 2
    angle = turn + which * math.pi
    place = torch.stack([turn * angle.cos(), turn * angle.sin()], 1) / 10
    place += torch.randn(points, 2, generator=generator) * 0.02
    return TensorDataset(place, which)


def network():
    layers = []
    for inputs, outputs in ((2, 64), (64, 64), (64, 64)):
        layers += [nn.Linear(inputs, outputs), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(64, 2))


def hits(model, data):
    """How many of this rank's share are told right, and how many there are."""
    place, which = data.tensors
    own = slice(dist.get_rank(), None, dist.get_world_size())
    with torch.no_grad():
        right = (model(place[own]).argmax(1) == which[own]).sum()
    return torch.stack([right, torch.tensor(len(which[own]))])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--backend", default="tutti")
    asked = parser.parse_args()

    dist.init_process_group(asked.backend)
    torch.manual_seed(1)
    data = spirals(4000)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=max(1, 256 // dist.get_world_size()), sampler=sampler)
    model = DistributedDataParallel(network())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    for epoch in range(asked.epochs):
        sampler.set_epoch(epoch)
        for place, which in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(place), which).backward()
            optimizer.step()

    told = hits(model.module, data)
    dist.all_reduce(told)
    if dist.get_rank() == 0:
        right, points = told.tolist()
        print(f"{dist.get_world_size()} ranks, {asked.epochs} epochs: "
              f"{100 * right / points:.1f} % of {points} points are told right")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
