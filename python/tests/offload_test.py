#!/usr/bin/env python3
"""A model trains to the same bits with its activations on a disk."""

import os
import subprocess
import sys
import tempfile
import time
import unittest

import place

place.find("numpy", "torch")

import torch  # noqa: E402
import tutti  # noqa: E402
from tutti import offload  # noqa: E402

WIDTH, LAYERS, ROWS = 128, 4, 512


def model_of(seed):
    torch.manual_seed(seed)
    layers = []
    for _ in range(LAYERS):
        layers += [torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU(), torch.nn.LayerNorm(WIDTH)]
    return torch.nn.Sequential(*layers)


def train(saved, steps=3):
    model = model_of(1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    losses = []
    for step in range(steps):
        torch.manual_seed(step)
        batch = torch.randn(ROWS, WIDTH)
        if saved is None:
            loss = model(batch).square().mean()
        else:
            with saved:
                loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, [parameter.detach().clone() for parameter in model.parameters()]


def wait_until_empty(saved):
    """Writes that had begun end though nobody needs them."""
    while saved.counters.held:
        time.sleep(0.001)


class Offload(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()

    def tearDown(self):
        self.folder.cleanup()

    def saved(self, budget=1 << 20, **more):
        return offload.SavedTensors(self.folder.name, budget, **more)

    def test_the_same_bits_in_less_memory(self):
        expected, parameters = train(None)
        for io_uring in (True, False):
            with self.subTest(io_uring=io_uring):
                saved = self.saved(io_uring=io_uring)
                losses, trained = train(saved)
                self.assertEqual(losses, expected)
                for ours, theirs in zip(trained, parameters):
                    self.assertTrue(torch.equal(ours, theirs))
                counters = saved.counters
                self.assertGreater(counters.written, 1 << 20)
                wait_until_empty(saved)
                # A read that the backward pass waits for may come on top.
                self.assertLessEqual(counters.peak, (1 << 20) + ROWS * WIDTH * 4)
                self.assertGreaterEqual(counters.planned, 0)

    def test_one_storage_is_written_once(self):
        saved = self.saved(1 << 24)
        with saved:
            x = torch.ones(200_000, requires_grad=True) * 2
            y = (x * x[:1].expand(200_000)) * x.view(2, -1).view(-1)
        counters = saved.counters
        self.assertGreater(counters.packed, counters.writes)
        y.sum().backward()
        del x, y
        wait_until_empty(saved)

    def test_parameters_and_what_is_kept_stay(self):
        saved = self.saved(keep=[kept := torch.randn(40_000)])
        weight = torch.randn(40_000, requires_grad=True)
        with saved:
            (weight * kept).sum().backward()
        self.assertEqual(saved.counters.packed, 0)

    def test_a_backward_pass_may_come_twice_or_never(self):
        saved = self.saved(1 << 24)
        x = torch.randn(100_000, requires_grad=True)
        with saved:
            y = (x * 2).exp().sum()
        y.backward(retain_graph=True)
        first = x.grad.clone()
        y.backward()
        self.assertTrue(torch.equal(x.grad, 2 * first))
        with saved:
            unused = (x * 2).exp()
        del unused, y
        wait_until_empty(saved)

    def test_a_change_in_place_is_refused(self):
        saved = self.saved(1 << 24, write=1000.0)
        with saved:
            x = torch.randn(100_000, requires_grad=True) * 1
            y = x * x
        with torch.no_grad():
            x.add_(1)
        with self.assertRaisesRegex(Exception, "changed in place|modified by an inplace"):
            y.sum().backward()

    def test_errors_reach_the_step(self):
        saved = self.saved(1000)
        with self.assertRaisesRegex(Exception, "raise the budget"), saved:
            (torch.ones(100_000, requires_grad=True) * 2).exp()
        with self.assertRaisesRegex(tutti.Infeasible, "no file can be made"):
            offload.SavedTensors("/nowhere", 1000)

    def test_torch_is_imported_only_when_asked(self):
        said = subprocess.run([sys.executable, "-c", "import sys, tutti.offload; print('torch' in sys.modules)"],
                              capture_output=True, text=True, check=True, env=os.environ)
        self.assertEqual(said.stdout.strip(), "False")


if __name__ == "__main__":
    unittest.main(verbosity=1)
