#!/usr/bin/env python3
"""Lanes of the phases of schedules over levels, with long slices between two hosts, move the right bytes over
sockets: two host ids on one machine, frames so short that a slice has many parts within a host."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from environment import clean_environment  # noqa: E402
from ports import free_port  # noqa: E402

BUILD = pathlib.Path(os.environ.get("TEST_BINARY_DIR", "build")).resolve()
RANKS = 5
COLLECTIVES = ["all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce"]


class LevelsOverSockets(unittest.TestCase):
    def perf(self, collective, **variables):
        """tutti perf compares every element with the right one."""
        with tempfile.TemporaryDirectory() as folder:
            key = pathlib.Path(folder) / "key"
            key.touch(mode=0o600)
            key.write_text("7" * 64 + "\n", encoding="utf-8")
            port = free_port()
            ranks = []
            for rank in range(RANKS):
                own = {"RANK": rank, "WORLD_SIZE": RANKS, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": RANKS,
                       "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TUTTI_KEY_FILE": key,
                       "TUTTI_HOST_ID": "one" if rank < 3 else "two", **variables}
                ranks.append(subprocess.Popen(
                    [BUILD / "bin" / "tutti", "perf", collective, "-b", "1K", "-e", "4M", "-f", "16", "-n", "1",
                     "-w", "1", "-v"],
                    env={**clean_environment(), **{name: str(value) for name, value in own.items()}},
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
            for rank in ranks:
                self.addCleanup(rank.kill)
            said = [rank.communicate(timeout=100)[0] for rank in ranks]
            self.assertEqual([rank.returncode for rank in ranks], [0] * RANKS, "\n".join(said))
            return "\n".join(said)

    def test_every_collective_over_levels(self):
        for collective in COLLECTIVES:
            with self.subTest(collective):
                said = self.perf(collective, TUTTI_ALGORITHM=f"{collective}:hierarchical:3", TUTTI_FRAME_BYTES="4K")
                self.assertIn("hierarchical", said)


if __name__ == "__main__":
    sys.exit(unittest.main())
