#!/usr/bin/env python3
"""Windows whose parts lie in device memory: streams copy between devices, whatever the ranks are, eager and
in graphs; what cannot be is refused; a part ends when no stream holds a copy to it."""

import os
import subprocess
import sys
import unittest

BUILD = os.environ.get("TEST_BINARY_DIR", "build")


def run(*arguments, **variables):
    environment = dict(os.environ, SOFTDEV_DEVICES="4", TUTTI_DEVICE_RING_BYTES="2M",
                       LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "software_device"))
    environment.update(variables)
    command = [os.path.join(BUILD, "bin", "tests", "device_parts"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200)


class DeviceParts(unittest.TestCase):
    def check(self, *arguments, **variables):
        done = run(*arguments, **variables)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_processes(self):
        self.check(SOFTDEV_CHANNELS="1")
        self.check("--graph", "1", SOFTDEV_SKEW_US="300")
        self.check("--words", "1000000", SOFTDEV_SKEW_US="300")

    def test_threads(self):
        self.check("--threads", "1")
        self.check("--threads", "1", "--graph", "1", SOFTDEV_SKEW_US="300")

    def test_ranks_that_share_a_device(self):
        self.check("--threads", "1", SOFTDEV_DEVICES="1")
        self.check("--ranks", "6", SOFTDEV_DEVICES="2")

    def test_parts_of_both_kinds(self):
        self.check("--mixed", "1")
        self.check("--mixed", "1", "--pinned", "1", "--graph", "1")

    def test_without_device_rings(self):
        self.check("--pinned", "1", TUTTI_DEVICE_RING_BYTES="0")

    def test_what_cannot_be(self):
        for shape in ((), ("--threads", "1"), ("--hosts", "2")):
            heard = self.check("--case", "refused", *shape)
            self.assertIn("the memory is none that processes can share", heard)

    def test_devices_that_do_not_reach_each_other(self):
        done = run(SOFTDEV_ISLAND="2")
        self.assertRegex(done.stdout, "its device does not reach that of rank")

    def test_a_part_that_ends(self):
        self.check("--case", "held")
        self.check("--case", "held", "--threads", "1")
        self.assertIn("rank 0 ", self.check("--case", "ended"))


if __name__ == "__main__":
    sys.exit(unittest.main())
