"""PyTorch's parallel trainers on the backend: equal to Gloo's steps and to one process."""

import unittest
import warnings

import torch
import torch.distributed as dist
import torch.nn.functional as functional
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

import ranks

warnings.simplefilter("ignore", FutureWarning)
STEPS = 20
BATCH = 8


class Network(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.first = nn.Linear(8, width)
        self.second = nn.Linear(width, width)
        self.third = nn.Linear(width, 4)

    def forward(self, x):
        return self.third(functional.gelu(self.second(functional.gelu(self.first(x)))))


def network(width=16):
    torch.manual_seed(7)
    return Network(width)


def batch(step):
    generator = torch.Generator().manual_seed(1000 + step)
    return (torch.randn(BATCH, 8, generator=generator), torch.randn(BATCH, 4, generator=generator))


def part(tensor, rank, n):
    return tensor.chunk(n)[rank]


def train(model, pick, pick_target=None):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in range(STEPS):
        x, y = batch(step)
        optimizer.zero_grad()
        functional.mse_loss(model(pick(x)), (pick_target or pick)(y)).backward()
        optimizer.step()
    return model


def alone(width=16):
    return state(train(network(width), lambda t: t))


def state(model):
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def close(found, wanted, what, limit=1e-6):
    for name, value in wanted.items():
        scale = value.abs().max().item()
        error = (found[name].float() - value.float()).abs().max().item()
        assert error <= limit * max(scale, 1e-3), f"{what}: {name} is off by {error / scale}"


def on_both(make):
    """The states that make(group) gives for Tutti and for Gloo."""
    gloo = dist.new_group(backend="gloo")
    return make(dist.group.WORLD), make(gloo)


def ddp(rank, n):
    from torch.nn.parallel import DistributedDataParallel as DDP

    def go(group, **options):
        model = DDP(network(), process_group=group, bucket_cap_mb=0.001, **options)
        return state(train(model, lambda t: part(t, rank, n)).module)

    for options in ({}, {"gradient_as_bucket_view": True}, {"find_unused_parameters": True},
                    {"static_graph": True}):
        ours, gloo = on_both(lambda group: go(group, **options))
        close(ours, gloo, f"DDP {options} and gloo")
        close(ours, alone(), f"DDP {options} and one process", 1e-5)


def ddp_hook(rank, n):
    from torch.nn.parallel import DistributedDataParallel as DDP
    calls = []

    def hook(group, bucket):
        calls.append(1)
        future = dist.all_reduce(bucket.buffer(), group=group, async_op=True).get_future()
        return future.then(lambda done: done.value()[0] / dist.get_world_size(group))

    def go(group):
        model = DDP(network(), process_group=group)
        model.register_comm_hook(group, hook)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for step in range(STEPS):
            x, y = (part(t, rank, n) for t in batch(step))
            if step % 2 == 0:
                with model.no_sync():
                    functional.mse_loss(model(x), y).backward()
            else:
                functional.mse_loss(model(x), y).backward()
                optimizer.step()
                optimizer.zero_grad()
        return state(model.module)

    ours, gloo = on_both(go)
    assert calls
    close(ours, gloo, "DDP with a hook and no_sync")


def ddp_join(rank, n):
    from torch.nn.parallel import DistributedDataParallel as DDP

    def go(group):
        model = DDP(network(), process_group=group)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        with model.join():
            for step in range(3 + rank):
                x, y = (part(t, rank, n) for t in batch(step))
                optimizer.zero_grad()
                functional.mse_loss(model(x), y).backward()
                optimizer.step()
        return state(model.module)

    ours, gloo = on_both(go)
    close(ours, gloo, "DDP with uneven inputs")


def fsdp1(rank, n):
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
    from torch.distributed.fsdp import ShardingStrategy, StateDictType

    def go(group, strategy):
        model = FSDP(network(), process_group=group, sharding_strategy=strategy,
                     device_id=torch.device("cpu"))
        train(model, lambda t: part(t, rank, n))
        with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT):
            return state(model)

    for strategy in (ShardingStrategy.FULL_SHARD, ShardingStrategy.SHARD_GRAD_OP):
        ours, gloo = on_both(lambda group: go(group, strategy))
        close(ours, gloo, f"FSDP1 {strategy} and gloo")
        close(ours, alone(), f"FSDP1 {strategy} and one process", 1e-5)


