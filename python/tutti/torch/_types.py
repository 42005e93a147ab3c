"""Tensors as the library's calls take them."""

import torch
import torch.distributed as dist

from tutti.errors import InvalidInput

TYPES = {torch.int8: 0, torch.uint8: 1, torch.int32: 2, torch.uint32: 3, torch.int64: 4,
         torch.uint64: 5, torch.float16: 6, torch.float32: 7, torch.float64: 8, torch.bfloat16: 9,
         torch.float8_e4m3fn: 10, torch.float8_e5m2: 11, torch.int16: 12, torch.uint16: 13,
         torch.bool: 14}
# The library's numbers of reductions.
OPERATIONS = {dist.ReduceOp.SUM: 0, dist.ReduceOp.PRODUCT: 1, dist.ReduceOp.MAX: 2,
              dist.ReduceOp.MIN: 3, dist.ReduceOp.AVG: 4, dist.ReduceOp.BAND: 5,
              dist.ReduceOp.BOR: 6, dist.ReduceOp.BXOR: 7}
_OF_BITS = (dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR)
_LINEAR = {dist.ReduceOp.SUM, dist.ReduceOp.AVG}


def plain(tensor, call):
    """The tensor as contiguous memory of a known type: itself, or a copy where it is not."""
    if tensor.device.type != "cpu":
        raise InvalidInput(f"{call}: the tensor is on {tensor.device}, and this backend takes tensors "
                           "in host memory; for GPUs docs/pytorch.md says how the drop-in is used")
    if tensor.is_sparse:
        raise InvalidInput(f"{call}: sparse tensors are not taken; pass tensor.to_dense()")
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    if tensor.dtype not in TYPES:
        raise InvalidInput(f"{call}: {tensor.dtype} is no type of Tutti")
    return tensor if tensor.is_contiguous() else tensor.contiguous()


def write_back(copy, tensor):
    """What a call has written to the memory of plain() reaches the tensor."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    if copy.data_ptr() != tensor.data_ptr():
        tensor.copy_(copy)


def scaled(reduce_op, data):
    """What a rank brings to a reduction: for a scaled sum its elements times the rank's factor, as a
    copy; else the elements themselves."""
    if reduce_op != dist.ReduceOp.PREMUL_SUM:
        return data
    _, factor = reduce_op.__getstate__()
    return data * factor.to(data.dtype) if isinstance(factor, torch.Tensor) else \
        (data * factor).to(data.dtype)


class WrongType(InvalidInput, TypeError):
    """A type that has no such reduction."""


def _expect_meaning(op, dtype, call):
    if op in _OF_BITS and (dtype.is_floating_point or dtype.is_complex):
        raise WrongType(f"{call}: BAND, BOR and BXOR are for integers, and the tensor is {dtype}")
    if op == dist.ReduceOp.AVG and dtype == torch.bool:
        raise WrongType(f"{call}: AVG has no meaning for bool")


def operation(reduce_op, tensor, call):
    """The number of a reduction; complex numbers add, and do nothing else."""
    kind = getattr(reduce_op, "op", reduce_op)
    if kind == dist.ReduceOp.PREMUL_SUM:
        return OPERATIONS[dist.ReduceOp.SUM]
    for known, number in OPERATIONS.items():
        if kind == known:
            _expect_meaning(known, tensor.dtype, call)
            if tensor.is_complex() and known not in _LINEAR:
                raise InvalidInput(f"{call}: complex tensors can be summed and averaged only")
            return number
    raise InvalidInput(f"{call}: the reduction {reduce_op} is not there; use SUM, AVG, PRODUCT, MIN, "
                       "MAX, BAND, BOR or BXOR")
