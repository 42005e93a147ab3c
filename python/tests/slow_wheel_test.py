#!/usr/bin/env python3
"""`pip install .` into an empty environment, as a user does it: what it takes, what is in it, and that
every fast test of the package passes there."""

import glob
import os
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
CLEAN = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def run(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **more)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)} failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def pypi_answers(python):
    asked = subprocess.run([python, "-m", "pip", "download", "--quiet", "--no-deps", "-d",
                            tempfile.mkdtemp(), "nanobind-backend"], capture_output=True, check=False)
    return asked.returncode == 0


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="tutti-wheel-")
        run(sys.executable, "-m", "venv", cls.scratch.name)
        cls.python = os.path.join(cls.scratch.name, "bin", "python")
        if not pypi_answers(cls.python):
            print("skipped: PyPI cannot be reached, so pip has no nanobind to build with")
            sys.exit(77)
        begin = time.monotonic()
        run(cls.python, "-m", "pip", "install", "--quiet", ROOT, env=CLEAN)
        cls.folder = run(cls.python, "-c", "import tutti, os; print(os.path.dirname(tutti.__file__))",
                         cwd="/", env=CLEAN).strip()
        size = sum(os.path.getsize(path) for path in
                   glob.glob(os.path.join(cls.folder, "**"), recursive=True) if os.path.isfile(path))
        print(f"pip install .: {(time.monotonic() - begin) / 60:.1f} minutes, {size / 1e6:.1f} MB")

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def test_it_has_all_parts(self):
        for part in ("_core.abi3.so", "_core.pyi", "py.typed", "lib/libtutti.so.0",
                     "lib/libtutti_runtime.so.0", "lib/nccl/libnccl.so.2", "bin/tutti"):
            self.assertTrue(os.path.exists(os.path.join(self.folder, part)), part)

    def test_the_loader_does_not_find_the_drop_in(self):
        for path in glob.glob(os.path.join(self.folder, "**", "*.so*"), recursive=True):
            dynamic = run("objdump", "-p", path)
            self.assertNotIn("nccl\n", "".join(line + "\n" for line in dynamic.splitlines()
                                               if "RUNPATH" in line or "RPATH" in line), path)

    def test_the_program_runs(self):
        said = run(os.path.join(self.scratch.name, "bin", "tutti"), "version", cwd="/", env=CLEAN)
        self.assertIn("0.1.0", said)

    def test_the_drop_in_comes_before_torch_or_not_at_all(self):
        said = run(self.python, "-c", "import tutti.nccl, ctypes; "
                   "print(ctypes.CDLL('libnccl.so.2')._name)", cwd="/", env=CLEAN)
        self.assertIn("libnccl.so.2", said)

    def test_the_fast_tests_pass(self):
        environment = {**CLEAN, "PACKAGE_TEST_PYTHON": self.python}
        for test in sorted(glob.glob(os.path.join(HERE, "*_test.py"))):
            if os.path.basename(test).startswith("slow_"):
                continue
            done = subprocess.run([sys.executable, "-B", test], capture_output=True, text=True,
                                  check=False, env=environment, cwd="/")
            self.assertIn(done.returncode, (0, 77), f"{test}\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    unittest.main(verbosity=1)
