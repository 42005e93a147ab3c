#!/usr/bin/env python3
"""What all commands of the program have in common."""

import os
import re
import subprocess
import unittest

TUTTI = os.path.join(os.environ.get("TUTTI_BINARY_DIR", ""), "bin", "tutti")


def run(*arguments, stdout=subprocess.PIPE):
    return subprocess.run([TUTTI, *arguments], stdin=subprocess.DEVNULL, stdout=stdout,
                          stderr=subprocess.PIPE, text=True, timeout=60, check=False)


def commands():
    return re.findall(r"^  (\w+) ", run("--help").stdout, re.MULTILINE)


class Commands(unittest.TestCase):
    def test_there_are_some(self):
        self.assertIn("perf", commands())

    def test_each_has_help(self):
        for name in commands():
            done = run(name, "--help")
            with self.subTest(name):
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertRegex(done.stdout, re.compile("usage: .*tutti", re.IGNORECASE))

    def test_wrong_ones_are_refused(self):
        for arguments in [(), ("nonsense",), ("version", "nonsense"), ("explain",), ("explain", "nonsense")]:
            done = run(*arguments)
            with self.subTest(arguments):
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn("usage: tutti", done.stderr)

    def test_output_that_is_lost_is_an_error(self):
        for name in ("version", "env", "algorithms"):
            with open("/dev/full", "w", encoding="utf-8") as full, self.subTest(name):
                done = run(name, stdout=full)
                self.assertEqual(done.returncode, 1)
                self.assertIn("not all of the output could be written", done.stderr)


if __name__ == "__main__":
    unittest.main()
