"""Tutti as a backend of torch.distributed.

    import torch.distributed as dist
    import tutti_torch                      # needless with torch 2.14 and later
    dist.init_process_group("tutti")

docs/pytorch.md says what differs from gloo and nccl.
"""

import datetime

import torch
import torch.distributed as dist

__all__ = ["explain", "last_edit", "register", "trace_dump"]


def _minor(version):
    return ".".join(version.split("+")[0].split(".")[:2])


def _load():
    try:
        from tutti_torch import _C
    except ImportError as error:
        raise ImportError(
            "tutti_torch cannot be loaded with torch "
            f"{torch.__version__}. It belongs to the torch that it was built with: run\n"
            "  pip install --no-build-isolation --force-reinstall --no-deps ./plugins/torch\n"
            f"({error})") from error
    if _minor(_C.built_for) != _minor(torch.__version__):
        raise ImportError(
            f"tutti_torch was built for torch {_C.built_for}, and this is torch {torch.__version__}, "
            "whose classes may lie differently in memory: build it again by\n"
            "  pip install --no-build-isolation --force-reinstall --no-deps ./plugins/torch")
    return _C


_C = _load()


def _create(options, backend_options):
    """Called by torch.distributed for each group, and for each device of a group."""
    if backend_options is not None:
        raise TypeError("tutti has no options of its own: leave pg_options out, and set the timeout "
                        "by timeout=")
    timeout = options.timeout
    if not isinstance(timeout, datetime.timedelta):
        timeout = datetime.timedelta(seconds=timeout)
    return _C.create(
        options.store, options.group_rank, options.group_size, timeout,
        group_name=str(options.group_id), global_ranks=list(options.global_ranks_in_group),
        enable_reconfigure=bool(getattr(options, "enable_reconfigure", False)))


def register():
    """Makes "tutti" known to torch.distributed. Registering again changes nothing."""
    if "TUTTI" in dist.Backend._plugins:
        return
    dist.Backend.register_backend("tutti", _create, extended_api=True, devices=["cpu"])


def _backend_of(group):
    group = group if group is not None else dist.group.WORLD
    return group._get_backend(torch.device("cpu"))


def last_edit(group=None):
    """What the last reconfigure() of a group kept and changed, as this rank saw it: a dict of epoch,
    removed, joined (members), links_kept, links_made and links_closed (connections of this rank).
    All 0 where the communicator was made anew."""
    return _C.last_edit(_backend_of(group))


def explain(collective, count, dtype=torch.float32, group=None):
    """What a collective ("all_reduce") of `count` elements would run, and why, as text.

    Collective where nothing has been called on the group yet: its ranks meet.
    """
    return _C.explain(_backend_of(group), collective, count, dtype)


def trace_dump(path=""):
    """Appends the last calls of this process to a file, as text; "": to the error output."""
    _C.trace_dump(path)


register()
