#!/usr/bin/env python3
"""The package as a user meets it: collectives on arrays, errors, groups, the background, signals."""

import os
import select
import signal
import subprocess
import sys
import threading
import unittest

import place

place.find("numpy")

import numpy  # noqa: E402

import tutti  # noqa: E402

TYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32",
         "float64", "bool"]


class Collectives(unittest.TestCase):
    def test_all_types_and_sizes(self):
        def main(comm):
            wrong = []
            for name in TYPES:
                for count in (0, 1, 7, 4096):
                    x = (numpy.arange(count) % 3 + comm.rank).astype(name)
                    expected = sum((numpy.arange(count) % 3 + rank).astype(name).astype("int64")
                                   for rank in range(comm.ranks)).astype(name)
                    got = comm.all_reduce(x, numpy.empty_like(x))
                    if not numpy.array_equal(got, expected):
                        wrong.append((name, count))
            return wrong
        self.assertEqual(tutti.run(main, 3), [[], [], []])

    def test_every_shape_of_array(self):
        def main(comm):
            x = numpy.full((2, 3, 4), comm.rank + 1.0)
            comm.all_reduce(x[1])  # a contiguous part; the rest stays
            gathered = comm.all_gather(x[1], numpy.zeros((2, 3, 4)))
            return x[0, 0, 0], x[1, 0, 0], gathered.sum()
        self.assertEqual(tutti.run(main, 2), [(1.0, 3.0, 72.0), (2.0, 3.0, 72.0)])

    def test_a_suspended_communicator_refuses_calls_until_it_is_resumed(self):
        def main(comm):
            x = numpy.full(4, comm.rank + 1.0)
            comm.suspend()
            try:
                comm.all_reduce(x)
            except tutti.Error as error:
                refused = error.result
            state = comm.is_suspended, comm.device_memory
            comm.resume()
            return refused, state, comm.is_suspended, comm.all_reduce(x).tolist()
        self.assertEqual(tutti.run(main, 2), [("invalid_usage", (True, 0), False, [3.0] * 4)] * 2)

    def test_buffers_without_numpy(self):
        def main(comm):
            x = bytearray([comm.rank + 1, 5])
            comm.all_reduce(x)
            return bytes(x)
        self.assertEqual(tutti.run(main, 2), [b"\x03\x0a"] * 2)

    def test_deterministic_sums_do_not_depend_on_the_algorithm(self):
        def main(comm):
            data = numpy.random.default_rng(comm.rank).standard_normal(1001).astype("float32")
            return [comm.all_reduce(data, numpy.empty_like(data), deterministic=True).tobytes()
                    for _ in range(2)] + [comm.explain("all_reduce", 1001).splitlines()[0]]
        one, two = tutti.run(main, 2)
        self.assertEqual(one[:2], two[:2])
        self.assertIn("all_reduce", one[2])

    def test_a_level_that_encodes_rounds_and_all_ranks_have_the_same(self):
        """Threads that talk by sockets, as ranks of several hosts do: their level is "network"."""
        program = (
            "import numpy, tutti\n"
            "def main(comm):\n"
            "    x = numpy.random.default_rng(comm.rank).standard_normal(5000).astype('float32')\n"
            "    y = numpy.empty_like(x)\n"
            "    wire = 'always,network:int8_block:64'\n"
            "    exact, rounded = comm.all_reduce(x, y).copy(), comm.all_reduce(x, y, wire=wire).copy()\n"
            "    whole = numpy.empty(comm.ranks * x.size, 'float32')\n"
            "    gathered = comm.all_gather(x, whole, wire=wire)[:x.size].copy()\n"
            "    again = comm.all_reduce(x, y, wire='').copy()\n"
            "    assert exact.tobytes() == again.tobytes()\n"
            "    error = float(numpy.abs(exact - rounded).max())\n"
            "    try:\n"
            "        comm.all_reduce(x, y, wire='network:int7')\n"
            "    except tutti.InvalidInput as refused:\n"
            "        return error, rounded.tobytes(), gathered.tobytes(), str(refused)\n"
            "answers = tutti.run(main, 3)\n"
            "assert len({answer[1:3] for answer in answers}) == 1, 'ranks differ'\n"
            "assert all(1e-5 < answer[0] < 0.3 for answer in answers), answers[0][0]\n"
            "assert 'int7' in answers[0][3], answers[0][3]\n"
            "print('rounded alike')\n")
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120,
                              check=False, env={**os.environ, "TUTTI_TRANSPORTS": "tcp"})
        self.assertEqual((done.returncode, done.stdout), (0, "rounded alike\n"), done.stderr)

    def test_an_array_that_is_wrong_is_refused_with_a_sentence(self):
        def refusal(call):
            with self.assertRaises(tutti.InvalidInput) as caught:
                call()
            return str(caught.exception)

        def main(comm):
            x = numpy.zeros((4, 4))
            return [refusal(lambda: comm.all_reduce(x[:, 1])),
                    refusal(lambda: comm.all_reduce([1.0, 2.0])),
                    refusal(lambda: comm.all_reduce(x, numpy.zeros(16, "float32"))),
                    refusal(lambda: comm.all_gather(x, numpy.zeros(16))),
                    refusal(lambda: comm.all_to_all(numpy.zeros(3), numpy.zeros(3))),
                    refusal(lambda: comm.all_reduce(numpy.zeros(2), op="mean")),
                    refusal(lambda: comm.all_reduce(numpy.zeros(2, "complex64"))),
                    refusal(lambda: comm.all_reduce(b"read-only")),
                    refusal(lambda: comm.all_gather_v(numpy.zeros(2), numpy.zeros(4), [2])),
                    refusal(lambda: comm.all_to_all_v(x, x, [9, 9], [9, 9])),
                    comm.all_reduce(numpy.ones(1)).tolist()]
        said = tutti.run(main, 2)[0]
        for sentence, word in zip(said, ["contiguous", "list", "float32[16]", "32 elements", "2 equal",
                                         "mean", "complex", "read-only", "2 ranks", "18 elements"]):
            self.assertIn(word if word != "complex" else "no type", sentence)
        self.assertEqual(said[-1], [2.0])  # the communicator goes on

    def test_calls_that_differ_name_both_ranks(self):
        def main(comm):
            try:
                comm.all_reduce(numpy.zeros(3 + comm.rank))
            except tutti.CommunicationError as error:
                return error.kind, error.result, str(error)
            return None
        for answer in tutti.run(main, 2):
            self.assertEqual(answer[:2], ("communication", "invalid_usage"))
            self.assertIn("rank 0", answer[2])
            self.assertIn("rank 1", answer[2])


