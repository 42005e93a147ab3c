#!/usr/bin/env python3
"""Tutti beside NCCL on the same GPU: the same loop, the same processes' number, turn by turn.

    python3 tools/gpu_check/beside_nccl.py --tutti libnccl.so.2 [--nccl PATH] [--ranks 2] [--short]

Of each library, and of each setting of Tutti's, two processes stay up; every case is asked of all of them in turn, so
what the machine does meanwhile hits all alike. NCCL takes two ranks on one GPU from 2.30 on, by
NCCL_MULTI_RANK_GPU_ENABLE=1, and wants a service such as MPS there, which the caller starts. The first table has
ratios, us of NCCL by us of Tutti: above 1 Tutti is the faster one. Exit status: 0, or 1 where Tutti failed; 77 where
there is no NCCL (the second table is printed all the same)."""

import argparse
import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
import time

FOLDER = os.path.dirname(os.path.abspath(__file__))
SIZES = [8, 1 << 10, 8 << 10, 64 << 10, 512 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20]
COLLECTIVES = ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv"]
# Of Tutti: what the columns are called, the ways of a call, the environment of the processes.
SETTINGS = [("default", ("eager", "captured", "eager+registered", "eager+in_place"), {}),
            ("copy engines alone", ("eager",), {"TUTTI_ENGINE": "copy_engine"}),
            ("256M of ring", ("eager",), {"TUTTI_DEVICE_RING_BYTES": "256M"}),
            ("1 hardware queue", ("eager",), {"CUDA_DEVICE_MAX_CONNECTIONS": "1"})]
NCCL_SETTINGS = {"NCCL_MULTI_RANK_GPU_ENABLE": "1", "NCCL_NVLS_ENABLE": "0", "NCCL_MAX_CTAS": "4"}
PATIENCE = 60  # seconds for a case


class Pair:
    """The processes of one library and setting."""

    def __init__(self, name, library, ranks, most, settings):
        self.name = name
        self.why = ""
        self.folder = tempfile.TemporaryDirectory()
        environment = dict(os.environ, **settings)
        command = [sys.executable, "-B", os.path.join(FOLDER, "nccl_rank.py"), "--library", library, "--ranks",
                   str(ranks), "--most", str(most), "--id", os.path.join(self.folder.name, "id")]
        self.log = tempfile.TemporaryFile("w+", errors="replace")
        self.children = [subprocess.Popen([*command, "--rank", str(rank)], env=environment, text=True,
                                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log)
                         for rank in range(ranks)]
        self.version = self.answers().get("version")

    def answers(self):
        """That of the first rank, once all have answered; one with "why" where they do not."""
        found = []
        for child in self.children:
            ready = select.select([child.stdout], [], [], PATIENCE)[0] if not self.why else []
            line = child.stdout.readline() if ready else ""
            if not line and not self.why:
                self.why = self.last_words() if ready else f"not over after {PATIENCE} s"
            found.append(json.loads(line) if line else {"why": self.why})
        return next((one for one in found if "why" in one), found[0])

    def last_words(self):
        self.log.seek(0)
        lines = self.log.read().strip().splitlines()
        return lines[-1] if lines else "it ended without a word"

    def ask(self, collective, size, way, calls):
        if self.why:
            return {"why": self.why}
        for child in self.children:
            with contextlib.suppress(BrokenPipeError):
                child.stdin.write(f"{collective} {size} {way} {calls}\n")
                child.stdin.flush()
        return self.answers()

    def end(self):
        for child in self.children:
            with contextlib.suppress(BrokenPipeError):
                child.stdin.close()
        for child in self.children:
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            child.stdout.close()
        self.log.close()
        self.folder.cleanup()


def text_of(answer, key="us"):
    return f"{answer[key]:.1f}" if key in answer else answer.get("why", "-")[:40]


def size_text(size):
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB" if size >= 1 << 10 else f"{size} B"


