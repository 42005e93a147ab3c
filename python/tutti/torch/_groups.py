"""Groups of torch.distributed, and the communicators of tutti that belong to them."""

import weakref

import torch
import torch.distributed as dist

from tutti import _core
from tutti._communicator import Communicator
from tutti.errors import InvalidInput

_made = weakref.WeakKeyDictionary()


def communicator(group=None):
    """The tutti.Communicator of a process group (None: the default one), made at the first call.

    The first call is collective over the group and works with every backend, which only hands the
    communicator's id round. A tutti.Communicator is returned as it is, so that whatever takes a group
    takes ranks as threads, too.

    >>> import tutti, tutti.torch as tt
    >>> tutti.run(lambda comm: tt.communicator(comm).ranks, 2)
    [2, 2]
    """
    if isinstance(group, Communicator):
        return group
    if group is None:
        if not dist.is_initialized():
            raise InvalidInput("there is no default group: call dist.init_process_group(), or pass a "
                               "process group or a tutti.Communicator")
        group = dist.group.WORLD
    found = _made.get(group)
    if found is None or not found.is_open:
        ids = [_core.unique_id() if group.rank() == 0 else None]
        dist.broadcast_object_list(ids, group=group, group_src=0)
        found = _made[group] = Communicator(group.size(), group.rank(), ids[0],
                                            name=f"of group {group.group_name}")
    return found


def device_mesh(mesh, device_type="cpu"):
    """A torch DeviceMesh with the groups of a tutti.Mesh over all ranks of the job.

    PyTorch's last dimension is the fastest and ours the first, so dimensions come in reverse.
    """
    axes = list(reversed(mesh.axes.items()))
    return torch.distributed.device_mesh.init_device_mesh(
        device_type, tuple(size for _, size in axes), mesh_dim_names=tuple(name for name, _ in axes))


def communicators(mesh, group=None):
    """A communicator for each axis of a tutti.Mesh, by name: of the ranks that agree with this one on
    all other axes. Collective over `group`, which has mesh.ranks ranks.

    >>> import tutti, tutti.torch as tt
    >>> mesh = tutti.Mesh(tp=2, dp=3)
    >>> tutti.run(lambda comm: [c.ranks for c in tt.communicators(mesh, comm).values()], 6)[5]
    [2, 3]
    """
    comm = communicator(group)
    if comm.ranks != mesh.ranks:
        raise InvalidInput(f"communicators: {mesh} has {mesh.ranks} ranks, the group {comm.ranks}")
    made = {}
    for axis in mesh.axes:
        groups = mesh.groups(axis)
        color = next(i for i, ranks in enumerate(groups) if ranks.place_of(comm.rank) >= 0)
        made[axis] = comm.split(color, groups[color].place_of(comm.rank))
    return made