class Waiting(unittest.TestCase):
    def test_the_background_overlaps_and_tells(self):
        def main(comm):
            x = numpy.full(1000, 1.0)
            request = comm.all_reduce(x, wait=False)
            early = request.wait(timeout=0) if comm.rank == 0 else None
            comm_rank_1_comes_late.wait(60)
            request.wait()
            return early in (True, False, None), request.done(), x[0]
        comm_rank_1_comes_late = threading.Event()
        threading.Timer(0.05, comm_rank_1_comes_late.set).start()
        self.assertEqual(tutti.run(main, 2), [(True, True, 2.0)] * 2)

    def test_a_forgotten_request_keeps_its_buffer(self):
        def main(comm):
            for _ in range(20):
                comm.all_reduce(numpy.ones(1 << 16), wait=False)
            return comm.all_reduce(numpy.ones(1)).tolist()
        self.assertEqual(tutti.run(main, 2), [[2.0], [2.0]])

    def test_groups_run_when_they_end(self):
        def main(comm):
            got = numpy.zeros((comm.ranks, 2))
            with tutti.group():
                for peer in range(comm.ranks):
                    comm.send(numpy.array([comm.rank, peer], "float64"), peer)
                    comm.recv(got[peer], peer)
            return got.tolist()
        for rank, got in enumerate(tutti.run(main, 3)):
            self.assertEqual(got, [[peer, rank] for peer in range(3)])

    def test_an_exception_in_a_group_runs_nothing_of_it(self):
        def main(comm):
            try:
                with tutti.group():
                    comm.send(numpy.zeros(1), 1 - comm.rank)
                    raise KeyError("stop")
            except KeyError:
                return comm.all_reduce(numpy.ones(1)).tolist()
        self.assertEqual(tutti.run(main, 2), [[2.0], [2.0]])

    def test_other_threads_run_while_a_call_waits(self):
        def main(comm):
            if comm.rank == 1:
                ready.wait(60)
            comm.barrier()
            return True
        ready = threading.Event()
        counter = threading.Thread(target=lambda: (sum(range(10000)), ready.set()))
        counter.start()
        self.assertEqual(tutti.run(main, 2), [True, True])