def measure(options):
    """By (collective, size): by column what was answered; the pairs that failed."""
    most = max(options.sizes)
    nccl = Pair("NCCL", options.nccl, options.ranks, most, NCCL_SETTINGS) if options.nccl else None
    pairs = [(Pair(name, options.tutti, options.ranks, most, settings), ways) for name, ways, settings in SETTINGS]
    print(f"NCCL: version {nccl.version or nccl.why}" if nccl else "NCCL: there is none here (--nccl)")
    print(f"Tutti: version {pairs[0][0].version or pairs[0][0].why} of NCCL's interface\n")
    found = {}
    for collective in COLLECTIVES:
        for size in options.sizes:
            calls = 50 if size <= 1 << 20 else 20 if size <= 16 << 20 else 5
            row = found.setdefault((collective, size), {})
            for way in ("eager", "captured"):
                if nccl:
                    row["NCCL", way] = nccl.ask(collective, size, way, 1 if options.short else calls)
            for pair, ways in pairs:
                for way in ways:
                    row[pair.name, way] = pair.ask(collective, size, way, 1 if options.short else calls)
    failed = [f"{pair.name}: {pair.why}" for pair, _ in pairs if pair.why]
    for pair in [nccl, *[one for one, _ in pairs]]:
        if pair:
            pair.end()
    return found, failed


def columns():
    return [(name, way) for name, ways, _ in SETTINGS for way in ways]


def title(column):
    name, way = column
    return way.replace("+", ", ") if name == "default" else f"{way}, {name}"


def print_ratios(found):
    print("us of NCCL by us of Tutti, above 1 Tutti is faster:\n")
    print("| collective | bytes | " + " | ".join(title(one) for one in columns()) + " |")
    print("|---|---|" + "---|" * len(columns()))
    for (collective, size), row in found.items():
        cells = []
        for column in columns():
            theirs = row.get(("NCCL", "captured" if "captured" in column[1] else "eager"), {})
            ours = row[column]
            both = "us" in theirs and "us" in ours
            cells.append(f"{theirs['us'] / ours['us']:.2f}" if both else "-")
        print(f"| {collective} | {size_text(size)} | " + " | ".join(cells) + " |")


def print_times(found):
    print("\nus of a call in a row; of its enqueueing, and of processor time, in a row of eager calls:\n")
    print("| collective | bytes | NCCL | NCCL captured | " + " | ".join(title(one) for one in columns()) +
          " | enqueue: NCCL, Tutti | processor: NCCL, Tutti |")
    print("|---|---|---|---|" + "---|" * (len(columns()) + 2))
    for (collective, size), row in found.items():
        theirs, ours = row.get(("NCCL", "eager"), {}), row["default", "eager"]
        cells = [text_of(theirs), text_of(row.get(("NCCL", "captured"), {}))]
        cells += [text_of(row[column]) for column in columns()]
        cells += [f"{text_of(theirs, key)}, {text_of(ours, key)}" for key in ("enqueue_us", "processor_us")]
        print(f"| {collective} | {size_text(size)} | " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutti", required=True, help="Tutti's libnccl.so.2")
    parser.add_argument("--nccl", help="NVIDIA's, 2.30 or newer")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--short", action="store_true", help="three sizes, one call of each: logic, no times")
    options = parser.parse_args()
    if options.nccl:
        SETTINGS.append(("engine nccl", ("eager", "captured"),
                         {"TUTTI_ENGINE": "nccl", "TUTTI_NCCL": options.nccl, **NCCL_SETTINGS}))
    options.sizes = [8, 64 << 10, 1 << 20] if options.short else SIZES
    found, failed = measure(options)
    if options.nccl:
        print_ratios(found)
    print_times(found)
    for one in failed:
        print(f"FAILED: {one}")
    if failed:
        return 1
    return 0 if options.nccl else 77


if __name__ == "__main__":
    sys.exit(main())
