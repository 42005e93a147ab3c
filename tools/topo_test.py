#!/usr/bin/env python3
"""What `tutti topo` says of this host, beside what lstopo (package hwloc) says."""

import os
import shutil
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

TUTTI = os.path.join(os.environ.get("TEST_BINARY_DIR", ""), "bin", "tutti")
OF_HWLOC = {"Core": "core", "L1Cache": "L1", "L2Cache": "L2", "L3Cache": "L3", "NUMANode": "numa",
            "Package": "package"}
LSTOPO = shutil.which("lstopo-no-graphics") or shutil.which("lstopo")


def topo(*arguments):
    return subprocess.run([TUTTI, "topo", *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=60, check=False)


def processors_of(mask):
    """The numbers of hwloc's '0x00000001,,0x00000003', whose words have 32 bits."""
    words = [int(word, 16) if word else 0 for word in mask.split(",")]
    return frozenset(32 * i + bit for i, word in enumerate(reversed(words)) for bit in range(32)
                     if word >> bit & 1)


def sets_of_lstopo():
    text = subprocess.run([LSTOPO, "--of", "xml"], capture_output=True, text=True, check=True).stdout
    sets = {}
    for found in ElementTree.fromstring(text).iter("object"):
        level = OF_HWLOC.get(found.get("type"))
        if level and processors_of(found.get("cpuset")):
            sets.setdefault(level, set()).add(processors_of(found.get("cpuset")))
    return sets


def sets_of_tutti(*arguments):
    lines = topo("--processors", *arguments).stdout.splitlines()
    levels = lines[0].split()[2:]
    sets = {level: {} for level in levels}
    for line in lines[1:]:
        processor, *nodes = line.split()
        for level, node in zip(levels, nodes):
            sets[level].setdefault(node, set()).add(int(processor))
    return {level: {frozenset(node) for node in nodes.values()} for level, nodes in sets.items()}


class ThisHost(unittest.TestCase):
    @unittest.skipUnless(LSTOPO, "lstopo is not here (package hwloc)")
    def test_is_what_lstopo_says(self):
        expected = sets_of_lstopo()
        for reader in ("hwloc", "sysfs"):
            found = sets_of_tutti("--by", reader)
            self.assertEqual(len(found.pop("host")), 1)
            with self.subTest(reader):
                self.assertEqual(found, expected)

    def test_says_who_found_it(self):
        done = topo("--by", "sysfs")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("found by sysfs", done.stdout)

    def test_is_a_cluster_file_of_one_host(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "host.json")
            text = topo("--json").stdout
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            done = topo(path, "--json")
        self.assertEqual((done.returncode, done.stdout), (0, text))

    def test_an_unknown_reader_is_refused(self):
        done = topo("--by", "magic")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("there are hwloc and sysfs", done.stderr)


class Files(unittest.TestCase):
    def write(self, text):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "f.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def test_a_cluster_is_summed_up(self):
        path = self.write("""{"tutti_topology": 1, "name": "two racks",
            "levels": [{"name": "zone", "latency_us": 7},
                       {"name": "rack", "latency_us": 2, "port_GB_per_s": 50, "oversubscription": 2},
                       {"name": "host"}],
            "tree": {"children": [{"count": 2, "children": [{"count": 8, "ranks": 4}]}]}}""")
        done = topo(path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("two racks: 64 ranks", done.stdout)
        self.assertRegex(done.stdout, r"rack +2 nodes of 8 nodes of host, latency 2 us, uplink 200 GB/s")
        self.assertRegex(done.stdout, r"host +16 nodes of 4 ranks, uplink 50 GB/s")

    def test_a_broken_one_is_refused_with_its_line(self):
        path = self.write('{"tutti_topology": 1,\n "level": []}')
        done = topo(path)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn(f"tutti topo: {path}:2: the file has no 'level'; did you mean 'levels'?", done.stderr)


if __name__ == "__main__":
    unittest.main()
