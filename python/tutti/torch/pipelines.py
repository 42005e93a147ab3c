"""Tutti's pipeline timelines as schedules of torch.distributed.pipelining."""

import torch

from tutti.errors import InvalidInput


def _runtime():
    """The classes that run any order of work, which are private by name."""
    try:
        from torch.distributed.pipelining.schedules import (
            _Action, _ComputationType, _PipelineScheduleRuntime)
    except ImportError as error:
        raise InvalidInput(f"schedule: PyTorch {torch.__version__} has no pipeline runtime that takes orders "
                           "of others; 2.15 has") from error
    return _Action, _ComputationType, _PipelineScheduleRuntime


def _micro_batches(plan, stages):
    if plan.items < 1 or plan.items % (2 * stages):
        raise InvalidInput(f"schedule: the plan has {plan.items} items, and {stages} stages need a forward "
                           "and a backward pass of each micro-batch in each of them")
    return plan.items // (2 * stages)


def actions(plan, stages):
    """The work of each rank in order, as PyTorch's actions: {rank: [action, ...]}.

    Items of the plan are (micro_batch * stages + stage) * 2 + (1 for a backward pass), as tutti.pipeline()
    numbers them; a Timeline of your own may do them on any rank and in any order that can run.

    >>> import tutti, tutti.torch as tt
    >>> tt.pipelines.actions(tutti.pipeline(ranks=2, micro_batches=2), stages=2)[1]
    [1F0, 1B0, 1F1, 1B1]
    """
    action, kinds, _ = _runtime()
    _micro_batches(plan, stages)
    found = plan.check()
    if found:
        raise InvalidInput(f"schedule: the plan cannot run: {found[0].sentence}")
    backward = kinds.FULL_BACKWARD
    return {rank: [action(item // 2 % stages, backward if item % 2 else kinds.FORWARD,
                          item // 2 // stages) for item in items]
            for rank, items in enumerate(plan.items_by_rank())}


def schedule(stages, plan, *, loss_fn=None, **more):
    """A schedule of torch.distributed.pipelining that works in the order of `plan`, a tutti.Timeline.

    `stages` are this rank's PipelineStage objects, or one; the plan says how many micro-batches there are.
    Further keywords are those of PyTorch's schedules (scale_grads, args_chunk_spec ...). Neighbouring
    stages lie on the ranks that the plan names, and tensors travel by the backend of the stages' group.
    Returns the schedule: call step() on all ranks.
    """
    stages = list(stages) if isinstance(stages, (list, tuple)) else [stages]
    count = stages[0].num_stages
    order = actions(plan, count)
    if len(order) != stages[0].group_size:
        raise InvalidInput(f"schedule: the plan has {len(order)} ranks, and the stages' group has "
                           f"{stages[0].group_size}")
    mine = sorted({action.stage_index for action in order[stages[0].group_rank]})
    if mine != sorted(stage.stage_index for stage in stages):
        raise InvalidInput(f"schedule: the plan gives stages {mine} to rank {stages[0].group_rank}; pass "
                           "their PipelineStage objects")
    made = _runtime()[2](stages, _micro_batches(plan, count), loss_fn=loss_fn, **more)
    made._prepare_schedule_with_comms(order)
    return made


def write_csv(plan, stages, path):
    """Writes the order as the file that torchtitan takes: pipeline_parallel_schedule_csv."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        for _, line in sorted(actions(plan, stages).items()):
            file.write(",".join(str(action) for action in line) + "\n")
