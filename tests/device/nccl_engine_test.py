#!/usr/bin/env python3
"""Calls by the engine nccl over the stand-in for NCCL (tests/software_nccl): right, eager and in graphs, also where
the drop-in is preloaded; refused with each reason once, and then made by other engines; ended with the culprit
where a rank is late, dies, aborts, or has an error of NCCL's own."""

import json
import os
import re
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from environment import clean_environment  # noqa: E402
import subprocess  # noqa: E402

BUILD = os.path.abspath(os.environ.get("TEST_BINARY_DIR", "build"))
STAND_IN = os.path.join(BUILD, "lib", "software_nccl", "libnccl.so.2")
OLDER = os.path.join(BUILD, "lib", "older_nccl", "libnccl.so.2")
LACKING = os.path.join(BUILD, "lib", "lacking_nccl", "libnccl.so.2")
DROP_IN = os.path.join(BUILD, "lib", "nccl", "libnccl.so.2")
BY_NCCL = "all_reduce on device memory: by NCCL 2.28.9"
NOT_BY = "on streams of devices goes not by NCCL, since "
NCCL, KERNEL = "4", "3"


class Run:
    """A program of the tests with the stand-in's log."""

    def __init__(self, program, *arguments, **variables):
        with tempfile.NamedTemporaryFile("r", suffix=".log") as log:
            environment = dict(clean_environment(), TUTTI_DEVICE_RING_BYTES="2M", TUTTI_ENGINE="nccl",
                               TUTTI_NCCL=STAND_IN, SOFTDEV_DEVICES="4", SOFTNCCL_LOG=log.name,
                               LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "software_device"))
            environment.update(variables)
            done = subprocess.run([os.path.join(BUILD, "bin", "tests", program), *arguments], text=True,
                                  env=environment, capture_output=True, timeout=200)
            self.status, self.out, self.err = done.returncode, done.stdout, done.stderr
            self.log = [line.split(" ", 1)[1] for line in log.read().splitlines()]

    def all(self):
        return f"{self.out}\n{self.err}\n{self.log[-30:]}"


class Right(unittest.TestCase):
    def right(self, *arguments, **variables):
        done = Run("nccl_calls", *arguments, **variables)
        self.assertEqual(done.status, 0, done.all())
        self.assertNotIn("stray", done.log)
        return done

    def by_nccl(self, *arguments, **variables):
        done = self.right(*arguments, **variables)
        self.assertIn(BY_NCCL, done.out)
        self.assertIn("kernel done", done.log)
        self.assertNotIn("kernel given up", done.log)
        return done

    def test_eager_calls_and_runs_of_graphs(self):
        for ranks in ("2", "3"):
            done = self.by_nccl("--ranks", ranks)
            self.assertIn("all_gather_v on device memory: by NCCL 2.28.9", done.out)
            self.assertIn("all_to_all_v on device memory: by copy engines", done.out)

    def test_calls_with_a_count_for_each_rank_are_groups_of_broadcasts_and_reduces(self):
        for seed in ("3", "4"):
            done = Run("direct_calls", "--ranks", "3", "--rounds", "40", "--seed", seed)
            self.assertEqual(done.status, 0, done.all())
            for call in (1, 2):  # reduces, broadcasts
                self.assertIn(f"call {call}", done.log)
            self.assertNotIn("each rank", done.err)
            self.assertNotIn("kernel given up", done.log)

    def test_calls_of_two_communicators_take_turns(self):
        self.assertEqual(self.by_nccl("--comms", "2").log.count("init 0 of 3"), 2)

    def test_ranks_that_come_late_and_one_queue(self):
        self.by_nccl("--rounds", "1", SOFTNCCL_RANK="1", SOFTNCCL_LATE_MS="20", SOFTDEV_SKEW_US="300",
                     SOFTDEV_CHANNELS="1")

    def test_a_communicator_that_takes_seconds(self):
        self.by_nccl("--rounds", "1", SOFTNCCL_RANK="1", SOFTNCCL_INIT_MS="1500")

    def test_a_group_that_shrinks_has_a_communicator_of_its_own(self):
        done = self.by_nccl("--rounds", "1", "--leave", "1")
        self.assertIn("init 0 of 2", done.log)

    def test_all_types_and_operations(self):
        for version, most in (("22809", 12), ("22200", 10)):  # 8-bit floats came later
            done = Run("nccl_types", SOFTNCCL_VERSION=version)
            self.assertEqual(done.status, 0, done.all())
            # Of each rank; gathers and scatters are messages.
            reductions = sum(done.log.count(f"call {kind}") for kind in (0, 1))
            self.assertEqual(reductions, 3 * most * 6, done.all())

    def test_options_that_name_it(self):
        done = self.by_nccl("--rounds", "1", "--ask", NCCL)
        self.assertIn("all_to_all_v on device memory: refused, since the options ask for another engine, but each rank "
                      "knows its own counts only",
                      done.out)

    def test_ranks_that_share_a_device_where_nccl_was_told_so(self):
        done = self.right("--ranks", "2", "--rounds", "1", SOFTDEV_DEVICES="1", SOFTNCCL_VERSION="23000",
                          NCCL_MULTI_RANK_GPU_ENABLE="1")
        self.assertIn("by NCCL 2.30.0", done.out)

    @unittest.skipUnless(os.path.exists(DROP_IN), "this build has no drop-in")
    def test_where_the_drop_in_is_preloaded_no_call_of_it_goes_astray(self):
        self.by_nccl("--rounds", "1", LD_PRELOAD=DROP_IN)

    def test_a_call_that_is_captured_first_goes_by_other_engines(self):
        done = self.by_nccl("--first", "captured")
        self.assertEqual(done.err.count("this one is captured before that"), 3, done.err)


