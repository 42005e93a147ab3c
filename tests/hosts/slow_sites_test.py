#!/usr/bin/env python3
"""Collectives over sites of emulated hosts: their results, and what the sites' links carry."""

import fractions
import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

import hosts
import sites
from job import Job, finish

SKIPPED = 77
BINARIES = pathlib.Path(os.environ.get("TEST_BINARY_DIR", "build")).resolve() / "bin"
TUTTI = BINARIES / "tutti"
PATIENCE_S = 300
HEADERS = 14 + 20 + 32  # Ethernet, IPv4, TCP with time stamps: of each packet that is counted
LOOPING = BINARIES / "tests" / "looping"
FAILED = 3  # the exit status of `looping` when a call failed


@functools.cache
def algorithms():
    """(collective, name) of all that are registered."""
    listed = subprocess.run([TUTTI, "algorithms"], check=True, capture_output=True, text=True)
    return re.findall(r"^(\w+) (\w+)\n  what:", listed.stdout, re.MULTILINE)


class Loads:
    """What one call brings over the link of each site: pairs of what leaves and what comes, in
    units of one count. Declared by the algorithm, or else counted from its schedules."""

    def __init__(self, collective, name, cluster, root=0):
        command = [TUTTI, "print", f"{collective}/{name}", "--topology", cluster, "--loads", "--root",
                   str(root)]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        self.are_declared = "declared" in text.splitlines()[0]
        self.of_sites = [(fractions.Fraction(out), fractions.Fraction(into)) for out, into in
                         re.findall(r"^  site \d+: out (\S+), in (\S+)$", text, re.MULTILINE)]


class OnSites(unittest.TestCase):
    def emulate(self, shape, counts):
        network = self.enterContext(sites.Sites(shape))
        self.cluster = network.describe(counts)
        self.job = Job(network, counts)
        return network

    def perf(self, collective, *flags, forced=None):
        """What rank 0 said. `forced`: a value of TUTTI_ALGORITHM."""
        common = {"TUTTI_TOPOLOGY": self.cluster, "TUTTI_TIMEOUT": PATIENCE_S / 2}
        if forced is not None:
            common["TUTTI_ALGORITHM"] = forced
        done = finish(self.job.start([TUTTI, "perf", collective, *flags], common), PATIENCE_S)
        for output, code in done:
            self.assertEqual(code, 0, output)
        return done[0][0]

    def of_levels(self):
        """(collective, name) of those that declare what crosses the cuts of a cluster."""
        found = [one for one in algorithms() if Loads(*one, self.cluster).are_declared]
        self.assertLessEqual({"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"},
                             {collective for collective, _ in found})
        return found


class Results(OnSites):
    """tutti perf compares every element with the right one."""

    SIZES = ("--bytes-list", "8,4K,100000,1M,9000000", "-n", "2", "-w", "1")

    def check(self, shape, counts):
        self.emulate(shape, counts)
        last = sum(counts) - 1
        forced = self.of_levels()
        chosen = [(collective, None) for collective in {collective for collective, _ in algorithms()}]
        for collective, name in [*forced, *sorted(chosen)]:
            with self.subTest(collective=collective, algorithm=name):
                sizes = ("-n", "2") if collective == "barrier" else self.SIZES
                forced = f"{collective}:{name}" if name else None
                said = self.perf(collective, *sizes, "-r", last, "-v", forced=forced)
                self.assertIn("# Out of bounds values : 0 OK", said)
                if name is not None:
                    self.assertRegex(said, rf" {name} ")

    def test_two_sites_of_three_hosts(self):
        self.check([3, 3], [2] * 6)

    def test_three_sites_with_uneven_hosts_and_ranks(self):
        self.check([3, 2, 1], [1, 2, 1, 3, 1, 2])

    def test_a_fixed_order_of_reduction(self):
        self.emulate([3, 2, 1], [1, 2, 1, 3, 1, 2])
        for collective in ("all_reduce", "reduce_scatter", "reduce"):
            said = self.perf(collective, *self.SIZES, "--deterministic")
            self.assertIn("# Out of bounds values : 0 OK", said)

    def test_counts_of_each_rank(self):
        self.emulate([3, 2, 1], [1, 2, 1, 3, 1, 2])
        for plain in ("all_gather", "reduce_scatter", "all_to_all"):
            for name in [None, *(name for of, name in self.of_levels() if of == plain)]:
                with self.subTest(collective=plain, algorithm=name):
                    forced = f"{plain}:{name}" if name else None
                    said = self.perf(f"{plain}_v", "--bytes-list", "8,4K,1M", "-n", "2", "-v",
                                     forced=forced)
                    self.assertIn("# Out of bounds values : 0 OK", said)
                    self.assertRegex(said, rf" {name} " if name else "tcp")


