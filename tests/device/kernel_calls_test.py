#!/usr/bin/env python3
"""Short calls on device memory are one kernel each, eager and in graphs, where each rank has a device
of its own or MPS shares one, and none elsewhere; a rank that does not come is named at the deadline."""

import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from environment import clean_environment  # noqa: E402

BUILD = os.environ.get("TEST_BINARY_DIR", "build")
WAITS = "by one kernel that waits"
HOST, COPY, KERNEL = "1", "2", "3"


def run(program, *arguments, **variables):
    environment = dict(clean_environment(), TUTTI_DEVICE_RING_BYTES="2M", TUTTI_ENGINE="kernel",
                       LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "software_device"))
    environment.update(variables)
    return subprocess.run([os.path.join(BUILD, "bin", "tests", program), *arguments], text=True,
                          env=environment, capture_output=True, timeout=200)


class KernelCalls(unittest.TestCase):
    def right(self, done):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_calls_are_one_kernel_and_right(self):
        for ranks in ("2", "3", "5"):
            self.right(run("kernel_calls", "--ranks", ranks, SOFTDEV_DEVICES=ranks))

    def test_on_a_device_that_mps_shares(self):
        self.right(run("kernel_calls", "--ranks", "2", SOFTDEV_MPS="1"))

    def test_with_skew_and_one_queue(self):
        self.right(run("kernel_calls", "--ranks", "3", "--rounds", "1", SOFTDEV_DEVICES="3",
                       SOFTDEV_SKEW_US="500", SOFTDEV_CHANNELS="1"))

    def test_a_rank_that_is_late_is_named(self):
        for way in ("eager", "captured"):
            said = run("kernel_calls", "--late", way, SOFTDEV_DEVICES="3").stdout
            for rank in ("0", "1"):
                self.assertRegex(said, f"rank {rank}: .*(deadline.*rank 2|because of rank 2)")
            self.assertRegex(said, "rank .*: .*passed its deadline.*rank 2")

    def test_kernels_of_different_calls_are_named_with_both_calls(self):
        """Before any deadline, since there is none; also where the call is right on both sides of its capture."""
        for way, calls in (("captured", ("all_reduce of 100 ", "all_reduce of 101 ")),
                           ("replayed", ("all_reduce of 100 ", "all_reduce of 101 ")),
                           ("eager", ("all_reduce of 100 ", "all_reduce of 101 ")),
                           ("silent", ("all_gather of 100 ", "all_to_all of 100 "))):
            done = run("kernel_calls", "--differs", way, SOFTDEV_DEVICES="3")
            lines = [line for line in done.stdout.splitlines() if line.startswith("rank ")]
            self.assertEqual(len(lines), 3, done.stdout + done.stderr)
            both = [line for line in lines if "kernels of different calls have met" in line
                    and all(call in line for call in calls)]
            self.assertTrue(both, way + ": " + done.stdout)
            for line in lines:
                self.assertRegex(line, "rank 2", way)
                self.assertNotIn("deadline", line)
            warned = "call 1 of captured graph 1 differs" in done.stderr
            self.assertEqual(warned, way in ("captured", "silent"), way)

    def test_no_function_is_loaded_beside_a_kernel_that_waits(self):
        """All are loaded when the communicator is made; the device waits for kernels before it loads one."""
        self.right(run("kernel_calls", "--first", "1", SOFTDEV_DEVICES="3"))
        fault = run("kernel_calls", "--first", "1", SOFTDEV_DEVICES="3", SOFTDEV_FUNCTION_LOADS="2")
        self.assertEqual(fault.returncode, 1)
        self.assertIn("passed its deadline", fault.stdout + fault.stderr)

    def test_two_communicators_in_different_orders(self):
        """At the deadline both calls are named, by kernels that wait, also in graphs, and by streams."""
        for how, engine, mailboxes in (("1", "kernel", "8M"), ("2", "kernel", "8M"), ("1", "auto", "0")):
            said = run("kernel_calls", "--swapped", how, SOFTDEV_DEVICES="3", TUTTI_ENGINE=engine,
                       TUTTI_MAILBOX_BYTES=mailboxes).stdout
            both = [line for line in said.splitlines() if "passed its deadline" in line
                    and "all_reduce" in line and "all_gather" in line]
            self.assertTrue(both, said)
            self.assertIn("of another communicator waits on the same device, too", both[0])

    def test_bits_of_every_type_and_operation(self):
        """Deterministic calls fold in the tree that streams and the host fold in."""
        for ranks, seed in (("4", "1"), ("3", "5"), ("2", "3")):
            self.right(run("device_reductions", "--waits", "1", "--ranks", ranks, "--seed", seed,
                           TUTTI_MAILBOX_BYTES="8M", SOFTDEV_DEVICES=ranks))

    def test_wrong_bits_and_calls_by_streams_are_noticed(self):
        for wrong in (("--plant", "1"), ("--plant", "0")):
            mailboxes = "8M" if wrong[1] == "1" else "0"
            done = run("device_reductions", "--waits", "1", "--ranks", "2", *wrong,
                       TUTTI_MAILBOX_BYTES=mailboxes, SOFTDEV_DEVICES="2")
            self.assertEqual(done.returncode, 1, done.stdout)

    def test_ranks_that_die_or_abort_while_kernels_wait(self):
        for fault in ("kill", "midway", "abort", "late"):
            self.right(run("device_faults", "--fault", fault, SOFTDEV_DEVICES="4"))
        for fault in ("kill", "stop"):
            self.right(run("device_deaths", "--fault", fault, "--rounds", "3", SOFTDEV_DEVICES="4"))


