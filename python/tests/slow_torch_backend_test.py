#!/usr/bin/env python3
"""The backend in Python passes the tests of the plugin in C++ that say what a backend does."""

import os
import subprocess
import sys
import tempfile
import unittest

import place

place.find("torch")

TESTS = os.path.join(place.ROOT, "plugins", "torch", "tests")
# Who imports the plugin gets this backend.
SHIM = "from tutti.torch.backend import register\nregister()\n"


class Backend(unittest.TestCase):
    def test_the_entry_point_and_the_import_make_it_known(self):
        hidden = "import sys; sys.modules['tutti_torch'] = None; import torch.distributed as dist; "
        asked = ("store = dist.HashStore(); dist.init_process_group('tutti', store=store, rank=0, world_size=1); "
                 "print(type(dist.group.WORLD._get_backend(__import__('torch').device('cpu'))).__module__)")
        for way in ("import tutti.torch; tutti.torch.backend.offer(); ",
                    "import tutti.torch; tutti.torch.backend.register(); "):
            done = subprocess.run([sys.executable, "-c", hidden + way + asked], check=True, text=True,
                                  capture_output=True, timeout=200)
            self.assertIn("tutti.torch.backend", done.stdout)

    def run_tests(self, *names):
        with tempfile.TemporaryDirectory(prefix="tutti-backend-") as folder:
            with open(os.path.join(folder, "tutti_torch.py"), "w", encoding="utf-8") as file:
                file.write(SHIM)
            path = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])
            done = subprocess.run([sys.executable, "-B", "-m", "unittest", *names], cwd=TESTS, check=False,
                                  capture_output=True, text=True, timeout=1200,
                                  env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"})
        self.assertEqual(done.returncode, 0, done.stderr[-6000:])

    def test_collectives(self):
        self.run_tests("test_collectives")

    def test_point_to_point(self):
        self.run_tests("test_point_to_point")

    def test_trainers(self):
        self.run_tests("test_trainers")

    def test_refusals_threads_and_limits(self):
        limits = ("a_wait_may_end_before_its_call", "a_call_that_takes_too_long_raises",
                  "a_group_that_nobody_joins_raises", "the_first_collective_names_who_has_not_come")
        self.run_tests("test_runtime.Refusals", "test_runtime.Threads",
                       *[f"test_runtime.Limits.test_{name}" for name in limits])

    def test_processes(self):
        self.run_tests("test_runtime.Processes.test_forked_children_are_told_and_harm_nobody",
                       "test_runtime.Processes.test_groups_come_and_go_and_leave_nothing",
                       "test_runtime.Processes.test_the_death_of_a_rank_is_an_error_that_names_it")


if __name__ == "__main__":
    unittest.main(verbosity=1)
