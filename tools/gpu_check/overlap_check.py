#!/usr/bin/env python3
"""How much slower a matrix product is beside a collective: two processes on one GPU, Tutti as NCCL.

    python3 tools/gpu_check/overlap_check.py [libnccl.so.2]

Rank 0 multiplies bf16 matrices on one stream, timed by events, while collectives of both ranks go on on another;
rank 1 does nothing else. It prints rows of a Markdown table: what is beside, us of a product (median and 90th
percentile of the products that ended while the collectives went on), by the time alone. Two processes take
turns on one device, so the collective's share of the device's time is in these figures."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import torch_check  # pylint: disable=wrong-import-position

SIZE = 8192
PRODUCTS = 40
BYTES = 64 << 20


def products(torch, beside, keep_on):
    """Times of products in us. beside() is enqueued before each few of them, so that collectives go on all the time."""
    left, right = (torch.randn(SIZE, SIZE, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    found = torch.empty_like(left)
    other = torch.cuda.Stream()
    torch.matmul(left, right, out=found)
    torch.cuda.synchronize()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(PRODUCTS + 1)]
    with torch.cuda.stream(other):
        for _ in range(keep_on):
            beside()
    for event in events[:-1]:
        event.record()
        torch.matmul(left, right, out=found)
    events[-1].record()
    torch.cuda.synchronize()
    return sorted(events[i].elapsed_time(events[i + 1]) * 1000 for i in range(PRODUCTS))


def run_rank(rank):
    import torch
    dist = torch_check.join(rank)
    count = BYTES // 4
    small = torch.ones(count // torch_check.RANKS, device="cuda")
    large = torch.empty(count, device="cuda")
    calls = {"nothing": (lambda: None, 0),
             "all_gather": (lambda: dist.all_gather_into_tensor(large, small), 40),
             "all_reduce": (lambda: dist.all_reduce(large), 40)}
    alone = 0.0
    for name, (call, keep_on) in calls.items():
        for _ in range(2):
            call()
        torch.cuda.synchronize()
        dist.barrier()
        if rank == 0:
            times = products(torch, call, keep_on)
            middle = times[PRODUCTS // 2]
            alone = alone or middle
            print(f"| {name} | {middle:.0f} | {times[PRODUCTS * 9 // 10]:.0f} | {middle / alone:.2f} |", flush=True)
        else:
            for _ in range(keep_on):
                call()
            torch.cuda.synchronize()
        dist.barrier()
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        sys.exit(run_rank(int(sys.argv[2])))
    sys.exit(torch_check.start_ranks(os.path.abspath(__file__), sys.argv[1:]))
