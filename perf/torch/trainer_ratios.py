#!/usr/bin/env python3
"""What tutti.torch takes, beside what PyTorch has for the same work, in the same processes and in turn.

    PYTHONPATH=build/lib/python PYTHON perf/torch/trainer_ratios.py [--ranks 2,4] [--rounds 15] [--memory]

PYTHON has PyTorch and is that of TUTTI_PYTHON (docs/python.md). A line has medians of rounds in
microseconds; a round's time is that of the slowest rank. The ratio is the second to the first: more than 1
means that the first is faster. Groups of PyTorch are of the backend gloo.

--memory prints instead, of rank 0 and in MB, what stays resident behind a first call, how far memory grows
during a later one, and the bytes that PyTorch's own ops copy in it (copies, concatenations, indexing).
"""

import argparse
import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.utils._python_dispatch import TorchDispatchMode

import tutti
import tutti.torch as tt


def movers(size):
    """An exchange as an op on a tensor, and as a call of the package on the same memory."""
    ranks = dist.get_world_size()
    rows = size // 256
    plan = tutti.reshard(tutti.even(rows * ranks, ranks), tutti.striped(rows * ranks, ranks, 1))
    op, plain = tt.Exchange(plan), tutti.Exchange(plan, row=64)
    x, y, comm = torch.ones(rows, 64), torch.empty(rows, 64), tt.communicator()
    return lambda: op(x), lambda: plain.run(comm, x, y)


