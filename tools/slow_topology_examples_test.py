#!/usr/bin/env python3
"""docs/topologies: what is shown there of every cluster is what the programs say."""

import pathlib
import subprocess
import sys
import unittest

TOOL = pathlib.Path(__file__).resolve().parent / "topology-examples"


class AllExamples(unittest.TestCase):
    def test_are_what_is_printed(self):
        done = subprocess.run([sys.executable, "-B", TOOL, "--check"], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=900, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))


if __name__ == "__main__":
    unittest.main()
