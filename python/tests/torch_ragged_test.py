#!/usr/bin/env python3
"""ragged_fsdp against plain training in one process; checkpoints go from one number of ranks to another."""

import os
import tempfile
import threading
import unittest

import place

place.find("torch")

import torch  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
import torch_ranks  # noqa: E402
from torch import nn  # noqa: E402

import tutti  # noqa: E402
import tutti.torch as tt  # noqa: E402

torch.set_num_threads(1)


SEEDED = threading.Lock()  # PyTorch's random numbers are those of the process, and ranks are threads


class Network(nn.Module):
    def __init__(self, seed=1):
        super().__init__()
        with SEEDED:
            torch.manual_seed(seed)
            self._make()

    def _make(self):
        self.enter = nn.Linear(6, 10)
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(10, 14), nn.GELU(), nn.Linear(14, 10))
                                    for _ in range(2))
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x):
        x = self.enter(x)
        for layer in self.layers:
            x = x + layer(x)
        return x * self.scale


def batch(number):
    return torch.randn(4, 6, generator=torch.Generator().manual_seed(number))


def step(model, optimizer, batches):
    """One step on the mean of these batches."""
    for number in batches:
        ((model(batch(number)) ** 2).mean() / len(batches)).backward()
    optimizer.step()
    optimizer.zero_grad()


def plain(steps, ranks, drop=False):
    model = Network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for number in range(steps):
        step(model, optimizer, [number * ranks + rank for rank in range(ranks)])
    return dict(model.state_dict())


def whole_of(model, comm):
    """Every parameter, put together from all ranks' slices by the sharding of the plan."""
    found = {}
    for unit in tt.ragged.units_of(model):
        for number, (tensor, shard) in enumerate(zip(unit.tensors, unit.shards)):
            sharding = tutti.tensor_sharding(unit.plan, number)
            counts = [sum(s.length for s in sharding.shards if s.rank == r) for r in range(comm.ranks)]
            flat = torch.empty(tensor.elements)
            comm.all_gather_v(shard.detach().reshape(-1), flat, counts)
            found[tensor.path] = flat.view(tensor.shape)
    return found


def sharded_training(comm, steps, drop=False, **options):
    model = tt.ragged_fsdp(Network(seed=comm.rank + 1), comm, **options)  # rank 0's values count
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for number in range(steps):
        if drop and comm.rank == 0:
            model.layers[0][0].weight.register_hook(torch.zeros_like) if number == 0 else None
        step(model, optimizer, [number * comm.ranks + comm.rank])
    return whole_of(model, comm), model, optimizer


BLOCKS = {"rows": {}, "elements": {"block": lambda p: 1}, "whole": {"block": lambda p: p.numel()},
          "cuts in rows": {"block": lambda p: 7 if p.numel() % 7 == 0 else 1}}


