#!/usr/bin/env python3
"""Times collectives between sites of emulated hosts, whose links to each other are slow.

    perf/sites/time_sites.py [--sites 2x3] [--host-rate 800mbit] [--wan-rate 40mbit] [--rounds 5]

In one program, by turns: Tutti's hierarchical algorithm and what Open MPI chooses; then the same with Tutti's flat ring.
So both lie in the same hosts, minutes and rounds; medians of rounds count. Beside them stands what the slow link
allows: the bytes that the algorithm declares for it over the goodput that iperf3 reaches there, before and after, and
depth times the round trip of a connection to there before anything else is on the way. Needs what tests/hosts/hosts.py needs,
Open MPI when the build is configured, and iperf3 (tools/install-packages --optional).
"""

import argparse
import csv
import fractions
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "hosts"))

import hosts  # noqa: E402
import sites  # noqa: E402
from job import clean_environment  # noqa: E402

PATIENCE_S = 3600
IPERF_S = 4
CONNECT_S = 30
LISTENER = """
import socket
listener = socket.create_server(("", 0))
print(listener.getsockname()[1], flush=True)
while True:
    listener.accept()
"""
CALLER = """
import socket, sys, time
times = []
for _ in range(50):
    since = time.perf_counter()
    socket.create_connection((sys.argv[1], int(sys.argv[2]))).close()
    times.append(time.perf_counter() - since)
print(min(times))
"""


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--build", type=pathlib.Path, default=ROOT / "build")
    add("--sites", type=sites.parse_shape, default=[3, 3], metavar="SHAPE")
    add("--host-rate", default="800mbit")
    add("--wan-rate", default="40mbit")
    add("--sizes", default="256K,1M,4M", help="of all_reduce, in bytes")
    add("--rounds", type=int, default=5)
    return parser.parse_args()