class Traffic(OnSites):
    """The kernel's counters of each site's link, of many calls less few: what is left is calls."""

    BYTES = 3 << 20  # of the larger buffer, divisible by all numbers of ranks here
    FEW, MANY = 1, 5

    def carried(self, network, collective, name, root):
        """By site: bytes in TCP's streams that left it and that came, of one call."""
        moved = []
        results = network.folder / "results.json"
        for iterations in (self.FEW, self.MANY):
            before = network.uplinks()
            self.perf(collective, "-b", self.BYTES, "-e", self.BYTES, "-n", iterations, "-w", "0",
                      "-c", "0", "-r", root, "--json", results, forced=f"{collective}:{name}")
            moved.append([now - then for now, then in zip(network.uplinks(), before)])
        row, = json.loads(results.read_text(encoding="utf-8"))["results"]
        forms = [row[form] for form in ("out_of_place", "in_place")]
        calls = (self.MANY - self.FEW) * sum(form is not None for form in forms)
        few, many = moved
        return [[(side.bytes - HEADERS * side.packets) / calls for side in (more.sent, more.received)]
                for more in (b - a for a, b in zip(few, many))]

    def compare(self, counts, loads, measured, collective):
        """What differs. A packet's headers are not in `measured`; those of Tutti's frames are."""
        parts = {"all_gather": sum(counts), "reduce_scatter": sum(counts), "all_to_all": sum(counts)}
        count = 0 if collective == "barrier" else self.BYTES // parts.get(collective, 1)
        wrong = []
        for number, (declared, found) in enumerate(zip(loads.of_sites, measured, strict=True)):
            for way, load, seen in zip(("left", "came to"), declared, found):
                expected = float(load * count)
                line = f"{seen:.0f} bytes {way} site {number}, {load} of {count} are {expected:.0f}"
                print(f"  {line}")
                if not expected * 0.999 - 1024 < seen < expected * 1.01 + 8192:
                    wrong.append(line)
        return wrong

    def assert_carried(self, shape, counts, root):
        network = self.emulate(shape, counts)
        for collective, name in self.of_levels():
            with self.subTest(collective=collective, algorithm=name):
                print(f"{collective}/{name}:")
                measured = self.carried(network, collective, name, root)
                loads = Loads(collective, name, self.cluster, root)
                self.assertEqual(self.compare(counts, loads, measured, collective), [])

    def test_two_sites_of_three_hosts(self):
        self.assert_carried([3, 3], [2] * 6, root=5)

    def test_three_sites_with_uneven_hosts_and_ranks(self):
        self.assert_carried([3, 2, 1], [1, 2, 1, 3, 1, 2], root=4)

    def test_a_flat_ring_carries_its_own_loads_and_not_those_of_levels(self):
        counts = [2] * 6
        network = self.emulate([3, 3], counts)
        measured = self.carried(network, "all_reduce", "ring", 0)
        own = Loads("all_reduce", "ring", self.cluster)
        self.assertFalse(own.are_declared)
        self.assertEqual(self.compare(counts, own, measured, "all_reduce"), [])
        less = Loads("all_reduce", "hierarchical", self.cluster)
        self.assertEqual(len(self.compare(counts, less, measured, "all_reduce")), 4)


class Delays(OnSites):
    """By a switch that holds frames: no call can be faster than light, and none is damaged on the way."""

    DELAY_MS = 15

    def test_calls_take_a_delay_at_least(self):
        network = self.enterContext(sites.Sites([2, 1], wan_rate="200mbit", wan_delay_ms=self.DELAY_MS))
        counts = [1, 2, 1]
        self.cluster = network.describe(counts)
        self.job = Job(network, counts)
        results = network.folder / "results.json"
        said = self.perf("all_reduce", "--bytes-list", "8,1M", "-n", "2", "-w", "1", "--json", results)
        self.assertIn("# Out of bounds values : 0 OK", said)
        rows = json.loads(results.read_text(encoding="utf-8"))["results"]
        self.assertEqual(len(rows), 2)
        for row in rows:
            self.assertGreaterEqual(float(row["out_of_place"]["time"]), self.DELAY_MS * 1000)
        levels = json.loads(pathlib.Path(self.cluster).read_text(encoding="utf-8"))["levels"]
        self.assertEqual(levels[0]["latency_us"], self.DELAY_MS * 1000)


class Failures(OnSites):
    def test_a_site_that_is_cut_off_is_named(self):
        counts = [1, 2, 1, 2, 1]
        network = self.emulate([3, 2], counts)
        processes = self.job.start([LOOPING], {
            "TUTTI_TOPOLOGY": self.cluster, "TUTTI_ALGORITHM": "all_reduce:hierarchical",
            "TUTTI_KEEPALIVE": "2", "TUTTI_LOG": "off"})
        for process in processes:
            self.assertEqual(process.stdout.readline(), "ready\n")
        network.cut_off(network.sites[1])
        here = sum(counts[:3])
        for rank, (output, code) in enumerate(finish(processes, PATIENCE_S)):
            self.assertEqual(code, FAILED, output)
            lost = range(here, sum(counts)) if rank < here else range(here)
            self.assertRegex(output, rf"rank [{''.join(map(str, lost))}]\b")


if __name__ == "__main__":
    reason = "" if TUTTI.exists() else f"{TUTTI} is not built"
    reason = reason or hosts.why_not()
    if reason:
        print(reason)
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)  # names what is skipped, and why
