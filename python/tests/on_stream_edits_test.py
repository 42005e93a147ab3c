#!/usr/bin/env python3
"""Communicators of ranks with devices are edited in place from Python: a rank leaves, one is killed and removed,
newcomers join; and all_reduces on the streams of the software device are right in front of each edit and behind it.
The all_reduce that survives does the same with arrays of devices."""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import place

os.environ["TUTTI_DEVICE_RING_BYTES"] = "512K"  # frames are short, and rings of many epochs soon made
place.find_software_device(devices=4)
place.find()

import numpy  # noqa: E402
from device_seat import Seat, run  # noqa: E402

import tutti  # noqa: E402

RANKS, KILLED, NEWCOMER = 3, 1, 3
COUNT = 50_000  # of 8 bytes: several slices
SECONDS = 120
WAY = "on device memory: by "


def put_sum(seat, number):
    """An all_reduce of `number` that is in the stream, and that nobody has waited for."""
    x = seat.array(numpy.full(COUNT, float(number)))
    with seat.on_stream():
        seat.comm.all_reduce(x)
    return x


def value_of(seat, x):
    """Its only value; None if it has several."""
    seat.wait()
    seat.comm.check()
    values = x.read()
    return values[0] if (values == values[0]).all() else None


class Edits(unittest.TestCase):
    def test_a_rank_leaves_and_a_newcomer_joins(self):
        ids, gone = queue.Queue(), threading.Barrier(RANKS, timeout=SECONDS)

        def leave(seat, first):
            values = [value_of(seat, first)]
            gone.wait()
            seat.comm.abort()
            return values

        def main(seat):
            number = seat.comm.rank + 1
            sums = [put_sum(seat, number)]
            if seat.comm.rank == RANKS - 1:
                return leave(seat, sums[0])
            removed = seat.comm.edit(removed=[RANKS - 1])["removed"]
            gone.wait()
            sums.append(put_sum(seat, number))
            if seat.comm.rank == 0:
                ids.put(seat.comm.id_for_newcomers())
            joined = seat.comm.edit(newcomers=1)["joined"]
            sums.append(put_sum(seat, number))
            values = [value_of(seat, x) for x in sums]
            return values, removed, joined, seat.comm.epoch, WAY in seat.comm.explain("all_reduce", COUNT)

        def newcomer(seat):
            seat.comm = tutti.join(ids.get(timeout=SECONDS))
            return value_of(seat, put_sum(seat, 10)), seat.comm.rank, seat.comm.ranks

        results = run(main, RANKS, [newcomer])
        self.assertEqual(results[:2], [([6.0, 3.0, 13.0], 1, 1, 2, True)] * 2)
        self.assertEqual(results[2:], [[6.0], (13.0, 2, 3)])

    def test_ranks_change_and_streams_stay(self):
        def main(seat):
            number, values = seat.comm.rank, []
            for _ in range(3):
                seat.comm.edit(order=list(reversed(range(seat.comm.ranks))))
                x = seat.array(numpy.full(7, 10 ** number))
                every = seat.array(numpy.zeros(7 * RANKS, "i8"))
                with seat.on_stream():
                    seat.comm.all_gather(x, every)
                seat.wait()
                seat.comm.check()
                values.append(every.read()[::7].tolist())
            return values
        turned = [100, 10, 1]
        self.assertEqual(run(main, RANKS), [[turned, turned[::-1], turned]] * RANKS)

    def test_check_raises_nothing_of_a_communicator_that_works_and_refuses_a_closed_one(self):
        def main(comm):
            comm.all_reduce(numpy.ones(1))
            comm.check()
            comm.close()
            comm.check()
        with self.assertRaisesRegex(tutti.InvalidInput, "is closed"):
            tutti.run(main, 2)


# ---- ranks that are killed are processes -------------------------------------------------------------------

class Job:
    """Processes of this file, `main` in each of them, which hand each other bytes by files of a folder."""

    def __init__(self, folder):
        self.folder = folder

    def tell(self, name, data):
        path = os.path.join(self.folder, name)
        with open(path + ".part", "wb") as file:
            file.write(data)
        os.rename(path + ".part", path)

    def hear(self, name):
        end = time.monotonic() + SECONDS
        while not os.path.exists(os.path.join(self.folder, name)):
            if time.monotonic() > end:
                raise TimeoutError(f"nobody says {name}")
            time.sleep(0.005)
        with open(os.path.join(self.folder, name), "rb") as file:
            return file.read()

    def communicator(self, number):
        if number == NEWCOMER:
            return tutti.join(self.hear("newcomer"))
        if number == 0:
            self.tell("id", tutti.unique_id())
        return tutti.Communicator(RANKS, number, self.hear("id"))

    @staticmethod
    def run(main):
        """By number: what each process has printed as JSON, or the signal that it ended by."""
        with tempfile.TemporaryDirectory(prefix="tutti-edits-") as folder:
            processes = [subprocess.Popen([sys.executable, "-B", __file__, main, folder, str(number)],
                                          stdout=subprocess.PIPE, text=True) for number in range(RANKS + 1)]
            try:
                outputs = [process.communicate(timeout=SECONDS)[0] for process in processes]
            finally:
                for process in processes:
                    process.kill()
                    process.wait()
        return [json.loads(output) if process.returncode == 0 else process.returncode
                for process, output in zip(processes, outputs)]


