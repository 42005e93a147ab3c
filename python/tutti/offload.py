"""Activations of PyTorch on a disk between forward and backward pass (docs/movers.md).

    from tutti import offload

    saved = offload.SavedTensors("/mnt/nvme", budget=2 << 30)
    for batch in batches:
        with saved:
            loss = model(batch)
        loss.backward()

It imports PyTorch when SavedTensors is made, not before.
"""

from tutti import _core

_LEAST = 1 << 16


class _Saved:
    """A tensor that autograd saved: its storage by a handle, and how it lies in it."""

    __slots__ = ("_cache", "_handle", "_dtype", "_place")

    def __init__(self, cache, handle, tensor):
        self._cache, self._handle, self._dtype = cache, handle, tensor.dtype
        self._place = (tensor.storage_offset(), tensor.size(), tensor.stride())

    def tensor(self, torch):
        bits = torch.from_numpy(self._cache.unpack(self._handle))
        return torch.empty(0, dtype=self._dtype).set_(bits.untyped_storage(), *self._place)

    def __del__(self):
        self._cache.drop(self._handle)


class SavedTensors:
    """Within it, what autograd saves for the backward pass goes to a disk.

    folder    where the file lies; on a disk with room for a step's activations
    budget    bytes of saved tensors that stay in memory at most, at any time
    write, read   bytes a second that it may take of the disk; 0: all
    least     storages of fewer bytes stay in memory
    slack     part of a step's time that the disk may cost; the amount adapts to it
    keep      tensors whose storages never go to the disk, such as `model.parameters()`; leaves that
              require a gradient never do

    Tensors of the host's memory only: those of devices stay where they are. A tensor that is changed in place after it was
    saved is refused by the backward pass, as PyTorch does. An error of the disk leaves the forward or the backward pass.
    """

    def __init__(self, folder, budget, *, write=0.0, read=0.0, least=_LEAST, slack=0.02, threads=2, io_uring=True,
                 keep=()):
        import torch
        from torch.multiprocessing.reductions import StorageWeakRef

        self._torch, self._weak = torch, StorageWeakRef
        self._cache = _core._OffloadCache(str(folder), budget, write, read, threads, io_uring, slack)
        self._least = least
        self._kept = [StorageWeakRef(tensor.untyped_storage()) for tensor in keep]
        self._kept_places = {reference.cdata for reference in self._kept}
        self._names = {}
        self._next_name = 0
        self._hooks = []

    @property
    def counters(self):
        """An OffloadCounters."""
        return self._cache.counters

    @property
    def io(self):
        """How bytes go to the disk: "io_uring" or "threads"."""
        return self._cache.io

    def __enter__(self):
        hooks = self._torch.autograd.graph.saved_tensors_hooks(self._pack, self._unpack)
        hooks.__enter__()
        self._hooks.append(hooks)
        return self

    def __exit__(self, *failure):
        return self._hooks.pop().__exit__(*failure)

    def _name_of(self, storage):
        """A number of the storage's own. A weak reference keeps the address from being another one's."""
        reference = self._weak(storage)
        known = self._names.get(reference.cdata)
        if known is None:
            self._names = {place: entry for place, entry in self._names.items() if not entry[0].expired()}
            self._next_name += 1
            known = self._names[reference.cdata] = (reference, self._next_name)
        return known[1]

    def _goes(self, tensor, storage):
        if tensor.device.type != "cpu" or tensor.layout != self._torch.strided or storage.nbytes() < self._least:
            return False
        if (tensor.is_leaf and tensor.requires_grad) or tensor.is_conj() or tensor.is_neg():
            return False
        return not self._kept_places or self._weak(storage).cdata not in self._kept_places

    def _pack(self, tensor):
        storage = tensor.untyped_storage()
        if not self._goes(tensor, storage):
            return tensor
        # Detached, it has the same memory and version, and no graph that it would keep alive.
        handle = self._cache.pack(self._name_of(storage), storage.data_ptr(), storage.nbytes(), tensor.detach())
        return _Saved(self._cache, handle, tensor)

    def _unpack(self, packed):
        return packed.tensor(self._torch) if isinstance(packed, _Saved) else packed
