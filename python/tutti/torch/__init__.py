"""Tutti for programs that train with PyTorch: docs/python.md has the lines to paste for each part.

    import tutti.torch as tt

Every part takes a `group`: a process group of torch.distributed with whatever backend (None: the default
one), or a tutti.Communicator.
"""

from tutti.torch import backend, context, pipelines, ragged
from tutti.torch._groups import communicator, communicators, device_mesh
from tutti.torch.context import ContextAttention
from tutti.torch.experts import MixtureOfExperts, TokenSwitch
from tutti.torch.fsdp2 import fsdp2
from tutti.torch.folded import FoldedSwitch, SharedRows
from tutti.torch.gradients import LeafGradients, ddp
from tutti.torch.movers import Exchange, Sums, ragged_all_gather, ragged_reduce_scatter
from tutti.torch.pipelines import schedule
from tutti.torch.ragged import checkpoint_state, ragged_fsdp

backend.register_if_alone()

__all__ = ["ContextAttention", "Exchange", "FoldedSwitch", "LeafGradients", "MixtureOfExperts",
           "SharedRows", "Sums", "TokenSwitch",
           "backend", "checkpoint_state", "communicator", "communicators", "context", "ddp", "device_mesh", "fsdp2",
           "pipelines", "ragged", "ragged_all_gather", "ragged_fsdp", "ragged_reduce_scatter", "schedule"]
