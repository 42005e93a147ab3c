"""Communicators: the collectives of Tutti on arrays."""

import atexit
import os
import weakref

from tutti import _core
from tutti._core import CommunicatorBase, Group

_ALL_REDUCE, _ALL_GATHER, _REDUCE_SCATTER, _BROADCAST, _ALL_TO_ALL, _BARRIER, _REDUCE = range(7)
_GATHER, _SCATTER, _ALL_GATHER_V, _REDUCE_SCATTER_V, _ALL_TO_ALL_V, _SEND, _RECV = range(7, 14)
NEWCOMER = -1
_open = weakref.WeakSet()


def _options(deterministic, algorithm, timeout, priority, wire=None):
    if deterministic or algorithm is not None or timeout is not None or priority or wire is not None:
        return (deterministic, algorithm, timeout, priority, wire)
    return None


class Communicator(CommunicatorBase):
    """One rank of a group. Every rank makes the same calls in the same order.

    Arrays:   numpy arrays, tensors of PyTorch, and whatever else has DLPack or the buffer protocol,
              contiguous, of integers, bools, bfloat16, or floats of 8 to 64 bits, in host memory or,
              within tutti.on_stream(), in that of a device. Nothing is copied and nothing is
              converted: what cannot be used as it is, is refused.
    Options:  every collective takes, by keyword,
                deterministic   True: equal inputs give equal bits whatever the algorithm
                algorithm       a name such as "ring"; None: the library chooses
                timeout         seconds after which the call fails, and the communicator with it
                priority        in the background, higher goes first
                wire            which levels encode, such as "network:int8_block"; "": none; None:
                                as TUTTI_WIRE says (docs/slow_links.md)
                wait            False: the call runs in the background and a Request is returned
    Waiting:  other threads of Python run meanwhile. Ctrl-C, and every other signal whose handler
              raises, ends the wait; the communicator is aborted then.
    Errors:   tutti.Error and its subclasses. tutti.InvalidInput leaves the communicator usable.
              Those of calls on streams of devices are raised by check().
    Threads:  one at a time, but for abort().
    Ends:     close(), or a `with` block, which aborts it where an exception leaves the block.

    A communicator is made from an id, which one rank makes by unique_id() and hands to the others.
    launch() needs none under torchrun, mpirun and srun, and tutti.run() makes ranks as threads.

    >>> import numpy, tutti
    >>> def main(comm):
    ...     x = numpy.full(3, comm.rank + 1.0)
    ...     return comm.all_reduce(x).tolist()
    >>> tutti.run(main, ranks=2)
    [[3.0, 3.0, 3.0], [3.0, 3.0, 3.0]]
    """

    def __init__(self, ranks=None, rank=None, id=None, *, name="", timeout=0.0, _handle=None,
                 _owned=True):
        """`timeout`: seconds after which each call fails; 0: TUTTI_TIMEOUT. `name`: for messages."""
        if _handle is None:
            if ranks is None or rank is None or id is None:
                raise _core_invalid("a Communicator needs ranks, rank and an id from "
                                    "tutti.unique_id(); under a launcher use tutti.launch()")
            _handle = _core._init_rank(ranks, rank, id, name, timeout)
        super().__init__(_handle, _owned)
        if _owned:
            _open.add(self)

    @classmethod
    def from_handle(cls, handle):
        """A communicator that other code has made: `handle` is the address of its tuttiComm_t, which
        must live as long. close() leaves it open."""
        return cls(_handle=handle, _owned=False)

    def __enter__(self):
        return self

    def __exit__(self, kind, failure, traceback):
        if kind is None:
            self.close()
        else:
            self.abort()

    def __repr__(self):
        if not self.is_open:
            return "<tutti.Communicator, closed>"
        return f"<tutti.Communicator: rank {self.rank} of {self.ranks}>"

    # ---- collectives ----------------------------------------------------------------------------

    def all_reduce(self, send, recv=None, *, op="sum", deterministic=False, algorithm=None,
                   timeout=None, priority=0, wire=None, wait=True):
        """Reduces the arrays of all ranks element by element; every rank gets the result.

        `recv` has as many elements as `send`; without it the result replaces `send`. `op` is sum,
        prod, max, min, avg, bit_and, bit_or or bit_xor. Returns the array with the result.

        >>> import numpy, tutti
        >>> def main(comm):
        ...     result = numpy.zeros(2, numpy.int64)
        ...     return comm.all_reduce(numpy.array([comm.rank, 7]), result, op="max").tolist()
        >>> tutti.run(main, ranks=3)[0]
        [2, 7]
        """
        recv = send if recv is None else recv
        what = (_ALL_REDUCE, op, 0, _options(deterministic, algorithm, timeout, priority, wire))
        return self._submit(what, send, recv, wait) or recv

    def all_gather(self, send, recv, *, deterministic=False, algorithm=None, timeout=None,
                   priority=0, wire=None, wait=True):
        """Gathers `send` of every rank on every rank: `recv` has ranks times as many elements, in
        rank order. In place: `send` is this rank's part of `recv`. Returns `recv`.

        >>> import numpy, tutti
        >>> def main(comm):
        ...     return comm.all_gather(numpy.array([comm.rank * 10]), numpy.zeros(2, int)).tolist()
        >>> tutti.run(main, ranks=2)[1]
        [0, 10]
        """
        what = (_ALL_GATHER, "sum", 0, _options(deterministic, algorithm, timeout, priority, wire))
        return self._submit(what, send, recv, wait) or recv

    def reduce_scatter(self, send, recv, *, op="sum", deterministic=False, algorithm=None,
                       timeout=None, priority=0, wire=None, wait=True):
        """Reduces `send` of all ranks; each rank gets its part, in rank order. `send` has ranks times
        as many elements as `recv`. In place: `recv` is this rank's part of `send`. Returns `recv`.

        >>> import numpy, tutti
        >>> def main(comm):
        ...     return comm.reduce_scatter(numpy.arange(4.0), numpy.zeros(2)).tolist()
        >>> tutti.run(main, ranks=2)
        [[0.0, 2.0], [4.0, 6.0]]
        """
        what = (_REDUCE_SCATTER, op, 0, _options(deterministic, algorithm, timeout, priority, wire))
        return self._submit(what, send, recv, wait) or recv

    def broadcast(self, send, recv=None, *, root=0, algorithm=None, timeout=None, priority=0,
                  wire=None, wait=True):
        """Copies `send` of the root to `recv` of every rank; without `recv`, into `send`. Only the
        root reads `send`. Returns the array with the result.

        >>> import numpy, tutti
        >>> tutti.run(lambda comm: comm.broadcast(numpy.array([comm.rank]), root=1).tolist(), ranks=2)
        [[1], [1]]
        """
        recv = send if recv is None else recv
        what = (_BROADCAST, "sum", root, _options(False, algorithm, timeout, priority, wire))
        return self._submit(what, send, recv, wait) or recv

    def all_to_all(self, send, recv, *, algorithm=None, timeout=None, priority=0,
                   wire=None, wait=True):
        """Part r of `send` goes to rank r; part r of `recv` comes from it. Parts are equal, in rank
        order, and both arrays have as many elements. Returns `recv`.

        >>> import numpy, tutti
        >>> def main(comm):
        ...     return comm.all_to_all(numpy.array([10, 20]) + comm.rank, numpy.zeros(2, int)).tolist()
        >>> tutti.run(main, ranks=2)
        [[10, 11], [20, 21]]
        """
        what = (_ALL_TO_ALL, "sum", 0, _options(False, algorithm, timeout, priority, wire))
        return self._submit(what, send, recv, wait) or recv

    def reduce(self, send, recv=None, *, root=0, op="sum", deterministic=False, algorithm=None,
               timeout=None, priority=0, wire=None, wait=True):
        """Reduces `send` of all ranks into `recv` of the root; other ranks need no `recv`. Without
        it the root's result replaces its `send`. Returns the root's result, None elsewhere.

        >>> import numpy, tutti
        >>> def main(comm):
        ...     result = comm.reduce(numpy.array([2.0]), op="prod", root=1)
        ...     return None if result is None else result.tolist()
        >>> tutti.run(main, ranks=2)
        [None, [4.0]]
        """
        recv = send if recv is None else recv
        what = (_REDUCE, op, root, _options(deterministic, algorithm, timeout, priority, wire))
        return self._submit(what, send, recv, wait) or (recv if self.rank == root else None)

    def gather(self, send, recv=None, *, root=0, algorithm=None, timeout=None, priority=0,
               wire=None, wait=True):
        """Copies `send` of every rank to the root, whose `recv` has ranks times as many elements, in
        rank order. Other ranks need no `recv`. Returns `recv`.

        >>> import numpy, tutti
        >>> def main(comm):
        ...     all_of_them = numpy.zeros(2, int) if comm.rank == 0 else None
        ...     comm.gather(numpy.array([comm.rank + 5]), all_of_them)
        ...     return all_of_them
        >>> tutti.run(main, ranks=2)[0].tolist()
        [5, 6]
        """
        what = (_GATHER, "sum", root, _options(False, algorithm, timeout, priority, wire))
        return self._submit(what, send, recv, wait) or recv

    def scatter(self, send, recv, *, root=0, algorithm=None, timeout=None, priority=0,
                wire=None, wait=True):
        """Part r of the root's `send` goes to `recv` of rank r. Other ranks need no `send`. Returns
        `recv`.

        >>> import numpy, tutti
        >>> def main(comm):
        ...     parts = numpy.array([3, 4]) if comm.rank == 0 else None
        ...     return comm.scatter(parts, numpy.zeros(1, int)).tolist()
        >>> tutti.run(main, ranks=2)
        [[3], [4]]
        """
        what = (_SCATTER, "sum", root, _options(False, algorithm, timeout, priority, wire))
        return self._submit(what, send, recv, wait) or recv

    def barrier(self, *, timeout=None, wait=True):
        """Returns when every rank has called it.

        >>> import tutti
        >>> tutti.run(lambda comm: comm.barrier(), ranks=2)
        [None, None]
        """
        return self._submit((_BARRIER, "sum", 0, _options(False, None, timeout, 0)), None, None, wait)

    # ---- collectives with a count for each rank -------------------------------------------------

    def all_gather_v(self, send, recv, counts, *, offsets=None, algorithm=None, timeout=None,
                     priority=0, wire=None, wait=True):
        """all_gather() with counts[r] elements from rank r. Every rank passes the same counts.
        `offsets` says where in `recv` each rank's block begins; by default they are packed. Returns
        `recv`.

        >>> import numpy, tutti
        >>> def main(comm):
        ...     own = numpy.full(comm.rank + 1, comm.rank)
        ...     return comm.all_gather_v(own, numpy.zeros(3, int), [1, 2]).tolist()
        >>> tutti.run(main, ranks=2)[0]
        [0, 1, 1]
        """
        what = (_ALL_GATHER_V, "sum", 0, _options(False, algorithm, timeout, priority, wire),
                None, None, counts, offsets)
        return self._submit(what, send, recv, wait) or recv

    def reduce_scatter_v(self, send, recv, counts, *, op="sum", deterministic=False, algorithm=None,
                         timeout=None, priority=0, wire=None, wait=True):
        """reduce_scatter() in which rank r gets counts[r] elements. Every rank passes the same
        counts; `send` has their sum. Returns `recv`.

        >>> import numpy, tutti
        >>> def main(comm):
        ...     part = numpy.zeros([1, 2][comm.rank])
        ...     return comm.reduce_scatter_v(numpy.arange(3.0), part, [1, 2]).tolist()
        >>> tutti.run(main, ranks=2)
        [[0.0], [2.0, 4.0]]
        """
        what = (_REDUCE_SCATTER_V, op, 0, _options(deterministic, algorithm, timeout, priority, wire),
                counts, None, None, None)
        return self._submit(what, send, recv, wait) or recv

    def all_to_all_v(self, send, recv, send_counts, recv_counts, *, send_offsets=None,
                     recv_offsets=None, algorithm=None, timeout=None, priority=0,
                     wire=None, wait=True):
        """all_to_all() with send_counts[r] elements to rank r and recv_counts[r] from it. What one
        rank sends to another must be what that one expects. Returns `recv`.

        >>> import numpy, tutti
        >>> def main(comm):
        ...     counts = [[0, 2], [1, 0]]
        ...     back = [row[comm.rank] for row in counts]
        ...     send = numpy.full(sum(counts[comm.rank]), comm.rank + 1)
        ...     recv = numpy.zeros(sum(back), int)
        ...     return comm.all_to_all_v(send, recv, counts[comm.rank], back).tolist()
        >>> tutti.run(main, ranks=2)
        [[2], [1, 1]]
        """
        what = (_ALL_TO_ALL_V, "sum", 0, _options(False, algorithm, timeout, priority, wire),
                send_counts, send_offsets, recv_counts, recv_offsets)
        return self._submit(what, send, recv, wait) or recv

    # ---- point to point -------------------------------------------------------------------------

    def send(self, send, peer, *, timeout=None, priority=0, wait=True):
        """Sends an array to a rank, which receives as many bytes. It may return before that. Sends
        and receives that depend on each other belong into one group().

        >>> import numpy, tutti
        >>> def main(comm):
        ...     x = numpy.array([comm.rank])
        ...     return comm.send(x, 1) if comm.rank == 0 else comm.recv(x, 0).tolist()
        >>> tutti.run(main, ranks=2)
        [None, [0]]
        """
        what = (_SEND, "sum", peer, _options(False, None, timeout, priority))
        return self._submit(what, send, None, wait)

    def recv(self, recv, peer, *, timeout=None, priority=0, wait=True):
        """Receives from a rank into an array, which it returns; see send()."""
        what = (_RECV, "sum", peer, _options(False, None, timeout, priority))
        return self._submit(what, None, recv, wait) or recv

    # ---- other groups ---------------------------------------------------------------------------

    def split(self, color, key=0):
        """Ranks that pass the same colour (0 or more) get a communicator of their own, ordered by
        `key` and then by rank; those that pass None get None. All ranks call it.

        >>> import tutti
        >>> tutti.run(lambda comm: comm.split(comm.rank % 2).ranks, ranks=3)
        [2, 1, 2]
        """
        handle = self._split(-1 if color is None else color, key)
        return type(self)(_handle=handle) if handle else None

    def shrink(self, excluded, *, abort=False):
        """A communicator without these ranks, which may be dead. All others call it with one list.
        `abort`: calls under way end with an error, and this communicator with them."""
        return type(self)(_handle=self._shrink(list(excluded), abort))

    # ---- edits in place -------------------------------------------------------------------------

    def edit(self, *, remove_dead=False, removed=(), newcomers=0, order=(), at_least=0, abort=False,
             kill_removed=False, timeout=60.0):
        """Changes the members of this communicator, which stays the same object; `rank` and `ranks`
        may change. All ranks that stay call it with equal arguments; a communicator that has failed
        works again afterwards.

        `remove_dead`: whoever is dead leaves. `removed`: ranks that leave, dead or alive.
        `newcomers`: how many are waited for, who call tutti.join(); they take the numbers of those
        that leave. `order`: the next ranks in order, each a present rank or NEWCOMER; a rank that is
        not listed leaves. `at_least`: how many must agree, if more than half of them is not enough.
        `abort`: calls under way end with an error. `kill_removed`: a removed process of this host
        and user that lives and may still write to this rank's memory is killed. `timeout`: seconds
        for all of it. Returns a dict: epoch, removed, joined, links_kept, links_made, links_closed,
        windows_kept, registrations_kept, seconds. After a timeout, and
        where too few members are alive, everything is as before and the edit may be repeated.

        Calls on streams of devices are waited for, within `timeout`; after a failure they end by
        themselves. Behind the edit calls go on the same streams as before. What the call that failed
        should have written is undefined, so keep what it is computed from.

        >>> import numpy, tutti
        >>> def main(comm):
        ...     report = comm.edit(order=[1, 0])
        ...     return report["epoch"], comm.rank, comm.all_reduce(numpy.ones(1)).tolist()
        >>> tutti.run(main, ranks=2)
        [(1, 1, [2.0]), (1, 0, [2.0])]
        """
        return self._edit({"remove_dead": bool(remove_dead), "removed": list(removed),
                           "newcomers": newcomers, "order": list(order), "at_least": at_least,
                           "abort": bool(abort), "kill_removed": bool(kill_removed),
                           "timeout": float(timeout)})

    def id_for_newcomers(self):
        """Bytes by which newcomers join: tutti.join(id), at the next edit that waits for one. This
        rank must take part in it. One id serves any number of newcomers and edits; keep it secret.
        """
        return self._id_for_newcomers()


