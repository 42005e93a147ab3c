"""The backend "tutti" of torch.distributed, for tensors in host memory, from PyTorch 2.14 on.

Collectives of a group run one after the other, in the order of the calls. Each pair of ranks has a
communicator of its own for each direction, made by the first message, so that sends and receives wait
neither for collectives nor for those of other peers.
"""

import datetime
import importlib.util
import os
import time

import torch
import torch.distributed as dist

from tutti import _core
from tutti._communicator import Communicator
from tutti.errors import Error, InvalidInput
from tutti.torch._lane import Lane, Together
from tutti.torch._types import TYPES, operation, plain, scaled, write_back

_CBackend = torch._C._distributed_c10d.Backend
(_ALL_REDUCE, _ALL_GATHER, _REDUCE_SCATTER, _BROADCAST, _ALL_TO_ALL, _BARRIER, _REDUCE, _GATHER,
 _SCATTER, _ALL_GATHER_V, _REDUCE_SCATTER_V, _ALL_TO_ALL_V, _SEND, _RECV) = range(14)


def _call(comm, kind, send, recv, count, op=0, root=0, options=None, counts=()):
    """`send` and `recv` are contiguous tensors or None; `counts` four lists of numbers of elements."""
    one = send if send is not None else recv
    what = (kind, 0 if send is None else send.data_ptr(), 0 if recv is None else recv.data_ptr(),
            count, 0 if one is None else TYPES[one.dtype], op, root, *counts)
    comm._submit_raw(what, options, True)


def _equal(tensors):
    return all(t.numel() == tensors[0].numel() for t in tensors)


