#!/usr/bin/env python3
"""The drop-in libnccl.so.2: its names, its layouts, every call, and `tutti run`."""

import os
import re
import signal
import subprocess
import sys
import time
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [FOLDER, os.path.join(os.path.dirname(FOLDER), "support")]

from ports import free_port  # noqa: E402
from support import (BUILD, HERE, LIBRARY, NEWER_NAMES, TUTTI, WithPrograms,  # noqa: E402
                     WithTheToolkitsHeader, WithWorkshop, environment, names, run, toolkit_header)

MARK = "pncclTuttiDropIn"  # by which Tutti knows it
LOG_LINE = r"^tutti \d\d:\d\d:\d\d\.\d{6} \S+:\d+ %s "


def symbols():
    """Name -> (binding, address) of what the library defines for others."""
    listed = run("readelf", "--wide", "--dyn-syms", LIBRARY).stdout
    found = {}
    for line in listed.splitlines():
        fields = line.split()
        if len(fields) == 8 and fields[0][:-1].isdigit() and fields[6] not in ("UND", "ABS"):
            found[fields[7]] = (fields[4], fields[1])
    return found


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rsplit(") ", 1)[1][0] != "Z"
    except OSError:
        return False


class Names(unittest.TestCase):
    def test_the_names_are_nccls_and_no_other(self):
        newer = names(*NEWER_NAMES)
        found = set(symbols()) - {*newer, *("p" + name for name in newer), MARK}
        known = names("host_names.txt")
        self.assertEqual(found, {*known, *("p" + name for name in known)})

    def test_each_name_is_weak_and_strong_at_one_address(self):
        found = symbols()
        for name in names():
            self.assertEqual(found[name][0], "WEAK", name)
            self.assertEqual(found["p" + name][0], "GLOBAL", name)
            self.assertEqual(found[name][1], found["p" + name][1], name)

    def test_soname_and_no_symbol_versions(self):
        self.assertIn("[libnccl.so.2]", run("readelf", "-d", LIBRARY).stdout)
        self.assertNotIn("VERDEF", run("readelf", "-d", LIBRARY).stdout)


    def test_its_own_calls_are_its_own(self):
        # Beside NCCL, whose names are the same, a call that the loader resolves may be NCCL's.
        listed = run("readelf", "--wide", "--relocs", LIBRARY).stdout
        self.assertIn("dlsym", listed)
        self.assertEqual(re.findall(r"\bp?nccl[A-Z]\w+", listed), [])


class Layouts(WithWorkshop):
    def test_ours_are_the_toolkits(self):
        folder, _ = toolkit_header()
        theirs = self.workshop.program("layouts", f"-I{folder}", header="<nccl.h>")
        theirs = self.succeeds(theirs).splitlines()
        ours = self.succeeds(self.workshop.program("layouts")).splitlines()
        self.assertGreater(len(theirs), 70)
        known = {line.rpartition(" ")[0] for line in theirs}  # by a header that may be older
        self.assertEqual([line for line in ours if line.rpartition(" ")[0] in known], theirs)


class Calls(WithPrograms):
    def test_the_stand_in_is_not_tutti(self):
        done = run(self.built("calls"), "1")
        self.assertEqual(done.returncode, 1, done.stderr)

    def test_every_call(self):
        self.runs_on_every_number_of_ranks("calls")

    def test_every_type_and_operation(self):
        self.runs_on_every_number_of_ranks("types")

    def test_collectives_with_a_configuration(self):
        self.runs_on_every_number_of_ranks("configured")

    def test_every_call_with_algorithms_of_nccl(self):
        program = self.workshop.program("calls")
        for algorithms in ("Ring", "Tree", "PAT", "allreduce:tree,ring;allgather:pat;broadcast:ring"):
            for ranks in (1, 2, 3, 5, 8):
                with self.subTest(algorithms=algorithms, ranks=ranks):
                    self.succeeds(TUTTI, "run", "--", program, str(ranks),
                                  env=environment(NCCL_ALGO=algorithms))

    def test_what_is_newer_and_the_device_api(self):
        self.runs_on_every_number_of_ranks("queries")

    def test_one_sided(self):
        self.runs_on_every_number_of_ranks("one_sided")

    def test_one_sided_between_hosts(self):
        self.runs_on_every_number_of_ranks("one_sided", after=["hosts"])

    def test_every_way_to_make_and_end_communicators(self):
        self.runs_on_every_number_of_ranks("lifecycles", "-pthread")

    def test_several_unique_ids(self):
        self.runs_on_every_number_of_ranks("scalable")

    def test_configurations_of_any_size_and_version(self):
        self.runs_on_every_number_of_ranks("configurations", ranks=[2])