class Refused(unittest.TestCase):
    """Whatever the reason, the calls are right, and each rank has it once in the log."""

    def refused(self, why, *arguments, times=3, **variables):
        done = Run("nccl_calls", "--rounds", "1", *arguments, **variables)
        self.assertEqual(done.status, 0, done.all())
        self.assertNotIn("by NCCL 2", done.out)
        self.assertRegex(done.out, f"all_reduce on device memory: by .*; not by NCCL, since .*{why}")
        self.assertEqual(done.err.count(NOT_BY), times, done.err)
        self.assertRegex(done.err, NOT_BY + f".*{why}")
        self.assertNotIn("kernel done", done.log)
        return done

    def test_no_library_or_one_that_cannot_be_used(self):
        self.refused("/nowhere.so", TUTTI_NCCL="/nowhere.so")
        self.refused("is too old", SOFTNCCL_VERSION="21701")
        self.refused("has no ncclReduceScatter", TUTTI_NCCL=LACKING)

    def test_ranks_that_share_a_device(self):
        self.refused("which NCCL 2.28.9 cannot", SOFTDEV_DEVICES="2")
        self.refused("NCCL_MULTI_RANK_GPU_ENABLE is 1", SOFTDEV_DEVICES="2", SOFTNCCL_VERSION="23000")

    def test_a_communicator_that_one_rank_cannot_make(self):
        done = self.refused("could not be made", SOFTNCCL_RANK="1", SOFTNCCL_INIT_RESULT="1")
        self.assertIn("out of memory", done.err)

    def test_a_configuration_that_is_refused(self):
        self.assertIn("the configuration is refused", self.refused("could not be made|configuration is refused",
                                                                   SOFTNCCL_CONFIG_RESULT="4").err)

    def test_options_that_ask_for_what_cannot_be_had(self):
        done = Run("engines", "--ask", NCCL, TUTTI_ENGINE="auto")
        self.assertEqual(done.status, 0, done.all())
        self.assertRegex(done.out, "all_reduce: .*ask for the engine nccl, but nobody asked for it when the communicator")
        self.assertNotIn("no error", done.out)
        self.assertEqual(done.log, [])

    def test_nobody_loads_it_who_does_not_ask(self):
        for engine in ("auto", "copy_engine", "kernel", "host"):
            self.assertEqual(Run("engines", TUTTI_ENGINE=engine).log, [])