class Network:
    """Sites, and what MPI needs to start its daemons there: names, and in place of ssh a script that enters a host."""

    def __init__(self, options):
        self.options = options
        self._sites = sites.Sites(options.sites, options.host_rate, options.wan_rate)

    def __enter__(self):
        self._sites.__enter__()
        names = {host.name: host.ipv4 for host in self._sites.hosts}
        for host in self._sites.hosts:
            host.name_addresses(**names)
        self.folder = self._sites.folder
        self.cluster = self._sites.describe([1] * len(self._sites.hosts))
        self._agent = self.folder / "agent"
        cases = "".join(f"{host.name}) exec {' '.join(host.entering('sh', '-c'))} \"$*\" ;;\n"
                        for host in self._sites.hosts)
        self._agent.write_text(f'#!/bin/sh\nhost=$1; shift\ncase $host in\n{cases}esac\nexit 1\n', encoding="utf-8")
        self._agent.chmod(0o700)
        return self

    def __exit__(self, *_):
        self._sites.__exit__()

    def goodput(self):
        """Bytes in a second from the first site to the second, of a TCP stream alone on the way."""
        client, server = self._sites.sites[0].hosts[0], self._sites.sites[1].hosts[0]
        process = server.start("iperf3", "-s", "-1", environment=clean_environment())
        end = time.monotonic() + CONNECT_S
        said = {"error": ""}
        while "error" in said:  # the server may not listen yet
            if time.monotonic() > end:
                sys.exit(f"time_sites.py: iperf3 does not reach the other site: {said['error']}")
            said = json.loads(client.run("iperf3", "-J", "-t", IPERF_S, "-c", server.ipv4))
        process.wait()
        return said["end"]["sum_received"]["bits_per_second"] / 8

    def round_trip(self):
        """Seconds that a TCP connection to the other site takes, the least of several."""
        client, server = self._sites.sites[0].hosts[0], self._sites.sites[1].hosts[0]
        process = server.start(sys.executable, "-c", LISTENER, environment=clean_environment())
        port = process.stdout.readline().strip()
        return float(client.run(sys.executable, "-c", CALLER, server.ipv4, port))

    def duel(self, variables):
        """{(bytes, variant): [microseconds of a call, by round]}."""
        names = [f"{host.name}:1" for host in self._sites.hosts]
        rounds = self.folder / "rounds.csv"
        exported = {"TUTTI_TOPOLOGY": self.cluster, **variables}
        program = self.options.build.resolve() / "bin" / "tutti_perf_mpi"
        components = {"plm_rsh_agent": self._agent, "mpi_yield_when_idle": 1, "pml": "ob1", "btl": "tcp,self",
                      "btl_tcp_if_include": "eth0", "oob_tcp_if_include": "eth0"}
        command = ["mpirun", "--allow-run-as-root", "--bind-to", "none", "--host", ",".join(names), "-np", len(names),
                   *(word for name, value in components.items() for word in ("--mca", name, value)),
                   *(word for name in exported for word in ("-x", name)), program, "all_reduce", "--bytes-list",
                   self.options.sizes, "--rounds", self.options.rounds, "--rounds-file", rounds]
        process = self._sites.hosts[0].start(*command, environment={
            **clean_environment(), **{name: str(value) for name, value in exported.items()}})
        output = process.communicate(timeout=PATIENCE_S)[0]
        if process.returncode != 0:
            sys.exit(f"time_sites.py: mpirun ended with {process.returncode}:\n{output}")
        times = {}
        with open(rounds, encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                if row["mode"] == "free-running":
                    times.setdefault((int(row["bytes"]), row["variant"]), []).append(float(row["us"]))
        return times

    def loads(self, algorithm):
        """Of the busier direction of a site's link, in units of one count; and the depth there."""
        command = [self.options.build / "bin" / "tutti", "print", f"all_reduce/{algorithm}", "--topology", self.cluster,
                   "--loads"]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        cuts = [fractions.Fraction(cut) for site in re.findall(r"^  site \d+: out (\S+), in (\S+)$", text, re.M)
                for cut in site]
        return max(cuts), int(re.search(r"^wan: depth (\d+)$", text, re.M)[1])


def main():
    options = parse_options()
    missing = [name for name in ("mpirun", "iperf3") if shutil.which(name) is None]
    reason = hosts.why_not() or (f"not installed: {', '.join(missing)}" if missing else "")
    if reason:
        sys.exit(f"time_sites.py: {reason}")
    hosts.end_when_asked()
    with Network(options) as network:
        trip = network.round_trip()
        before = network.goodput()
        chosen = network.duel({"TUTTI_ALGORITHM": "all_reduce:hierarchical"})
        ring = network.duel({"TUTTI_ALGORITHM": "all_reduce:ring"})
        after = network.goodput()
        goodput = (before + after) / 2
        load, depth = network.loads("hierarchical")
        flat, _ = network.loads("ring")
        print(f"# {options.sites} hosts; host links {options.host_rate}, sites' links {options.wan_rate}; medians of "
              f"{options.rounds} rounds; load of the machine {os.getloadavg()[0]:.1f}\n"
              f"# goodput {before * 8e-6:.2f} and {after * 8e-6:.2f} Mbit/s, round trip {trip * 1e3:.2f} ms; of a count, "
              f"{load} cross (hierarchical, depth {depth}), {flat} (ring)\n"
              f"# {'bytes':>9} {'bound/ms':>10} {'hierarchical':>13} {'of bound':>9} {'ring':>10} {'Open MPI':>10} {'and':>10}")
        for size in sorted({size for size, _ in chosen}):
            bound_ms = 1e3 * (float(load) * size / goodput + depth * trip)
            ours, flat_ms, mpi, again = (statistics.median(times) / 1e3 for times in (
                chosen[size, "tutti"], ring[size, "tutti"], chosen[size, "mpi"], ring[size, "mpi"]))
            print(f"  {size:>9} {bound_ms:>10.1f} {ours:>13.1f} {ours / bound_ms:>9.2f} {flat_ms:>10.1f} {mpi:>10.1f} "
                  f"{again:>10.1f}", flush=True)


if __name__ == "__main__":
    main()
