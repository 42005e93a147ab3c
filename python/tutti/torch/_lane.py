"""Calls of one communicator, one after the other, in the order in which they were made."""

import os
import queue
import threading

import torch
import torch.distributed as dist

from tutti.errors import Error, InvalidInput


class Work(dist._Work):
    """The handle of one call: what dist.all_reduce(..., async_op=True) returns."""

    def __init__(self, call, result, seconds):
        super().__init__()
        self._call, self._result, self._seconds = call, result, seconds
        self._over = threading.Event()
        self._failure = None
        self._future = self._end = None
        self._guard = threading.Lock()

    def run(self):
        try:
            self._call()
        except InvalidInput as failure:
            self._failure = failure
        except Error as failure:
            late = f"timed out after {self._seconds * 1000:.0f} ms: " if failure.result == "timeout" else ""
            self._failure = dist.DistBackendError(f"tutti: {late}{failure}")
            self._failure.__cause__ = failure
        except BaseException as failure:  # noqa: BLE001  (whoever waits for it raises it)
            self._failure = failure
        self._call = None
        with self._guard:
            self._over.set()
        if self._end is not None:
            self._end.set_result(None)

    def _outcome(self, _):
        if self._failure is not None:
            raise self._failure
        return self._result

    def wait(self, timeout=None):
        seconds = timeout.total_seconds() if timeout is not None else 0
        if not self._over.wait(seconds if seconds > 0 else None):
            raise dist.DistBackendError(f"tutti: the wait timed out after {seconds} s; the call goes on")
        if self._failure is not None:
            raise self._failure
        return True

    def get_future(self):
        with self._guard:
            if self._future is None:
                # An exception that is set is a value to PyTorch's own code in C++; one that a callback
                # raises is an error there, too.
                self._end = torch.futures.Future()
                self._future = self._end.then(self._outcome)
                if self._over.is_set():
                    self._end.set_result(None)
            return self._future

    def is_completed(self):
        return self._over.is_set()

    def is_success(self):
        return self._over.is_set() and self._failure is None

    def exception(self):
        return self._failure

    def result(self):
        return self._result

    def synchronize(self):
        self.wait()


class Together(dist._Work):
    """The handle of several calls."""

    def __init__(self, works):
        super().__init__()
        self._works = works

    def wait(self, timeout=None):
        for work in self._works:
            work.wait(timeout)
        return True

    def get_future(self):
        return torch.futures.collect_all([work.get_future() for work in self._works]).then(
            lambda all_of_them: [x for one in all_of_them.value() for x in one.value()])

    def is_completed(self):
        return all(work.is_completed() for work in self._works)

    def is_success(self):
        return all(work.is_success() for work in self._works)

    def exception(self):
        return next((work.exception() for work in self._works if work.exception()), None)

    def result(self):
        return [x for work in self._works for x in work.result()]

    def synchronize(self):
        self.wait()


class Lane:
    """A communicator that is made when it is first needed, and a thread for calls in the background.

    `make` returns the communicator, whose calls fail after `seconds`. A call that is waited for runs in the thread that makes it, if
    nothing is queued before it.
    """

    def __init__(self, name, seconds, make):
        self._name, self._seconds, self._make = name, seconds, make
        self._pid = os.getpid()
        self._queue = queue.SimpleQueue()
        self._thread = None
        self._turn = threading.Lock()  # who holds it runs calls
        self._queued = 0
        self._count = threading.Lock()
        self._communicator = None
        self._ended = False

    def communicator(self):
        if os.getpid() != self._pid:
            raise Error("a forked process must not use the groups of its parent; make a group of its own "
                        "in it")
        if self._ended:
            raise Error("this group has been destroyed or aborted")
        if self._communicator is None:
            self._communicator = self._make()
        return self._communicator

    def submit(self, call, result, background, seconds=None):
        """call(communicator) in its turn; returns its Work. `seconds`: after which this call fails."""
        work = Work(lambda: call(self.communicator()), result, seconds or self._seconds)
        if os.getpid() != self._pid:
            work.run()
            work.wait()  # raises
        if threading.current_thread() is self._thread:  # a callback of a call's future
            work.run()
            return work
        if not background:
            with self._count:
                idle = self._queued == 0 and self._turn.acquire(blocking=False)
            if idle:
                try:
                    work.run()
                finally:
                    self._turn.release()
                work.wait()
                return work
        self._enqueue(work)
        if not background:
            work.wait()
        return work

    def _enqueue(self, work):
        with self._count:
            self._queued += 1
        self._queue.put(work)
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name=f"tutti {self._name}",
                                            daemon=True)
            self._thread.start()

    def _serve(self):
        while (work := self._queue.get()) is not None:
            with self._turn:
                work.run()
            with self._count:
                self._queued -= 1

    def close(self, abort=False):
        self._ended = True
        communicator = self._communicator
        if abort and communicator is not None:
            communicator.abort()
        if self._thread is not None:
            self._queue.put(None)
            if not abort:
                self._thread.join()
        if communicator is not None and not abort:
            communicator.close()
