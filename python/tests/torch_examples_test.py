#!/usr/bin/env python3
"""The examples that train: data and pipeline parallel losses are one process's to the bit, all others within
their bound, which a dropped gradient exceeds."""

import importlib.util
import os
import unittest

import place

place.find("torch")

import torch_ranks  # noqa: E402

BOUND = 1e-5  # of losses, as the examples say


def example(name):
    spec = importlib.util.spec_from_file_location(name, os.path.join(place.EXAMPLES, name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GPT, MOE, PARTS = (example(name) for name in ("torch_nano_gpt", "torch_nano_moe", "torch_nano_parts"))


def gpt(rank, options):
    return GPT.train(**options)


def moe(rank, options):
    return MOE.train(**options)


def part(rank, name, options):
    return PARTS.train(name, **options)


def distance(found, expected):
    assert len(found) == len(expected) == 4
    return max(abs(a - b) for a, b in zip(found, expected))


class NanoGpt(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.one = torch_ranks.run(gpt, 1, {})[0]

    def losses(self, **layout):
        ranks = 1
        for size in (layout.get(axis, 1) for axis in ("tp", "pp", "dp")):
            ranks *= size
        answers = [losses for losses in torch_ranks.run(gpt, ranks, layout) if losses]
        self.assertEqual(len(answers), ranks // layout.get("pp", 1))  # the ranks of the last stage
        for other in answers:
            self.assertEqual(other, answers[0])
        return answers[0]

    def test_it_learns(self):
        self.assertLess(self.one[3], self.one[0] - 0.1)

    def test_data_and_pipeline_parallel_losses_have_the_bits_of_one_process(self):
        expected = [loss.hex() for loss in self.one]
        for layout in ({"dp": 2}, {"pp": 2}, {"dp": 2, "pp": 2}, {"dp": 4}, {"pp": 4}):
            with self.subTest(layout):
                self.assertEqual([loss.hex() for loss in self.losses(**layout)], expected)

    def test_tensor_parallel_losses_are_within_the_bound(self):
        for layout in ({"tp": 2}, {"tp": 2, "pp": 2}, {"tp": 2, "dp": 2}, {"tp": 4}):
            with self.subTest(layout):
                self.assertLess(distance(self.losses(**layout), self.one), BOUND)

    def test_a_dropped_gradient_exceeds_the_bound(self):
        for layout in ({"dp": 2}, {"tp": 2}):
            answers = [losses for losses in torch_ranks.run(gpt, 2, {**layout, "drop": True}) if losses]
            self.assertGreater(max(distance(losses, self.one) for losses in answers), 10 * BOUND)


class NanoMoe(unittest.TestCase):
    def test_losses_are_within_the_bound(self):
        one, _ = torch_ranks.run(moe, 1, {})[0]
        self.assertLess(one[3], one[0] - 0.3)
        for ranks, layout in ((2, {}), (2, {"cp": 2}), (4, {"cp": 2}), (4, {"cp": 4, "helpers": 1})):
            with self.subTest(layout, ranks=ranks):
                for losses, moves in torch_ranks.run(moe, ranks, layout):
                    self.assertLess(distance(losses, one), BOUND)
                    self.assertEqual(moves > 0, "helpers" in layout)
        dropped, _ = torch_ranks.run(moe, 2, {"drop": True})[0]
        self.assertGreater(distance(dropped, one), 10 * BOUND)


class NanoParts(unittest.TestCase):
    def test_losses_are_within_the_bound_and_a_dropped_gradient_exceeds_it(self):
        for name in PARTS.SYSTEMS:
            with self.subTest(name):
                one = torch_ranks.run(part, 1, name, {})[0]
                self.assertLess(one[3], one[0] - 0.1)
                for ranks in (2, 4):
                    for losses in torch_ranks.run(part, ranks, name, {}):
                        self.assertLess(distance(losses, one), BOUND)
                dropped = torch_ranks.run(part, 2, name, {"drop": True})[0]
                self.assertGreater(distance(dropped, one), 10 * BOUND)


if __name__ == "__main__":
    unittest.main(verbosity=1)
