#!/usr/bin/env python3
"""The habits of NCCL's own tests: several ranks as processes, threads and devices of a thread, streams of
all kinds, graphs, registered memory, split communicators. Slow tests repeat it with more seeds and shapes.
The control is a driver whose streams do not wait for events: a library that forgets the order."""

import os
import subprocess
import sys
import tempfile
import unittest

BUILD = os.environ.get("TEST_BINARY_DIR", "build")
STREAMS = ("own", "reborn", "null", "legacy", "per_thread")


def run(shape, *arguments, **variables):
    """`shape`: processes, threads of each, devices of each thread."""
    environment = dict(os.environ, LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "software_device"),
                       TUTTI_DEVICE_RING_BYTES="64K", SOFTDEV_DEVICES="8")
    environment.update(variables)
    named = zip(("--processes", "--threads", "--devices"), shape)
    command = [os.path.join(BUILD, "bin", "tests", "device_habits"), *(str(word) for pair in named for word in pair),
               *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)


class DeviceHabits(unittest.TestCase):
    def check(self, shape, *arguments, **variables):
        done = run(shape, *arguments, **variables)
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])

    def test_processes_threads_and_devices_of_a_thread(self):
        for seed, shape in enumerate(((2, 1, 1), (1, 4, 1), (1, 1, 3), (2, 2, 2)), 1):
            self.check(shape, "--seed", seed)

    def test_streams_of_each_kind(self):
        for seed, streams in enumerate(STREAMS, 11):
            self.check((1, 1, 2) if seed % 2 else (2, 1, 2), "--streams", streams, "--seed", seed)

    def test_slow_streams_and_few_hardware_queues(self):
        for channels in (1, 2, 3):
            self.check((2, 1, 2), "--seed", 20 + channels, SOFTDEV_CHANNELS=str(channels), SOFTDEV_SKEW_US="300")

    def test_drivers_from_12_4_to_13_1(self):
        for seed, version in enumerate(("12040", "12080", "13000", "13010"), 31):
            self.check((2, 1, 2), "--seed", seed, "--batches", 2, SOFTDEV_VERSION=version)

    def test_through_the_host(self):
        self.check((1, 1, 4), "--seed", 41, "--batches", 2, TUTTI_ENGINE="host")
        self.check((2, 2, 1), "--seed", 42, "--batches", 2, TUTTI_TRANSPORTS="tcp", TUTTI_LOG="off")

    def test_nothing_races_under_the_checker(self):
        for seed in range(51, 55):
            with tempfile.TemporaryDirectory() as folder:
                done = run(((2, 1, 1), (1, 1, 2))[seed % 2], "--seed", seed, "--rounds", 6, "--batches", 1, "--words",
                           200, "--busy", 0, SOFTDEV_CHECKER=os.path.join(folder, "checker"))
                self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
                self.assertNotIn("RACE", done.stderr)

    def test_a_library_that_orders_nothing_is_wrong(self):
        done = run((2, 1, 1), "--seed", 2, "--batches", 20, "--limit", 20, SOFTDEV_EVENT_WAITS="0", TUTTI_ENGINE="host")
        self.assertEqual(done.returncode, 1, done.stdout[-3000:] + done.stderr[-3000:])


if __name__ == "__main__":
    sys.exit(unittest.main())
