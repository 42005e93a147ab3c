#!/usr/bin/env python3
"""Ranks on several hosts, which have names, addresses and links of their own
(tests/hosts/hosts.py)."""

import os
import pathlib
import re
import shutil
import signal
import socket
import sys
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "hosts"))

import hosts  # noqa: E402
from job import PATIENCE_S, PORT, Job, clean_environment, finish  # noqa: E402

SKIPPED = 77
BUILD = pathlib.Path(os.environ.get("TEST_BINARY_DIR", "build")).resolve()
BINARIES = BUILD / "bin"
LAUNCHED = BINARIES / "tests" / "launched"
LOOPING = BINARIES / "tests" / "looping"
TUTTI = BINARIES / "tutti"
NCCL = BUILD / "lib" / "nccl" / "libnccl.so.2"
COMMUNICATORS = 3  # that `launched` makes
FAILED = 3  # the exit status of `looping` when a call failed
REACHED = re.compile(r"on host (\S+): ranks of other hosts reach it at (\S+) \((\S+)\)")

# One rank of a program of NCCL: LIBRARY RANK RANKS FILE. The id travels in the file; without one,
# every rank asks for it.
DROP_IN = """
import ctypes, os, sys, time
library = ctypes.CDLL(sys.argv[1])
rank, ranks, file = int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]
library.ncclGetLastError.restype = ctypes.c_char_p
def check(result):
    if result != 0:
        sys.exit("rank %d: %s" % (rank, library.ncclGetLastError(None).decode()))
unique = UniqueId()
if rank == 0 or file == "":
    check(library.ncclGetUniqueId(ctypes.byref(unique)))
    if file != "":
        with open(file + ".new", "wb") as out:
            out.write(bytes(unique))
        os.rename(file + ".new", file)
else:
    while not os.path.exists(file):
        time.sleep(0.01)
    with open(file, "rb") as made:
        unique = UniqueId.from_buffer_copy(made.read())
comm = ctypes.c_void_p()
library.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int]
check(library.ncclCommInitRank(ctypes.byref(comm), ranks, unique, rank))
values = (ctypes.c_float * 1000)(*[rank + 1] * 1000)
check(library.ncclAllReduce(values, values, ctypes.c_size_t(1000), 7, 0, comm, None))
assert set(values) == {ranks * (ranks + 1) / 2}, set(values)
check(library.ncclCommDestroy(comm))
print("right")
"""


class OnHosts(unittest.TestCase):
    """Runs the ranks of a job on the hosts of a network: the same number on each, host by host."""

    def network(self, names, ipv4=True, ipv6=False, **each):
        network = self.enterContext(hosts.Network(ipv4=ipv4, ipv6=ipv6))
        for name in names:
            network.add(name, **each)
        return network

    def start(self, network, each, command, common=None, only=None):
        common = {"TUTTI_LOG": "info", **(common or {})}
        return Job(network, each).start(command, common, only)

    def run_all(self, network, each, command, common=None):
        return finish(self.start(network, each, command, common))

    def assert_met(self, results, way="by torchrun; met by MASTER_ADDR"):
        ranks = len(results)
        for rank, (output, code) in enumerate(results):
            self.assertEqual(code, 0, output)
            lines = [line for line in output.splitlines() if line.startswith("sum ")]
            self.assertEqual(len(lines), COMMUNICATORS, output)
            for line in lines:
                self.assertIn(f"sum {ranks * (ranks + 1) // 2}; rank {rank} of {ranks} {way}", line)

    def assert_all_right(self, results):
        for output, code in results:
            self.assertEqual(code, 0, output)

    def announced(self, results):
        """What every rank says that others reach it by: {(address, interface)}."""
        found = set()
        for output, _ in results:
            said = REACHED.findall(output)
            self.assertTrue(said, output)
            found.update((address, interface) for _, address, interface in said)
        return found

    def drop_in(self, network, each, common, handed_on=True):
        file = str(network.folder / "id") if handed_on else ""
        if handed_on:
            pathlib.Path(file).unlink(missing_ok=True)
        ranks = str(each * len(network.hosts))
        return self.run_all(network, each, lambda rank: (sys.executable, "-c", DROP_IN, NCCL, rank,
                                                         ranks, file), common)


