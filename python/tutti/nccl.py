"""Gives a program Tutti in the place of NCCL, without a launcher's help:

    import tutti.nccl      # before torch
    import torch

The library is loaded under NCCL's name, so what is loaded afterwards and needs libnccl.so.2 gets
this one. It does nothing else, and nothing of tutti loads it unasked. docs/drop_in.md says what it
does in NCCL's place.
"""

import ctypes
import sys

from tutti import _places
from tutti.errors import Error, InvalidInput


def _loaded_elsewhere():
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return {line.split(maxsplit=5)[5].strip() for line in maps
                if "libnccl.so" in line and len(line.split(maxsplit=5)) == 6}


def _load():
    path = _places.nccl()
    if path is None:
        raise Error("libnccl.so.2 of Tutti is not part of this installation; in a build folder run "
                    "cmake --build build --target tutti_nccl")
    others = _loaded_elsewhere() - {path}
    if others:
        raise InvalidInput(f"{sorted(others)[0]} is loaded already, so this process keeps it: import "
                           "tutti.nccl before torch, or start the program by `tutti run`")
    if "torch" in sys.modules and path not in _loaded_elsewhere():
        raise InvalidInput("torch is imported already, and has its NCCL: import tutti.nccl before "
                           "torch, or start the program by `tutti run`")
    return ctypes.CDLL(path)


library = _load()
