#!/usr/bin/env python3
"""What plot_results.py reads of our files and of nccl-tests'."""

import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from plot_results import read_all, read_series  # noqa: E402

CELL = {"time": 7.5, "alg_bw": 2.0, "bus_bw": 3.0, "nwrong": 0}
# As `-J` of nccl-tests 2.19.6 writes it, as far as it is read.
THEIRS = {
    "version": 3,
    "config": {"nthreads": 1, "ngpus": 2, "devices": [{"rank": 0}, {"rank": 1}]},
    "results": [{"size": 8, "count": 2, "type": "float", "redop": "sum", "root": "    -1",
                 "out_of_place": CELL, "in_place": CELL}],
}


class Series(unittest.TestCase):
    def series(self, report):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "nccl_all_reduce.json"
            path.write_text(json.dumps(report))
            return read_series(path)

    def test_of_nccl_tests(self):
        self.assertEqual(self.series(THEIRS), [
            ("nccl_all_reduce, 2 ranks, out of place", "-", [(8, 7.5, 3.0)]),
            ("nccl_all_reduce, 2 ranks, in place", "--", [(8, 7.5, 3.0)])])

    def test_roots_that_are_text_are_told_apart(self):
        rooted = {**THEIRS, "results": [{**THEIRS["results"][0], "root": f"     {root}"}
                                        for root in range(2)]}
        labels = [label for label, _, _ in self.series(rooted)]
        self.assertIn("nccl_all_reduce, 2 ranks, float sum root 1, out of place", labels)

    def test_cycles_are_one_line_of_medians(self):
        cells = [{**CELL, "time": time} for time in (9.0, 1.0, 2.0)]
        cycles = {**THEIRS, "results": [{**THEIRS["results"][0], "out_of_place": cell}
                                        for cell in cells]}
        self.assertEqual(self.series(cycles)[0][2], [(8, 2.0, 3.0)])

    def test_no_two_lines_have_one_name(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = [pathlib.Path(folder) / name for name in ("before.json", "after.json",
                                                              "b/after.json")]
            report = {**THEIRS, "config": {**THEIRS["config"], "collective": "broadcast"}}
            paths[2].parent.mkdir()
            for path in paths:
                path.write_text(json.dumps(report))
            labels = [label for label, _, _ in read_all([str(path) for path in paths])]
        self.assertEqual(len(set(labels)), 6, labels)
        self.assertEqual(labels[0], "before: broadcast, 2 ranks, out of place")
        self.assertEqual(labels[4], f"{paths[2]}: broadcast, 2 ranks, out of place")

    def test_of_ours(self):
        ours = {**THEIRS, "config": {**THEIRS["config"], "collective": "broadcast", "ranks": 4},
                "results": [{**THEIRS["results"][0], "root": 0, "in_place": None}]}
        self.assertEqual([label for label, _, _ in self.series(ours)],
                         ["broadcast, 4 ranks, out of place"])


if __name__ == "__main__":
    unittest.main()
