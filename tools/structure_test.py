#!/usr/bin/env python3
"""tools/structure counts what is there, and fails where a bound is passed or a walk of the page is none."""

import importlib.machinery
import importlib.util
import os
import pathlib
import shutil
import tempfile
import unittest

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "structure")


def load():
    loader = importlib.machinery.SourceFileLoader("structure", TOOL)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("structure", loader))
    loader.exec_module(module)
    return module


def has_ctags():
    return shutil.which("ctags") is not None


@unittest.skipUnless(has_ctags(), "there is no ctags")
class Structure(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)
        self.tool = load()
        self.tool.ROOT = folder.name

    def write(self, name, text):
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def test_members_methods_and_lines_of_a_class_are_counted(self):
        self.write("src/a/box.h", "class Box {\n public:\n  Box();\n  int size() const { return size_; }\n"
                                  "  void fill(int with);\n\n private:\n  int size_ = 0;\n  int with_ = 0;\n};\n")
        self.write("src/a/box.cc", "Box::Box() = default;\nvoid Box::fill(int with) {\n  with_ = with;\n}\n")
        members, methods, lines, files = self.tool.size_of("Box", "src/a/box")
        self.assertEqual((members, methods, files), (2, 3, 2))
        self.assertGreaterEqual(lines, 4)

    def test_a_walk_is_what_calls_each_other(self):
        self.write("src/a/way.cc", "void last() {\n}\nvoid first() {\n  last();\n}\nvoid alone() {\n}\n")
        self.assertEqual(self.tool.check_walk(["src/a/way.cc:first", "src/a/way.cc:last"]), "")
        self.assertIn("does not call", self.tool.check_walk(["src/a/way.cc:alone", "src/a/way.cc:last"]))
        self.assertIn("does not call", self.tool.check_walk(["src/a/way.cc:first", "src/a/way.cc:gone"]))
        self.assertIn("has no function", self.tool.check_walk(["src/a/way.cc:gone", "src/a/way.cc:last"]))

    def test_a_walk_is_read_from_the_page(self):
        page = "# A\n### One\n| | function | file | what |\n|---|---|---|---|\n| | `first` | `src/a/way.cc` | x |\n" \
               "| * | `last` | `src/a/b.h` | |\n### Two\n| | `other` | `c.cc` | |\n"
        self.assertEqual(self.tool.walk_of("One", page), ["src/a/way.cc:first", "~src/a/b.h:last"])
        self.assertEqual(self.tool.walk_of("None", page), [])
        self.assertIn("no table", self.tool.check_walk([]))

    def test_a_walk_through_a_file_that_is_gone(self):
        self.write("src/a/way.cc", "void first() {\n  last();\n}\n")
        self.assertIn("does not call", self.tool.check_walk(["src/a/way.cc:first", "src/b/way.cc:later"]))
        self.assertIn("there is no src/b/way.cc", self.tool.check_walk(["src/a/way.cc:first", "src/b/way.cc:last"]))

    def test_what_is_handed_on_is_called_too(self):
        self.write("src/a/way.cc", "void catching(int) {\n}\nvoid last() {\n}\nvoid first() {\n  catching(last());\n}\n")
        self.assertEqual(self.tool.check_walk(["src/a/way.cc:first", "~src/a/way.cc:catching", "src/a/way.cc:last"]), "")

    def test_files_that_include_each_other_are_a_circle(self):
        self.write("src/a/one.h", '#include "src/a/two.h"\n')
        self.write("src/a/two.h", "int two();\n")
        self.write("src/a/two.cc", '#include "src/a/three.h"\n')
        self.write("src/a/three.h", "int three();\n")
        self.assertEqual(self.tool.circle_of("src/a"), [])
        self.write("src/a/three.cc", '#include "src/a/one.h"\n')
        self.assertEqual(self.tool.circle_of("src/a"), ["src/a/one", "src/a/three", "src/a/two"])

    def test_a_word_is_counted_in_names_as_well(self):
        self.write("src/api/call.cc", "bool is_direct();\nint directory;  // direct\n")
        self.assertEqual(self.tool.count_word("direct", "src/api"), 2)

    def test_a_bound_that_is_passed_is_a_fault(self):
        report = self.tool.Report()
        report.bound("files", 3, 3)
        report.bound("files", 3, None)
        self.assertEqual(report.faults, [])
        report.bound("files", 4, 3)
        self.assertEqual(len(report.faults), 1)


@unittest.skipUnless(has_ctags(), "there is no ctags")
class House(unittest.TestCase):
    def test_no_figure_is_above_its_bound(self):
        report = load().Report()
        for part in (report.classes, report.walks, report.circles, report.words):
            part()
        self.assertEqual(report.faults, [])


if __name__ == "__main__":
    unittest.main()
