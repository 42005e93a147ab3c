#!/usr/bin/env python3
"""One thread that has a rank on each of several devices makes their calls one after the other, in no
group, eager and in graphs: no call waits for the others, and none needs a thread of the host."""

import os
import subprocess
import sys
import unittest

BUILD = os.environ.get("TEST_BINARY_DIR", "build")


def run(*arguments, devices="3", **variables):
    environment = dict(os.environ, LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "software_device"),
                       SOFTDEV_DEVICES=devices, **{"TUTTI_DEVICE_RING_BYTES": "128K", **variables})
    command = [os.path.join(BUILD, "bin", "tests", "one_thread"), "--ranks", devices, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200)


class OneThread(unittest.TestCase):
    def check(self, *arguments, **variables):
        done = run(*arguments, **variables)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_by_streams_with_slices(self):
        for devices in ("2", "3", "5"):
            self.check(devices=devices, TUTTI_MAILBOX_BYTES="0")

    def test_with_one_hardware_queue_for_each_device(self):
        self.check(TUTTI_MAILBOX_BYTES="0", SOFTDEV_CHANNELS="1", SOFTDEV_GRAPH_QUEUES="1")

    def test_by_kernels_that_wait(self):
        self.check(TUTTI_ENGINE="kernel", TUTTI_DEVICE_RING_BYTES="2M")

    def test_with_slow_streams(self):
        self.check("--rounds", "1", TUTTI_MAILBOX_BYTES="0", SOFTDEV_SKEW_US="300")

    def test_calls_through_the_host_are_noticed(self):
        done = run(TUTTI_ENGINE="host")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("goes through the host", done.stdout)

    def test_a_thread_that_waits_before_it_calls_for_the_others_hears_who_is_late(self):
        done = run("--waits", "1", TUTTI_MAILBOX_BYTES="0")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stdout, "passed its deadline: it waits for rank [12]")


if __name__ == "__main__":
    sys.exit(unittest.main())