class BetweenHosts(unittest.TestCase):
    """The level within a host is done by NCCL, what is between hosts by Tutti: network_lanes has ranks on hosts of
    two devices and more."""

    BY_LEVELS = "by NCCL 2.28.9 .* within hosts and messages between them"
    COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast")

    def run_lanes(self, *arguments, **variables):
        return Run("network_lanes", *arguments, **{"SOFTDEV_DEVICES": "8", "TUTTI_DEVICE_RING_BYTES": "256K",
                                                   **variables})

    def right(self, *arguments, **variables):
        done = self.run_lanes(*arguments, **variables)
        self.assertEqual(done.status, 0, done.all())
        self.assertNotIn("stray", done.log)
        self.assertNotIn("kernel given up", done.log)
        return done

    def by_levels(self, *arguments, **variables):
        done = self.right(*arguments, **variables)
        for collective in self.COLLECTIVES:
            self.assertRegex(done.out, f"(?m)^{collective} on device memory: {self.BY_LEVELS}")
        self.assertIn("kernel done", done.log)
        return done

    def test_two_hosts_of_two_devices_eager_and_in_graphs(self):
        done = self.by_levels("--ranks", "4", "--words", "30000", "--graph", "1")
        self.assertEqual(done.log.count("init 0 of 2"), 2, done.log)  # each host has one of its own
        self.assertRegex(done.out, "all_reduce .* 2 calls of the vendor's library|calls of the vendor's library")

    def test_short_calls_are_whole_calls_of_nccl(self):
        done = self.by_levels("--ranks", "4", "--words", "512", "--rounds", "1")
        for call in (3, 4):  # all_gather, reduce_scatter
            self.assertIn(f"call {call}", done.log)
        self.by_levels("--ranks", "4", "--words", "1", "--rounds", "1")

    def test_two_hosts_of_four_devices_with_slow_streams(self):
        self.by_levels("--ranks", "8", "--words", "9000", "--graph", "1", "--rounds", "1", SOFTDEV_SKEW_US="200")

    def test_hosts_of_different_sizes_and_of_one_device(self):
        self.right("--ranks", "5", "--hosts", "3", "--words", "9001", "--rounds", "1")
        done = self.right("--ranks", "2", "--hosts", "2", "--words", "9001", "--rounds", "1")
        self.assertRegex(done.out, "not by NCCL within hosts, since .*no two ranks are on one host")

    def test_one_hardware_queue_is_enough(self):
        self.by_levels("--ranks", "4", "--words", "20000", "--graph", "1", "--rounds", "1", SOFTDEV_CHANNELS="1")

    def test_a_rank_whose_nccl_is_late(self):
        self.by_levels("--ranks", "4", "--words", "9000", "--rounds", "1", SOFTNCCL_RANK="1", SOFTNCCL_LATE_MS="5")

    def test_where_one_host_has_none_no_host_uses_it(self):
        done = self.right("--ranks", "5", "--words", "3000", "--rounds", "1", SOFTNCCL_RANK="2",
                          SOFTNCCL_INIT_RESULT="1")
        self.assertRegex(done.out, "all_reduce on device memory: by streams within hosts .*; not by NCCL within hosts, "
                                   "since .*could not be made")
        self.assertNotIn("kernel done", done.log)

    def test_nobody_uses_it_who_does_not_ask(self):
        for engine in ("auto", "no_nccl"):
            done = self.right("--ranks", "4", "--words", "3000", "--rounds", "1", TUTTI_ENGINE=engine)
            self.assertEqual(done.log, [])

    def test_by_price(self):
        for ns, taken in ((1e-3, True), (1e12, False)):
            model = {"tutti_model": 1, "nccl": [{"collective": one, "ranks": 2, "calls": [{"bytes": 8, "ns": ns}]}
                                                for one in ("reduce_scatter", "all_gather")]}
            with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
                json.dump(model, file)
                file.flush()
                done = self.right("--ranks", "4", "--words", "3000", "--rounds", "1", "--only", "all_reduce",
                                  TUTTI_TUNING=file.name, TUTTI_ENGINE="auto")
            self.assertEqual("kernel done" in done.log, taken, done.all())
            said = self.BY_LEVELS if taken else "not by NCCL within hosts, since with what was measured of it"
            self.assertRegex(done.out, said)

    def test_what_nccl_loses_is_missed(self):
        """A plant: a kernel of one rank ends without its result."""
        done = self.run_lanes("--ranks", "4", "--words", "3000", "--only", "all_reduce", SOFTNCCL_RANK="1",
                              SOFTNCCL_LOSE_AT="2")
        self.assertEqual(done.status, 1, done.all())
        self.assertIn("is wrong", done.out)

    def test_ranks_that_die_abort_or_do_not_come(self):
        for fault in ("kill", "abort", "late"):
            with self.subTest(fault):
                done = self.run_lanes("--words", "3000", "--fault", fault, "--only", "all_reduce")
                self.assertEqual(done.status, 0, done.all())
                heard = dict(re.findall(r"^rank (\d): (.*)$", done.out, re.M))
                self.assertTrue({"0", "1", "2"} <= set(heard), done.all())
                for text in heard.values():
                    self.assertIn("rank 3", text)

    def test_a_kernel_that_stands_still_ends_at_the_deadline(self):
        done = self.run_lanes("--ranks", "4", "--words", "3000", "--only", "all_reduce", SOFTNCCL_RANK="1",
                              SOFTNCCL_STUCK_AT="3", TUTTI_TIMEOUT="1")
        self.assertEqual(done.status, 1, done.all())
        self.assertIn("kernel given up", done.log)


