"""Tutti for programs that train with PyTorch: docs/python.md has the lines to paste for each part.

    import tutti.torch as tt

Every part takes a `group`: a process group of torch.distributed with whatever backend (None: the default
one), or a tutti.Communicator.
"""

from tutti.torch import backend, context, pipelines, ragged
from tutti.torch._groups import communicator, communicators, device_mesh
from tutti.torch.activations import measure_blocks, place_activations
from tutti.torch.context import ContextAttention
from tutti.torch.experts import TokenSwitch
from tutti.torch.flexible import SequenceGroups
from tutti.torch.folded import FoldedSwitch
from tutti.torch.fsdp2 import fsdp2
from tutti.torch.gradients import LeafGradients, ddp
from tutti.torch.helpers import OverlappedSwitch
from tutti.torch.low_rank import Bottleneck, LowRank, LowRankBlock
from tutti.torch.mixture import MixtureOfExperts
from tutti.torch.movers import Exchange, Sums, ragged_all_gather, ragged_reduce_scatter
from tutti.torch.pipelines import schedule
from tutti.torch.ragged import checkpoint_state, ragged_fsdp
from tutti.torch.rows import SharedRows, TradedRows
from tutti.torch.servers import AttentionServers

backend.register_if_alone()

__all__ = ["AttentionServers", "Bottleneck", "ContextAttention", "Exchange", "FoldedSwitch", "LeafGradients",
           "LowRank", "LowRankBlock", "MixtureOfExperts", "OverlappedSwitch", "SequenceGroups", "SharedRows",
           "Sums", "TokenSwitch", "TradedRows", "backend", "checkpoint_state", "communicator", "communicators", "context", "ddp",
           "device_mesh", "fsdp2", "measure_blocks", "pipelines", "place_activations", "ragged",
           "ragged_all_gather", "ragged_fsdp", "ragged_reduce_scatter", "schedule"]
