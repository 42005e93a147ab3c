#!/usr/bin/env python3
"""Line charts are XML, their points lie where their values say, and what has no place is refused."""

import pathlib
import re
import sys
import unittest
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from chart import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Chart  # noqa: E402


def lines_of(chart):
    """The places of each line's points."""
    root = xml.etree.ElementTree.fromstring(chart.svg())
    found = [line.get("points") for line in root.iter() if line.tag.endswith("polyline")]
    return [[tuple(map(float, place.split(","))) for place in points.split()] for points in found]


class Charts(unittest.TestCase):
    def test_points_of_logarithmic_axes(self):
        chart = Chart("a < b & c", "Mb/s", "s", log_x=True, log_y=True)
        chart.add("one", [(1, 0.1), (10, 1), (100, 10)])
        self.assertEqual(lines_of(chart), [[(LEFT, HEIGHT - BOTTOM), ((LEFT + WIDTH - RIGHT) / 2, (TOP + HEIGHT - BOTTOM) / 2),
                                            (WIDTH - RIGHT, TOP)]])

    def test_a_linear_axis_begins_at_zero(self):
        chart = Chart("", "", "")
        chart.add("one", [(0, 0), (30, 6)])
        (low, high), = lines_of(chart)
        self.assertEqual(low, (LEFT, HEIGHT - BOTTOM))
        self.assertEqual(high, (WIDTH - RIGHT, TOP))

    def test_names_stand_apart(self):
        chart = Chart("", "", "")
        for name in ("one", "two", "three"):
            chart.add(name, [(1, 1), (2, 5)])
        chart.mark(2, "enough")
        heights = [float(y) for y, name in re.findall(r'y="([\d.]+)" fill="[^"]+">(\w+)<', chart.svg())
                   if name != "enough"]
        self.assertEqual(len(heights), 3)
        self.assertGreaterEqual(min(b - a for a, b in zip(heights, heights[1:])), 11)
        self.assertIn(">enough<", chart.svg())

    def test_the_same_values_give_the_same_bytes(self):
        def drawn():
            chart = Chart("t", "x", "y", log_y=True)
            chart.add("one", [(1, 3), (7, 9)])
            return chart.svg()
        self.assertEqual(drawn(), drawn())

    def test_what_has_no_place_is_refused(self):
        chart = Chart("", "", "", log_x=True)
        self.assertRaisesRegex(ValueError, "without lines", chart.svg)
        self.assertRaisesRegex(ValueError, "without points", chart.add, "one", [])
        chart.add("one", [(0, 1)])
        self.assertRaisesRegex(ValueError, "no place", chart.svg)


if __name__ == "__main__":
    unittest.main()
