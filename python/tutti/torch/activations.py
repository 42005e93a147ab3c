"""Activations of a model's blocks by a plan (ProTrain): kept, copied to the host and back, or recomputed.

    model = tt.measure_blocks(blocks, lambda: network(batch).sum())
    plan = tutti.search_memory(model, limit=8 << 30)
    tt.place_activations(blocks, tutti.activation_places(model, plan))

The plan decides about blocks, as tutti.search_memory() does; training stays as it was, and its bits, too.
"""

import contextlib
import time

import torch
from torch.utils.checkpoint import checkpoint

import tutti
from tutti.errors import InvalidInput


# ---- measuring -----------------------------------------------------------------------------------

class _Measured:
    """One block while it is measured."""

    def __init__(self):
        self.forward = self.backward = self.begun = 0
        self.saved, self.inputs = {}, {}  # bytes by storage

    def save(self, tensor):
        if not (tensor.is_leaf and tensor.requires_grad):  # a parameter is there anyway
            storage = tensor.untyped_storage()
            self.saved[storage.data_ptr()] = storage.nbytes()
        return tensor


def _tensors(values):
    for value in values if isinstance(values, (tuple, list)) else [values]:
        if isinstance(value, torch.Tensor):
            yield value


def _watch(block, seen):
    """Hooks that measure a block; returns them."""
    hooks = contextlib.ExitStack()

    def before(module, inputs):
        seen.inputs = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in _tensors(inputs)}
        seen.saving = torch.autograd.graph.saved_tensors_hooks(seen.save, lambda tensor: tensor)
        seen.saving.__enter__()
        seen.begun = time.perf_counter_ns()

    def behind(module, inputs, output):
        seen.forward = max(1, time.perf_counter_ns() - seen.begun)
        seen.saving.__exit__(None, None, None)

    def before_backward(module, gradients):
        seen.begun = time.perf_counter_ns()

    def behind_backward(module, gradients, more):
        seen.backward = max(1, time.perf_counter_ns() - seen.begun)
    for handle in (block.register_forward_pre_hook(before), block.register_forward_hook(behind),
                   block.register_full_backward_pre_hook(before_backward),
                   block.register_full_backward_hook(behind_backward)):
        hooks.callback(handle.remove)
    return hooks


def measure_blocks(blocks, run, *, host_bytes_per_ns=10.0, chunks=1, costs=None):
    """A tutti.MemoryModel of blocks, in the order in which they run: run() gives the loss of one step, and
    is called twice, of which the second time counts.

    Measured are times of both passes and bytes that autograd saves, storages once and parameters not. The
    first inputs of a block are what recomputing leaves. `host_bytes_per_ns` is the rate of copies to the
    host, and `costs` (a tutti.ChunkCosts) what state costs, which activations alone do not need.
    """
    blocks, seen = list(blocks), [_Measured() for _ in blocks]
    if not blocks:
        raise InvalidInput("measure_blocks: there are no blocks")
    for warm in (True, False):
        with contextlib.ExitStack() as hooks:
            if not warm:
                for block, its in zip(blocks, seen):
                    hooks.enter_context(_watch(block, its))
            run().backward()
    for number, its in enumerate(seen):
        if not its.forward or not its.backward:
            raise InvalidInput(f"measure_blocks: run() did not use block {number}, forward and backward")
    made = []
    for its in seen:
        activations, left = sum(its.saved.values()), sum(its.inputs.values())
        made.append(tutti.MemoryBlock(
            chunks=chunks, forward=its.forward, backward=its.backward, activations=max(activations, left),
            input=left, swap=int(max(activations, left) / host_bytes_per_ns)))
    return tutti.MemoryModel(blocks=made, costs=costs or tutti.ChunkCosts(parameters=1, states=1))


# ---- placing -------------------------------------------------------------------------------------

class _OnHost:
    """Saved tensors of a block in the host's memory, storages once: pinned where there is a device."""

    def __init__(self, counts):
        self.counts, self.copies = counts, {}

    def pack(self, tensor):
        if tensor.is_leaf and tensor.requires_grad:
            return tensor
        storage = tensor.untyped_storage()
        key = storage.data_ptr(), tensor._version  # a storage that was written to meanwhile is another one
        known = self.copies.get(key)
        if known is None:
            flat = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
            copy = torch.empty(flat.shape, dtype=torch.uint8, pin_memory=tensor.is_cuda)
            known = self.copies[key] = copy.copy_(flat), storage  # the storage keeps its place
            self.counts["host_bytes"] += storage.nbytes()
        return _Copy(known[0], tensor)

    def end(self):
        """The block has run: its activations go, and what is saved stays on the host."""
        self.copies.clear()


class _Copy:
    """A saved tensor: the bytes of its storage, and how it lies in it."""

    def __init__(self, copy, tensor):
        self.copy, self.dtype, self.device = copy, tensor.dtype, tensor.device
        self.lies = tensor.storage_offset(), tensor.size(), tensor.stride()

    def tensor(self):
        back = self.copy if self.device.type == "cpu" else self.copy.to(self.device, non_blocking=True)
        return torch.empty(0, dtype=self.dtype, device=self.device).set_(back.untyped_storage(), *self.lies)


def _swapped(forward, counts, saved):
    def run(*inputs, **named):
        if not torch.is_grad_enabled():
            return forward(*inputs, **named)
        if saved is not None:
            with saved:
                return forward(*inputs, **named)
        host = _OnHost(counts)
        with torch.autograd.graph.saved_tensors_hooks(
                host.pack, lambda kept: kept.tensor() if isinstance(kept, _Copy) else kept):
            output = forward(*inputs, **named)
        host.end()
        return output
    return run


def _recomputed(forward, counts):
    def run(*inputs, **named):
        if not torch.is_grad_enabled():
            return forward(*inputs, **named)
        counts["recomputed"] += 1
        return checkpoint(forward, *inputs, use_reentrant=False, **named)
    return run


def place_activations(blocks, places, *, saved=None):
    """Gives each block's activations a place: "device" keeps them, "host" copies what autograd saves to the
    host's memory and back for the backward pass, "recomputed" runs the forward pass again there.

    places   one of each block, as from tutti.activation_places()
    saved    where those on the "host" go instead: a tutti.offload.SavedTensors writes them to a disk

    Values and gradients keep their bits, also of dropout, whose state is kept. Returns counts:
    "host_bytes" copied and blocks "recomputed". A second call on the same blocks replaces the first.

    >>> import torch, tutti.torch as tt
    >>> blocks = [torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh()) for _ in range(2)]
    >>> counts = tt.place_activations(blocks, ["host", "recomputed"])
    >>> blocks[1](blocks[0](torch.ones(1, 4))).sum().backward()
    >>> counts["recomputed"], counts["host_bytes"] > 0
    (1, True)
    """
    blocks, places = list(blocks), list(places)
    ways = {"device": None, "host": lambda f: _swapped(f, counts, saved),
            "recomputed": lambda f: _recomputed(f, counts)}
    if len(blocks) != len(places) or any(place not in ways for place in places):
        raise InvalidInput(f"place_activations: {len(blocks)} blocks and the places {places}; each is one of "
                           f"{sorted(ways)}")
    counts = {"host_bytes": 0, "recomputed": 0}
    for block, place in zip(blocks, places):
        block.__dict__.pop("forward", None)  # of an earlier call
        if place != "device":
            block.forward = ways[place](block.forward)
    return counts
