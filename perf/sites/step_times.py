#!/usr/bin/env python3
"""Draws the time of a training step over the bandwidth of the link between two sites, as the library predicts it.

    perf/sites/step_times.py --svg docs/pictures/step_times.svg [--parameters 25000000] [--step 300] [--latency 20]

Ways that exchange gradients in every step, exact and encoded, are simulated on a cluster of two ranks (`tutti sim`); those that
exchange parameters now and then are timelines (`tutti timeline outer`). Nothing is measured, so the picture is the same on
every machine.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "perf"))
from chart import Chart  # noqa: E402

MEGABITS = [first * 10 ** power for power in range(5) for first in (1, 3)] + [100_000]
STEPS = 400
# Name, and the options of `tutti timeline outer`.
OUTER = {
    "DiLoCo, fp32": ["--period", "100"],
    "DiLoCo, e3m0": ["--period", "100", "--codec", "e3m0:256"],
    "Streaming DiLoCo, e3m0": ["--period", "100", "--codec", "e3m0:256", "--fragments", "4", "--delay", "5"],
    "SparseLoCo": ["--period", "100", "--codec", "top_k:4096:64:2"],
}
WIRES = {"every step, fp32": "", "every step, int8_block": "wan:int8_block", "every step, e3m0": "wan:e3m0"}


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--build", type=pathlib.Path, default=ROOT / "build")
    add("--parameters", type=int, default=25_000_000)
    add("--step", type=float, default=300, help="what a step computes, in milliseconds")
    add("--latency", type=float, default=20, help="one way, in milliseconds")
    add("--svg", type=pathlib.Path, required=True)
    return parser.parse_args()


def said(options, *command):
    done = subprocess.run(list(map(str, [options.build / "bin" / "tutti", *command])), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"step_times: {done.stdout}{done.stderr}")
    return done.stdout


def simulated_s(options, folder, megabits, wire):
    """The step and its all_reduce, one behind the other."""
    cluster = folder / "cluster.json"
    cluster.write_text(json.dumps({
        "tutti_topology": 1,
        "levels": [{"name": "wan", "latency_us": options.latency * 1000, "port_Gbit_per_s": megabits / 1000},
                   {"name": "host", "latency_us": 1}],
        "tree": {"children": [{"name": site, "ranks": 1} for site in ("site1", "site2")]}}), encoding="utf-8")
    results = folder / "results.json"
    said(options, "sim", "all_reduce", "--topology", cluster, "-b", options.parameters * 4, "--json", results,
         *(["--wire", wire] if wire else []))
    cell = json.loads(results.read_text(encoding="utf-8"))["results"][0]["out_of_place"]
    return options.step / 1000 + float(cell["time"]) / 1e6


def timeline_s(options, megabits, words):
    """Of a step, in the mean over all."""
    nanoseconds = options.step * 1e6
    text = said(options, "timeline", "outer", "--ranks", 2, "--steps", STEPS, "--forward", round(nanoseconds / 3),
                "--backward", round(nanoseconds * 2 / 3), "--latency", round(options.latency * 1e6), "--megabits", megabits,
                "--parameters", options.parameters, *words)
    return float(re.search(r"tasks of \d+ ranks, ([\d.]+) ms", text)[1]) / 1000 / STEPS


def main():
    options = parse_options()
    chart = Chart(f"Time of a step: {options.parameters / 1e6:g} million parameters, {options.step:g} ms of work, "
                  f"{options.latency:g} ms between two sites", "Mb/s", "seconds", log_x=True, log_y=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, wire in WIRES.items():
            chart.add(name, [(rate, simulated_s(options, pathlib.Path(folder), rate, wire)) for rate in MEGABITS])
    for name, words in OUTER.items():
        chart.add(name, [(rate, timeline_s(options, rate, words)) for rate in MEGABITS])
    options.svg.write_text(chart.svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
