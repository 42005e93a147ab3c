#!/usr/bin/env python3
"""Low-rank blocks, activation plans, groups for sequences and attention servers, with ranks as threads: values
and gradients against one rank's, or against PyTorch's own."""

import gc
import unittest

import place

place.find("torch")

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
import torch_ranks  # noqa: E402
from torch import nn  # noqa: E402

import tutti  # noqa: E402
import tutti.torch as tt  # noqa: E402
from tutti import offload  # noqa: E402

torch.set_num_threads(1)


def numbers(seed, *shape, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def refused(*calls):
    said = []
    for call in calls:
        try:
            call()
        except tutti.Error as error:
            said.append(str(error))
    return said


# ---- low rank ------------------------------------------------------------------------------------

def bottleneck(rank):
    """A user's own layers by parallelize_module(), and as they were."""
    import torch.distributed as dist
    from torch.distributed.tensor.parallel import parallelize_module
    mesh = dist.device_mesh.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))

    def layers():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(8, 3, bias=False), nn.Linear(3, 6, bias=False)).double()
    x, whole, cut = numbers(1, 5, 8), layers(), layers()
    parallelize_module(cut, mesh["tp"], tt.Bottleneck())
    expected = whole(x)
    (expected * expected).sum().backward()
    own = x.chunk(2, 1)[rank].clone()
    y = cut(own)
    (y * y).sum().backward()
    said = refused(lambda: parallelize_module(nn.Sequential(nn.Linear(2, 2)), mesh["tp"], tt.Bottleneck()))
    return (torch.allclose(y, expected.chunk(2, 1)[rank]), "two Linear layers" in said[0],
            torch.allclose(cut[0].weight.grad, whole[0].weight.grad.chunk(2, 1)[rank]),
            torch.allclose(cut[1].weight.grad, whole[1].weight.grad.chunk(2, 0)[rank]))


class LowRank(unittest.TestCase):
    def block(self, comm, recompute, wire="float64"):
        """A block's output and all gradients, whole."""
        sums = tt.Sums(comm, wire=wire)
        block = tt.LowRankBlock(16, hidden=24, heads=4, inner=3, sums=sums, recompute=recompute,
                                dtype=torch.float64)
        x = numbers(2, 2, 5, 16).chunk(comm.ranks, 2)[comm.rank].clone().requires_grad_()
        y = block(x)
        forward = sums.calls
        (y * numbers(3, 2, 5, 16).chunk(comm.ranks, 2)[comm.rank]).sum().backward()
        gradients = {name: p.grad for name, p in block.named_parameters()}
        return (y.detach(), x.grad, gradients["enter.gain"], gradients["gates.down"],
                gradients["shrink.up.0"]), (forward, sums.calls)

    def joined(self, ranks, recompute=False):
        parts = tutti.run(self.block, ranks, recompute)
        for _, calls in parts:
            self.assertEqual(calls, (4, 8))  # of a block, forward, and with its backward pass
        axes = (2, 2, 0, 0, 1)
        return [torch.cat([part[0][i] for part in parts], axis) for i, axis in enumerate(axes)]

    def test_any_number_of_ranks_computes_what_one_does(self):
        one = self.joined(1)
        for ranks, recompute in ((2, False), (4, False), (2, True)):
            for a, b in zip(one, self.joined(ranks, recompute)):
                torch.testing.assert_close(b, a, rtol=1e-12, atol=1e-12)

    def test_the_norm_is_rms_norm(self):
        def main(comm):
            layer = tt.LowRank(8, [3], [4], tt.Sums(comm), norm=1e-5, dtype=torch.float64)
            x = numbers(4, 6, 8) * 7
            y = layer(x.chunk(comm.ranks, 1)[comm.rank])[0]
            down, up = layer.down.detach(), layer.up[0].detach()
            if comm.ranks > 1:
                return y.detach()
            expected = F.rms_norm(x, (8,), eps=1e-5) @ down @ up
            torch.testing.assert_close(y, expected, rtol=1e-12, atol=1e-12)
            return y.detach()
        one, two = tutti.run(main, 1)[0], torch.cat(tutti.run(main, 2), 1)
        torch.testing.assert_close(two, one, rtol=1e-12, atol=1e-12)

    def test_a_style_for_layers_that_are_there(self):
        self.assertEqual(torch_ranks.run(bottleneck, 2), [(True,) * 4] * 2)

    def test_what_cannot_be_is_refused(self):
        def main(comm):
            sums = tt.Sums(comm)
            return refused(lambda: tt.LowRank(9, [2], [4], sums), lambda: tt.LowRank(8, [9], [16], sums),
                           lambda: tt.LowRank(8, [2], [4], sums, norm=0.0), lambda: tt.LowRank(8, [], [], sums),
                           lambda: tt.LowRankBlock(8, 8, heads=1, inner=2, sums=sums),
                           lambda: tt.LowRankBlock(8, 8, heads=3, inner=2, sums=sums))
        for said in tutti.run(main, 2):
            self.assertEqual(len(said), 6, said)
            self.assertIn("9, and 2 ranks divide it", said[0])


