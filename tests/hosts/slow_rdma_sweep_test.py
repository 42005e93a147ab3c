#!/usr/bin/env python3
"""Everything that ranks of several hosts call, over RDMA with delays, jitter and loss, in the virtual
machine (vm/rxe-vm): results are compared element by element, and failures are named.

The jitter of netem puts packets out of order, but for a link with a rate. No network does that to the
packets of one queue pair, and Linux 6.1's Soft-RoCE goes back to the first packet that is missing."""

import os
import re
import sys
import unittest

import slow_verbs_test as verbs
import slow_vm_test as vm

FAR = "delay 5ms 2ms loss 0.5% rate 1gbit"
ACCESSES = vm.BUILD / "bin" / "tests" / "far_accesses"
PATIENCE_S = 1500
KEEPALIVE_S = 5


def in_job(*command, hosts=2, ranks=1, options=(), settings=None):
    """Exit status and output of the command as ranks on these hosts."""
    variables = [f"{name}={value}" for name, value in {**verbs.SETTINGS, **(settings or {})}.items()]
    return vm.run("--hosts", hosts, "--netem", FAR, "--mem", "3G", "--timeout", PATIENCE_S, "--", "env",
                  *variables, vm.PYTHON, "-B", verbs.JOB, "--ranks", ranks, *options, "--", *command,
                  patience_s=PATIENCE_S + 60)


def looping(bytes_each, calls, *flags):
    return (vm.TUTTI, "perf", "all_reduce", "-b", bytes_each, "-e", bytes_each, "-n", calls, *flags)


class Results(unittest.TestCase):
    def check(self, hosts, ranks, sizes, registered_sizes):
        """All collectives, those with a count for each rank, transfers and windows."""
        calls = [f"{vm.TUTTI} perf {name} -d int32 --bytes-list {sizes} -n 1 -w 0" for name in verbs.COLLECTIVES]
        calls += [f"{vm.TUTTI} perf {name} -R 1 -d int32 --bytes-list {registered_sizes} -n 1 -w 0"
                  for name in ("all_reduce", "all_gather", "broadcast")]
        status, output = in_job("sh", "-c", " || exit 1; ".join([*calls, str(ACCESSES)]), hosts=hosts,
                                ranks=ranks)
        print(output)
        self.assertEqual(status, 0, output)
        # By rank 0 of each job.
        self.assertEqual(output.count("# Out of bounds values : 0 OK"), len(calls), output)
        others = hosts * ranks - 1
        said = f"{4 * others} messages and {8 * others} accesses are right, 0 wrong"
        self.assertEqual(output.count(said), hosts * ranks, output)

    def test_two_hosts_whose_ranks_share_memory(self):
        self.check(2, 2, "8,20000,262144", "1M")

    def test_three_hosts(self):
        self.check(3, 1, "8,20000", "256K")

    def test_a_wrong_byte_is_found(self):
        """Else the test above could not fail."""
        status, output = in_job(ACCESSES, "--spoil")
        self.assertEqual(status, 2, output)
        self.assertRegex(output, r"1: 0 messages and \d+ accesses are right, \d+ wrong")


class Failures(unittest.TestCase):
    """How long it took until a failure was named is printed, and not compared with anything: the
    processor is emulated."""

    def lose(self, *harm, command=looping("64K", 100000), wanted_s="", settings=None, **job):
        status, output = in_job(*command, options=(*harm, "--when", "#wrong"), settings=settings, **job)
        for rank, seconds in re.findall(r"^rank (\d+) ended ([\d.]+) s later$", output, re.MULTILINE):
            print(f"{' '.join(map(str, harm))}: rank {rank} ended after {seconds} s{wanted_s}")
        return status, output

    def test_a_killed_rank_is_named(self):
        status, output = self.lose("--kill", 1, wanted_s=" (goal: named within 1 s)")
        self.assertNotEqual(status, 0, output)
        self.assertRegex(output, r"rank 0 lost rank 1.*(closed the connection|process ended)")

    def test_a_host_that_is_cut_off_is_named(self):
        """All that it sends is lost, and all that is sent to it."""
        bound = f" (TUTTI_KEEPALIVE and a quarter: {KEEPALIVE_S * 1.25} s)"
        status, output = self.lose("--isolate", 1, wanted_s=bound,
                                   settings={"TUTTI_KEEPALIVE": KEEPALIVE_S})
        self.assertNotEqual(status, 0, output)
        self.assertRegex(output, r"rank 0 lost rank 1")
        self.assertRegex(output, r"has acknowledged nothing for 5 s|transport retry counter exceeded")

    def test_a_card_without_a_network_is_named(self):
        status, output = self.lose("--cut", 1, settings={"TUTTI_RDMA_TIMEOUT": "17"})
        self.assertNotEqual(status, 0, output)
        self.assertRegex(output, r"lost rank [01] at RDMA port rxe[01]:1: RDMA port rxe[01]:1 says: ")

    def test_the_other_card_takes_over(self):
        """Two hosts of two cards each."""
        status, output = self.lose("--cut", 0, "--cards", 2, hosts=4,
                                   command=looping("64K", 150, "-R", 1, "-w", 0),
                                   settings={"TUTTI_RDMA_RAILS": 2, "TUTTI_RDMA_TIMEOUT": "17"})
        print(output)
        self.assertEqual(status, 0, output)
        self.assertIn("# Out of bounds values : 0 OK", output)


def why_not():
    return verbs.why_not() or ("" if ACCESSES.exists() else f"{ACCESSES} is not built")


if __name__ == "__main__":
    reason = why_not()
    if reason:
        print(reason.replace("\n", "; "))
        sys.exit(vm.SKIPPED)
    os.chdir(vm.BUILD)  # what the machine's commands write is lost
    unittest.main(verbosity=2)
