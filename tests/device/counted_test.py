#!/usr/bin/env python3
"""A call on device memory puts into its stream what tuttiExplain says, which is not too much: no
kernel, and up to 16 MiB at most 64 copies and 32 groups of operations."""

import os
import subprocess
import sys
import unittest

BUILD = os.environ.get("TEST_BINARY_DIR", "build")


def run(*arguments, **variables):
    environment = dict(os.environ, LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "software_device"),
                       SOFTDEV_MEMORY_MB="16384", **variables)
    command = [os.path.join(BUILD, "bin", "tests", "counted"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


class Counted(unittest.TestCase):
    def test_what_is_told_is_what_is_put_there(self):
        for ranks in ("2", "4"):
            for ring in ("256K", "2M"):  # slices: many, few
                done = run("--ranks", ranks, TUTTI_DEVICE_RING_BYTES=ring)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_it_is_not_too_much(self):
        for ranks in ("2", "4", "8"):
            done = run("--ranks", ranks, "--most-mib", "16")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    sys.exit(unittest.main())
