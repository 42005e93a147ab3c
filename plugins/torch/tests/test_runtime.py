"""Threads, forks, limits, failures: what a backend does beside moving data."""

import datetime
import os
import signal
import subprocess
import sys
import threading
import time
import unittest

import torch
import torch.distributed as dist

import ranks
import tutti_torch

MANY = os.environ.get("TEST_THOROUGH") == "1"


def timed_out(error):
    return "timed out" in str(error)


def raises(kind, text, function, *args, **named):
    try:
        function(*args, **named)
    except kind as error:
        assert text in str(error), f"'{text}' is not in: {error}"
        return error
    raise AssertionError(f"{function} raised nothing, {kind.__name__} was expected")


# ---- refusals -----------------------------------------------------------------------------------


def refusals(rank, n):
    one = torch.ones(4)
    raises(ValueError, "tags", dist.send, one, 1 - rank, tag=3)
    raises(NotImplementedError, "any source", dist.recv, one)
    raises((ValueError, RuntimeError), "dense", dist.all_reduce, one.to_sparse())
    raises(ValueError, "give one for each rank", dist.all_gather, [one], one)
    raises(ValueError, "must hold", dist.all_gather_into_tensor, torch.ones(9), one)
    raises(TypeError, "integers", dist.all_reduce, one, dist.ReduceOp.BAND)
    raises(TypeError, "no meaning for bool", dist.all_reduce, one.bool(), dist.ReduceOp.AVG)
    raises((TypeError, ValueError, RuntimeError), "", dist.all_gather, [one.int(), one.int()], one)
    dist.all_reduce(one)  # nothing of that harmed the group
    assert one[0].item() == n


def shapes_that_differ(rank, n):
    error = raises(dist.DistBackendError, "", dist.all_reduce, torch.ones(4 + rank))
    assert "rank" in str(error)
    # It is final: ranks that disagree once cannot be trusted to agree again.
    raises(dist.DistBackendError, "", dist.all_reduce, torch.ones(4))


class Refusals(unittest.TestCase):
    def test_what_cannot_be_says_what_to_use_and_harms_nothing(self):
        ranks.run(refusals, 2)

    def test_shapes_that_differ_are_an_error_on_every_rank(self):
        for n in (2, 4):
            ranks.run(shapes_that_differ, n)


# ---- limits -------------------------------------------------------------------------------------


def late(rank, n):
    tensor = torch.ones(4)
    dist.all_reduce(tensor)
    if rank == 0:
        work = dist.all_reduce(tensor, async_op=True)
        raises(dist.DistBackendError, "timed out", work.wait, datetime.timedelta(milliseconds=100))
        assert not work.is_completed()
        work.wait()  # the wait had a limit, not the call
    else:
        time.sleep(1.5)
        dist.all_reduce(tensor)
    assert tensor[0].item() == n * n
    dist.barrier()


def absent(rank, n):
    group = dist.new_group(timeout=datetime.timedelta(seconds=1))
    tensor = torch.ones(4)
    dist.all_reduce(tensor, group=group)
    if rank == 0:
        error = raises(dist.DistBackendError, "timed out after 1000 ms", dist.all_reduce, tensor,
                       group=group)
        assert "rank" in str(error)
    else:
        time.sleep(4)
    dist.barrier()


def never_made(rank, n):
    group = dist.new_group(timeout=datetime.timedelta(seconds=1))
    if rank == 0:
        raises(dist.DistBackendError, "timed out", dist.all_reduce, torch.ones(4), group=group)
    dist.barrier()


def without_one(rank, n, absent):
    group = dist.new_group(timeout=datetime.timedelta(seconds=3))
    if rank != absent:
        error = raises(dist.DistBackendError, f"rank {absent} has made no call on it yet",
                       dist.all_reduce, torch.ones(4), group=group)
        assert str(error).startswith("tutti: making "), error
    dist.barrier()


# A collective that a thread waits in fails while Python ends: the group goes with the module's names.
ENDING = """
import datetime, sys, threading, time
import torch, torch.distributed as dist, tutti_torch
dist.init_process_group("tutti", store=dist.FileStore(sys.argv[1], 2), rank=0, world_size=2,
                        timeout=datetime.timedelta(seconds=1))
def call():
    if sys.argv[2] == "sync":
        dist.all_reduce(torch.ones(3))
    elif sys.argv[2] == "async":
        dist.all_reduce(torch.ones(3), async_op=True).wait()
    else:
        dist.monitored_barrier()
threading.Thread(target=call, daemon=True).start()
class Late:
    def __del__(self, wait=time.sleep):
        wait(2.5)
late = Late()
"""


def monitored(rank, n):
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=20))
    if rank == 2:
        return
    if rank == 0:
        raises(RuntimeError, "rank 2 did not come", dist.monitored_barrier,
               timeout=datetime.timedelta(seconds=1))
    else:
        raises(RuntimeError, "rank 0 did not let it go", dist.monitored_barrier,
               timeout=datetime.timedelta(seconds=2))


