"""Plans by name: custom ops take no objects, so an op has the name of its plan as an argument.

A name belongs to one object of one process, and is a constant of a compiled graph.
"""

import contextlib
import itertools
import weakref

import torch

import tutti
from tutti.errors import InvalidInput

_objects = weakref.WeakValueDictionary()
_numbers = itertools.count()
_NAMES = {torch.int8: "int8", torch.uint8: "uint8", torch.int16: "int16", torch.int32: "int32",
          torch.int64: "int64", torch.float16: "float16", torch.bfloat16: "bfloat16",
          torch.float32: "float32", torch.float64: "float64", torch.bool: "bool",
          torch.float8_e4m3fn: "float8_e4m3fn", torch.float8_e5m2: "float8_e5m2"}


def named(thing):
    """The name by which ops find this object, for as long as somebody keeps it: its owner, or the
    graph of autograd that a call has made."""
    name = f"{type(thing).__name__} {next(_numbers)}"
    _objects[name] = thing
    return name


def find(name):
    thing = _objects.get(name)
    if thing is None:
        raise InvalidInput(f"'{name}' is gone: keep the object as long as compiled graphs that came "
                           "from it are in use")
    return thing


HOST = ("cpu",)
STREAMS = ("cpu", "cuda")  # of movers that take the stream of a tensor


def type_name(tensor, call, devices=HOST):
    """The library's name of a tensor's type; refuses types and devices that it has not."""
    if tensor.device.type not in devices:
        raise InvalidInput(f"{call}: the tensor is on {tensor.device}; it takes those on "
                           f"{' and '.join(devices)}, and docs/pytorch.md says what else serves GPUs")
    if tensor.dtype not in _NAMES:
        raise InvalidInput(f"{call}: {tensor.dtype} is no type of Tutti")
    return _NAMES[tensor.dtype]


def stream_of(tensor):
    """Within it, calls go on PyTorch's current stream of the tensor's device, if it is on one."""
    if tensor.device.type != "cuda":
        return contextlib.nullcontext()
    return tutti.on_stream(torch.cuda.current_stream(tensor.device).cuda_stream)


def bytes_view(tensor):
    """A contiguous tensor as its bytes, whatever its type: an array that shares the memory."""
    return tensor.detach().reshape(-1).view(torch.uint8).numpy()
