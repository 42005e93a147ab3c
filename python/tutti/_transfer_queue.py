"""The client of a transfer queue, for arrays (docs/movers.md)."""

import numpy

from tutti import _core
from tutti.errors import InvalidInput

_NO_BOUND = 2**63 - 1
_BYTES = "bytes"


def _form_of(value):
    """What must be equal for a field within a step: the type, and all of the shape but its first part."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _BYTES, numpy.frombuffer(value, numpy.uint8)
    array = value if isinstance(value, numpy.ndarray) else numpy.asarray(value)
    if array.dtype.hasobject or array.dtype.byteorder == ">":
        raise InvalidInput(f"a sample of {array.dtype} cannot be put; pass numbers of this machine's byte order")
    if array.ndim == 0:
        raise InvalidInput("a sample has one dimension or more; put a single number x as [x]")
    shape = ",".join(["*", *map(str, array.shape[1:])])
    bits = numpy.ascontiguousarray(array).reshape(-1).view(numpy.uint8)
    return f"{array.dtype.name}[{shape}]", bits


def _array_of(cell, form):
    if form == _BYTES:
        return cell
    name, shape = form.rstrip("]").split("[")
    rest = [int(part) for part in shape.split(",")[1:]]
    return numpy.frombuffer(cell, numpy.dtype(name)).reshape([-1, *rest] if numpy.prod(rest, dtype=int) else [0, *rest])


class QueueClient:
    """Puts samples into a transfer queue and takes them out: see the example.

    The first dimension of a field's arrays is free, such as the tokens of an answer; type and other
    dimensions are equal within a step. A client is for one thread at a time. Times are in seconds.

    >>> import numpy
    >>> key = b"at least 16 bytes"
    >>> unit = tutti.StorageUnit("tcp:127.0.0.1:0", budget=1 << 20, key=key)
    >>> controller = tutti.QueueController("tcp:127.0.0.1:0", rows=4, fields=["prompt", "answer"],
    ...                                    units=[unit.address], key=key)
    >>> client = tutti.QueueClient(controller.address, key=key)
    >>> client.add_task("train", ["prompt", "answer"], max_staleness=1)
    >>> client.put(step=0, row=2, prompt=numpy.arange(3), answer=b"yes", version=0)
    True
    >>> batch = client.claim("train", rows=1)
    >>> client.fetch(batch)
    {'prompt': [array([0, 1, 2])], 'answer': [b'yes']}
    >>> client.ack(batch)
    >>> client.counts("train").consumed
    1
    """

    def __init__(self, address, key=b"", timeout=30.0):
        self._client = _core._QueueClient(address, key, timeout)

    def add_task(self, name, fields, max_staleness=None):
        """A task consumes each row that has these fields once; `max_staleness` in versions, None: no bound."""
        self._client.add_task(name, list(fields), _NO_BOUND if max_staleness is None else max_staleness)

    def put(self, step, row, *, version=None, weight=None, timeout=60.0, **fields):
        """Puts fields of a row; True if none of them was there before.

        What was there stays as it is, as after a producer that died behind its put. `version`: of the weights that
        made it. `weight`: of the row, for balanced claims, such as its tokens. It waits while the ring has no room.
        """
        if not fields:
            raise InvalidInput("put: pass at least one field by its name, such as prompt=array")
        is_new = True
        for name, value in fields.items():
            form, bits = _form_of(value)
            is_new &= self._client.put(step, row, name, form, bits, _NO_BOUND if version is None else version,
                                       -1 if weight is None else weight, timeout)
        return is_new

    def claim(self, task, rows, *, least=None, step=None, group=1, window=0, timeout=60.0):
        """Rows for this client until ack(): at most `rows`, and `least` (None: as many) at least.

        `group`: rows g*k .. g*k+g-1 of a step only together. `window`: of so many rows, those that a zig-zag deal by
        weight gives to one of window / rows consumers. Infeasible says what was missing when the time was over.
        """
        return self._client.claim(task, rows, 0 if least is None else least, -1 if step is None else step, group,
                                  window, timeout)

    def fetch(self, batch):
        """A dictionary with a list for each field, of an array (or bytes) for each row; arrays are not writable."""
        cells = iter(self._client.fetch(batch))
        forms = {}
        columns = {name: [] for name in batch.fields}
        for row in batch.rows:
            for name in batch.fields:
                if (row.step, name) not in forms:
                    forms[row.step, name] = self._client.form(row.step, name)
                columns[name].append(_array_of(next(cells), forms[row.step, name]))
        return columns

    def ack(self, batch):
        """Consumes the rows, or raises Infeasible if they are no longer this client's."""
        self._client.ack(batch)

    def renew(self, batch):
        """Keeps the rows for another lease."""
        self._client.renew(batch)

    def release(self, batch):
        """Gives the rows back unread."""
        self._client.release(batch)

    def drain(self, step, timeout=60.0):
        """Waits until every task has consumed each row of the step, or seen it expire."""
        self._client.drain(step, timeout)

    def clear(self, step):
        """Frees a step; how many rows were not read, summed over tasks."""
        return self._client.clear(step)

    def publish(self, version):
        """The weights have a new version."""
        self._client.publish(version)

    def version(self, at_least=0, timeout=60.0):
        """The last version; waits until it is `at_least`."""
        return self._client.version(at_least, timeout)

    def counts(self, task):
        """A QueueTaskCounts."""
        return self._client.counts(task)

    def expired(self, task, step):
        """Rows of the step that became too stale before the task claimed them."""
        return self._client.expired(task, step)
