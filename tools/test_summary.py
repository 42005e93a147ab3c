#!/usr/bin/env python3
"""Adds up test runs: what ctest wrote about programs and what GoogleTest wrote about their cases.

  tools/test_summary.py KIND=BUILD_FOLDER...

Lists what failed, what was skipped with the reason, and the slowest suites; the last line is
'N passed, N failed, N skipped'. A folder has ctest.xml, and ctest-*.xml where ctest ran several times.
The exit status is 0 if something of every kind passed and nothing failed. A suite of GoogleTest that left no
report has failed, whatever its exit status: it ended before its cases did. (test-results/suites, written by
cmake/register_suites.cmake, names the suites.)
"""

import collections
import glob
import os
import sys
import xml.etree.ElementTree as ElementTree

Case = collections.namedtuple("Case", "name outcome reason")  # outcome: passed, failed or skipped
SLOWEST = 10


def gtest_cases(path, prefix):
    """The cases of one GoogleTest report; the reason of a skip is its message without the place."""
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = f"{prefix}.{case.get('name')}"
        skipped = case.find("skipped")
        if case.find("failure") is not None:
            yield Case(name, "failed", "")
        elif skipped is not None:
            reason = skipped.get("message", "").split("\n", 1)[-1]
            yield Case(name, "skipped", " ".join(reason.split()))
        elif case.get("status") == "run":
            yield Case(name, "passed", "")


def ctest_case(entry):
    """An entry of ctest that has no cases of its own."""
    if entry.get("status") == "run":
        return Case(entry.get("name"), "passed", "")
    skipped = entry.find("skipped")  # also where the program is missing: only SKIP_... was its choice
    if skipped is not None and skipped.get("message", "").startswith("SKIP_"):
        output = (entry.findtext("system-out") or "").strip().splitlines()
        return Case(entry.get("name"), "skipped", output[-1] if output else "")
    return Case(entry.get("name"), "failed", "")


def suites_of(folder):
    try:
        with open(os.path.join(folder, "test-results", "suites"), encoding="utf-8") as file:
            return set(file.read().splitlines())
    except OSError:
        return set()


def entry_cases(entry, folder, suites):
    name = entry.get("name")
    report = os.path.join(folder, "test-results", name.replace("/", "-") + ".xml")
    try:
        cases = list(gtest_cases(report, name))
    except (OSError, ElementTree.ParseError):
        cases = []
    if not cases and name in suites:
        return [Case(name, "failed", "it left no report of its cases")]
    if not cases:
        return [ctest_case(entry)]
    if entry.get("status") == "fail" and not any(case.outcome == "failed" for case in cases):
        cases.append(Case(name, "failed", "the cases passed, the program did not"))
    return cases


def entries_of(folder):
    """What ctest reported; raises where a report is missing or broken."""
    others = sorted(glob.glob(os.path.join(glob.escape(folder), "ctest-*.xml")))
    return [entry for report in [os.path.join(folder, "ctest.xml"), *others]
            for entry in ElementTree.parse(report).getroot().iter("testcase")]


def run_cases(folder):
    """The cases of a folder, and what it has as (seconds, suite)."""
    try:
        entries = entries_of(folder)
    except (OSError, ElementTree.ParseError) as error:
        return [Case("ctest", "failed", f"no report: {error}")], []
    suites = suites_of(folder)
    cases = [case for entry in entries for case in entry_cases(entry, folder, suites)]
    if not any(case.outcome == "passed" for case in cases):
        cases.append(Case("ctest", "failed", "nothing passed"))
    return cases, [(float(entry.get("time") or 0), entry.get("name")) for entry in entries]


def line_of(counts):
    return ", ".join(f"{counts[outcome]} {outcome}" for outcome in ("passed", "failed", "skipped"))


def main(arguments):
    total = collections.Counter()
    times = []
    for argument in arguments:
        kind, folder = argument.split("=", 1)
        cases, seconds = run_cases(folder)
        times += [(taken, f"[{kind}] {suite}") for taken, suite in seconds]
        counts = collections.Counter(case.outcome for case in cases)
        for case in cases:
            if case.outcome != "passed":
                reason = f": {case.reason}" if case.reason else ""
                print(f"{case.outcome.upper()} [{kind}] {case.name}{reason}")
        print(f"{kind}: {line_of(counts)}")
        total += counts
    print("slowest suites:")
    for taken, suite in sorted(times, reverse=True)[:SLOWEST]:
        print(f"  {taken:6.1f} s  {suite}")
    print(line_of(total))
    return 0 if arguments and not total["failed"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