class Ends(unittest.TestCase):
    def test_the_failure_of_a_rank_ends_the_others_and_leaves(self):
        def main(comm):
            if comm.rank == 2:
                raise LookupError("of rank 2")
            comm.barrier()
        with self.assertRaises(LookupError) as caught:
            tutti.run(main, 3)
        if hasattr(caught.exception, "__notes__"):
            self.assertIn("rank 2 of 3", caught.exception.__notes__[0])

    def test_closing_again_does_nothing_and_a_closed_one_says_so(self):
        def main(comm):
            comm.barrier()
            comm.close()
            comm.close()
            comm.abort()
            try:
                comm.barrier()
            except tutti.InvalidInput as error:
                return str(error), repr(comm)
        for answer in tutti.run(main, 2):
            self.assertIn("closed", answer[0])
            self.assertIn("closed", answer[1])

    def test_split_and_shrink(self):
        def main(comm):
            half = comm.split(comm.rank // 2)
            total = half.all_reduce(numpy.array([comm.rank])).tolist()
            none = comm.split(0 if comm.rank else None)
            if comm.rank == 3:
                return total, none.ranks
            rest = comm.shrink([3])
            return total, none and none.ranks, rest.all_reduce(numpy.ones(1)).tolist()
        self.assertEqual(tutti.run(main, 4), [([1], None, [3.0]), ([1], 3, [3.0]), ([5], 3, [3.0]),
                                              ([5], 3)])

    def test_edit_removes_a_rank_and_a_newcomer_joins(self):
        def main(comm):
            members = [comm.member_id(rank) for rank in range(comm.ranks)]
            if comm.rank == 1:
                try:
                    comm.barrier()
                except tutti.CommunicationError as failure:
                    return "barrier" if str(failure) else ""
            report = comm.edit(removed=[1])
            assert (report["epoch"], report["removed"], comm.epoch) == (1, 1, 1), report
            assert comm.member_id(comm.rank) == members[2 * comm.rank]
            if comm.rank == 0:
                key = comm.id_for_newcomers()
                threading.Thread(target=newcomer, args=(key,)).start()
            comm.edit(order=[tutti.NEWCOMER, 1, 0], newcomers=1)
            total = comm.all_reduce(numpy.array([comm.rank])).tolist()
            return comm.rank, comm.ranks, total

        joined = []

        def newcomer(key):
            with tutti.join(key) as comm:
                joined.append((comm.rank, comm.all_reduce(numpy.array([0])).tolist()))

        self.assertEqual(tutti.run(main, 3), [(2, 3, [3]), "barrier", (1, 3, [3])])
        self.assertEqual(joined, [(0, [3])])

    def test_an_all_reduce_survives_a_rank_that_leaves(self):
        def main(comm):
            survivors = tutti.FaultTolerantAllReduce(comm)
            seen = []
            for step in range(3):
                if comm.rank == 1 and comm.ranks == 3 and step == 1:
                    comm.abort()
                    return None
                x = numpy.full(1000, float(comm.rank + 1), "float32")
                total = numpy.zeros(1000, "float32")
                survivors.all_reduce(x, total, op="sum")
                survivors.all_reduce(x)
                report = survivors.step_commit()
                self.assertEqual((report["step"], report["divisor"]), (step, comm.ranks))
                seen.append((float(total[0]), float(x[-1])))
            return seen
        # Inputs are those of the ranks before the edit; then rank 2 is rank 1.
        self.assertEqual(tutti.run(main, 3), [[(6.0, 2.0), (4.0, 2.0), (3.0, 1.5)], None,
                                              [(6.0, 2.0), (4.0, 2.0), (3.0, 1.5)]])

    def test_an_all_reduce_that_survives_refuses_what_cannot_be(self):
        def main(comm):
            survivors = tutti.FaultTolerantAllReduce(comm)
            with self.assertRaisesRegex(tutti.InvalidInput, "not sum or avg"):
                survivors.all_reduce(numpy.ones(1), op="max")
            with self.assertRaisesRegex(tutti.InvalidInput, "one type and size"):
                survivors.all_reduce(numpy.ones(1), numpy.ones(2))
            with self.assertRaisesRegex(tutti.InvalidInput, "newcomers"):
                survivors.expect_newcomers(-1)
            return survivors.step_commit()["step"], survivors.step, survivors.counted, survivors.kept
        self.assertEqual(tutti.run(main, 2), [(0, 1, True, 0)] * 2)

    def test_edits_that_no_group_can_have_are_refused(self):
        def main(comm):
            with self.assertRaises(tutti.InvalidInput):
                comm.edit(removed=[7])
            with self.assertRaises(tutti.CommunicationError):
                comm.edit(newcomers=1, timeout=0.2)
            return comm.epoch, comm.all_reduce(numpy.ones(1)).tolist()
        self.assertEqual(tutti.run(main, 2), [(0, [2.0])] * 2)

    def test_registered_memory_outlives_its_communicator(self):
        def main(comm):
            x = tutti.RegisteredMemory(comm, 1 << 16).bytes.view("float64")
            x[:] = comm.rank
            comm.all_reduce(x)
            comm.close()
            return x.sum()
        self.assertEqual(tutti.run(main, 2), [8192.0] * 2)

    def test_borrowed_handles_stay_open(self):
        def main(comm):
            other = tutti.Communicator.from_handle(comm.handle)
            total = other.all_reduce(numpy.ones(1)).tolist()
            other.close()
            return total, comm.all_reduce(numpy.ones(1)).tolist()
        self.assertEqual(tutti.run(main, 2), [([2.0], [2.0])] * 2)


WAITS = """
import os, sys, numpy, tutti
tutti_id = tutti.unique_id()
def rank_1():
    comm = tutti.Communicator(2, 1, tutti_id)
    comm.barrier()
    sys.stdin.read()  # until the test says so
if os.fork() == 0:
    rank_1()
    os._exit(0)
comm = tutti.Communicator(2, 0, tutti_id)
comm.barrier()
print("waits", flush=True)
try:
    KIND
except KeyboardInterrupt:
    print("heard", comm.is_open, flush=True)
"""
KINDS = {"call": "comm.barrier()", "request": "comm.barrier(wait=False).wait()",
         "making": "tutti.Communicator(2, 0, tutti.unique_id())"}


class Signals(unittest.TestCase):
    def interrupted(self, kind):
        with subprocess.Popen([sys.executable, "-c", WAITS.replace("KIND", KINDS[kind])],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, bufsize=0) as process:
            self.assertEqual(process.stdout.readline(), b"waits\n")
            # A signal that comes before the wait has begun is heard by Python itself.
            while not select.select([process.stdout], [], [], 0.4)[0]:
                process.send_signal(signal.SIGINT)
            line = process.stdout.readline().decode().strip()
            process.kill()
            process.stdin.close()
        return line

    def test_ctrl_c_ends_a_call(self):
        self.assertEqual(self.interrupted("call"), "heard False")

    def test_ctrl_c_ends_a_wait_for_a_request(self):
        self.assertEqual(self.interrupted("request"), "heard False")

    def test_ctrl_c_ends_the_making_of_a_communicator(self):
        self.assertEqual(self.interrupted("making"), "heard True")


class Surroundings(unittest.TestCase):
    def python(self, code, **more):
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120,
                              check=True, **more).stdout

    def test_the_import_brings_neither_torch_nor_output(self):
        self.assertEqual(self.python("import tutti, sys; assert 'torch' not in sys.modules"), "")

    def test_check_is_good(self):
        said = subprocess.run([sys.executable, "-m", "tutti", "check"], capture_output=True, text=True,
                              timeout=120, check=True).stdout
        self.assertIn("all_reduce    good", said)

    def test_log_lines_reach_logging(self):
        said = self.python(
            "import logging, sys, time; logging.basicConfig(stream=sys.stdout, level=logging.INFO)\n"
            "import tutti; tutti.log_to_logging('info')\n"
            "tutti.run(lambda comm: comm.barrier(), 2)\n"
            "deadline = time.monotonic() + 60\n"
            "time.sleep(0.2)\n", env={**os.environ, "TUTTI_LOG": "info"})
        self.assertIn(":tutti:", said)

    def test_settings_are_there(self):
        names = {entry["name"] for entry in tutti.settings()}
        self.assertIn("TUTTI_LOG", names)
        self.assertGreater(len(names), 20)


if __name__ == "__main__":
    unittest.main(verbosity=1)
