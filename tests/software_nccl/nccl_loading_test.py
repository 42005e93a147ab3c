#!/usr/bin/env python3
"""NCCL's library is found and loaded beside the drop-in, and what cannot be used is refused with the reason."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from environment import clean_environment  # noqa: E402

BUILD = os.path.abspath(os.environ.get("TEST_BINARY_DIR", "build"))
NAME = "libnccl.so.2"
STAND_IN = os.path.join(BUILD, "lib", "software_nccl", NAME)
LACKING = os.path.join(BUILD, "lib", "lacking_nccl", NAME)
DROP_IN = os.path.join(BUILD, "lib", "nccl", NAME)


def run(*command, **variables):
    return subprocess.run(command, text=True, env=dict(clean_environment(), **variables), capture_output=True,
                          timeout=120)


def found(**variables):
    """What `tutti version` says of NCCL."""
    done = run(os.path.join(BUILD, "bin", "tutti"), "version", **variables)
    return next(line for line in done.stdout.splitlines() if line.split()[0] == "NCCL")


class Loading(unittest.TestCase):
    def test_the_file_that_is_named_is_taken(self):
        self.assertIn(f"NCCL 2.28.9 ({STAND_IN})", found(TUTTI_NCCL=STAND_IN))

    def test_what_cannot_be_used_is_refused_with_the_reason(self):
        self.assertIn("/nowhere.so", found(TUTTI_NCCL="/nowhere.so"))
        self.assertIn("does not say which version of NCCL", found(TUTTI_NCCL="libm.so.6"))
        self.assertIn("2.17.1 (" + STAND_IN + ") is too old: Tutti needs NCCL 2.18.0 or newer",
                      found(TUTTI_NCCL=STAND_IN, SOFTNCCL_VERSION="21701"))
        self.assertIn("has no ncclReduceScatter", found(TUTTI_NCCL=LACKING))

    def test_the_folder_in_which_the_loader_looks_is_searched(self):
        self.assertIn(STAND_IN, found(LD_LIBRARY_PATH=os.path.dirname(STAND_IN)))


@unittest.skipUnless(os.path.exists(DROP_IN), "this build has no drop-in")
class BesideTheDropIn(unittest.TestCase):
    def test_the_drop_in_is_refused_under_whatever_name(self):
        self.assertIn("Tutti's own drop-in", found(TUTTI_NCCL=DROP_IN))
        with tempfile.TemporaryDirectory() as folder:
            link, copy = os.path.join(folder, "link.so"), os.path.join(folder, "copy.so")
            os.symlink(DROP_IN, link)
            shutil.copy(DROP_IN, copy)
            for file in (link, copy):
                self.assertIn("Tutti's own drop-in", found(TUTTI_NCCL=file))
                self.assertIn("Tutti's own drop-in", found(TUTTI_NCCL=file, LD_PRELOAD=DROP_IN))

    def test_a_preloaded_drop_in_is_not_taken_for_nccl(self):
        self.assertIn(STAND_IN, found(TUTTI_NCCL=STAND_IN, LD_PRELOAD=DROP_IN))
        self.assertIn(STAND_IN, found(LD_LIBRARY_PATH=os.path.dirname(STAND_IN), LD_PRELOAD=DROP_IN))

    def test_calls_between_its_functions_do_not_reach_a_preloaded_drop_in(self):
        program = os.path.join(BUILD, "bin", "tests", "nccl_names")
        done = run(program, STAND_IN, LD_PRELOAD=DROP_IN)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        # The same without binding it to itself: the test can fail.
        astray = run(program, STAND_IN, "plain", LD_PRELOAD=DROP_IN)
        self.assertLess(astray.returncode, 0)
        self.assertIn("call of ncclGetVersion went to another library", astray.stderr)
        self.assertEqual(run(program, STAND_IN, "plain").returncode, 0)

    def test_nor_do_those_about_its_memory(self):
        program = os.path.join(BUILD, "bin", "tests", "nccl_names")
        done = run(program, STAND_IN, "suspend", LD_PRELOAD=DROP_IN)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        astray = run(program, STAND_IN, "plain", "suspend", LD_PRELOAD=DROP_IN)
        self.assertLess(astray.returncode, 0)
        self.assertIn("call of ncclCommGetAsyncError went to another library", astray.stderr)
        self.assertEqual(run(program, STAND_IN, "plain", "suspend").returncode, 0)


if __name__ == "__main__":
    sys.exit(unittest.main())