class CallsWithTheToolkitsHeader(WithTheToolkitsHeader, Calls):
    pass


class Mistakes(WithWorkshop):
    def mistake(self, name, ranks):
        self.succeeds(TUTTI, "run", "--", self.workshop.program("mistakes", "-pthread"), name, str(ranks))

    def test_a_communicator_whose_abort_was_refused_lives(self):
        self.mistake("refused_aborts", 2)

    def test_a_rank_with_an_empty_window_takes_part(self):
        for ranks in (1, 3):
            with self.subTest(ranks=ranks):
                self.mistake("empty_windows", ranks)

    def test_what_a_program_tries_out_in_a_group_does_not_discard_it(self):
        self.mistake("probes_in_groups", 2)

    def test_a_window_whose_deregistration_was_refused_stays(self):
        for ranks in (1, 3):
            with self.subTest(ranks=ranks):
                self.mistake("refused_deregistrations", ranks)

    def test_a_watchdog_looks_at_a_communicator_that_cannot_be_made(self):
        self.mistake("watched_failures", 1)

    def test_windows_cannot_be_simulated(self):
        self.mistake("simulated_windows", 2)

    def test_wrong_numbers_of_ranks(self):
        self.mistake("wrong_numbers_of_ranks", 1)

    def test_foreign_handles(self):
        self.mistake("foreign_handles", 1)

    def test_ranks_may_group_windows_differently(self):
        for ranks in (2, 3):
            with self.subTest(ranks=ranks):
                self.mistake("windows_grouped_differently", ranks)

    def test_a_window_is_not_taken_for_a_sum(self):
        for ranks in (2, 3):
            with self.subTest(ranks=ranks):
                self.mistake("a_window_for_a_sum", ranks)

    def test_a_communicator_that_cannot_register_leaves_the_others_of_the_group_alone(self):
        self.mistake("windows_beside_a_finalized_communicator", 3)

    def test_windows_of_a_group_without_threads_are_an_error(self):
        self.mistake("no_threads", 1)


class ConfigurationFiles(WithWorkshop):
    DEFAULT = "NCCL_DEBUG=warn"

    def setUp(self):
        self.program = self.workshop.program("settings")
        self.home = os.path.join(self.workshop.folder, "home")
        os.makedirs(self.home, exist_ok=True)

    def written(self, name, text):
        return self.workshop.write(os.path.join("home", name), text)

    def debug_setting(self, *before, **variables):
        command = [*before, TUTTI, "run", "--", self.program, "NCCL_DEBUG"]
        return self.succeeds(*command, env=environment(HOME=self.home, **variables)).strip()

    def test_the_users_file(self):
        self.written(".nccl.conf", "")
        self.assertEqual(self.debug_setting(), self.DEFAULT)
        self.written(".nccl.conf", "# a comment\nNCCL_IB_HCA=mlx5\nPATH=/nowhere\nTUTTI_LOG=off\n"
                                   " NCCL_DEBUG = ERROR \r\nNCCL_DEBUG=TRACE\nno value\n=\n")
        self.assertEqual(self.debug_setting(), "NCCL_DEBUG=error")

    def test_the_environment_wins(self):
        self.written(".nccl.conf", "NCCL_DEBUG=ERROR\n")
        self.assertEqual(self.debug_setting(NCCL_DEBUG="OFF"), "NCCL_DEBUG=off")
        self.assertEqual(self.debug_setting(TUTTI_LOG="off"), "NCCL_DEBUG=off")

    def test_a_named_file_replaces_the_users(self):
        self.written(".nccl.conf", "NCCL_DEBUG=ERROR\n")
        other = self.written("other.conf", "NCCL_DEBUG=OFF")
        self.assertEqual(self.debug_setting(NCCL_CONF_FILE=other), "NCCL_DEBUG=off")
        self.assertEqual(self.debug_setting(NCCL_CONF_FILE="/nowhere/x"), self.DEFAULT)

    def test_what_is_no_file_is_passed_over(self):
        pipe = os.path.join(self.home, "pipe")
        os.mkfifo(pipe)
        for path in (pipe, self.home):
            self.assertEqual(self.debug_setting(NCCL_CONF_FILE=path), self.DEFAULT)

    def test_the_systems_file_comes_last(self):
        own = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
               f"mount --bind {self.home} /etc && exec \"$@\"", "sh"]
        if run(*own, "true").returncode != 0:
            self.skipTest("no mount namespace of one's own: /etc/nccl.conf cannot be replaced")
        self.written("nccl.conf", "NCCL_DEBUG=TRACE\n")
        self.written(".nccl.conf", "")
        self.assertEqual(self.debug_setting(*own), "NCCL_DEBUG=trace")
        self.written(".nccl.conf", "NCCL_DEBUG=ERROR\n")
        self.assertEqual(self.debug_setting(*own), "NCCL_DEBUG=error")


