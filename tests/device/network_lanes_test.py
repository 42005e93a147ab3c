#!/usr/bin/env python3
"""Calls on the devices of several hosts are one plan: streams do what is within a host, and slices
go to the network through a bounce buffer of pinned memory, never the whole call."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

BY_LANES = "by streams within hosts and messages between them"
BUILD = os.environ.get("TEST_BINARY_DIR", "build")
BOUND = str(18 << 20)  # bytes of pinned memory
CALLS = 9  # that the program explains: one of each collective, and an all_to_all_v


def run(*arguments, **variables):
    environment = dict(os.environ, LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "software_device"),
                       TUTTI_DEVICE_RING_BYTES="256K", SOFTDEV_DEVICES="8")
    environment.update(variables)
    command = [os.path.join(BUILD, "bin", "tests", "network_lanes"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


class NetworkLanes(unittest.TestCase):
    def check(self, *arguments, **variables):
        done = run(*arguments, **variables)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("warn", done.stderr)
        return done.stdout

    def heard(self, fault, *arguments):
        """What each rank hears of a call that the last one does not do."""
        done = run("--words", "3000", "--fault", fault, *arguments)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return dict(re.findall(r"^rank (\d): (.*)$", done.stdout, re.M))

    def test_two_hosts_of_two_devices(self):
        said = self.check("--ranks", "4", "--words", "30000", "--graph", "1")
        self.assertEqual(said.count(BY_LANES), CALLS, said)
        self.assertEqual(len(re.findall(BY_LANES + ".*, predicted [1-9][0-9]* us", said)), CALLS - 1, said)

    def test_the_price_knows_the_bus_to_the_hosts_memory(self):
        def price(us_per_mb):
            with tempfile.NamedTemporaryFile("w", suffix=".json") as board:
                board.write('{"tutti_model": 1, "devices": {"terms": [{"name": "bus_us_per_mb", "value": %d, "source": "a test"}]}}' % us_per_mb)
                board.flush()
                said = self.check("--ranks", "4", "--words", "30000", "--rounds", "1", TUTTI_TUNING=board.name)
            return int(re.search("all_gather .*predicted ([0-9]+) us", said).group(1))
        self.assertGreater(price(20000), price(20) + 1000)

    def test_two_hosts_of_four_devices_with_slow_streams(self):
        self.check("--ranks", "8", "--words", "9000", "--graph", "1", "--rounds", "1",
                   SOFTDEV_SKEW_US="200")

    def test_short_calls(self):
        for words in ("1", "7"):
            self.check("--ranks", "4", "--words", words, "--graph", "1", "--rounds", "1")

    def test_hosts_of_different_sizes_and_of_one_device(self):
        self.check("--ranks", "5", "--hosts", "3", "--words", "9001", "--rounds", "1")
        self.check("--ranks", "2", "--hosts", "2", "--words", "9001", "--graph", "1")

    def test_one_hardware_queue_is_enough(self):
        self.check("--ranks", "4", "--words", "20000", "--graph", "1", "--rounds", "1",
                   SOFTDEV_CHANNELS="1")

    def test_devices_that_do_not_reach_each_other_on_one_of_the_hosts(self):
        self.check("--ranks", "4", "--words", "5000", "--rounds", "1", SOFTDEV_ISLAND="1")

    def test_a_slice_comes_to_the_host_while_the_one_before_is_on_its_way(self):
        """4.8 MB in slices of at most 1 MiB, of which none is out before the other host calls."""
        said = self.check("--ranks", "2", "--words", "600000", "--fault", "overlap",
                          TUTTI_DEVICE_RING_BYTES="64M")
        times = {(int(lane), int(slice)): (float(copied), float(sent)) for lane, slice, copied, sent in
                 re.findall(r"lane (\d+), slice (\d+), to rank 1: \d+ bytes, copied by ([\d.]+)us, "
                            r"sent by ([\d.]+)us", said)}
        self.assertGreater(len(times), 4, said)
        for copied, sent in times.values():
            self.assertLessEqual(copied, sent, said)

    def test_no_call_is_staged_as_a_whole(self):
        """8 MB from each rank and 32 MB to each, in bounce buffers of less than 2 MB; between pairs of
        ranks of 8 MiB: two slots for either direction with two ranks. Two calls may have some."""
        self.check("--ranks", "4", "--words", "1000000", "--rounds", "1", "--bound", str(2 << 20),
                   "--only", "all_gather")
        said = self.check("--ranks", "4", "--words", "1000000", "--rounds", "1", "--bound", BOUND)
        for slices in re.findall(r"(\d+) slices", said):
            self.assertGreater(int(slices), 8)

    def test_that_bound_is_none_for_calls_that_go_by_the_host(self):
        done = run("--ranks", "4", "--words", "1000000", "--rounds", "1", "--bound", BOUND,
                   "--expect", "0", TUTTI_ENGINE="host")
        self.assertIn("bytes of pinned memory", done.stdout)

    def test_without_kernels_reductions_go_by_the_host(self):
        done = run("--only", "all_reduce", "--expect", "0", SOFTDEV_KERNELS="0")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("on device memory: by the host, since rank 0", done.stdout)
        self.check("--only", "all_gather", SOFTDEV_KERNELS="0")

    def test_faults_of_transfers_are_named(self):
        for name in ("all_to_all_v", "exchange"):
            for fault in ("kill", "abort", "late"):
                heard = self.heard(fault, "--only", name)
                self.assertTrue({"0", "1", "2"} <= set(heard), (name, fault, heard))
                for text in heard.values():
                    self.assertIn("rank 3", text)
            heard = self.heard("differ", "--only", name)
            self.assertEqual(sorted(heard), ["0", "1", "2", "3"], heard)

    def test_ends_of_a_transfer_between_hosts_that_differ(self):
        """Shorter and longer than a piece, of which the second one has two."""
        for words, bytes_of in (("3000", "23992"), ("200000", "1048576")):
            heard = self.heard("differ", "--ranks", "2", "--words", words, "--only", "exchange")
            self.assertEqual(sorted(heard), ["0", "1"], heard)
            self.assertTrue(any(bytes_of in text for text in heard.values()), heard)

    def test_a_rank_that_dies(self):
        heard = self.heard("kill")
        self.assertEqual(sorted(heard), ["0", "1", "2"], heard)
        for text in heard.values():
            self.assertIn("rank 3", text)

    def test_a_rank_that_aborts(self):
        for text in self.heard("abort").values():
            self.assertIn("rank 3", text)

    def test_a_rank_that_is_late(self):
        heard = self.heard("late")
        self.assertEqual(sorted(heard), ["0", "1", "2"], heard)
        for text in heard.values():
            self.assertIn("rank 3", text)
        self.assertTrue(any("never entered call" in text for text in heard.values()), heard)

    def test_ranks_whose_calls_differ(self):
        heard = self.heard("differ")
        self.assertEqual(sorted(heard), ["0", "1", "2", "3"], heard)
        both = [text for text in heard.values() if "of 2999 uint64 sum" in text and "3000" in text]
        self.assertTrue(both, heard)


if __name__ == "__main__":
    sys.exit(unittest.main())