def sharded(rank, n, mesh, policy=None, factor=None):
    from torch.distributed.fsdp import fully_shard
    model = network()
    options = {"mp_policy": policy} if policy is not None else {}
    for layer in (model.first, model.second, model.third):
        fully_shard(layer, mesh=mesh, **options)
    fully_shard(model, mesh=mesh, **options)
    if factor is not None:
        model.set_gradient_divide_factor(factor)
    train(model, lambda t: part(t, rank, n))
    return {name: value.full_tensor().clone() for name, value in model.state_dict().items()}


def fsdp2(rank, n):
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import MixedPrecisionPolicy

    def mesh_of(group):
        return DeviceMesh.from_group(group, "cpu", mesh_dim_names=("shard",))

    ours = sharded(rank, n, mesh_of(dist.group.WORLD))
    close(ours, alone(), "FSDP2 and one process", 1e-5)
    gloo = dist.new_group(backend="gloo")
    try:
        theirs = sharded(rank, n, mesh_of(gloo))
    except RuntimeError as error:  # Gloo had no AVG for a long time
        theirs = None
        print(f"FSDP2 on gloo: {str(error).splitlines()[0]}")
    if theirs is not None:
        close(ours, theirs, "FSDP2 and gloo")
    scaled = sharded(rank, n, mesh_of(dist.group.WORLD), factor=float(n))
    close(scaled, alone(), "FSDP2 with a factor of its own", 1e-5)
    half = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
    close(sharded(rank, n, mesh_of(dist.group.WORLD), half), alone(), "FSDP2 in bf16", 0.2)
    if n == 4:
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
        close(sharded(rank, n, mesh), alone(), "HSDP and one process", 1e-5)


def tensor_parallel(rank, n):
    from torch.distributed.tensor import DTensor, Replicate, Shard
    from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel,
                                                   SequenceParallel, parallelize_module)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(8)
            self.up = nn.Linear(8, 32)
            self.down = nn.Linear(32, 8)
            self.out = nn.Linear(8, 4)

        def forward(self, x):
            return self.out(self.down(functional.gelu(self.up(self.norm(x)))))

    def make():
        torch.manual_seed(7)
        return Block()

    def go(mesh):
        model = make()
        pick = (lambda t: t) if mesh is None else (lambda t: part(t, rank, n))
        if mesh is not None:
            parallelize_module(model, mesh, {
                "norm": SequenceParallel(sequence_dim=0),
                "up": ColwiseParallel(input_layouts=Shard(0)),
                "down": RowwiseParallel(output_layouts=Replicate()),
            })
        train(model, pick, lambda t: t)
        return {name: value.full_tensor() if isinstance(value, DTensor) else value
                for name, value in state(model).items()}

    mesh = init_device_mesh("cpu", (n,))
    close(go(mesh), go(None), "TP and one process", 1e-5)


def redistribute(rank, n):
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
    from torch.distributed.tensor import distribute_tensor
    mesh = init_device_mesh("cpu", (n,))
    whole = torch.arange(8.0 * 12).view(8, 12)
    placed = {"replicate": [Replicate()], "rows": [Shard(0)], "columns": [Shard(1)]}
    for source in placed.values():
        for target in placed.values():
            moved = distribute_tensor(whole, mesh, source).redistribute(mesh, target)
            assert torch.equal(moved.full_tensor(), whole)
    partial = DTensor.from_local(whole / n, mesh, [Partial()])
    for target in placed.values():
        assert torch.allclose(partial.redistribute(mesh, target).full_tensor(), whole)
    odd = torch.arange(7.0 * 3).view(7, 3)
    assert torch.equal(distribute_tensor(odd, mesh, [Shard(0)]).full_tensor(), odd)