class Training(unittest.TestCase):
    def difference(self, found, expected):
        self.assertEqual(found.keys(), expected.keys())
        return max((found[name] - value).abs().max().item() for name, value in expected.items())

    def test_parameters_are_those_of_one_process(self):
        for ranks in (1, 2, 3, 4):
            expected = plain(3, ranks)
            for name, options in BLOCKS.items():
                for more in ({}, {"reshard": False}):
                    answers = tutti.run(lambda comm, options=options, more=more: sharded_training(
                        comm, 3, **options, **more)[0], ranks)
                    for found in answers:
                        self.assertLess(self.difference(found, expected), 2e-6, (ranks, name, more))

    def test_a_dropped_gradient_exceeds_the_bound(self):
        found = tutti.run(lambda comm: sharded_training(comm, 3, drop=True)[0], 2)[0]
        self.assertGreater(self.difference(found, plain(3, 2)), 2e-3)

    def test_weights_are_given_up_and_gathered_again(self):
        def main(comm, reshard):
            _, model, _ = sharded_training(comm, 2, reshard=reshard)
            units = tt.ragged.units_of(model)
            sizes = [p.numel() for p in model.parameters()]
            return [(unit.gathers, unit.scatters, unit._again) for unit in units], sum(sizes)
        total = sum(p.numel() for p in Network().parameters())
        for reshard, gathers in ((True, 4), (False, 2)):
            answers = tutti.run(main, 2, reshard)
            self.assertEqual(sum(answer[1] for answer in answers), total)
            for found, _ in answers:
                self.assertEqual(found, [(gathers, 2, None)] * 3)

    def test_gathers_ahead_change_no_bit(self):
        def main(comm, prefetch, reshard):
            model = tt.ragged_fsdp(Network(), comm, deterministic=True, prefetch=prefetch, reshard=reshard)
            optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
            ahead = tt.ragged.units_of(model)[0].ahead
            found, early = [], []
            for number in range(8):
                if number == 3:  # an evaluation, which goes another way
                    with torch.no_grad():
                        found.append(model(batch(99)).sum().item().hex())
                if number == 5:  # a forward pass whose gradients nobody asks for
                    model(batch(98))
                step(model, optimizer, [2 * number, 2 * number + 1] if number == 6 else [number])
                found += [value.sum().item().hex() for value in whole_of(model, comm).values()]
                early.append(ahead.early if prefetch else 0)
            return found, early
        for ranks, reshard in ((1, True), (2, True), (3, True), (2, False)):
            plain_ones, ahead = (tutti.run(main, ranks, prefetch, reshard) for prefetch in (False, True))
            self.assertEqual([a[0] for a in ahead], [a[0] for a in plain_ones])
            early = ahead[0][1]
            self.assertEqual([a[1] for a in ahead], [early] * ranks)  # ranks do the same
            self.assertEqual(early[0], 0)
            # Three units, gathered once or twice in a step: all but the first one early.
            self.assertEqual(early[2] - early[1], 5 if reshard else 2)
            self.assertEqual(early[7] - early[6], 5 if reshard else 2)  # learnt anew

    def test_types_and_shapes_that_cannot_be_are_refused(self):
        def main(comm):
            said = []
            mixed, tied = Network(), Network()
            mixed.layers[0][0].to(torch.bfloat16)
            tied.layers[1][0].weight = tied.layers[0][0].weight
            for call in (lambda: tt.ragged_fsdp(mixed, comm), lambda: tt.ragged_fsdp(tied, comm),
                         lambda: tt.checkpoint_state(Network()),
                         lambda: tt.ragged_fsdp(Network(), comm, units=[nn.Linear(1, 1)]),
                         lambda: tt.ragged_fsdp(Network(), comm, block=lambda p: 13)):
                try:
                    call()
                except tutti.Error as error:
                    said.append(str(error))
            return said
        for mixed, tied, plain_one, other, block in tutti.run(main, 2):
            self.assertIn("one type each", mixed)
            self.assertIn("shared with another module", tied)
            self.assertIn("not sharded", plain_one)
            self.assertIn("no part of the model", other)
            self.assertIn("13", block)


def save(rank, path, options):
    comm = tt.communicator()
    whole, model, optimizer = sharded_training(comm, 2, **BLOCKS[options])
    dcp.save(tt.checkpoint_state(model, optimizer), checkpoint_id=path)
    step(model, optimizer, [50])  # the same batch on all ranks, so that their number does not matter
    return whole, whole_of(model, comm)


def load(rank, path, options, damage):
    comm = tt.communicator()
    model = tt.ragged_fsdp(Network(seed=9), comm, **BLOCKS[options])
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    dcp.load(tt.checkpoint_state(model, optimizer), checkpoint_id=path)
    whole = whole_of(model, comm)
    if damage:
        for state in optimizer.state.values():
            state["exp_avg"].zero_()
    step(model, optimizer, [50])
    return whole, whole_of(model, comm)


def plain_load(rank, path):
    model = Network(seed=9)
    state = {f"model.{name}": value for name, value in model.state_dict().items()}
    dcp.load(state, checkpoint_id=path)
    return model.state_dict()


class Checkpoints(unittest.TestCase):
    def test_another_number_of_ranks_goes_on_from_there(self):
        with tempfile.TemporaryDirectory() as folder:
            for options, saved_by, loaded_by in (("rows", 2, 3), ("elements", 3, 1), ("whole", 2, 4)):
                path = os.path.join(folder, options)
                before, after = torch_ranks.run(save, saved_by, path, options)[0]
                for found, later in torch_ranks.run(load, loaded_by, path, options, False):
                    for name in before:
                        self.assertTrue(torch.equal(found[name], before[name]), name)
                        torch.testing.assert_close(later[name], after[name], rtol=1e-5, atol=1e-6)
            _, other = torch_ranks.run(load, 2, path, options, True)[0]  # the control: a state is lost
            self.assertGreater(max((other[name] - after[name]).abs().max() for name in after), 1e-4)

    def test_a_plain_model_reads_what_was_cut_between_rows(self):
        with tempfile.TemporaryDirectory() as path:
            before, _ = torch_ranks.run(save, 2, path, "rows")[0]
            found = torch_ranks.run(plain_load, 1, path)[0]
            for name in before:
                self.assertTrue(torch.equal(found[name], before[name].view(found[name].shape)), name)


if __name__ == "__main__":
    unittest.main(verbosity=1)  # by name: Checkpoints forks before Training makes communicators
