#!/usr/bin/env python3
"""`tutti perf --hosts`, with a launcher that starts a shell here in place of one on another host:
by TUTTI_HOST_ID each is a host as far as the library knows."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SKIPPED = 77
BINARIES = pathlib.Path(os.environ.get("TEST_BINARY_DIR", "build")).resolve() / "bin"
TUTTI = BINARIES / "tutti"
USAGE, LIBRARY, RESULT = 2, 3, 7
RIGHT = "# Out of bounds values : 0 OK"
LAUNCHER = "env -i PATH=/usr/bin:/bin TUTTI_HOST_ID={host} TUTTI_SOCKET_IFNAME=lo sh -c"
FEW = ["all_reduce", "-b", "1K", "-n", "2"]
FOR_EVER = ["all_reduce", "-b", "8", "-n", "20", "-N", "0"]
PATIENCE_S = 60


def command(*arguments, launcher=LAUNCHER):
    return [str(TUTTI), "perf", *map(str, arguments), "--launcher", launcher]


def run(*arguments, launcher=LAUNCHER, environment=None):
    return subprocess.run(command(*arguments, launcher=launcher), text=True, capture_output=True,
                          timeout=300, env={**os.environ, **(environment or {})})


def ranks_of(output):
    """The lines of "# Using devices": (rank, pid)."""
    lines = [line.split() for line in output.splitlines() if line.startswith("#  Rank")]
    return [(int(words[2]), int(words[6])) for words in lines]


def lives(pid):
    """Also one that has ended and that nobody has waited for yet does not live any more."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Hosts(unittest.TestCase):
    def script(self, text):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name) / "script"
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)
        return path

    def test_ranks_are_numbered_host_by_host_and_meet(self):
        result = run(*FEW, "--hosts", "a:2,b:1", "-v")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual([rank for rank, _ in ranks_of(result.stdout)], [0, 1, 2])
        self.assertIn(RIGHT, result.stdout)
        self.assertEqual(result.stdout.count("# tutti perf all_reduce"), 1, "rank 0 prints")
        self.assertEqual([line.split()[-1] for line in result.stdout.splitlines()
                          if line and not line.startswith("#")], ["shm+tcp"])

    def test_a_file_names_the_hosts_and_ranks_says_how_many(self):
        with tempfile.NamedTemporaryFile("w", suffix=".hosts") as file:
            file.write("# two\na slots=2\nb slots=2\n")
            file.flush()
            result = run(*FEW, "--hostfile", file.name, "--ranks", "3", "-t", "2")
        self.assertEqual(result.returncode, 0, result.stderr)
        pids = [pid for _, pid in ranks_of(result.stdout)]
        self.assertEqual((len(pids), len(set(pids))), (6, 3), result.stdout)

    def test_one_rank_is_a_job_too(self):
        result = run(*FEW, "--hosts", "a")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(ranks_of(result.stdout)), 1)

    def test_settings_and_the_folder_go_to_every_host(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                command(*FEW, "--hosts", "a,b", "-v", "--json", "perf.json"), text=True, cwd=folder,
                capture_output=True, timeout=300,
                env={**os.environ, "TUTTI_ALGORITHM": "all_reduce:ring", "NCCL_TESTS_MIN_BW": "1e9",
                     "TUTTI_ID": "nowhere.invalid:1", "TUTTI_HOST_ID": "same"})
            self.assertTrue((pathlib.Path(folder) / "perf.json").exists(), done.stderr)
        self.assertEqual(done.returncode, RESULT, "too slow for NCCL_TESTS_MIN_BW")
        row = [line.split() for line in done.stdout.splitlines() if not line.startswith("#")][0]
        self.assertEqual(row[-2:], ["ring", "tcp"])

    def test_what_rank_0_found_is_the_exit_code_and_errors_have_a_host(self):
        result = run(*FEW, "--hosts", "a,b", "--plant-fault", "1:3")
        self.assertEqual(result.returncode, RESULT, result.stderr)
        self.assertIn("a: tutti perf: wrong data", result.stderr)
        refused = run(*FEW, "--hosts", "a,b", "--algorithm", "magic")
        self.assertEqual(refused.returncode, LIBRARY, refused.stderr)
        self.assertIn("b: tutti: rank 1: ", refused.stderr)

    def test_a_host_that_cannot_be_reached_is_named(self):
        ssh = self.script('[ "$1" = b ] && { echo "ssh: no route" >&2; exit 255; }\n'
                          'shift; exec sh -c "$1"\n')
        result = run(*FEW, "--hosts", "a:2,b", launcher=f"{ssh} {{host}}")
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertIn("b: ssh: no route", result.stderr)
        self.assertIn("tutti perf: b: it cannot be reached by the launcher; try: ", result.stderr)
        self.assertEqual(ranks_of(result.stdout), [])

    def test_a_host_without_the_program_is_named_with_what_to_do(self):
        result = run(*FEW, "--hosts", "a", "--remote-program", "/nowhere/tutti")
        self.assertEqual(result.returncode, 1)
        self.assertIn("tutti perf: a: there is no /nowhere/tutti there: install", result.stderr)

    def test_another_version_is_refused(self):
        other = self.script('echo "Welcome to this host"; echo "tutti perf agent 1 of version 7"\n'
                            "cat > /dev/null\n")
        old = self.script('echo "there is no collective" >&2; exit 2\n')
        for program in (other, old):
            result = run(*FEW, "--hosts", "a", "--remote-program", program)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn("another version", result.stderr)
        self.assertIn("knows no agent", result.stderr)

    def test_words_of_a_shell_before_the_agent_do_no_harm(self):
        chatty = self.script(f'echo "Welcome"; echo "to this host"; exec "{TUTTI}" "$@"\n')
        result = run(*FEW, "--hosts", "a,b", "--remote-program", chatty)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("Welcome", result.stdout)

    def test_mistakes_are_found_before_anything_starts(self):
        for arguments, said in ((["--hosts", "-x"], "is no name of a host"),
                                (["--hosts", "a:0"], "--hosts"),
                                (["--hostfile", "/nowhere"], "cannot read /nowhere"),
                                (["--hosts", "a:2", "--ranks", "3"], "room for"),
                                (["--hosts", "a", "--vs", "ompi"], "--vs compares")):
            with self.subTest(arguments=arguments):
                result = run(*FEW, *arguments)
                self.assertEqual(result.returncode, USAGE, result.stderr)
                self.assertIn(said, result.stderr)
        result = run(*FEW, "--hosts", "a", launcher="no-such-launcher {host}")
        self.assertEqual(result.returncode, 1)
        self.assertIn("there is no no-such-launcher here", result.stderr)
        self.assertIn("--launcher has no effect without --hosts", run(*FEW).stderr)
        launched = run(*FEW, "--hosts", "a:2", environment={"RANK": "0", "WORLD_SIZE": "2",
                                                          "LOCAL_WORLD_SIZE": "2"})
        self.assertEqual(launched.returncode, USAGE, launched.stderr)
        self.assertIn("torchrun", launched.stderr)


