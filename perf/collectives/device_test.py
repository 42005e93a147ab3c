#!/usr/bin/env python3
"""`tutti perf --device cuda` on the software device: what is right is found right, what is wrong
wrong, and the device's own clock is beside the host's."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from json_schema import Schema  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TEST_BINARY_DIR", "build")).resolve()
# Exit codes, as in perf/collectives/error.h.
USAGE, LIBRARY, RESULT = 2, 3, 7
RIGHT = "# Out of bounds values : 0 OK"
ALL = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "gather", "scatter",
       "all_to_all", "all_gather_v", "reduce_scatter_v", "all_to_all_v", "barrier", "sendrecv"]


def run(*arguments, driver=True, **variables):
    environment = dict(os.environ, TUTTI_DEVICE_RING_BYTES="2M", **variables)
    if driver:
        environment["LD_LIBRARY_PATH"] = str(BUILD / "lib" / "software_device")
    return subprocess.run([str(BUILD / "bin" / "tutti"), "perf", *arguments], text=True,
                          capture_output=True, timeout=300, env=environment)


def on_device(collective, *arguments, **variables):
    return run(collective, "--device", "cuda", "-n", "3", *arguments, **variables)


def beside_nccl(collective, *arguments, **variables):
    stand_in = str(BUILD / "lib" / "software_nccl" / "libnccl.so.2")
    return on_device(collective, "--vs", "nccl", "--rounds", "3", *arguments, **{"TUTTI_NCCL": stand_in, **variables})


class OnDevice(unittest.TestCase):
    def test_every_collective_is_right_and_timed_by_the_device_too(self):
        for collective in ALL:
            done = on_device(collective, "-b", "1K", "-e", "40K", "-f", "40")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn(RIGHT, done.stdout)
            self.assertIn("[cuda memory]", done.stdout)
            rows = [line.split() for line in done.stdout.splitlines() if not line.startswith("#")]
            for row in filter(None, rows):
                self.assertGreater(float(row[6]), 0, row)  # behind the time of the host

    def test_ranks_take_turns_at_the_devices(self):
        done = on_device("all_gather", "-b", "1K", "--ranks", "3", SOFTDEV_DEVICES="2")
        devices = [line.split()[10] for line in done.stdout.splitlines() if "[cuda memory]" in line]
        self.assertEqual(devices, ["0", "1", "0"], done.stdout + done.stderr)

    def test_a_wrong_element_is_found(self):
        for engine in ("copy_engine", "host"):
            done = on_device("all_gather", "-b", "1K", "--engine", engine, "--plant-fault", "1:3")
            self.assertEqual(done.returncode, RESULT, done.stdout + done.stderr)
            self.assertIn("wrong data", done.stderr)

    def test_nccl_is_timed_in_turns_in_the_same_processes(self):
        for collective in ("all_reduce", "reduce", "reduce_scatter", "broadcast", "all_gather", "all_to_all"):
            done = beside_nccl(collective, "-b", "1K", "-e", "40K", "-f", "40", "--ranks", "2")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertRegex(done.stdout, "nccl +by")
            rows = [line.split() for line in done.stdout.splitlines() if not line.startswith("#")]
            for row in filter(None, rows):
                self.assertGreater(float(row[10]), 0, row)  # behind #wrong
                self.assertGreater(float(row[11]), 0, row)
        self.assertNotIn("no effect", done.stderr)

    def test_a_call_that_nccl_has_not_has_no_time_of_it(self):
        done = beside_nccl("all_reduce", "-b", "1K", "-o", "band", "-d", "int32")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("N/A", done.stdout)

    def test_nccl_that_cannot_be_had_is_an_error_with_the_reason(self):
        for variables, why in (({"TUTTI_NCCL": "/nowhere.so"}, "rank 0: .*/nowhere.so"),
                               ({"SOFTNCCL_VERSION": "21700"}, "rank 0: .*too old"),
                               ({"SOFTNCCL_CONFIG_RESULT": "4"}, "rank 0: .*configuration is refused"),
                               ({"SOFTNCCL_INIT_RESULT": "1", "SOFTNCCL_RANK": "1"}, "rank 1: .*out of memory")):
            done = beside_nccl("all_reduce", "-b", "1K", "--ranks", "2", "-c", "0", **variables)
            self.assertNotEqual(done.returncode, 0, done.stdout)
            self.assertRegex(done.stderr, why)

    def test_nccl_takes_its_time_to_be_made(self):
        done = beside_nccl("all_reduce", "-b", "1K", "--ranks", "2", SOFTNCCL_INIT_MS="1500", SOFTNCCL_RANK="1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_nccl_is_no_peer_of_calls_on_the_host(self):
        done = run("all_reduce", "--vs", "nccl")
        self.assertEqual(done.returncode, USAGE)
        self.assertIn("--vs nccl is for --device cuda", done.stderr)

    def test_an_engine_that_cannot_be_had_is_an_error(self):
        done = on_device("all_reduce", "-b", "1K", "--engine", "copy_engine")
        self.assertEqual(done.returncode, LIBRARY, done.stdout + done.stderr)
        self.assertIn("copy engines do not compute", done.stderr)

    def test_the_file_of_results_has_both_times(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "results.json")
            on_device("broadcast", "-b", "1K", "--stepped", "-J", str(path))
            results = json.loads(path.read_text())
        schema = Schema(json.loads((ROOT / "docs" / "perf_results.schema.json").read_text()))
        self.assertEqual(schema.mistakes(results), [])
        self.assertEqual(results["config"]["stream"], "cuda")
        cell = results["results"][0]["out_of_place"]
        self.assertGreater(cell["device_time"], 0)
        self.assertGreater(cell["time"], 0)

    def test_what_devices_have_no_use_for_is_refused(self):
        for arguments in (("--device", "cuda", "-R", "1"), ("--device", "cuda", "--stream", "host"),
                          ("--engine", "host"), ("--device", "tpu"), ("--engine", "gpu")):
            self.assertEqual(run("all_gather", *arguments).returncode, USAGE, arguments)

    def test_where_no_device_works_the_reason_is_told(self):
        done = on_device("all_gather", "-b", "1K", SOFTDEV_DEVICES="0")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("--device cuda: ", done.stderr)


if __name__ == "__main__":
    sys.exit(unittest.main())
