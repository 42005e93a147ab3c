#!/usr/bin/env python3
"""Tests of tools/gpu-check on the software device: its parts pass, what fails and what hangs shows, and without
a device it says so."""

import itertools
import os
import subprocess
import sys
import tempfile
import unittest

TOOLS = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("TEST_BINARY_DIR", "build")


def check(*options, software=True, **variables):
    environment = dict(os.environ, SOFTDEV_MEMORY_MB="16384", **variables)
    environment["LD_LIBRARY_PATH"] = os.path.join(BUILD, "lib", "software_device") if software else ""
    return subprocess.run([sys.executable, "-B", os.path.join(TOOLS, "gpu-check"), "--build", BUILD, *options],
                          env=environment, capture_output=True, text=True, timeout=600)


class GpuCheck(unittest.TestCase):
    def test_parts_pass_and_are_labelled(self):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "out.md")
            done = check("--only", "right", "--only", "speed", "--only", "faults", "--right-seconds", "0",
                         "--out", out)
            with open(out, encoding="utf-8") as file:
                self.assertEqual(file.read(), done.stdout)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("software device", done.stdout)
        self.assertEqual(done.stdout.count("| all_gather | 4 |"), 5)
        self.assertIn("faults, full, 1: passed", done.stdout)

    def test_reductions_are_compared_and_timed(self):
        done = check("--only", "reductions")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("| reduce_scatter | 4 |"), 4)
        self.assertIn("reductions, rings in pinned host memory, against the host's: passed", done.stdout)
        self.assertEqual(done.stdout.count("| float | 4 |"), 4)

    def test_kernels_that_wait_run(self):
        done = check("--only", "kernels")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for part in ("2 processes as under mps", "a late rank, eager", "a late rank, captured"):
            self.assertIn(f"kernels that wait, {part}: passed", done.stdout)
        self.assertIn("small calls by one kernel, 2 processes: passed", done.stdout)

    def test_graphs_run(self):
        done = check("--only", "graphs")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for part in ("2 processes", "4 processes", "kill", "abort"):
            self.assertIn(f"graphs, {part}: passed", done.stdout)

    def test_small_calls_are_timed_and_what_needs_a_board_says_so(self):
        done = check("--only", "small", "--only", "overlap", "--only", "mps", "--only", "torch")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for ranks in (2, 4):
            self.assertIn(f"| all_reduce | {ranks} |", done.stdout)
        for part in ("a matrix product beside collectives", "mps", "torch"):
            self.assertIn(f"{part}: skipped, ", done.stdout)

    def test_nccl_is_timed_beside_it_and_ratios_come_first(self):
        done = check("--only", "nccl", "--nccl", os.path.join(BUILD, "lib", "nccl", "libnccl.so.2"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        ratios, times = done.stdout.split("us of a call in a row")
        for collective in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv"):
            for text in (ratios, times):
                self.assertEqual(text.count(f"| {collective} |"), 3)
        rows = [line.split("|") for line in ratios.splitlines() if line.startswith("| all_")]
        for cell in itertools.chain.from_iterable(row[3:-1] for row in rows):
            self.assertGreater(float(cell), -1, "a ratio of two times")

    def test_without_nccl_only_the_times_are_printed(self):
        done = check("--only", "nccl")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("NCCL beside Tutti, taking turns: the software device has no MPS: skipped", done.stdout)
        self.assertIn("there is none here", done.stdout)
        self.assertNotIn("us of NCCL by", done.stdout)
        self.assertEqual(done.stdout.count("| all_gather |"), 3)

    def test_a_library_that_fails_is_a_failure(self):
        with tempfile.TemporaryDirectory() as folder:
            library = os.path.join(folder, "libnccl.so.2")
            done = subprocess.run([sys.executable, "-B", os.path.join(TOOLS, "gpu_check", "beside_nccl.py"), "--short",
                                   "--tutti", library], capture_output=True, text=True, timeout=300,
                                  env=dict(os.environ, LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "software_device")))
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("FAILED: default: ", done.stdout)

    def test_the_pieces_of_a_call_are_timed(self):
        done = check("--only", "anatomy")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for piece in ("7 x 1 KiB, from another process: one batch with the hint", "waits for 15 words that are there",
                      "beside an idle process", "7 copies beside each other"):
            self.assertIn(f"| {piece}", done.stdout)
        self.assertNotIn("CUDA_ERROR", done.stdout)

    def test_facts_of_the_driver_are_asked_with_a_limit(self):
        done = check("--only", "facts")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("| cuMemFree beside a stream that waits | waits for the stream (CUDA_SUCCESS)", done.stdout)
        self.assertNotIn("HANGS", done.stdout)
        self.assertGreater(done.stdout.count("\n| cu"), 10)
        done = subprocess.run([sys.executable, "-B", os.path.join(TOOLS, "gpu_check", "driver_facts.py"), "--seconds",
                               "2", "--fact", "planted"], capture_output=True, text=True, timeout=100,
                              env=dict(os.environ, LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "software_device")))
        self.assertIn("| planted: a fact that hangs | HANGS |", done.stdout)

    def test_what_fails_and_what_hangs_shows_and_stops_nothing(self):
        done = check("--only", "planted", "--only", "device")
        self.assertEqual(done.returncode, 1)
        self.assertIn("planted failure: FAILED: exit status 3", done.stdout)
        self.assertIn("planted hang: FAILED: not over after 1 s", done.stdout)
        self.assertIn("waiting", done.stdout)
        self.assertIn("built from", done.stdout)

    def test_after_the_limit_parts_are_named_and_not_run(self):
        done = check("--only", "faults", "--only", "device", "--limit", "0")
        self.assertEqual(done.returncode, 1)
        self.assertIn("faults, full, 1: FAILED: not run", done.stdout)
        self.assertIn("built from", done.stdout)

    def test_a_failure_before_them_does_not_shorten_the_random_calls(self):
        # On a busy machine one seed may take all of its share of the first time.
        for seconds in ("6", "60", "300"):
            done = check("--only", "planted", "--only", "right", "--right-seconds", seconds)
            self.assertEqual(done.returncode, 1)
            if "seed 2: passed" in done.stdout:
                break
        self.assertRegex(done.stdout, "right, [a-z ]+, seed 2: passed")

    def test_without_a_device(self):
        done = check("--only", "device", SOFTDEV_INIT_RESULT="100")
        self.assertEqual(done.returncode, 77, done.stdout + done.stderr)
        self.assertIn("no GPU", done.stdout)


if __name__ == "__main__":
    sys.exit(unittest.main())
