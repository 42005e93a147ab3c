"""The library's log lines, in Python's logging."""

import logging
import os
import threading

from tutti import _core
from tutti.errors import InvalidInput

_LEVELS = {"error": logging.ERROR, "warn": logging.WARNING, "info": logging.INFO,
           "debug": logging.DEBUG, "trace": logging.DEBUG}
_begun = False


def _forward(descriptor, logger):
    with os.fdopen(descriptor, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            line = line.rstrip("\n")
            words = line.lower().split()[:8]
            level = next((_LEVELS[w.strip("[]:")] for w in words if w.strip("[]:") in _LEVELS),
                         logging.INFO)
            logger.log(level, "%s", line)


def log_to_logging(level="warn", logger="tutti"):
    """Hands the library's log lines to logging.getLogger("tutti"), from a thread of its own.

    `level` is error, warn, info, debug or trace; TUTTI_LOG wins where it is set, and with
    TUTTI_LOG_FILE lines go to that file instead. Call it before anything else of tutti: the library
    reads its settings once. Without this call lines go to the error output.
    """
    global _begun
    if level not in _LEVELS:
        raise InvalidInput(f"log_to_logging: level is {level!r}; pass one of {', '.join(_LEVELS)}")
    if _begun:
        return
    reading, writing = os.pipe()
    # Both ends stay open for the life of the process: a line that nobody reads must not kill it.
    os.set_inheritable(writing, False)
    _core.set_default("TUTTI_LOG", level, "tutti.log_to_logging()")
    _core.set_default("TUTTI_LOG_FILE", f"/proc/self/fd/{writing}", "tutti.log_to_logging()")
    threading.Thread(target=_forward, args=(reading, logging.getLogger(logger)), daemon=True,
                     name="tutti log").start()
    _begun = True
