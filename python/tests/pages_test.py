#!/usr/bin/env python3
"""The lines of Python on pages of docs/ do what the pages say, and their pictures are there."""

import doctest
import os
import re
import unittest

import place

place.find()

PAGES = ["systems.md"]


class Pages(unittest.TestCase):
    def test_lines_do_what_pages_say(self):
        for page in PAGES:
            failed, tried = doctest.testfile(os.path.join(place.ROOT, "docs", page), module_relative=False)
            self.assertEqual(failed, 0, page)
            self.assertGreater(tried, 20, page)

    def test_pictures_are_there(self):
        for page in PAGES:
            with open(os.path.join(place.ROOT, "docs", page), encoding="utf-8") as file:
                for picture in re.findall(r"!\[[^]]*\]\(([^)]+)\)", file.read()):
                    self.assertTrue(os.path.exists(os.path.join(place.ROOT, "docs", picture)), picture)


if __name__ == "__main__":
    unittest.main(verbosity=1)
