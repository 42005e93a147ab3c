#!/usr/bin/env python3
"""All C and C++ files are as clang-format leaves them, by .clang-format.

Versions of clang-format differ in what they do, so only Debian bookworm's counts.
"""

import importlib.machinery
import importlib.util
import os
import re
import subprocess
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VERSION = 14


def load_tidy():
    loader = importlib.machinery.SourceFileLoader("tidy", os.path.join(ROOT, "tools", "tidy"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("tidy", loader))
    loader.exec_module(module)
    return module


def version():
    """The major version that is installed; None where there is none."""
    try:
        done = subprocess.run(["clang-format", "--version"], capture_output=True, text=True)
    except OSError:
        return None
    found = re.search(r"version (\d+)", done.stdout)
    return int(found.group(1)) if found else None


def complaints(command, **keywords):
    done = subprocess.run(["clang-format", "--dry-run", "-Werror", *command], cwd=ROOT,
                          capture_output=True, text=True, **keywords)
    return [line for line in done.stderr.splitlines() if "error:" in line]


class Format(unittest.TestCase):
    def test_every_file(self):
        files = load_tidy().list_files(ROOT)
        self.assertGreater(len(files), 100)
        self.assertEqual(complaints(files)[:20], [], "clang-format -i puts it right")

    def test_a_wrong_one_is_found(self):
        self.assertEqual(complaints(["--assume-filename=a.cc"], input="int a;\n"), [])
        self.assertNotEqual(complaints(["--assume-filename=a.cc"], input="int  a ;\n"), [])


if __name__ == "__main__":
    if version() != VERSION:
        print(f"clang-format {VERSION} is not installed (tools/install-packages --optional)")
        sys.exit(77)
    unittest.main()
