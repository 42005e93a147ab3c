#!/usr/bin/env python3
"""By what calls on device memory run: a wish is followed where it can be, and the log says once where
it is not; what the options of a call ask for is had, or the call is refused with the reason."""

import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from environment import clean_environment  # noqa: E402

BUILD = os.environ.get("TEST_BINARY_DIR", "build")
AUTO, HOST, COPY, KERNEL = "0", "1", "2", "3"
COMPUTE = "copy engines do not compute"


def run(*arguments, **variables):
    environment = dict(clean_environment(), TUTTI_DEVICE_RING_BYTES="2M",
                       LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "software_device"))
    environment.update(variables)
    return subprocess.run([os.path.join(BUILD, "bin", "tests", "engines"), *arguments], text=True,
                          env=environment, capture_output=True, timeout=120)


class Engines(unittest.TestCase):
    def outcome(self, *arguments, **variables):
        done = run(*arguments, **variables)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done

    def test_nobody_asks_and_streams_run_what_they_can(self):
        done = self.outcome()
        self.assertRegex(done.stdout, "all_gather on device memory: by copy engines, .* 0 kernels")
        self.assertNotIn("goes by the host", done.stderr)

    def test_the_log_says_what_goes_by_the_host(self):
        self.assertIn("all_gather on streams of devices goes by the host, since "
                      "TUTTI_DEVICE_RING_BYTES is 0",
                      self.outcome(TUTTI_LOG="info", TUTTI_DEVICE_RING_BYTES="0").stderr)

    def test_one_warning_says_that_all_calls_or_all_reductions_go_by_the_host(self):
        every = "goes by the host, since"
        for variables, call, why in (
                ({"SOFTDEV_KERNELS": "0"}, "all_reduce", "has no kernels"),
                ({"SOFTDEV_MODULE_RESULT": "209"}, "all_reduce", "does not take this build's kernels")):
            said = self.outcome(**variables).stderr
            self.assertEqual(said.count(every), 1, said)
            self.assertRegex(said, f"warn.* rank 0.*: {call} on streams of devices {every} .*{why}")
        # Nobody is warned of what was asked for, nor of ranks that share no memory.
        for variables in ({"TUTTI_ENGINE": "host"}, {"TUTTI_DEVICE_RING_BYTES": "0"},
                          {"TUTTI_TRANSPORTS": "tcp"}, {}):
            self.assertNotIn(every, self.outcome(**variables).stderr)

    def test_kernels_that_could_not_be_loaded_this_time_are_an_error_and_not_passed_over(self):
        done = run(SOFTDEV_MODULE_RESULT="2")  # no memory is left
        self.assertEqual(done.returncode, 1)
        self.assertIn("CUDA_ERROR_OUT_OF_MEMORY", done.stdout)
        self.assertIn("rank 0", done.stdout)

    def test_a_wish_for_copy_engines_is_no_error_and_the_log_says_so_once(self):
        for arguments, variables in ((("--config", COPY), {}), ((), {"TUTTI_ENGINE": "copy_engine"}),
                                     ((), {"NCCL_CTA_POLICY": "2"})):
            done = self.outcome(*arguments, **variables)
            self.assertIn("all_gather on device memory: by copy engines", done.stdout)
            self.assertIn("all_reduce: ", done.stdout)
            # Of each of three ranks, though the call is made twice.
            self.assertEqual(done.stderr.count("all_reduce on streams of devices goes by"), 3,
                             done.stderr)

    def test_options_that_ask_for_copy_engines_are_followed_or_refused(self):
        done = self.outcome("--ask", COPY)
        self.assertIn("all_gather: no error", done.stdout)
        refusal = next(one for one in done.stdout.splitlines() if one.startswith("all_reduce: "))
        self.assertIn(COMPUTE, refusal)

    def test_options_that_ask_for_kernels_are_followed_or_refused(self):
        done = self.outcome("--ask", KERNEL)
        self.assertIn("all_gather: no error", done.stdout)
        outcome = next(one for one in done.stdout.splitlines() if one.startswith("all_reduce: "))
        self.assertRegex(outcome, "no error|ask for the engine kernel, but ")
        self.assertNotIn(COMPUTE, outcome)

    def test_options_that_ask_for_the_host_are_followed(self):
        done = self.outcome("--ask", HOST, TUTTI_LOG="info")
        self.assertIn("all_gather: no error", done.stdout)
        self.assertIn("all_reduce: no error", done.stdout)
        self.assertNotIn("goes by the host", done.stderr)

    def test_a_setting_for_the_host_is_followed_and_copy_engines_are_refused(self):
        done = self.outcome("--ask", COPY, TUTTI_ENGINE="host")
        self.assertIn("is the host", done.stdout)
        self.assertNotIn("no error", done.stdout)

    def test_the_configuration_wins_over_the_setting(self):
        self.assertIn("all_gather on device memory: by copy engines",
                      self.outcome("--config", COPY, TUTTI_ENGINE="host").stdout)

    def test_ranks_that_wish_for_different_engines_make_no_communicator(self):
        done = run("--config", COPY, "--odd", HOST)
        self.assertEqual(done.returncode, 1)
        self.assertIn("TUTTI_ENGINE=", done.stdout)

    def test_ranks_whose_options_name_different_engines_hear_which(self):
        host, name = "whose options ask for the engine host", {AUTO: "auto", HOST: "host", COPY: "copy_engine"}
        for kind, one, other in (("all_gather", HOST, AUTO), ("all_gather", AUTO, HOST),
                                 ("all_gather", COPY, AUTO), ("all_to_all_v", HOST, COPY)):
            with self.subTest(kind=kind, one=one, other=other):
                heard = self.outcome("--differ", one, "--ask", other, "--kind", kind).stdout
                self.assertEqual(heard.count("differ"), 3, heard)
                self.assertRegex(heard, f"rank 0 .*: {kind} of .*, engine {name[one]}; rank . .*: {kind} of .*, "
                                        f"engine {name[other]}: engine|rank . .*: {kind} of .*, engine "
                                        f"{name[other]}; rank 0 .*: {kind} of .*, engine {name[one]}: engine")
        for one, other in ((HOST, AUTO), (AUTO, HOST)):
            with self.subTest(kind="send", one=one, other=other):
                heard = self.outcome("--differ", one, "--ask", other, "--kind", "send").stdout
                self.assertEqual(heard.count("differ"), 3, heard)
                self.assertIn(host, heard)

    def test_the_configuration_bounds_the_thread_blocks_of_kernels(self):
        # 5000 words of three ranks: a block takes 1024 of 8 bytes at once.
        for arguments, variables, blocks in (((), {}, 5), (("--most", "2"), {"TUTTI_CTAS": "7"}, 2),
                                             ((), {"TUTTI_CTAS": "3"}, 3), (("--least", "9"), {"TUTTI_CTAS": "7"}, 9),
                                             (("--least", "4096", "--most", "4096"), {}, 4096)):
            done = self.outcome(*arguments, **variables)
            self.assertRegex(done.stdout, f"all_reduce on device memory: .* of up to {blocks} thread blocks")

    def test_calls_bound_the_thread_blocks_of_their_kernels(self):
        waits = {"SOFTDEV_DEVICES": "3"}
        for arguments, variables, blocks in (
                ((), {}, 5), (("--call-most", "2"), {}, 2), (("--call-most", "1"), {"TUTTI_LEAST_CTAS": "4"}, 1),
                (("--call-least", "9"), {}, 9), (("--most", "7", "--call-most", "3"), {}, 3),
                (("--config", KERNEL), waits, 8), (("--config", KERNEL, "--most", "3"), waits, 3),
                (("--config", KERNEL, "--call-most", "1"), waits, 1),
                (("--config", KERNEL, "--most", "2", "--call-most", "6"), waits, 2)):
            with self.subTest(arguments=arguments):
                done = self.outcome(*arguments, **variables)
                self.assertIn(f"all_reduce: {blocks} blocks a kernel", done.stdout)

    def test_thread_blocks_that_cannot_be_are_refused(self):
        for least, most, why in (("-1", "0", "least_ctas is -1, and may be 0 to 4096"),
                                 ("0", "4097", "most_ctas is 4097, and may be 0 to 4096"),
                                 ("3", "2", "least_ctas is 3, which is above most_ctas, 2")):
            done = run("--least", least, "--most", most)
            self.assertEqual(done.returncode, 1)
            self.assertIn("tuttiCommInitRankConfig: config: " + why, done.stdout)
            said = self.outcome("--call-least", least, "--call-most", most).stdout
            self.assertIn("options: " + why, said)

    def test_an_engine_that_there_is_not_is_refused(self):
        for arguments in (("--config", "9"), ("--ask", "9")):
            self.assertIn("engine is 9", run(*arguments).stdout)


if __name__ == "__main__":
    sys.exit(unittest.main())