class Variables(WithWorkshop):
    def explained(self, **variables):
        done = run(TUTTI, "explain", "all_reduce", "--ranks", "2", "-b", "8", "-e", "8",
                   env=environment(**variables))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout, done.stderr

    def test_without_shared_memory_ranks_of_a_host_use_sockets(self):
        self.assertIn("over shm", self.explained()[0])
        self.assertIn("over shm", self.explained(NCCL_SHM_DISABLE="0")[0])
        self.assertIn("over tcp\n", self.explained(NCCL_SHM_DISABLE="1")[0])
        for ranks in ("1", "3"):
            self.succeeds(TUTTI, "run", "--", self.workshop.program("calls"), ranks,
                          env=environment(NCCL_SHM_DISABLE="1"))

    def test_threads_use_sockets_too(self):
        done = run(TUTTI, "explain", "all_reduce", "-g", "2", "-b", "8", "-e", "8",
                   env=environment(NCCL_SHM_DISABLE="1"))
        self.assertIn("over tcp\n", done.stdout, done.stderr)

    def test_no_memory_and_no_sockets_is_an_error(self):
        done = run(TUTTI, "explain", "all_reduce", "--ranks", "2", "-b", "8", "-e", "8",
                   env=environment(NCCL_SHM_DISABLE="1", TUTTI_TRANSPORTS="shm"))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("NCCL_SHM_DISABLE", done.stderr)

    def test_what_does_nothing_is_said(self):
        for name, value in (("NCCL_DEBUG_SUBSYS", "INIT,NET"), ("NCCL_NET", "IB")):
            text, log = self.explained(**{name: value})
            self.assertIn("over shm", text)
            self.assertEqual(log.count(name), 2, log)  # once by each rank's process
        self.assertEqual(self.explained(NCCL_NET="Socket", NCCL_P2P_DISABLE="1")[1], "")

    def test_blocking_is_as_the_variable_says(self):
        program = self.workshop.program("blocking")
        for variables, arguments in (({}, ["1"]), ({}, ["0", "0"]),
                                     ({"NCCL_COMM_BLOCKING": "0"}, ["0"]),
                                     ({"NCCL_COMM_BLOCKING": "0"}, ["0", "1"]),
                                     ({"NCCL_COMM_BLOCKING": "1"}, ["1", "0"])):
            with self.subTest(variables=variables, arguments=arguments):
                self.succeeds(TUTTI, "run", "--", program, *arguments, env=environment(**variables))


