#!/usr/bin/env python3
"""tools/figures counts comments and pages, by folder, without tests; rewritten folders stay so."""

import importlib.machinery
import importlib.util
import os
import subprocess
import tempfile
import unittest

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "figures")
MOST_WHO = 3.0  # in 1000 words of the comments of a folder that was once hard to read
READABLE = ("src/diagnosis", "src/bootstrap", "src/consensus", "transports/tcp")


def load():
    loader = importlib.machinery.SourceFileLoader("figures", TOOL)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("figures", loader))
    loader.exec_module(module)
    return module


def too_many(code, folders, most):
    return [folder for folder in folders if 1000 * code[folder].who > most * code[folder].words]


class Figures(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        subprocess.run(["git", "init", "-q", self.root], check=True)

    def write(self, name, text):
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        subprocess.run(["git", "-C", self.root, "add", name], check=True)

    def test_comments_pages_and_tests(self):
        self.write("src/a/b.h", "// A rank that waits, and whom it waits for.\nint who;\n")
        self.write("src/a/b_test.cc", "// Who is counted.\n")
        self.write("docs/" + "c.md", "Who waits?\n\nNobody.\n")
        self.write("tools/d.py", '"""Whose it is."""\nwhom = 1  # who\n')
        code, pages = load().count(self.root)
        one = code["src/a"]
        self.assertEqual((one.files, one.lines, one.words, one.who), (2, 3, 9, 1))
        self.assertEqual((code["tools"].words, code["tools"].who), (4, 2))
        self.assertEqual((pages["docs"].words, pages["docs"].who), (3, 1))

    def test_a_folder_with_too_many(self):
        self.write("src/a/b.h", "// A rank that waits, and whom it waits for.\n")
        self.write("src/c/d.h", "// A rank that waits.\n")
        code, _ = load().count(self.root)
        self.assertEqual(too_many(code, ("src/a", "src/c"), MOST_WHO), ["src/a"])


class House(unittest.TestCase):
    def test_folders_that_were_hard_to_read_stay_readable(self):
        tool = load()
        code, _ = tool.count(tool.ROOT)
        self.assertEqual(too_many(code, READABLE, MOST_WHO), [])


if __name__ == "__main__":
    unittest.main()
