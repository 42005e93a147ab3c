#!/usr/bin/env python3
"""The movers of the runtime layer work on device memory: by copy engines and through the host."""

import os
import subprocess
import sys
import unittest

BUILD = os.environ.get("TEST_BINARY_DIR", "build")


def run(*arguments, **variables):
    environment = dict(os.environ, LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "software_device"),
                       **variables)
    command = [os.path.join(BUILD, "bin", "tests", "device_movers"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300,
                          check=False)


class DeviceMovers(unittest.TestCase):
    def test_every_word_arrives(self):
        for ranks in ("1", "2", "4"):
            with self.subTest(ranks=ranks):
                done = run("--ranks", ranks)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_through_the_host_too(self):
        done = run("--ranks", "2", TUTTI_DEVICE_RING_BYTES="0")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    sys.exit(unittest.main())
