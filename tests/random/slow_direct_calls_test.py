#!/usr/bin/env python3
"""Many random calls, most of them long and on memory that all ranks have registered: on devices whose
streams run in the order that does the most harm, and under the happens-before checker."""
import os
import subprocess
import sys
import tempfile
import unittest

BUILD = os.environ.get("TEST_BINARY_DIR", "build")


def run(jobs, seed, calls, ranks=4, **variables):
    environment = dict(os.environ, LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "software_device"),
                       SOFTDEV_MEMORY_MB="16384")
    environment.update(variables)
    command = [os.path.join(BUILD, "bin", "tests", "random_calls"), "--direct", "--no-large", "--ranks", str(ranks),
               "--seed", str(seed), "--jobs", str(jobs), "--calls", str(calls)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=3600)


class DirectCalls(unittest.TestCase):
    def check(self, *arguments, **variables):
        done = run(*arguments, **variables)
        self.assertEqual(done.returncode, 0, done.stdout[-4000:] + done.stderr[-2000:])
        self.assertNotIn("RACE", done.stderr)
        self.assertNotIn("proves nothing", done.stderr)

    def test_in_the_order_that_does_the_most_harm(self):
        for seed in range(10):
            with self.subTest(seed=seed):
                self.check(20, 500 + seed, 25, SOFTDEV_SKEW_US=str(150 * (seed % 4)), SOFTDEV_PIECE_BYTES="65536",
                           SOFTDEV_DEVICES=str(1 + seed % 3))

    def test_nothing_races_under_the_checker(self):
        for seed in range(10):
            with self.subTest(seed=seed), tempfile.TemporaryDirectory() as folder:
                self.check(1, 700 + seed, 10, 3, SOFTDEV_CHECKER=os.path.join(folder, "checker"))


if __name__ == "__main__":
    sys.exit(unittest.main())
