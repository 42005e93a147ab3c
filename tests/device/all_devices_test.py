#!/usr/bin/env python3
"""A thread that makes its ranks on several devices at once: each has its own, so have those of a
split, and the thread's current device stays what it was."""

import os
import subprocess
import sys
import unittest

BUILD = os.environ.get("TEST_BINARY_DIR", "build")


def run(*arguments, devices="3", **variables):
    environment = dict(os.environ, LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "software_device"),
                       TUTTI_DEVICE_RING_BYTES="2M", SOFTDEV_DEVICES=devices, **variables)
    command = [os.path.join(BUILD, "bin", "tests", "all_devices"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


class AllDevices(unittest.TestCase):
    def test_each_rank_has_its_device_and_so_have_the_ranks_of_a_split(self):
        for arguments in ((), ("--list", "1")):
            done = run(*arguments)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(done.stdout.count("by one kernel that waits"), 3, done.stdout)

    def test_one_hardware_queue_is_enough_for_each_device(self):
        done = run(SOFTDEV_CHANNELS="1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_group_of_ranks_on_one_device_gets_by_with_one_hardware_queue(self):
        done = run("--list", "3", devices="1", SOFTDEV_CHANNELS="1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("by the host, since ranks 0 and 1 share a process and its device"), 3)

    def test_devices_that_do_not_reach_each_other_take_pinned_memory_of_their_process(self):
        done = run(SOFTDEV_ISLAND="1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("rings of all ranks in pinned host memory"), 3, done.stdout)

    def test_the_legacy_stream_is_of_each_ranks_device_whatever_is_current(self):
        done = run("--legacy", "1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("by one kernel that waits"), 3, done.stdout)

    def test_a_device_that_there_is_not_is_named(self):
        done = run("--list", "2")
        self.assertEqual(done.returncode, 1)
        self.assertIn("devices[2] is 3; there are 3", done.stdout)

    def test_more_ranks_than_devices_share_what_is_current(self):
        done = run(devices="2")
        self.assertNotEqual(done.returncode, 0)  # there is no device 2 for its buffers
        self.assertNotIn("tuttiCommInitAll:", done.stdout)


if __name__ == "__main__":
    sys.exit(unittest.main())