# ---- activations ---------------------------------------------------------------------------------

class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.one, self.two, self.drop = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.Dropout(0.2)

    def forward(self, x):
        return x + self.drop(self.two(F.gelu(self.one(x))))


class Activations(unittest.TestCase):
    WIDTH, ROWS = 32, 64

    def network(self):
        torch.manual_seed(5)
        return nn.Sequential(*[Layer(self.WIDTH) for _ in range(4)])

    def step(self, model):
        """The loss, gradients, and bytes of activations between the passes, beyond those of the graph."""
        torch.manual_seed(6)
        x = numbers(7, self.ROWS, self.WIDTH, dtype=torch.float32)
        seen = {}

        def pack(tensor):
            if not (tensor.is_leaf and tensor.requires_grad):
                seen[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            loss = model(x).square().mean()
        loss.backward()
        return [loss.detach()] + [p.grad for p in model.parameters()], sum(seen.values())

    def test_places_change_no_bit_and_keep_what_they_say(self):
        expected, whole = self.step(self.network())
        for places in (["host"] * 4, ["recomputed"] * 4, ["host", "device", "recomputed", "device"]):
            model = self.network()
            counts = tt.place_activations(model, places)
            found, kept = self.step(model)
            for a, b in zip(expected, found):
                self.assertTrue(torch.equal(a, b), places)
            self.assertEqual(counts["recomputed"], places.count("recomputed"))
            self.assertEqual(counts["host_bytes"] > 0, "host" in places)
            self.assertLess(kept, whole)
            with torch.no_grad():
                model(torch.ones(2, self.WIDTH))
            self.assertEqual(counts["recomputed"], places.count("recomputed"))

    def test_a_second_plan_replaces_the_first(self):
        model = self.network()
        tt.place_activations(model, ["recomputed"] * 4)
        counts = tt.place_activations(model, ["device"] * 4)
        self.assertTrue(torch.equal(self.step(model)[0][0], self.step(self.network())[0][0]))
        self.assertEqual(counts, {"host_bytes": 0, "recomputed": 0})

    def test_the_host_may_be_a_disk(self):
        model, expected = self.network(), self.step(self.network())[0]
        with torch_ranks.tempfile.TemporaryDirectory() as folder:
            saved = offload.SavedTensors(folder, budget=50_000, least=1, keep=model.parameters())
            tt.place_activations(model, ["host"] * 4, saved=saved)
            for a, b in zip(expected, self.step(model)[0]):
                self.assertTrue(torch.equal(a, b))
            self.assertGreater(saved.counters.writes, 0)
            del saved, model
            gc.collect()

    def test_a_measured_model_gives_plans_that_fit(self):
        model = self.network()
        x = numbers(7, self.ROWS, self.WIDTH, dtype=torch.float32)
        x.requires_grad_()
        measured = tt.measure_blocks(model, lambda: model(x).sum())
        row = 4 * self.ROWS * self.WIDTH
        for block in measured.blocks:
            self.assertEqual(block.input, row)
            self.assertGreaterEqual(block.activations, 9 * row)  # input, two of four widths, the dropout's mask
            self.assertGreater(block.forward, 0)
        best = tutti.search_memory(measured, limit=1 << 40)
        self.assertEqual(tutti.activation_places(measured, best), ["device"] * 4)
        limit = tutti.judge(measured, best).peak - 2 * measured.blocks[0].activations
        plan = tutti.search_memory(measured, limit=limit)
        self.assertLessEqual(tutti.judge(measured, plan).peak, limit)
        self.assertGreaterEqual(tutti.activation_places(measured, plan).count("device"), 1)
        self.assertLess(tutti.activation_places(measured, plan).count("device"), 4)

    def test_what_cannot_be_is_refused(self):
        model = self.network()
        said = refused(lambda: tt.place_activations(model, ["device"]),
                       lambda: tt.place_activations(model, ["device"] * 3 + ["attic"]),
                       lambda: tt.measure_blocks([], lambda: None),
                       lambda: tt.measure_blocks([*model, Layer(8)], lambda: model(torch.ones(2, 32)).sum()))
        self.assertEqual(len(said), 4, said)
        self.assertIn("block 4", said[3])


# ---- attention of documents ----------------------------------------------------------------------

HEADS, KEY_HEADS, HEAD = 8, 4, 6


def document(number, length):
    """Queries, keys and values of a document, and weights of its outputs."""
    return [numbers(100 + 10 * number + i, length, heads, HEAD)
            for i, heads in enumerate((HEADS, KEY_HEADS, KEY_HEADS, HEADS))]


def plain(lengths):
    """Outputs and gradients of each document, by PyTorch."""
    answers = []
    for number, length in enumerate(lengths):
        q, k, v, weights = document(number, length)
        q, k, v = (x.requires_grad_() for x in (q, k, v))
        y = F.scaled_dot_product_attention(*(x.transpose(0, 1).unsqueeze(0) for x in (q, k, v)),
                                           is_causal=True, enable_gqa=True)[0].transpose(0, 1)
        (y * weights).sum().backward()
        answers.append([y.detach(), q.grad, k.grad, v.grad])
    return answers


def at_home(lengths, homes, rank):
    """The four tensors of a rank's documents, one behind the other; queries, keys and values leaves."""
    own = [document(i, n) for i, n in enumerate(lengths) if homes[i] == rank]
    shapes = [(0, heads, HEAD) for heads in (HEADS, KEY_HEADS, KEY_HEADS, HEADS)]
    tensors = [torch.cat([d[i] for d in own] or [torch.empty(shape, dtype=torch.float64)])
               for i, shape in enumerate(shapes)]
    return [t.requires_grad_() for t in tensors[:3]] + tensors[3:]


class Documents(unittest.TestCase):
    def check(self, answers, lengths, homes):
        expected = plain(lengths)
        for rank, found in enumerate(answers):
            for i, tensor in enumerate(found):
                own = [expected[d][i] for d in range(len(lengths)) if homes[d] == rank]
                if own:
                    torch.testing.assert_close(tensor, torch.cat(own), rtol=1e-11, atol=1e-11)

    def test_servers_give_what_attention_at_home_does(self):
        for ranks, lengths, homes in ((1, [5, 9], [0, 0]), (2, [33, 4, 8], [0, 1, 0]),
                                      (4, [65, 3, 24, 7, 16], [0, 1, 2, 2, 0]), (3, [40], [1])):
            def main(comm, lengths=lengths, homes=homes):
                servers = tt.AttentionServers(list(zip(lengths, homes)), comm, grain=2, epsilon=0.05)
                q, k, v, weights = at_home(lengths, homes, comm.rank)
                y = servers(q, k, v)
                (y * weights).sum().backward()
                return (y.detach(), q.grad, k.grad, v.grad), servers.plan.balance
            answers = tutti.run(main, ranks)
            self.check([answer[0] for answer in answers], lengths, homes)
            self.assertEqual(answers[0][1].moves > 0, ranks > 1)

    def test_groups_give_what_attention_at_home_does(self):
        cost = tutti.FitCost(square=1e-3, linear=1e-2, constant=0.1, layers=1, hidden=8, bandwidth=[10.0, 10.0],
                             tokens_per_rank=20)
        for ranks, lengths, homes in ((1, [5, 9], [0, 0]), (2, [33, 4, 8], [0, 1, 0]),
                                      (4, [65, 3, 24, 7, 16, 1], [0, 1, 2, 2, 0, 3])):
            def main(comm, lengths=lengths, homes=homes):
                parts = tt.SequenceGroups(cost, comm).plan(lengths, homes)
                q, k, v, weights = at_home(lengths, homes, comm.rank)
                y = sum(part.send_back(part.attention(*(part.bring(x) for x in (q, k, v)))) for part in parts)
                (y * weights).sum().backward()
                sizes = {len(g.ranks) for part in parts for g in part.groups.groups if g.sequences}
                return (y.detach(), q.grad, k.grad, v.grad), (len(parts), sorted(sizes))
            answers = tutti.run(main, ranks)
            self.check([answer[0] for answer in answers], lengths, homes)
            if ranks == 4:
                self.assertGreater(answers[0][1][0], 1)  # micro-batches
                self.assertIn(4, answers[0][1][1])

    def test_positions_are_those_of_the_rows(self):
        cost = tutti.FitCost(linear=1.0, tokens_per_rank=100, bandwidth=[1.0], layers=1, hidden=1)

        def main(comm):
            part, = tt.SequenceGroups(cost, comm).plan([7, 4], [0, 0])
            rows = torch.cat([torch.arange(7), torch.arange(4)])[:, None]
            return torch.equal(part.bring(rows if comm.rank == 0 else rows[:0])[:, 0], part.positions)
        self.assertEqual(tutti.run(main, 2), [True, True])

    def test_what_cannot_be_is_refused(self):
        cost = tutti.FitCost(linear=1.0, tokens_per_rank=10, bandwidth=[1.0], layers=1, hidden=1)

        def main(comm):
            groups, x = tt.SequenceGroups(cost, comm), torch.zeros(3, 1, 2)
            part, = groups.plan([20], [1])
            servers = tt.AttentionServers([(8, 0)], comm, grain=1)
            return refused(lambda: groups.plan([5], [2]), lambda: groups.plan([5, 5], [0]),
                           lambda: groups.plan([21], [0]), lambda: part.attention(x, x, x),
                           lambda: servers(x, x, x), lambda: tt.AttentionServers([(8, 2)], comm))
        for said in tutti.run(main, 2):
            self.assertEqual(len(said), 6, said)

        def three(comm):
            return refused(lambda: tt.SequenceGroups(cost, comm))
        self.assertIn("no power of two", tutti.run(three, 3)[0][0])


class Rows(unittest.TestCase):
    def test_traded_rows_and_their_gradients(self):
        def main(comm, dtype):
            rows, rank = tt.TradedRows(comm), comm.rank
            sent = torch.tensor([(rank + r) % 3 for r in range(comm.ranks)])  # some are 0
            x = torch.arange(float(sent.sum()) * 2).view(-1, 2).add(100 * rank).to(dtype).requires_grad_()
            y = rows(x, sent, sent)
            back = rows(y, sent, sent)
            (back * back).sum().backward()
            return torch.equal(back, x), torch.equal(x.grad, 2 * x)
        for dtype in (torch.float32, torch.float16):
            self.assertEqual(tutti.run(main, 4, dtype), [(True, True)] * 4)

    def test_wrong_counts_are_refused(self):
        def main(comm):
            rows = tt.TradedRows(comm)
            return refused(lambda: rows(torch.zeros(3, 1), torch.tensor([1, 1]), torch.tensor([1, 1])))
        self.assertEqual([len(said) for said in tutti.run(main, 2)], [1, 1])


if __name__ == "__main__":
    unittest.main(verbosity=1)
