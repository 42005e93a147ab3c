#!/usr/bin/env python3
"""Several sockets a link between the hosts of the virtual machine (vm/rxe-vm), over a far network that loses packets."""

import os
import re
import sys
import unittest

import slow_vm_test as vm

JOB = vm.HERE / "rdma_job.py"
FAR = "delay 20ms loss 1%"


class TwoFarHosts(unittest.TestCase):
    def job(self, flows, *command):
        """Lines of `tutti perf` on both hosts, with so many sockets a link."""
        status, output = vm.run("--hosts", 2, "--netem", FAR, "--mem", "2G", "--timeout", vm.PATIENCE_S, "--", "env",
                                f"TUTTI_TRANSPORTS=shm,{'tcp' if flows == 1 else 'flows'}", f"TUTTI_TCP_FLOWS={flows}",
                                vm.PYTHON, "-B", JOB, "--ranks", 1, "--", vm.TUTTI, "perf", *command)
        print(output)
        self.assertEqual(status, 0, output)
        self.assertIn("# Out of bounds values : 0 OK", output)
        return output

    def test_collectives_are_right_and_rates_are_told(self):
        """No bound is held to: an emulated processor may be what bounds them."""
        for flows in (1, 8, "auto"):
            with self.subTest(flows=flows):
                output = self.job(flows, "broadcast", "-b", "2M", "-e", "2M", "-n", 3, "-w", 1, "-v")
                line = re.search(r"^0: +2097152 .*$", output, re.MULTILINE)
                print(f"{flows} flows: {line[0]}")
                self.assertIn("tcp" if flows == 1 else "flows", line[0])


if __name__ == "__main__":
    reason = vm.why_not()
    if reason:
        print(reason.replace("\n", "; "))
        sys.exit(vm.SKIPPED)
    os.chdir(vm.BUILD)  # what the machine's commands write is lost
    unittest.main(verbosity=2)
