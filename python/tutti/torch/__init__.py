"""Tutti for programs that train with PyTorch: docs/python.md has the lines to paste for each part.

    import tutti.torch as tt

Every part takes a `group`: a process group of torch.distributed with whatever backend (None: the default
one), or a tutti.Communicator.
"""

from tutti.torch._groups import communicator, communicators, device_mesh
from tutti.torch.experts import MixtureOfExperts, TokenSwitch
from tutti.torch.movers import Exchange, Sums, ragged_all_gather, ragged_reduce_scatter

__all__ = ["Exchange", "MixtureOfExperts", "Sums", "TokenSwitch", "communicator", "communicators", "device_mesh", "ragged_all_gather",
           "ragged_reduce_scatter"]
