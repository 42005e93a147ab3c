"""What the tests of the drop-in share: a folder of programs of NCCL, built and run."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.environ.get("TEST_BINARY_DIR", "")
TUTTI = os.path.join(BUILD, "bin", "tutti")
LIBRARY = os.path.join(BUILD, "lib", "nccl", "libnccl.so.2")
OUR_HEADER = '"plugins/nccl/abi.h"'
TOOLKIT = "/usr/local/cuda/include"
NCCL_FOLDERS = ("/usr/local/cuda/lib", "/usr/local/cuda/lib64", "/usr/lib/x86_64-linux-gnu",
                "/usr/lib/aarch64-linux-gnu", "/usr/lib64")
STUB_RESULT = 77
LIMIT_SECONDS = 300
NEWER_NAMES = ("host_names_2.31.txt", "host_names_2.32.txt")
RANKS = range(1, 9)
# The version of NCCL whose header has all that a program calls; the others are content with the first.
SINCE = {"": 22803, "lifecycles": 22807, "one_sided": 22902, "queries": 23004, "configured": 23102}


def names(*lists):
    """The host functions of NCCL 2.30.7 and those of 2.31 and 2.32.3 that the drop-in has too, or of one list."""
    found = []
    for name in lists or ("host_names.txt", *NEWER_NAMES):
        with open(os.path.join(HERE, name), encoding="utf-8") as file:
            found += file.read().split()
    return found


def toolkit_header():
    """The folder of the CUDA toolkit's nccl.h and its version; skips the test where there is none."""
    folder = os.environ.get("TUTTI_CUDA_INCLUDE", TOOLKIT)
    try:
        with open(os.path.join(folder, "nccl.h"), encoding="utf-8") as file:
            found = re.search(r"#define NCCL_VERSION_CODE (\d+)", file.read())
    except OSError:
        found = None
    if found is None:
        raise unittest.SkipTest("no CUDA toolkit with nccl.h")
    return folder, int(found[1])


def nvidias_library():
    """The path of NVIDIA's own libnccl.so.2; skips the test where there is none."""
    known = [os.path.join(folder, "libnccl.so.2") for folder in NCCL_FOLDERS]
    named = os.environ.get("TUTTI_NCCL_LIBRARY")
    for path in [named] if named else known:
        if os.path.exists(path):
            return path
    raise unittest.SkipTest("NVIDIA's libnccl.so.2 is not installed")


def environment(**more):
    clean = {key: value for key, value in os.environ.items()
             if not key.startswith(("TUTTI_", "NCCL_", "LD_"))}
    return {**clean, "NCCL_SOCKET_IFNAME": "lo", **more}


def run(*command, **more):
    """The finished process; its output is text."""
    more.setdefault("env", environment())
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS, **more)


class Workshop:
    """A folder with a stand-in for NCCL, whose every call returns STUB_RESULT, and programs that are
    linked against it as they would be against NCCL. Owns: the folder."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="tutti-nccl-")
        self.stub_folder = os.path.join(self.folder, "stub")
        os.mkdir(self.stub_folder)
        calls = "".join(f"int {name}(void) {{ return {STUB_RESULT}; }}\n" for name in names())
        self.compile(self.write("stub.c", calls), os.path.join("stub", "libnccl.so.2"), "-shared",
                     "-fPIC", "-Wl,-soname,libnccl.so.2")
        os.symlink("libnccl.so.2", os.path.join(self.stub_folder, "libnccl.so"))

    def close(self):
        shutil.rmtree(self.folder)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def compile(self, source, name, *flags):
        path = os.path.join(self.folder, name)
        done = run("cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", f"-I{ROOT}",
                   f"-I{ROOT}/include", source, "-o", path, *flags)
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)
        return path

    def program(self, name, *flags, header=OUR_HEADER, library=None):
        """Builds tests/nccl/NAME.c as a program of NCCL, linked with the stand-in or with `library`."""
        folder = os.path.dirname(library) if library else self.stub_folder
        suffix = ("" if header == OUR_HEADER else "_toolkit") + ("_nvidia" if library else "")
        return self.compile(os.path.join(HERE, name + ".c"), name + suffix,
                            f"-DNCCL_HEADER={header}", *flags, f"-L{folder}", "-l:libnccl.so.2",
                            f"-Wl,-rpath,{folder}")


class WithWorkshop(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.workshop = Workshop()
        cls.addClassCleanup(cls.workshop.close)

    def succeeds(self, *command, **more):
        done = run(*command, **more)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout


class WithPrograms(WithWorkshop):
    """Runs programs of tests/nccl under `tutti run`, built with our header."""

    def built(self, name, *flags):
        return self.workshop.program(name, *flags)

    def runs(self, program, *arguments, **more):
        self.succeeds(TUTTI, "run", "--", program, *arguments, **more)

    def runs_on_every_number_of_ranks(self, name, *flags, before=(), after=(), ranks=RANKS, **more):
        program = self.built(name, *flags)
        for number in ranks:
            with self.subTest(program=name, arguments=before, ranks=number):
                self.runs(program, *before, str(number), *after, **more)


class WithTheToolkitsHeader:
    """For a second base behind it: the same with the CUDA toolkit's header, where there is one."""

    @classmethod
    def setUpClass(cls):
        cls.folder, cls.version = toolkit_header()
        super().setUpClass()

    def built(self, name, *flags):
        if self.version < SINCE.get(name, SINCE[""]):
            self.skipTest(f"the toolkit's nccl.h is {self.version}; {name} needs {SINCE[name]}")
        return self.workshop.program(name, f"-I{self.folder}", *flags, header="<nccl.h>")
