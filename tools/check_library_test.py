#!/usr/bin/env python3
"""Tests of tools/check-library: each thing it forbids is built and must be named."""

import os
import subprocess
import sys
import tempfile
import unittest

TOOLS = os.path.dirname(os.path.abspath(__file__))
CXX = os.environ.get("CXX", "g++")


class CheckLibrary(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "a.so")

    def check(self, code, *flags, soname="libtutti.so.0", unloads="nodelete"):
        subprocess.run([CXX, "-shared", "-fPIC", "-x", "c++", "-", "-o", self.path, f"-Wl,-z,{unloads}",
                        f"-Wl,-soname,{soname}", *flags], input=code, text=True, check=True)
        done = subprocess.run([sys.executable, "-B", os.path.join(TOOLS, "check-library"), self.path],
                              capture_output=True, text=True)
        return done.returncode, done.stdout

    def test_good(self):
        self.assertEqual(self.check('extern "C" int tuttiGood() { return 1; }'), (0, ""))

    def test_another_export(self):
        status, output = self.check("int other() { return 1; }")
        self.assertEqual(status, 1)
        self.assertIn("exports _Z5otherv", output)

    def test_the_drop_in(self):
        self.assertEqual(self.check('extern "C" int pncclGood() { return 1; }', soname="libnccl.so.2"), (0, ""))
        status, output = self.check('extern "C" int tuttiHidden() { return 1; }', soname="libnccl.so.2")
        self.assertEqual(status, 1)
        self.assertIn("exports tuttiHidden", output)

    def test_what_is_for_tools(self):
        status, output = self.check("namespace plan { [[gnu::visibility(\"hidden\"), gnu::used]] void each_mutant() {} }")
        self.assertEqual(status, 1)
        self.assertIn("each_mutant", output)

    def test_another_library(self):
        status, output = self.check("", "-Wl,--no-as-needed", "-lresolv")
        self.assertEqual(status, 1)
        self.assertIn("needs libresolv.so.2", output)

    def test_another_soname(self):
        self.assertEqual(self.check("", soname="libtutti.so.1")[0], 1)

    def test_unloading(self):
        status, output = self.check("", unloads="lazy")
        self.assertEqual(status, 1)
        self.assertIn("nodelete", output)

    def test_size(self):
        status, output = self.check("__attribute__((visibility(\"hidden\"))) extern const char a[11000001];"
                                    "const char a[11000001] = {1};")
        self.assertEqual(status, 1)
        self.assertIn("limit", output)


if __name__ == "__main__":
    unittest.main()