class Meeting(OnHosts):
    def test_torchruns_variables(self):
        network = self.network(["alpha", "beta"])
        for each in (1, 3):
            results = self.run_all(network, each, [LAUNCHED])
            self.assert_met(results)
            self.assertEqual(self.announced(results),
                             {(host.ipv4, "eth0") for host in network.hosts})
        network.add("gamma")
        for each in (1, 2):
            self.assert_met(self.run_all(network, each, [LAUNCHED]))

    def test_the_master_by_name(self):
        """On its own host a name may mean a loopback address, as Debian has it."""
        network = self.network(["alpha", "beta"])
        alpha, beta = network.hosts
        alpha.name_addresses(alpha="127.0.1.1", beta=beta.ipv4)
        beta.name_addresses(alpha=alpha.ipv4, beta="127.0.1.1")
        results = self.run_all(network, 2, [LAUNCHED], {"MASTER_ADDR": "alpha"})
        self.assert_met(results)
        self.assertEqual(self.announced(results), {(alpha.ipv4, "eth0"), (beta.ipv4, "eth0")})

    def test_a_place(self):
        network = self.network(["alpha", "beta", "gamma"])
        place = f"{network.hosts[0].ipv4}:4000"
        for name in ("TUTTI_ID", "NCCL_COMM_ID"):
            results = self.run_all(network, 1, [LAUNCHED], {name: place, "MASTER_ADDR": None})
            self.assert_met(results, "by torchrun; met by TUTTI_ID")

    def test_a_name_that_is_not_known_yet(self):
        """Kubernetes makes the names of a job's pods known when they run."""
        network = self.network(["alpha", "beta"])
        common = {"MASTER_ADDR": "first.job", "TUTTI_SLOW": "0.2", "TUTTI_LOG": "warn"}
        processes = self.start(network, 1, [LAUNCHED], common)
        for rank, process in enumerate(processes):
            self.assertIn(f"rank {rank} of 2 cannot resolve the host 'first.job'",
                          process.stdout.readline())
        for host in network.hosts:
            host.name_addresses(**{"first.job": network.hosts[0].ipv4})
        self.assert_met(finish(processes))

    def test_no_key_is_refused(self):
        network = self.network(["alpha", "beta"])
        for output, code in self.run_all(network, 1, [LAUNCHED], {"TUTTI_KEY_FILE": None}):
            self.assertEqual(code, 1, output)
            self.assertIn("TUTTI_KEY_FILE", output)

    def test_ipv6_only(self):
        network = self.network(["alpha", "beta"], ipv4=False, ipv6=True)
        first = network.hosts[0].ipv6
        results = self.run_all(network, 2, [LAUNCHED], {"MASTER_ADDR": first})
        self.assert_met(results)
        self.assertEqual(self.announced(results), {(host.ipv6, "eth0") for host in network.hosts})
        results = self.run_all(network, 1, [LAUNCHED], {"TUTTI_ID": f"[{first}]:4000"})
        self.assert_met(results, "by torchrun; met by TUTTI_ID")
        self.assert_all_right(self.drop_in(network, 1, {"MASTER_ADDR": None}))

    def test_ipv6_beside_ipv4(self):
        """The family of the place decides, and the variable above it."""
        network = self.network(["alpha", "beta"], ipv6=True)
        first = network.hosts[0]
        for variables, address in (({}, "ipv4"), ({"MASTER_ADDR": first.ipv6}, "ipv6"),
                                   ({"NCCL_SOCKET_FAMILY": "AF_INET6"}, "ipv6")):
            results = self.run_all(network, 1, [LAUNCHED], variables)
            self.assert_met(results)
            self.assertEqual(self.announced(results),
                             {(getattr(host, address), "eth0") for host in network.hosts})

    def test_the_drop_in(self):
        network = self.network(["alpha", "beta", "gamma"])
        self.assert_all_right(self.drop_in(network, 2, {"MASTER_ADDR": None}))
        place = f"{network.hosts[0].ipv4}:4000"
        self.assert_all_right(self.drop_in(network, 1, {"NCCL_COMM_ID": place, "MASTER_ADDR": None},
                                           handed_on=False))

    def test_real_torchrun(self):
        torchrun = shutil.which("torchrun")
        if torchrun is None:
            self.skipTest("torchrun is not installed")
        network = self.network(["alpha", "beta"])
        alpha, beta = network.hosts
        for host in network.hosts:
            host.name_addresses(alpha=alpha.ipv4, beta=beta.ipv4)
        environment = {**clean_environment(), "TUTTI_KEY_FILE": str(Job(network, 2).key)}
        agents = []
        for number, host in enumerate(network.hosts):
            logs = network.folder / host.name
            # torch 1.13 knows its other ways to treat the outputs no more under Python 3.11.
            agents.append(host.start(
                torchrun, "--no_python", "--nnodes=2", f"--node_rank={number}",
                "--nproc_per_node=2", f"--master_addr={alpha.ipv4}", f"--master_port={PORT}",
                "--redirects=2", "--tee=1", f"--log_dir={logs}", LAUNCHED, environment=environment))
        lines = []
        for output, code in finish(agents):
            self.assertEqual(code, 0, output)
            lines += [line for line in output.splitlines() if "sum " in line]
        self.assertEqual(len(lines), 4 * COMMUNICATORS, lines)
        for line in lines:
            self.assertRegex(line, r"sum 10; rank \d of 4 by torchrun; met by MASTER_ADDR")


