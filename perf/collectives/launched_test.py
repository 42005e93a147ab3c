#!/usr/bin/env python3
"""`tutti perf` as the processes of a launcher, which have several ranks each: mpirun where it is
installed, and torchrun's variables in a loop."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "support"))

from ports import reserved_port  # noqa: E402

SKIPPED = 77
BINARIES = pathlib.Path(os.environ.get("TEST_BINARY_DIR", "build")).resolve() / "bin"
TUTTI = BINARIES / "tutti"
USAGE, LIBRARY, RESULT = 2, 3, 7
RIGHT = "# Out of bounds values : 0 OK"
LAUNCHERS = ("TUTTI_", "OMPI_", "PMIX_", "PMI_", "SLURM_", "TORCHELASTIC_", "NCCL_", "XDG_RUNTIME")


def ranks_of(output):
    """The lines of "# Using devices": (rank, group, pid, device)."""
    lines = [line.split() for line in output.splitlines() if line.startswith("#  Rank")]
    return [(int(words[2]), int(words[4]), int(words[6]), int(words[10])) for words in lines]


class Launched(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)},
            "TUTTI_SOCKET_IFNAME": "lo", "XDG_RUNTIME_DIR": folder.name}

    def torchrun(self, processes, *arguments, command="perf", **more):
        """torchrun's variables in a loop: every process' (stdout, stderr, exit code)."""
        shared = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1",
                  "MASTER_PORT": str(reserved_port() - 1), "TORCHELASTIC_RUN_ID": "none"}
        started = [
            subprocess.Popen([str(TUTTI), command, *arguments], text=True, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE,
                             env={**self.environment, **shared, **more, "RANK": str(process),
                                  "LOCAL_RANK": str(process)})
            for process in range(processes)]
        return [(*process.communicate(timeout=300), process.returncode) for process in started]

    def mpirun(self, processes, program, *arguments):
        mpirun = shutil.which("mpirun")
        if mpirun is None:
            self.skipTest("mpirun is not installed")
        return subprocess.run(
            [mpirun, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np",
             str(processes), str(BINARIES / program), *arguments],
            text=True, capture_output=True, timeout=300, env=self.environment)

    def assert_process_major(self, output, processes, ranks_each):
        ranks = ranks_of(output)
        self.assertEqual([rank for rank, *_ in ranks], list(range(processes * ranks_each)), output)
        pids = [pid for _, _, pid, _ in ranks]
        self.assertEqual(len(set(pids)), processes, output)
        for first in range(0, len(pids), ranks_each):
            self.assertEqual(len(set(pids[first:first + ranks_each])), 1, output)
        self.assertEqual([device for *_, device in ranks], list(range(len(ranks))),
                         "ranks of one host have a device each")

    def test_explain_is_about_the_ranks_of_the_job(self):
        results = self.torchrun(3, "all_reduce", "-b", "8", "-e", "8", command="explain")
        for _, error, code in results:
            self.assertEqual(code, 0, error)
        spoken = [output for output, _, _ in results if output]
        self.assertEqual(len(spoken), 1, results)
        self.assertIn("# all_reduce, 3 ranks, 8 bytes", spoken[0])

    def test_the_command_line_of_nccl_tests_under_mpirun(self):
        result = self.mpirun(2, "all_reduce_perf", "-t", "1", "-g", "4", "-b", "8", "-e", "64K",
                             "-f", "32", "-n", "3")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assert_process_major(result.stdout, 2, 4)
        self.assertIn(RIGHT, result.stdout)
        self.assertIn("# nThread 1 nGpus 4 ", result.stdout)
        rows = [line.split() for line in result.stdout.splitlines() if not line.startswith("#")]
        self.assertEqual([row[0] for row in rows], ["8", "256", "8192"])
        for row in rows:  # 8 ranks: the factor is 7 / 4
            algbw, busbw = float(row[6]), float(row[7])
            self.assertAlmostEqual(busbw, algbw * 1.75, delta=0.02 + 0.02 * busbw)

    def test_wrong_data_on_any_rank_is_the_exit_code_under_mpirun(self):
        result = self.mpirun(2, "alltoall_perf", "-t", "2", "-g", "2", "-b", "4K", "-n", "1",
                             "--plant-fault", "7:3")
        self.assertEqual(result.returncode, RESULT, result.stderr)
        self.assertIn("rank 7, element 3 of its output: expected ", result.stderr)
        self.assertIn("# Out of bounds values : 2 FAILED", result.stdout)
        self.assertIn("# Collective test concluded: alltoall_perf", result.stdout)

    def test_one_rank_per_process_under_mpirun(self):
        result = self.mpirun(3, "tutti", "perf", "broadcast", "-b", "1K", "-n", "2", "-r", "2")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assert_process_major(result.stdout, 3, 1)
        self.assertIn(RIGHT, result.stdout)

    def test_threads_times_gpus_of_torchruns_processes(self):
        for flags in (["all_gather", "-r", "all"], ["reduce_scatter_v", "--stream", "host"],
                      ["all_reduce", "-R", "1", "--percentiles", "-v", "-M", "1"]):
            with self.subTest(flags=flags):
                results = self.torchrun(2, *flags, "-t", "2", "-g", "2", "-b", "3000", "-n", "2",
                                        "-c", "2")
                for process, (output, errors, code) in enumerate(results):
                    self.assertEqual(code, 0, output + errors)
                    self.assertEqual(output != "", process == 0, "only rank 0 prints")
                self.assert_process_major(results[0][0], 2, 4)
                self.assertIn(RIGHT, results[0][0])

    def test_a_root_is_any_rank_of_any_process(self):
        results = self.torchrun(2, "broadcast", "-g", "3", "-b", "1K", "-n", "1", "-r", "5")
        self.assertEqual([code for *_, code in results], [0, 0], results)
        results = self.torchrun(2, "broadcast", "-g", "3", "-b", "1K", "-n", "1", "-r", "6")
        self.assertEqual([code for *_, code in results], [USAGE, USAGE], results)

    def test_groups_are_of_whole_processes(self):
        results = self.torchrun(4, "all_gather", "-t", "2", "-b", "800", "-n", "1",
                                NCCL_TESTS_SPLIT="MOD 2")
        self.assertEqual([code for *_, code in results], [0] * 4, results)
        groups = [group for _, group, *_ in ranks_of(results[0][0])]
        self.assertEqual(groups, [0, 0, 1, 1, 0, 0, 1, 1])
        row = [line for line in results[0][0].splitlines() if not line.startswith("#")][0].split()
        self.assertEqual(row[:2], ["800", "50"], "four ranks have a block each")

    def test_every_process_returns_what_rank_0_found(self):
        results = self.torchrun(2, "all_reduce", "-t", "2", "-b", "4K", "-n", "1", "--plant-fault",
                                "3:1")
        self.assertEqual([code for *_, code in results], [RESULT, RESULT], results)
        self.assertIn("# Out of bounds values : 2 FAILED", results[0][0])
        results = self.torchrun(2, "all_reduce", "-t", "2", "-b", "8", "-n", "1", "--json",
                                "/nonexistent/perf.json")
        self.assertEqual([code for *_, code in results], [1, 1], results)
        self.assertEqual(results[1][1], "", "one mistake, said once")

    def test_a_refused_call_ends_every_process(self):
        results = self.torchrun(2, "all_reduce", "-g", "2", "-b", "8", "--algorithm", "magic")
        self.assertEqual([code for *_, code in results], [LIBRARY, LIBRARY], results)

    def test_a_comparison_starts_its_own_ranks(self):
        for _, errors, code in self.torchrun(2, "all_reduce", "-b", "8", "--vs", "ompi"):
            self.assertEqual(code, USAGE, errors)
            self.assertIn("torchrun", errors)


if __name__ == "__main__":
    if not TUTTI.exists():
        print(f"{TUTTI} is not built")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)  # names what is skipped, and why
