#!/usr/bin/env python3
"""Calls that are captured into graphs run as often as the graphs do, beside eager calls; streams end
when a rank dies or aborts meanwhile, and behind the end of a communicator."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

BUILD = os.environ.get("TEST_BINARY_DIR", "build")


def run(*arguments, **variables):
    environment = dict(os.environ, LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "software_device"),
                       TUTTI_DEVICE_RING_BYTES="2M")
    environment.update(variables)
    command = [os.path.join(BUILD, "bin", "tests", "captured_calls"), *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)


class CapturedCalls(unittest.TestCase):
    def check(self, *arguments, **variables):
        done = run(*arguments, **variables)
        self.assertEqual(done.returncode, 0, done.stdout[-4000:] + done.stderr[-4000:])
        return done

    def test_random_graphs_with_slow_streams(self):
        self.check("--graphs", 4, "--replays", 8, "--seed", 1, SOFTDEV_SKEW_US="300",
                   SOFTDEV_PIECE_BYTES="4096")

    def test_random_graphs_of_two_hosts_beside_eager_calls(self):
        self.check("--ranks", "4", "--hosts", "2", "--seed", "3", "--graphs", "6")

    def test_calls_of_many_slices_in_branches_of_their_graphs(self):
        self.check("--graphs", 3, "--replays", 5, "--seed", 4, TUTTI_DEVICE_RING_BYTES="64K", SOFTDEV_SKEW_US="200")

    def test_one_queue_may_run_the_branches_in_any_order(self):
        # The branches that Tutti makes of one call. Calls that a program captures into branches of its own may
        # come in another order on every rank, which no library can mend.
        self.check("--graphs", 4, "--replays", 6, "--seed", 5, "--branches", 0, TUTTI_DEVICE_RING_BYTES="64K",
                   SOFTDEV_GRAPH_QUEUES="1", SOFTDEV_CHANNELS="1")

    def test_by_the_host_alone(self):
        self.check("--graphs", 2, "--replays", 5, "--seed", 2, TUTTI_DEVICE_RING_BYTES="0")

    def test_nothing_races_under_the_checker(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.check("--graphs", 1, "--replays", 2, "--seed", 3, "--words", 64,
                              SOFTDEV_CHECKER=os.path.join(folder, "checker"))
        self.assertNotIn("RACE", done.stderr)

    def test_streams_go_on_when_a_rank_is_killed(self):
        self.check("--fault", "kill", "--seed", 1)

    def test_streams_go_on_when_a_rank_aborts(self):
        self.check("--fault", "abort", "--seed", 1)

    def test_ranks_that_captured_other_calls_hear_which(self):
        for ranks in (2, 4):
            done = self.check("--fault", "differ", "--ranks", ranks)
            self.assertRegex(done.stderr, "call 1 of captured graph 1 differs: rank .*: all_reduce of 100[01] .*"
                                          "rank .*: all_reduce of 100[01] .*must capture the same calls")

    def test_ranks_whose_captured_transfers_differ_hear_of_both_ends(self):
        for ranks in (2, 3):
            done = self.check("--fault", "sizes", "--ranks", ranks)
            self.assertRegex(done.stderr, "transfer 1 of captured graph 1 differs: rank .*: send of 80.* bytes; rank")

    def test_a_rank_whose_graph_has_a_call_more_hears_it(self):
        self.check("--fault", "more", "--ranks", 3)

    def test_a_graph_that_is_thrown_away_disturbs_nobody(self):
        done = self.check("--fault", "discard", "--seed", 2)
        self.assertNotIn("of captured graph 2 differs", done.stderr)
        self.assertNotIn("of captured graph 3 differs", done.stderr)

    def test_a_deadline_names_the_rank_that_does_not_launch_its_graph(self):
        self.check("--fault", "late", "--ranks", 2)

    def test_a_graph_may_run_behind_its_communicators_end(self):
        done = self.check("--fault", "early")
        ranks = done.stdout.count("a graph ran behind its communicator's end")
        late = re.findall(r"rank \d .* of epoch 0 of communicator \w{16}, which is over since it was (\w+):", done.stderr)
        self.assertEqual(late, ["destroyed"] * ranks, done.stderr)
        self.assertGreater(ranks, 1)


if __name__ == "__main__":
    sys.exit(unittest.main())
