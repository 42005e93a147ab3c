#!/usr/bin/env python3
"""`tutti perf` as scripts see it: columns, footer, exit codes, JSON, the names of nccl-tests."""

import copy
import json
import os
import pathlib
import pty
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from json_schema import Schema  # noqa: E402

SKIPPED = 77
ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARIES = pathlib.Path(os.environ.get("TEST_BINARY_DIR", "build")).resolve() / "bin"
TUTTI = BINARIES / "tutti"
COLLECTIVES = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "gather",
               "scatter", "all_to_all", "all_gather_v", "reduce_scatter_v", "all_to_all_v",
               "barrier", "sendrecv"]
# Of nccl-tests, and what they measure.
PROGRAMS = {"all_reduce_perf": "all_reduce", "all_gather_perf": "all_gather",
            "reduce_scatter_perf": "reduce_scatter", "broadcast_perf": "broadcast",
            "reduce_perf": "reduce", "gather_perf": "gather", "scatter_perf": "scatter",
            "alltoall_perf": "all_to_all", "alltoallv_perf": "all_to_all_v",
            "all_gather_v_perf": "all_gather_v", "reduce_scatter_v_perf": "reduce_scatter_v",
            "sendrecv_perf": "sendrecv", "hypercube_perf": "hypercube"}
# Exit codes, as in perf/collectives/error.h.
USAGE, LIBRARY, TIMEOUT, RESULT = 2, 3, 4, 7
RIGHT = "# Out of bounds values : 0 OK"


