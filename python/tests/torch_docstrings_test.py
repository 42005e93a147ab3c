#!/usr/bin/env python3
"""Every example in a docstring of tutti.torch runs, and everything public there has a docstring."""

import doctest
import importlib
import pkgutil
import unittest

import place

place.find("torch")

import torch  # noqa: E402

import tutti  # noqa: E402
import tutti.torch as tt  # noqa: E402

torch.set_num_threads(1)


class Docstrings(unittest.TestCase):
    def test_examples_run(self):
        tried = 0
        for found in pkgutil.iter_modules(tt.__path__, "tutti.torch."):
            module = importlib.import_module(found.name)
            failed, attempted = doctest.testmod(module, globs={"tutti": tutti, "tt": tt, "torch": torch})
            self.assertEqual(failed, 0, module.__name__)
            tried += attempted
        self.assertGreater(tried, 10)

    def test_everything_public_is_described(self):
        bare = [name for name in tt.__all__ if not (getattr(tt, name).__doc__ or "").strip()]
        self.assertEqual(bare, [])


if __name__ == "__main__":
    unittest.main(verbosity=1)
