#!/usr/bin/env python3
"""Attention over divided sequences against PyTorch's own on the whole one: outputs and gradients."""

import unittest

import place

place.find("torch")

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

import tutti  # noqa: E402
import tutti.torch as tt  # noqa: E402

torch.set_num_threads(1)
TOKENS = 48


def inputs(heads=2, shared=1, dtype=torch.float32):
    numbers = torch.Generator().manual_seed(5)
    return [torch.randn(2, h, TOKENS, 8, generator=numbers).to(dtype)
            for h in (heads, heads // shared, heads // shared)]


def mask_of(causal, lengths):
    mask = torch.ones(TOKENS, TOKENS, dtype=torch.bool)
    if causal:
        mask = mask.tril()
    if lengths:
        document = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
        mask &= document.unsqueeze(1) == document.unsqueeze(0)
    return mask


def whole(causal=True, lengths=None, **options):
    leaves = [x.double().requires_grad_() for x in inputs(**options)]
    y = F.scaled_dot_product_attention(*leaves, attn_mask=mask_of(causal, lengths), enable_gqa=True)
    (y * y).sum().backward()
    return [y.detach(), *[leaf.grad for leaf in leaves]]


def divided(sharding, drop=False, dtype=torch.float32, heads=2, shared=1, **options):
    """Each rank's outputs and gradients, put together in the sequence's order."""
    def main(comm):
        attention = tt.ContextAttention(sharding, comm, **options)
        leaves = [attention.shard(x, 2).requires_grad_() for x in inputs(heads, shared, dtype)]
        y = attention(*leaves)
        (y * y).sum().backward()
        if drop and comm.rank == 1:
            leaves[1].grad.zero_()
        return attention.positions, [y.detach(), *[leaf.grad for leaf in leaves]], attention.computed
    parts = tutti.run(main, sharding.ranks)
    order = torch.argsort(torch.cat([part[0] for part in parts]))
    joined = [torch.cat([part[1][i] for part in parts], 2).index_select(2, order) for i in range(4)]
    return joined, [part[2] for part in parts]


class Attention(unittest.TestCase):
    def close(self, found, expected, bound=2e-5):
        for a, b in zip(found, expected):
            self.assertLess(((a.double() - b).abs().max() / b.abs().max()).item(), bound)

    def test_every_placement(self):
        expected = whole()
        for ranks in (1, 2, 4):
            for sharding in (tutti.even(TOKENS, ranks), tutti.zigzag(TOKENS, ranks),
                             tutti.striped(TOKENS, ranks, 1), tutti.striped(TOKENS, ranks, 3),
                             tutti.contiguous([TOKENS - ranks + 1] + [1] * (ranks - 1))):
                self.close(divided(sharding)[0], expected)

    def test_masks_heads_and_types(self):
        sharding = tutti.zigzag(TOKENS, 2)
        for options in ({"causal": False}, {"lengths": [5, 30, 13]}, {"lengths": [24, 24], "causal": False}):
            self.close(divided(sharding, **options)[0], whole(**options))
            self.close(divided(sharding, rotate="gather", chunk=5, **options)[0], whole(**options))
        self.close(divided(sharding, heads=4, shared=2)[0], whole(heads=4, shared=2))
        found = divided(sharding, dtype=torch.bfloat16)[0]
        self.assertEqual(found[0].dtype, torch.bfloat16)
        self.close(found, whole(dtype=torch.bfloat16), 0.02)

    def test_a_dropped_gradient_exceeds_the_bound(self):
        with self.assertRaises(AssertionError):
            self.close(divided(tutti.zigzag(TOKENS, 2), drop=True)[0], whole())

    def test_zigzag_balances_what_even_does_not(self):
        self.assertEqual(divided(tutti.even(TOKENS, 4))[1], [1, 2, 3, 4])
        self.assertEqual(divided(tutti.zigzag(TOKENS, 4))[1], [4] * 4)

    def test_gathered_chunks_have_equal_bits_on_any_number_of_ranks(self):
        outputs = [divided(sharding, rotate="gather", chunk=6)[0][0]
                   for sharding in (tutti.even(TOKENS, 1), tutti.even(TOKENS, 2), tutti.even(TOKENS, 4),
                                    tutti.zigzag(TOKENS, 4), tutti.striped(TOKENS, 2, 6))]
        self.close([outputs[0]], whole()[:1])
        for output in outputs[1:]:
            self.assertTrue(torch.equal(output, outputs[0]))
        ring = divided(tutti.even(TOKENS, 4))[0][0]
        self.assertFalse(torch.equal(ring, outputs[0]))  # the control: another order of merging

    def test_wrong_shapes_are_refused(self):
        def main(comm):
            attention = tt.ContextAttention(tutti.even(TOKENS, 2), comm)
            with self.assertRaisesRegex(tutti.InvalidInput, r"are not \[batch, heads, 24, width\]"):
                attention(*inputs())
            with self.assertRaisesRegex(tutti.InvalidInput, "the group has 2"):
                tt.ContextAttention(tutti.even(TOKENS, 4), comm)
            with self.assertRaisesRegex(tutti.InvalidInput, "documents have 3"):
                tt.ContextAttention(tutti.even(TOKENS, 2), comm, lengths=[3])
            return True
        self.assertEqual(tutti.run(main, 2), [True, True])


if __name__ == "__main__":
    unittest.main(verbosity=1)
