"""Sums of gradients for data parallel training: DDP's communication hook, and gradients of micro-batches as
the leaves of one tree, whose bits depend on neither the number of ranks nor the schedule.
"""

import queue
import threading

import torch

import tutti
from tutti.errors import InvalidInput
from tutti.torch._groups import communicator


class _Worker:
    """A thread that runs the calls of one communicator, in order."""

    def __init__(self, comm):
        self.comm = comm
        self._work = queue.SimpleQueue()
        threading.Thread(target=self._serve, name="tutti gradients", daemon=True).start()

    def submit(self, call):
        """A future of call(communicator). What raises in a callback is an error to PyTorch's own code; an
        exception that is set would be a value to it."""
        turn = torch.futures.Future()
        done = turn.then(lambda _: call(self.comm))
        self._work.put(turn)
        return done

    def _serve(self):
        while True:
            self._work.get().set_result(None)  # runs the call, here


def ddp(model, group=None, *, deterministic=False, wire=None):
    """Gives the gradients of a DistributedDataParallel model to tutti: a bucket is summed in a thread of
    the hook, behind the rest of the backward pass, on a communicator of its own. Returns the model.

    deterministic   equal gradients give equal bits, whatever the algorithm
    wire            a type such as torch.bfloat16 in which gradients travel; they are added in float32 and
                    rounded once a hop

    Call it once, on all ranks, before the first backward pass.
    """
    if wire is not None and not wire.is_floating_point:
        raise InvalidInput(f"ddp: wire is {wire}; pass a type of floats")
    comm = communicator(group).split(0)

    def average(bucket):
        gradients = bucket.buffer()

        def call(comm):
            gradients.div_(comm.ranks)
            sent = gradients if wire is None else gradients.to(wire)
            comm.all_reduce(sent, deterministic=deterministic)
            return gradients if sent is gradients else gradients.copy_(sent)
        return call

    def hook(worker, bucket):
        return worker.submit(average(bucket))
    model.register_comm_hook(_Worker(comm), hook)
    return model


class _Tree:
    """A balanced binary tree over values that come one by one: what is complete is added at once, so
    there are as many values as the number of leaves has bits."""

    def __init__(self):
        self._parts = []  # (leaves, sum), each with more leaves than the next
        self.leaves = 0

    def add(self, value):
        self.leaves += 1
        part = (1, value)
        while self._parts and self._parts[-1][0] == part[0]:
            leaves, left = self._parts.pop()
            part = (2 * leaves, left + part[1])
        self._parts.append(part)

    def total(self):
        while len(self._parts) > 1:
            leaves, right = self._parts.pop()
            more, left = self._parts.pop()
            self._parts.append((more + leaves, left + right))
        return self._parts[0][1] if self._parts else None


class LeafGradients:
    """Gradients as sums over a tree whose leaves are micro-batches.

        leaves = tt.LeafGradients(model.parameters(), group)
        for micro_batch in ...:                # the same number on each rank, a power of two
            loss = model(micro_batch)
            loss.backward()                    # or by the schedule of a pipeline
            leaves.loss(loss)
        loss = leaves.finish()                 # p.grad is the mean over all micro-batches of all ranks

    A hook on each parameter takes its gradient when a backward pass has added it up. Ranks hold
    neighbouring micro-batches, rank 0 the first ones; sums over ranks are deterministic and continue the
    tree. So with equal micro-batches and one thread the bits are those of one process with all of them.
    A parameter that some micro-batches do not use breaks that; it is refused where counts differ.
    """

    def __init__(self, parameters, group=None):
        self.comm = communicator(group)
        self.parameters = [p for p in parameters if p.requires_grad]
        self._trees = {}
        self._losses = _Tree()
        self._hooks = [p.register_post_accumulate_grad_hook(self._take) for p in self.parameters]

    def _take(self, parameter):
        self._trees.setdefault(parameter, _Tree()).add(parameter.grad)
        parameter.grad = None

    def loss(self, value):
        """Adds a micro-batch's loss, on ranks that have one."""
        self._losses.add(value.detach().clone())

    def finish(self):
        """Sets all gradients, and returns the mean loss; None on ranks that added none. Collective."""
        trees = [self._trees.get(p, _Tree()) for p in self.parameters]
        leaves = max([tree.leaves for tree in trees] + [self._losses.leaves])
        self._expect_equal(leaves)
        if any(p.grad is not None for p in self.parameters):
            raise InvalidInput("LeafGradients: a gradient was set without a backward pass that adds it up, "
                               "as passes for weights of a zero bubble schedule do; use full ones")
        found = [(p, tree.total()) for p, tree in zip(self.parameters, trees)]
        missing = [p for p, tree in zip(self.parameters, trees) if tree.leaves not in (0, leaves)]
        if missing:
            raise InvalidInput(f"LeafGradients: {len(missing)} parameters have gradients of fewer than "
                               f"{leaves} micro-batches")
        gradients = [torch.zeros_like(p) if g is None else g.contiguous() for p, g in found]
        loss = self._losses.total()
        parts = gradients + ([] if loss is None else [loss])
        if parts:
            tutti.all_reduce_together(self.comm, parts, True)
        count = leaves * self.comm.ranks
        for parameter, gradient in zip(self.parameters, gradients):
            parameter.grad = gradient.div_(count)
        self._trees, self._losses = {}, _Tree()
        return None if loss is None else loss / count

    def _expect_equal(self, leaves):
        ends = torch.tensor([leaves, -leaves])
        self.comm.all_reduce(ends, op="max")
        if ends[0] != -ends[1]:
            raise InvalidInput(f"LeafGradients: ranks have {-ends[1].item()} to {ends[0].item()} "
                               "micro-batches; give each the same number")

    def remove(self):
        """Takes the hooks off the parameters."""
        for hook in self._hooks:
            hook.remove()
