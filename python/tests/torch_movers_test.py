#!/usr/bin/env python3
"""Movers on tensors: values and gradients against PyTorch's own arithmetic on whole tensors, with ranks as
threads."""

import unittest

import place

place.find("torch")

import torch  # noqa: E402

import tutti  # noqa: E402
import tutti.torch as tt  # noqa: E402

torch.set_num_threads(1)
TYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


def whole(shape, dtype=torch.float32, seed=0):
    """The same numbers on all ranks; small integers, so that sums are exact in every type."""
    numbers = torch.Generator().manual_seed(seed)
    return torch.randint(-4, 5, shape, generator=numbers).to(dtype)


def local(tensor, sharding, rank):
    parts = [tensor[s.begin:s.begin + s.length] for s in sharding.shards if s.rank == rank]
    return torch.cat(parts) if parts else tensor[:0]


class Exchanges(unittest.TestCase):
    def pairs(self, size, ranks):
        counts = [size - ranks + 1] + [1] * (ranks - 1)
        return [(tutti.even(size, ranks), tutti.zigzag(size, ranks)),
                (tutti.striped(size, ranks, 1), tutti.contiguous(counts)),
                (tutti.contiguous(counts), tutti.replicated(size, ranks)),
                (tutti.contiguous([size] + [0] * (ranks - 1)), tutti.even(size, ranks))]

    def test_rows_and_gradients_of_every_type_and_shape(self):
        def main(comm):
            wrong = []
            for number, (source, target) in enumerate(self.pairs(8 * comm.ranks, comm.ranks)):
                exchange = tt.Exchange(tutti.reshard(source, target), comm)
                for dtype in TYPES:
                    for row in ((), (3,), (2, 2)):
                        x = local(whole((source.size, *row), dtype), source, comm.rank)
                        x.requires_grad_()
                        y = exchange(x)
                        expected = local(whole((source.size, *row), dtype), target, comm.rank)
                        weights = whole((source.size, *row), dtype, 1)
                        (y * local(weights, target, comm.rank)).sum().backward()
                        gradient = local(weights * target.copies, source, comm.rank)
                        if not torch.equal(y, expected) or not torch.equal(x.grad, gradient):
                            wrong.append((number, dtype, row))
            return wrong
        for ranks in (1, 2, 3):
            self.assertEqual(tutti.run(main, ranks), [[]] * ranks)

    def test_what_meets_is_added_only_where_that_was_said(self):
        plan = tutti.reverse(tutti.reshard(tutti.even(4, 2), tutti.replicated(4, 2)))

        def main(comm):
            with self.assertRaisesRegex(tutti.InvalidInput, "reduce=\"sum\""):
                tt.Exchange(plan, comm)
            x = torch.arange(8.0).view(4, 2).to(torch.bfloat16).requires_grad_()
            y = tt.ragged_reduce_scatter([1, 3], comm)(x)
            y.sum().backward()
            return y.tolist(), x.grad.sum().item()
        self.assertEqual(tutti.run(main, 2), [([[0, 2]], 8), ([[4, 6], [8, 10], [12, 14]], 8)])

    def test_wrong_rows_and_types_are_refused_with_a_sentence(self):
        def main(comm):
            exchange = tt.Exchange(tutti.reshard(tutti.even(4, 2), tutti.zigzag(4, 2)), comm)
            said = []
            for x in (torch.zeros(3, 2), torch.zeros(2, dtype=torch.complex64)):
                try:
                    exchange(x)
                except tutti.InvalidInput as error:
                    said.append(str(error))
            return said + [exchange(torch.ones(2)).tolist()]
        for rows, dtype, good in tutti.run(main, 2):
            self.assertIn("has 2 rows", rows)
            self.assertIn("complex64", dtype)
            self.assertEqual(good, [1, 1])

    def test_ranks_whose_plans_differ_are_told(self):
        def main(comm):
            target = [tutti.zigzag(8, 2), tutti.striped(8, 2, 1)][comm.rank]
            try:
                tt.Exchange(tutti.reshard(tutti.even(8, 2), target), comm)(torch.zeros(4))
            except tutti.RanksDiffer:
                return True
        self.assertEqual(tutti.run(main, 2), [True, True])