def run(*arguments, program=TUTTI, **environment):
    return subprocess.run([str(program), *map(str, arguments)], text=True, capture_output=True,
                          timeout=300, env={**os.environ, **environment})


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

    def test_where_nothing_moves_there_is_nothing_to_check(self):
        for flags, halves in ((["barrier"], 1), (["all_reduce", "-b", "0"], 2),
                              (["all_gather", "-b", "3"], 2), (["alltoallv", "-b", "0"], 1)):
            with self.subTest(flags=flags):
                result = run("perf", *flags, "-t", "2", "-n", "2", "--percentiles", "-I", "1")
                self.assertEqual(result.returncode, 0, result.stderr)
                row = rows(result.stdout)[0]
                self.assertEqual(row[:2], ["0", "0"])
                for half in range(2):
                    cells = row[5 + 12 * half:17 + 12 * half]
                    rates = ["0.00", "0.00"] if half < halves else ["N/A", "N/A"]
                    self.assertEqual(cells[1:4], rates + ["N/A"])
                self.assertNotRegex(result.stdout, r"\b(nan|inf)\b")
                self.assertIn("# Avg bus bandwidth    : 0 ", result.stdout)

    def test_every_collective_with_processes_and_with_threads(self):
        for collective in COLLECTIVES:
            for group in (["--ranks", "3"], ["-t", "3"]):
                with self.subTest(collective=collective, group=group):
                    result = run("perf", collective, *group, "-b", "3000", "-n", "3", "-c", "2")
                    self.assertEqual(result.returncode, 0, result.stderr)
                    self.assertIn("# Out of bounds values : 0 OK", result.stdout)

    def test_every_type_and_operation(self):
        for collective in ("all_reduce", "reduce_scatter", "reduce"):
            result = run("perf", collective, "-t", "3", "-b", "999", "-n", "1", "-d", "all",
                         "-o", "all")
            self.assertEqual(result.returncode, 0, result.stderr)
            # Floats have no bits to combine, bools no average and no scale.
            self.assertEqual(len(rows(result.stdout)), 8 * 9 + 6 * 6 + 7)

    def test_scaled_sums_have_a_scalar_on_every_rank(self):
        for flags in (["all_reduce", "--stream", "host", "-m", "3"], ["reduce", "-r", "all"],
                      ["reduce_scatter_v", "--deterministic"], ["all_reduce", "-R", "1", "-z", "1"]):
            with self.subTest(flags=flags):
                result = run("perf", *flags, "--ranks", "3", "-b", "4K", "-n", "2", "-c", "2", "-o",
                             "mulsum", "-d", "half")
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(rows(result.stdout)[0][3], "mulsum")
        wrong = run("perf", "all_reduce", "-t", "2", "-b", "4K", "-n", "1", "-o", "mulsum",
                    "--plant-fault", "1:17")
        self.assertEqual(wrong.returncode, RESULT, wrong.stderr)

    def test_too_slow_is_a_failure(self):
        slow = run("perf", "all_reduce", "-b", "8", NCCL_TESTS_MIN_BW="1e9")
        self.assertEqual(slow.returncode, RESULT)
        self.assertRegex(slow.stdout, r"# Avg bus bandwidth    : \S+ FAILED")

    def test_hypercube_gathers_what_powers_of_two_have(self):
        for group in (["--ranks", "4"], ["-t", "4", "--stream", "host"]):
            result = run("perf", "hypercube", *group, "-b", "3000", "-n", "3", "-c", "2")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("# Out of bounds values : 0 OK", result.stdout)
        self.assertEqual(run("perf", "hypercube", "--ranks", "3").returncode, USAGE)

    def test_flags_change_the_columns(self):
        few = ["perf", "all_reduce", "-t", "2", "-b", "64", "-n", "4"]
        plain = len(rows(run(*few).stdout)[0])
        for flags, more in ((["-I", "1"], 8), (["--percentiles"], 8), (["-v"], 2), (["-S", "1"], 2),
                            (["-C", "1"], 0)):
            with self.subTest(flags=flags):
                result = run(*few, *flags)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(len(rows(result.stdout)[0]), plain + more)
        self.assertEqual(rows(run(*few, "-v").stdout)[0][-1], "loopback")
        self.assertIn("cputime", run(*few, "-C", "1").stdout)
        self.assertIn("# Memory usage         : Initialization ", run(*few, "-M", "1").stdout)

    def test_every_way_to_run_the_loop(self):
        for flags in (["-z", "1"], ["-z", "2"], ["-z", "3"], ["-m", "3"], ["-R", "1"], ["-u", "3"],
                      ["-w", "0"], ["-N", "2"], ["-a", "0"], ["--stream", "host", "-z", "2"]):
            with self.subTest(flags=flags):
                result = run("perf", "all_gather", "--ranks", "2", "-b", "1000", "-n", "2", *flags)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn("# Out of bounds values : 0 OK", result.stdout)

    def test_the_settings_say_whether_calls_are_waited_for(self):
        few = ["perf", "all_reduce", "-t", "2", "-b", "64", "-n", "4"]
        for flags, said in (([], "# free-running, "), (["--percentiles"], "# free-running, "),
                            (["--stream", "host"], "# free-running, "),
                            (["-z", "1"], "wait for completion and barrier after each collective"),
                            (["-z", "1"], "# a wait and a barrier after each iteration, "),
                            (["-z", "2"], "after each collective (no barrier)"),
                            (["-z", "2"], "# a wait after each iteration, "),
                            (["-z", "3"], "# stepped, "),
                            (["--stream", "host", "--percentiles"], "# single calls, each waited"),
                            (["--stream", "host", "-I", "1", "--stepped"], "# stepped, ")):
            with self.subTest(flags=flags):
                self.assertIn(said, run(*few, *flags).stdout)

    def test_flags_without_effect_are_said_once(self):
        result = run("perf", "all_reduce", "--ranks", "3", "-b", "8", "-n", "1", "-G", "2")
        self.assertEqual(result.returncode, 0)
        self.assertEqual(result.stderr.count("-G,--cudagraph has no effect"), 1)
        self.assertEqual(run("perf", "all_reduce", "-b", "8", "-n", "1", "-G", "0").stderr, "")

    def test_planted_wrong_data_is_found_and_located(self):
        for collective in COLLECTIVES + ["hypercube"]:
            if collective == "barrier":
                continue
            with self.subTest(collective=collective):
                result = run("perf", collective, "--ranks", "2", "-b", "4K", "-n", "1", "-r", "1",
                             "--plant-fault", "1:17")
                self.assertEqual(result.returncode, RESULT, result.stderr)
                self.assertIn("rank 1, element 17 of its output: expected ", result.stderr)
                self.assertRegex(result.stdout, r"# Out of bounds values : [12] FAILED")

    def test_progress_is_for_terminals(self):
        command = [str(TUTTI), "perf", "all_reduce", "-t", "2", "-b", "64", "-n", "1"]
        theirs, ours = pty.openpty()
        try:
            result = subprocess.run(command, stdout=subprocess.PIPE, stderr=ours, timeout=300)
            shown = os.read(theirs, 65536).decode()
        finally:
            os.close(theirs)
            os.close(ours)
        self.assertEqual(result.returncode, 0)
        self.assertIn("case 1 of 1: 64 bytes float, out of place", shown)
        self.assertTrue(shown.endswith("\r\x1b[K"), "the line is erased at the end")
        self.assertEqual(run(*command[1:]).stderr, "")

    def test_a_picture_needs_matplotlib_and_says_so_first(self):
        with tempfile.TemporaryDirectory() as folder:
            picture = pathlib.Path(folder) / "perf.svg"
            result = run("perf", "all_reduce", "-t", "2", "-b", "8", "-n", "1", "--plot", picture)
            if result.returncode == 0:
                self.assertGreater(picture.stat().st_size, 1000)
                return
        self.assertIn("python3-matplotlib", result.stderr)
        self.assertEqual(result.stdout, "", "nothing is measured for a picture that cannot be drawn")

    def test_the_page_of_flags_is_current(self):
        page = (ROOT / "docs" / "perf_flags.md").read_text()
        self.assertEqual(run("perf", "flags").stdout, page,
                         "run: tutti perf flags > docs/perf_flags.md")

    def test_names_of_nccl_tests(self):
        listed = run("perf", "--help").stdout.split("collectives:")[1].split()
        self.assertEqual(sorted(listed), sorted({*COLLECTIVES, *PROGRAMS.values()}))
        for program, collective in PROGRAMS.items():
            with self.subTest(program=program):
                result = run("-b", "1K", "-n", "1", "-t", "2", program=BINARIES / program)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn(f"# tutti perf {collective}, ", result.stdout)
                self.assertIn(f"# Collective test starting: {program}", result.stdout)

    def test_split_makes_groups_that_run_at_the_same_time(self):
        result = run("perf", "all_gather", "--ranks", "5", "-b", "600", "-n", "2", "-r", "all",
                     NCCL_TESTS_SPLIT="MOD 2")
        self.assertEqual(result.returncode, 0, result.stderr)
        groups = [line.split("Group")[1].split()[0] for line in result.stdout.splitlines()
                  if line.startswith("#  Rank")]
        self.assertEqual(groups, ["0", "1", "0", "1", "0"])
        self.assertEqual(rows(result.stdout)[0][:2], ["600", "50"], "three ranks have a block each")
        wrong = run("perf", "all_gather", "--ranks", "2", "-b", "8", NCCL_TESTS_SPLIT="XOR 2")
        self.assertEqual(wrong.returncode, USAGE, wrong.stderr)
        for mask in ("1", "0x1"):
            masked = run("perf", "all_gather", "--ranks", "3", "-b", "600", "-n", "2",
                         NCCL_TESTS_SPLIT_MASK=mask)
            self.assertEqual(masked.returncode, 0, masked.stderr)
            self.assertEqual(rows(masked.stdout)[0][:2], ["600", "75"], "ranks 0 and 2")
        wrong = run("perf", "all_gather", "--ranks", "2", "-b", "8", NCCL_TESTS_SPLIT_MASK="7g")
        self.assertEqual(wrong.returncode, USAGE, wrong.stderr)
        self.assertIn("NCCL_TESTS_SPLIT_MASK='7g'", wrong.stderr)

    def test_alltoallv_moves_what_the_variables_of_nccl_tests_say(self):
        prefix = "NCCL_TESTS_ALLTOALLV_"
        few = ["perf", "alltoallv", "--ranks", "3", "-n", "2", "-b"]
        equal = run(*few, "1200", **{prefix + "SPREAD": "0", prefix + "PRINT_SUMMARY": "1"})
        self.assertEqual(equal.returncode, 0, equal.stderr)
        self.assertIn("mode=generated nranks=3 total_bytes=1200 spread=0.000 ", equal.stdout)
        self.assertIn("#   rank=2 send_bytes=1200 recv_bytes=1200 alg_bw=", equal.stdout)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "matrix"
            path.write_text("0 40 8 0\n4000 8 0 0\n12 0 0 0\n0 0 0 0\n")
            matrix = {prefix + "MATRIX_FILE": str(path)}
            uneven = run(*few, "64K", **matrix, **{prefix + "PRINT_SUMMARY": "1"})
            self.assertEqual(uneven.returncode, 0, uneven.stderr)
            self.assertIn(RIGHT, uneven.stdout)
            self.assertEqual(rows(uneven.stdout)[0][0], "4012", "what rank 0 receives")
            self.assertIn("mode=matrix nranks=3 matrix_dim=4 ", uneven.stdout)
            self.assertIn("#   rank=0 send_bytes=48 recv_bytes=4012 ", uneven.stdout)
            double = run(*few, "64K", "-d", "int8", **matrix, **{prefix + "MATRIX_SCALE": "2"})
            self.assertEqual(rows(double.stdout)[0][0], "8024", double.stderr)
            wrong = run(*few, "64K", "--plant-fault", "0:1002", **matrix)
            self.assertEqual(wrong.returncode, RESULT, wrong.stderr)
            path.write_text("1 2\n3 4\n")
            for flags in (["64K"], ["2", "--ranks", "2"], ["8", "-e", "16", "-f", "2", "--np", "2"]):
                mistake = run(*few, *flags, **matrix)
                self.assertEqual(mistake.returncode, USAGE, mistake.stderr)
                self.assertIn("the traffic matrix", mistake.stderr)
        self.assertEqual(run(*few, "8", **{prefix + "SPREAD": "2"}).returncode, USAGE)

    def test_a_choice_of_devices_is_said_to_have_no_effect(self):
        result = run("perf", "all_reduce", "--ranks", "3", "-b", "8", "-n", "1",
                     NCCL_TESTS_DEVICE="4")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr.count("NCCL_TESTS_DEVICE has no effect"), 1, result.stderr)

    def test_exit_codes(self):
        few = ["perf", "all_reduce", "-t", "2", "-b", "8", "-n", "1"]
        unknown = run(*few, "--algorithm", "magic")
        self.assertEqual(unknown.returncode, LIBRARY, unknown.stderr)
        for flag in ("--json", "--plot"):
            for place in ("/nonexistent/perf.svg", "/"):
                unwritable = run(*few, flag, place)
                self.assertEqual(unwritable.returncode, 1)
                self.assertIn(f"cannot write {place}: ", unwritable.stderr)
                self.assertEqual(unwritable.stdout, "", "nothing is measured for nothing")
        self.assertEqual(run(*few, "-o", "mulmax").returncode, USAGE)

    def test_output_that_cannot_be_written_is_a_failure(self):
        few = [str(TUTTI), "perf", "all_reduce", "-b", "8", "-n", "1"]
        all_of_it = "not all of the output could be written"
        for flags, said in ((["--ranks", "2"], all_of_it), (["-t", "2"], all_of_it),
                            (["--help"], all_of_it),
                            (["-t", "2", "-N", "0"], "they cannot be written"),
                            (["--ranks", "2", "-N", "0"], "they cannot be written")):
            with self.subTest(flags=flags), open("/dev/full", "w") as full:
                result = subprocess.run(few + flags, text=True, stdout=full, timeout=60,
                                        stderr=subprocess.PIPE)
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertEqual(result.stderr.count(said), 1, result.stderr)
        for group in (["--ranks", "2"], ["-t", "2"]):
            with self.subTest(group=group):
                reader, writer = os.pipe()
                os.close(reader)
                result = subprocess.run(few + group, text=True, stdout=writer, timeout=60,
                                        stderr=subprocess.PIPE)
                os.close(writer)
                self.assertNotEqual(result.returncode, 0, result.stderr)
        for group in (["--ranks", "2"], ["-t", "2"]):
            full = run(*few[1:], *group, "--json", "/dev/full")
            self.assertEqual(full.returncode, 1, full.stderr)
            self.assertIn("cannot write /dev/full", full.stderr)

    def test_a_picture_that_cannot_be_written_is_a_failure(self):
        few = ["perf", "all_reduce", "-t", "2", "-b", "8", "-n", "1", "--plot"]
        for picture in ("/dev/full", "/tmp/perf.tutti"):
            result = run(*few, picture)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertNotIn("Traceback", result.stderr)
            if "python3-matplotlib" not in result.stderr:
                self.assertIn(f"cannot write {picture}: ", result.stderr)

    def test_mistakes_are_explained(self):
        for arguments in (["perf"], ["perf", "all_shrink"], ["perf", "all_reduce", "-b", "many"],
                          ["perf", "all_reduce", "--vs", "gossip"], ["perf", "compare", "none.csv"],
                          ["nonsense"]):
            with self.subTest(arguments=arguments):
                result = run(*arguments)
                self.assertEqual(result.returncode, USAGE)
                self.assertNotEqual(result.stderr + result.stdout, "")

    def test_a_launcher_that_contradicts_itself_is_named(self):
        result = run("perf", "all_reduce", "-b", "8", OMPI_COMM_WORLD_RANK="7",
                     OMPI_COMM_WORLD_SIZE="2")
        self.assertEqual(result.returncode, USAGE)
        self.assertIn("OMPI_COMM_WORLD_RANK='7'", result.stderr)


