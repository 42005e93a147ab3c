#!/usr/bin/env python3
"""What jobs leave for later ones of the same hosts, and how hosts that were left different things choose alike."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
import ports  # pylint: disable=wrong-import-position
from environment import clean_environment  # pylint: disable=wrong-import-position

TUTTI = os.path.join(os.environ.get("TEST_BINARY_DIR", "build"), "bin", "tutti")
HOSTS = ("alpha", "beta", "gamma")


class Models(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)

    def job(self, *command, **variables):
        """One rank on each host, each with a cache of its own. Returns what they write and log."""
        job = {**clean_environment(), "WORLD_SIZE": str(len(HOSTS)), "MASTER_ADDR": "127.0.0.1", "TUTTI_INSECURE": "1",
               "MASTER_PORT": str(ports.free_port()), "TUTTI_PORT": str(ports.free_port()),
               "TUTTI_LOG": "info", "XDG_CACHE_HOME": str(self.path)}
        ranks = [subprocess.Popen([TUTTI, *command], stdin=subprocess.DEVNULL, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  env={**job, "TUTTI_CACHE": str(self.path / host), **variables,
                                       "RANK": str(rank), "TUTTI_HOST_ID": host})
                 for rank, host in enumerate(HOSTS)]
        outputs = [rank.communicate(timeout=100) for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [0] * len(HOSTS), outputs)
        return outputs

    def perf(self, **variables):
        outputs = self.job("perf", "all_reduce", "-b", "64K", "-e", "1M", "-f", "16", "-n", "40", "-w", "0",
                           **variables)
        return [log for _, log in outputs]

    def kept(self, host):
        return sorted((self.path / host).glob("model-*.json"))

    def nothing_is_kept_where_it_is_off(self):
        logs = self.perf(TUTTI_CACHE="off")
        for log in logs:
            self.assertIn("algorithms are chosen by the library's own model", log)
        self.assertEqual([self.kept(host) for host in HOSTS], [[]] * len(HOSTS))

    def test_what_one_job_has_measured_the_next_one_chooses_by(self):
        self.nothing_is_kept_where_it_is_off()
        self.perf()
        for host in HOSTS:
            found = self.kept(host)
            self.assertEqual(len(found), 1, host)
            model = json.loads(found[0].read_text(encoding="utf-8"))
            self.assertEqual(model["hosts"], found[0].name[len("model-"):-len(".json")])
            self.assertEqual([level["name"] for level in model["levels"]], ["network"])
            self.assertGreater(model["levels"][0]["ns_per_byte"], 0)
        for log in self.perf():
            self.assertIn("algorithms are chosen by what rank 0 (process", log)
            self.assertIn("has kept of these hosts", log)

    def test_hosts_that_keep_different_models_choose_alike(self):
        hosts = self.perf()  # leaves the files, whose names say the set of hosts
        name = self.kept(HOSTS[0])[0].name
        for host, latency, rate in zip(HOSTS, (1e7, 1, 3e4), (1e-2, 1e3, 0.5)):
            model = {"tutti_model": 1, "hosts": name[len("model-"):-len(".json")],
                     "levels": [{"name": "network", "latency_ns": latency, "ns_per_byte": rate}]}
            (self.path / host / name).write_text(json.dumps(model), encoding="utf-8")
        for log in self.perf():  # would end with an error that says "model"
            self.assertIn("(2 ranks have other files)", log)
        self.assertEqual(len(hosts), len(HOSTS))

    def test_a_broken_file_is_a_line_of_its_host(self):
        self.perf()
        path = self.kept("beta")[0]
        path.write_text("{", encoding="utf-8")
        for other in ("alpha", "gamma"):
            self.kept(other)[0].unlink()
        logs = self.perf(TUTTI_TRACE_RECORDS="0")  # nothing is measured
        self.assertEqual([f"ignored: {path}:1" in log for log in logs], [False, True, False], logs)
        for log in logs:
            self.assertIn("the library's own model", log)

    def measured(self, **variables):
        """Which ranks' first communicators say that they measured; nothing is kept of the calls."""
        logs = self.perf(TUTTI_MEASURE="start", TUTTI_TRACE_RECORDS="0", **variables)
        return ["what was measured when it was made: network" in log for log in logs], logs

    def test_what_was_measured_at_start_the_next_job_chooses_by(self):
        self.assertEqual(self.measured()[0], [True] * len(HOSTS))
        kept = [path.read_text(encoding="utf-8") for host in HOSTS for path in self.kept(host)]
        self.assertEqual(len(kept), len(HOSTS))
        self.assertEqual(set(kept), {kept[0]})
        level = json.loads(kept[0])["levels"][0]
        self.assertGreater(level["latency_ns"], 0)
        self.assertGreater(level["ns_per_byte"], 0)
        for host in HOSTS[1:]:
            self.kept(host)[0].unlink()
        measured, logs = self.measured()
        self.assertEqual(measured, [False] * len(HOSTS))
        for log in logs:
            self.assertIn("what rank 0 (process", log)

    def test_a_file_of_other_hosts_is_ignored_and_measured_over(self):
        self.measured()
        path = self.kept("beta")[0]
        for host in HOSTS:
            model = json.loads(self.kept(host)[0].read_text(encoding="utf-8"))
            self.kept(host)[0].write_text(json.dumps({**model, "hosts": "3-0123456789abcdef"}), encoding="utf-8")
        measured, logs = self.measured()
        self.assertEqual(measured, [True] * len(HOSTS))
        self.assertIn(f"ignored: {path}: is of other hosts", logs[HOSTS.index("beta")])
        self.assertEqual(json.loads(path.read_text(encoding="utf-8"))["hosts"],
                         path.name[len("model-"):-len(".json")])

    def test_where_nothing_can_be_kept_a_line_says_so(self):
        (self.path / "beta").write_text("no folder", encoding="utf-8")
        measured, logs = self.measured()
        self.assertEqual(measured, [True] * len(HOSTS))
        self.assertEqual(["the network is measured again next time" in log for log in logs],
                         [False, True, False], logs)
        self.assertEqual([len(self.kept(host)) for host in ("alpha", "gamma")], [1, 1])

    def test_nothing_is_measured_where_a_file_says_what_messages_cost(self):
        model = self.path / "tuning.json"
        model.write_text('{"tutti_model": 1}', encoding="utf-8")
        self.assertEqual(self.measured(TUTTI_TUNING=str(model))[0], [False] * len(HOSTS))
        cluster = self.path / "cluster.json"
        cluster.write_text(json.dumps({
            "tutti_topology": 1, "levels": [{"name": "row", "latency_us": 5}, {"name": "host"}],
            "tree": {"children": [{"name": host} for host in HOSTS]}}), encoding="utf-8")
        self.assertEqual(self.measured(TUTTI_TOPOLOGY=str(cluster))[0], [False] * len(HOSTS))

    def explain(self, ranks, **variables):
        done = subprocess.run([TUTTI, "explain", "all_to_all", "--ranks", str(ranks), "-b", "1M", "-e", "1M"],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=100,
                              env={**clean_environment(), "TUTTI_CACHE": str(self.path), **variables})
        self.assertEqual(done.returncode, 0, done)
        return done.stdout

    def crowds(self):
        files = sorted(self.path.glob("model-1-*.json"))
        return [crowd for file in files for crowd in json.loads(file.read_text(encoding="utf-8"))["crowds"]]

    def measure(self, ranks):
        """Until it is kept: what is measured beside other work is not."""
        for _ in range(50):
            self.explain(ranks)
            if ranks in [crowd["ranks"] for crowd in self.crowds()]:
                return
        self.skipTest("this machine is too busy to measure")

    def test_ranks_of_one_host_measure_once(self):
        for off in ({"TUTTI_MEASURE": "off"}, {"TUTTI_CACHE": "off"}):
            self.assertIn("predicted by ", self.explain(2, **off))
            self.assertEqual(self.crowds(), [], off)
        self.assertIn("predicted by the library's own model", self.explain(2, TUTTI_MEASURE="off"))
        self.measure(2)
        pair = self.crowds()
        self.assertEqual([crowd["ranks"] for crowd in pair], [2])
        self.assertGreater(pair[0]["step_ns"], 0)
        self.assertGreater(pair[0]["copies"][0]["staged_ns"], 0)
        self.assertIn("predicted by what rank 0 (process", self.explain(2))
        self.assertEqual(self.crowds(), pair)  # a second measurement would have found other times
        self.measure(3)
        self.assertEqual(self.crowds()[0], pair[0])
        self.assertEqual([crowd["ranks"] for crowd in self.crowds()], [2, 3])

    def test_explain_says_which_numbers_decide_how_bytes_are_copied(self):
        self.measure(2)
        file = next(self.path.glob("model-1-*.json"))
        model = json.loads(file.read_text(encoding="utf-8"))
        if model["crowds"][0]["copies"][0]["single_ns"] == 0:
            self.skipTest("processes may not read each other's memory here")
        for staged, single, says in ((1000, 9000, "no"), (9000, 1000, "yes")):
            model["crowds"][0]["copies"] = [{"bytes": 65536, "staged_ns": staged, "single_ns": single}]
            file.write_text(json.dumps(model), encoding="utf-8")
            text = self.explain(2)
            self.assertIn(f"single copy: {says}, ", text)
            self.assertIn("by what rank 0 (process", text)
            self.assertIn("has kept of these hosts", text)

    def test_links_that_were_measured_are_a_model(self):
        self.job("topo", "--measure")
        self.assertEqual(len(self.kept("alpha")), 1)
        for log in self.perf():
            self.assertIn("what rank 0 (process", log)


if __name__ == "__main__":
    unittest.main()
