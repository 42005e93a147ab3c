#!/usr/bin/env python3
"""Tests of tools/test_summary.py on reports as ctest and GoogleTest write them."""

import os
import subprocess
import sys
import tempfile
import unittest

TOOLS = os.path.dirname(os.path.abspath(__file__))

PASSED = '<testcase name="{0}" status="run" result="completed"/>'
FAILED = '<testcase name="{0}" status="run" result="completed"><failure message="x"/></testcase>'
SKIPPED = '<testcase name="{0}" status="run" result="skipped"><skipped message="a.cc:1&#x0A;{1}"/></testcase>'


class TestSummary(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        os.mkdir(os.path.join(self.folder, "test-results"))
        self.entries = ""

    def ctest(self, name, status, inside="", seconds=1):
        self.entries += f'<testcase name="{name}" status="{status}" time="{seconds}">{inside}</testcase>'

    def gtest(self, file_name, *cases):
        path = os.path.join(self.folder, "test-results", file_name)
        with open(path, "w", encoding="utf-8") as file:
            file.write("<testsuites><testsuite>" + "".join(cases) + "</testsuite></testsuites>")

    def summary(self):
        with open(os.path.join(self.folder, "ctest.xml"), "w", encoding="utf-8") as file:
            file.write(f"<testsuite>{self.entries}</testsuite>")
        command = [sys.executable, "-B", os.path.join(TOOLS, "test_summary.py"), f"x={self.folder}"]
        done = subprocess.run(command, capture_output=True, text=True)
        lines = done.stdout.splitlines()
        return done.returncode, lines[-1], "\n".join(lines[:-1])

    def test_cases_count_where_there_is_a_report(self):
        self.ctest("a.S/0", "run")
        self.gtest("a.S-0.xml", PASSED.format("P"), PASSED.format("Q"), SKIPPED.format("R", "no GPU"))
        status, last, before = self.summary()
        self.assertEqual((status, last), (0, "2 passed, 0 failed, 1 skipped"))
        self.assertIn("SKIPPED [x] a.S/0.R: no GPU", before)

    def test_failed_case(self):
        self.ctest("a.S", "fail", "<failure/>")
        self.gtest("a.S.xml", PASSED.format("P"), FAILED.format("Q"))
        self.assertEqual(self.summary()[:2], (1, "1 passed, 1 failed, 0 skipped"))

    def test_a_crash_leaves_no_report(self):
        self.ctest("a.S", "fail", "<failure/>")
        self.ctest("tidy", "run")
        self.assertEqual(self.summary()[:2], (1, "1 passed, 1 failed, 0 skipped"))

    def test_a_program_that_fails_after_its_cases_passed(self):
        self.ctest("a.S", "fail", "<failure/>")
        self.gtest("a.S.xml", PASSED.format("P"))
        self.assertEqual(self.summary()[:2], (1, "1 passed, 1 failed, 0 skipped"))

    def test_a_suite_that_ends_before_its_cases_failed(self):
        with open(os.path.join(self.folder, "test-results", "suites"), "w", encoding="utf-8") as file:
            file.write("a.S/0\na.T\n")
        self.ctest("a.S/0", "run")
        self.ctest("a.T", "run")
        self.gtest("a.T.xml", PASSED.format("P"))
        self.ctest("tidy", "run")
        status, last, before = self.summary()
        self.assertEqual((status, last), (1, "2 passed, 1 failed, 0 skipped"))
        self.assertIn("FAILED [x] a.S/0: it left no report", before)

    def test_a_skipped_program_names_its_reason(self):
        self.ctest("tests.e2e_test", "notrun", '<skipped message="SKIP_RETURN_CODE=77"/>'
                   "<system-out>no MPI here\n</system-out>")
        self.ctest("tidy", "run")
        status, last, before = self.summary()
        self.assertEqual((status, last), (0, "1 passed, 0 failed, 1 skipped"))
        self.assertIn("SKIPPED [x] tests.e2e_test: no MPI here", before)

    def test_a_program_that_was_not_found_failed(self):
        self.ctest("a.NOT_BUILT", "notrun", '<skipped message="Unable to find executable"/>')
        self.ctest("tidy", "run")
        self.assertEqual(self.summary()[:2], (1, "1 passed, 1 failed, 0 skipped"))

    def test_reports_of_a_second_run_count(self):
        self.ctest("a", "run")
        with open(os.path.join(self.folder, "ctest-tidy.xml"), "w", encoding="utf-8") as file:
            file.write('<testsuite><testcase name="tidy" status="fail" time="2"/></testsuite>')
        status, last, before = self.summary()
        self.assertEqual((status, last), (1, "1 passed, 1 failed, 0 skipped"))
        self.assertIn("FAILED [x] tidy", before)

    def test_the_ten_slowest_are_listed_slowest_first(self):
        for number in range(12):
            self.ctest(f"suite{number:02}", "run", seconds=number + 0.5)
        before = self.summary()[2].splitlines()
        begin = before.index("slowest suites:") + 1
        self.assertEqual([line.split() for line in before[begin:]],
                         [[f"{number + 0.5}", "s", "[x]", f"suite{number:02}"]
                          for number in range(11, 1, -1)])

    def test_nothing_ran(self):
        self.assertEqual(self.summary()[:2], (1, "0 passed, 1 failed, 0 skipped"))

    def test_no_report_at_all(self):
        command = [sys.executable, "-B", os.path.join(TOOLS, "test_summary.py"), "x=/nonexistent"]
        self.assertEqual(subprocess.run(command, capture_output=True).returncode, 1)


if __name__ == "__main__":
    unittest.main()
