#!/usr/bin/env python3
"""Compares the backends gloo and tutti of torch.distributed in the same processes, in turn: the plugin in C++,
and, where the package for Python can be imported, the backend in Python, too.

    ~/.cache/tutti/torch-VERSION/bin/python perf/torch/torch_speed.py [--ranks 2,4] [--rounds 15]

A cell has the medians of gloo and tutti in microseconds and their ratios: more than 1 means that tutti is
faster than gloo. In a round each backend runs the call a few times, one after the other, in the same processes and on
the same tensors; the time is that of the slowest rank. `--only NAME` runs the lines whose name holds NAME.
"""

import argparse
import math
import multiprocessing
import os
import statistics
import subprocess
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn

import tutti_torch  # noqa: F401  (registers the backend)

try:
    from tutti.torch import backend as in_python
except ImportError:
    in_python = None

SIZES = {"4 KiB": 4 << 10, "256 KiB": 256 << 10, "1 MiB": 1 << 20, "16 MiB": 16 << 20}
BACKENDS = ["gloo", "tutti"]
if in_python is not None:
    dist.Backend.register_backend("tutti_python", in_python.create, extended_api=True, devices=["cpu"])
    BACKENDS.append("tutti_python")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def all_reduce(group, rank, n, size):
    tensor = torch.ones(size // 4)
    return lambda: dist.all_reduce(tensor, dist.ReduceOp.MAX, group=group)


def all_reduce_async(group, rank, n, size):
    tensor = torch.ones(size // 4)
    return lambda: dist.all_reduce(tensor, dist.ReduceOp.MAX, group=group, async_op=True).wait()


def all_gather(group, rank, n, size):
    given, got = torch.ones(size // 4 // n), torch.empty(size // 4)
    return lambda: dist.all_gather_into_tensor(got, given, group=group)


def reduce_scatter(group, rank, n, size):
    given, got = torch.ones(size // 4), torch.empty(size // 4 // n)
    return lambda: dist.reduce_scatter_tensor(got, given, group=group)


def all_to_all(group, rank, n, size):
    given, got = torch.ones(size // 4), torch.empty(size // 4)
    return lambda: dist.all_to_all_single(got, given, group=group)


def ring(group, rank, n, size):
    given, got = torch.ones(size // 4), torch.empty(size // 4)
    right, left = (rank + 1) % n, (rank - 1) % n

    def go():
        works = [dist.isend(given, right, group=group), dist.irecv(got, left, group=group)]
        for work in works:
            work.wait()

    return go


CALLS = {"all_reduce": all_reduce, "all_reduce, async_op=True": all_reduce_async,
         "all_gather_into_tensor": all_gather, "reduce_scatter_tensor": reduce_scatter,
         "all_to_all_single": all_to_all, "isend + irecv, ring": ring}


def network():
    torch.manual_seed(1)
    return nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(256, 256), nn.ReLU())))


def stepping(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.ones(16, 256)

    def go():
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return go


def ddp_step(group):
    return stepping(nn.parallel.DistributedDataParallel(network(), process_group=group))


def fsdp2_step(group):
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard
    mesh = DeviceMesh.from_group(group, "cpu", mesh_dim_names=("shard",))
    model = network()
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return stepping(model)


def medians(groups, calls, asked):
    """Microseconds of one call by each backend: the median over the rounds, of the slowest rank."""
    barrier = groups["gloo"]
    for call in calls.values():
        for _ in range(3):
            call()
    begun = time.perf_counter()
    calls["gloo"]()
    once = torch.tensor([time.perf_counter() - begun])
    dist.all_reduce(once, dist.ReduceOp.MAX, group=barrier)
    times = max(1, min(asked.calls, int(0.05 / once.item())))
    found = {name: [] for name in calls}
    for _ in range(asked.rounds):
        for name, call in calls.items():
            dist.barrier(group=barrier)
            begun = time.perf_counter()
            for _ in range(times):
                call()
            took = torch.tensor([(time.perf_counter() - begun) / times * 1e6])
            dist.all_reduce(took, dist.ReduceOp.MAX, group=barrier)
            found[name].append(took.item())
    return {name: statistics.median(values) for name, values in found.items()}


def lines(asked, rank, n, groups):
    for name, make in CALLS.items():
        for size, length in SIZES.items():
            if asked.only in f"{name}, {size}":
                yield f"{name}, {size}", {b: make(g, rank, n, length) for b, g in groups.items()}
    for name, make in (("DDP step", ddp_step), ("FSDP2 step", fsdp2_step)):
        if asked.only in name:
            yield name, {b: make(g) for b, g in groups.items()}


def work(rank, n, store, asked, answers):
    torch.set_num_threads(1)
    dist.init_process_group("tutti", store=dist.FileStore(store, n), rank=rank, world_size=n)
    groups = {name: dist.new_group(backend=name) for name in BACKENDS}
    for name, calls in lines(asked, rank, n, groups):
        found = medians(groups, calls, asked)
        if rank == 0:
            answers.put((name, found))
    if asked.only in "8 bytes":
        tiny = torch.ones(2)
        calls = {b: (lambda group=g: dist.all_reduce(tiny, group=group)) for b, g in groups.items()}
        found = medians(groups, calls, asked)
        if rank == 0:
            answers.put(("8 bytes", found))
    if rank == 0:
        answers.put(None)
    dist.destroy_process_group()


def table(n, asked):
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, "store")
        processes = [context.Process(target=work, args=(rank, n, store, asked, answers))
                     for rank in range(n)]
        for process in processes:
            process.start()
        found = {}
        while (answer := answers.get()) is not None:
            found[answer[0]] = answer[1]
            print(f"  {answer[0]}: {answer[1]}", flush=True) if asked.verbose else None
        for process in processes:
            process.join()
    return found


def library_alone(n):
    """Microseconds of an all_reduce of 8 bytes by `tutti perf`; None where it is not built."""
    program = os.path.join(ROOT, "build", "bin", "tutti")
    if not os.path.exists(program):
        return None
    done = subprocess.run([program, "perf", "all_reduce", "--ranks", str(n), "-b", "8", "-e", "8"],
                          capture_output=True, text=True, check=False)
    rows = [line.split() for line in done.stdout.splitlines()
            if line.strip() and not line.startswith("#")]
    return float(rows[0][5]) if done.returncode == 0 and rows else None


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=200, help="in a round, at most")
    parser.add_argument("--only", default="")
    parser.add_argument("--verbose", action="store_true")
    asked = parser.parse_args()
    sizes = [int(n) for n in asked.ranks.split(",")]
    found = {n: table(n, asked) for n in sizes}
    ours = BACKENDS[1:]
    print(f"torch {torch.__version__}; gloo us; {', '.join(ours)}: us = ratio")
    print("| call | " + " | ".join(f"{n} ranks" for n in sizes) + " |")
    print("|---" * (len(sizes) + 1) + "|")
    ratios = []
    for name in found[sizes[0]]:
        cells = []
        for n in sizes:
            times = found[n][name]
            cells.append(f"{times['gloo']:.0f}; " + ", ".join(
                f"{times[b]:.0f} = {times['gloo'] / times[b]:.2f}" for b in ours))
            ratios += [[times["gloo"] / times[b] for b in ours]] if name != "8 bytes" else []
        print(f"| {name} | " + " | ".join(cells) + " |")
    for name, values in zip(ours, zip(*ratios)):
        mean = math.exp(sum(map(math.log, values)) / len(values))
        print(f"{name}: geometric mean {mean:.2f}, least {min(values):.2f}, of {len(values)} cells")
    for n in sizes:
        alone = library_alone(n)
        if alone is not None and "8 bytes" in found[n]:
            print(f"all_reduce of 8 bytes, {n} ranks: {found[n]['8 bytes']['tutti']:.1f} us from "
                  f"Python, {alone:.1f} us by tutti perf")


if __name__ == "__main__":
    main()
