#!/usr/bin/env python3
"""What hangs on PyTorch's own hooks, in processes: DDP's communication hook, FSDP2's custom collectives,
orders of pipelines."""

import tempfile
import unittest

import place

place.find("torch")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch_ranks  # noqa: E402
from torch import nn  # noqa: E402

import tutti  # noqa: E402
import tutti.torch as tt  # noqa: E402


def network(width=16, layers=3):
    torch.manual_seed(1)
    return nn.Sequential(*[nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(layers)])


def batch(rank, rows=4, width=16):
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(rank + 7))


def train(model, rank, steps=3):
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), []
    for step in range(steps):
        loss = (model(batch(rank + 10 * step)) ** 2).mean()
        losses.append(loss.item().hex())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return losses


# ---- DDP -----------------------------------------------------------------------------------------

def ddp(rank, options):
    model = nn.parallel.DistributedDataParallel(network(), bucket_cap_mb=0.001)
    if options is not None:
        tt.ddp(model, **options)
    return train(model, rank)


def ddp_fails(rank):
    """Rank 1 has another communicator aborted under the hook's feet; both hear of it."""
    model = tt.ddp(nn.parallel.DistributedDataParallel(network()))
    train(model, rank, 1)
    if rank == 1:
        for one in list(tutti._communicator._open):
            one.abort()
    try:
        train(model, rank, 2)
    except RuntimeError as error:
        return str(error)


class Ddp(unittest.TestCase):
    def test_a_failed_sum_is_an_error_of_the_backward_pass(self):
        alive, aborted = torch_ranks.run(ddp_fails, 2)
        self.assertIn("rank 1", alive)
        self.assertIn("closed", aborted)

    def test_losses_are_those_of_ddp(self):
        for ranks, options in ((2, {}), (2, {"deterministic": True})):  # with two there is one order
            plain = torch_ranks.run(ddp, ranks, None)
            self.assertEqual(torch_ranks.run(ddp, ranks, options), plain)

    def test_a_narrow_wire_learns_nearly_the_same(self):
        plain, narrow = (torch_ranks.run(ddp, 2, options)[0] for options in
                         (None, {"wire": torch.bfloat16}))
        self.assertNotEqual(plain, narrow)
        for a, b in zip(plain, narrow):
            self.assertAlmostEqual(float.fromhex(a), float.fromhex(b), delta=0.01)


# ---- leaves --------------------------------------------------------------------------------------

MICRO_BATCHES = 8


def leaves(rank, ranks, drop=False):
    model = network()
    gradients = tt.LeafGradients(model.parameters())
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1), []
    each = MICRO_BATCHES // ranks
    for step in range(3):
        for i in range(rank * each, (rank + 1) * each):
            loss = (model(batch(i + 100 * step)) ** 2).mean()
            loss.backward()
            gradients.loss(loss)
        losses.append(gradients.finish().item().hex())
        if drop and rank == 0:
            model[0][0].weight.grad.zero_()
        optimizer.step()
        optimizer.zero_grad()
    return losses


def set_by_hand(rank):
    model = network()
    gradients = tt.LeafGradients(model.parameters())
    model[0][0].weight.grad = torch.ones(16, 16)
    try:
        gradients.finish()
    except tutti.InvalidInput as error:
        return str(error)


def unequal_leaves(rank):
    model = network()
    gradients = tt.LeafGradients(model.parameters())
    for i in range(rank + 1):
        model(batch(i)).sum().backward()
    try:
        gradients.finish()
    except tutti.InvalidInput as error:
        return str(error)


class Leaves(unittest.TestCase):
    def test_losses_have_equal_bits_on_any_number_of_ranks(self):
        one = torch_ranks.run(leaves, 1, 1)[0]
        for ranks in (2, 4):
            self.assertEqual(torch_ranks.run(leaves, ranks, ranks), [one] * ranks)
        self.assertNotEqual(torch_ranks.run(leaves, 2, 2, True)[0], one)  # the control

    def test_unequal_numbers_are_said(self):
        for said in torch_ranks.run(unequal_leaves, 2):
            self.assertIn("ranks have 1 to 2 micro-batches", said)

    def test_gradients_that_are_no_leaves_are_said(self):
        self.assertIn("without a backward pass", torch_ranks.run(set_by_hand, 1)[0])


# ---- FSDP2 ---------------------------------------------------------------------------------------

def sharded(width):
    from torch.distributed.fsdp import fully_shard
    model = network(width)
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def fsdp2(rank, options):
    model = sharded(16)
    state = None if options is None else tt.fsdp2(model, **options)
    losses = train(model, rank, 4)
    return losses, state and (state.gathers, state.scatters, state.pool.registered)


def fsdp2_refusals(rank):
    said = []
    for call in (lambda: tt.fsdp2(network()),
                 lambda: train(sharded_with_other_group(), rank)):
        try:
            call()
        except (tutti.InvalidInput, RuntimeError) as error:
            said.append(str(error))
    return said


def sharded_with_other_group():
    model = sharded(16)
    tt.fsdp2(model, tt.communicator().split(dist.get_rank()))
    return model


