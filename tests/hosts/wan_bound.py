#!/usr/bin/env python3
"""A large all_reduce between two sites, beside what their link allows.

    tests/hosts/vm/rxe-vm --mem 3G --timeout 900 -- tests/hosts/wan_bound.py

Prints how many bytes of messages a call brought over the link in each direction, beside the least that any
algorithm can do with, and its time beside the bound: those bytes by the link's rate, and two one-way delays.
Bytes are the kernel's counters of two jobs, one of which makes more calls, without headers of packets and
of Tutti's frames. It needs what hosts.py needs, and netem. Exit status: 1 where more bytes crossed.
"""

import argparse
import json
import os
import pathlib
import sys

import hosts
import job
import sites

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATIENCE_S = 600
HEADERS = 14 + 20 + 32  # Ethernet, IPv4, TCP with time stamps: of each packet that is counted
FEW, MANY = 1, 3
# Frames have headers, and there are grants and notes; a copy of a message's part would be far more.
MOST_FRAMES = 0.005


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--build", type=pathlib.Path, default=pathlib.Path(os.environ.get("TEST_BINARY_DIR", ROOT / "build")))
    add("--sites", type=sites.parse_shape, default=[1, 1], metavar="SHAPE", help="two of them: 2x1")
    add("--wan", default="delay 20ms rate 50mbit", metavar="NETEM")
    add("--bytes", type=int, default=16 << 20)
    add("--algorithm", help="in place of the one that is chosen")
    return parser.parse_args()


def run(options, network, calls):
    """By site what left and what came, and the seconds of a call."""
    results = network.folder / "results.json"
    counts = [1] * len(network.hosts)
    before = network.uplinks()
    command = [options.build.resolve() / "bin" / "tutti", "perf", "all_reduce", "-b", options.bytes, "-e",
               options.bytes, "-n", calls, "-w", 0, "-c", 0, "-v", "--json", results]
    common = {"TUTTI_TOPOLOGY": network.describe(counts), "TUTTI_TIMEOUT": PATIENCE_S}
    if options.algorithm is not None:
        common["TUTTI_ALGORITHM"] = f"all_reduce:{options.algorithm}"
    for output, code in job.finish(job.Job(network, counts).start(command, common), PATIENCE_S):
        if code != 0:
            sys.exit(f"wan_bound.py: a rank failed:\n{output}")
    moved = [now - then for now, then in zip(network.uplinks(), before)]
    row, = json.loads(results.read_text(encoding="utf-8"))["results"]
    times = [float(row[form]["time"]) / 1e6 for form in ("out_of_place", "in_place")]
    return moved, min(times), row["algorithm"]


def compare(options):
    """Whether no more than the least crossed."""
    with sites.Sites(options.sites, wan=options.wan) as network:
        few, _, _ = run(options, network, FEW)
        many, seconds, algorithm = run(options, network, MANY)
    calls = 2 * (MANY - FEW)  # out of place and in place
    good = True
    print(f"# all_reduce of {options.bytes} bytes by {algorithm}, two sites, {options.wan}")
    for number, (more, less) in enumerate(zip(many, few), start=1):
        for way, side in (("left", (more - less).sent), ("came to", (more - less).received)):
            carried = (side.bytes - HEADERS * side.packets) / calls
            frames = carried - options.bytes
            good = good and 0 <= frames <= MOST_FRAMES * options.bytes
            print(f"  {carried:.0f} bytes {way} site {number}: the least is {options.bytes}, "
                  f"{frames:.0f} ({frames / options.bytes:.2%}) are frames, grants and notes")
    rate = sites.rate_gbit(options.wan) * 1e9 / 8
    bound = options.bytes / rate + 2 * sites.delay_us(options.wan) / 1e6
    print(f"  {seconds:.3f} s a call, the bound is {bound:.3f} s: {seconds / bound:.2f} of it (goal 1.15)")
    return good


def main():
    options = parse_options()
    hosts.end_when_asked()
    if len(options.sites) != 2 or not sites.rate_gbit(options.wan) or not sites.delay_us(options.wan):
        sys.exit("wan_bound.py: two sites, and a link with a delay and a rate")
    try:
        reason = hosts.why_not()
        if reason == "":
            return 0 if compare(options) else 1
    except hosts.Unavailable as wrong:
        reason = str(wrong).strip()
    sys.exit(f"wan_bound.py: {reason}")


if __name__ == "__main__":
    sys.exit(main())
