#!/usr/bin/env python3
"""The virtual machine of vm/rxe-vm, and collectives there over sites that are far from each other."""

import ctypes
import os
import pathlib
import re
import signal
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = 77
VM = HERE / "vm" / "rxe-vm"
BUILD = pathlib.Path(os.environ.get("TEST_BINARY_DIR", "build")).resolve()
TUTTI = BUILD / "bin" / "tutti"
PYTHON = "/usr/bin/python3"  # a version manager's takes long where the processor is emulated
PATIENCE_S = 900
NO_MACHINE = (124, 125)  # the exit statuses of one that did not start or does not end
TRIES = 2
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


def run_once(*arguments, patience_s=PATIENCE_S):
    """Exit status and output. The machine ends with this process, however that ends."""
    with subprocess.Popen([VM, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, env={**os.environ, "TEST_BINARY_DIR": str(BUILD)},
                          preexec_fn=lambda: LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)) as machine:
        try:
            output = machine.communicate(timeout=patience_s)[0]
        except BaseException:
            machine.terminate()
            machine.communicate()
            raise
        return machine.returncode, output


def run(*arguments, patience_s=PATIENCE_S):
    """An emulated processor may be so slow on a busy machine that the guest's kernel gives up."""
    for _ in range(TRIES):
        status, output = run_once(*arguments, patience_s=patience_s)
        if status not in NO_MACHINE:
            break
        print(f"  exit status {status}: {output}")
    return status, output


class Machine(unittest.TestCase):
    def test_ends_as_its_command_does(self):
        status, output = run("--", "sh", "-c", "uname -s; echo wrong >&2; exit 3")
        self.assertEqual((status, output), (3, "Linux\nwrong\n"))

    def test_says_what_is_wrong_with_its_options(self):
        for wrong in (["--wan", "delay 1ms", "--", "true"], ["--sites", "2x1", "--hosts", "2", "--", "true"],
                      ["--netem", "delay 1ms", "--", "true"], ["--nothing"], []):
            status, output = run_once(*wrong)
            self.assertEqual(status, 2, output)
            self.assertIn("rxe-vm: ", output)

    def test_gives_up_in_time(self):
        self.assertEqual(run_once("--timeout", 2, "--", "sleep", "1000")[0], 124)

    def test_has_rdma_devices_and_delays(self):
        status, output = run("--hosts", 2, "--netem", "delay 20ms", "--", "sh", "-c",
                             "rdma link; on 1 hostname; tc -n switch qdisc show dev e0")
        self.assertEqual(status, 0, output)
        self.assertRegex(output, r"(?s)link rxe0/1 .*link rxe1/1 .*\nh1\n.*netem .*delay 20ms")


class FarSites(unittest.TestCase):
    """Two sites, 20 ms apart."""

    def test_a_small_all_reduce_of_levels(self):
        status, output = run("--mem", "3G", "--timeout", PATIENCE_S, "--sites", "2x3", "--wan", "delay 20ms",
                             "--", "env", "TUTTI_ALGORITHM=all_reduce:hierarchical", TUTTI, "perf",
                             "all_reduce", "-b", "1K", "-e", "1K", "-n", 5, "-v")
        print(output)
        self.assertEqual(status, 0, output)
        self.assertIn("# Out of bounds values : 0 OK", output)
        self.assertRegex(output, r" hierarchical ")

    def test_what_is_chosen_crosses_once(self):
        status, output = run("--mem", "3G", "--timeout", PATIENCE_S, "--", PYTHON, "-B",
                             HERE / "wan_delays.py", "--calls", 5, "--means", 2, "--algorithms",
                             "hierarchical,hierarchical_one_shot,hierarchical_doubling")
        print(output)
        self.assertEqual(status, 0, output)
        depths = dict(re.findall(r"^  (\S.*?) +[\d.]+ +[\d.]+ +[-\d.]+ +(\d+)$", output, re.MULTILINE))
        self.assertEqual(depths.pop("hierarchical"), "2")
        self.assertEqual(depths.pop("hierarchical_one_shot"), "1")
        chosen, = (depth for name, depth in depths.items() if name.startswith("chosen: "))
        self.assertEqual(chosen, "1")

    def test_a_large_all_reduce_crosses_once(self):
        """Its time is printed beside the bound of the link, and not compared with it."""
        status, output = run("--mem", "3G", "--timeout", PATIENCE_S, "--", PYTHON, "-B", HERE / "wan_bound.py")
        print(output)
        self.assertEqual(status, 0, output)
        self.assertRegex(output, r"s a call, the bound is [\d.]+ s")


def why_not():
    if not TUTTI.exists():
        return f"{TUTTI} is not built"
    if not pathlib.Path(PYTHON).exists():
        return f"no {PYTHON}"
    checked = subprocess.run([VM, "--check"], capture_output=True, text=True)
    return "" if checked.returncode == 0 else checked.stderr.strip()


if __name__ == "__main__":
    reason = why_not()
    if reason:
        print(reason.replace("\n", "; "))
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)  # names what is skipped, and why
