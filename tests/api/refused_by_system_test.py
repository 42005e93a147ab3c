#!/usr/bin/env python3
"""What the operating system refuses to a process is an error that says what to change."""

import os
import subprocess
import unittest

TUTTI = os.path.join(os.environ.get("TEST_BINARY_DIR", ""), "bin", "tutti")
UNMAPPED = ["unshare", "--user"]


def may_unmap():
    try:
        return subprocess.run([*UNMAPPED, "true"], capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


class RefusedBySystem(unittest.TestCase):
    @unittest.skipUnless(may_unmap(), "this machine permits no user namespace")
    def test_a_user_without_a_number_is_told_to_map_it(self):
        perf = [*UNMAPPED, TUTTI, "perf", "all_reduce", "-n", "2", "-b", "8", "-e", "8"]
        done = subprocess.run(perf, capture_output=True, text=True, timeout=60)
        self.assertNotEqual(done.returncode, 0)
        for said in ("rank 1", "not mapped in its user namespace", "--map-root-user"):
            self.assertIn(said, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
