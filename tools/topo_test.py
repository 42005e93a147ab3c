#!/usr/bin/env python3
"""What `tutti topo` says of this host, beside what lstopo (package hwloc) says."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
import ports  # pylint: disable=wrong-import-position

TUTTI = os.path.join(os.environ.get("TEST_BINARY_DIR", ""), "bin", "tutti")
OF_HWLOC = {"Core": "core", "L1Cache": "L1", "L2Cache": "L2", "L3Cache": "L3", "NUMANode": "numa",
            "Package": "package"}
MACHINES = os.path.join(ROOT, "docs", "topologies")
LSTOPO = shutil.which("lstopo-no-graphics") or shutil.which("lstopo")


def topo(*arguments, **variables):
    return subprocess.run([TUTTI, "topo", *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=60, check=False, env={**os.environ, **variables})


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


class Devices(unittest.TestCase):
    """NCCL's XML: files after real machines, and what Tutti finds here."""

    def test_files_of_real_machines_are_written_as_they_were_read(self):
        names = sorted(name for name in os.listdir(MACHINES) if name.endswith(".xml"))
        self.assertGreaterEqual(len(names), 3)
        for name in names:
            path = os.path.join(MACHINES, name)
            done = topo(path, "--xml")
            with self.subTest(name), open(path, encoding="utf-8") as file:
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertEqual(done.stdout, re.sub(r"<!--.*?-->\n", "", file.read()))

    def test_every_gpu_of_eight_has_a_card_behind_its_switch(self):
        done = topo(os.path.join(MACHINES, "eight_gpus_eight_nics.xml"))
        rows = [line.split()[2:] for line in done.stdout.splitlines() if line.startswith("gpu ")]
        self.assertEqual(len(rows), 8)
        for gpu, row in enumerate(rows):
            self.assertEqual(row[:8], ["LOC" if other == gpu else "NVL" for other in range(8)])
            self.assertEqual(row[8 + gpu], "PIX")
            self.assertEqual(row[8:].count("SYS"), 4)

    def test_what_is_found_here_is_read_again(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "host.xml")
            text = topo("--xml").stdout
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            self.assertEqual(topo(path, "--xml").stdout, text)
            done = topo("--xml", NCCL_TOPO_FILE=os.path.join(MACHINES, "virtual_machine.xml"))
            self.assertIn("ffff:ff:02.0", done.stdout)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text.replace("numaid", "numa_id"))
            done = topo(TUTTI_HOST_TOPOLOGY=path)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"{path}:2: <cpu> has no 'numaid'", done.stderr)

    def test_ranks_have_processors_of_their_own(self):
        lines = topo("--ranks", "1").stdout.splitlines()
        self.assertEqual(len(lines), 2)
        everything = {number for node in sets_of_tutti()["host"] for number in node}
        first, *_, last = sorted(everything)[:1] + sorted(everything)
        self.assertTrue(lines[1].endswith(f"{first}-{last}" if first != last else f"{first}"), lines)

    def test_rank_0_writes_the_devices_of_its_host(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "dump.xml")
            done = subprocess.run([TUTTI, "perf", "barrier", "--ranks", "2", "-n", "1", "-w", "0"],
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                                  check=False, env={**os.environ, "NCCL_TOPO_DUMP_FILE": path})
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(path, encoding="utf-8") as file:
                self.assertEqual(file.read(), topo("--xml").stdout)
            self.assertEqual(os.listdir(folder), ["dump.xml"])


class Measured(unittest.TestCase):
    """Links between every two ranks of this host, or between hosts where there are several."""

    def measure(self, folder, *arguments):
        return topo("--measure", *arguments, XDG_CACHE_HOME=folder)

    def test_every_pair_has_a_number_and_the_table_is_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            first = self.measure(folder, "--ranks", "3")
            self.assertEqual((first.returncode, first.stderr), (0, ""))
            rows = [line.split()[3:] for line in first.stdout.splitlines() if " rank " in line[:16]]
            self.assertEqual(len(rows), 6)
            for i, row in enumerate(rows):
                self.assertEqual(len(row), 3)
                self.assertEqual(row[i % 3], "-")
                self.assertTrue(all(float(value) > 0 for value in row if value != "-"), first.stdout)
            path = re.search(r"^kept in (.*)$", first.stdout, re.MULTILINE).group(1)
            again = self.measure(folder, "--ranks", "3")
            self.assertIn(f"from {path}; --again measures again", again.stdout)
            self.assertEqual(again.stdout.splitlines()[:8], first.stdout.splitlines()[:8])
            self.assertIn("kept in", self.measure(folder, "--ranks", "3", "--again").stdout)
            with open(path, "w", encoding="utf-8") as file:
                file.write("{}")
            broken = self.measure(folder, "--ranks", "3")
            self.assertIn(f"the file is ignored: {path}:1: this is no table of links", broken.stderr)
            self.assertIn("kept in", broken.stdout)

    def test_hosts_of_a_launched_job_meet_by_their_first_ranks(self):
        with tempfile.TemporaryDirectory() as folder:
            job = {**os.environ, "WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "TUTTI_INSECURE": "1",
                   "MASTER_PORT": str(ports.free_port()), "TUTTI_PORT": str(ports.free_port()),
                   "XDG_CACHE_HOME": folder}
            ranks = [subprocess.Popen([TUTTI, "topo", "--measure"], stdin=subprocess.DEVNULL, text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                      env={**job, "RANK": str(rank), "TUTTI_HOST_ID": host})
                     for rank, host in enumerate(("alpha", "beta", "beta"))]
            outputs = [rank.communicate(timeout=60) for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [0, 0, 0], outputs)
        self.assertEqual([len(output) > 0 for output, _ in outputs], [True, False, False])
        self.assertRegex(outputs[0][0], r"\nalpha +- +[0-9.]+\nbeta +[0-9.]+ +-\n")

    def test_more_than_sixteen_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.measure(folder, "--ranks", "17")
        self.assertEqual(done.returncode, 1)
        self.assertIn("at most 16 hosts", done.stderr)


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
