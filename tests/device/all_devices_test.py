#!/usr/bin/env python3
"""A thread that makes its ranks on several devices at once: each has its own, so have those of a
split, and the thread's current device stays what it was."""

import os
import subprocess
import sys
import unittest

BUILD = os.environ.get("TEST_BINARY_DIR", "build")


def run(*arguments, devices="3"):
    environment = dict(os.environ, LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "software_device"),
                       TUTTI_DEVICE_RING_BYTES="2M", SOFTDEV_DEVICES=devices)
    command = [os.path.join(BUILD, "bin", "tests", "all_devices"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


class AllDevices(unittest.TestCase):
    def test_each_rank_has_its_device_and_so_have_the_ranks_of_a_split(self):
        for arguments in ((), ("--list", "1")):
            done = run(*arguments)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(done.stdout.count("by copy engines"), 3, done.stdout)

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