# In place of mpirun: a comparison without MPI. What it was called with is in the first round.
FAKE_MPIRUN = """#!/bin/sh
while [ $# -gt 0 ]; do
  case $1 in
    --rounds-file) file=$2;;
    --configuration) name=$2;;
  esac
  shift
done
echo config,mode,ranks,collective,bytes,round,variant,us > $file
echo $name,stepped,2,all_reduce,8,0,tutti,1 >> $file
echo $name,stepped,2,all_reduce,8,0,mpi,2 >> $file
case $name in ${FAKE_FAILS:-none}) exit $FAKE_CODE;; esac
"""


class IgnoredChildren(unittest.TestCase):
    """SIGCHLD ignored, as a program may leave it to what it starts."""

    def run_ignoring(self, *arguments, **environment):
        command = ["bash", "-c", "trap '' CHLD; exec \"$0\" \"$@\"", str(TUTTI)]
        return subprocess.run(command + list(arguments), text=True, capture_output=True, timeout=60,
                              env={**os.environ, **environment})

    def test_ranks_are_waited_for(self):
        result = self.run_ignoring("perf", "all_reduce", "-b", "8", "-n", "1")
        self.assertEqual(result.returncode, 0, result.stderr)
        result = self.run_ignoring("perf", "all_reduce", "-b", "8", "-n", "1",
                                   NCCL_TESTS_MIN_BW="1e9")
        self.assertEqual(result.returncode, RESULT, result.stderr)

    @unittest.skipUnless((BINARIES.parent / "lib" / "nccl" / "libnccl.so.2").exists(),
                         "the drop-in is not built")
    def test_a_command_is_waited_for_and_gets_what_was_inherited(self):
        says = "import signal, sys; print(signal.getsignal(signal.SIGCHLD).name); sys.exit(3)"
        result = self.run_ignoring("run", "--", sys.executable, "-c", says)
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertEqual(result.stdout, "SIG_IGN\n")


