#!/usr/bin/env python3
"""Calls whose buffers lie in registered device memory: right results, wherever which buffer lies, while memory is
deregistered, freed and replaced; no access that nothing orders; and what differs between ranks is named."""

import os
import subprocess
import sys
import tempfile
import unittest

BUILD = os.environ.get("TEST_BINARY_DIR", "build")


def run(*arguments, **variables):
    environment = dict(os.environ, LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "software_device"),
                       TUTTI_DEVICE_RING_BYTES="128K")
    environment.update(variables)
    command = [os.path.join(BUILD, "bin", "tests", "direct_calls"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


class DirectCalls(unittest.TestCase):
    def check(self, *arguments, **variables):
        done = run(*arguments, **variables)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def checked(self, *arguments):
        """Under the happens-before checker, which finds races whatever the timing is."""
        with tempfile.TemporaryDirectory() as folder:
            return run("--ranks", "3", "--seed", "5", *arguments, SOFTDEV_CHECKER=os.path.join(folder, "clocks"),
                       SOFTDEV_SHUFFLE="0")

    def test_of_two_three_and_five_ranks(self):
        for ranks, seed in (("2", "1"), ("3", "2"), ("5", "3")):
            self.check("--ranks", ranks, "--seed", seed)

    def test_with_slow_streams(self):
        self.check("--ranks", "3", "--seed", "4", SOFTDEV_SKEW_US="200")

    def test_where_memory_is_freed_without_waiting(self):
        self.check("--ranks", "3", "--seed", "6", SOFTDEV_FREE_WAITS="0")

    def test_captured_calls_read_registered_memory_behind_its_end(self):
        done = run("--ranks", "3", "--seed", "8", "--rounds", "60", "--captured", "1", TUTTI_LOG="info")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for name in ("all_reduce", "all_gather", "reduce_scatter", "reduce", "broadcast", "all_to_all", "all_gather_v",
                     "reduce_scatter_v", "gather", "scatter"):
            self.assertIn(f": {name} reads registered device memory", done.stderr)

    def test_calls_of_devices_that_may_not_reach_each_other_are_staged(self):
        self.check("--ranks", "3", "--seed", "7", NCCL_P2P_DISABLE="1")

    def test_nobody_writes_to_what_a_peer_still_reads(self):
        for arguments in ((), ("--captured", "1")):
            done = self.checked("--rounds", "25", *arguments)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_checker_sees_who_writes_to_an_input_before_its_call_is_over(self):
        done = self.checked("--rounds", "0", "--race", "1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("RACE", done.stderr)

    def test_buffers_at_different_places_are_named(self):
        self.check("--ranks", "3", "--fault", "differ")

    def test_ranges_of_different_sizes_are_refused(self):
        self.check("--ranks", "2", "--fault", "sizes")


if __name__ == "__main__":
    sys.exit(unittest.main())