def _core_invalid(sentence):
    from tutti.errors import InvalidInput
    return InvalidInput(sentence)


def launch(*, name="", timeout=0.0):
    """The communicator of all ranks that a launcher has started: torchrun, mpirun, srun, or any loop
    that sets RANK, WORLD_SIZE and MASTER_ADDR. Every rank makes its launched communicators in the
    same order."""
    return Communicator(_handle=_core._init_launched(name, timeout))


def join(id, *, name="", timeout=0.0):
    """The communicator of a newcomer to the group whose member made the id by id_for_newcomers().
    Waits for an edit that waits for it (Communicator.edit), until TUTTI_INIT_TIMEOUT. As with every
    communicator, its device is the one that is current in this thread.

    >>> import threading, tutti
    >>> def main(comm):
    ...     thread = threading.Thread(target=lambda: tutti.join(id).close())
    ...     id = comm.id_for_newcomers()
    ...     thread.start()
    ...     comm.edit(newcomers=1)
    ...     comm.close()
    ...     thread.join()
    ...     return True
    >>> tutti.run(main, ranks=1)
    [True]
    """
    return Communicator(_handle=_core._join(id, name, timeout))


def group():
    """Calls of a `with` block progress together, and have completed when the block ends.

    Buffers must not be used before. Calls of several communicators may be in one block.

    >>> import numpy, tutti
    >>> def main(comm):
    ...     got = numpy.zeros(1, int)
    ...     with tutti.group():
    ...         comm.send(numpy.array([comm.rank]), 1 - comm.rank)
    ...         comm.recv(got, 1 - comm.rank)
    ...     return got.tolist()
    >>> tutti.run(main, ranks=2)
    [[1], [0]]
    """
    return Group()


_process = os.getpid()


@atexit.register
def _close_all():
    """Ends what is left open, while the interpreter still can; a child of fork() has nothing."""
    if os.getpid() != _process:
        return
    for communicator in list(_open):
        try:
            communicator.abort() if communicator_failed(communicator) else communicator.close()
        except Exception:  # noqa: BLE001  (nobody is left to hear of it)
            pass


def communicator_failed(communicator):
    """Whether an exception ends the program: then nobody should wait for the other ranks."""
    import sys
    return communicator.is_open and getattr(sys, "last_value", None) is not None
