#!/usr/bin/env python3
"""Times all_reduce between two emulated hosts, exact and with messages that are encoded, by turns.

    perf/sites/wire_speed.py [--rate 1gbit] [--bytes 64M] [--codec int8_block] [--rounds 3]

Each host is a site of one, so that the cluster file's level "wan" joins them. Prints the time of each round, the ratio
of the medians, and whether the library would have encoded by itself. Needs what tests/hosts/hosts.py needs.
"""

import argparse
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATIENCE_S = 600


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--build", type=pathlib.Path, default=ROOT / "build")
    add("--rate", default="1gbit", help="of the hosts' links, as tc has it")
    add("--bytes", default="64M")
    add("--codec", default="int8_block")
    add("--collective", default="all_reduce")
    add("--rounds", type=int, default=3)
    return parser.parse_args()


def run(options, wire, *command):
    """What rank 0 says."""
    sites = [sys.executable, ROOT / "tests" / "hosts" / "sites.py", "--sites", "2x1", "--host-rate", options.rate,
             "--wan-rate", options.rate, "--env", f"TUTTI_WIRE={wire}"]
    done = subprocess.run([*sites, "--", options.build / "bin" / "tutti", *command], capture_output=True, text=True,
                          timeout=PATIENCE_S)
    if done.returncode != 0:
        sys.exit(f"wire_speed: {done.stdout}{done.stderr}")
    return done.stdout


def time_of(options, wire):
    """Milliseconds of a call."""
    said = run(options, wire, "perf", options.collective, "-b", options.bytes, "-e", options.bytes, "-w", "1", "-n", "3",
               "-c", "0")
    for line in said.splitlines():
        numbers = line.split()
        if re.fullmatch(r"\d+", numbers[0] if numbers else "") and len(numbers) > 6:
            return float(numbers[5]) / 1000
    sys.exit(f"wire_speed: no time in: {said}")


def main():
    options = parse_options()
    wires = {"exact": "", options.codec: f"always,wan:{options.codec}"}
    times = {name: [] for name in wires}
    for number in range(options.rounds):
        for name, wire in wires.items():
            times[name].append(time_of(options, wire))
            print(f"round {number + 1}, {name}: {times[name][-1]:.1f} ms", flush=True)
    exact, encoded = (statistics.median(of) for of in times.values())
    print(f"{options.collective} of {options.bytes} at {options.rate}: {exact:.1f} ms exact, {encoded:.1f} ms encoded by "
          f"{options.codec}: {exact / encoded:.2f} times as fast")
    said = run(options, f"wan:{options.codec}", "explain", options.collective, "-b", options.bytes, "-e", options.bytes)
    chosen = said.splitlines()[0] if said else ""
    print(f"without 'always' the library takes {'the codec' if ', encoded' in chosen else 'none'}: {chosen}")


if __name__ == "__main__":
    main()