class Limits(unittest.TestCase):
    def test_a_wait_may_end_before_its_call(self):
        ranks.run(late, 2)

    def test_a_call_that_takes_too_long_raises(self):
        ranks.run(absent, 2)

    def test_a_group_that_nobody_joins_raises(self):
        ranks.run(never_made, 2)

    def test_the_first_collective_names_who_has_not_come(self):
        for missing in range(3):
            ranks.run(without_one, 3, missing)

    def test_a_call_that_fails_while_python_ends_does_not_end_it(self):
        for kind in ("sync", "async", "monitored"):
            done = subprocess.run([sys.executable, "-c", ENDING, ranks.fresh_path(), kind],
                                  capture_output=True, text=True, timeout=200, check=False)
            self.assertEqual(done.returncode, 0, kind + done.stdout + done.stderr)

    def test_monitored_barrier_names_who_is_missing(self):
        ranks.run(monitored, 3)


# ---- threads ------------------------------------------------------------------------------------


def two_groups(rank, n):
    groups = [dist.new_group() for _ in range(2)]
    failures = []

    def go(group, value):
        try:
            for k in range(200):
                tensor = torch.full((100,), float(value + k))
                work = dist.all_reduce(tensor, group=group, async_op=k % 2 == 0)
                if work is not None:
                    work.wait()
                assert tensor[0].item() == n * (value + k)
        except BaseException as error:  # noqa: B902
            failures.append(error)

    threads = [threading.Thread(target=go, args=(g, 1000 * i)) for i, g in enumerate(groups)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def callbacks(rank, n):
    # A callback runs in the backend's own thread and calls on the same group again.
    results = []

    def again(done):
        tensor = done.value()[0].clone()
        dist.all_reduce(tensor)
        dist.all_reduce(tensor, async_op=True).wait()
        results.append(tensor[0].item())
        return tensor

    futures = []
    for k in range(5):
        work = dist.all_reduce(torch.full((3,), float(k)), async_op=True)
        futures.append(work.get_future().then(again))
        futures[-1].wait()
    assert results == [float(k * n ** 3) for k in range(5)], results


def counting(rank, n):
    counted = [0]
    stop = threading.Event()

    def count():
        while not stop.is_set():
            counted[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count, daemon=True)
    thread.start()

    def while_in(function, *args, **named):
        before = counted[0]
        function(*args, **named)
        return counted[0] - before

    def last_comes_late():
        if rank == n - 1:
            time.sleep(1.5)

    last_comes_late()  # the others wait in the making of the communicator
    found = [while_in(dist.barrier)]
    last_comes_late()
    found.append(while_in(lambda: dist.all_reduce(torch.ones(3), async_op=True).wait()))
    last_comes_late()
    found.append(while_in(dist.all_reduce, torch.ones(3)))
    last_comes_late()
    found.append(while_in(dist.destroy_process_group))
    stop.set()
    if rank == 0:
        assert min(found) > 100, f"the other thread counted {found} times"


def coalescing_fails(rank, n):
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    try:
        with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True):
            dist.group.WORLD.allreduce([tensor])  # dist.all_reduce() would be kept by Python
            raise KeyError("in between")
    except KeyError:
        dist.distributed_c10d._world.pg_coalesce_state.clear()
    dist.all_reduce(tensor)  # runs behind what was called before
    assert tensor[0].item() == n ** 3
    with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
        dist.group.WORLD.allreduce([tensor])
        dist.group.WORLD.allreduce([tensor])
    manager.wait()
    assert tensor[0].item() == n ** 5


class Threads(unittest.TestCase):
    def test_two_threads_and_two_groups(self):
        ranks.run(two_groups, 2)

    def test_callbacks_call_again(self):
        ranks.run(callbacks, 2)

    def test_python_goes_on_while_a_rank_waits(self):
        ranks.run(counting, 2)

    def test_an_exception_between_start_and_end_of_coalescing(self):
        ranks.run(coalescing_fails, 2)


# ---- processes ----------------------------------------------------------------------------------


def forks(rank, n):
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            dist.all_reduce(torch.ones(3))
            said = b"it ran"
        except Exception as error:  # noqa: B902
            said = str(error).encode()
        os.write(write, said)
        os._exit(0)
    os.waitpid(child, 0)
    said = os.read(read, 10000).decode()
    assert "forked" in said, said
    dist.all_reduce(tensor)
    loader = torch.utils.data.DataLoader(torch.arange(64), batch_size=8, num_workers=2)
    assert sum(batch.sum().item() for batch in loader) == 63 * 32
    dist.barrier()


def again_and_again(rank, n, rounds, store):
    """Resources after a few rounds and after all of them."""
    def resources():
        with open("/proc/self/status", encoding="utf-8") as file:
            status = dict(line.split(":", 1) for line in file)
        return (int(status["VmRSS"].split()[0]), int(status["Threads"]),
                len(os.listdir("/proc/self/fd")))

    early = None
    for round_number in range(rounds):
        dist.init_process_group("tutti", store=dist.FileStore(f"{store}-{round_number}", n),
                                rank=rank, world_size=n)
        tensor = torch.ones(3)
        dist.all_reduce(tensor)
        assert tensor[0].item() == n
        dist.destroy_process_group()
        if round_number == rounds // 5:
            early = resources()
    return early, resources()