class Backend(_CBackend):
    def __init__(self, store, rank, size, timeout, name):
        super().__init__(rank, size)
        self._store, self._timeout, self._name = store, timeout, name
        self._pid = os.getpid()
        self._seconds_all = timeout.total_seconds()
        self._collectives = Lane(f"{name} collectives", self._seconds_all,
                                 lambda: self._meet("all", rank, range(size)))
        self._pairs = {}
        self._batch = None  # the works of a coalesced block
        self._options = _CBackend.Options("tutti", timeout)

    # ---- what torch asks ------------------------------------------------------------------------

    @property
    def options(self):
        return self._options

    def getBackendName(self):
        return "tutti"

    @property
    def supports_splitting(self):
        return False

    @property
    def supports_coalescing(self):
        return True

    def start_coalescing(self):
        self._batch = []

    def end_coalescing(self):
        batch, self._batch = self._batch, None
        return Together(batch or [])

    # ---- meeting --------------------------------------------------------------------------------

    def _meet(self, what, rank, names):
        """A communicator whose id the first of the ranks `names` hands to the others by the store, once
        all of them have come."""
        keys = [f"tutti/{what}/{name}" for name in names]
        self._store.set(keys[rank], b"here")
        if rank == 0:
            self._await(keys, keys, names, what)
            keyed = os.environ.get("TUTTI_KEY_FILE") or os.environ.get("TUTTI_KEY")
            self._store.set(f"tutti/{what}", _core.public_id() if keyed else _core.unique_id())
        self._await([f"tutti/{what}"], keys, names, what)
        own = bytes(self._store.get(f"tutti/{what}"))
        return Communicator(len(names), rank, own, name=f"{self._name} {what}",
                            timeout=self._timeout.total_seconds())

    def _await(self, wanted, keys, names, what):
        """A get() that waits would hold the store, and with it what others wait for; so this asks."""
        deadline = time.monotonic() + self._timeout.total_seconds()
        while not self._store.check(wanted):
            if time.monotonic() < deadline:
                time.sleep(0.002)
                continue
            missing = [str(name) for key, name in zip(keys, names) if not self._store.check([key])]
            raise Error(f"making the communicator \"{what}\" of group {self._name} timed out after "
                        f"{self._timeout.total_seconds():g} s: rank {', '.join(missing) or names[0]} has "
                        "made no call on it yet")

    def _pair(self, peer, sends):
        """The lane of messages to or from a peer; the sender is rank 0 of it."""
        if not 0 <= peer < self.size():
            raise InvalidInput(f"rank {peer} is not in this group of {self.size()} ranks; a receive "
                               "names its sender")
        key = (peer, sends)
        if key not in self._pairs:
            ends = (self.rank(), peer) if sends else (peer, self.rank())
            what = f"from {ends[0]} to {ends[1]}"
            self._pairs[key] = Lane(f"{self._name} {what}", self._seconds_all,
                                    lambda: self._meet(what, 0 if sends else 1, ends))
        return self._pairs[key]

    # ---- how calls run --------------------------------------------------------------------------

    def _seconds(self, opts):
        limit = getattr(opts, "timeout", None)
        if limit is None or limit <= datetime.timedelta(0) or limit == self._timeout:
            return None
        return (False, None, limit.total_seconds(), 0)

    def _run(self, opts, call, result):
        options = self._seconds(opts)
        background = self._batch is not None or bool(getattr(opts, "asyncOp", True))
        return self._noted(self._collectives.submit(lambda comm: call(comm, options), result, background,
                                              options and options[2]))

    def _noted(self, work):
        if self._batch is not None:
            self._batch.append(work)
        return work

    # ---- collectives ----------------------------------------------------------------------------

    def allreduce(self, tensors, opts):
        tensor, = tensors
        data = scaled(opts.reduceOp, plain(tensor, "all_reduce"))
        op = operation(opts.reduceOp, tensor, "all_reduce")

        def call(comm, options):
            _call(comm, _ALL_REDUCE, data, data, data.numel(), op, options=options)
            write_back(data, tensor)
        return self._run(opts, call, tensors)

    def allreduce_coalesced(self, tensors, opts):
        data = [plain(tensor, "all_reduce_coalesced") for tensor in tensors]
        op = operation(opts.reduceOp, tensors[0], "all_reduce_coalesced")

        def call(comm, options):
            for copy, tensor in zip(data, tensors):
                _call(comm, _ALL_REDUCE, copy, copy, copy.numel(), op, options=options)
                write_back(copy, tensor)
        return self._run(opts, call, tensors)

    def broadcast(self, tensors, opts):
        tensor, = tensors
        data = plain(tensor, "broadcast")

        def call(comm, options):
            _call(comm, _BROADCAST, data, data, data.numel(), root=opts.rootRank, options=options)
            write_back(data, tensor)
        return self._run(opts, call, tensors)

    def reduce(self, tensors, opts):
        tensor, = tensors
        data = scaled(opts.reduceOp, plain(tensor, "reduce"))
        op = operation(opts.reduceOp, tensor, "reduce")

        def call(comm, options):
            _call(comm, _REDUCE, data, data, data.numel(), op, opts.rootRank, options)
            write_back(data, tensor)
        return self._run(opts, call, tensors)

    def all_gather_single(self, output, input, opts):
        send, recv = plain(input, "all_gather"), plain(output, "all_gather")
        if recv.numel() != send.numel() * self.size():
            raise InvalidInput(f"all_gather: the input has {send.numel()} elements, so the output must hold "
                               f"{send.numel() * self.size()}, and it has {recv.numel()}")

        def call(comm, options):
            _call(comm, _ALL_GATHER, send, recv, send.numel(), options=options)
            write_back(recv, output)
        return self._run(opts, call, [output])

    def allgather(self, output_tensors, input_tensors, opts):
        outputs, (tensor,) = output_tensors[0], input_tensors
        if len(outputs) != self.size():
            raise InvalidInput(f"all_gather: there are {len(outputs)} outputs; give one for each rank of "
                               f"{self.size()}")
        if any(output.dtype != tensor.dtype for output in outputs):
            raise InvalidInput(f"all_gather: outputs and input {tensor.dtype} have different types")
        send = plain(tensor, "all_gather")
        sizes = [plain(output, "all_gather").numel() for output in outputs]

        def call(comm, options):
            recv = torch.empty(sum(sizes), dtype=send.dtype)
            if _equal(outputs):
                _call(comm, _ALL_GATHER, send, recv, send.numel(), options=options)
            else:
                _call(comm, _ALL_GATHER_V, send, recv, send.numel(), options=options,
                      counts=(None, None, sizes, None))
            self._hand_out(recv, outputs, sizes)
        return self._run(opts, call, [outputs])

    def reduce_scatter_single(self, output, input, opts):
        send = scaled(opts.reduceOp, plain(input, "reduce_scatter"))
        recv = plain(output, "reduce_scatter")
        op = operation(opts.reduceOp, input, "reduce_scatter")
        if send.numel() != recv.numel() * self.size():
            raise InvalidInput(f"reduce_scatter: the output has {recv.numel()} elements and the input "
                               f"{send.numel()}; it needs {recv.numel() * self.size()}")

        def call(comm, options):
            _call(comm, _REDUCE_SCATTER, send, recv, recv.numel(), op, options=options)
            write_back(recv, output)
        return self._run(opts, call, [output])

    def all_gather_single_coalesced(self, outputs, inputs, opts):
        return self._each(self.all_gather_single, outputs, inputs, opts)

    def reduce_scatter_single_coalesced(self, outputs, inputs, opts):
        return self._each(self.reduce_scatter_single, outputs, inputs, opts)

    @staticmethod
    def _each(collective, outputs, inputs, opts):
        return Together([collective(output, input, opts) for output, input in zip(outputs, inputs)])

    def reduce_scatter(self, output_tensors, input_tensors, opts):
        (output,), inputs = output_tensors, input_tensors[0]
        recv = plain(output, "reduce_scatter")
        op = operation(opts.reduceOp, output, "reduce_scatter")
        parts = [scaled(opts.reduceOp, plain(tensor, "reduce_scatter")).reshape(-1)
                 for tensor in inputs]

        def call(comm, options):
            send = torch.cat(parts)
            sizes = [part.numel() for part in parts]
            _call(comm, _REDUCE_SCATTER_V, send, recv, recv.numel(), op, options=options,
                  counts=(sizes, None, None, None))
            write_back(recv, output)
        return self._run(opts, call, output_tensors)

    def all_to_all_single(self, output, input, output_split_sizes, input_split_sizes, opts):
        send, recv = plain(input, "all_to_all"), plain(output, "all_to_all")
        out_row = recv.numel() // recv.shape[0] if recv.numel() else 1
        in_row = send.numel() // send.shape[0] if send.numel() else 1

        def call(comm, options):
            if not output_split_sizes and not input_split_sizes:
                _call(comm, _ALL_TO_ALL, send, recv, send.numel() // self.size(), options=options)
            else:
                counts = (self._splits(input_split_sizes, send, in_row), None,
                          self._splits(output_split_sizes, recv, out_row), None)
                _call(comm, _ALL_TO_ALL_V, send, recv, 0, options=options, counts=counts)
            write_back(recv, output)
        return self._run(opts, call, [output])

    def _splits(self, sizes, tensor, row):
        if sizes:
            return [size * row for size in sizes]
        return [tensor.numel() // self.size()] * self.size()

    def alltoall(self, output_tensors, input_tensors, opts):
        parts = [plain(tensor, "all_to_all").reshape(-1) for tensor in input_tensors]
        sizes = [plain(tensor, "all_to_all").numel() for tensor in output_tensors]

        def call(comm, options):
            send = torch.cat(parts)
            recv = torch.empty(sum(sizes), dtype=send.dtype)
            counts = ([part.numel() for part in parts], None, sizes, None)
            _call(comm, _ALL_TO_ALL_V, send, recv, 0, options=options, counts=counts)
            self._hand_out(recv, output_tensors, sizes)
        return self._run(opts, call, output_tensors)

    def gather(self, output_tensors, input_tensors, opts):
        tensor, = input_tensors
        send = plain(tensor, "gather")
        root = opts.rootRank == self.rank()

        def call(comm, options):
            recv = torch.empty(send.numel() * self.size(), dtype=send.dtype) if root else None
            _call(comm, _GATHER, send, recv, send.numel(), root=opts.rootRank, options=options)
            if root:
                self._hand_out(recv, output_tensors[0], [send.numel()] * self.size())
        return self._run(opts, call, output_tensors)

    def scatter(self, output_tensors, input_tensors, opts):
        output, = output_tensors
        recv = plain(output, "scatter")
        root = opts.rootRank == self.rank()
        parts = [plain(t, "scatter").reshape(-1) for t in input_tensors[0]] if root else []

        def call(comm, options):
            send = torch.cat(parts) if root else None
            _call(comm, _SCATTER, send, recv, recv.numel(), root=opts.rootRank, options=options)
            write_back(recv, output)
        return self._run(opts, call, output_tensors)

    @staticmethod
    def _hand_out(flat, tensors, sizes):
        for part, tensor in zip(flat.split(sizes), tensors):
            target = torch.view_as_real(tensor) if tensor.is_complex() else tensor
            target.copy_(part.view(target.shape))

    def barrier(self, opts):
        return self._run(opts, lambda comm, options: _call(comm, _BARRIER, None, None, 0,
                                                           options=options), [])

    # ---- point to point -------------------------------------------------------------------------

    def send(self, tensors, dst, tag=0):
        return self._message(tensors, dst, tag, True)

    def recv(self, tensors, src, tag=0):
        return self._message(tensors, src, tag, False)

    def recv_anysource(self, tensors, tag):
        raise NotImplementedError("a receive names its sender; from any source there is none")

    def _message(self, tensors, peer, tag, sends):
        tensor, = tensors
        if tag != 0:
            raise InvalidInput("tags are not taken: messages of a pair arrive in the order in which "
                               "they are sent")
        data = plain(tensor, "send" if sends else "recv")

        def call(comm):
            if sends:
                _call(comm, _SEND, data, None, data.numel(), root=1)
            else:
                _call(comm, _RECV, None, data, data.numel(), root=0)
                write_back(data, tensor)
        return self._noted(self._pair(peer, sends).submit(call, tensors, True))

    # ---- the end --------------------------------------------------------------------------------

    def _lanes(self):
        return [self._collectives, *self._pairs.values()]

    def shutdown(self):
        if os.getpid() == self._pid:
            for lane in self._lanes():
                lane.close()

    def abort(self):
        if os.getpid() == self._pid:
            for lane in self._lanes():
                lane.close(abort=True)


def create(options, backend_options):
    """Called by torch.distributed for each group."""
    if backend_options is not None:
        raise InvalidInput("tutti has no options of its own: leave pg_options out, and set the timeout "
                           "by timeout=")
    timeout = options.timeout
    if not isinstance(timeout, datetime.timedelta):
        timeout = datetime.timedelta(seconds=timeout)
    return Backend(options.store, options.group_rank, options.group_size, timeout,
                   str(options.group_id))


def offer():
    """The entry point by which torch.distributed finds "tutti": plugins/torch where it is installed and
    can be loaded, as its calls are shorter, else this backend."""
    try:
        import tutti_torch
    except ImportError:
        register()
    else:
        tutti_torch.register()


def register_if_alone():
    """What `import tutti.torch` does: nothing where plugins/torch is installed, or PyTorch is too old."""
    if importlib.util.find_spec("tutti_torch") is None and hasattr(_CBackend, "all_gather_single"):
        register()


def register():
    """Makes "tutti" known to torch.distributed, for groups in host memory; docs/python.md says more.

    What has been registered by that name before, such as plugins/torch, stays.
    """
    if "TUTTI" in dist.Backend._plugins:
        return
    if not hasattr(_CBackend, "all_gather_single"):
        raise InvalidInput(f"PyTorch {torch.__version__} takes no backend in Python; from 2.14 on it "
                           "does, and for 2.9 to 2.13 plugins/torch is the backend (docs/pytorch.md)")
    dist.Backend.register_backend("tutti", create, extended_api=True, devices=["cpu"])