class Memory(unittest.TestCase):
    """NCCL's device memory is counted, and given back with the communicator's own where the library of all ranks can."""

    WHOLE = 64 << 20

    def run_suspended(self, *arguments, **variables):
        return Run("suspended", "--rounds", "2", *arguments,
                   **{"TUTTI_DEVICE_RING_BYTES": "512K", "SOFTNCCL_MEMORY_KB": str(self.WHOLE >> 10), **variables})

    def gives_back(self, *arguments, **variables):
        done = self.run_suspended(*arguments, **variables)
        self.assertEqual(done.status, 0, done.all())
        self.assertNotIn("stray", done.log)
        self.assertIn("kernel done", done.log)
        return int(re.search(r"gives back (\d+)", done.out)[1]), done

    def test_it_is_given_back_and_taken_again(self):
        for ranks in (2, 3):
            given, done = self.gives_back("--ranks", str(ranks))
            self.assertGreater(given, self.WHOLE)
            self.assertEqual((done.log.count("suspend"), done.log.count("resume")), (3 * ranks, 2 * ranks), done.log)

    def test_with_slow_streams(self):
        self.gives_back("--rounds", "1", SOFTDEV_SKEW_US="300")

    def test_of_several_hosts(self):
        given, done = self.gives_back("--ranks", "4", "--hosts", "2")
        self.assertGreater(given, self.WHOLE)
        self.assertEqual(done.log.count("suspend"), 3 * 4)

    @unittest.skipUnless(os.path.exists(DROP_IN), "this build has no drop-in")
    def test_where_the_drop_in_is_preloaded(self):
        given, done = self.gives_back("--rounds", "1", LD_PRELOAD=DROP_IN)
        self.assertGreater(given, self.WHOLE)
        self.assertEqual(done.log.count("suspend"), 2 * 3)

    def test_it_stays_where_the_library_of_some_rank_cannot(self):
        for arguments, library in ((("--lacks", "1"), STAND_IN), ((), OLDER)):
            given, done = self.gives_back(*arguments, TUTTI_NCCL=library, TUTTI_OLDER_NCCL=OLDER)
            self.assertLess(given, self.WHOLE)
            self.assertNotIn("suspend", done.log)

    def test_a_communicator_that_is_still_being_made_is_waited_for(self):
        given, done = self.gives_back("--ranks", "2", SOFTNCCL_RANK="1", SOFTNCCL_INIT_MS="1500")
        self.assertGreater(given, self.WHOLE)

    def test_without_room_for_it_all_stay_suspended(self):
        done = self.run_suspended("--fault", "full", "--leaves", "24", SOFTDEV_MEMORY_MB="512")
        self.assertEqual(done.status, 0, done.all())
        self.assertEqual((done.log.count("suspend"), done.log.count("resume")), (3, 3), done.log)

    def test_one_that_cannot_fails_the_communicator_on_all_ranks(self):
        for variable, result in (("SUSPEND", "1"), ("RESUME", "1"), ("SUSPEND", "-1")):
            with self.subTest(variable + result):
                done = self.run_suspended("--fault", "broken", SOFTNCCL_RANK="1", TUTTI_TIMEOUT="8",
                                          **{f"SOFTNCCL_{variable}_RESULT": result})
                self.assertEqual(done.status, 0, done.all())
                self.assertIn("aborted", done.log)

    def test_texts_say_how_much_it_is(self):
        whole = f"{self.WHOLE} bytes of device memory"
        for library, text in ((STAND_IN, f"{whole}, of which it gives {self.WHOLE} back"),
                              (OLDER, r"about \d+ bytes of device memory \(by which the free memory")):
            done = Run("nccl_calls", "--rounds", "1", TUTTI_LOG="info", TUTTI_NCCL=library,
                       SOFTNCCL_MEMORY_KB=str(self.WHOLE >> 10))
            self.assertEqual(done.status, 0, done.all())
            self.assertRegex(done.out, f"all_reduce on device memory: by NCCL 2.28.9 .*, which has {text}")
            self.assertEqual(len(re.findall(f"part of NCCL 2.28.9 .* has {text}", done.err)), 3, done.err)


