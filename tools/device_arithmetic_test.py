#!/usr/bin/env python3
"""Tests of tools/device-arithmetic: the page in docs/measurements is what it makes of this build's counts; every term
has a source; a dearer term makes no call faster, and each is used."""

import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys
import unittest

TOOLS = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("TEST_BINARY_DIR", "build")
PAGE = os.path.join(os.path.dirname(TOOLS), "docs", "measurements", "gpu_arithmetic.md")
COUNTS = os.path.join(os.path.dirname(TOOLS), "tests", "device", "counts_of_8_ranks.txt")
SCRIPT = os.path.join(TOOLS, "device-arithmetic")
SOURCES = ("board page", "public: ", "assumed")
NOT_OF_NVLINK = ("hand_over_us", "bus_us_per_mb", "nodes_us_per_mb")  # of the choice of algorithms alone


def script():
    loader = importlib.machinery.SourceFileLoader("device_arithmetic", SCRIPT)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("device_arithmetic", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


class DeviceArithmetic(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.script = script()
        with open(COUNTS, encoding="utf-8") as file:
            cls.counts = cls.script.read_counts(file.read())
        with open(cls.script.TERMS, encoding="utf-8") as file:
            cls.costs = json.load(file)["devices"]["terms"]
        with open(cls.script.NCCL, encoding="utf-8") as file:
            cls.figures = json.load(file)

    def test_the_page_is_that_of_this_build(self):
        done = subprocess.run([sys.executable, "-B", SCRIPT, "--counts", COUNTS], capture_output=True, text=True,
                              timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(PAGE, encoding="utf-8") as file:
            self.assertEqual(done.stdout, file.read(), "make it again: tools/device-arithmetic --counts "
                             "tests/device/counts_of_8_ranks.txt --out docs/measurements/gpu_arithmetic.md")

    def test_all_calls_are_there(self):
        for collective in ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast"):
            for size in (8 << 10, 1 << 20, 16 << 20, 1 << 30):
                for way in ("eager", "captured"):
                    self.assertIn((collective, size, way), self.counts)

    def test_all_reduces_that_a_switch_folds_are_there(self):
        for size in (8 << 10, 1 << 20, 16 << 20, 1 << 30):
            for way, without in (("multicast", "eager"), ("multicast in a graph", "captured")):
                one = self.counts["all_reduce", size, way]
                self.assertEqual(one["multicasts"], one["kernels"])
                self.assertEqual(one["shared"], size // 8)
                self.assertEqual((one["crossing"], one["fetched"], one["folded"]), (0, 0, 0))
                self.assertEqual(self.counts["all_reduce", size, without]["shared"], 0)

    def test_the_switch_carries_a_part_more_than_the_data(self):
        terms = dict.fromkeys((term["name"] for term in self.costs), 0)
        one = self.counts["all_reduce", 1 << 30, "multicast"]
        carried = self.script.device_us(one, dict(terms, multicast_us_per_mb=1))
        self.assertAlmostEqual(carried, (1 + 1 / one["slices"]) * 1.125 * (1 << 30) / 1e6)

    def test_goals_are_met_or_missed_by_the_terms(self):
        terms = {term["name"]: term["value"] for term in [*self.costs, *self.figures]}
        texts = ["\n".join(self.script.goal_lines(self.counts, dict(terms, **more)))
                 for more in ({}, {"local_us_per_mb": 100}, dict.fromkeys(("wait_us", "write_us", "copy_us"), 0))]
        self.assertIn("| all_reduce | 1 GiB | 0.8 | multicast: 0.95, met |", texts[0])
        self.assertIn("| all_reduce | 16 MiB | 0.9 | multicast: 0.81, missed | registered: 1.05, met |", texts[0])
        self.assertNotIn("met |", texts[1].split("1 GiB")[1].split("registered")[0])
        self.assertNotIn("missed", texts[2])

    def test_every_term_has_a_source(self):
        for term in [*self.costs, *self.figures]:
            self.assertTrue(term["source"].startswith(SOURCES), term)
            self.assertTrue(term["what"])

    def test_each_term_makes_some_call_dearer_and_none_cheaper(self):
        terms = {term["name"]: term["value"] for term in self.costs}
        before = {row: self.script.call_us(one, row[2], terms) for row, one in self.counts.items()}
        for name in set(terms) - set(NOT_OF_NVLINK):
            with self.subTest(name):
                host = {row: self.script.host_us(one, row[2], terms) + self.script.device_us(one, terms)
                        for row, one in self.counts.items()}
                changed = dict(terms, **{name: 2 * terms[name]})
                after = {row: self.script.call_us(one, row[2], changed) for row, one in self.counts.items()}
                both = {row: self.script.host_us(one, row[2], changed) + self.script.device_us(one, changed)
                        for row, one in self.counts.items()}
                self.assertTrue(all(after[row] >= before[row] for row in before))
                self.assertTrue(any(both[row] > host[row] for row in host))

    def test_a_text_without_counts_is_an_error(self):
        done = subprocess.run([sys.executable, "-B", SCRIPT, "--counts", __file__], capture_output=True, text=True,
                              timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no counts", done.stderr)


if __name__ == "__main__":
    sys.exit(unittest.main())