def dies(rank, n):
    from torch.nn.parallel import DistributedDataParallel as DDP
    model = DDP(torch.nn.Linear(64, 64))
    for step in range(1000):
        if rank == n - 1 and step == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        begun = time.monotonic()
        try:
            model(torch.ones(4, 64)).sum().backward()
        except RuntimeError as error:
            return str(error), time.monotonic() - begun
    raise AssertionError("nobody noticed")


def with_keys(rank, n, path, keys):
    """What the store holds of the id, and how the first call ended."""
    os.environ["TUTTI_KEY"] = keys[rank]
    if not keys[rank]:
        del os.environ["TUTTI_KEY"]
    store = dist.FileStore(path, n)
    dist.init_process_group("tutti", store=store, rank=rank, world_size=n,
                            timeout=datetime.timedelta(seconds=5))
    tensor = torch.ones(2)
    try:
        dist.all_reduce(tensor)
        return tensor[0].item(), store.get("0//cpu//tutti/collectives/id/1")
    except dist.DistBackendError as error:
        return str(error), b""


class Processes(unittest.TestCase):
    def test_the_store_carries_no_key_if_the_job_has_one(self):
        key, other = "5a" * 32, "a5" * 32
        for total, said in ranks.run(with_keys, 2, ranks.fresh_path(), [key, key], backend=None):
            self.assertEqual(total, 2.0)
            self.assertEqual(said[32:64], bytes(32))  # where an id has its key
        text = ranks.run(with_keys, 2, ranks.fresh_path(), [key, ""], backend=None)[1][0]
        self.assertIn("TUTTI_KEY_FILE", text)
        for text, _ in ranks.run(with_keys, 2, ranks.fresh_path(), [key, other], backend=None):
            self.assertIsInstance(text, str)

    def test_forked_children_are_told_and_harm_nobody(self):
        ranks.run(forks, 2)

    def test_groups_come_and_go_and_leave_nothing(self):
        rounds = 1000 if MANY else 60
        for early, end in ranks.run(again_and_again, 2, rounds, ranks.fresh_path(), backend=None):
            print(f"after {rounds // 5} and {rounds} rounds (KiB, threads, descriptors): {early} {end}")
            self.assertEqual(early[1:], end[1:])
            self.assertLess(end[0] - early[0], 2048 + rounds * 4)

    def test_the_death_of_a_rank_is_an_error_that_names_it(self):
        for _ in range(50 if MANY else 3):
            processes, answers, store = ranks.start(dies, 3)
            for text, took in ranks.collect(processes, answers, store, expected=2)[:2]:
                self.assertLess(took, 60, "the limit of the group's calls")
                self.assertIn("rank 2", text)
                self.assertIn(os.uname().nodename, text)

    def test_order_of_imports(self):
        program = ("import torch.distributed as dist, tempfile; "
                   "dist.init_process_group('{name}', store=dist.HashStore(), rank=0, world_size=1); "
                   "import torch; t = torch.ones(2); dist.all_reduce(t); "
                   "assert 'tutti' in dist.Backend.backend_list; dist.destroy_process_group(); "
                   "dist.init_process_group('{name}', store=dist.HashStore(), rank=0, world_size=1); "
                   "dist.all_reduce(t); dist.destroy_process_group()")
        starts = ["import torch, tutti_torch; ", "import tutti_torch, torch; "]
        if hasattr(dist.Backend, "_ensure_backend_registered"):
            starts.append("")
        names = ["tutti", "cpu:tutti", "cpu:tutti,cuda:gloo"]  # cuda:nccl needs a device
        for start in starts:
            for name in names[:1] if start else names:
                done = subprocess.run([sys.executable, "-c", start + program.format(name=name)],
                                      capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, f"{start} {name}: {done.stderr}")

    def test_another_torch_is_refused(self):
        program = ("import torch; torch.__version__ = '1.0.0'; import tutti_torch")
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                              check=False)
        self.assertIn("was built for torch", done.stderr)


# ---- what shows what runs -----------------------------------------------------------------------


def shows(rank, n):
    text = tutti_torch.explain("all_reduce", 1000)
    assert "all_reduce of 1000" in text, text
    dist.all_reduce(torch.ones(3))
    path = f"/tmp/tutti-torch-trace-{os.getpid()}"
    tutti_torch.trace_dump(path)
    with open(path, encoding="utf-8") as file:
        assert "all_reduce" in file.read()
    os.unlink(path)
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    assert backend.name() == "tutti"
    if hasattr(dist.distributed_c10d, "_time_estimator"):
        with dist.distributed_c10d._time_estimator(device=torch.device("cpu")) as estimate:
            dist.all_reduce(torch.ones(100000), async_op=True)
        assert estimate.estimated_time > 0
    dist.barrier()


class Shows(unittest.TestCase):
    def test_explain_trace_and_estimate(self):
        ranks.run(shows, 2)


if __name__ == "__main__":
    unittest.main()
