#!/usr/bin/env python3
"""`tutti perf` as scripts see it: columns, footer, exit codes, JSON, the names of nccl-tests."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SKIPPED = 77
BINARIES = pathlib.Path(os.environ.get("TUTTI_BINARY_DIR", "build")) / "bin"
TUTTI = BINARIES / "tutti"
COLLECTIVES = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "barrier",
               "sendrecv"]


def run(*arguments, program=TUTTI, **environment):
    # The library warns of TUTTI_ variables that it does not know.
    inherited = {name: value for name, value in os.environ.items() if name != "TUTTI_BINARY_DIR"}
    return subprocess.run([str(program), *map(str, arguments)], text=True, capture_output=True,
                          timeout=120, env={**inherited, **environment})


def rows(output):
    return [line.split() for line in output.splitlines() if line and not line.startswith("#")]


class CommandLine(unittest.TestCase):
    def test_columns_are_those_of_nccl_tests(self):
        result = run("perf", "all_reduce", "-b", "8", "-e", "64K", "-f", "32")
        self.assertEqual(result.returncode, 0, result.stderr)
        table = rows(result.stdout)
        self.assertEqual([row[0] for row in table], ["8", "256", "8192"])
        for size, count, kind, redop, root, time, algbw, busbw, wrong, *in_place in table:
            self.assertEqual((kind, redop, root, wrong), ("float", "sum", "-1", "0"))
            self.assertEqual(int(size), 4 * int(count))
            self.assertGreater(float(time), 0)
            self.assertAlmostEqual(float(algbw), float(busbw))  # two ranks: the factor is one
            self.assertEqual(len(in_place), 4)
        self.assertIn("# Out of bounds values : 0 OK", result.stdout)
        self.assertIn("# Avg bus bandwidth    : ", result.stdout)

    def test_every_collective_with_processes_and_with_threads(self):
        for collective in COLLECTIVES:
            for group in (["--ranks", "3"], ["-t", "3"]):
                with self.subTest(collective=collective, group=group):
                    result = run("perf", collective, *group, "-b", "3000", "-n", "3", "-c", "2")
                    self.assertEqual(result.returncode, 0, result.stderr)
                    self.assertIn("# Out of bounds values : 0 OK", result.stdout)

    def test_every_type_and_operation(self):
        for collective in ("all_reduce", "reduce_scatter"):
            result = run("perf", collective, "-t", "3", "-b", "999", "-n", "1", "-d", "all",
                         "-o", "all")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(len(rows(result.stdout)), 12 * 5)

    def test_too_slow_is_a_failure(self):
        slow = run("perf", "all_reduce", "-b", "8", NCCL_TESTS_MIN_BW="1e9")
        self.assertEqual(slow.returncode, 1)
        self.assertRegex(slow.stdout, r"# Avg bus bandwidth    : \S+ FAILED")

    def test_json(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "perf.json"
            result = run("perf", "all_gather", "-b", "1K", "--percentiles", "--json", path)
            self.assertEqual(result.returncode, 0, result.stderr)
            report = json.loads(path.read_text())
        self.assertEqual(report["config"]["ranks"], 2)
        cell = report["results"][0]["in_place"]
        self.assertEqual(cell["nwrong"], 0)
        self.assertLessEqual(cell["p50"], cell["p99"])

    def test_names_of_nccl_tests(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "alltoall_perf"
            program.symlink_to(TUTTI.resolve())
            result = run("-b", "1K", program=program)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("alltoall_perf", result.stdout)

    def test_mistakes_are_explained(self):
        for arguments in (["perf"], ["perf", "all_shrink"], ["perf", "all_reduce", "-b", "many"],
                          ["perf", "all_reduce", "--vs", "gossip"], ["perf", "compare", "none.csv"],
                          ["nonsense"]):
            with self.subTest(arguments=arguments):
                result = run(*arguments)
                self.assertEqual(result.returncode, 2)
                self.assertNotEqual(result.stderr + result.stdout, "")

    def test_a_rank_of_a_launcher_is_refused_in_words(self):
        result = run("perf", "all_reduce", "-b", "8", OMPI_COMM_WORLD_RANK="0")
        self.assertEqual(result.returncode, 2)
        self.assertIn("mpirun", result.stderr)


if __name__ == "__main__":
    if not TUTTI.exists():
        print(f"{TUTTI} is not built")
        sys.exit(SKIPPED)
    unittest.main()