def call_until_it_fails(seat):
    for call in range(10_000):
        if seat.device == KILLED and call == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            x = put_sum(seat, seat.device + 1)
            if call % 3 == 0 and value_of(seat, x) != 6.0:
                return "a wrong sum"
        except tutti.CommunicationError as error:
            return str(error)
    return "no call has failed"


def killed(job, number):
    seat, said, values = Seat(number), "", []
    seat.comm = job.communicator(number)
    if number != NEWCOMER:
        said = call_until_it_fails(seat)
        seat.comm.edit(remove_dead=True)
        values.append(value_of(seat, put_sum(seat, number + 1)))
        if number == 0:
            job.tell("newcomer", seat.comm.id_for_newcomers())
        last = put_sum(seat, number + 1)
        seat.comm.edit(newcomers=1)
        values.append(value_of(seat, last))
    values.append(value_of(seat, put_sum(seat, number + 1)))
    by_device = WAY in seat.comm.explain("all_reduce", COUNT)
    seat.comm.close()
    return said, values, by_device


def steps(job, number):
    """Sums and averages of steps, of which one is killed in step 3; the newcomer is there in step 6, and counts
    in step 7."""
    seat, results = Seat(number), []
    seat.comm = job.communicator(number)
    if number == 0:
        job.tell("newcomer", seat.comm.id_for_newcomers())
    with seat.on_stream():
        survivors = tutti.FaultTolerantAllReduce(seat.comm, joins=number == NEWCOMER)
    while survivors.step < 9:
        x = seat.array(numpy.full(COUNT, 60.0 * (number + 1)))
        numbers, total = seat.array(numpy.full(7, number + 1)), seat.array(numpy.zeros(7, "i8"))
        survivors.all_reduce(x)
        if number == KILLED and survivors.step == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        survivors.all_reduce(numbers, total, op="sum")
        if number == 0 and survivors.step == 5:
            survivors.expect_newcomers(1)
        if number == NEWCOMER and survivors.step == 6:
            survivors.caught_up()
        report = survivors.step_commit()
        average, total = float(value_of(seat, x)), int(value_of(seat, total))
        results.append([report["step"], report["divisor"], round(average, 6), total])
    del survivors
    seat.comm.close()
    return results


class Steps(unittest.TestCase):
    def test_a_rank_dies_in_a_step_and_another_one_takes_its_place(self):
        results = Job.run("steps")
        expected = ([[step, 3, 120.0, 6] for step in range(3)] + [[step, 2, 120.0, 4] for step in range(3, 7)]
                    + [[step, 3, 160.0, 8] for step in range(7, 9)])
        self.assertEqual(results, [expected, -signal.SIGKILL, expected, expected[6:]])

    def test_other_streams_and_memory_are_refused(self):
        def main(seat):
            x, said = seat.array(numpy.zeros(4)), []
            with seat.on_stream():
                on_stream = tutti.FaultTolerantAllReduce(seat.comm)
            on_host = tutti.FaultTolerantAllReduce(seat.comm)
            for survivors, stream in ((on_stream, 0), (on_host, seat.stream), (on_host, None)):
                try:
                    with tutti.on_stream(stream) if stream is not None else contextlib.nullcontext():
                        survivors.all_reduce(x)
                except tutti.InvalidInput as error:
                    said.append(str(error))
            on_stream.all_reduce(x)
            on_stream.step_commit()
            del on_stream, on_host, survivors
            return said
        (other, host, memory), = run(main, 1)
        self.assertIn("another stream", other)
        self.assertIn("another stream", host)
        self.assertIn("is in a device's memory", memory)


class Deaths(unittest.TestCase):
    def test_a_rank_is_killed_among_its_calls_and_a_newcomer_takes_its_place(self):
        results = Job.run("killed")
        self.assertEqual(results[KILLED], -signal.SIGKILL)
        for number in (0, 2):
            said, values, by_device = results[number]
            self.assertIn(f"rank {KILLED} ", said)
            self.assertEqual((values, by_device), ([4.0, 4.0, 8.0], True))
        self.assertEqual(results[NEWCOMER], ["", [8.0], True])


if __name__ == "__main__":
    if len(sys.argv) == 4:
        print(json.dumps(globals()[sys.argv[1]](Job(sys.argv[2]), int(sys.argv[3]))))
    else:
        unittest.main(verbosity=1)
