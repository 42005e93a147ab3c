#!/usr/bin/env python3
"""Training by the all_reduce that survives, with gradients in device memory: a rank is killed in the middle of a
step, newcomers take its place, and every sum and average is that of the members that count."""

import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from environment import clean_environment  # noqa: E402

BUILD = os.path.abspath(os.environ.get("TEST_BINARY_DIR", "build"))
NCCL = {"TUTTI_ENGINE": "nccl", "TUTTI_NCCL": os.path.join(BUILD, "lib", "software_nccl", "libnccl.so.2")}
BY_NCCL = ("--says", "on device memory: by NCCL")
KERNEL = {"TUTTI_ENGINE": "kernel"}
BY_KERNEL = ("--says", "on device memory: by one kernel that waits")


def run(*arguments, **variables):
    environment = dict(clean_environment(), TUTTI_DEVICE_RING_BYTES="512K", TUTTI_MAILBOX_BYTES="1M",
                       SOFTDEV_DEVICES="6", LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "software_device"))
    environment.update(variables)
    program = os.path.join(BUILD, "bin", "tests", "device_steps")
    return subprocess.run([program, *arguments], text=True, env=environment, capture_output=True, timeout=300)


class DeviceSteps(unittest.TestCase):
    def right(self, *arguments, **variables):
        done = run(*arguments, **variables)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_rank_dies_among_the_calls_of_a_step(self):
        self.right()
        self.right("--ranks", "2")

    def test_by_kernels_that_wait(self):
        self.right(*BY_KERNEL, **KERNEL)

    def test_by_nccl(self):
        self.right(*BY_NCCL, **NCCL)

    def test_with_slow_streams(self):
        self.right(SOFTDEV_SKEW_US="300", SOFTDEV_CHANNELS="1")

    def test_through_the_host(self):
        self.right("--says", "by the host, since the engine", TUTTI_ENGINE="host")

    def test_it_dies_before_its_word_and_when_it_has_seen_the_commit(self):
        self.right("--dies", "worked")
        self.right("--dies", "committed")

    def test_replicas_of_two_ranks(self):
        self.right("--ranks", "4", "--shards", "2")
        self.right("--ranks", "4", "--shards", "2", "--dies", "committed")

    def test_among_two_hosts(self):
        self.right("--ranks", "4", "--hosts", "2", "--says", "messages between")

    def test_the_program_notices_another_way(self):
        done = run("--says", "by carrier pigeon")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("it does not say", done.stdout)


if __name__ == "__main__":
    sys.exit(unittest.main())
