#!/usr/bin/env python3
"""The examples train to the same bits on any number of ranks; `tutti timeline` says what would run."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

BIN = os.path.join(os.environ.get("TEST_BINARY_DIR", ""), "bin")


def run(*command, status=0):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != status:
        raise AssertionError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done


def example(name, *arguments, status=0):
    return run(os.path.join(BIN, "examples", name), *arguments, status=status)


def tour_of_streams(**variables):
    """On the software device, which is a driver of CUDA without a board."""
    environment = dict(os.environ, LD_LIBRARY_PATH=os.path.join(os.path.dirname(BIN), "lib", "software_device"),
                       **variables)
    done = subprocess.run([os.path.join(BIN, "examples", "tour_stream"), "--ranks", "2"], env=environment,
                          capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stdout.splitlines(), done.stderr


def timeline(*arguments, status=0):
    return run(os.path.join(BIN, "tutti"), "timeline", *arguments, status=status)


def generators():
    """The names that the usage of `tutti timeline` lists."""
    lines = timeline("--help").stdout.splitlines()
    return [line.split()[0] for line in lines if line.startswith("  ")]


class Tours(unittest.TestCase):
    """The programs that docs/internals/tour.md quotes say what the page says of them."""

    def test_a_small_call_is_compiled_and_a_long_one_has_slices(self):
        small, long = example("tour_host", "--ranks", "2").stdout.splitlines()
        self.assertIn("4 bytes: 3,", small)
        self.assertIn("superinstructions", small)
        self.assertIn("4 MiB: 3,", long)
        self.assertRegex(long, r"\b\d+ slices\b")

    def test_calls_on_both_kinds_of_streams(self):
        status, lines, errors = tour_of_streams()
        self.assertEqual((status, lines), (0, ["HOST stream: 3", "CUDA stream: 3"]), errors)
        self.assertNotIn("goes by the host", errors)

    def test_without_a_device_the_tour_says_so(self):
        status, lines, errors = tour_of_streams(SOFTDEV_DEVICES="0")
        self.assertEqual((status, lines[1]), (0, "CUDA stream: none, there is no device"), errors)


class Examples(unittest.TestCase):
    def test_losses_are_those_of_one_process_to_the_bit(self):
        expected = example("data_parallel", "--ranks", "1").stdout
        losses = [float(line.split()[3]) for line in expected.splitlines()]
        self.assertEqual(len(losses), 60)
        self.assertLess(sum(losses[-10:]), sum(losses[:10]) / 1.5, "it does not learn")
        for name in ("data_parallel", "ragged_fsdp"):
            for ranks in ("1", "2", "4", "8"):
                with self.subTest(name, ranks=ranks):
                    self.assertEqual(example(name, "--ranks", ranks).stdout, expected)

    def test_wrong_arguments_are_refused(self):
        self.assertIn("give 1, 2, 4 or 8", example("data_parallel", "--ranks", "3", status=2).stderr)
        self.assertIn("usage", example("ragged_fsdp", "nonsense", status=2).stderr)

    def test_two_sites_learn_the_same_with_fewer_bytes(self):
        rows = {}
        for line in example("two_sites", "--ranks", "4").stdout.splitlines():
            words = line.split()
            way = " ".join(words[:words.index("step", 2 if words[0] == "every" else 0)])
            rows.setdefault(way, []).append((float(words[-3]), int(words[-1])))
        self.assertEqual(list(rows), ["every step", "DiLoCo", "Streaming DiLoCo", "SparseLoCo"])
        dense_loss, dense_bytes = rows["every step"][-1]
        parameters = 9473
        self.assertEqual(dense_bytes, 240 * parameters * 4)
        for way, (loss, sent) in ((way, all_rows[-1]) for way, all_rows in rows.items()):
            with self.subTest(way):
                self.assertLess(loss, rows[way][0][0] / 1.4, "it does not learn")
                self.assertLess(loss, dense_loss * 1.2, "it learns less")
        # Exchanges every 20 steps: of fp32, of half a byte a parameter, of 64 of 1024 values in 14 bits.
        self.assertAlmostEqual(dense_bytes / rows["DiLoCo"][-1][1], 20, delta=0.1)
        self.assertAlmostEqual(dense_bytes / rows["Streaming DiLoCo"][-1][1], 20 * 8, delta=5)
        self.assertGreater(dense_bytes / rows["SparseLoCo"][-1][1], 20 * 32)
        self.assertIn("two sites need 2, 4 or 8 ranks", example("two_sites", "--ranks", "1", status=1).stderr)

    def test_two_sites_have_options(self):
        said = example("two_sites", "--ranks", "2", "--width", "32", "--steps", "20", "--shown", "20", "--rate", "0.01",
                       "--wire", "network:int8_block").stdout
        ways = ["every step", "every step, encoded", "DiLoCo", "Streaming DiLoCo", "SparseLoCo"]
        self.assertEqual([re.split(r" +step +\d+ ", line)[0] for line in said.splitlines()], ways)
        exact, encoded = (int(line.split()[-1]) for line in said.splitlines()[:2])
        parameters = 16 * 32 + 32 + 2 * (32 * 32 + 32) + 32 + 1
        self.assertEqual(exact, 20 * parameters * 4)
        self.assertAlmostEqual(encoded / exact, 0.254, delta=0.001)
        for wrong, words in ((["--width", "0"], "--width 0: give a number above 0"), (["--steps", "many"], "--steps many"),
                             (["--colour", "red"], "there is no option --colour"), (["--rate"], "--rate has no value")):
            self.assertIn(words, example("two_sites", *wrong, status=2).stderr)

    def test_a_killed_rank_changes_no_bit_of_an_elastic_training(self):
        def rows(*arguments):
            return [line.split() for line in example("elastic", *arguments).stdout.splitlines()]
        steady, killed = rows("--steady"), rows()
        self.assertEqual([row[:5] for row in killed], [row[:5] for row in steady])
        self.assertEqual(len(killed), 60)
        self.assertEqual([row[-1] for row in steady], ["4"] * 60)
        ranks = "".join(row[-1] for row in killed)
        self.assertRegex(ranks, "^4{15}3{16,}4+$")
        self.assertIn("usage", example("elastic", "nonsense", status=2).stderr)

    def test_of_two_replicas_one_goes_on(self):
        rows = [line.split() for line in example("hybrid_sharded").stdout.splitlines()]
        self.assertEqual([int(row[1]) for row in rows], list(range(60)))
        self.assertEqual([row[5] for row in rows], ["2"] * 20 + ["1"] * 40)

    def test_the_overlap_is_drawn(self):
        done = example("overlap", "--ranks", "2")
        self.assertEqual(done.stderr.count("simulated"), 2)
        self.assertEqual(done.stderr.count("measured"), 2)
        xml.etree.ElementTree.fromstring(done.stdout)


class Timeline(unittest.TestCase):
    def test_a_pipeline_takes_what_the_formula_says(self):
        said = timeline("pipeline", "--latency", "0", "--message", "0", "--activations", "1").stdout
        self.assertIn("33.000 ms", said)
        self.assertEqual([line.split()[-1] for line in said.splitlines()[2:]], ["4", "3", "2", "1"])
        said = timeline("pipeline", "--latency", "0", "--message", "0", "--chunks", "2").stdout
        self.assertIn("28.500 ms", said)

    def test_pictures_can_be_read(self):
        with tempfile.TemporaryDirectory() as folder:
            svg, trace = os.path.join(folder, "a.svg"), os.path.join(folder, "a.json")
            for what in generators():
                timeline(what, "--svg", svg, "--perfetto", trace)
                xml.etree.ElementTree.parse(svg)
                with open(trace, encoding="utf-8") as file:
                    self.assertGreater(len(json.load(file)["traceEvents"]), 20)
            self.assertIn("could not be written", timeline("ddp", "--svg", "/nowhere/a", status=1).stderr)

    def test_overlap_and_prefetch_shorten_what_is_exposed(self):
        def whole(*arguments):
            return float(timeline(*arguments).stdout.split(" ms")[0].split()[-1])
        self.assertLess(whole("ddp"), whole("ddp", "--no-overlap"))
        self.assertLess(whole("fsdp"), whole("fsdp", "--prefetch", "0"))
        ranks = ("ring", "--ranks", "8", "--nodes", "2", "--block", "33554432")
        self.assertLess(whole(*ranks), whole(*ranks, "--flat"))

    def test_fewer_bytes_and_a_delay_hide_exchanges(self):
        def said(*arguments):
            return timeline("outer", "--parameters", "1000000", "--forward", "100000000", *arguments).stdout
        plain = said("--ranks", "2")
        self.assertIn("an exchange of 4000000 bytes takes 640.", plain)
        streamed = said("--ranks", "2", "--fragments", "2", "--delay", "1", "--codec", "e3m0:256")
        self.assertIn("an exchange of 251954 bytes takes 40.", streamed)
        self.assertIn("100.00% of the time is computed", streamed)
        self.assertIn("no codec 'e9'", timeline("outer", "--codec", "e9", status=2).stderr)
        self.assertIn("do not divide", timeline("outer", "--fragments", "3", status=2).stderr)

    def test_what_cannot_be_is_refused(self):
        self.assertIn("give 1 or more", timeline("pipeline", "--micro-batches", "0", status=2).stderr)
        self.assertIn("a last group of 2", timeline("pipeline", "--chunks", "2", "--group", "6", status=2).stderr)
        self.assertIn("grain 128", timeline("context", "--block", "100", status=2).stderr)
        self.assertIn("8192,4096", timeline("context", "--help").stdout)
        self.assertIn("not a multiple of 3", timeline("ring", "--nodes", "3", status=2).stderr)
        for what in ("pipeline", "context", "nano", "chunked", "gnn", "two_level_ring"):
            self.assertIn(what, generators())
        self.assertIn("usage", timeline("nonsense", status=2).stderr)
        limited = timeline("pipeline", "--memory", "100", status=1)
        self.assertIn("rule 6: rank 0 may need 4194304 bytes", limited.stderr)


if __name__ == "__main__":
    if not os.path.exists(os.path.join(BIN, "examples", "data_parallel")):
        print("TEST_BINARY_DIR does not name a build with examples")
        sys.exit(77)
    unittest.main()
