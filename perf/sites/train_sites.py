#!/usr/bin/env python3
"""Trains the network of examples/two_sites.cc over two emulated sites: loss over seconds, for each way that it knows.

    perf/sites/train_sites.py [--rate 50mbit] [--delay 40] [--loss 0.02] [--svg PICTURE] [--json FILE]

Each site is a host with a rank; what one sends comes to the other `--delay` milliseconds later, at no more than `--rate`.
A row for each way: seconds until the mean of the loss over `--mean` steps is at most `--loss`, the steps that took, the time of
a step, and what crossed the link one way. Needs what tests/hosts/hosts.py needs, and `--build` with the examples.
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import typing

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "perf"))
from chart import Chart  # noqa: E402

SHOWN = 10  # steps between two lines of the example
LINE = re.compile(r"^(.+?) +step +(\d+) +seconds +([\d.]+) +loss +(\S+) +bytes +(\d+)$", re.MULTILINE)


class Point(typing.NamedTuple):
    step: int
    seconds: float
    loss: float
    bytes: int


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--build", type=pathlib.Path, default=ROOT / "build")
    add("--rate", default="50mbit", help="of the link between the sites, as tc has it")
    add("--delay", type=float, default=40, help="one way, in milliseconds")
    add("--width", type=int, default=512, help="of the network: 512 are 534,529 parameters")
    add("--steps", type=int, default=720)
    add("--codec", default="int8_block", help="of the way that encodes gradients")
    add("--loss", type=float, default=0.02)
    add("--mean", type=int, default=40, help="steps")
    add("--timeout", type=float, default=3600, help="in seconds")
    add("--svg", type=pathlib.Path)
    add("--json", type=pathlib.Path, help="the points, to draw again from")
    add("--again", type=pathlib.Path, help="such a file: nothing is trained")
    return parser.parse_args()


def train(options):
    """What rank 0 says."""
    command = [sys.executable, ROOT / "tests" / "hosts" / "sites.py", "--sites", "2x1", "--wan-rate", options.rate,
               "--wan-delay", options.delay, "--timeout", options.timeout, "--",
               options.build / "bin" / "examples" / "two_sites", "--width", options.width, "--steps", options.steps,
               "--shown", SHOWN, "--wire", f"wan:{options.codec}"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"train_sites: {done.stdout}{done.stderr}")
    return done.stdout


def curves_of(said):
    """{way: points}, in the order in which they were trained."""
    curves = {}
    for way, step, seconds, loss, sent in LINE.findall(said):
        curves.setdefault(way, []).append(Point(int(step), float(seconds), float(loss), int(sent)))
    return curves


def smooth(points, mean):
    """Each loss is that of the last `mean` steps; points that have fewer before them are left out."""
    window = max(1, mean // SHOWN)
    return [point._replace(loss=statistics.fmean(one.loss for one in points[end - window:end]))
            for end, point in enumerate(points, start=1) if end >= window]


def row_of(way, points, loss):
    reached = next((point for point in points if point.loss <= loss), None)
    last = points[-1]
    took = f"{reached.seconds:.1f} s | {reached.step}" if reached else f"not in {last.seconds:.1f} s | more than {last.step}"
    return f"| {way} | {took} | {last.seconds / last.step * 1000:.0f} ms | {last.bytes / last.step / 1000:.1f} kB |"


def draw(options, curves):
    chart = Chart(f"Loss over seconds: two sites, {options.rate}, {options.delay:g} ms", "seconds", "loss", log_x=True)
    for way, points in curves.items():
        chart.add(way, [(point.seconds, point.loss) for point in points])
    chart.mark(options.loss, f"loss {options.loss:g}")
    options.svg.write_text(chart.svg(), encoding="utf-8")


def main():
    options = parse_options()
    if options.again is None:
        curves = curves_of(train(options))
    else:
        curves = {way: [Point(*point) for point in points]
                  for way, points in json.loads(options.again.read_text(encoding="utf-8")).items()}
    if options.json is not None:
        options.json.write_text(json.dumps(curves), encoding="utf-8")
    curves = {way: smooth(points, options.mean) for way, points in curves.items()}
    print(f"| | to a loss of {options.loss:g} | steps | a step | sent in a step |\n|---|---|---|---|---|")
    for way, points in curves.items():
        print(row_of(way, points, options.loss))
    if options.svg is not None:
        draw(options, curves)


if __name__ == "__main__":
    main()
