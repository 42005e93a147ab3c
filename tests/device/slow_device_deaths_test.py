#!/usr/bin/env python3
"""A rank that dies, or stops, among random calls on device memory: the others' streams go on, and
they are told which rank it was. 40 times each."""

import os
import re
import subprocess
import sys
import unittest

BUILD = os.environ.get("TEST_BINARY_DIR", "build")


class Deaths(unittest.TestCase):
    def run_rounds(self, fault):
        environment = dict(os.environ, TUTTI_DEVICE_RING_BYTES="2M",
                           LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "software_device"))
        program = os.path.join(BUILD, "bin", "tests", "device_deaths")
        done = subprocess.run([program, "--fault", fault, "--rounds", "40"], env=environment,
                              capture_output=True, text=True, timeout=1500)
        self.assertEqual(done.returncode, 0, done.stdout[-4000:] + done.stderr[-2000:])
        times = sorted(int(took) for took in re.findall(r"took (\d+) ms", done.stdout))
        self.assertEqual(len(times), 40 * 3)
        print(f"{fault}: median {times[len(times) // 2]} ms, longest {times[-1]} ms")

    def test_killed(self):
        self.run_rounds("kill")

    def test_stopped_where_calls_have_a_deadline(self):
        self.run_rounds("stop")


if __name__ == "__main__":
    sys.exit(unittest.main())
