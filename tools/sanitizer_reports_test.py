#!/usr/bin/env python3
"""A sanitizer's report must fail the run wherever it was made: here in processes whose exit status and
output the test program throws away."""

import os
import platform
import subprocess
import sys
import tempfile
import unittest

TOOLS = os.path.dirname(os.path.abspath(__file__))
CMAKE = os.path.join(os.path.dirname(TOOLS), "cmake")
CHECKER = f"{sys.executable};-B;{TOOLS}/sanitizer-reports"

# As cmake/TuttiCompiler.cmake has them.
ADDRESS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
THREAD = ["-fsanitize=thread"]

# Looks like a GoogleTest program with the suites Planted, whose child does CHILD, and Quiet.
PROGRAM = """
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
int shared = 2147483647;
void* kept;
void add() { for (int i = 0; i < 1000; ++i) shared = shared / 2; }
void child() { CHILD }
void report(const char* option) {
  FILE* file = fopen(option + strlen("--gtest_output=xml:"), "w");
  fputs("<testsuites><testcase name='Case' status='run'/></testsuites>", file);
  fclose(file);
}
int main(int argc, char** argv) {
  if (strcmp(argv[1], "--gtest_list_tests") == 0) return puts("Planted.\\n  Case\\nQuiet.\\n  Case") < 0;
  report(argv[2]);
  if (strstr(argv[1], "Quiet") != nullptr) return 0;
  if (fork() == 0) {
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, 1);
    dup2(nowhere, 2);
    child();
  }
  wait(nullptr);
  return 0;
}
"""
RACE = "std::thread a(add), b(add); a.join(); b.join(); _exit(0);"
OVERFLOW = "shared += shared; _exit(0);"
STRAY = "kept = new char[8]; shared = static_cast<char*>(kept)[shared % 2 + 8]; _exit(0);"
LEAK = "kept = new char[8]; kept = nullptr; exit(0);"


class SanitizerReports(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def build(self, flags, child):
        with open(os.path.join(self.folder, "program.cc"), "w", encoding="utf-8") as file:
            file.write(PROGRAM.replace("CHILD", child))
        compiler = os.environ.get("CXX", "g++")
        subprocess.run([compiler, *flags, "-g", "-pthread", "program.cc", "-o", "program"],
                       cwd=self.folder, check=True)

    def run_suites(self):
        """What ctest says of the program, and what tools/test says of that."""
        with open(os.path.join(self.folder, "CTestTestfile.cmake"), "w", encoding="utf-8") as file:
            for name, value in (("program", f"{self.folder}/program"), ("prefix", "some_test"),
                                ("label", "fast"), ("results", f"{self.folder}/test-results"),
                                ("report_checker", CHECKER)):
                file.write(f'set(suite_{name} "{value}")\n')
            file.write(f'include("{CMAKE}/register_suites.cmake")\n')
        # As in tools/test.
        done = subprocess.run(["setarch", platform.machine(), "--addr-no-randomize", "ctest",
                               "--output-on-failure", "--label-regex", "^fast$",
                               "--output-junit", "ctest.xml"],
                              cwd=self.folder, capture_output=True, text=True)
        summary = subprocess.run([sys.executable, "-B", f"{TOOLS}/test_summary.py", f"x={self.folder}"],
                                 capture_output=True, text=True)
        return done, summary

    def expect_found(self, flags, child, words):
        self.build(flags, child)
        done, summary = self.run_suites()
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertIn(words, done.stdout)
        self.assertIn("==== some_test.Planted, process", done.stdout)
        self.assertNotEqual(summary.returncode, 0)
        self.assertRegex(summary.stdout, r"FAILED \[x\] some_test.sanitizer_reports.some_test.Planted.\d+")
        self.assertTrue(summary.stdout.endswith("2 passed, 1 failed, 0 skipped\n"), summary.stdout)

    def test_a_race_in_a_forked_child(self):
        self.expect_found(THREAD, RACE, "WARNING: ThreadSanitizer: data race")

    def test_an_overflow_in_a_forked_child(self):
        self.expect_found(ADDRESS, OVERFLOW, "_overflow_abort")

    def test_a_stray_read_in_a_forked_child(self):
        self.expect_found(ADDRESS, STRAY, "heap-buffer-overflow")

    def test_a_leak_of_a_child_whose_exit_status_nobody_reads(self):
        self.expect_found(ADDRESS, LEAK, "detected memory leaks")

    def test_a_report_is_told_once_and_silence_passes(self):
        self.expect_found(THREAD, RACE, "data race")
        self.build(THREAD, "_exit(0);")
        done, summary = self.run_suites()
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertTrue(summary.stdout.endswith("3 passed, 0 failed, 0 skipped\n"), summary.stdout)


if __name__ == "__main__":
    unittest.main()
