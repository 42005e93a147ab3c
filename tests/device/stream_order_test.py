#!/usr/bin/env python3
"""The calls of a communicator keep their order on streams whose handles come again, or are shared by
threads, by copy engines and through the host. The control is a driver whose streams do not wait for
events, as if the library forgot that: then the results are wrong."""

import os
import subprocess
import sys
import unittest

BUILD = os.environ.get("TEST_BINARY_DIR", "build")
STREAMS = ("other", "again", "per_thread", "legacy")


def run(*arguments, **variables):
    environment = dict(os.environ, LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "software_device"),
                       TUTTI_DEVICE_RING_BYTES="2M", SOFTDEV_DEVICES="2")
    environment.update(variables)
    command = [os.path.join(BUILD, "bin", "tests", "stream_order"), *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)


class StreamOrder(unittest.TestCase):
    def check(self, *arguments, **variables):
        done = run(*arguments, **variables)
        self.assertEqual(done.returncode, 0, done.stdout[-4000:] + done.stderr[-4000:])

    def check_wrong(self, *arguments, **variables):
        done = run(*arguments, "--rounds", 60, SOFTDEV_EVENT_WAITS="0", **variables)
        self.assertEqual(done.returncode, 1, done.stdout[-4000:] + done.stderr[-4000:])
        self.assertIn("WRONG", done.stdout)

    def test_by_copy_engines(self):
        for streams in STREAMS:
            self.check("--on", streams)

    def test_through_the_host(self):
        for streams in STREAMS:
            self.check("--on", streams, TUTTI_ENGINE="host")

    def test_without_kernels_and_by_tcp(self):
        self.check("--on", "again", SOFTDEV_KERNELS="0")
        self.check("--on", "per_thread", TUTTI_TRANSPORTS="tcp")

    def test_one_call_by_copy_engines_and_one_by_the_host(self):
        for streams in ("other", "again"):
            for engines in (1, 2):
                self.check("--on", streams, "--engines", engines)

    def test_in_one_group(self):
        self.check("--on", "one")
        self.check("--on", "one", TUTTI_ENGINE="host")
        self.check("--on", "one", "--engines", 2)

    def test_a_rank_alone_needs_no_memory_for_a_ring(self):
        scarce = {"TUTTI_DEVICE_RING_BYTES": "64M", "SOFTDEV_MEMORY_MB": "32", "TUTTI_LOG": "info"}
        alone = run("--ranks", 1, **scarce)
        self.assertEqual(alone.returncode, 0, alone.stdout + alone.stderr)
        self.assertNotIn("goes by the host", alone.stderr)
        self.assertIn("goes by the host", run(**scarce).stderr)

    def test_a_library_that_orders_nothing_is_wrong(self):
        for streams in ("other", "again", "per_thread"):
            self.check_wrong("--on", streams)
        self.check_wrong("--on", "other", TUTTI_ENGINE="host")
        self.check_wrong("--on", "again", "--engines", 1)


if __name__ == "__main__":
    sys.exit(unittest.main())
