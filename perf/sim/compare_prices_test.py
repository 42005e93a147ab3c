#!/usr/bin/env python3
"""compare_prices.py: what it reads, and what it makes of it."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import compare_prices  # noqa: E402

TEXT = """# all_reduce of 65536 bytes by 8 ranks
#algorithm                    predicted/us   simulated/us  why not
  two_shot                           14.42          16.64
  ring:2                             30.00          20.00
  one_shot                           49.59                 not simulated: 8 ranks are too many
"""


class ComparePricesTest(unittest.TestCase):
    """Of a made-up output."""

    def test_reads_both_times_and_counts_what_has_one(self):
        """Algorithms without a simulated time are no prices."""
        prices, left_out = compare_prices.prices_in(TEXT, "c", "all_reduce", "64K")
        self.assertEqual([(one.algorithm, one.predicted, one.simulated) for one in prices],
                         [("two_shot", 14.42, 16.64), ("ring:2", 30.0, 20.0)])
        self.assertEqual(left_out, 1)

    def test_a_factor_says_nothing_of_who_is_larger(self):
        """So that errors of both signs do not cancel."""
        prices, left_out = compare_prices.prices_in(TEXT, "c", "all_reduce", "64K")
        self.assertAlmostEqual(prices[0].factor, 16.64 / 14.42)
        self.assertAlmostEqual(prices[1].factor, 1.5)
        text = compare_prices.report(prices, left_out)
        self.assertIn("| c | 2 | 1.33 | 1.50 |", text)
        self.assertIn("| c: all_reduce/ring:2 of 64K | 30.00 | 20.00 | 1.50 |", text)
        self.assertIn("Not simulated: 1.", text)


if __name__ == "__main__":
    unittest.main()