class ByPrice(unittest.TestCase):
    def run_with(self, ns, ranks=3, **variables):
        model = {"tutti_model": 1, "nccl": [{"collective": one, "ranks": ranks, "calls": [{"bytes": 8, "ns": ns}]}
                                            for one in ("all_reduce", "all_gather")]}
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(model, file)
            file.flush()
            done = Run("nccl_calls", "--rounds", "1", TUTTI_TUNING=file.name, **{"TUTTI_ENGINE": "auto", **variables})
        self.assertEqual(done.status, 0, done.all())
        self.assertNotIn(NOT_BY, done.err)
        return done

    def test_the_cheaper_engine_runs_a_call(self):
        done = self.run_with(1e-3)
        self.assertIn(BY_NCCL, done.out)
        self.assertIn("call 0", done.log)  # all_reduce; a reduce_scatter has no price
        self.assertNotIn("call 4", done.log)
        done = self.run_with(1e12)
        self.assertRegex(done.out, "all_reduce on device memory: .*not by NCCL, since it was measured to take")
        self.assertNotIn("call 0", done.log)

    def test_it_is_not_even_loaded_where_it_has_no_price_or_is_forbidden(self):
        for ranks, variables in ((2, {}), (3, {"TUTTI_ENGINE": "kernel"}), (3, {"TUTTI_ENGINE": "copy_engine"}),
                                 (3, {"TUTTI_ENGINE": "no_nccl"})):
            self.assertEqual(self.run_with(1e-3, ranks, **variables).log, [])


class Ended(unittest.TestCase):
    def test_ranks_that_die_abort_or_do_not_come(self):
        for fault in ("kill", "midway", "abort", "late", "slow"):
            with self.subTest(fault):
                done = Run("device_faults", "--fault", fault)
                self.assertEqual(done.status, 0, done.all())
                self.assertIn("kernel done", done.log)

    def test_an_error_of_nccls_own_is_everybodys(self):
        done = Run("nccl_calls", SOFTNCCL_RANK="1", SOFTNCCL_ASYNC_AT="4")
        self.assertEqual(done.status, 1, done.all())
        self.assertIn("of NCCL failed", done.all())
        self.assertIn("aborted", done.log)

    def test_a_kernel_that_stands_still_ends_at_the_deadline(self):
        done = Run("nccl_calls", SOFTNCCL_RANK="1", SOFTNCCL_STUCK_AT="4", TUTTI_TIMEOUT="1")
        self.assertEqual(done.status, 1, done.all())
        self.assertIn("passed its deadline", done.all())
        self.assertIn("kernel given up", done.log)


if __name__ == "__main__":
    unittest.main()