class WhichCalls(unittest.TestCase):
    def explained(self, *arguments, **variables):
        done = run("engines", *arguments, **{"TUTTI_ENGINE": "auto", **variables})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_where_each_rank_has_a_device(self):
        self.assertEqual(self.explained(SOFTDEV_DEVICES="3").count(WAITS), 2)
        self.assertEqual(self.explained(SOFTDEV_MPS="1").count(WAITS), 2)

    def test_never_where_ranks_take_turns_on_one(self):
        said = self.explained("--config", KERNEL)
        self.assertNotIn(WAITS, said)
        self.assertIn("which other ranks use without MPS", said)

    def test_never_where_blocks_are_not_resident(self):
        said = self.explained(SOFTDEV_MPS="1", SOFTDEV_MULTIPROCESSORS="5")
        self.assertIn("holds 20 thread blocks at once", said)

    def test_all_ranks_choose_alike_where_the_root_alone_needs_scratch_memory(self):
        """A reduce of this job, of 735 KiB of 16 bits, among three."""
        done = run("random_calls", "--seed", "25", "--calls", "40", "--ranks", "4", "--no-large", "--devices",
                   "--processes", "--calls-before", "0", "--job", "0", TUTTI_ENGINE="auto", SOFTDEV_DEVICES="4",
                   SOFTDEV_MEMORY_MB="16384")
        self.assertEqual(done.returncode, 0, done.stdout[:4000])

    def test_never_where_it_was_forbidden(self):
        said = self.explained(SOFTDEV_DEVICES="3", TUTTI_MAILBOX_BYTES="0")
        self.assertIn("since TUTTI_MAILBOX_BYTES is 0", said)
        for engine in (HOST, COPY):
            self.assertNotIn(WAITS, self.explained("--config", engine, SOFTDEV_DEVICES="3"))
        self.assertNotIn(WAITS, self.explained(SOFTDEV_DEVICES="3", TUTTI_ENGINE="copy_engine"))

    def test_never_where_a_ring_is_pinned_or_mailboxes_are_too_small(self):
        self.assertIn("pinned host memory", self.explained("--pinned", "1", SOFTDEV_DEVICES="3"))
        self.assertIn("needs mailboxes of", self.explained(SOFTDEV_DEVICES="3", TUTTI_MAILBOX_BYTES="64K"))


if __name__ == "__main__":
    unittest.main()
