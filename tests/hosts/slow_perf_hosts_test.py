#!/usr/bin/env python3
"""`tutti perf --hosts` over hosts with networks of their own, with nsenter in place of ssh, and over
those of the virtual machine (vm/rxe-vm), which have RDMA cards."""

import os
import pathlib
import subprocess
import sys
import unittest

import slow_vm_test as vm
from hosts import SPACES, Network, path_of, why_not

SKIPPED = 77
TUTTI = pathlib.Path(os.environ.get("TEST_BINARY_DIR", "build")).resolve() / "bin" / "tutti"
PATIENCE_S = 60
FLAGS = ["-b", "8", "-e", "1M", "-f", "64", "-n", "3", "-v"]


def perf(hosts, *more):
    """A host's name is the process that keeps its namespaces, which nsenter takes."""
    launcher = " ".join([path_of("nsenter"), "--target={host}", *SPACES, "--", "sh -c"])
    return subprocess.run(
        [str(TUTTI), "perf", "all_reduce", *FLAGS, "--launcher", launcher, "--hosts",
         ",".join(f"{host.pid}:{slots}" for host, slots in hosts), *more],
        text=True, capture_output=True, timeout=300,
        env={**os.environ, "TUTTI_INIT_TIMEOUT": "20"})


@unittest.skipIf(why_not(), why_not())
class Hosts(unittest.TestCase):
    def test_ranks_meet_over_the_network_that_joins_their_hosts(self):
        with Network() as network:
            first, second = network.add("one"), network.add("two")
            done = perf([(first, 2), (second, 1)])
        self.assertEqual(done.returncode, 0, done.stderr)
        ranks = [line for line in done.stdout.splitlines() if line.startswith("#  Rank")]
        self.assertEqual([line.split(" on ")[1].split()[0] for line in ranks],
                         ["one", "one", "two"])
        self.assertIn("# Out of bounds values : 0 OK", done.stdout)
        rows = [line.split() for line in done.stdout.splitlines() if not line.startswith("#")]
        self.assertEqual({row[-1] for row in rows}, {"shm+tcp"})

    def test_a_host_that_reaches_nobody_ends_the_run_with_its_name(self):
        with Network() as network:
            first, second = network.add("one"), network.add("two")
            network.cut_off(second)
            done = perf([(first, 1), (second, 1)])
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertIn(f"{second.pid}: ", done.stderr)


@unittest.skipIf(vm.why_not(), vm.why_not())
class MachineWithCards(unittest.TestCase):
    def test_the_hosts_of_the_virtual_machine_talk_by_their_cards(self):
        launcher = ("on {host} env TUTTI_RDMA_DEVICES==rxe{host} TUTTI_SOCKET_IFNAME=eth0 "
                    "TUTTI_TRANSPORTS=shm,verbs sh -c")
        status, output = vm.run("--hosts", 2, "--mem", "2G", "--timeout", vm.PATIENCE_S, "--",
                                vm.TUTTI, "perf", "all_reduce", "--hosts", "0,1", "--launcher",
                                launcher, "-b", "64K", "-n", 2, "-v")
        self.assertEqual(status, 0, output)
        self.assertIn("# Out of bounds values : 0 OK", output)
        row = [line for line in output.splitlines() if line.strip().startswith("65536 ")]
        self.assertEqual([line.split()[-1] for line in row], ["verbs"], output)


if __name__ == "__main__":
    if not TUTTI.exists() or (why_not() and vm.why_not()):
        print(why_not() if TUTTI.exists() else f"{TUTTI} is not built")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)  # names what is skipped, and why
