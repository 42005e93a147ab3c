#!/usr/bin/env python3
"""A program of NCCL on device memory, with the drop-in preloaded, on the software device."""

import os
import subprocess
import sys
import tempfile
import unittest

BUILD = os.path.abspath(os.environ.get("TEST_BINARY_DIR", "build"))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIBRARY = os.path.join(BUILD, "lib", "nccl", "libnccl.so.2")


class OnDevice(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.program = os.path.join(cls.folder.name, "on_device")
        subprocess.run(["cc", "-Wall", "-Werror", "-I", ROOT, os.path.join(ROOT, "tests/nccl/on_device.c"),
                        "-o", cls.program, LIBRARY, "-ldl"], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_it(self, ranks, **variables):
        folders = [os.path.join(BUILD, "lib", "software_device"), os.path.dirname(LIBRARY)]
        environment = dict(os.environ, LD_LIBRARY_PATH=":".join(folders), LD_PRELOAD=LIBRARY,
                           TUTTI_DEVICE_RING_BYTES="2M")
        environment.update(variables)
        done = subprocess.run([self.program, str(ranks)], env=environment, capture_output=True, text=True,
                              timeout=200)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_two_and_four_processes(self):
        for ranks in (2, 4):
            with self.subTest(ranks=ranks):
                self.run_it(ranks)

    def test_on_two_devices_with_slow_streams(self):
        self.run_it(4, SOFTDEV_DEVICES="2", SOFTDEV_SKEW_US="500")

    def test_the_environment_bounds_thread_blocks_whatever_the_configuration_says(self):
        self.run_it(2, NCCL_MAX_CTAS="2")

    def test_where_devices_do_not_reach_each_other(self):
        self.run_it(3, NCCL_P2P_DISABLE="1")

    def test_by_the_host_alone(self):
        self.run_it(3, TUTTI_DEVICE_RING_BYTES="0")


if __name__ == "__main__":
    sys.exit(unittest.main())
