#!/usr/bin/env python3
"""Reductions of device memory have the bits of the host's, whatever the streams do, and launch as many kernels as
is explained."""

import os
import subprocess
import sys
import tempfile
import unittest

SLICES = "24K"  # a ring in which calls of more than 4 KiB have several slices
BUILD = os.environ.get("TEST_BINARY_DIR", "build")


def run(*arguments, **variables):
    environment = dict(os.environ, LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "software_device"),
                       TUTTI_DEVICE_RING_BYTES="256K")
    environment.update(variables)
    command = [os.path.join(BUILD, "bin", "tests", "device_reductions"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


class DeviceReductions(unittest.TestCase):
    def checked(self, *arguments, **variables):
        """Under the happens-before checker, in order: it finds races whatever the timing is."""
        with tempfile.TemporaryDirectory() as folder:
            return run("--ranks", "3", "--seed", "5", *arguments, SOFTDEV_CHECKER=os.path.join(folder, "clocks"),
                       SOFTDEV_SHUFFLE="0", **variables)

    def check(self, *arguments, **variables):
        done = run(*arguments, **variables)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_all_types_and_operations(self):
        self.check("--ranks", "4", "--seed", "1")

    def test_of_threads(self):
        self.check("--ranks", "4", "--seed", "8", "--threads", "1")

    def test_of_two_hosts(self):
        self.check("--ranks", "4", "--seed", "9", "--network", "mixed")

    def test_with_slow_streams_and_many_blocks(self):
        self.check("--ranks", "3", "--seed", "2", SOFTDEV_SKEW_US="200", TUTTI_LEAST_CTAS="5", TUTTI_CTAS="7")

    def test_of_two_ranks_on_two_devices(self):
        self.check("--ranks", "2", "--seed", "3", SOFTDEV_DEVICES="2")

    def test_of_eight_ranks(self):
        self.check("--ranks", "8", "--seed", "4", TUTTI_CTAS="1")

    def test_nothing_is_read_before_it_is_there(self):
        done = self.checked()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_of_many_slices_in_two_streams(self):
        for channels in ("0", "1", "2", "3"):  # hardware queues of a process; 0: one for each stream
            self.check("--ranks", "3", "--seed", "7", TUTTI_DEVICE_RING_BYTES=SLICES, SOFTDEV_CHANNELS=channels,
                       SOFTDEV_SKEW_US="100")

    def test_nothing_of_two_streams_is_read_before_it_is_there(self):
        done = self.checked(TUTTI_DEVICE_RING_BYTES=SLICES)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_streams_that_neither_fork_nor_join_are_found(self):
        done = self.checked(TUTTI_DEVICE_RING_BYTES=SLICES, SOFTDEV_EVENT_WAITS="0")
        self.assertIn("RACE", done.stderr)
        done = self.checked(TUTTI_DEVICE_RING_BYTES="4M", SOFTDEV_EVENT_WAITS="0")  # in one stream
        self.assertNotIn("RACE", done.stderr)

    def test_the_checker_sees_what_kernels_touch(self):
        done = self.checked("--race", "1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("RACE", done.stderr)

    def test_without_kernels_they_go_through_the_host_and_it_is_said(self):
        self.check("--ranks", "2", "--seed", "6", "--by-host", "1", SOFTDEV_KERNELS="0")

    def test_a_wrong_byte_is_found(self):
        done = run("--ranks", "2", "--plant", "1")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("in the output", done.stdout)


if __name__ == "__main__":
    sys.exit(unittest.main())