def functional_collectives(rank, n):
    import torch.distributed._functional_collectives as fc
    group = dist.group.WORLD
    x = torch.full((4, 4), float(rank))
    total = float(sum(range(n)))

    def go(x):
        a = fc.all_reduce(x, "sum", group)
        b = fc.all_gather_tensor(x, 0, group)
        c = fc.reduce_scatter_tensor(torch.cat([x] * n), "sum", 0, group)
        d = fc.all_to_all_single(torch.cat([x] * n), [4] * n, [4] * n, group)
        return a + 0, b + 0, c + 0, d + 0

    for run in (go, torch.compile(go, backend="aot_eager")):
        a, b, c, d = run(x)
        assert torch.equal(a, torch.full((4, 4), total))
        assert torch.equal(c, torch.full((4, 4), total))
        ranks_in_order = torch.arange(float(n)).repeat_interleave(4)
        assert torch.equal(b[:, 0], ranks_in_order)
        assert torch.equal(d[:, 0], ranks_in_order)


class Stage(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        return torch.tanh(self.linear(x))


def stages(count, width):
    torch.manual_seed(3)
    return [Stage(width) for _ in range(count)]


def pipeline_steps(rank, n, schedule_class, per_rank, width, rows, steps):
    from torch.distributed.pipelining import PipelineStage
    micro = 4
    count = n * per_rank
    parts = stages(count, width)
    own = [PipelineStage(parts[rank + k * n], rank + k * n, count, torch.device("cpu"),
                         group=dist.group.WORLD) for k in range(per_rank)]
    schedule = schedule_class(own if per_rank > 1 else own[0], micro,
                              loss_fn=functional.mse_loss)
    own_modules = nn.ModuleList([s.submod for s in own])
    optimizer = torch.optim.SGD(own_modules.parameters(), lr=0.01)
    first, last = rank == 0, rank == n - 1
    for step in range(steps):
        generator = torch.Generator().manual_seed(step)
        x = torch.randn(rows, width, generator=generator)
        y = torch.randn(rows, width, generator=generator)
        optimizer.zero_grad()
        schedule.step(*([x] if first else []), **({"target": y, "losses": []} if last else {}))
        optimizer.step()
    return {rank + k * n: state(s.submod) for k, s in enumerate(own)}


def pipeline_alone(count, width, rows, steps):
    model = nn.Sequential(*stages(count, width))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(steps):
        generator = torch.Generator().manual_seed(step)
        x = torch.randn(rows, width, generator=generator)
        y = torch.randn(rows, width, generator=generator)
        optimizer.zero_grad()
        for a, b in zip(x.chunk(4), y.chunk(4)):
            (functional.mse_loss(model(a), b) / 4).backward()
        optimizer.step()
    return {k: state(stage) for k, stage in enumerate(model)}


def pipelines(rank, n):
    from torch.distributed.pipelining import Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B
    for schedule, per_rank in ((ScheduleGPipe, 1), (Schedule1F1B, 1),
                               (ScheduleInterleaved1F1B, 2)):
        wanted = pipeline_alone(n * per_rank, 16, 64, STEPS)
        found = pipeline_steps(rank, n, schedule, per_rank, 16, 64, STEPS)
        for index, values in found.items():
            close(values, wanted[index], f"{schedule.__name__}, stage {index}", 1e-5)


def long_activations(rank, n):
    from torch.distributed.pipelining import Schedule1F1B
    # Four micro-batches of 8 MiB each.
    pipeline_steps(rank, n, Schedule1F1B, 1, 64, 4 * 32768, 2)


class Trainers(unittest.TestCase):
    def on(self, function, sizes=(2, 4)):
        for n in sizes:
            with self.subTest(ranks=n):
                ranks.run(function, n)

    def test_ddp(self):
        self.on(ddp)

    def test_ddp_with_a_hook_in_python_and_without_sync(self):
        self.on(ddp_hook, (2,))

    def test_ddp_with_uneven_inputs(self):
        self.on(ddp_join, (2,))

    def test_fsdp1(self):
        self.on(fsdp1)

    def test_fsdp2_and_hsdp(self):
        self.on(fsdp2)

    def test_tensor_parallel(self):
        self.on(tensor_parallel)

    def test_dtensors_change_places(self):
        self.on(redistribute)

    def test_functional_collectives_plain_and_compiled(self):
        self.on(functional_collectives, (2,))

    def test_pipelines(self):
        self.on(pipelines)

    def test_pipeline_with_activations_of_8_mib(self):
        self.on(long_activations, (4,))


if __name__ == "__main__":
    unittest.main()