class Versus(unittest.TestCase):
    """`--vs`, with a program that only looks like mpirun."""

    def versus(self, *flags, **environment):
        with tempfile.TemporaryDirectory() as folder:
            mpirun = self.launcher(folder, "mpirun")
            return run("perf", "all_reduce", "--vs", "ompi", "-b", "8", "--mpirun", mpirun,
                       "--mpi-program", "true", *flags, **environment)

    def launcher(self, folder, name):
        launcher = pathlib.Path(folder) / name
        launcher.write_text(FAKE_MPIRUN)
        launcher.chmod(0o755)
        return launcher

    def test_mpich_has_a_launcher_and_a_program_of_its_own(self):
        with tempfile.TemporaryDirectory() as folder:
            self.launcher(folder, "mpiexec.mpich")
            result = run("perf", "all_reduce", "--vs", "mpich:plain", "-b", "8", "--mpi-program",
                         "true", PATH=f"{folder}:{os.environ['PATH']}")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("mpich", result.stdout.split("# ran ")[-1].split("\n", 1)[1])

    def test_what_cannot_be_written_is_said_before_anything_runs(self):
        result = self.versus("--raw", "/nonexistent/rounds.csv")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("cannot write /nonexistent/rounds.csv: ", result.stderr)
        self.assertEqual(result.stdout, "")

    def test_the_worst_code_is_returned_and_the_rest_is_compared(self):
        failed = {"FAKE_FAILS": "ompi", "FAKE_CODE": str(RESULT)}
        result = self.versus("-n", "5", **failed)
        self.assertEqual(result.returncode, RESULT, result.stderr)
        self.assertIn("ompi failed (exit code 7)", result.stderr)
        self.assertIn("-n,--iters has no effect with --vs", result.stderr)
        self.assertIn("ompi:tuned", result.stdout.split("# ran ")[-1].split("\n", 1)[1])

    def test_a_bad_folder_for_temporary_files_is_said(self):
        result = self.versus(TMPDIR="/nonexistent")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("tutti perf: TMPDIR is no folder", result.stderr)

    def test_the_tables_are_printed_before_the_rounds_are_written(self):
        result = self.versus("--raw", "/dev/full")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("cannot write /dev/full", result.stderr)
        self.assertIn("ompi:tuned", result.stdout.split("# ran ")[-1].split("\n", 1)[1])