class Log(WithWorkshop):
    def said(self, program, *arguments, flags=(), **variables):
        """What the program printed and what was logged, as lines."""
        done = run(TUTTI, "run", "--", self.workshop.program(program, *flags), *arguments,
                   env=environment(**variables))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout.splitlines(), done.stderr.splitlines()

    def test_a_file_that_was_named_for_nccl_need_not_be_there(self):
        printed, logged = self.said("settings", "NCCL_DEBUG", NCCL_DEBUG_FILE="/nowhere/x")
        self.assertEqual(printed, ["NCCL_DEBUG=warn"])
        self.assertEqual(len(logged), 1, logged)
        self.assertIn("warn NCCL_DEBUG_FILE: cannot open '/nowhere/x'", logged[0])

    def test_the_version_is_answered_whatever_the_settings_are(self):
        for wrong in ({"TUTTI_TIMEOUT": "soon"}, {"TUTTI_LOG_FILE": "/nowhere/x"}):
            self.assertEqual(self.said("version", **wrong)[0], ["0 23007"])

    def test_information(self):
        _, logged = self.said("lifecycles", "2", NCCL_DEBUG="INFO", flags=["-pthread"])
        for line in logged:
            self.assertRegex(line, LOG_LINE % "(info|warn|error)")
        of_two = "id [0-9a-f]{16}, rank [01] of 2"
        ways = f"{of_two}, 1 host, 1 rank by shm, [0-9.]+ ms$"
        for wanted in (r"Tutti \d+\.\d+\.\d+, built by ", "NCCL_DEBUG: info$",
                       f"communicator 'world' made by tuttiCommInitRankConfig: {ways}",
                       "communicator 'world' made by tuttiCommSplit: id .*, rank 0 of 1, 1 host, ",
                       "tuttiCommSplit: no communicator for this rank, ",
                       f"communicator made by tuttiCommGrow: {ways}",
                       f"communicator made by tuttiCommShrink: {ways}", f"communicator revoked: {of_two}$",
                       "communicator 'world' finalized: ", f"communicator 'world' aborted: {of_two}$",
                       f"communicator destroyed: {of_two}$",
                       "rank 0 of id [0-9a-f]{16}: all_reduce of [0-9]+ to [0-9]+ bytes: [a-z_]+$"):
            with self.subTest(line=wanted):
                self.assertRegex("\n".join(logged), "(?m)" + LOG_LINE % "info" + wanted)

    def test_a_refusal_is_logged_once(self):
        # vLLM, SGLang, CuPy and DeepSpeed never ask for the last error.
        _, logged = self.said("mistakes", "probes_in_groups", "1", flags=["-pthread"])
        said = [line for line in logged if "ncclParamBind" in line]
        self.assertEqual(len(said), 1, logged)
        self.assertRegex(said[0], LOG_LINE % "warn" + "ncclParamBind: Tutti does not read .* 'NCCL_X'$")
        _, logged = self.said("mistakes", "probes_in_groups", "1", flags=["-pthread"], NCCL_DEBUG="error")
        self.assertEqual(logged, [])

    def test_a_communicator_that_cannot_be_made_is_logged(self):
        place = {"NCCL_COMM_ID": f"127.0.0.1:{free_port()}", "TUTTI_INSECURE": "1", "TUTTI_INIT_TIMEOUT": "1"}
        done = run(TUTTI, "run", "--", self.workshop.program("comm_id"), "0", "2", env=environment(**place))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, "(?m)" + LOG_LINE % "warn" + ".*1 of 2")

    def test_a_place_that_is_none_is_refused_at_once(self):
        for place in ("junk", "127.0.0.1", "127.0.0.1:70000", ":4000"):
            with self.subTest(place=place):
                done = run(TUTTI, "run", "--", self.workshop.program("comm_id"), "0", "2",
                           env=environment(NCCL_COMM_ID=place, TUTTI_INSECURE="1"))
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(f"NCCL_COMM_ID='{place}' is not understood; accepted: HOST:PORT", done.stderr)

    def test_a_last_call_that_differs_is_logged(self):
        _, logged = self.said("mistakes", "a_last_call_that_differs", "3", flags=["-pthread"])
        said = [line for line in logged if "calls of its ranks differ" in line]
        self.assertTrue(said, logged)
        self.assertRegex(said[0], LOG_LINE % "warn" + "destroyed although .* differs between ranks: ")

    def test_what_a_communicator_failed_of_is_logged_once(self):
        _, logged = self.said("mistakes", "an_absent_rank", "2", flags=["-pthread"], TUTTI_TIMEOUT="0.5")
        why = [line.partition(" error ")[2] for line in logged if " error " in line]
        self.assertEqual(len(why), 1, logged)
        self.assertEqual(len([line for line in logged if why[0] in line]), 1, logged)
        _, logged = self.said("mistakes", "an_absent_rank", "2", flags=["-pthread"], TUTTI_TIMEOUT="0.5",
                              NCCL_DEBUG="error")
        self.assertEqual(len(logged), 1, logged)

    def test_the_version_alone(self):
        _, logged = self.said("comm_id", NCCL_DEBUG="INFO")
        versions = [line for line in logged if "NCCL version" in line]
        self.assertEqual(len(versions), 1, logged)
        self.assertRegex(versions[0], LOG_LINE % "info" + r"NCCL version 2\.30\.7 ")
        _, logged = self.said("comm_id", NCCL_DEBUG="version")
        self.assertEqual(len(logged), 1, logged)
        self.assertRegex(logged[0], r"NCCL version 2\.30\.7 ")
        self.assertEqual(self.said("comm_id", NCCL_DEBUG="version", TUTTI_LOG="warn")[1], [])
        _, logged = self.said("comm_id", NCCL_DEBUG="VERSION", TUTTI_NCCL_VERSION="22803")
        self.assertRegex(logged[0], r"NCCL version 2\.28\.3 ")