def experts(tokens):
    """Dispatch and combine, and two all_to_all_single with permutations."""
    ranks, width, count, k = dist.get_world_size(), 256, 16, 2
    numbers = torch.Generator().manual_seed(dist.get_rank())
    topk = torch.rand(tokens, count, generator=numbers).topk(k).indices
    x = torch.randn(tokens, width)
    switch = tt.TokenSwitch(experts=count, capacity=tokens * k * ranks)

    def ours():
        counts = switch.count(topk)
        return switch.combine(switch.dispatch(x, topk, counts), topk, counts)

    def theirs():
        chosen = topk.reshape(-1)
        order = chosen.argsort(stable=True)
        sent = torch.bincount(chosen, minlength=count)
        counts = torch.empty(ranks, count // ranks, dtype=torch.int64)
        dist.all_to_all_single(counts, sent)
        given, got = (t.view(ranks, -1).sum(1).tolist() for t in (sent, counts))
        rows = torch.empty(sum(got), width)
        dist.all_to_all_single(rows, x[order // k], got, given)
        expert = torch.arange(count // ranks).repeat(ranks).repeat_interleave(counts.reshape(-1))
        by_expert = expert.argsort(stable=True)
        results = torch.empty_like(rows)
        results[by_expert] = rows[by_expert]
        back = torch.empty(tokens * k, width)
        dist.all_to_all_single(back, results, given, got)
        slots = torch.empty_like(back)
        slots[order] = back
        return slots
    assert torch.equal(ours(), theirs())
    return ours, theirs


def balanced(tokens):
    """A step of experts of which one gets most tokens: least-loaded, and plain."""
    ranks, width = dist.get_world_size(), 256

    def made(helpers):
        moe = tt.MixtureOfExperts(width, 1024, 4 * ranks, 1, capacity=tokens * ranks, helpers=helpers)
        with torch.no_grad():
            moe.router.weight[0] += 0.3
        x = torch.randn(tokens, width) + 0.3
        return lambda: moe(x).sum().backward()
    return made(1), made(0)


def network():
    torch.manual_seed(1)
    return nn.Sequential(*[nn.Sequential(nn.Linear(512, 512), nn.GELU()) for _ in range(6)])


def step_of(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.ones(16, 512)

    def step():
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return step


def sharded(hooked):
    mesh, model = dist.init_device_mesh("cpu", (dist.get_world_size(),)), network()
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    if hooked:
        tt.fsdp2(model)
    return step_of(model)


LINES = {
    "exchange 4 KiB: op, call": lambda: movers(4 << 10),
    "exchange 4 MiB: op, call": lambda: movers(4 << 20),
    "experts, 64 tokens: switch, all_to_all_single": lambda: experts(64),
    "experts, 2048 tokens: switch, all_to_all_single": lambda: experts(2048),
    "skewed experts, a step: balanced, plain": lambda: balanced(512),
    "a step of FSDP2: tt.fsdp2, gloo": lambda: (sharded(True), sharded(False)),
    "a step: ragged_fsdp, FSDP2 by gloo": lambda: (step_of(tt.ragged_fsdp(network())), sharded(False)),
}


def slowest(call):
    dist.barrier()
    begin = time.perf_counter()
    call()
    took = torch.tensor([(time.perf_counter() - begin) * 1e6])
    dist.all_reduce(took, dist.ReduceOp.MAX)
    return took.item()


class Copies(TorchDispatchMode):
    """Counts the bytes that ops write which do nothing but move them."""

    MOVES = ("copy", "clone", "cat", "index", "stack", "scatter", "gather", "constant_pad")

    def __init__(self):
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        result = function(*arguments, **(named or {}))
        name = function.name()
        if name.startswith("aten::") and any(move in name for move in self.MOVES):
            for tensor in result if isinstance(result, (list, tuple)) else [result]:
                if isinstance(tensor, torch.Tensor):
                    self.bytes += tensor.numel() * tensor.element_size()
        return result


def resident(name="VmRSS"):
    """Bytes of this process: resident now, or at most since clear_refs was written (VmHWM)."""
    with open("/proc/self/status", encoding="utf-8") as status:
        line, = (line for line in status if line.startswith(name + ":"))
    return int(line.split()[1]) << 10


def memory_of(way, before):
    way()
    standing, copies = resident() - before, Copies()
    with copies:
        way()
    with open("/proc/self/clear_refs", "w", encoding="utf-8") as file:
        file.write("5")
    begun = resident()
    way()
    return standing, resident("VmHWM") - begun, copies.bytes


def memory_main(rank, ranks, path, number, which):
    """One way of one line, in processes of its own."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=ranks)
    name, make = list(LINES.items())[number]
    before = resident()
    found = memory_of(make()[which], before)
    if rank == 0:
        way = name.split(": ")[1].split(", ")[which]
        print(f"{ranks} ranks  {name.split(':')[0]:28} {way:20}" +
              "".join(f"{value / 1e6:9.1f}" for value in found), flush=True)
    dist.barrier()


def rank_main(rank, ranks, path, rounds):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=ranks)
    for name, make in LINES.items():
        ways = make()
        for way in ways:
            way()
        times = [[slowest(way) for way in ways] for _ in range(rounds)]
        ours, theirs = (statistics.median(column) for column in zip(*times))
        if rank == 0:
            print(f"{ranks} ranks  {name:50} {ours:10.0f} {theirs:10.0f} {theirs / ours:6.2f}", flush=True)
    dist.barrier()


def fork(ranks, main, *arguments):
    """main(rank, ranks, a path to meet at, *arguments) in so many processes."""
    with tempfile.TemporaryDirectory() as folder:
        pids = []
        for rank in range(ranks):
            pids.append(os.fork())
            if pids[-1] == 0:
                main(rank, ranks, os.path.join(folder, "meet"), *arguments)
                os._exit(0)
        for pid in pids:
            os.waitpid(pid, 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--memory", action="store_true")
    asked = parser.parse_args()
    print(f"torch {torch.__version__}, load {os.getloadavg()[0]:.1f}, {asked.rounds} rounds")
    for ranks in map(int, asked.ranks.split(",")):
        if not asked.memory:
            fork(ranks, rank_main, asked.rounds)
            continue
        for number in range(len(LINES)):
            for which in range(2):
                fork(ranks, memory_main, number, which)


if __name__ == "__main__":
    main()
