#!/usr/bin/env python3
"""Reductions that the switch between devices folds are right, eager, in graphs and behind a suspension, whatever
the order is in which the switch adds; all ranks use it or none, with the reason; nothing that must not use it does."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from environment import clean_environment  # noqa: E402

BUILD = os.environ.get("TEST_BINARY_DIR", "build")
SLICES = "24K"  # a ring in which calls of more than 4 KiB have several slices


def run(program, ranks, *arguments, **variables):
    environment = dict(clean_environment(), TUTTI_DEVICE_RING_BYTES="256K", TUTTI_MULTICAST="always",
                       TUTTI_MAILBOX_BYTES="0", SOFTDEV_DEVICES=ranks, SOFTDEV_MULTICAST=ranks,
                       LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "software_device"))
    environment.update(variables)
    environment = {name: value for name, value in environment.items() if value is not None}
    command = [os.path.join(BUILD, "bin", "tests", program), "--ranks", ranks, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


def reductions(ranks, *arguments, **variables):
    return run("device_reductions", ranks, "--seed", "3", "--rounds", "3", *arguments, **variables)


class Multicast(unittest.TestCase):
    def right(self, done):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def none(self, done, reason):
        """All is right without it, and the log says why once for each rank."""
        self.right(done)
        self.assertRegex(done.stdout + done.stderr, "no multicast among devices: .*" + reason)

    def test_all_types_and_operations(self):
        for ranks in ("2", "3", "4", "8"):
            self.right(reductions(ranks, "--multicast", "1"))

    def test_of_many_slices_in_two_streams(self):
        for channels in ("0", "1", "2"):
            self.right(reductions("3", "--multicast", "1", TUTTI_DEVICE_RING_BYTES=SLICES,
                                  SOFTDEV_CHANNELS=channels, SOFTDEV_SKEW_US="100"))

    def test_nothing_is_read_before_it_is_there(self):
        for ring in ("256K", SLICES):
            with tempfile.TemporaryDirectory() as folder:
                self.right(reductions("3", "--multicast", "1", TUTTI_DEVICE_RING_BYTES=ring, SOFTDEV_SHUFFLE="0",
                                      SOFTDEV_CHECKER=os.path.join(folder, "clocks")))

    def test_a_wrong_result_is_noticed(self):
        self.assertNotEqual(reductions("3", "--multicast", "1", "--plant", "1").returncode, 0)

    def test_a_switch_that_reaches_one_device_alone_is_noticed(self):
        for fault in ("1", "2"):  # of loads, of stores
            self.assertNotEqual(reductions("3", "--multicast", "1", SOFTDEV_MULTICAST_FAULT=fault).returncode, 0)

    def test_without_one_device_nobody_uses_it(self):
        self.none(reductions("4", SOFTDEV_MULTICAST="3", TUTTI_LOG="info"), "rank 3 .*has no multicast")

    def test_an_older_driver_has_none(self):
        self.none(reductions("2", SOFTDEV_VERSION="12000", TUTTI_LOG="info"), "the CUDA driver has no multicast")

    def test_ranks_that_share_a_device_have_none(self):
        self.none(reductions("2", SOFTDEV_DEVICES="1", SOFTDEV_MPS="1", TUTTI_LOG="info"), "share a device")

    def test_pinned_rings_have_none(self):
        self.none(reductions("2", NCCL_P2P_DISABLE="1", TUTTI_LOG="info"), "not all rings lie in device memory")

    def test_off_is_off(self):
        self.right(reductions("4", TUTTI_MULTICAST="off"))
        self.right(reductions("4", TUTTI_MULTICAST=None, NCCL_NVLS_ENABLE="0"))

    def test_unasked_it_is_taken_where_the_model_says_that_it_takes_less(self):
        for ranks in ("3", "8"):
            self.right(reductions(ranks, TUTTI_MULTICAST="auto"))  # such short calls take less without
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "model.json")
            terms = [{"name": name, "value": value} for name, value in
                     (("link_us_per_mb", 1e6), ("multicast_us_per_mb", 1), ("local_us_per_mb", 0.1))]
            with open(model, "w", encoding="utf-8") as file:
                json.dump({"tutti_model": 1, "devices": {"terms": terms}}, file)
            self.right(reductions("3", "--multicast", "1", TUTTI_MULTICAST="auto", TUTTI_TUNING=model))
            self.right(reductions("3", TUTTI_MULTICAST="off", TUTTI_TUNING=model))

    def test_explain_says_both_prices(self):
        done = run("counted", "8", "--counts", TUTTI_MULTICAST="auto", TUTTI_DEVICE_RING_BYTES=None,
                   SOFTDEV_MEMORY_MB="16384")
        self.right(done)
        told = [line for line in done.stdout.splitlines() if " bytes: " in line]
        lines = {(line.split()[0], int(line.split()[1])): line for line in told}
        for size in (8 << 10, 1 << 30):
            line = lines["all_reduce", size]
            prices = re.search(r"; predicted (\d+) us by multicast, (\d+) us without", line)
            self.assertIsNotNone(prices, line)
            shares = " by multicast)" in line.split(";", maxsplit=1)[0]
            self.assertEqual(shares, int(prices[1]) < int(prices[2]), line)
            self.assertEqual(shares, size == 1 << 30)
        self.assertRegex(lines["all_reduce", 1 << 30],
                         r"; in registered memory staged as well, since a switch folds it in \d+ us, .* takes \d+;")
        self.assertIn("; in registered memory direct, ", lines["all_reduce", 16 << 20])
        self.assertNotIn("by multicast", lines["all_gather", 1 << 30])

    def test_registered_memory_is_read_unless_the_switch_takes_less(self):
        for wish, reads in (("always", False), ("auto", True)):
            done = run("direct_calls", "3", "--seed", "8", "--rounds", "60", "--captured", "1", TUTTI_MULTICAST=wish,
                       TUTTI_LOG="info", TUTTI_DEVICE_RING_BYTES="128K")
            self.right(done)
            told = re.findall(r": (\w+) reads registered device memory", done.stdout + done.stderr)
            self.assertIn("all_gather", told)
            self.assertEqual("all_reduce" in told, reads)

    def test_in_graphs(self):
        self.right(run("captured_calls", "4", TUTTI_DEVICE_RING_BYTES="512K"))

    def test_memory_goes_and_comes_back(self):
        for arguments in ((), ("--fault", "full")):
            self.right(run("suspended", "3", *arguments, TUTTI_DEVICE_RING_BYTES="512K", SOFTDEV_MEMORY_MB="256"))


if __name__ == "__main__":
    sys.exit(unittest.main())
