#!/usr/bin/env python3
"""The examples as a user starts them: torchrun with 1, 2 and 4 ranks, and what they print."""

import os
import re
import subprocess
import sys
import unittest

import place

place.find("torch")


def losses(name, ranks, *arguments):
    """(decimal, hexadecimal) of each step."""
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}",
         os.path.join(place.EXAMPLES, name), *arguments], capture_output=True, text=True, timeout=600,
        check=False, env={**os.environ, "OMP_NUM_THREADS": "1"})
    if done.returncode != 0:
        raise AssertionError(f"{name} {arguments} failed:\n{done.stdout}{done.stderr[-4000:]}")
    found = re.findall(r"^step \d+ loss (\S+) (0x\S+)$", done.stdout, re.MULTILINE)
    if len(found) != 4:
        raise AssertionError(f"{name} {arguments} printed\n{done.stdout}")
    return found


class Torchrun(unittest.TestCase):
    def test_data_and_pipeline_parallel_losses_have_the_bits_of_one_process(self):
        one = losses("torch_nano_gpt.py", 1)
        for arguments in (["--dp", "2"], ["--pp", "2"], ["--pp", "2", "--dp", "2"], ["--dp", "4"]):
            ranks = 4 if len(arguments) == 4 or "4" in arguments else 2
            self.assertEqual(losses("torch_nano_gpt.py", ranks, *arguments), one, arguments)
        self.assertNotEqual(losses("torch_nano_gpt.py", 2, "--dp", "2", "--drop"), one)

    def test_others_are_within_their_bound(self):
        for name, ranks, arguments in (("torch_nano_gpt.py", 4, ["--tp", "2", "--pp", "2"]),
                                       ("torch_nano_moe.py", 2, ["--cp", "2"]),
                                       ("torch_nano_moe.py", 4, ["--cp", "2", "--helpers", "1"])):
            one = losses(name, 1)
            for (a, _), (b, _) in zip(losses(name, ranks, *arguments), one):
                self.assertLessEqual(abs(float(a) - float(b)), 1.1e-5, (name, arguments))

    def test_parts_are_within_their_bound(self):
        for system in ("low_rank", "activations", "groups", "servers"):
            one = losses("torch_nano_parts.py", 1, system)
            for ranks in (2, 4):
                for (a, _), (b, _) in zip(losses("torch_nano_parts.py", ranks, system), one):
                    self.assertLessEqual(abs(float(a) - float(b)), 1.1e-5, (system, ranks))
            dropped = losses("torch_nano_parts.py", 2, system, "--drop")
            self.assertGreater(max(abs(float(a) - float(b)) for (a, _), (b, _) in zip(dropped, one)), 1e-4, system)


if __name__ == "__main__":
    unittest.main(verbosity=1)
