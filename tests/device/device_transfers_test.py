#!/usr/bin/env python3
"""Sends, receives and shares on device memory go by copy engines in every way of calling them: with one
hardware queue, in random order with slow streams, among three to five ranks, in graphs, and nothing crosses."""

import os
import subprocess
import sys
import tempfile
import unittest

BUILD = os.environ.get("TEST_BINARY_DIR", "build")


def run(*arguments, **variables):
    environment = dict(os.environ, LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "software_device"),
                       TUTTI_DEVICE_RING_BYTES="2M")
    environment.update(variables)
    command = [os.path.join(BUILD, "bin", "tests", "device_transfers"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200)


class DeviceTransfers(unittest.TestCase):
    def check(self, *arguments, **variables):
        done = run(*arguments, **variables)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_one_hardware_queue_for_each_rank_is_enough(self):
        self.check("--rounds", "12", "--seed", "1", "--kib", "2048", SOFTDEV_CHANNELS="1")

    def test_two_queues_and_slow_streams(self):
        self.check("--rounds", "8", "--seed", "2", SOFTDEV_CHANNELS="2", SOFTDEV_SKEW_US="500",
                   SOFTDEV_PIECE_BYTES="4096")

    def test_three_queues_and_an_odd_number_of_ranks(self):
        self.check("--rounds", "8", "--seed", "3", "--ranks", "5", SOFTDEV_CHANNELS="3")

    def test_graphs_of_transfers_run_again_and_again_beside_eager_ones(self):
        self.check("--rounds", "12", "--seed", "4", "--replays", "3", SOFTDEV_CHANNELS="1")
        self.check("--rounds", "12", "--seed", "5", "--replays", "3", "--kib", "2048", "--ranks", "3",
                   SOFTDEV_SKEW_US="300", SOFTDEV_PIECE_BYTES="4096")

    def test_several_hosts(self):
        self.check("--rounds", "12", "--seed", "6", "--hosts", "2", "--replays", "2", SOFTDEV_CHANNELS="1")
        self.check("--rounds", "8", "--seed", "7", "--hosts", "2", "--ranks", "8", "--replays", "2",
                   SOFTDEV_DEVICES="8", SOFTDEV_SKEW_US="300", SOFTDEV_PIECE_BYTES="4096")
        self.check("--rounds", "8", "--seed", "8", "--hosts", "3", "--ranks", "5", "--kib", "2200",
                   SOFTDEV_DEVICES="8")

    def test_registered_memory(self):
        for seed, ranks in (("11", "2"), ("12", "3"), ("13", "5")):
            self.check("--rounds", "16", "--seed", seed, "--ranks", ranks, "--registered", "1", "--replays", "2",
                       SOFTDEV_CHANNELS="1", TUTTI_DEVICE_RING_BYTES="512K")
        self.check("--rounds", "16", "--seed", "14", "--ranks", "3", "--registered", "1", "--replays", "2",
                   SOFTDEV_SKEW_US="300", SOFTDEV_PIECE_BYTES="4096", TUTTI_DEVICE_RING_BYTES="512K")

    def test_registered_memory_that_is_staged_all_the_same(self):
        for name, value in (("NCCL_P2P_DISABLE", "1"), ("TUTTI_ENGINE", "copy_engine")):
            self.check("--rounds", "8", "--seed", "15", "--ranks", "3", "--registered", "1", "--replays", "2",
                       TUTTI_DEVICE_RING_BYTES="512K", **{name: value})

    def test_ranks_that_have_registered_other_memory_are_told(self):
        self.check("--ranks", "2", "--fault", "1", TUTTI_DEVICE_RING_BYTES="512K")

    def test_nobody_writes_to_what_a_peer_still_reads(self):
        with tempfile.TemporaryDirectory() as folder:
            self.check("--rounds", "12", "--seed", "16", "--ranks", "3", "--registered", "1", "--replays", "2", "--kib",
                       "128", SOFTDEV_CHECKER=os.path.join(folder, "clocks"), SOFTDEV_SHUFFLE="0",
                       TUTTI_DEVICE_RING_BYTES="128K")

    def test_a_rank_alone_on_its_host(self):
        self.check("--rounds", "8", "--seed", "9", "--hosts", "3", "--ranks", "3", "--replays", "2")

    def test_transfers_between_hosts_take_little_memory_of_the_host(self):
        """Of up to 6 MB, with two slots of 1 MiB for each direction with two ranks, in up to three calls at once;
        through the host it is five times as much, which is noticed."""
        many = ("--rounds", "12", "--hosts", "2", "--kib", "6000", "--bound", str(26 << 20))
        self.check(*many)
        done = run(*many, TUTTI_ENGINE="host")
        self.assertEqual(done.returncode, 1)
        self.assertIn("bytes of pinned memory", done.stdout)

    def test_what_goes_through_the_host_is_noticed(self):
        done = run("--rounds", "2", TUTTI_DEVICE_RING_BYTES="0")
        self.assertEqual(done.returncode, 1)
        self.assertIn("pinned memory", done.stdout)


if __name__ == "__main__":
    sys.exit(unittest.main())
