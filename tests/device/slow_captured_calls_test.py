#!/usr/bin/env python3
"""As captured_calls_test, at length: hundreds of random graphs, and many deaths and aborts."""

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from captured_calls_test import run  # noqa: E402


class ManyCapturedCalls(unittest.TestCase):
    def check(self, *arguments, **variables):
        done = run(*arguments, **variables)
        self.assertEqual(done.returncode, 0, done.stdout[-4000:] + done.stderr[-4000:])
        return done

    def test_random_graphs(self):
        for seed in range(8):
            with self.subTest(seed=seed):
                self.check("--graphs", 25, "--seed", seed, "--limit", 600,
                           SOFTDEV_SKEW_US=str(100 * (seed % 4)), SOFTDEV_PIECE_BYTES="4096",
                           SOFTDEV_DEVICES=str(1 + seed % 2))

    def test_random_graphs_under_the_checker(self):
        for seed in range(20):
            with self.subTest(seed=seed), tempfile.TemporaryDirectory() as folder:
                done = self.check("--graphs", 1, "--replays", 3, "--seed", 100 + seed, "--words", 64,
                                  SOFTDEV_CHECKER=os.path.join(folder, "checker"))
                self.assertNotIn("RACE", done.stderr)

    def test_streams_go_on_when_a_rank_is_killed_or_aborts(self):
        for seed in range(20):
            for fault in ("kill", "abort"):
                with self.subTest(seed=seed, fault=fault):
                    self.check("--fault", fault, "--seed", seed)


if __name__ == "__main__":
    sys.exit(unittest.main())