class Interfaces(OnHosts):
    """eth0 is the last interface of every host, and the only one by which it reaches others."""

    BRIDGE = ("bridge", "docker0", "172.17.0.1")  # the same on every host
    UNPLUGGED = ("unplugged", "eno1", "10.98.0.1")
    BMC = ("nowhere", "usb0", "169.254.3.1")  # a BMC's USB interface, the same on every host

    def hosts_behind(self, *before, nowhere=False):
        network = self.network([])
        for number, name in enumerate(("alpha", "beta"), start=1):
            more = (("nowhere", "eno2", f"10.99.0.{number}"),) if nowhere else ()
            network.add(name, before=(*before, *more))
        return network, {(host.ipv4, "eth0") for host in network.hosts}

    def test_bridges_and_unplugged_ones_are_not_announced(self):
        network, right = self.hosts_behind(self.BRIDGE, self.UNPLUGGED)
        results = self.drop_in(network, 2, {"MASTER_ADDR": None})
        self.assert_all_right(results)
        self.assertEqual(self.announced(results), right)

    def test_link_local_ones_are_announced_only_where_there_is_nothing_else(self):
        network, right = self.hosts_behind(self.BMC)
        results = self.drop_in(network, 2, {"MASTER_ADDR": None})
        self.assert_all_right(results)
        self.assertEqual(self.announced(results), right)
        for number, host in enumerate(network.hosts, start=1):
            host.ip("link delete usb0", "address flush dev eth0",
                    f"address add 169.254.7.{number}/16 dev eth0")
        results = self.drop_in(network, 2, {"MASTER_ADDR": None})
        self.assert_all_right(results)
        self.assertEqual(self.announced(results),
                         {("169.254.7.1", "eth0"), ("169.254.7.2", "eth0")})

    def test_the_place_to_meet_shows_the_network(self):
        network, right = self.hosts_behind(self.BRIDGE, self.UNPLUGGED, nowhere=True)
        place = f"{network.hosts[0].ipv4}:4000"
        for common in ({}, {"TUTTI_ID": place}):
            results = self.run_all(network, 2, [LAUNCHED], common)
            self.assertEqual(self.announced(results), right)
            for output, code in results:
                self.assertEqual(code, 0, output)
        # PyTorch's way: MASTER_ADDR is there, the id travels by the program.
        results = self.drop_in(network, 1, {})
        self.assert_all_right(results)
        self.assertEqual(self.announced(results), right)

    def test_variables_choose(self):
        network, right = self.hosts_behind(self.BRIDGE, nowhere=True)
        for variables in ({"TUTTI_SOCKET_IFNAME": "=eth0"}, {"NCCL_SOCKET_IFNAME": "eth"},
                          {"NCCL_SOCKET_IFNAME": "^eno,docker,lo"}):
            results = self.drop_in(network, 1, {"MASTER_ADDR": None, **variables})
            self.assert_all_right(results)
            self.assertEqual(self.announced(results), right)

    def test_the_wrong_interface_is_an_error_that_says_so(self):
        network, _ = self.hosts_behind(nowhere=True)
        results = self.run_all(network, 1, [LAUNCHED],
                               {"TUTTI_SOCKET_IFNAME": "eno2", "TUTTI_TIMEOUT": "20"})
        for output, code in results:
            self.assertEqual(code, 1, output)
        self.assertTrue(any("TUTTI_SOCKET_IFNAME" in output for output, _ in results), results)


