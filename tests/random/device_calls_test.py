#!/usr/bin/env python3
"""Random calls on device memory are right on the software device: streams in the order that does the
most harm, several devices, few hardware queues, older drivers, and by the host alone."""
import os
import subprocess
import sys
import tempfile
import unittest

BUILD = os.environ.get("TEST_BINARY_DIR", "build")
PROGRAM = os.path.join(BUILD, "bin", "tests", "random_calls")
DEVICE = os.path.join(BUILD, "lib", "software_device")

NCCL = os.path.abspath(os.path.join(BUILD, "lib", "software_nccl", "libnccl.so.2"))


def run(jobs, seed, calls=30, only=None, ranks=4, more=(), **variables):
    environment = dict(os.environ, LD_LIBRARY_PATH=DEVICE, SOFTDEV_MEMORY_MB="16384")
    environment.update(variables)
    which = ["--jobs", str(jobs)] if only is None else ["--job", str(only)]
    command = [PROGRAM, "--devices", "--no-large", *more, "--ranks", str(ranks), "--seed", str(seed),
               *which, "--calls", str(calls)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)


class DeviceCalls(unittest.TestCase):
    def check(self, jobs, seed, only=None, **variables):
        done = run(jobs, seed, only=only, **variables)
        self.assertEqual(done.returncode, 0, done.stdout[-4000:] + done.stderr[-2000:])
        self.assertNotIn("RACE", done.stderr)

    def test_in_random_order_with_slow_streams(self):
        self.check(3, 1, SOFTDEV_SKEW_US="500", SOFTDEV_PIECE_BYTES="4096")

    def test_on_four_devices(self):
        self.check(3, 2, SOFTDEV_DEVICES="4")

    def test_on_few_hardware_queues(self):
        for ranks in (2, 4):
            for channels in ("1", "2", "3"):
                with self.subTest(ranks=ranks, channels=channels):
                    done = run(1, 10 * ranks, ranks=ranks, calls=12, more=["--processes"],
                               SOFTDEV_CHANNELS=channels)
                    self.assertEqual(done.returncode, 0, done.stdout[-4000:] + done.stderr[-2000:])

    def test_by_the_host_alone(self):
        self.check(2, 3, TUTTI_DEVICE_RING_BYTES="0")

    def test_by_nccl(self):
        with tempfile.NamedTemporaryFile("r", suffix=".log") as log:
            done = run(3, 7, ranks=4, calls=40, more=["--processes"], SOFTDEV_DEVICES="4", TUTTI_ENGINE="nccl",
                       TUTTI_NCCL=NCCL, SOFTNCCL_LOG=log.name)
            self.assertEqual(done.returncode, 0, done.stdout[-4000:] + done.stderr[-2000:])
            words = log.read()
        for call in range(6):  # of all kinds
            self.assertIn(f" call {call}\n", words)
        self.assertNotIn("given up", words)

    def test_with_a_driver_that_copies_one_by_one(self):
        self.check(2, 4, SOFTDEV_VERSION="12040")

    def test_the_end_of_a_communicator_waits_for_no_stream_of_another_rank(self):
        self.check(1, 103, only=2)  # communicators of one rank end beside those of the process's others

    def test_groups_name_communicators_in_another_order_on_each_rank(self):
        done = run(2, 11, ranks=5, calls=40, more=["--processes"], SOFTDEV_SKEW_US="300")
        self.assertEqual(done.returncode, 0, done.stdout[-4000:] + done.stderr[-2000:])

    def test_one_thread_makes_ranks_on_the_devices_of_others(self):
        self.check(3, 21, SOFTDEV_DEVICES="4")

    def test_long_calls_on_registered_memory_are_direct(self):
        done = run(3, 41, ranks=4, calls=25, more=["--direct"], TUTTI_LOG="info", SOFTDEV_SKEW_US="300",
                   SOFTDEV_PIECE_BYTES="65536")
        self.assertEqual(done.returncode, 0, done.stdout[-4000:] + done.stderr[-2000:])
        self.check_direct(done.stderr)

    def check_direct(self, log):
        for name in ("all_gather", "all_to_all", "broadcast", "all_reduce", "reduce_scatter", "reduce"):
            self.assertRegex(log, f": {name} reads registered device memory")

    def test_a_driver_that_may_not_be_used_is_named(self):
        done = run(1, 5, SOFTDEV_INIT_RESULT="304")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no device", done.stdout)


if __name__ == "__main__":
    sys.exit(unittest.main())
