#!/usr/bin/env python3
"""tools/tidy compares the pages that say what the code is with the code."""

import os
import sys
import unittest

TOOLS = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, TOOLS)

from tidy_checks import pages  # noqa: E402


def page():
    with open(os.path.join(os.path.dirname(TOOLS), pages.ARCHITECTURE), encoding="utf-8") as file:
        return file.read()


class Arrows(unittest.TestCase):
    def findings(self, old, new):
        text = page()
        self.assertIn(old, text)
        return [finding.message for finding in pages.check_arrows(text.replace(old, new))]

    def test_the_page_has_the_arrows_of_the_code(self):
        self.assertEqual(list(pages.check_arrows(page())), [])

    def test_an_arrow_too_many(self):
        self.assertEqual(self.findings("plan verifier | schedule,", "plan verifier | exec, schedule,"),
                         ["layers.py has no arrow from src/plan to src/exec"])

    def test_an_arrow_too_few(self):
        self.assertEqual(self.findings("plan verifier | schedule,", "plan verifier |"),
                         ["layers.py has an arrow from src/plan to src/schedule"])

    def test_a_folder_too_many(self):
        self.assertEqual(self.findings("| `src/group` |", "| `src/groups` | x | nothing |\n| `src/group` |"),
                         ["layers.py has no folder 'src/groups'"])

    def test_a_folder_too_few(self):
        self.assertIn("the table lacks 'src/group'", self.findings("| `src/group` |", "| src/group |"))

    def test_a_page_without_a_table(self):
        self.assertTrue(list(pages.check_arrows("# Architecture\n")))


if __name__ == "__main__":
    unittest.main()
