#!/usr/bin/env python3
"""Draws results of `tutti perf --json`: time and bus bandwidth over size, one line per file and placement.

    plot_results.py RESULTS.json... --output PICTURE.png

Needs matplotlib (Debian: python3-matplotlib). `tutti perf --plot PICTURE` calls it.
"""

import argparse
import collections
import json
import os
import pathlib
import statistics
import sys

PLACEMENTS = (("out_of_place", "out of place", "-"), ("in_place", "in place", "--"))
SYSTEM_PYTHON = "/usr/bin/python3"
RETRIED = "PLOT_RESULTS_RETRIED"
TIMES = ("time", "cpu_time")  # the second with -C


def read_series(path):
    """[(label, line style, [(bytes, us, GB/s)])] of one file: by type, operation, root and placement."""
    report = json.loads(pathlib.Path(path).read_text())
    series = {}
    for line in report["results"]:
        for key, words, style in PLACEMENTS:
            cell = line[key]
            if cell is None:
                continue
            case = (line["type"], line["redop"], int(line["root"]))  # text, as in nccl-tests
            time = next(cell[name] for name in TIMES if name in cell)
            points = series.setdefault((case, words, style), {})
            points.setdefault(line["size"], []).append((time, cell["bus_bw"]))
    config = report["config"]  # nccl-tests' has neither name nor number
    collective = config.get("collective", pathlib.Path(path).stem)
    name = f"{collective}, {config.get('ranks', len(config['devices']))} ranks"
    return [(label(name, case, words, series), style, medians(points))
            for (case, words, style), points in series.items()]


def medians(points):
    """One point for each size, though -N measures it several times."""
    return [(size, *(statistics.median(column) for column in zip(*cells)))
            for size, cells in sorted(points.items())]


def label(name, case, words, series):
    cases = {case for case, _, _ in series}
    kind, operation, root = case
    parts = [kind, operation if operation != "none" else "", f"root {root}" if root >= 0 else ""]
    swept = " ".join(part for part in parts if part)
    return f"{name}, {words}" if len(cases) == 1 else f"{name}, {swept}, {words}"


def read_all(paths):
    """The series of all files. A label that several files have says which file each is of."""
    files = [(path, read_series(path)) for path in paths]
    times = collections.Counter(text for _, series in files for text, _, _ in series)
    names = collections.Counter(pathlib.Path(path).stem for path in paths)
    told = {path: pathlib.Path(path).stem if names[pathlib.Path(path).stem] == 1 else path
            for path in paths}
    return [(f"{told[path]}: {text}" if times[text] > 1 else text, style, points)
            for path, series in files for text, style, points in series]


def draw(series, output):
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot

    height = max(5, 0.2 * len(series))  # room for the legend
    figure, (times, rates) = pyplot.subplots(1, 2, figsize=(12, height), layout="constrained")
    for number, (text, style, points) in enumerate(series):
        sizes = [max(point[0], 1) for point in points]
        look = {"marker": "o", "label": text,
                "color": pyplot.get_cmap("turbo")((number + 0.5) / len(series))}
        times.plot(sizes, [point[1] for point in points], style, **look)
        rates.plot(sizes, [point[2] for point in points], style, **look)
    times.set(title="Time", ylabel="us", yscale="log")
    rates.set(title="Bus bandwidth", ylabel="GB/s")
    for axes in (times, rates):
        axes.set_xscale("log", base=2)
        axes.set_xlabel("bytes")
        axes.grid(True, which="both", alpha=0.3)
        axes.legend(fontsize="small")
    # With a format given, the name of the file stays what was asked for.
    figure.savefig(output, format=pathlib.Path(output).suffix[1:] or "png")


def has_matplotlib():
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="*", help="files of `tutti perf --json`")
    parser.add_argument("-o", "--output", default="perf.png", help=".png, .svg or .pdf (perf.png)")
    parser.add_argument("--check", action="store_true", help="only see whether drawing is possible")
    options = parser.parse_args()
    if not has_matplotlib():
        if not os.environ.get(RETRIED) and os.access(SYSTEM_PYTHON, os.X_OK):
            # Debian's package is for Debian's Python; the first one in PATH may be another.
            os.environ[RETRIED] = "1"
            os.execv(SYSTEM_PYTHON, [SYSTEM_PYTHON, *sys.argv])
        print("plot_results.py: drawing needs matplotlib: apt-get install python3-matplotlib",
              file=sys.stderr)
        return 1
    if options.check:
        return 0
    series = read_all(options.results)
    if not series:
        print("plot_results.py: there are no results to draw", file=sys.stderr)
        return 1
    try:
        draw(series, options.output)
    except (OSError, ValueError) as error:  # the place; a format that there is not
        print(f"plot_results.py: cannot write {options.output}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