class Ends(unittest.TestCase):
    """A run that goes on for ever until something happens; then nothing of it is left."""

    def setUp(self):
        self.process = subprocess.Popen(command(*FOR_EVER, "--hosts", "a:2,b:2"), text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(self.process.kill)
        self.addCleanup(self.process.stdout.close)
        self.addCleanup(self.process.stderr.close)
        head = ""
        while not re.search(r"^ +8 ", head, re.MULTILINE):
            line = self.process.stdout.readline()
            self.assertNotEqual(line, "", head)
            head += line
        self.pids = [pid for _, pid in ranks_of(head)]
        self.assertEqual(len(self.pids), 4, head)

    def finish(self):
        """What it said, and its exit status. All its ranks end."""
        output = self.process.communicate(timeout=PATIENCE_S)
        until = time.monotonic() + PATIENCE_S
        while any(map(lives, self.pids)) and time.monotonic() < until:
            time.sleep(0.05)
        self.assertEqual([pid for pid in self.pids if lives(pid)], [], output[1])
        return output[1], self.process.returncode

    def test_a_rank_that_dies_ends_all_and_is_named(self):
        os.kill(self.pids[3], signal.SIGKILL)
        said, code = self.finish()
        self.assertNotEqual(code, 0)
        self.assertIn("b: tutti: rank 3 (pid", said)
        self.assertIn("died of signal 9", said)
        self.assertRegex(said, r"a: tutti: rank [01]: ", "the others end by the library's error")

    def test_an_interrupt_ends_all(self):
        self.process.send_signal(signal.SIGINT)
        said, code = self.finish()
        self.assertEqual(code, 128 + signal.SIGINT, said)

    def test_nothing_outlives_the_program_that_started_it(self):
        self.process.kill()
        self.finish()


if __name__ == "__main__":
    if not TUTTI.exists():
        print(f"{TUTTI} is not built")
        sys.exit(SKIPPED)
    unittest.main()
