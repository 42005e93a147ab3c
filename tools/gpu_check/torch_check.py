#!/usr/bin/env python3
"""PyTorch as it is, on the drop-in: two processes on one GPU, each part compared with what it must be.

    python3 tools/gpu_check/torch_check.py [libnccl.so.2]

Without a path the library is looked for in LD_LIBRARY_PATH and its folders called nccl. It prints a line a
part, as it ends; the exit status is 0 if all parts passed on all ranks."""

import copy
import os
import subprocess
import sys

RANKS = 2
PORT = "29511"
LIMIT_SECONDS = 120
PARTS = []


def part(name):
    def add(body):
        PARTS.append((name, body))
        return body
    return add


def same(found, wanted):
    import torch
    assert torch.equal(found.cpu(), wanted), f"{found.flatten()[:4]} instead of {wanted.flatten()[:4]}"


@part("all_reduce of six types")
def all_reduce(torch, dist, rank):
    for kind in (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8):
        for count in (1, 1000, 1 << 20):
            tensor = torch.full((count,), rank + 1, dtype=kind, device="cuda")
            dist.all_reduce(tensor)
            same(tensor, torch.full((count,), RANKS * (RANKS + 1) // 2, dtype=kind))


@part("all_gather_into_tensor")
def all_gather(torch, dist, rank):
    for count in (1, 777, 1 << 20):
        found = torch.empty(count * RANKS, device="cuda")
        dist.all_gather_into_tensor(found, torch.arange(count, dtype=torch.float32, device="cuda") + rank)
        same(found, torch.cat([torch.arange(count, dtype=torch.float32) + i for i in range(RANKS)]))


@part("reduce_scatter_tensor")
def reduce_scatter(torch, dist, rank):
    found = torch.empty(1000, device="cuda")
    dist.reduce_scatter_tensor(found, torch.full((1000 * RANKS,), rank + 1.0, device="cuda"))
    same(found, torch.full((1000,), RANKS * (RANKS + 1) / 2))


@part("broadcast")
def broadcast(torch, dist, rank):
    tensor = torch.full((5000,), float(rank), device="cuda")
    dist.broadcast(tensor, RANKS - 1)
    same(tensor, torch.full((5000,), float(RANKS - 1)))


@part("all_to_all_single")
def all_to_all(torch, dist, rank):
    found = torch.empty(RANKS * 100, device="cuda")
    dist.all_to_all_single(found, torch.arange(RANKS * 100, dtype=torch.float32, device="cuda") + 1000 * rank)
    same(found, torch.cat([torch.arange(100, dtype=torch.float32) + 100 * rank + 1000 * i for i in range(RANKS)]))


@part("all_to_all_single, uneven")
def all_to_all_uneven(torch, dist, rank):
    counts = [i + 1 + rank for i in range(RANKS)]  # the same both ways
    found = torch.empty(sum(counts), device="cuda")
    dist.all_to_all_single(found, torch.full((sum(counts),), float(rank), device="cuda"), counts, counts)
    same(found, torch.cat([torch.full((counts[i],), float(i)) for i in range(RANKS)]))


@part("batch_isend_irecv")
def batch(torch, dist, rank):
    sent = torch.full((3000,), float(rank), device="cuda")
    found = torch.empty(3000, device="cuda")
    following, before = (rank + 1) % RANKS, (rank - 1) % RANKS
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, sent, following),
                                        dist.P2POp(dist.irecv, found, before)]):
        work.wait()
    same(found, torch.full((3000,), float(before)))


@part("barrier and new_group")
def group(torch, dist, _):
    dist.barrier()
    tensor = torch.ones(10, device="cuda")
    dist.all_reduce(tensor, group=dist.new_group(list(range(RANKS))))
    same(tensor, torch.full((10,), float(RANKS)))


@part("all_reduce in a graph")
def graph(torch, dist, rank):
    tensor = torch.zeros(4096, device="cuda")
    dist.all_reduce(tensor)  # what is made at the first call cannot be made in a capture
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        dist.all_reduce(tensor)
    for run in range(100):
        tensor.fill_(rank + 1 + run)
        captured.replay()
        same(tensor, torch.full((4096,), float(RANKS * (RANKS + 1) // 2 + RANKS * run)))


def train(torch, rank, wrap, parameters):
    """Five steps on shares of a batch equal five steps of one process on all of it."""
    torch.manual_seed(1)
    network = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8)).cuda()
    alone = copy.deepcopy(network)
    wrapped = wrap(network)
    inputs = torch.randn(RANKS * 16, 64, device="cuda")
    wanted = torch.randn(RANKS * 16, 8, device="cuda")
    mine = slice(rank * 16, (rank + 1) * 16)
    for model, share in ((wrapped, mine), (alone, slice(None))):
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(5):
            optimizer.zero_grad()
            ((model(inputs[share]) - wanted[share]) ** 2).mean().backward()
            optimizer.step()
    for found, expected in zip(parameters(network), alone.parameters()):
        assert torch.allclose(found, expected, rtol=1e-4, atol=1e-6), (found - expected).abs().max()


@part("DDP, five steps")
def ddp(torch, _, rank):
    train(torch, rank, lambda one: torch.nn.parallel.DistributedDataParallel(one, device_ids=[0]),
          lambda one: one.parameters())


@part("FSDP2, five steps")
def fsdp(torch, _, rank):
    from torch.distributed.fsdp import fully_shard
    train(torch, rank, fully_shard, lambda one: [tensor.full_tensor() for tensor in one.parameters()])


def join(rank):
    """torch.distributed, in the group of all ranks."""
    import torch
    import torch.distributed as dist
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=PORT, RANK=str(rank), WORLD_SIZE=str(RANKS))
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", rank=rank, world_size=RANKS)
    return dist


def run_rank(rank):
    import torch
    dist = join(rank)
    failed = 0
    for name, body in PARTS:
        try:
            body(torch, dist, rank)
            torch.cuda.synchronize()
            if rank == 0:
                print(f"passed {name}", flush=True)
        except Exception as error:  # the other parts still tell something
            failed += 1
            print(f"FAILED {name}, rank {rank}: {str(error)[:300]}", flush=True)
    dist.destroy_process_group()
    return 1 if failed else 0


def find_library():
    for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":"):
        for path in (os.path.join(folder, "libnccl.so.2"), os.path.join(folder, "nccl", "libnccl.so.2")):
            if folder and os.path.exists(path):
                return os.path.abspath(path)
    return None


def start_ranks(script, arguments):
    """Runs script --rank R for each rank, with the library of the arguments or the one that is found preloaded.
    0 if all ranks exited with 0."""
    library = os.path.abspath(arguments[0]) if arguments else find_library()
    if library is None:
        print("no libnccl.so.2 in LD_LIBRARY_PATH")
        return 2
    environment = dict(os.environ, LD_PRELOAD=library, NCCL_SOCKET_IFNAME="lo")
    ranks = [subprocess.Popen([sys.executable, script, "--rank", str(rank)], env=environment)
             for rank in range(RANKS)]
    try:
        return max(rank.wait(LIMIT_SECONDS) != 0 for rank in ranks)
    finally:
        for rank in ranks:
            rank.kill()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        sys.exit(run_rank(int(sys.argv[2])))
    sys.exit(start_ranks(os.path.abspath(__file__), sys.argv[1:]))
