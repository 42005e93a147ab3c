#!/usr/bin/env python3
"""Communicators that give their device memory back for a while: nothing of it stays, calls and
graphs that were captured before are right afterwards, and all ranks do it or none."""

import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from environment import clean_environment  # noqa: E402

BUILD = os.environ.get("TEST_BINARY_DIR", "build")


def run(*arguments, **variables):
    environment = dict(clean_environment(), TUTTI_DEVICE_RING_BYTES="512K", TUTTI_ENGINE="kernel",
                       SOFTDEV_DEVICES="3",
                       LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "software_device"))
    environment.update(variables)
    return subprocess.run([os.path.join(BUILD, "bin", "tests", "suspended"), *arguments], text=True,
                          env=environment, capture_output=True, timeout=300)


class Suspended(unittest.TestCase):
    def right(self, *arguments, **variables):
        done = run(*arguments, **variables)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_memory_goes_and_comes_back(self):
        for ranks in ("2", "3"):
            self.right("--ranks", ranks)

    def test_of_several_hosts(self):
        for ranks in ("3", "4"):
            self.right("--ranks", ranks, "--hosts", "2", "--rounds", "2", SOFTDEV_DEVICES="4")

    def test_of_several_hosts_where_a_rank_finds_no_memory(self):
        self.right("--ranks", "4", "--hosts", "2", "--fault", "full", SOFTDEV_DEVICES="4",
                   SOFTDEV_MEMORY_MB="256")

    def test_by_streams_alone(self):
        self.right(TUTTI_ENGINE="auto", TUTTI_MAILBOX_BYTES="0")

    def test_with_slow_streams(self):
        self.right("--rounds", "1", SOFTDEV_SKEW_US="300")

    def test_pinned_rings_come_back_too(self):
        self.right("--gives", "0", NCCL_P2P_DISABLE="1")

    def test_where_one_ring_is_pinned(self):
        self.right("--ranks", "2", "--gives", "0", SOFTDEV_DEVICES="2", SOFTDEV_ISLAND="1")

    def test_calls_through_the_host(self):
        self.right("--gives", "0", TUTTI_ENGINE="host")

    def test_without_memory_all_stay_suspended(self):
        self.right("--fault", "full", SOFTDEV_MEMORY_MB="256")

    def test_beside_a_graph_that_runs_nobody_suspends(self):
        self.right("--fault", "busy")


if __name__ == "__main__":
    sys.exit(unittest.main())
