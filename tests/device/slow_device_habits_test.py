#!/usr/bin/env python3
"""The habits of NCCL's own tests (device_habits_test.py) on 2 to 8 ranks of many shapes, with more seeds, and
12 jobs under the happens-before checker."""

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from device_habits_test import run  # noqa: E402

SHAPES = ((2, 1, 1), (1, 2, 1), (1, 1, 2), (3, 1, 1), (1, 3, 1), (1, 1, 4), (2, 1, 2), (2, 2, 1), (1, 2, 2), (5, 1, 1),
          (2, 1, 3), (7, 1, 1), (2, 2, 2), (1, 1, 8), (8, 1, 1), (1, 8, 1))


class SlowDeviceHabits(unittest.TestCase):
    def check(self, shape, *arguments, **variables):
        done = run(shape, *arguments, **variables)
        self.assertEqual(done.returncode, 0, f"{shape} {arguments} {variables}\n" + done.stdout[-3000:] +
                         done.stderr[-3000:])
        self.assertNotIn("RACE", done.stderr)

    def test_every_shape_with_and_without_skew(self):
        for index, shape in enumerate(SHAPES):
            for seed, skew in ((100 + index, "0"), (200 + index, "500")):
                self.check(shape, "--seed", seed, SOFTDEV_SKEW_US=skew)

    def test_every_driver_with_few_queues(self):
        for version in ("12040", "12080", "13000", "13010"):
            for channels in ("1", "2", "0"):
                self.check((2, 1, 2), "--seed", 300 + int(version) % 97 + int(channels), SOFTDEV_VERSION=version,
                           SOFTDEV_CHANNELS=channels, SOFTDEV_SKEW_US="200")

    def test_twelve_jobs_under_the_checker(self):
        for job in range(12):
            with tempfile.TemporaryDirectory() as folder:
                self.check(((2, 1, 1), (1, 2, 1), (1, 1, 2), (3, 1, 1))[job % 4], "--seed", 400 + job, "--rounds", 6,
                           "--batches", 1, "--words", 200, "--busy", 0, SOFTDEV_CHECKER=os.path.join(folder, "checker"))


if __name__ == "__main__":
    sys.exit(unittest.main())
