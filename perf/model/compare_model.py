#!/usr/bin/env python3
"""How good selection's model is on this host: predictions beside times, and what a better choice would have saved.

    perf/model/compare_model.py [--build build] [--rounds 5] > table

For each collective, size and number of ranks every algorithm that may run is measured (`tutti perf --algorithm`), in
rounds, so that a busy moment of the machine meets all of them; of each the median counts. The regret of a choice is
how much longer the algorithm takes that selection chose than the fastest one. Ranks of so many measure this host once,
in a cache of the comparison's own (docs/tuning.md); --measure off predicts by the library's own numbers.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from environment import clean_environment  # noqa: E402

COLLECTIVES = ("all_reduce", "all_gather", "broadcast", "all_to_all")
SIZES = ("1K", "16K", "128K", "1M", "8M", "32M")


VARIABLES = {}


def run(tutti, *arguments):
    done = subprocess.run([tutti, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False, env={**clean_environment(), **VARIABLES})
    if done.returncode != 0:
        sys.exit(f"compare_model.py: {' '.join(map(str, arguments))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def candidates(tutti, collective, ranks, size):
    """By name what is predicted, in microseconds, the best first."""
    text = run(tutti, "explain", collective, "--ranks", ranks, "-b", size, "-e", size)
    found = re.findall(r"^  ([\w:]+): predicted ([0-9.]+) us", text, re.MULTILINE)
    return {name: float(time) for name, time in found}


def measure(tutti, collective, ranks, size, algorithm, folder):
    results = pathlib.Path(folder) / "results.json"
    run(tutti, "perf", collective, "--ranks", ranks, "-b", size, "-e", size, "-n", 0, "-w", 2, "-c", 0, "-a", 3,
        "--algorithm", algorithm, "--json", results)
    return json.loads(results.read_text(encoding="utf-8"))["results"][0]["out_of_place"]["time"]


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--sizes", nargs="+", default=SIZES)
    parser.add_argument("--measure", choices=("host", "off"), default="host")
    options = parser.parse_args()
    tutti = options.build / "bin" / "tutti"
    errors, regrets = [], []
    print("| collective | ranks | bytes | chosen | predicted, us | measured, us | fastest | its time, us | regret, % |")
    print("|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        VARIABLES.update(TUTTI_CACHE=str(pathlib.Path(folder) / "cache"), TUTTI_MEASURE=options.measure)
        for collective in COLLECTIVES:
            for ranks in options.ranks:
                for size in options.sizes:
                    predicted = candidates(tutti, collective, ranks, size)
                    times = {name: [] for name in predicted}
                    for _ in range(options.rounds):
                        for name, of_rounds in times.items():
                            of_rounds.append(measure(tutti, collective, ranks, size, name, folder))
                    medians = {name: statistics.median(of_rounds) for name, of_rounds in times.items()}
                    errors += [abs(predicted[name] / medians[name] - 1) for name in medians]
                    chosen, fastest = next(iter(predicted)), min(medians, key=medians.get)
                    regrets.append(medians[chosen] / medians[fastest] - 1)
                    print(f"| {collective} | {ranks} | {size} | {chosen} | {predicted[chosen]:.1f} | "
                          f"{medians[chosen]:.1f} | {fastest} | {medians[fastest]:.1f} | {100 * regrets[-1]:.0f} |",
                          flush=True)
    for what, values in (("|predicted / measured - 1|", errors), ("regret", regrets)):
        print(f"\n{what} of {len(values)}: median {100 * statistics.median(values):.0f} %, "
              f"90th percentile {100 * percentile(values, 0.9):.0f} %")
    print(f"load of the machine at the end: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
