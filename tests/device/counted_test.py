#!/usr/bin/env python3
"""A call on device memory puts into its stream what tuttiExplain says, which is not too much: no
kernel, and up to 16 MiB at most 64 copies and 32 groups of operations; calls of 1 GiB have few slices,
and never so much behind a wait that the call would block."""

import os
import subprocess
import sys
import unittest

COUNTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "counts_of_8_ranks.txt")
BUILD = os.environ.get("TEST_BINARY_DIR", "build")


def run(*arguments, **variables):
    # By streams, unless somebody asks for calls that one kernel runs.
    environment = dict(os.environ, LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "software_device"),
                       SOFTDEV_MEMORY_MB="16384", **{"TUTTI_MAILBOX_BYTES": "0", **variables})
    command = [os.path.join(BUILD, "bin", "tests", "counted"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


class Counted(unittest.TestCase):
    def test_what_is_told_is_what_is_put_there(self):
        for ranks in ("2", "4"):
            for ring in ("256K", "2M"):  # slices: many, few
                done = run("--ranks", ranks, TUTTI_DEVICE_RING_BYTES=ring)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_it_is_not_too_much(self):
        for ranks in ("2", "4", "8"):
            done = run("--ranks", ranks, "--most-mib", "16")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_on_the_legacy_stream_copies_are_lists_too(self):
        done = run("--ranks", "4", "--legacy", SOFTDEV_DEVICES="4", TUTTI_DEVICE_RING_BYTES="2M")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_counts_of_eight_ranks_are_those_of_the_page(self):
        done = run("--ranks", "8", "--counts", SOFTDEV_DEVICES="8")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(COUNTS, encoding="utf-8") as file:
            told = [line for line in done.stdout.splitlines() if " bytes: " in line]
            kernels = run("--ranks", "8", "--counts", SOFTDEV_DEVICES="8", TUTTI_ENGINE="kernel",
                          TUTTI_MAILBOX_BYTES="8M").stdout.splitlines()
            told += [line for line in kernels if "one kernel that waits, " in line]
            shared = run("--ranks", "8", "--counts", SOFTDEV_DEVICES="8", TUTTI_MULTICAST="always",
                         SOFTDEV_MULTICAST="8").stdout.splitlines()
            told += [line for line in shared if " by multicast)" in line]
            self.assertEqual(told, file.read().splitlines())

    def test_long_calls_are_few_slices(self):
        done = run("--ranks", "8", "--long")
        print(done.stdout)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    sys.exit(unittest.main())
