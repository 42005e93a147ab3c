#!/usr/bin/env python3
"""Tests of tools/tidy as a program: what the ratchet lets pass, its exit status, and what it reads."""

import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest

TOOLS = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, TOOLS)

from tidy_checks import ratchet  # noqa: E402
from tidy_checks.finding import Finding  # noqa: E402


def load_tidy():
    loader = importlib.machinery.SourceFileLoader("tidy", os.path.join(TOOLS, "tidy"))
    spec = importlib.util.spec_from_loader("tidy", loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


tidy = load_tidy()


class Ratchet(unittest.TestCase):
    finding = Finding("function-lines", "src/a.cc", 3, "f is long", "f", 90)
    key = ("function-lines", "src/a.cc:f")

    def test_covers_up_to_its_size(self):
        self.assertEqual(ratchet.apply([self.finding], {self.key: 90}, "r"), [])
        self.assertEqual(ratchet.apply([self.finding], {self.key: 89}, "r"), [self.finding])
        self.assertEqual(ratchet.apply([self.finding], {}, "r"), [self.finding])

    def test_an_entry_must_shrink_with_what_it_covers(self):
        self.assertEqual([f.check for f in ratchet.apply([self.finding], {self.key: 91}, "r")],
                         ["ratchet"])
        self.assertEqual([f.check for f in ratchet.apply([], {self.key: 91}, "r")], ["ratchet"])

    def test_findings_without_size_are_counted(self):
        goto = [Finding("goto", "a.cc", line, "goto") for line in (1, 2)]
        self.assertEqual(ratchet.apply(goto, {("goto", "a.cc"): 2}, "r"), [])
        self.assertEqual(len(ratchet.apply(goto, {("goto", "a.cc"): 1}, "r")), 2)

    def test_tighten_lowers_and_removes_only(self):
        text = "# why\n95 function-lines src/a.cc:f\n80 function-lines src/b.cc:g\n"
        self.assertEqual(ratchet.tighten(text, [self.finding]),
                         "# why\n90 function-lines src/a.cc:f\n")
        self.assertEqual(ratchet.tighten("80 function-lines src/a.cc:f\n", [self.finding]),
                         "80 function-lines src/a.cc:f\n")

    def test_malformed(self):
        with self.assertRaises(ValueError):
            ratchet.parse("function-lines src/a.cc:f 90\n")


class Program(unittest.TestCase):
    """The program in a checkout of its own, with a compiler."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        subprocess.run(["git", "init", "-q", self.root], check=True)

    def write(self, path, text):
        full = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)

    def run_tidy(self, *arguments):
        command = [sys.executable, "-B", os.path.join(TOOLS, "tidy"), "--root", self.root, *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def test_clean(self):
        self.write("src/base/a.h", "#pragma once\n#include <vector>\nusing A = std::vector<int>;\n")
        self.assertEqual(self.run_tidy(), (0, "tidy: 1 files, 0 findings\n"))

    def test_untracked_files_count_and_ignored_ones_do_not(self):
        self.write(".gitignore", "build/\n")
        self.write("build/a.cc", "int g;\n")
        self.assertEqual(self.run_tidy()[0], 0)
        self.write("src/base/a.cc", "int g;\n")
        self.assertEqual(self.run_tidy()[0], 1)

    def test_files_and_folders_that_are_named(self):
        self.write("src/base/a.cc", "void f() { goto g; }\n")
        self.write("src/plan/b.cc", "void f() {}\n")
        self.assertEqual(self.run_tidy("src/plan")[0], 0)
        self.assertEqual(self.run_tidy("src/base/")[0], 1)
        self.assertEqual(self.run_tidy("src/base/a.cc")[0], 1)
        status, output = self.run_tidy("src/base/b.cc")
        self.assertNotEqual(status, 0)
        self.assertIn("there is no 'src/base/b.cc'", output)

    def test_header_that_needs_another(self):
        self.write("src/base/a.h", "#pragma once\nusing A = std::vector<int>;\n")
        status, output = self.run_tidy()
        self.assertEqual(status, 1)
        self.assertIn("src/base/a.h:1: [header]", output)
        self.write("src/base/a.h", "#pragma once\n#include <vector>\nusing A = std::vector<int>;\n")
        self.assertEqual(self.run_tidy()[0], 0)

    def test_header_that_its_source_includes_first(self):
        """The build compiles it alone; here it would only be compiled again."""
        self.write("src/base/a.h", "#pragma once\nusing A = std::set<int>;\n")
        self.write("src/base/a.cc", '#include "src/base/a.h"\n')
        self.assertEqual(self.run_tidy()[0], 0)
        self.write("src/base/a.cc", '#include <set>\n\n#include "src/base/a.h"\n')
        self.assertIn("src/base/a.h:1: [header]", self.run_tidy()[1])
        self.write("src/base/a.cc", '#include "src/base/a.h"\n')
        self.write("src/base/a.h", "struct A {};\n")
        self.assertIn("[header]", self.run_tidy()[1])

    def test_name_without_its_header(self):
        self.write("src/base/a.cc", "std::vector<int> make();\n")
        self.assertIn("src/base/a.cc:1: [include]", self.run_tidy()[1])

    def test_header_without_guard(self):
        self.write("src/base/a.h", "struct A {};\n")
        self.assertIn("[header]", self.run_tidy()[1])

    def test_the_c_api_compiles_as_c(self):
        self.write("include/tutti/tutti.h", "// Owns: nothing\n#pragma once\nstruct A { int a{}; };\n")
        self.assertIn("[header]", self.run_tidy()[1])

    def test_a_header_of_an_optional_package(self):
        """It compiles where the package is installed, and is left out where it is not."""
        self.write("perf/a.h", "#pragma once\n#include <mpi.h>\nusing A = MPI_Comm;\n")
        self.assertEqual(self.run_tidy()[0], 0)
        self.write("perf/a.h", "#pragma once\n#include <mpx.h>\n")
        self.assertEqual(self.run_tidy()[0], 1)

    def test_what_compiled_is_remembered_until_something_below_it_changes(self):
        self.write("src/base/a.h", '#pragma once\n#include "src/base/b.h"\nusing A = B;\n')
        self.write("src/base/b.h", "#pragma once\nusing B = int;\n")
        self.assertEqual(self.run_tidy()[0], 0)
        # A compiler that refuses everything, but names itself as the real one does.
        fake = os.path.join(self.root, "fake")
        self.write("fake", '#!/bin/sh\n[ "$1" = --version ] && exec %s --version\nexit 1\n'
                   % os.environ.get("CXX", "g++"))
        os.chmod(fake, 0o755)
        self.assertEqual(self.run_tidy("--cxx", fake)[0], 0)
        self.write("src/base/b.h", "#pragma once\nusing B = long;\n")
        status, output = self.run_tidy("--cxx", fake)
        self.assertEqual(status, 1)
        self.assertIn("src/base/a.h:1: [header]", output)

    def test_ratchet_in_the_file(self):
        self.write("src/base/a.cc", "void f() {\n" + "  x();\n" * 80 + "}\n")
        self.assertEqual(self.run_tidy()[0], 1)
        self.write("tools/tidy.ratchet", "90 function-lines src/base/a.cc:f\n")
        self.assertIn("[ratchet]", self.run_tidy()[1])
        self.assertEqual(self.run_tidy("--tighten")[0], 0)
        with open(os.path.join(self.root, "tools/tidy.ratchet"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "82 function-lines src/base/a.cc:f\n")

    def test_layers_in_the_checkout(self):
        self.write("src/base/a.cc", '#include "../plan/plan.h"\n')
        self.write("src/plan/plan.h", "#pragma once\n")
        self.assertIn("no arrow from src/base to src/plan", self.run_tidy()[1])


if __name__ == "__main__":
    unittest.main()
