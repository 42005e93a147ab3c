#!/usr/bin/env python3
"""Every docstring's example runs, and everything public has a docstring."""

import doctest
import importlib
import pkgutil
import types
import unittest

import place

place.find("numpy")

import tutti  # noqa: E402
import tutti._core  # noqa: E402

NEED_TORCH = "tutti.torch"  # torch_docstrings_test.py runs these
NEED_ATTRS = ("tutti.config", "tutti.arrangements")


def modules():
    """All modules of the package but those that need PyTorch, or act when they are imported."""
    yield tutti
    for found in pkgutil.iter_modules(tutti.__path__, "tutti."):
        if found.name.startswith((NEED_TORCH, "tutti.nccl", "tutti.__main__")):
            continue
        try:
            yield importlib.import_module(found.name)
        except ModuleNotFoundError as error:
            if found.name not in NEED_ATTRS:
                raise
            print(f"skipped: the examples of {found.name} ({error})")


class Docstrings(unittest.TestCase):
    def test_examples_run(self):
        tried = 0
        for module in modules():
            failed, attempted = doctest.testmod(module, globs={"tutti": tutti})
            self.assertEqual(failed, 0, module.__name__)
            tried += attempted
        self.assertGreater(tried, 40)

    def test_examples_of_the_binding_run(self):
        """doctest looks only at what Python defines, so the binding's are handed over one by one."""
        finder, runner = doctest.DocTestParser(), doctest.DocTestRunner()
        for name, thing in sorted(vars(tutti._core).items()):
            for where, doc in self.docs_of(name, thing):
                test = finder.get_doctest(doc or "", {"tutti": tutti}, where, where, 0)
                runner.run(test)
        self.assertEqual(runner.summarize(verbose=False).failed, 0)

    @staticmethod
    def docs_of(name, thing):
        yield name, getattr(thing, "__doc__", None)
        if isinstance(thing, type):
            for inner, member in vars(thing).items():
                if not inner.startswith("_"):
                    yield f"{name}.{inner}", getattr(member, "__doc__", None)

    def test_everything_public_is_described(self):
        bare = [name for name, thing in vars(tutti).items()
                if not name.startswith("_") and not isinstance(thing, types.ModuleType)
                and not (getattr(thing, "__doc__", None) or "").strip()]
        self.assertEqual(bare, [])


if __name__ == "__main__":
    unittest.main(verbosity=1)
