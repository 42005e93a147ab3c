#!/usr/bin/env python3
"""Tests of `tutti tune` on the software device: what it writes is a model that communicators take; where there is no
device it says so."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

BUILD = os.environ.get("TEST_BINARY_DIR", "build")
TUTTI = os.path.join(BUILD, "bin", "tutti")
TERMS = ["copy_call_us", "list_call_us", "listed_copy_us", "group_call_us", "event_us", "wait_us", "write_us", "copy_us",
         "host_function_us", "hand_over_us", "local_us_per_mb"]


def run(*arguments, **variables):
    environment = dict(os.environ, LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "software_device"),
                       SOFTDEV_MEMORY_MB="4096", **variables)
    return subprocess.run([TUTTI, *arguments], env=environment, capture_output=True, text=True, timeout=120)


class Tune(unittest.TestCase):
    def test_what_it_writes_is_a_model(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "board.json")
            done = run("tune", "--out", path, "--repeats", "1", SOFTDEV_DEVICES="2")
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(path, encoding="utf-8") as file:
                terms = json.load(file)["devices"]["terms"]
            self.assertEqual([term["name"] for term in terms], [*TERMS, "link_us_per_mb"])
            for term in terms:
                self.assertGreaterEqual(term["value"], 0, term)
                self.assertEqual(term["source"], "measured")
            done = run("explain", "all_reduce", "-b", "8M", TUTTI_TUNING=path)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn("TUTTI_TUNING", done.stderr)
            with open(path, "a", encoding="utf-8") as file:
                file.write("x")
            done = run("explain", "all_reduce", "-b", "8M", TUTTI_TUNING=path)
            self.assertIn("board.json", done.stdout + done.stderr)

    def test_multicast_is_measured_where_all_devices_have_it(self):
        for devices, having in (("3", "3"), ("3", "2"), ("1", "1")):
            done = run("tune", "--repeats", "1", SOFTDEV_DEVICES=devices, SOFTDEV_MULTICAST=having)
            self.assertEqual(done.returncode, 0, done.stderr)
            terms = {term["name"]: term["value"] for term in json.loads(done.stdout)["devices"]["terms"]}
            if devices == having == "3":
                self.assertGreater(terms["multicast_us_per_mb"], 0)
                self.assertNotIn("multicast is not measured", done.stderr)
                continue
            self.assertNotIn("multicast_us_per_mb", terms)
            self.assertRegex(done.stderr, "multicast is not measured, and keeps an H100's number: "
                             ".*(has no multicast|one device)")

    def test_calls_by_nccl_are_measured_where_it_is(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "board.json")
            stand_in = os.path.join(BUILD, "lib", "software_nccl", "libnccl.so.2")
            done = run("tune", "--out", path, "--repeats", "1", SOFTDEV_DEVICES="2", TUTTI_NCCL=stand_in)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(path, encoding="utf-8") as file:
                times = json.load(file)["nccl"]
            self.assertEqual([one["collective"] for one in times],
                             ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all"])
            self.assertTrue(all(one["ranks"] == 2 and len(one["calls"]) == 5 for one in times))
            self.assertNotIn("TUTTI_TUNING", run("explain", "all_reduce", "-b", "8M", TUTTI_TUNING=path).stderr)
            done = run("tune", "--repeats", "1", SOFTDEV_DEVICES="2", TUTTI_NCCL="/nowhere.so")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("NCCL is not measured: NCCL cannot be loaded: /nowhere.so", done.stderr)
            self.assertNotIn("nccl", json.loads(done.stdout))

    def test_one_device_has_no_other_to_copy_from(self):
        done = run("tune", "--repeats", "1", SOFTDEV_DEVICES="1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([term["name"] for term in json.loads(done.stdout)["devices"]["terms"]], TERMS)

    def test_without_a_device_it_says_so(self):
        done = run("tune", SOFTDEV_INIT_RESULT="100")
        self.assertEqual(done.returncode, 77)
        self.assertIn("tutti tune: ", done.stderr)
        self.assertEqual(run("tune", "--repeats", "none").returncode, 2)
        self.assertEqual(run("tune", "--help").returncode, 0)


if __name__ == "__main__":
    sys.exit(unittest.main())
