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


def _passes(plan, stages, micro_batches):
    """How many micro-batches there are, and how many passes each has in a stage: 2, or 3 with passes for
    gradients of weights."""
    passes = 2 if micro_batches is None else plan.items // (stages * micro_batches)
    if plan.items < 1 or passes not in (2, 3) or plan.items % (stages * passes):
        raise InvalidInput(f"schedule: the plan has {plan.items} items; {stages} stages need 2 for each "
                           "micro-batch, or 3 with passes for weights, and then say micro_batches")
    return plan.items // (stages * passes), passes


def _expect_order(order):
    """Each stage lies on one rank, and each backward pass comes behind its forward pass."""
    ranks = {}
    for rank, line in order.items():
        seen = set()
        for action in line:
            if ranks.setdefault(action.stage_index, rank) != rank:
                raise InvalidInput(f"schedule: stage {action.stage_index} has work on ranks "
                                   f"{ranks[action.stage_index]} and {rank}; if the plan has passes for "
                                   "weights, say micro_batches")
            done = (action.stage_index, action.microbatch_index)
            if action.computation_type.name == "FORWARD":
                seen.add(done)
            elif done not in seen:
                raise InvalidInput(f"schedule: {action} comes before its forward pass on rank {rank}")


def actions(plan, stages, *, micro_batches=None):
    """The work of each rank in order, as PyTorch's actions: {rank: [action, ...]}.

    Items of the plan are (micro_batch * stages + stage) * 2 + (1 for a backward pass), as tutti.pipeline()
    numbers them; a Timeline of your own may do them on any rank and in any order that can run. With passes
    for gradients of weights, whose items are behind all others, say how many micro_batches there are.

    >>> import tutti, tutti.torch as tt
    >>> tt.pipelines.actions(tutti.pipeline(ranks=2, micro_batches=2), stages=2)[1]
    [1F0, 1B0, 1F1, 1B1]
    >>> plan = tutti.pipeline(ranks=2, micro_batches=2, weights=1000000)
    >>> tt.pipelines.actions(plan, stages=2, micro_batches=2)[1]
    [1F0, 1I0, 1F1, 1I1, 1W0, 1W1]
    """
    action, kinds, _ = _runtime()
    count, passes = _passes(plan, stages, micro_batches)
    found = plan.check()
    if found:
        raise InvalidInput(f"schedule: the plan cannot run: {found[0].sentence}")
    backward = kinds.FULL_BACKWARD if passes == 2 else kinds.BACKWARD_INPUT

    def of(item):
        if item >= 2 * count * stages:
            item -= 2 * count * stages
            return action(item % stages, kinds.BACKWARD_WEIGHT, item // stages)
        return action(item // 2 % stages, backward if item % 2 else kinds.FORWARD, item // 2 // stages)
    order = {rank: [of(item) for item in items] for rank, items in enumerate(plan.items_by_rank())}
    _expect_order(order)
    return order


def schedule(stages, plan, *, loss_fn=None, micro_batches=None, **more):
    """A schedule of torch.distributed.pipelining that works in the order of `plan`, a tutti.Timeline.

    `stages` are this rank's PipelineStage objects, or one; the plan says how many micro-batches there are,
    unless it has passes for weights (zero bubble): then say it by `micro_batches`. Further keywords are those of PyTorch's schedules (scale_grads, args_chunk_spec ...). Neighbouring
    stages lie on the ranks that the plan names, and tensors travel by the backend of the stages' group.
    Returns the schedule: call step() on all ranks.
    """
    stages = list(stages) if isinstance(stages, (list, tuple)) else [stages]
    count = stages[0].num_stages
    if plan.items and plan.ranks != stages[0].group_size:
        raise InvalidInput(f"schedule: the plan has {plan.ranks} ranks, and the stages' group has "
                           f"{stages[0].group_size}")
    order = actions(plan, count, micro_batches=micro_batches)
    mine = sorted({action.stage_index for action in order[stages[0].group_rank]})
    if mine != sorted(stage.stage_index for stage in stages):
        raise InvalidInput(f"schedule: the plan gives stages {mine} to rank {stages[0].group_rank}; pass "
                           "their PipelineStage objects")
    made = _runtime()[2](stages, _passes(plan, count, micro_batches)[0], loss_fn=loss_fn, **more)
    made._prepare_schedule_with_comms(order)
    return made


def write_csv(plan, stages, path, *, micro_batches=None):
    """Writes the order as the file that torchtitan takes: pipeline_parallel_schedule_csv."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        for _, line in sorted(actions(plan, stages, micro_batches=micro_batches).items()):
            file.write(",".join(str(action) for action in line) + "\n")
