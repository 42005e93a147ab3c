"""Ranks as processes, for tests of what PyTorch keeps once a process: torch.compile and
torch.distributed. They are forked from a test that has imported PyTorch, and has made no communicator and
run no backward pass, whose threads would be missing; so four of them begin within a second.
"""

import os
import pickle
import select
import signal
import sys
import tempfile
import traceback

import torch
import torch._dynamo  # noqa: F401  (what PyTorch imports late is imported once, before the forks)
import torch.distributed as dist
import torch.distributed.checkpoint  # noqa: F401
import torch.distributed.fsdp  # noqa: F401
import torch.distributed.pipelining  # noqa: F401

SECONDS = 240


def _rank(function, rank, ranks, folder, arguments):
    torch.set_num_threads(1)  # here, as it also renews the pool of threads, while there is one thread
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=ranks)
    try:
        return function(rank, *arguments)
    finally:
        if sys.exc_info()[0] is None:
            dist.barrier()
            dist.destroy_process_group()


def _child(function, rank, ranks, folder, arguments, out):
    status = 0
    try:
        answer = _rank(function, rank, ranks, folder, arguments)
    except BaseException:  # noqa: BLE001  (the parent says it)
        status, answer = 1, traceback.format_exc()
    with os.fdopen(out, "wb") as pipe:
        pickle.dump((status, answer), pipe)
    sys.stdout.flush()
    os._exit(status)  # what is left open ends with the process


def _answers(pipes, ranks):
    """What each rank wrote, until all have, or one has failed."""
    texts, left = {rank: b"" for rank in range(ranks)}, dict(pipes)
    while left:
        ready = select.select(list(left), [], [], SECONDS)[0]
        if not ready:
            raise AssertionError(f"ranks {sorted(left.values())} said nothing for {SECONDS} s")
        for pipe in ready:
            some = os.read(pipe, 1 << 16)
            rank = left[pipe]
            texts[rank] += some
            if some:
                continue
            del left[pipe]
            status, answer = pickle.loads(texts[rank]) if texts[rank] else (1, "it ended at once")
            if status:
                raise AssertionError(f"rank {rank} of {ranks} failed:\n{answer}")
            texts[rank] = answer
    return [texts[rank] for rank in range(ranks)]


def run(function, ranks, *arguments):
    """function(rank, *arguments) in `ranks` processes with a default group; returns their results."""
    sys.stdout.flush()
    pids, pipes = [], {}
    with tempfile.TemporaryDirectory(prefix="tutti-ranks-") as folder:
        for rank in range(ranks):
            back, out = os.pipe()
            pid = os.fork()
            if pid == 0:
                os.close(back)
                _child(function, rank, ranks, folder, arguments, out)
            os.close(out)
            pids.append(pid)
            pipes[back] = rank
        try:
            return _answers(pipes, ranks)
        finally:
            for pipe, pid in zip(pipes, pids):
                os.close(pipe)
                if os.waitpid(pid, os.WNOHANG)[0] == 0:
                    os.kill(pid, signal.SIGKILL) if sys.exc_info()[0] else None
                    os.waitpid(pid, 0)