class Sums(unittest.TestCase):
    def test_gradients_of_the_three_ways(self):
        def main(comm):
            sums, found = tt.Sums(comm), []
            for way in (sums.all_reduce, sums.enter, sums.leave):
                x = torch.full((2,), comm.rank + 1.0, requires_grad=True)
                y = way(x)
                (y * (comm.rank + 10)).sum().backward()
                found.append((y[0].item(), x.grad[0].item()))
            return found
        self.assertEqual(tutti.run(main, 2), [[(3, 21), (1, 21), (3, 10)], [(3, 21), (2, 21), (3, 11)]])

    def test_tensors_of_several_types_go_together(self):
        def main(comm):
            x, n = torch.ones(3, 2).t(), torch.tensor([comm.rank])
            b = torch.full((5,), 0.5, dtype=torch.bfloat16)
            y, m, c = tt.Sums(comm, deterministic=True).all_reduce(x, n, b)
            return y.shape == x.shape, y.sum().item(), m.item(), c.sum().item(), x.sum().item()
        self.assertEqual(tutti.run(main, 3), [(True, 18.0, 3, 7.5, 6.0)] * 3)


class Experts(unittest.TestCase):
    TOKENS, WIDTH, K, EXPERTS = 12, 8, 2, 8

    def topk_of(self, rank, skewed):
        numbers = torch.Generator().manual_seed(rank + 50)
        weights = torch.ones(self.TOKENS, self.EXPERTS)
        if skewed:
            weights[:, 0] = 40
        return torch.multinomial(weights, self.K, generator=numbers)

    def expected(self, rank, skewed, limit):
        """What one process computes: expert e multiplies by e + 1; the first `limit` of a rank stay."""
        topk = self.topk_of(rank, skewed)
        x = whole((self.TOKENS, self.WIDTH), seed=rank)
        taken, slots = [0] * self.EXPERTS, torch.zeros(self.TOKENS, self.K, self.WIDTH)
        for token in range(self.TOKENS):
            for j in range(self.K):
                expert = int(topk[token, j])
                taken[expert] += 1
                if taken[expert] <= limit:
                    slots[token, j] = x[token] * (expert + 1)
        return slots.view(-1, self.WIDTH)

    def through(self, comm, skewed, kind=tt.TokenSwitch, **options):
        switch = kind(comm, experts=self.EXPERTS, capacity=400, **options)
        topk = self.topk_of(comm.rank, skewed)
        x = whole((self.TOKENS, self.WIDTH), seed=comm.rank).requires_grad_()
        factors = (torch.arange(switch.each) + comm.rank * switch.each + 1.0).requires_grad_()
        counts = switch.count(topk)
        every = factors.view(-1, 1)
        if kind is tt.OverlappedSwitch:
            rows, helped = switch.dispatch_with_weights(x, topk, counts, every)
            every = torch.cat([every, helped])
        else:
            rows = switch.dispatch(x, topk, counts)
        if switch.helpers and kind is tt.TokenSwitch:
            every = torch.cat([every, switch.helper_weights(every, counts)])
        ends = switch.group_ends(counts)
        group = torch.searchsorted(ends, torch.arange(rows.shape[0]), right=True)
        slots = switch.combine(rows * every[group], topk, counts)
        slots.sum().backward()
        return switch, rows, slots, x, factors

    def check(self, ranks, skewed=False, limit=1000, **options):
        def main(comm):
            switch, rows, slots, x, factors = self.through(comm, skewed, **options)
            expected = self.expected(comm.rank, skewed, limit)
            gradient = torch.zeros(self.TOKENS, self.K)
            nonzero = expected.abs().sum(1).view(self.TOKENS, self.K) > 0
            gradient[nonzero] = (self.topk_of(comm.rank, skewed)[nonzero] + 1).float()
            return (torch.equal(slots, expected), torch.equal(x.grad, gradient.sum(1, keepdim=True)
                    .expand_as(x)), rows.shape[0], switch.moves, factors.grad.tolist())
        answers = tutti.run(main, ranks)
        for rank, (same, gradients, *_) in enumerate(answers):
            self.assertTrue(same, f"rank {rank}: values")
            self.assertTrue(gradients, f"rank {rank}: gradients")
        return [answer[2] for answer in answers], answers[0][3], sum((a[4] for a in answers), [])

    def test_rows_go_to_their_experts_and_back(self):
        grads = [self.check(ranks)[2] for ranks in (1, 2, 4)]
        by_hand = torch.zeros(self.EXPERTS)
        for e in range(self.EXPERTS):
            chosen = self.topk_of(0, False) == e
            by_hand[e] = sum(whole((self.TOKENS, self.WIDTH))[chosen.any(1)].sum(1))
        self.assertEqual(grads[0], by_hand.tolist())

    def test_the_first_tokens_stay_where_room_is_limited(self):
        self.check(2, limit=3, expert_capacity=3)

    def test_helpers_take_tokens_and_weights_and_gradients_come_home(self):
        plain, moves, expected = self.check(4, skewed=True)
        self.assertEqual(moves, 0)
        balanced, moves, gradients = self.check(4, skewed=True, helpers=2, gate=1.1)
        self.assertEqual(gradients, expected)
        self.assertGreater(moves, 0)
        self.assertEqual(sum(balanced), sum(plain))
        self.assertLess(max(balanced), max(plain))

    def test_weights_that_travel_beside_tokens_arrive_as_others(self):
        _, _, expected = self.check(4, skewed=True)
        one = self.check(4, skewed=True, helpers=2, gate=1.1)
        two = self.check(4, skewed=True, helpers=2, gate=1.1, kind=tt.OverlappedSwitch)
        self.assertEqual(two, one)
        self.assertEqual(two[2], expected)
        even = self.check(2, helpers=1, gate=100.0, kind=tt.OverlappedSwitch)
        self.assertEqual(even[1], 0)  # nobody is helped

    def test_micro_batches_may_overlap(self):
        def main(comm):
            switch = tt.TokenSwitch(comm, experts=2, capacity=64)
            kept = []
            for i in range(2):  # both forward passes come before both backward passes
                topk = (torch.arange(6) // (i + 1) % 2).view(6, 1)
                x = whole((6, 4), seed=comm.rank + 10 * i).requires_grad_()
                counts = switch.count(topk)
                rows = switch.dispatch(x, topk, counts)
                kept.append((x, switch.combine(rows * 2, topk, counts)))
            for x, slots in kept:
                (slots * slots).sum().backward()
            return all(torch.equal(x.grad, 8 * x) for x, _ in kept)
        self.assertEqual(tutti.run(main, 2), [True, True])

    def test_room_grows_with_what_comes(self):
        def main(comm):
            switch, good = tt.TokenSwitch(comm, experts=2), []
            for tokens in (3, 40, 2, 41, 0):
                topk = torch.zeros(tokens, 1, dtype=torch.int64)
                x = whole((tokens, 4), seed=comm.rank)
                counts = switch.count(topk)
                rows = switch.dispatch(x, topk, counts)
                good.append(torch.equal(switch.combine(rows * 2, topk, counts), 2 * x))
            return good
        self.assertEqual(tutti.run(main, 2), [[True] * 5] * 2)

    def test_slots_have_rows_of_their_own(self):
        def main(comm):
            switch, topk = tt.TokenSwitch(comm, experts=self.EXPERTS), self.topk_of(comm.rank, False)
            scores = torch.rand(topk.numel(), 1, requires_grad=True)
            counts = switch.count(topk)
            rows = switch.dispatch_slots(scores, topk, counts)
            slots = switch.combine(rows * 3, topk, counts)
            (slots * slots).sum().backward()
            return torch.equal(slots, 3 * scores), torch.allclose(scores.grad, 18 * scores)
        self.assertEqual(tutti.run(main, 2), [(True, True)] * 2)

    def test_split_experts_add_their_parts(self):
        def main(comm, etp, ep, dtype):
            groups = tt.communicators(tutti.Mesh(etp=etp, ep=ep), comm)
            switch = tt.FoldedSwitch(groups["ep"], groups["etp"], experts=self.EXPERTS)
            topk = self.topk_of(comm.rank, True)
            x = whole((self.TOKENS, self.WIDTH), dtype, seed=comm.rank).requires_grad_()
            counts = switch.count(topk)
            rows = switch.dispatch(x, topk, counts)
            place = groups["ep"].rank
            factors = torch.arange(switch.each, dtype=dtype) + place * switch.each + 1
            expert = torch.arange(switch.each).repeat_interleave(switch.rows_of_experts(counts))
            parts = rows * factors[expert].unsqueeze(1) / etp  # what each rank of etp computes
            slots = switch.combine(parts, topk, counts)
            slots.sum().backward()
            expected = self.expected(comm.rank, True, 1000).to(dtype)
            gradient = (topk + 1).sum(1, keepdim=True).to(dtype).expand_as(x)
            return torch.equal(slots, expected), torch.equal(x.grad, gradient)
        for etp, ep in ((1, 2), (2, 1), (2, 2), (4, 1)):
            for dtype in (torch.float32, torch.bfloat16):
                with self.subTest(etp=etp, ep=ep, dtype=dtype):
                    self.assertEqual(tutti.run(main, etp * ep, etp, ep, dtype), [(True, True)] * (etp * ep))

    def test_what_cannot_be_is_refused_on_all_ranks(self):
        def main(comm):
            said = []
            shared = tt.SharedRows(comm)
            switch = tt.TokenSwitch(comm, experts=2, capacity=3)
            topk = torch.zeros(2, 1, dtype=torch.int64)
            counts = switch.count(topk)
            for call in (lambda: tt.TokenSwitch(comm, experts=3, capacity=1),
                         lambda: switch.count(torch.tensor([[7]])),
                         lambda: switch.dispatch(torch.zeros(5, 4), topk, counts),
                         lambda: switch.dispatch(torch.zeros(2, 4), topk, counts),
                         lambda: shared.gather(torch.zeros(2, 4), torch.tensor([1, 1]))):
                try:
                    call()
                except tutti.Error as error:
                    said.append(str(error))
            return said
        for three, seven, rows, room, sizes in tutti.run(main, 2):
            self.assertIn("gives 1 rows", sizes)
            self.assertIn("3 experts are not a multiple of 2", three)
            self.assertIn("experts 7 to 7", seven)
            self.assertIn("needs 2 rows", rows)
            self.assertIn("room for 3", room)


class Modules(unittest.TestCase):
    def test_the_module_computes_what_one_process_does(self):
        data = torch.randn(32, 16, generator=torch.Generator().manual_seed(3))

        def main(comm, helpers, drop):
            torch.manual_seed(0)
            moe = tt.MixtureOfExperts(16, 32, 8, 2, comm, capacity=300, helpers=helpers, gate=1.0)
            x = data.chunk(comm.ranks)[comm.rank].clone().requires_grad_()
            y = moe(x)
            (y * y).sum().backward()
            comm.all_reduce(moe.router.weight.grad)
            if drop and comm.rank == 0:
                moe.w1.grad[0] = 0
            return y.detach(), x.grad, moe.w1.grad, moe.router.weight.grad, moe.load_balance.item()

        def joined(ranks, helpers=0, drop=False):
            parts = tutti.run(main, ranks, helpers, drop)
            return [torch.cat([part[i] for part in parts]) for i in range(3)] + [parts[0][3]]
        one = joined(1)
        for ranks, helpers in ((2, 0), (4, 0), (4, 2)):
            for a, b in zip(one, joined(ranks, helpers)):
                torch.testing.assert_close(b, a, rtol=1e-5, atol=1e-5)
        with self.assertRaises(AssertionError):  # the control: one gradient is dropped
            torch.testing.assert_close(joined(2, drop=True)[2], one[2], rtol=1e-5, atol=1e-5)


if __name__ == "__main__":
    unittest.main(verbosity=1)