class Json(unittest.TestCase):
    """The file of --json against docs/perf_results.schema.json."""

    schema = Schema(json.loads((ROOT / "docs" / "perf_results.schema.json").read_text()))

    def report(self, *flags, expected=0, **environment):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "perf.json"
            result = run("perf", *flags, "--json", path, **environment)
            self.assertEqual(result.returncode, expected, result.stderr)
            report = json.loads(path.read_text())
        self.assertEqual(self.schema.mistakes(report), [])
        return report

    def test_every_kind_of_run_fits_the_schema(self):
        report = self.report("all_gather", "--ranks", "2", "-b", "1K", "-n", "5")
        self.assertEqual(report["config"]["ranks"], 2)
        self.assertEqual([rank["device"] for rank in report["config"]["devices"]], [0, 1])
        self.assertEqual(report["results"][0]["in_place"]["nwrong"], 0)
        self.report("barrier", "-t", "2", "-n", "2")
        rooted = self.report("reduce", "-t", "2", "-b", "8", "-r", "1", "-z", "3", "-n", "2",
                             NCCL_TESTS_MIN_BW="0")
        self.assertEqual(rooted["results"][0]["root"], "     1", "text, as nccl-tests has it")
        self.assertEqual(rooted["config"]["blocking_collectives"], "true")
        self.assertEqual(rooted["average_bus_bandwidth"]["okay"], "true")
        self.report("all_reduce", "-t", "2", "-b", "8", "-e", "32", "-f", "2", "-n", "2", "-c", "0",
                    "-C", "1", "-M", "1", "-v", "-N", "2")

    def test_the_ring_is_warm_before_the_sweep(self):
        for warmup in (0, 1):
            report = self.report("all_reduce", "-t", "2", "-b", "256K", "-n", "1", "-w", warmup)
            self.assertEqual(report["config"]["warmup_calls_before_sweep"] > 0, warmup > 0)

    def test_iterations_are_there_by_rank(self):
        report = self.report("all_reduce", "-t", "3", "-b", "8", "-n", "7", "-I", "1", "-K", "2")
        times = report["results"][0]["in_place_per_iter"]
        self.assertEqual([len(row) for row in times["per_process_max_times_us"]], [7, 7, 7])
        self.assertEqual(times["times_us"], [max(row) for row in
                                             zip(*times["per_process_max_times_us"])])
        self.assertEqual(times["max_us"], max(times["times_us"][2:]))
        self.assertLessEqual(times["p50_us"], times["p99_us"])

    def test_wrong_data_is_located(self):
        report = self.report("broadcast", "-t", "2", "-b", "4K", "-n", "1", "--plant-fault", "1:3",
                             expected=RESULT)
        wrong = report["results"][0]["out_of_place"]["first_wrong"]
        self.assertEqual((wrong["rank"], wrong["element"], wrong["buffer"]), (1, 3, "output"))
        self.assertEqual(report["out_of_bounds"], {"count": 2, "okay": "false"})

    def test_secrets_are_not_told(self):
        report = self.report("all_reduce", "-t", "2", "-b", "8", "-n", "1", NCCL_TESTS_TOKEN="x",
                             NCCL_TESTS_MIN_BW="0")
        self.assertIn("NCCL_TESTS_MIN_BW=0", report["env"])
        self.assertNotIn("NCCL_TESTS_TOKEN", json.dumps(report["env"]))

    def test_bytes_that_are_no_text_end_no_run(self):
        report = self.report("all_reduce", "-t", "2", "-b", "8", "-n", "1",
                             NCCL_TESTS_NOTE=os.fsdecode(b"\xff"))
        self.assertIn("NCCL_TESTS_NOTE=\ufffd", report["env"])

    def test_the_check_finds_what_does_not_fit(self):
        good = self.report("all_reduce", "-t", "2", "-b", "8", "-n", "1")
        for spoil in (lambda r: r.pop("results"), lambda r: r.update(surprise=1),
                      lambda r: r["results"][0].update(size="8"),
                      lambda r: r["results"][0].update(in_place=7),
                      lambda r: r["config"].update(stream="tpu")):
            bad = copy.deepcopy(good)
            spoil(bad)
            self.assertNotEqual(self.schema.mistakes(bad), [])


if __name__ == "__main__":
    if not TUTTI.exists():
        print(f"{TUTTI} is not built")
        sys.exit(SKIPPED)
    unittest.main()
