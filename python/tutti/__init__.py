"""Tutti: collective communication, and plans for training in parallel.

    import numpy, tutti

    def main(comm):
        return comm.all_reduce(numpy.full(4, comm.rank + 1.0))

    tutti.run(main, ranks=4)        # four ranks as threads; in a job use tutti.launch()

It needs numpy. What is for PyTorch is in tutti.torch, which is imported by itself.
"""

from importlib import metadata as _metadata

from tutti import errors
from tutti._communicator import NEWCOMER, Communicator, group, join, launch
from tutti._core import *  # noqa: F403  (every part of the binding is part of the package)
from tutti._core import Request
from tutti._log import log_to_logging
from tutti._run import run
from tutti._transfer_queue import QueueClient
from tutti.errors import CommunicationError, Error, Infeasible, InvalidInput, RanksDiffer

try:
    __version__ = _metadata.version("tutti-comm")
except _metadata.PackageNotFoundError:  # from a build folder
    __version__ = "0.1.0"
