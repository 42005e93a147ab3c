#!/usr/bin/env python3
"""Where devices do not reach each other, calls on device memory go by copy engines all the same, through rings
in pinned host memory: results are those of the host, streams get what is explained, and it is said why."""

import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from environment import clean_environment  # noqa: E402

BUILD = os.environ.get("TEST_BINARY_DIR", "build")
ALL = "; rings of all ranks in pinned host memory, since the device of rank "
NO_ACCESS = ": there is no peer access between the two"


def apart(devices, island=1):
    """So many devices, of which only those of an island reach each other."""
    return {"SOFTDEV_DEVICES": str(devices), "SOFTDEV_ISLAND": str(island)}


class PinnedRings(unittest.TestCase):
    def right(self, program, *arguments, ring="2M", **variables):
        environment = dict(clean_environment(), TUTTI_DEVICE_RING_BYTES=ring,
                           LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "software_device"))
        environment.update(variables)
        done = subprocess.run([os.path.join(BUILD, "bin", "tests", program), *arguments], text=True,
                              env=environment, capture_output=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout[-4000:] + done.stderr[-2000:])
        return done

    def test_streams_get_the_copies_and_operations_that_are_explained(self):
        self.right("counted", "--ranks", "2", ring="256K", **apart(2))
        self.right("counted", "--ranks", "4", **apart(4))

    def test_reductions_have_the_bits_of_the_host_and_the_kernels_that_are_explained(self):
        self.right("device_reductions", "--ranks", "2", "--seed", "1", ring="256K", **apart(2))
        self.right("device_reductions", "--ranks", "4", "--seed", "2", ring="256K", **apart(4, 2))

    def test_sends_receives_and_shares(self):
        self.right("device_transfers", "--rounds", "8", "--seed", "1", SOFTDEV_SKEW_US="300", **apart(4))

    def test_graphs(self):
        self.right("captured_calls", "--graphs", "2", "--replays", "5", "--seed", "4", **apart(3))

    def test_streams_go_on_when_a_rank_is_killed_or_aborts(self):
        for fault in ("kill", "abort"):
            self.right("device_faults", "--fault", fault, "--call", "all", **apart(4))

    def test_nothing_is_read_before_it_is_there(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.right("device_reductions", "--ranks", "3", "--seed", "5", ring="256K", SOFTDEV_SHUFFLE="0",
                              SOFTDEV_CHECKER=os.path.join(folder, "clocks"), **apart(3))
        self.assertNotIn("RACE", done.stderr)

    def test_random_calls_of_processes_and_threads(self):
        self.right("random_calls", "--devices", "--no-large", "--ranks", "4", "--jobs", "2", "--calls", "30",
                   "--seed", "31", ring="64M", SOFTDEV_MEMORY_MB="16384", **apart(4))

    def test_it_is_explained_and_said_once_by_each_rank(self):
        done = self.right("engines", TUTTI_LOG="info", **apart(3))
        for call in ("all_gather", "all_reduce"):
            self.assertRegex(done.stdout, call + " on device memory: by copy engines, .*" + ALL + "1 .*" + NO_ACCESS)
        self.assertEqual(done.stderr.count(ALL[2:]), 3, done.stderr)

    def test_one_rank_that_is_apart_moves_the_rings_of_all_that_it_does_not_reach(self):
        done = self.right("engines", **apart(3, 2))
        self.assertRegex(done.stdout, ALL + "2 .* does not reach that of rank 0 .*" + NO_ACCESS)

    def test_what_the_driver_does_not_know_is_seen_when_memory_is_mapped(self):
        for island in (1, 2):
            done = self.right("engines", SOFTDEV_ISLAND_SAID="0", **apart(3, island))
            self.assertRegex(done.stdout, ALL + "0 .* does not reach that of rank .*cuMemSetAccess")

    def test_devices_that_reach_each_other_have_rings_of_their_own(self):
        self.assertNotIn("pinned", self.right("engines", **apart(3, 3)).stdout)

    def test_nccls_variable_pins_all_rings_or_that_of_one_rank(self):
        done = self.right("engines", NCCL_P2P_DISABLE="1")
        self.assertIn("rings of all ranks in pinned host memory, since NCCL_P2P_DISABLE is 1", done.stdout)
        done = self.right("engines", "--pinned", "1")
        self.assertIn("rings of rank 1 in pinned host memory, since NCCL_P2P_DISABLE is 1", done.stdout)


if __name__ == "__main__":
    sys.exit(unittest.main())
