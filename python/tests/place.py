"""Where the package under test is: every test of it begins with find().

It is what the build has made for the Python that TUTTI_PYTHON named, or what is installed in the
Python that PACKAGE_TEST_PYTHON names. Tests run by another Python start themselves again by that
one. Where there is none, or something of it lacks, they end with status 77 and say why.
Tests of device memory call find_software_device() before.
"""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EXAMPLES = os.path.join(ROOT, "examples")
SKIPPED = 77


def _skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def _again(python, package_folder):
    environment = {**os.environ, "PACKAGE_UNDER_TEST": python}
    if package_folder:
        environment["PYTHONPATH"] = package_folder
    os.execve(python, [python, "-B", *sys.argv], environment)


def find_software_device(devices):
    """Returns in a process whose driver of CUDA is the software device; else starts again, or skips."""
    folder = os.path.join(os.environ.get("TEST_BINARY_DIR", ""), "lib", "software_device")
    known = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    if known[0] == folder:
        return
    if not os.path.exists(os.path.join(folder, "libcuda.so.1")):
        _skip("there is no software device: it is part of a build with tests")
    os.environ.update(LD_LIBRARY_PATH=os.pathsep.join(filter(None, [folder, *known])), SOFTDEV_DEVICES=str(devices))
    os.execv(sys.executable, [sys.executable, "-B", *sys.argv])


def find(*modules):
    """Returns if `tutti` and these modules can be imported; else starts again or skips."""
    if "PACKAGE_UNDER_TEST" not in os.environ:
        installed = os.environ.get("PACKAGE_TEST_PYTHON")
        if installed:
            _again(installed, None)
        folder = os.path.join(os.environ.get("TEST_BINARY_DIR", ""), "lib", "python")
        try:
            with open(os.path.join(folder, "built_for"), encoding="utf-8") as file:
                python = file.read().strip()
        except OSError:
            _skip("the package for Python is not built: configure with "
                  "-DTUTTI_PYTHON=<a Python with nanobind, nanobind-backend and numpy>")
        if not os.access(python, os.X_OK):
            _skip(f"{python}, for which the package was built, is gone")
        _again(python, folder)
    for module in modules:
        try:
            __import__(module)
        except ImportError as error:
            _skip(f"{module} is not installed for {sys.executable} ({error})")
