#!/usr/bin/env python3
"""Calls on device memory that differ between ranks: every rank learns which, its stream goes on, and
no memory beside the outputs is written. Ranks that are killed, abort or never call, during collectives
and during sends and receives: the streams of the others go on, and the error names the rank."""

import os
import subprocess
import sys
import unittest

BUILD = os.environ.get("TEST_BINARY_DIR", "build")


def run(program, *arguments, **variables):
    environment = dict(os.environ, LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "software_device"),
                       TUTTI_DEVICE_RING_BYTES="2M")
    environment.update(variables)
    command = [os.path.join(BUILD, "bin", "tests", program), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


class DifferingCalls(unittest.TestCase):
    def test_each_rank_is_told_which_calls_differ(self):
        done = run("differing_calls", "--rounds", "20", "--seed", "7")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_equal_calls_are_not_accused(self):
        done = run("differing_calls", "--rounds", "20", "--seed", "7", "--equal", "1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Faults(unittest.TestCase):
    def check(self, fault, *arguments, **variables):
        done = run("device_faults", "--fault", fault, *arguments, **variables)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_of_collectives(self):
        for fault in ("kill", "midway", "abort", "late"):
            with self.subTest(fault=fault):
                self.check(fault)

    def test_of_sends_and_receives(self):
        for fault in ("kill", "midway", "abort", "late"):
            with self.subTest(fault=fault):
                self.check(fault, "--call", "pairs")


    def test_of_direct_calls(self):
        for fault in ("kill", "midway", "abort", "late"):
            with self.subTest(fault=fault):
                self.check(fault, "--memory", "registered", TUTTI_DEVICE_RING_BYTES="1M")


class LateRank(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.done = run("device_faults", "--fault", "slow", TUTTI_SLOW="1")

    def test_the_log_says_who_waits_for_whom_since_when_in_which_call(self):
        self.assertEqual(self.done.returncode, 0, self.done.stdout + self.done.stderr)
        for rank in range(3):
            self.assertRegex(
                self.done.stderr,
                rf"all_gather, call 2 on device memory has waited in its stream on rank {rank} \(.*\) "
                r"for 1\.\d s: it waits for rank 3 \(.*\), which has not made that call: its last on "
                r"device memory is call 1, its last on the host call \d+")

    def test_the_flight_recorder_has_calls_on_devices(self):
        dumps = self.done.stderr
        self.assertRegex(
            dumps, r"dev 2 running all_gather .* waits for rank 3.*\n(.*queued +all_gather.*\n){2}")
        # Of the last dump: calls that are done in their stream may not have been noticed yet.
        self.assertRegex(dumps, r"dev 2 done +all_gather.* waited for rank 3")


if __name__ == "__main__":
    sys.exit(unittest.main())
