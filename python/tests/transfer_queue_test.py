#!/usr/bin/env python3
"""The transfer queue from Python: arrays come back, processes that are killed lose nothing."""

import multiprocessing
import os
import signal
import tempfile
import unittest

import place

place.find("numpy")

import numpy  # noqa: E402
import tutti  # noqa: E402

ROWS = 12
TIMEOUT = 120


def produce(address, step, how_many):
    client = tutti.QueueClient(address)
    for row in range(how_many):
        client.put(step, row, prompt=numpy.arange(row + 1), score=numpy.full((row, 2), row, numpy.float32))
    os.kill(os.getpid(), signal.SIGKILL)


def consume(address, in_hand):
    """Is killed with rows in hand."""
    client = tutti.QueueClient(address)
    client.claim("train", rows=in_hand, timeout=TIMEOUT)
    os.kill(os.getpid(), signal.SIGKILL)


class Queue(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.units = [tutti.StorageUnit(f"unix:{self.folder.name}/u{i}", budget=1 << 20) for i in range(2)]
        self.controller = tutti.QueueController(f"unix:{self.folder.name}/c", rows=ROWS, fields=["prompt", "score"],
                                                units=[unit.address for unit in self.units])
        self.client = tutti.QueueClient(self.controller.address)
        self.client.add_task("train", ["score", "prompt"])

    def tearDown(self):
        del self.client, self.controller, self.units
        self.folder.cleanup()

    def test_killed_processes_lose_nothing(self):
        context = multiprocessing.get_context("spawn")
        address = self.controller.address
        for target, argument in ((produce, (0, 5)), (consume, (4,)), (produce, (0, ROWS)), (consume, (7,))):
            process = context.Process(target=target, args=(address, *argument))
            process.start()
            process.join(TIMEOUT)
            self.assertEqual(process.exitcode, -signal.SIGKILL)
        seen = []
        while len(seen) < ROWS:
            batch = self.client.claim("train", rows=5, least=1, timeout=TIMEOUT)
            columns = self.client.fetch(batch)
            self.assertEqual(list(columns), ["score", "prompt"])
            for row, score, prompt in zip(batch.rows, columns["score"], columns["prompt"]):
                numpy.testing.assert_array_equal(prompt, numpy.arange(row.row + 1))
                numpy.testing.assert_array_equal(score, numpy.full((row.row, 2), row.row))
                self.assertEqual(score.dtype, numpy.float32)
                seen.append(row.row)
            self.client.ack(batch)
        self.assertEqual(sorted(seen), list(range(ROWS)))
        counts = self.client.counts("train")
        self.assertEqual((counts.consumed, counts.lapsed, counts.free), (ROWS, 11, 0))
        self.client.drain(0)
        self.assertEqual(self.client.clear(0), 0)

    def test_staleness(self):
        self.client.add_task("fresh", ["prompt"], max_staleness=0)
        self.client.put(0, 0, prompt=[1], version=0)
        self.client.publish(1)
        self.client.put(0, 1, prompt=[2], version=1)
        batch = self.client.claim("fresh", rows=1)
        self.assertEqual(([r.row for r in batch.rows], batch.versions), ([1], [1]))
        self.assertEqual([r.row for r in self.client.expired("fresh", 0)], [0])
        self.assertEqual(self.client.version(), 1)

    def test_what_is_wrong_is_refused(self):
        def refused(words, kind, call):
            with self.assertRaisesRegex(kind, words):
                call()

        self.client.put(0, 0, prompt=[1])
        refused("one form within a step", tutti.InvalidInput, lambda: self.client.put(0, 1, prompt=[1.5]))
        refused("single number", tutti.InvalidInput, lambda: self.client.put(0, 1, prompt=3))
        refused("at least one field", tutti.InvalidInput, lambda: self.client.put(0, 1))
        refused("no field 'image'", tutti.InvalidInput, lambda: self.client.put(0, 1, image=[1]))
        refused("0 of 1 rows are free", tutti.Infeasible, lambda: self.client.claim("train", 1, timeout=0))
        refused("nobody listens", tutti.CommunicationError,
                lambda: tutti.QueueClient(f"unix:{self.folder.name}/nobody", timeout=0))
        refused("needs a key", tutti.InvalidInput, lambda: tutti.QueueClient("tcp:127.0.0.1:1"))

    def test_ctrl_c_ends_a_wait(self):
        import threading
        timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            self.client.claim("train", 1, timeout=TIMEOUT)
        timer.join()


if __name__ == "__main__":
    unittest.main(verbosity=1)
