#!/usr/bin/env python3
"""RDMA between the hosts of the virtual machine (vm/rxe-vm), whose cards are Soft-RoCE."""

import ctypes
import os
import pathlib
import re
import sys
import unittest

import slow_vm_test as vm

JOB = vm.HERE / "rdma_job.py"
TESTS = vm.BUILD / "bin" / "tests" / "tests_test"
DRIVER = pathlib.Path("/etc/libibverbs.d/rxe.driver")  # of Soft-RoCE cards
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "gather", "scatter",
               "all_to_all", "all_gather_v", "reduce_scatter_v", "all_to_all_v", "sendrecv")
# Emulated cards are slow, and those of Linux 6.1 spoil some connections when they repeat early.
SETTINGS = {"TUTTI_RDMA_TIMEOUT": "18", "TUTTI_TRANSPORTS": "shm,verbs"}
FAR = "delay 5ms loss 0.1%"  # packets out of order cost these cards a second each


def in_job(*command, ranks, netem="", options=(), settings=None):
    variables = [f"{name}={value}" for name, value in {**SETTINGS, **(settings or {})}.items()]
    return vm.run("--hosts", 2, *(("--netem", netem) if netem else ()), "--mem", "3G", "--timeout",
                  vm.PATIENCE_S, "--", "env", *variables, vm.PYTHON, "-B", JOB, "--ranks", ranks, *options,
                  "--", *command)


class OneHost(unittest.TestCase):
    def test_the_conformance_suite(self):
        status, output = vm.run("--timeout", vm.PATIENCE_S, "--", TESTS, "--gtest_filter=Every/Transport*verbs")
        self.assertEqual(status, 0, output)
        passed = re.search(r"PASSED  \] (\d+) tests", output)
        self.assertGreater(int(passed[1]), 20, output)


class TwoHosts(unittest.TestCase):
    def check(self, collectives, *flags, **job):
        """Whether every result is right."""
        script = "; ".join(f"{vm.TUTTI} perf {name} {' '.join(flags)} -n 1 -w 0 || exit 1"
                           for name in collectives)
        status, output = in_job("sh", "-c", script, **job)
        print(output)
        self.assertEqual(status, 0, output)
        self.assertEqual(output.count("# Out of bounds values : 0 OK"), len(collectives), output)

    def test_collectives_are_right(self):
        """Ranks of a host share memory."""
        self.check(COLLECTIVES, "-b 8 -e 128K -f 16384", ranks=2)

    def test_they_are_right_over_a_far_and_lossy_network(self):
        self.check(("all_reduce", "all_to_all"), "-b 16K -e 16K", ranks=1, netem=FAR)

    def test_links_between_hosts_are_by_rdma(self):
        status, output = in_job(vm.TUTTI, "perf", "all_reduce", "-b", "1K", "-e", "1K", "-n", 1, ranks=1,
                                settings={"TUTTI_LOG": "info", "TUTTI_TRANSPORTS": "shm,verbs,tcp"})
        self.assertEqual(status, 0, output)
        self.assertRegex(output, r"rank 0 of 2, 2 hosts, 1 rank by verbs")

    def test_a_killed_rank_is_named(self):
        status, output = in_job(vm.TUTTI, "perf", "all_reduce", "-b", "64K", "-e", "64K", "-n", 100000,
                                ranks=1, options=("--kill", 1, "--when", "#wrong"))
        print(output)
        self.assertNotEqual(status, 0, output)
        self.assertIn("rank 0 lost rank 1", output)

    def test_a_card_without_a_network_is_named(self):
        """Its sockets stay, so only the card can tell."""
        status, output = in_job(vm.TUTTI, "perf", "all_reduce", "-b", "64K", "-e", "64K", "-n", 100000,
                                ranks=1, options=("--cut", 1, "--when", "#wrong"),
                                settings={"TUTTI_RDMA_TIMEOUT": "16"})
        print(output)
        self.assertNotEqual(status, 0, output)
        self.assertRegex(output, r"lost rank [01] at RDMA port rxe[01]:1: RDMA port rxe[01]:1 says: ")

    def test_registered_memory_is_written_by_the_cards(self):
        self.check(("all_reduce", "all_gather", "all_to_all"), "-R 1 -b 64K -e 1M -f 16", ranks=1)


def why_not():
    reason = vm.why_not()
    if reason:
        return reason
    if not TESTS.exists():
        return f"{TESTS} is not built"
    # The machine has this host's files, so its libraries are these.
    missing = load_error("libibverbs.so.1")
    if not missing and not DRIVER.exists():
        missing = f"no {DRIVER}"
    return f"{missing} (Debian: libibverbs1 and ibverbs-providers)" if missing else ""


def load_error(library):
    try:
        ctypes.CDLL(library)
    except OSError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    reason = why_not()
    if reason:
        print(reason.replace("\n", "; "))
        sys.exit(vm.SKIPPED)
    os.chdir(vm.BUILD)  # what the machine's commands write is lost
    unittest.main(verbosity=2)
