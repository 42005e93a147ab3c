#!/usr/bin/env python3
"""docs/topologies: what is shown there is what the programs say, of the two small clusters here, of all of
them in slow_topology_examples_test.py."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "topologies"


def examples(*arguments):
    return subprocess.run([sys.executable, "-B", ROOT / "tools" / "topology-examples", *map(str, arguments)],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300,
                          check=False)


class Examples(unittest.TestCase):
    def test_those_of_small_clusters_are_what_is_printed(self):
        done = examples("--check", "one_host.json", "two_racks.json")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_every_cluster_is_described_predicted_simulated_and_drawn(self):
        page = (PAGES / "README.md").read_text(encoding="utf-8")
        clusters = sorted(path.name for path in PAGES.glob("*.json"))
        self.assertEqual(len(clusters), 4)
        for name in clusters:
            with self.subTest(name):
                for command in (rf"topo {name}", rf"explain \w+ --topology {name}",
                                rf"sim \w+ --topology {name}"):
                    self.assertRegex(page, rf"(?m)^    \$ tutti {command}\b.*\n    \S")
                picture = name.replace(".json", ".svg")
                self.assertIn(f"]({picture})", page)
                ElementTree.parse(PAGES / picture)


class Changed(unittest.TestCase):
    """A copy of the folder in which something is not what is printed."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name, "topologies")
        shutil.copytree(PAGES, self.folder)
        self.page = self.folder / "README.md"

    def check(self, *more):
        return examples("--check", "--folder", self.folder, "one_host.json", *more)

    def test_output_is_found_and_written_anew(self):
        good = self.page.read_text(encoding="utf-8")
        bad = re.sub(r"(?m)^(    one host of) 8", r"\1 9", good, count=1)
        self.assertNotEqual(bad, good)
        self.page.write_text(bad, encoding="utf-8")
        done = self.check()
        self.assertEqual((done.returncode, done.stderr), (1, ""))
        self.assertIn("\n-    one host of 9 GPUs", done.stdout)
        self.assertIn("\n+    one host of 8 GPUs", done.stdout)
        self.assertEqual(self.page.read_text(encoding="utf-8"), bad)
        self.assertEqual(examples("--folder", self.folder, "one_host.json").returncode, 0)
        self.assertEqual(self.page.read_text(encoding="utf-8"), good)

    def test_a_picture_is_found(self):
        picture = self.folder / "one_host.svg"
        picture.write_text(picture.read_text(encoding="utf-8").replace("</svg>", "<g/></svg>"),
                           encoding="utf-8")
        done = self.check()
        self.assertEqual(done.returncode, 1)
        self.assertIn("one_host.svg as it is", done.stdout)

    def test_a_command_that_fails_is_named(self):
        (self.folder / "one_host.json").write_text("{", encoding="utf-8")
        done = self.check()
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("tutti topo one_host.json: exit status 1", done.stderr)


if __name__ == "__main__":
    unittest.main()
