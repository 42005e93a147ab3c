#!/usr/bin/env python3
"""The recommender's losses are those of one process to the bit, and refusals of embeddings reach Python."""

import importlib.util
import os
import unittest

import place

place.find("numpy")

import numpy  # noqa: E402
import tutti  # noqa: E402

SPEC = importlib.util.spec_from_file_location("recommender", os.path.join(place.EXAMPLES, "recommender.py"))
EXAMPLE = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(EXAMPLE)


class Recommender(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.one = tutti.run(EXAMPLE.train, 1, False)[0]

    def test_it_learns(self):
        self.assertEqual(len(self.one), EXAMPLE.STEPS)
        self.assertLess(sum(self.one[-5:]), 0.9 * sum(self.one[:5]))

    def test_any_number_of_ranks_gives_the_bits_of_one_process(self):
        for ranks in (1, 2, 4):
            for ahead in (False, True):
                with self.subTest(ranks=ranks, ahead=ahead):
                    for losses in tutti.run(EXAMPLE.train, ranks, ahead):
                        self.assertEqual(losses, self.one)

    def test_three_ranks_are_refused(self):
        with self.assertRaisesRegex(ValueError, "give 1, 2 or 4"):
            tutti.run(EXAMPLE.train, 3)


class Refusals(unittest.TestCase):
    def refused(self, said, function):
        with self.assertRaisesRegex(tutti.InvalidInput, said):
            tutti.run(function, 1)

    def test_of_embedding_tables(self):
        plan = tutti.plan_tables([tutti.EmbeddingTable(name="t", rows=4, width=4)], ranks=1, batch=2)

        def tables(comm, **options):
            return tutti.EmbeddingTables(comm, plan, tutti.row_sgd(1.0), **options)

        self.refused("asked for row 4", lambda comm: tables(comm).forward([([4], [0, 1])]))
        self.refused("0 tables of ids", lambda comm: tables(comm).forward([]))
        self.refused("pass sum or mean", lambda comm: tables(comm, pooling="max"))
        self.refused("forward wire", lambda comm: tables(comm, forward_wire="float64"))
        self.refused("pass float32", lambda comm: tables(comm).load(0, numpy.zeros((4, 4))))
        self.refused("has 16 values", lambda comm: tables(comm).load(0, numpy.zeros((4, 3), "float32")))

    def test_of_gathers(self):
        table = numpy.zeros((4, 3), "float32")
        gather = tutti.RowGather(table)
        for said, ids, out in (("row 4", [4], numpy.zeros((1, 3), "float32")),
                               ("need 24 bytes", [0, 1], numpy.zeros((1, 3), "float32")),
                               ("and the table", [0], numpy.zeros((1, 3))),
                               ("lies in the table", [0], table[1:])):
            with self.assertRaisesRegex(tutti.InvalidInput, said):
                gather.gather(ids, out)


if __name__ == "__main__":
    unittest.main(verbosity=1)
