#!/usr/bin/env python3
"""What all commands of the program have in common."""

import os
import re
import subprocess
import unittest

TUTTI = os.path.join(os.environ.get("TEST_BINARY_DIR", ""), "bin", "tutti")


def run(*arguments, stdout=subprocess.PIPE, **variables):
    return subprocess.run([TUTTI, *arguments], stdin=subprocess.DEVNULL, stdout=stdout,
                          stderr=subprocess.PIPE, text=True, timeout=60, check=False,
                          env={**os.environ, **variables})


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

    def test_settings_that_cannot_be_right_are_refused(self):
        for name, value, said in (
                ("TUTTI_TRANSPORTS", "shm,tpc", "did you mean 'tcp'? There are loopback, shm, "),
                ("TUTTI_ALGORITHM", "all_reduce:rings", "did you mean 'ring'? There are one_shot, "),
                ("TUTTI_ALGORITHM", "allreduce:ring", "did you mean 'all_reduce'?"),
                ("NCCL_COMM_ID", "host:70000", "NCCL_COMM_ID='host:70000'")):
            done = run("env", **{name: value})
            with self.subTest(name=name, value=value):
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertIn(f"tutti env: {name}", done.stderr)
                self.assertIn(said, done.stderr)
        self.assertIn("* TUTTI_TRANSPORTS         = tcp,shm", run("env", TUTTI_TRANSPORTS="tcp,shm").stdout)
        self.assertIn("= all_reduce:ring:2 ", run("env", TUTTI_ALGORITHM="all_reduce/ring:2").stdout)

    def test_output_that_is_lost_is_an_error(self):
        for name in ("version", "env", "algorithms"):
            with open("/dev/full", "w", encoding="utf-8") as full, self.subTest(name):
                done = run(name, stdout=full)
                self.assertEqual(done.returncode, 1)
                self.assertIn("not all of the output could be written", done.stderr)


if __name__ == "__main__":
    unittest.main()
