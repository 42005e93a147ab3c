"""FSDP2's own hook for collectives: gathers and reduce-scatters by tutti, in registered memory that is
allocated once."""

import weakref

import torch
import torch.distributed as dist

import tutti
from tutti.errors import InvalidInput
from tutti.torch._groups import communicator


def _interfaces():
    """FSDP2's classes for custom collectives, which are private by name."""
    try:
        from torch.distributed.fsdp._fully_shard._fsdp_api import AllGather, ReduceScatter
    except ImportError as error:
        raise InvalidInput(f"fsdp2: PyTorch {torch.__version__} has no custom collectives for FSDP2; from "
                           "2.9 on it has") from error
    return AllGather, ReduceScatter


class _Pool:
    """Registered buffers by size. The n-th request of a size gets buffer n modulo `buffers`, on all ranks,
    as a call's buffers must be those of one registration."""

    def __init__(self, comm, buffers):
        self._comm, self._buffers = comm, buffers
        self._sizes = {}
        self.registered = 0  # bytes

    def take(self, count, dtype):
        size = max(count * dtype.itemsize, 1)
        memories = self._sizes.setdefault(size, {"next": 0, "made": [], "users": {}})
        place = memories["next"] % self._buffers
        memories["next"] += 1
        if place == len(memories["made"]):
            memories["made"].append(tutti.RegisteredMemory(self._comm, size))
            self.registered += size
        user = memories["users"].get(place)
        if user is not None and user() is not None:
            raise InvalidInput(f"fsdp2: all {self._buffers} buffers of {size} bytes are in use; pass "
                               "buffers=N with one for each gather that may be under way, and one more")
        array = memories["made"][place].bytes
        memories["users"][place] = weakref.ref(array)  # the tensor's storage keeps it
        return torch.from_numpy(array)[:count * dtype.itemsize].view(dtype)


class _Waited:
    """What FSDP2 waits for."""

    def __init__(self, request):
        self._request = request

    def wait(self, timeout=None):
        self._request.wait()
        return True


class _Collectives:
    """The state of both collectives of one model."""

    def __init__(self, comm, buffers, deterministic):
        self.comm, self.deterministic = comm, deterministic
        self.pool = _Pool(comm, buffers)
        self.gathers = self.scatters = 0
        self.group = None

    def expect(self, group, tensor):
        if group.size() != self.comm.ranks or group.rank() != self.comm.rank:
            raise InvalidInput(f"fsdp2: the model is sharded over {group.size()} ranks and tutti's group has "
                               f"{self.comm.ranks}; pass the group of the mesh that shards")
        if tensor.device.type != "cpu":
            raise InvalidInput(f"fsdp2: the model is on {tensor.device}; these collectives take host memory")

    def all_gather(self, output, own, group, async_op):
        self.expect(group, own)
        self.gathers += 1
        done = self.comm.all_gather(own, output, wait=not async_op)
        return _Waited(done) if async_op else None

    def reduce_scatter(self, output, whole, group, op):
        self.expect(group, whole)
        self.scatters += 1
        name = {dist.ReduceOp.SUM: "sum", dist.ReduceOp.AVG: "avg"}.get(getattr(op, "op", op))
        if name is None:
            raise InvalidInput(f"fsdp2: FSDP2 asks for the reduction {op}; sum and avg are there, so leave "
                               "set_gradient_divide_factor() out")
        part = whole.view(self.comm.ranks, -1)[self.comm.rank]
        self.comm.reduce_scatter(whole, part, op=name, deterministic=self.deterministic)
        output.copy_(part)  # it stays as the gradient, and the buffer does not


def _make(state):
    all_gather_base, reduce_scatter_base = _interfaces()

    class Gather(all_gather_base):
        def allocate(self, size, *, dtype, device):
            return state.pool.take(int(torch.Size(size).numel()), dtype)

        def __call__(self, output_tensor, input_tensor, group, async_op=False):
            return state.all_gather(output_tensor, input_tensor, group, async_op)

    class Scatter(reduce_scatter_base):
        """FSDP2 asks for an input and an output in turn."""

        def __init__(self):
            self._of_output = False

        def allocate(self, size, *, dtype, device):
            count, self._of_output = int(torch.Size(size).numel()), not self._of_output
            if self._of_output:  # the first of the pair, which is the input
                return state.pool.take(count, dtype)
            return torch.empty(count, dtype=dtype, device=device)

        def __call__(self, output_tensor, input_tensor, group, op, async_op=False):
            return state.reduce_scatter(output_tensor, input_tensor, group, op)

    return Gather(), Scatter()


def fsdp2(model, group=None, *, buffers=2, deterministic=False):
    """Runs the collectives of a model of fully_shard() by tutti: of every FSDPModule in it, in registered
    buffers of which there are `buffers` of each size, allocated once and in turn.

    `group` is that of the mesh dimension that shards. deterministic: equal gradients give equal bits.
    Returns an object that counts: gathers, scatters, and pool.registered in bytes. Call it on all ranks,
    after the last fully_shard().
    """
    from torch.distributed.fsdp import FSDPModule
    state = _Collectives(communicator(group), buffers, deterministic)
    gather, scatter = _make(state)
    found = [module for module in model.modules() if isinstance(module, FSDPModule)]
    if not found:
        raise InvalidInput("fsdp2: the model has no FSDPModule; call fully_shard() first")
    for module in found:
        module.set_custom_all_gather(gather)
        module.set_custom_reduce_scatter(scatter)
    return state