class Identity(OnHosts):
    def identities(self, results):
        return {host for output, _ in results for host, *_ in REACHED.findall(output)}

    def test_two_hosts_of_one_name_are_two(self):
        network = self.network(["node", "node"])
        results = self.run_all(network, 2, [LAUNCHED])
        self.assert_met(results)
        self.assertEqual(len(self.identities(results)), 2, results)

    def test_two_names_on_one_host(self):
        """As in two containers that share the host's network: two identities, unless they are told
        to be one."""
        network = self.network(["alpha"])

        def contained(rank):
            return ("unshare", "--uts", "sh", "-c",
                    f'echo box{rank} > /proc/sys/kernel/hostname; exec "$0"', LAUNCHED)

        several = {"LOCAL_WORLD_SIZE": None}
        results = self.run_all(network, 2, contained, several)
        self.assert_met(results)
        self.assertEqual(len(self.identities(results)), 2, results)
        shared_memory = {**several, "TUTTI_TRANSPORTS": "loopback,shm"}
        for output, code in self.run_all(network, 2, contained, shared_memory):
            self.assertEqual(code, 1, output)
            self.assertIn("TUTTI_HOST_ID", output)
        results = self.run_all(network, 2, contained, {**shared_memory, "TUTTI_HOST_ID": "alpha"})
        self.assert_met(results)


class Failures(OnHosts):
    """Ranks in a loop on three hosts, of which one is lost."""

    EACH = 2
    LOST = (4, 5)  # the ranks of the last host

    def loop(self, **common):
        network = self.network(["alpha", "beta", "gamma"])
        processes = self.start(network, self.EACH, [LOOPING], {"TUTTI_LOG": "off", **common})
        for process in processes:
            line = process.stdout.readline()
            self.assertEqual(line, "ready\n", line)
        return network, processes

    def assert_named(self, processes, lost, since_ns):
        """Every process ended by an error about one of these ranks."""
        for output, code in finish(processes):
            self.assertEqual(code, FAILED, output)
            self.assertRegex(output, rf"rank [{''.join(map(str, lost))}]\b")
            for line in output.splitlines():
                said = re.match(r"failed at (\d+): (.*)", line)
                if said:
                    print(f"  {(int(said[1]) - since_ns) / 1e9:.3f} s: {said[2]}")

    def assert_cut_off(self, **common):
        network, processes = self.loop(**common)
        since_ns = time.monotonic_ns()
        network.cut_off(network.hosts[-1])
        there = self.LOST[0]
        self.assert_named(processes[:there], self.LOST, since_ns)
        self.assert_named(processes[there:], range(there), since_ns)

    def test_a_host_that_is_cut_off_ends_calls_by_their_deadline(self):
        self.assert_cut_off(TUTTI_TIMEOUT="2", TUTTI_KEEPALIVE="none")

    def test_a_host_that_is_cut_off_ends_calls_by_its_silence(self):
        self.assert_cut_off(TUTTI_KEEPALIVE="2")

    def await_call(self, caller, called):
        """Until the kernel of the called host has what the caller says first. They may have met
        on the caller's host: that connection is another one."""
        address = socket.inet_aton(called.ipv4)[::-1].hex().upper()
        call = re.compile(rf":(?!{PORT + 1:04X})\w{{4}} {address}:\w{{4}} 01 0{{8}}:")
        end = time.monotonic() + PATIENCE_S
        while not call.search(caller.run("cat", "/proc/net/tcp")):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def test_a_host_that_is_lost_before_it_has_answered_a_call(self):
        """Its rank stops when the others are about to learn its address."""
        network = self.network(["alpha", "beta", "gamma"])
        alpha, beta, gamma = network.hosts
        common = {"TUTTI_KEEPALIVE": "2", "TUTTI_SLOW": "0.2", "TUTTI_LOG": "warn"}
        first, stopped = self.start(network, 1, [LOOPING], common, only=(0, 1))
        line = stopped.stdout.readline()
        self.assertIn("rank 2 of 3 did not come", line)
        stopped.send_signal(signal.SIGSTOP)
        last, = self.start(network, 1, [LOOPING], common, only=(2,))
        for caller in (alpha, gamma):
            self.await_call(caller, beta)
        since_ns = time.monotonic_ns()
        network.cut_off(beta)
        self.assert_named([first, last], [1], since_ns)

    def assert_death_is_named(self, processes, rank):
        since_ns = time.monotonic_ns()
        processes[rank].kill()
        others = [process for process in processes if process is not processes[rank]]
        self.assert_named(others, [rank], since_ns)

    def test_a_killed_rank_is_named_by_all_hosts(self):
        _, processes = self.loop(TUTTI_KEEPALIVE="none")
        self.assert_death_is_named(processes, self.LOST[0])

    def test_a_stopped_rank_is_no_silent_host(self):
        _, processes = self.loop(TUTTI_KEEPALIVE="2")
        stopped, other = self.LOST
        processes[stopped].send_signal(signal.SIGSTOP)
        time.sleep(3.5)  # more than a silent host has
        processes[stopped].send_signal(signal.SIGCONT)
        self.assertEqual([process.poll() for process in processes], [None] * len(processes))
        self.assert_death_is_named(processes, other)  # so they went on until now