class Fsdp2(unittest.TestCase):
    def test_losses_are_those_of_its_own_collectives_and_buffers_stay(self):
        for ranks in (2, 4):
            plain = [answer[0] for answer in torch_ranks.run(fsdp2, ranks, None)]
            ours = torch_ranks.run(fsdp2, ranks, {"deterministic": True})
            if ranks == 2:  # with more the order of sums is another one
                self.assertEqual([answer[0] for answer in ours], plain)
            for a, b in zip(plain, ours):
                for x, y in zip(a, b[0]):
                    self.assertAlmostEqual(float.fromhex(x), float.fromhex(y), delta=1e-6)
            gathers, scatters, registered = ours[0][1]
            self.assertEqual(scatters, 4 * 3)
            self.assertGreaterEqual(gathers, 4 * 3)
            self.assertLessEqual(registered, 2 * (16 * 16 + 16) * 4)

    def test_what_cannot_be_is_refused(self):
        for none, other in torch_ranks.run(fsdp2_refusals, 2):
            self.assertIn("no FSDPModule", none)
            self.assertIn("sharded over 2 ranks", other)


# ---- pipelines -----------------------------------------------------------------------------------

def stages_of(rank, plan, count):
    from torch.distributed.pipelining import PipelineStage
    whole = network(layers=count)
    mine = sorted({item // 2 % count for item in plan.items_by_rank()[rank] if item < 2 * 4 * count})
    return [PipelineStage(whole[i], i, count, torch.device("cpu")) for i in mine], whole


def plan_of(name, ranks):
    if name == "interleaved":
        return tutti.pipeline(ranks=ranks, micro_batches=4, chunks=2), 2 * ranks
    weights = 1_000_000 if name == "zero bubble" else 0
    return tutti.pipeline(ranks=ranks, micro_batches=4, weights=weights), ranks


def pipeline(rank, name, ranks):
    plan, count = plan_of(name, ranks)
    stages, whole = stages_of(rank, plan, count)
    run = tt.schedule(stages, plan, loss_fn=lambda y, t: ((y - t) ** 2).mean(), scale_grads=False,
                      micro_batches=4 if name == "zero bubble" else None)
    data, losses = torch.cat([batch(i) for i in range(4)]), []
    last = any(stage.is_last for stage in stages)
    first = any(stage.is_first for stage in stages)
    run.step(*([data] if first else []), **({"target": data.flip(0), "losses": losses} if last else {}))
    grads = {f"{s.stage_index}.{n}": p.grad for s in stages for n, p in s.submod.named_parameters()}
    return grads, [loss.item().hex() for loss in losses]


def one_process(_, count):
    whole, losses = network(layers=count), []
    target = torch.cat([batch(i) for i in range(4)]).flip(0).chunk(4)
    for i in range(4):
        loss = ((whole(batch(i)) - target[i]) ** 2).mean()
        loss.backward()
        losses.append(loss.item().hex())
    return {n: p.grad for n, p in whole.named_parameters()}, losses


def pipeline_refusals(rank):
    plan, count = plan_of("1f1b", 2)
    stages, _ = stages_of(rank, plan, count)
    said = []
    turned = tutti.Timeline(ranks=2, items=4, tasks=[
        tutti.TimelineTask(rank=(item // 2 + 1) % 2, item=item, duration=1) for item in (0, 2, 3, 1)])
    zero_bubble = tutti.pipeline(ranks=2, micro_batches=4, weights=1000)
    for plan in (turned, tutti.pipeline(ranks=4), tutti.Timeline(), zero_bubble):
        try:
            tt.schedule(stages, plan)
        except tutti.InvalidInput as error:
            said.append(str(error))
    return said


class Pipelines(unittest.TestCase):
    def test_gradients_and_losses_are_those_of_one_process(self):
        for name in ("1f1b", "interleaved", "zero bubble"):
            answers = torch_ranks.run(pipeline, 2, name, 2)
            grads, losses = torch_ranks.run(one_process, 1, 4 if name == "interleaved" else 2)[0]
            found = {name: grad for part, _ in answers for name, grad in part.items()}
            self.assertEqual(found.keys(), grads.keys())
            for key, grad in grads.items():
                self.assertTrue(torch.equal(found[key], grad), key)
            self.assertEqual(answers[1][1], losses)

    def test_plans_that_do_not_fit_are_refused(self):
        for turned, ranks, empty, weights in torch_ranks.run(pipeline_refusals, 2):
            self.assertIn("pass their PipelineStage", turned)
            self.assertIn("has 4 ranks", ranks)
            self.assertIn("0 items", empty)
            self.assertIn("say micro_batches", weights)

    def test_the_file_for_torchtitan(self):
        with tempfile.NamedTemporaryFile(mode="r", encoding="utf-8") as file:
            tt.pipelines.write_csv(tutti.pipeline(ranks=2, micro_batches=2), 2, file.name)
            self.assertEqual(file.read(), "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n")


if __name__ == "__main__":
    unittest.main(verbosity=1)
