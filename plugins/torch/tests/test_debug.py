"""PyTorch's own means of debugging on the backend."""

import json
import os
import unittest

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import ranks
import test_trainers


def detail(rank, n, path):
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    dist.init_process_group("tutti", store=dist.FileStore(path, n), rank=rank, world_size=n)
    # Not beside gloo: under this level torch 2.15 crashes in its own wrapper of gloo.
    model = DistributedDataParallel(test_trainers.network())
    test_trainers.train(model, lambda t: test_trainers.part(t, rank, n))
    test_trainers.close(test_trainers.state(model.module), test_trainers.alone(), "DDP", 1e-5)
    tensor = torch.ones(4 + rank)
    try:
        dist.all_reduce(tensor)
        raise AssertionError("the wrapper saw no difference")
    except RuntimeError as error:
        assert "mismatch" in str(error).lower(), error


def recorded(rank, n, path):
    os.environ["TORCH_FR_BUFFER_SIZE"] = "200"
    dist.init_process_group("tutti", store=dist.FileStore(path, n), rank=rank, world_size=n)
    for _ in range(3):
        dist.all_reduce(torch.ones(5))
    dist.broadcast(torch.ones(7), 0)
    trace = json.loads(torch._C._distributed_c10d._dump_fr_trace_json(backend="tutti"))
    names = [entry["profiling_name"] for entry in trace.get("entries", [])]
    dist.destroy_process_group()
    return names


def profiled(rank, n):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        dist.all_reduce(torch.ones(5))
        dist.all_reduce(torch.ones(5), async_op=True).wait()
    return {event.key for event in profile.key_averages()}


class Debug(unittest.TestCase):
    def test_ddp_under_detail(self):
        ranks.run(detail, 2, ranks.fresh_path(), backend=None)

    @unittest.skipUnless(hasattr(torch._C._distributed_c10d, "_dump_fr_trace_json"),
                         "this torch has no recorder for all backends")
    def test_the_flight_recorder_has_the_calls(self):
        for names in ranks.run(recorded, 2, ranks.fresh_path(), backend=None):
            self.assertEqual(sum("all_reduce" in n or "allreduce" in n for n in names), 3, names)

    def test_profiles_name_the_calls(self):
        for names in ranks.run(profiled, 2):
            self.assertIn("tutti:all_reduce", names)


if __name__ == "__main__":
    unittest.main()
