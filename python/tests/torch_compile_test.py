#!/usr/bin/env python3
"""Movers under torch.compile(fullgraph=True): the same values and gradients, and no break of the graph."""

import unittest

import place

place.find("torch")

import torch  # noqa: E402
import torch_ranks  # noqa: E402

import tutti  # noqa: E402
import tutti.torch as tt  # noqa: E402


# What compiling imports is imported once, before the processes are forked; no backward pass, whose threads
# would not be in the children, and no trace of one.
torch.compile(lambda x: (x * x).sum(), backend="aot_eager")(torch.ones(2))


def gradients(function, *inputs):
    leaves = [x.clone().requires_grad_() for x in inputs]
    y = function(*leaves)
    (y * y).sum().backward()
    return [y.detach(), *[leaf.grad for leaf in leaves]]


def equal(function, *inputs):
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    return [torch.equal(a, b) for a, b in zip(gradients(function, *inputs), gradients(compiled, *inputs))]


def exchanges_and_sums(rank):
    exchange = tt.Exchange(tutti.reshard(tutti.even(8, 2), tutti.zigzag(8, 2)))
    gather = tt.ragged_all_gather([3, 5])
    sums = tt.Sums(deterministic=True)

    def function(x, w):
        a, b = sums.leave(exchange(sums.enter(x)) @ gather(w).t(), x.sum(0))
        return a.relu().sum(0) + b.sum()
    torch.manual_seed(rank)
    return equal(function, torch.randn(4, 6), torch.randn([3, 5][rank], 6))


def experts(rank, helpers):
    moe = tt.MixtureOfExperts(8, 16, 4, 2, capacity=100, helpers=helpers, gate=1.0)
    torch.manual_seed(rank)
    same = equal(moe, torch.randn(10, 8))
    moe.zero_grad()
    return same + [moe.switch.moves >= 0]


def attention(rank):
    attend = tt.ContextAttention(tutti.zigzag(8, 2))
    torch.manual_seed(rank)
    return equal(lambda x, w: attend(*(x @ w).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)).relu(),
                 torch.randn(2, 4, 6), torch.randn(6, 24))


class Compiled(unittest.TestCase):
    def test_attention_over_a_divided_sequence(self):
        self.assertEqual(torch_ranks.run(attention, 2), [[True] * 3] * 2)

    def test_exchanges_and_sums(self):
        self.assertEqual(torch_ranks.run(exchanges_and_sums, 2), [[True] * 3] * 2)

    def test_a_mixture_of_experts(self):
        for helpers in (0, 1):
            self.assertEqual(torch_ranks.run(experts, 2, helpers), [[True] * 3] * 2)

    def test_a_rank_that_fails_is_said(self):
        def fails(rank):
            if rank == 1:
                raise LookupError("of rank 1")
        with self.assertRaisesRegex(AssertionError, "of rank 1"):
            torch_ranks.run(fails, 2)


if __name__ == "__main__":
    unittest.main(verbosity=1)
