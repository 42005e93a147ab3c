#!/usr/bin/env python3
"""Communicators of ranks with devices that are edited in place: ranks leave, die, come and change,
and calls on streams, eager and in graphs, are right behind each edit, by the engine as before."""

import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from environment import clean_environment  # noqa: E402

BUILD = os.path.abspath(os.environ.get("TEST_BINARY_DIR", "build"))
STAND_IN = os.path.join(BUILD, "lib", "software_nccl", "libnccl.so.2")
KERNEL = {"TUTTI_ENGINE": "kernel"}
BY_KERNEL = ("--says", "on device memory: by one kernel that waits")
HOST = {"TUTTI_ENGINE": "host"}
BY_HOST = ("--says", "by the host, since the engine")
NCCL = {"TUTTI_ENGINE": "nccl", "TUTTI_NCCL": STAND_IN}
BY_NCCL = ("--says", "on device memory: by NCCL")


def run(scenario, *arguments, **variables):
    environment = dict(clean_environment(), TUTTI_DEVICE_RING_BYTES="512K",
                       TUTTI_MAILBOX_BYTES="1M", SOFTDEV_DEVICES="5",
                       LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "software_device"))
    environment.update(variables)
    program = os.path.join(BUILD, "bin", "tests", "device_edits")
    return subprocess.run([program, "--scenario", scenario, *arguments], text=True,
                          env=environment, capture_output=True, timeout=300)


class DeviceEdits(unittest.TestCase):
    def right(self, scenario, *arguments, **variables):
        done = run(scenario, *arguments, **variables)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stderr

    def quiet(self, *arguments, **variables):
        """Nobody leaves in these: the end of an epoch is no error."""
        self.assertNotIn(" error ", self.right(*arguments, **variables))

    def test_a_rank_leaves_and_ranks_change(self):
        self.right("shrink")
        self.quiet("turn")
        self.right("shrink", "--threads", "1")
        self.quiet("turn", "--threads", "1")

    def test_each_rank_is_told_once_of_graphs_of_an_epoch_that_is_over(self):
        late = re.compile(r"rank \d .*: a graph has run whose calls are of epoch (\d) of communicator [0-9a-f]{16}, "
                          r"which is over since the group has gone on to epoch \d .*Capture the calls anew")
        for way, variables in (((), {}), (BY_KERNEL, KERNEL), (BY_NCCL, NCCL), (BY_HOST, HOST)):
            with self.subTest(way=way):
                said = self.right("shrink", *way, **variables)
                self.assertEqual(sorted(late.findall(said)), ["0", "0", "1", "1"], said)

    def test_to_one_rank_which_has_no_ring(self):
        self.right("shrink", "--ranks", "2", "--says", "")

    def test_a_newcomer_with_a_device(self):
        self.quiet("join")
        self.quiet("join", "--threads", "1")

    def test_with_a_rank_without_a_device_calls_go_by_the_host_until_it_leaves(self):
        said = self.right("bare")
        self.assertRegex(said, "tuttiCommEdit: .*go by the host in epoch 1, since rank 3 .*"
                               "had no current device")

    def test_a_rank_is_killed_among_its_calls(self):
        self.right("kill")
        self.right("kill", *BY_KERNEL, **KERNEL)
        self.right("kill", *BY_NCCL, **NCCL)

    def test_another_one_is_killed_while_they_edit(self):
        for _ in range(3):
            self.right("twice", "--ranks", "5")

    def test_without_memory_for_a_ring_calls_go_by_the_host_until_the_next_edit(self):
        said = self.right("full", SOFTDEV_MEMORY_MB="256")
        self.assertEqual(said.count("go by the host in epoch 1, since rank 2"), 3, said)

    def test_beside_a_graph_that_waits_nothing_is_edited(self):
        self.quiet("busy")
        self.quiet("busy", "--threads", "1")

    def test_by_kernels_that_wait(self):
        self.quiet("turn", *BY_KERNEL, **KERNEL)
        self.quiet("join", *BY_KERNEL, **KERNEL)
        self.right("shrink", *BY_KERNEL, **KERNEL)

    def test_by_nccl(self):
        self.quiet("turn", *BY_NCCL, **NCCL)
        self.quiet("join", *BY_NCCL, **NCCL)
        self.right("shrink", *BY_NCCL, **NCCL)

    def test_through_the_host(self):
        self.quiet("turn", *BY_HOST, **HOST)
        self.right("kill", *BY_HOST, **HOST)

    def test_among_several_hosts(self):
        says = ("--says", "messages between")
        self.quiet("turn", "--ranks", "4", "--hosts", "2", *says)
        self.quiet("join", "--hosts", "2", *says)
        self.right("kill", "--ranks", "4", "--hosts", "2", *says)

    def test_with_slow_streams_and_one_queue(self):
        self.right("shrink", SOFTDEV_SKEW_US="300", SOFTDEV_CHANNELS="1")

    def test_registered_memory_and_windows_stay(self):
        environment = dict(clean_environment(), TUTTI_DEVICE_RING_BYTES="512K", SOFTDEV_DEVICES="3",
                           TUTTI_LOG="info", TUTTI_MAILBOX_BYTES="0",
                           LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "software_device"))
        done = subprocess.run([os.path.join(BUILD, "bin", "tests", "device_edited_memory")],
                              text=True, env=environment, capture_output=True, timeout=200)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        direct = done.stderr.count("all_gather reads registered device memory where it lies")
        self.assertEqual(direct, 3 + 2)

    def test_a_rank_is_removed_when_its_graphs_put_nowhere_any_more(self):
        environment = dict(clean_environment(), TUTTI_DEVICE_RING_BYTES="512K", SOFTDEV_DEVICES="3",
                           LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "software_device"))
        for ends in ("destroys", "killed"):
            with self.subTest(ends=ends):
                done = subprocess.run([os.path.join(BUILD, "bin", "tests", "captured_puts"), "--ends", ends],
                                      text=True, env=environment, capture_output=True, timeout=200)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_program_notices_another_way(self):
        done = run("turn", "--says", "by carrier pigeon")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("it does not say", done.stdout)


if __name__ == "__main__":
    sys.exit(unittest.main())
