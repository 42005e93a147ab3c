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

    def test_a_page_that_grows(self):
        self.assertIn("at most 250", self.findings("## Where to read on", "\n" * 100 + "## Where to read on")[0])

    def test_a_page_without_a_table(self):
        self.assertTrue(list(pages.check_arrows("# Architecture\n")))


class Glossary(unittest.TestCase):
    NAMES = {"Walk", "Plan", "Link"}
    PATHS = {"src", "src/plan", "src/topology", "src/plan/walk.h"}

    def findings(self, *entries):
        text = "# Glossary\n\n| Word | Meaning | In the code |\n|---|---|---|\n" + "\n".join(entries) + "\n"
        return [finding.message for finding in pages.check_glossary(text, self.NAMES, self.PATHS)]

    def test_entries_whose_places_exist_pass(self):
        self.assertEqual(self.findings("| walk | The control flow. | `plan::Walk` |",
                                       "| plan | A value. | `Plan`, `src/plan/walk.h` |"), [])

    def test_a_word_that_is_not_yet_there_and_is_a_folder(self):
        self.assertEqual(self.findings("| topology | Not yet: a tree. | `Plan` |"),
                         ["'topology' is not yet there, says its entry, and it is a folder"])
        self.assertEqual(self.findings("| proxy | Not yet: a thread. | `Plan` |"), [])

    def test_a_name_that_the_code_lacks(self):
        self.assertEqual(self.findings("| walk | The control flow. | `plan::Walker` |"),
                         ["'walk': the code has no plan::Walker"])
        self.assertEqual(self.findings("| walk | The control flow. | `src/plan/walker.h` |"),
                         ["'walk': the code has no src/plan/walker.h"])

    def test_an_entry_without_a_place(self):
        self.assertEqual(self.findings("| walk | The control flow. | |"), ["'walk' has no place in the code"])
        self.assertEqual(self.findings("| walk | The control flow. |"),
                         ["an entry has a word, its meaning and its place in the code"])

    def test_two_entries_of_one_word(self):
        self.assertEqual(self.findings("| walk | One. | `Walk` |", "| walk | Another. | `Walk` |"),
                         ["'walk' has an entry in line 5"])

    def test_a_section_of_a_folder_that_is_gone(self):
        self.assertEqual(self.findings("In `src/plan` and `src/engine`: words."), ["there is no folder src/engine"])

    def test_too_many_words(self):
        entries = [f"| word {number} | A word. | `Plan` |" for number in range(81)]
        self.assertEqual(len(self.findings(*entries)), 1)


if __name__ == "__main__":
    unittest.main()
