#!/usr/bin/env python3
"""Calls on the devices of two hosts whose network is RDMA: the virtual machine (vm/rxe-vm) has two
Soft-RoCE cards with a wire between them, and the software device stands for GPUs. Ranks are told to
be on two hosts of four devices, and to use that host's card and nothing else between hosts."""

import os
import re
import sys
import unittest

import slow_verbs_test as verbs
import slow_vm_test as vm

LANES = vm.BUILD / "bin" / "tests" / "network_lanes"
DEVICE = vm.BUILD / "lib" / "software_device"
BY_LANES = "by streams within hosts and messages between them"
MOVED = re.compile(r"by verbs: cards moved (\d+) bytes, and the processor copied (\d+)")
CALLS = 9  # that the program explains: one of each collective, and an all_to_all_v
# The jitter of netem keeps packets in order where a link has a rate.
FAR = "delay 5ms 2ms loss 0.5% rate 1gbit"


def on_cards(*arguments, netem="", **variables):
    """Exit status and output of the ranks."""
    settings = {"LD_LIBRARY_PATH": DEVICE, "SOFTDEV_DEVICES": 8, "TUTTI_DEVICE_RING_BYTES": "256K",
                "TUTTI_RDMA_TIMEOUT": "18", "TUTTI_LOG": "info", **variables}
    return vm.run("--hosts", 2, *(("--netem", netem) if netem else ()), "--mem", "2G", "--timeout",
                  vm.PATIENCE_S, "--", "env", *(f"{name}={value}" for name, value in settings.items()),
                  LANES, "--cards", "rxe", "--patience", vm.PATIENCE_S, *arguments)


class Lanes(unittest.TestCase):
    def check(self, *arguments, ranks, calls=CALLS, **job):
        """All results are right, by lanes, and every pair of hosts talks by its cards."""
        status, output = on_cards("--ranks", ranks, "--rounds", 1, *arguments, **job)
        self.assertEqual(status, 0, output)
        self.assertEqual(output.count(BY_LANES), calls, output)
        self.assertEqual(output.count(f"2 hosts, {ranks // 2 - 1} rank" + "s" * (ranks > 4) + " by shm, "
                                      f"{ranks // 2} ranks by verbs"), ranks, output)
        moved = MOVED.findall(output)
        self.assertEqual(len(moved), ranks, output)
        print(f"\n  {' '.join(map(str, arguments))}: moved by cards and copied by processors: {moved}")
        return output

    def test_two_hosts_of_four_devices(self):
        """Every call, eager and in graphs, while streams shuffle their copies and are slow by turns."""
        self.check("--words", 4000, "--graph", 1, ranks=8, SOFTDEV_SKEW_US=200)

    def test_over_a_far_and_lossy_network(self):
        self.check("--words", 3000, ranks=4, netem=FAR)

    def test_no_call_is_staged_as_a_whole(self):
        """2.4 MB from each rank and 9.6 MB to each, in bounce buffers of less than 2 MB."""
        for name in ("all_gather", "all_reduce"):
            output = self.check("--words", 300000, "--bound", 2 << 20, "--only", name, ranks=4, calls=1)
            self.assertGreater(int(re.search(r"(\d+) slices", output)[1]), 8)

    def test_that_bound_is_none_for_calls_that_go_by_the_host(self):
        """Else the test above could not fail."""
        status, output = on_cards("--ranks", 4, "--rounds", 1, "--words", 300000, "--bound", 2 << 20,
                                  "--expect", 0, "--only", "all_gather", TUTTI_ENGINE="host")
        self.assertEqual(status, 1, output)
        self.assertIn("bytes of pinned memory", output)

    def test_cards_read_and_write_bounce_buffers(self):
        """But for what leaves as frames: short pieces, and the first 64 KiB of one that nobody waits for
        yet. Where bounce buffers are not announced processors copy all of it."""
        output = self.check("--words", 300000, "--only", "exchange", ranks=4, calls=0)
        for moved, copied in MOVED.findall(output):
            self.assertLess(4 * int(copied), int(moved), output)

    def test_a_killed_rank_is_named(self):
        for name in ("all_reduce", "exchange"):
            status, output = on_cards("--ranks", 4, "--words", 3000, "--fault", "kill", "--only", name)
            self.assertEqual(status, 0, output)
            heard = dict(re.findall(r"^rank (\d): (.*)$", output, re.M))
            self.assertEqual(sorted(heard), ["0", "1", "2"], output)
            for text in heard.values():
                self.assertIn("rank 3", text)


def why_not():
    return verbs.why_not() or ("" if LANES.exists() else f"{LANES} is not built")


if __name__ == "__main__":
    reason = why_not()
    if reason:
        print(reason.replace("\n", "; "))
        sys.exit(vm.SKIPPED)
    os.chdir(vm.BUILD)  # what the machine's commands write is lost
    unittest.main(verbosity=2)
