"""Ranks as threads of one interpreter."""

import threading

from tutti import _core
from tutti._communicator import Communicator
from tutti.errors import InvalidInput


class _Rank(threading.Thread):
    def __init__(self, job, rank):
        super().__init__(name=f"tutti rank {rank}", daemon=True)
        self.job, self.rank = job, rank
        self.communicator = self.result = self.failure = None

    def run(self):
        try:
            self.communicator = Communicator(self.job.ranks, self.rank, self.job.id,
                                             name=self.job.name)
            self.result = self.job.function(self.communicator, *self.job.args)
            self.communicator.close()
        except BaseException as failure:  # noqa: BLE001  (the caller of run() raises it)
            self.failure = failure
            self.job.give_up(self)


class _Job:
    def __init__(self, function, ranks, args, name):
        self.function, self.ranks, self.args, self.name = function, ranks, args, name
        self.id = _core.unique_id()
        self.lock = threading.Lock()
        self.first = None
        self.threads = [_Rank(self, rank) for rank in range(ranks)]

    def give_up(self, culprit):
        """Other ranks must not wait for one that has failed."""
        with self.lock:
            self.first = self.first or culprit
        for thread in self.threads:
            if thread.communicator is not None:
                thread.communicator.abort()

    def wait(self):
        for thread in self.threads:
            while thread.is_alive():
                thread.join(0.5)
                if self.first is not None:
                    self.give_up(self.first)  # those that had no communicator yet, too


def run(function, ranks, *args, name=""):
    """Runs function(comm, *args) as `ranks` ranks, which are threads of this process; returns what
    they returned, by rank.

    For notebooks, tests and first steps: NumPy and PyTorch let threads compute at the same time, but
    Python's own code runs in one at a time. If a rank raises, the others are ended and the exception
    leaves here, with a note that names the rank; Ctrl-C ends all of them.

    >>> import tutti
    >>> tutti.run(lambda comm, word: f"{word} {comm.rank} of {comm.ranks}", 2, "rank")
    ['rank 0 of 2', 'rank 1 of 2']
    """
    if not isinstance(ranks, int) or not 1 <= ranks <= 512:
        raise InvalidInput(f"run: ranks is {ranks!r}; pass a number from 1 to 512")
    job = _Job(function, ranks, args, name)
    try:
        for thread in job.threads:
            thread.start()
        job.wait()
    except BaseException:
        for thread in job.threads:
            if thread.is_alive():
                job.give_up(thread)
        raise
    if job.first is not None:
        failure = job.first.failure
        if hasattr(failure, "add_note"):
            failure.add_note(f"in rank {job.first.rank} of {ranks}, a thread of tutti.run()")
        raise failure
    return [thread.result for thread in job.threads]
