"""Runs a function as the ranks of a group, each in a process that is forked from this one."""

import datetime
import multiprocessing
import os
import queue
import tempfile
import time
import traceback

import torch
import torch.distributed as dist

import tutti_torch  # noqa: F401  (registers the backend)

FORK = multiprocessing.get_context("fork")
LIMIT = 240  # seconds for the ranks of one call of run()


def _enter(function, rank, ranks, store, backend, answers, args):
    torch.set_num_threads(1)
    try:
        if backend is not None:
            dist.init_process_group(backend, store=dist.FileStore(store, ranks), rank=rank,
                                    world_size=ranks, timeout=datetime.timedelta(seconds=60))
        answer = function(rank, ranks, *args)
        if backend is not None and dist.is_initialized():
            dist.destroy_process_group()
        answers.put((rank, True, answer))
    except BaseException:  # noqa: B902  (whatever it is, the test has to say so)
        answers.put((rank, False, traceback.format_exc()))
    answers.close()
    answers.join_thread()
    os._exit(0)


def fresh_path():
    """A file that does not exist, for a store."""
    with tempfile.NamedTemporaryFile(prefix="tutti-torch-store-") as file:
        return file.name


def start(function, ranks, *args, backend="tutti"):
    """Starts the ranks; the processes and the queue with their answers."""
    store = fresh_path()
    answers = FORK.Queue()
    processes = [FORK.Process(target=_enter,
                              args=(function, rank, ranks, store, backend, answers, args))
                 for rank in range(ranks)]
    for process in processes:
        process.start()
    return processes, answers, store


def _check_alive(processes, found, expected, deadline):
    """A rank that ended without an answer will give none."""
    ended = {rank: process.exitcode for rank, process in enumerate(processes)
             if process.exitcode is not None and rank not in found}
    if len(processes) - len(ended) < expected:
        raise AssertionError(f"ranks ended without an answer (rank: exit status): {ended}")
    if time.monotonic() > deadline:
        raise AssertionError(f"after {LIMIT} s only ranks {sorted(found)} have answered")


def collect(processes, answers, store, expected=None):
    """What the ranks answered, by rank; what they raised is raised here."""
    expected = len(processes) if expected is None else expected
    found = {}
    deadline = time.monotonic() + LIMIT
    try:
        while len(found) < expected:
            try:
                rank, good, answer = answers.get(timeout=1)
            except queue.Empty:
                _check_alive(processes, found, expected, deadline)
                continue
            if not good:
                raise AssertionError(f"rank {rank}:\n{answer}")
            found[rank] = answer
        for process in processes:
            process.join(max(0.1, deadline - time.monotonic()))
            if process.is_alive():
                raise AssertionError(f"rank {processes.index(process)} does not end")
    finally:
        for process in processes:
            if process.is_alive():
                process.kill()
            process.join()
        if os.path.exists(store):
            os.unlink(store)
    return [found.get(rank) for rank in range(len(processes))]


def run(function, ranks, *args, backend="tutti"):
    """function(rank, ranks, *args) on every rank; a list of what they returned."""
    return collect(*start(function, ranks, *args, backend=backend))