class Links(OnHosts):
    def perf(self, network, each, collective):
        command = [TUTTI, "perf", collective, *"-b 1M -e 1M -n 1 -w 1 -c 1".split()]
        results = self.run_all(network, each, command, {"TUTTI_LOG": None})
        for rank, (output, code) in enumerate(results):
            self.assertEqual(code, 0, output)
            self.assertEqual("# Out of bounds values : 0 OK" in output, rank == 0, output)

    def test_a_slow_link(self):
        network = self.network(["alpha", "beta", "gamma"], rate="100mbit")
        self.perf(network, 2, "all_reduce")
        self.perf(network, 1, "all_to_all")

    def test_ports_are_of_the_kernels_range_and_of_the_meeting(self):
        """What a firewall must admit: the place to meet, and net.ipv4.ip_local_port_range."""
        network = self.network(["alpha", "beta"])
        try:
            for host in network.hosts:
                host.write("/proc/sys/net/ipv4/ip_local_port_range", "42000 42999")
                host.ip(f"rule add pref 10 ipproto tcp dport {PORT + 1} lookup main",
                        "rule add pref 11 ipproto tcp dport 1-41999 prohibit",
                        "rule add pref 12 ipproto tcp dport 43000-65534 prohibit")
        except hosts.Unavailable as reason:
            self.skipTest(f"no routing by port: {reason}")
        self.assert_met(self.run_all(network, 2, [LAUNCHED]))
        for output, code in self.run_all(network, 1, [LAUNCHED],
                                         {"TUTTI_PORT": "5000", "TUTTI_INIT_TIMEOUT": "2"}):
            self.assertEqual(code, 1, output)  # so the rules refuse

    def test_a_rank_that_finds_no_port_says_how_many_there_are(self):
        network = self.network(["alpha"])
        host, = network.hosts
        host.write("/proc/sys/net/ipv4/ip_local_port_range", "42000 42009")
        results = self.run_all(network, 8, [LAUNCHED], {"TUTTI_INIT_TIMEOUT": "5"})
        said = [output for output, _ in results
                if "all ports are taken that this host gives out, 42000 to 42009" in output]
        self.assertTrue(said, results)
        for output, code in results:
            self.assertEqual(code, 1, output)
        host.write("/proc/sys/net/ipv4/ip_local_port_range", "42000 42099")
        self.assert_met(self.run_all(network, 8, [LAUNCHED]), "by torchrun; met by a file")


if __name__ == "__main__":
    reason = "" if LOOPING.exists() else f"{LOOPING} is not built"
    reason = reason or hosts.why_not()
    if reason:
        print(reason)
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)  # names what is skipped, and why