class Run(WithWorkshop):
    def test_help(self):
        self.assertIn("usage: tutti run", self.succeeds(TUTTI, "run", "--help"))

    def test_wrong_command_lines(self):
        self.assertEqual(run(TUTTI, "run").returncode, 2)
        self.assertEqual(run(TUTTI, "run", "--nonsense", "true").returncode, 2)

    def test_a_library_is_named_from_here(self):
        folder, name = os.path.split(LIBRARY)
        done = run(TUTTI, "run", "--library", name, "--", "sh", "-c", "cd / && echo $LD_PRELOAD", cwd=folder)
        self.assertEqual((done.returncode, done.stdout), (0, os.path.abspath(LIBRARY) + "\n"), done.stderr)

    def test_exit_status(self):
        for status in (0, 3, 127):
            done = run(TUTTI, "run", "--", "sh", "-c", f"exit {status}")
            self.assertEqual((done.returncode, done.stderr), (status, ""))

    def test_commands_that_do_not_run(self):
        done = run(TUTTI, "run", "--", "no-such-command")
        self.assertEqual(done.returncode, 127)
        self.assertIn("not found", done.stderr)
        done = run(TUTTI, "run", "--", os.path.dirname(LIBRARY))
        self.assertEqual(done.returncode, 126, done.stderr)

    def test_a_signal_ends_both(self):
        done = run(TUTTI, "run", "--", "sh", "-c", "kill -USR1 $$")
        self.assertEqual(done.returncode, -signal.SIGUSR1)

    def test_signals_reach_the_program(self):
        code = "trap 'echo got; exit 5' TERM; echo ready; while :; do sleep 0.1; done"
        child = subprocess.Popen([TUTTI, "run", "--", "sh", "-c", code], stdout=subprocess.PIPE,
                                 text=True, env=environment())
        self.assertEqual(child.stdout.readline(), "ready\n")
        child.send_signal(signal.SIGTERM)
        self.assertEqual(child.communicate(timeout=200)[0], "got\n")
        self.assertEqual(child.returncode, 5)

    def test_the_program_ends_with_tutti_run(self):
        child = subprocess.Popen([TUTTI, "run", "--", "sh", "-c", "echo $$; exec sleep 1000"],
                                 stdout=subprocess.PIPE, text=True, env=environment())
        pid = int(child.stdout.readline())
        child.kill()
        child.communicate(timeout=200)
        deadline = time.monotonic() + 200
        while is_running(pid) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertFalse(is_running(pid))

    def test_a_static_program_is_refused_before_it_runs(self):
        source = self.workshop.write("static.c", '#include <stdio.h>\nint main(void) { puts("ran"); }')
        program = self.workshop.compile(source, "static", "-static")
        done = run(TUTTI, "run", "--", program)
        self.assertEqual((done.returncode, done.stdout), (125, ""))
        self.assertIn("statically linked", done.stderr)

    def test_a_program_that_did_not_load_it_is_an_error(self):
        # The library is one that does not answer: what is seen when the loader passes it over.
        done = run(TUTTI, "run", "--library", os.path.join(self.workshop.stub_folder, "libnccl.so.2"),
                   "--", "true")
        self.assertEqual(done.returncode, 125)
        self.assertIn("did not load libnccl.so.2", done.stderr)

    def test_a_missing_library_is_an_error(self):
        done = run(TUTTI, "run", "--library", "/nowhere/libnccl.so.2", "--", "true")
        self.assertEqual(done.returncode, 125)
        self.assertIn("/nowhere/libnccl.so.2", done.stderr)

    def test_another_libnccl_before_it_is_an_error(self):
        other = os.path.join(self.workshop.stub_folder, "libnccl.so.2")
        done = run(TUTTI, "run", "--", "true", env=environment(LD_PRELOAD=other))
        self.assertEqual(done.returncode, 125)
        self.assertIn("LD_PRELOAD already names", done.stderr)

    def test_a_program_that_calls_nothing_has_the_descriptors_that_it_was_given(self):
        command = ["ls", "/proc/self/fd"]
        self.assertEqual(self.succeeds(TUTTI, "run", "--", *command), self.succeeds(*command))

    def test_nothing_is_left_in_the_environment_but_the_preload(self):
        listed = self.succeeds(TUTTI, "run", "--", "sh", "-c", "env")
        self.assertIn("LD_PRELOAD=" + os.path.realpath(LIBRARY), listed)
        self.assertNotIn("TUTTI_RUN", listed)


if __name__ == "__main__":
    if not BUILD:
        print("TEST_BINARY_DIR does not name a build")
        sys.exit(77)
    unittest.main(verbosity=2)  # says why a test was skipped
