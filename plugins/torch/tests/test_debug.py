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
    if rank == 0:  # nobody else comes, so it does not complete
        dist.all_reduce(torch.ones(9), async_op=True)
    trace = json.loads(torch._C._distributed_c10d._dump_fr_trace_json(backend="tutti"))
    if rank != 0:
        dist.all_reduce(torch.ones(9))
    dist.barrier()
    dist.destroy_process_group()
    return [(entry["profiling_name"], entry["state"]) for entry in trace.get("entries", [])]


def profiled(rank, n):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        dist.all_reduce(torch.ones(5))
        dist.all_reduce(torch.ones(5), async_op=True).wait()
    return {event.key for event in profile.key_averages()}


class Debug(unittest.TestCase):
    def test_ddp_under_detail(self):
        ranks.run(detail, 2, ranks.fresh_path(), backend=None)

    @unittest.skipUnless(hasattr(torch._C._distributed_c10d.Backend, "register_abort_hook"),
                         "this torch has no recorder for all backends")
    def test_the_flight_recorder_has_the_calls(self):
        tells_completion = hasattr(torch._C._distributed_c10d.Backend, "supports_completion_hooks")
        for rank, entries in enumerate(ranks.run(recorded, 2, ranks.fresh_path(), backend=None)):
            sums = [state for name, state in entries if "all_reduce" in name or "allreduce" in name]
            self.assertEqual(len(sums), 3 + (rank == 0), entries)
            if tells_completion:
                self.assertEqual(sums[:3], ["completed"] * 3, entries)
                self.assertNotIn("completed", sums[3:], entries)

    def test_profiles_name_the_calls(self):
        for names in ranks.run(profiled, 2):
            self.assertIn("tutti:all_reduce", names)


if __name__ == "__main__":
    unittest.main()
