#!/usr/bin/env python3
"""How many one-way delays between sites a small collective takes, by each algorithm over levels.

    tests/hosts/vm/rxe-vm --mem 3G --timeout 900 -- tests/hosts/wan_delays.py

A line for each algorithm: the time of a call at two delays, what it grows by with the delay (so what
the machine's own work takes does not count), and what the algorithm's schedule says: how many messages
between sites wait for each other. The last line is what the library chooses. Calls follow each other; a
time is the least of several means over a number of calls, since what else the machine does only adds. It
needs what hosts.py needs, and netem.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

import hosts
import job
import sites

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATIENCE_S = 300


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--build", type=pathlib.Path, default=pathlib.Path(os.environ.get("TEST_BINARY_DIR", ROOT / "build")))
    add("--sites", type=sites.parse_shape, default=[3, 3], metavar="SHAPE", help="2x3, or 3+2+1")
    add("--ranks", type=int, default=1, help="on each host")
    add("--delays", type=int, nargs=2, default=(20, 60), metavar="MS", help="one way")
    add("--collective", default="all_reduce")
    add("--bytes", default="1K")
    add("--calls", type=int, default=10, help="of one mean")
    add("--algorithms", metavar="NAME,...", help="those of levels")
    add("--means", type=int, default=4)
    return parser.parse_args()


class Delays:
    def __init__(self, options, network):
        self._options = options
        self._network = network
        self._counts = [options.ranks] * len(network.hosts)
        self._tutti = options.build.resolve() / "bin" / "tutti"

    def algorithms(self):
        if self._options.algorithms is not None:
            return self._options.algorithms.split(",")
        listed = subprocess.run([self._tutti, "algorithms"], check=True, capture_output=True,
                                text=True).stdout
        return re.findall(rf"^{self._options.collective} (hierarchical\w*)\n", listed, re.MULTILINE)

    def depth(self, name):
        printed = subprocess.run(
            [self._tutti, "print", f"{self._options.collective}/{name}", "--topology",
             self._network.describe(self._counts), "--loads"], check=True, capture_output=True,
            text=True).stdout
        return int(re.search(r"^wan: depth (\d+)$", printed, re.MULTILINE)[1])

    def measure(self, name, delay_ms):
        """Milliseconds of a call, and the algorithm that it ran by."""
        options = self._options
        self._network.set_netem(f"delay {delay_ms}ms")
        results = self._network.folder / "results.json"
        command = [self._tutti, "perf", options.collective, "-b", options.bytes, "-e", options.bytes, "-n",
                   options.calls, "-w", 2, "-c", 1, "-N", options.means, "-v", "--json", results]
        common = {"TUTTI_TOPOLOGY": self._network.describe(self._counts)}
        if name is not None:
            common["TUTTI_ALGORITHM"] = f"{options.collective}:{name}"
        ranks = job.Job(self._network, self._counts).start(command, common)
        for output, code in job.finish(ranks, PATIENCE_S):
            if code != 0:
                sys.exit(f"wan_delays.py: {name} failed:\n{output}")
        rows = json.loads(results.read_text(encoding="utf-8"))["results"]
        times = [float(row[half]["time"]) for row in rows for half in ("out_of_place", "in_place")]
        return min(times) / 1000, rows[0]["algorithm"]

    def print_line(self, name):
        short, long = self._options.delays
        (at_short, used), (at_long, _) = self.measure(name, short), self.measure(name, long)
        slope = (at_long - at_short) / (long - short)
        shown = used if name is not None else f"chosen: {used}"
        print(f"  {shown:<32} {at_short:10.1f} {at_long:10.1f} {slope:18.2f} {self.depth(used):18}", flush=True)


def print_table(options):
    with sites.Sites(options.sites, wan=f"delay {options.delays[0]}ms") as network:
        delays = Delays(options, network)
        short, long = (f"{delay} ms" for delay in options.delays)
        print(f"# {options.collective} of {options.bytes}B, sites of {options.sites} hosts with {options.ranks} ranks; "
              f"load {os.getloadavg()[0]:.1f}")
        print(f"# {'algorithm':<32} {short:>10} {long:>10} {'one-way delays':>18} {'of its schedule':>18}", flush=True)
        for name in [*delays.algorithms(), None]:
            delays.print_line(name)


def main():
    options = parse_options()
    hosts.end_when_asked()
    try:
        reason = hosts.why_not()
        if reason == "":
            print_table(options)
    except hosts.Unavailable as wrong:
        reason = str(wrong).strip()
    if reason:
        sys.exit(f"wan_delays.py: {reason}")


if __name__ == "__main__":
    main()
