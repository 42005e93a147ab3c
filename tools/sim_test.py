#!/usr/bin/env python3
"""`tutti sim`: what it says, what it writes, what it refuses."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

TUTTI = os.path.join(os.environ.get("TEST_BINARY_DIR", "build"), "bin", "tutti")
CLUSTER = """{ "tutti_topology": 1,
  "levels": [ {"name": "zone", "latency_us": 15},
              {"name": "rack", "latency_us": 7, "port_GB_per_s": 50, "oversubscription": 2.8},
              {"name": "host", "latency_us": 1} ],
  "tree": { "children": [ {"count": 2, "children": [ {"count": 4, "ranks": 4} ]} ] } }
"""


class Sim(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)
        self.cluster = self.path / "cluster.json"
        self.cluster.write_text(CLUSTER, encoding="utf-8")

    def sim(self, *arguments):
        return subprocess.run([TUTTI, "sim", *map(str, arguments)], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=100, check=False)

    def on_cluster(self, collective, *arguments):
        return self.sim(collective, "--topology", self.cluster, *arguments)

    def test_one_size_is_told_in_detail_and_twice_the_same(self):
        first = self.on_cluster("all_reduce", "-b", "1M", "--hops", 3)
        self.assertEqual((first.returncode, first.stderr), (0, ""))
        for words in ("by 32 ranks", "time: ", "folded into", "bytes between ranks, by level:",
                      "busiest: ", "critical path", "work of ranks", "bus bandwidth"):
            self.assertIn(words, first.stdout)
        self.assertEqual(self.on_cluster("all_reduce", "-b", "1M", "--hops", 3).stdout, first.stdout)

    def test_folded_and_unfolded_say_the_same_time(self):
        def times(*more):
            out = self.on_cluster("reduce_scatter", "-b", "256K", *more).stdout
            return [line for line in out.splitlines() if line.startswith("time: ")]
        self.assertEqual(len(times()), 1)
        self.assertEqual(times(), times("--unfolded"))

    def test_a_sweep_has_a_line_for_each_size_and_results_in_a_file(self):
        results = self.path / "results.json"
        done = self.on_cluster("all_gather", "-b", "4K", "-e", "1M", "--json", results)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [line for line in done.stdout.splitlines() if not line.startswith("#")]
        self.assertEqual(len(rows), 5)
        written = json.loads(results.read_text(encoding="utf-8"))
        self.assertEqual([row["size"] for row in written["results"]],
                         [4096 * 4 ** i for i in range(5)])
        times = [row["out_of_place"]["time"] for row in written["results"]]
        self.assertEqual(times, sorted(times))

    def test_the_trace_is_of_the_ranks_that_were_asked_for(self):
        trace = self.path / "trace.json"
        done = self.on_cluster("all_reduce", "-b", "64K", "--algorithm", "ring", "--unfolded", "--trace",
                               trace, "--trace-ranks", "0,5")
        self.assertEqual(done.returncode, 0, done.stderr)
        events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
        self.assertEqual({event["pid"] for event in events}, {0, 5})
        self.assertTrue(all(event["dur"] >= 0 for event in events if event["ph"] == "X"))

    def test_a_dead_link_is_named_and_is_a_failure(self):
        done = self.on_cluster("all_reduce", "-b", "4M", "--algorithm", "ring", "--dead", "rack:1@300")
        self.assertEqual(done.returncode, 1)
        self.assertIn("it never ends", done.stdout)
        self.assertIn("rack 1 is dead since 0.3", done.stdout)

    def bytes_of_levels(self, *arguments):
        """Between all ranks, of a call of 4 MiB."""
        done = self.on_cluster("all_reduce", "-b", "4M", "--algorithm", "hierarchical", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        line, = (line for line in done.stdout.splitlines() if line.startswith("bytes between ranks"))
        units = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}
        return {level: float(number) * units[unit] for level, number, unit in
                re.findall(r"(\w+) ([\d.]+) (\w+)", line.partition(":")[2])}, done.stdout

    def test_levels_that_encode_carry_fewer_bytes(self):
        exact, _ = self.bytes_of_levels()
        encoded, said = self.bytes_of_levels("--wire", "always,zone:int8_block:256")
        self.assertIn(" encoded", said.splitlines()[0])
        self.assertAlmostEqual(encoded["zone"] / exact["zone"], 65 / 256, delta=0.002)
        self.assertEqual(encoded["host"], exact["host"])
        both, _ = self.bytes_of_levels("--wire", "always,zone:e3m0:256,rack:bf16")
        self.assertAlmostEqual(both["zone"] / exact["zone"], 0.126, delta=0.002)
        # Values that go on to another zone have its codec in their rack, too.
        self.assertGreater(both["rack"] / exact["rack"], 0.126)
        self.assertLess(both["rack"] / exact["rack"], 0.5)

    def test_where_encoding_does_not_pay_it_is_not_done(self):
        chosen = self.bytes_of_levels("--wire", "zone:int8_block")[1]
        self.assertNotIn("encoded", chosen.splitlines()[0])

    def test_explain_compares_every_algorithm(self):
        done = subprocess.run([TUTTI, "explain", "all_reduce", "--topology", str(self.cluster), "-b", "64K"],
                              capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        rows = [line.split() for line in done.stdout.splitlines() if not line.startswith("#")]
        self.assertGreater(len(rows), 4)
        predicted = [float(row[1]) for row in rows]
        self.assertEqual(predicted, sorted(predicted))
        simulated = {row[0]: float(row[2]) for row in rows}
        chosen = self.on_cluster("all_reduce", "-b", "64K", "--json", self.path / "one.json")
        self.assertEqual(chosen.returncode, 0)
        one = json.loads((self.path / "one.json").read_text(encoding="utf-8"))["results"][0]
        self.assertEqual(one["algorithm"], rows[0][0])
        self.assertAlmostEqual(one["out_of_place"]["time"], simulated[rows[0][0]], places=2)

    def test_mistakes_are_named(self):
        for arguments, said in (
                (("--topology", self.path / "none.json"), "none.json"),
                (("--topology", self.cluster, "--algorithm", "rings"), "rings"),
                (("--topology", self.cluster, "--slow", "row:1=0.5"), "those of rank, host, rack"),
                (("--topology", self.cluster, "--slow", "rack:9=0.5"), "no rack 9"),
                (("--topology", self.cluster, "--slow", "rack"), "LEVEL:NUMBER"),
                (("--topology", self.cluster, "--delay", "rack:1=soon"), "'soon'"),
                (("--topology", self.cluster, "--dead-rank", "32"), "no rank 32"),
                (("--topology", self.cluster, "--root", "32"), "not a rank"),
                (("--topology", self.cluster, "--wire", "zone:int7"), "int7"),
                (("--topology", self.cluster, "--wire", "zone"), "is no level and codec"),
                (("--topology", self.cluster, "--wire", "zone:bf16,wan:bf16"),
                 "no level 'wan' that sends messages; those that do: rack, zone"),
                (("--topology", self.cluster, "--plot", "a.png"), "--json"),
                ((), "--topology")):
            done = self.sim("all_reduce", "-b", "1K", *arguments)
            with self.subTest(arguments):
                self.assertEqual(done.returncode, 2, done.stdout)
                self.assertIn(said, done.stderr)
        self.assertEqual(self.sim("sendrecv").returncode, 2)


if __name__ == "__main__":
    unittest.main()
