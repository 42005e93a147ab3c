#!/usr/bin/env python3
"""Puts from device memory into parts in host memory, and gets, go through the host, on CUDA streams and
in graphs."""

import os
import subprocess
import sys
import unittest

BUILD = os.environ.get("TEST_BINARY_DIR", "build")


def run(*arguments, **variables):
    environment = dict(os.environ, SOFTDEV_DEVICES="4", TUTTI_DEVICE_RING_BYTES="2M",
                       LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "software_device"))
    environment.update(variables)
    command = [os.path.join(BUILD, "bin", "tests", "device_windows"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200)


class DeviceWindows(unittest.TestCase):
    def check(self, *arguments, **variables):
        done = run(*arguments, **variables)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_ranks_of_one_host(self):
        self.check()
        self.check("--graph", "1", SOFTDEV_SKEW_US="300")

    def test_ranks_of_two_hosts(self):
        self.check("--hosts", "2", "--words", "300000")
        self.check("--hosts", "2", "--graph", "1", SOFTDEV_CHANNELS="1")

    def test_without_device_rings(self):
        self.check("--graph", "1", TUTTI_DEVICE_RING_BYTES="0")


if __name__ == "__main__":
    sys.exit(unittest.main())
