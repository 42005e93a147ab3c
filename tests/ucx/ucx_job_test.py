#!/usr/bin/env python3
"""Jobs whose ranks talk by UCX, over its TCP on this machine. Skipped where there is no libucp."""

import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from environment import clean_environment  # noqa: E402

BUILD = pathlib.Path(os.environ.get("TEST_BINARY_DIR", "build")).resolve()
TUTTI = BUILD / "bin" / "tutti"
BY_UCX = {"TUTTI_TRANSPORTS": "ucx", "TUTTI_INSECURE": "1"}
PATIENCE_S = 100


def has_ucx():
    try:
        ctypes.CDLL("libucp.so.0", mode=os.RTLD_LAZY)
    except OSError:
        return False
    return True


class UcxJobs(unittest.TestCase):
    def start(self, *flags, **variables):
        job = subprocess.Popen([TUTTI, "perf", *flags], env={**clean_environment(), **variables}, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        self.addCleanup(job.kill)
        self.addCleanup(job.stdout.close)
        return job

    def finish(self, job):
        said, _ = job.communicate(timeout=PATIENCE_S)
        return job.returncode, said

    def test_frames_and_puts_carry_collectives(self):
        for registered in ("0", "1"):
            for collective in ("all_reduce", "all_to_all"):
                with self.subTest(collective, registered=registered):
                    status, said = self.finish(self.start(
                        collective, "--ranks", "3", "-b", "8", "-e", "512K", "-f", "256", "-n", "2", "-w", "1",
                        "-R", registered, "-v", **BY_UCX))
                    self.assertEqual(status, 0, said)
                    self.assertIn("# Out of bounds values : 0 OK", said)
                    self.assertRegex(said, r" ucx\n")

    def test_a_killed_rank_is_named_and_no_other_aborts(self):
        for registered in ("0", "1"):
            with self.subTest(registered=registered):
                job = self.start("all_reduce", "--ranks", "3", "-b", "256K", "-e", "256K", "-n", "100000", "-w", "1",
                                 "-R", registered, **BY_UCX)
                ranks = self.ranks_at_work(job)
                os.kill(ranks[-1], signal.SIGKILL)
                status, said = self.finish(job)
                self.assertNotEqual(status, 0, said)
                # UCX answers a put that its own TCP has carried, and ends the process where the one who put is
                # dead by then (docs/rdma.md). That is no abort of this library, and cannot be prevented by it.
                if registered == "1" and "Fatal: unexpected error: " in said:
                    self.assertIn("ucp_put_handler", said)
                    continue
                self.assertRegex(said, r"rank [01] lost rank 2 at UCX's ")
                self.assertEqual(said.count("died of signal"), 1, said)

    def ranks_at_work(self, job):
        """The processes of the ranks, once the header of the table is there."""
        for line in job.stdout:
            if "#wrong" in line:
                break
        time.sleep(0.2)  # so that messages are on their way
        children = pathlib.Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text(encoding="utf-8")
        ranks = sorted(map(int, children.split()))
        self.assertEqual(len(ranks), 3)
        return ranks

    def test_without_cards_it_needs_the_users_word(self):
        if os.path.isdir("/sys/class/infiniband") and os.listdir("/sys/class/infiniband"):
            self.skipTest("there are RDMA cards")
        status, said = self.finish(self.start("all_reduce", "--ranks", "2", "-b", "8", "-e", "8",
                                              TUTTI_TRANSPORTS="ucx"))
        self.assertNotEqual(status, 0, said)
        self.assertIn("is only used with TUTTI_INSECURE=1", said)

    def test_it_is_not_used_unless_it_is_named(self):
        status, said = self.finish(self.start("all_reduce", "--ranks", "2", "-b", "8", "-e", "8", "-n", "1", "-v",
                                              TUTTI_INSECURE="1", TUTTI_NCCL_SHM_DISABLE="1"))
        self.assertEqual(status, 0, said)
        self.assertRegex(said, r" tcp\n")


if __name__ == "__main__":
    if not has_ucx():
        print("skipped: there is no libucp.so.0 (Debian: libucx0)")
        sys.exit(77)
    sys.exit(unittest.main())
