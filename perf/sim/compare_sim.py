#!/usr/bin/env python3
"""Compares `tutti sim` with real processes on hosts that are network namespaces with shaped links.

    perf/sim/compare_sim.py [--build build] [--rate 20] [--iterations 5]

Each line: a collective that `tutti perf` ran on the hosts, the median of its times, and what `tutti sim` says for
the same hosts, links and algorithm. Needs root, iproute2 and a kernel with veth and tbf (tests/hosts/hosts.py).
Nothing of the simulation is fitted: the file says the rate that tbf was given, and no latency.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "hosts"))

import hosts  # noqa: E402
from job import Job, finish  # noqa: E402

PATIENCE_S = 300
CASES = (  # what, hosts, ranks of each, collective, algorithm, sizes
    ("point to point", 2, 1, "broadcast", "chain", ("256K", "1M", "4M")),
    ("ring", 4, 1, "all_reduce", "ring", ("256K", "1M", "4M")),
    ("two flows into one link", 3, 1, "gather", "direct", ("256K", "1M", "4M")),
    ("two ranks on each link", 3, 2, "all_to_all", "pairwise", ("256K", "1M", "4M")),
)


class Case:
    def __init__(self, options, case):
        self.options = options
        self.what, self.hosts, self.each, self.collective, self.algorithm, self.sizes = case

    def measure(self):
        """By size, in microseconds."""
        times = {}
        with hosts.Network() as network:
            for number in range(self.hosts):
                network.add(f"host{number}", rate=f"{self.options.rate}mbit")
            for size in self.sizes:
                times[size] = self.run_ranks(network, size)
        return times

    def run_ranks(self, network, size):
        results = network.folder / "results.json"
        command = [self.options.build / "bin" / "tutti", "perf", self.collective, "-b", size, "-e", size, "-n", "1",
                   "-w", "1", "-c", "0", "-a", "3", "-N", self.options.iterations, "--json", results]
        started = Job(network, self.each).start(
            command, {"TUTTI_ALGORITHM": f"{self.collective}:{self.algorithm}"})
        for output, code in finish(started, PATIENCE_S):
            if code != 0:
                sys.exit(f"compare_sim.py: {self.collective} of {size} failed:\n{output}")
        return time_in(results)

    def simulate(self, folder):
        rate = self.options.rate / 8000  # bytes in a nanosecond
        cluster = folder / "cluster.json"
        cluster.write_text(json.dumps({
            "tutti_topology": 1,
            "levels": [{"name": "switch", "port_GB_per_s": rate}, {"name": "host"}],
            "tree": {"children": [{"count": self.hosts, "ranks": self.each}]}}), encoding="utf-8")
        times = {}
        for size in self.sizes:
            results = folder / "simulated.json"
            subprocess.run([self.options.build / "bin" / "tutti", "sim", self.collective, "--topology", cluster, "-b",
                            size, "--algorithm", self.algorithm, "--json", results], check=True,
                           stdout=subprocess.DEVNULL)
            times[size] = time_in(results)
        return times


def time_in(path):
    rows = json.loads(path.read_text(encoding="utf-8"))["results"]
    return statistics.median(float(row["out_of_place"]["time"]) for row in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--rate", type=int, default=20, help="of every link in each direction, in Mbit/s")
    parser.add_argument("--iterations", type=int, default=5)
    options = parser.parse_args()
    reason = hosts.why_not()
    if reason:
        sys.exit(f"compare_sim.py: {reason}")
    print(f"# links of {options.rate} Mbit/s\n# {'what':<26} {'collective':<22} {'size':>5} {'measured/ms':>12} "
          f"{'simulated/ms':>13} {'error/%':>8}")
    for row in CASES:
        case = Case(options, row)
        folder = pathlib.Path(os.environ.get("TMPDIR", "/tmp"))
        measured, simulated = case.measure(), case.simulate(folder)
        for size in case.sizes:
            error = 100 * (simulated[size] / measured[size] - 1)
            print(f"  {case.what:<26} {case.collective + '/' + case.algorithm:<22} {size:>5} "
                  f"{measured[size] / 1000:12.2f} {simulated[size] / 1000:13.2f} {error:8.1f}", flush=True)


if __name__ == "__main__":
    main()
