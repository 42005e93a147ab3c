#!/usr/bin/env python3
"""Selection's prices beside the simulator: how far off the predictions of all algorithms are.

    perf/sim/compare_prices.py [--tutti build/bin/tutti] [--sizes 64K,1M,16M] [TOPOLOGY...]

For each cluster file, collective and size it runs `tutti explain --topology`, and takes the factor
between both times, the larger over the smaller. Prints tables in Markdown: the median and the worst
factor by cluster and by collective, and the ten worst of all. Algorithms that the simulator leaves
out, since that would take long, are counted and left out.
"""
import argparse
import pathlib
import re
import statistics
import subprocess
import sys
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")
LINE = re.compile(r"^  (\S+) +(\d+\.\d+) (?: *(\d+\.\d+))?")


class Price(NamedTuple):
    """One algorithm's times in microseconds."""
    cluster: str
    collective: str
    size: str
    algorithm: str
    predicted: float
    simulated: float

    @property
    def factor(self):
        """By which one of both is larger."""
        low, high = sorted((self.predicted, self.simulated))
        return high / low if low > 0 else float("inf")


def prices_in(text, cluster, collective, size):
    """The prices in the output of `tutti explain`, and how many algorithms were not simulated."""
    prices, left_out = [], 0
    for line in text.splitlines():
        found = LINE.match(line)
        if not found:
            continue
        if found[3] is None:
            left_out += 1
            continue
        prices.append(
            Price(cluster, collective, size, found[1], float(found[2]), float(found[3])))
    return prices, left_out


def explain(tutti, topology, collective, size):
    """What `tutti explain` says of one cluster, collective and size."""
    command = [tutti, "explain", collective, "--topology", str(topology), "-b", size]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return prices_in(done.stdout, topology.stem, collective, size)


def table(prices, name, key):
    """The factors of groups of prices as lines of Markdown."""
    lines = [f"| {name} | algorithms | median factor | worst |", "|---|---|---|---|"]
    for value in dict.fromkeys(key(price) for price in prices):
        factors = [price.factor for price in prices if key(price) == value]
        median = statistics.median(factors)
        lines.append(f"| {value} | {len(factors)} | {median:.2f} | {max(factors):.2f} |")
    return lines


def report(prices, left_out):
    """All tables."""
    lines = table(prices, "cluster", lambda price: price.cluster) + [""]
    lines += table(prices, "collective", lambda price: price.collective) + [""]
    lines += table(prices, "all", lambda price: "together") + [""]
    lines += ["| the worst | predicted, us | simulated, us | factor |", "|---|---|---|---|"]
    for price in sorted(prices, key=lambda price: -price.factor)[:10]:
        name = f"{price.cluster}: {price.collective}/{price.algorithm} of {price.size}"
        lines.append(
            f"| {name} | {price.predicted:.2f} | {price.simulated:.2f} | {price.factor:.2f} |")
    return "\n".join(lines + ["", f"Not simulated: {left_out}."])


def main():
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("topologies", nargs="*", type=pathlib.Path, metavar="TOPOLOGY",
                        help="cluster files; default: those of docs/topologies")
    parser.add_argument("--tutti", default=str(ROOT / "build/bin/tutti"))
    parser.add_argument("--sizes", default="64K,1M,16M")
    options = parser.parse_args()
    topologies = options.topologies or sorted((ROOT / "docs/topologies").glob("*.json"))
    prices, left_out = [], 0
    for topology in topologies:
        for collective in COLLECTIVES:
            for size in options.sizes.split(","):
                more, fewer = explain(options.tutti, topology, collective, size)
                prices += more
                left_out += fewer
    print(report(prices, left_out))


if __name__ == "__main__":
    main()
