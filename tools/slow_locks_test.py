#!/usr/bin/env python3
"""All that a mutex guards is touched only while it is held: clang says so of every source (check-locks)."""

import os
import pathlib
import shutil
import subprocess
import sys
import unittest

TOOL = pathlib.Path(__file__).resolve().parent / "check-locks"
BUILD = os.environ.get("TEST_BINARY_DIR") or TOOL.parent.parent / "build"


class EverySource(unittest.TestCase):
    def test_touches_only_what_it_has_locked(self):
        done = subprocess.run([sys.executable, "-B", TOOL, BUILD], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    if shutil.which("clang++") is None:
        print("there is no clang++ (apt-get install clang)")
        sys.exit(77)
    unittest.main()
