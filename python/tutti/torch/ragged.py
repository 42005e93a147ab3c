"""Fully sharded data parallelism with ragged shards (veScale-FSDP): tensors are cut only at multiples of
their blocks, lie behind one another in a bucket of equal shares, and are never padded one by one."""

import functools
import threading
import weakref

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook

import tutti
from tutti.errors import InvalidInput
from tutti.torch._groups import communicator
from tutti.torch._handles import find, named, type_name


# ---- the op --------------------------------------------------------------------------------------

@torch.library.custom_op("tutti::ragged_gather", mutates_args=())
def _gather(shards: list[torch.Tensor], unit: str) -> torch.Tensor:
    """The whole bucket. Shards are slices of the unit's share, which is what is sent."""
    return find(unit).gather()


@_gather.register_fake
def _(shards, unit):
    found = find(unit)
    return found.share.new_empty(found.plan.share * found.plan.ranks)


@torch.library.custom_op("tutti::ragged_scatter", mutates_args=())
def _scatter(gradient: torch.Tensor, unit: str) -> torch.Tensor:
    return find(unit).scatter(gradient)


@_scatter.register_fake
def _(gradient, unit):
    return gradient.new_empty(find(unit).plan.share)


def _remember(ctx, inputs, output):
    _, ctx.unit = inputs
    ctx.kept = find(ctx.unit)


def _backward(ctx, gradient):
    share = _scatter(gradient, ctx.unit)
    return [share[begin:end].view_as(shard) for shard, (begin, end) in
            zip(ctx.kept.shards, ctx.kept.places)], None


_gather.register_autograd(_backward, setup_context=_remember)


# ---- gathers ahead --------------------------------------------------------------------------------

class _Ahead:
    """Gathers of a step begin one early, behind what is computed, in the order of the step before.

    What comes first in a pass begins when it is asked for, since parameters may change until then; so does a
    unit that follows itself. Where a step goes another way (an evaluation, say), what was begun is waited for
    and dropped, and the order is learnt anew; ranks run one program, so they do that together.
    """

    MOST = 1 << 14  # gathers of a step whose order is learnt

    def __init__(self, comm):
        self._comm = comm.split(0, comm.rank)  # sums of gradients do not wait behind gathers
        self.parameters = set()  # their ids: units keep this object, and the parameters
        self._order, self._seen = [], []
        self._open = {}  # units that owe gradients, and how many times
        self._begun = None  # (unit, buffer, request)
        self.early = 0  # gathers that had begun before they were asked for

    def _begin(self, unit):
        whole = unit.share.new_empty(unit.plan.share * unit.plan.ranks)
        request = self._comm.all_gather(unit.share, whole, wait=False) if whole.numel() else None
        return unit, whole, request

    def stepped(self):
        """An optimizer has changed parameters: gradients that never came are not waited for."""
        if self._begun is not None:
            self._drop(self._begun)
            self._begun = None
        self._open.clear()
        self._seen = []

    def expect(self, unit):
        """The unit runs forward, and gradients will come back."""
        self._open[unit] = self._open.get(unit, 0) + 1

    def take(self, unit):
        """The whole bucket of a unit."""
        begun, self._begun = self._begun, None
        if begun is not None and begun[0] is not unit:
            self._drop(begun)
            begun = None
        self.early += begun is not None
        _, whole, request = begun or self._begin(unit)
        if request is not None:
            request.wait()
        self._seen.append(unit)
        place = len(self._seen)
        if self._order[:place] == self._seen and place < len(self._order) and self._order[place] is not unit:
            self._begun = self._begin(self._order[place])
        elif place > self.MOST:
            self._seen = []
        return whole

    def _drop(self, begun):
        if begun[2] is not None:
            begun[2].wait()
        self._order, self._seen = [], []

    def scattered(self, unit):
        """Gradients of a unit have been sent. Behind the last ones parameters may change."""
        left = self._open.get(unit, 0) - 1
        if left > 0:
            self._open[unit] = left
            return
        self._open.pop(unit, None)
        if self._open:
            return
        if self._begun is not None:
            self._drop(self._begun)
            self._begun = None
        else:
            self._order = self._seen
        self._seen = []


_aheads, _aheads_lock = weakref.WeakSet(), threading.Lock()


def _after_step(optimizer, arguments, named):
    parameters = {id(p) for group in optimizer.param_groups for p in group["params"]}
    with _aheads_lock:  # ranks may be threads
        found = [ahead for ahead in _aheads if not parameters.isdisjoint(ahead.parameters)]
    for ahead in found:
        ahead.stepped()


@functools.cache
def _hear_optimizers():
    """Once a process: every optimizer says that it has stepped."""
    register_optimizer_step_post_hook(_after_step)


# ---- a unit --------------------------------------------------------------------------------------

def rows(parameter):
    """The block of a parameter that is cut between rows of its first dimension."""
    return parameter[0].numel() if parameter.dim() > 1 and parameter.numel() else 1


class _Tensor:
    """A parameter of a unit, and this rank's part of it."""

    def __init__(self, owner, name, path, parameter, block):
        self.owner, self.name, self.path, self.block = owner, name, path, block
        self.shape, self.elements = parameter.shape, parameter.numel()
        self.row = parameter[0].numel() if parameter.dim() > 1 and parameter.numel() else 1
        self.by_rows = parameter.dim() > 0 and block % self.row == 0
        self.begin = self.length = 0  # in the tensor, flat

    def described(self, tensor):
        """A tensor of this rank's part, with the attributes by which PyTorch's distributed checkpoint
        knows the whole: rows of the true shape, where cuts lie between rows, else one flat run."""
        some = self.length > 0
        if not self.shape and some:  # a single number
            local = tensor.detach().view(())
            local.global_shape = ()
            local.global_offsets = local.local_offsets = local.local_sizes = ((),)
            return local
        unit = self.row if self.by_rows else 1
        rest = tuple(self.shape[1:]) if self.by_rows else ()
        local = tensor.detach().view(-1, *rest) if rest else tensor.detach().view(-1)
        local.global_shape = (self.elements // unit, *rest) if self.shape else ()
        zeros = (0,) * len(rest)
        local.global_offsets = ((self.begin // unit, *zeros),) if some else ()
        local.local_offsets = ((0, *zeros),) if some else ()
        local.local_sizes = ((self.length // unit, *rest),) if some else ()
        return local


class _Saved:
    """A view of the whole bucket that a backward pass will ask for."""

    def __init__(self, view):
        self.size, self.stride, self.offset = view.size(), view.stride(), view.storage_offset()
        self.dtype = view.dtype


class _Unit:
    """The parameters of one module, gathered before it runs and given up behind it."""

    def __init__(self, module, tensors, values, comm, options):
        self.comm, self.tensors, self.options = comm, tensors, options
        self.ahead = options["ahead"]
        self.plan = tutti.plan_bucket([tutti.BucketTensor(elements=t.elements, block=t.block)
                                       for t in tensors], comm.ranks)
        dtypes = {value.dtype for value in values}
        if len(dtypes) != 1:
            raise InvalidInput(f"ragged_fsdp: a unit has parameters of the types {sorted(map(str, dtypes))}; "
                               "make units of one type each")
        type_name(values[0], "ragged_fsdp")
        self.share = torch.zeros(self.plan.share, dtype=values[0].dtype)
        self._whole = self._again = None
        self._packing = None
        self.gathers = self.scatters = 0
        self.name = named(self)
        self._cut(values)
        module.register_forward_pre_hook(self._before)
        module.register_forward_hook(self._behind, always_call=True)

    def _cut(self, values):
        """Rank 0's values go to the shares, and parameters become their slices."""
        first = self.comm.rank * self.plan.share
        self.places, self.shards = [], []
        for tensor, value, offset in zip(self.tensors, values, self.plan.offsets):
            whole = value.detach().clone(memory_format=torch.contiguous_format).reshape(-1)
            if tensor.elements:
                self.comm.broadcast(whole)
            begin = min(max(first, offset), offset + tensor.elements)
            end = max(min(first + self.plan.share, offset + tensor.elements), begin)
            tensor.begin, tensor.length = begin - offset, end - begin
            place = (begin - first, end - first) if tensor.length else (0, 0)
            own = self.share[place[0]:place[1]]
            own.copy_(whole[tensor.begin:tensor.begin + tensor.length])
            shape = (-1, *tensor.shape[1:]) if tensor.by_rows and tensor.length else (-1,)
            shard = nn.Parameter(own.view(shape), requires_grad=value.requires_grad)
            tensor.owner.register_parameter(tensor.name, shard)
            self.places.append(place)
            self.shards.append(shard)
            if self.ahead is not None:
                self.ahead.parameters.add(id(shard))

    # ---- collectives ----------------------------------------------------------------------------

    def gather(self):
        self.gathers += 1
        if self.ahead is not None:
            return self.ahead.take(self)
        whole = self.share.new_empty(self.plan.share * self.plan.ranks)
        if whole.numel():
            self.comm.all_gather(self.share, whole)
        return whole

    def scatter(self, gradient):
        self.scatters += 1
        self._again = None  # all that needs the weights of this pass has run
        dtype = self.options["reduce_dtype"] or gradient.dtype
        sent = gradient.to(dtype).contiguous()
        share = sent.new_empty(self.plan.share)
        if share.numel():
            self.comm.reduce_scatter(sent, share, deterministic=self.options["deterministic"])
        if self.options["mean"]:
            share /= self.comm.ranks
        if self.ahead is not None:
            self.ahead.scattered(self)
        return share.to(gradient.dtype)

    # ---- hooks of the module --------------------------------------------------------------------

    def _before(self, module, inputs):
        if self.ahead is not None and torch.is_grad_enabled() and any(s.requires_grad for s in self.shards):
            self.ahead.expect(self)
        whole = _gather(self.shards, self.name)
        for tensor, offset in zip(self.tensors, self.plan.offsets):
            view = whole[offset:offset + tensor.elements].view(tensor.shape)
            tensor.owner.__dict__[tensor.name] = view  # found before the parameter of that name
        if self.options["reshard"] and torch.is_grad_enabled():
            self._whole = whole.untyped_storage().data_ptr()
            self._packing = torch.autograd.graph.saved_tensors_hooks(self._pack, self._unpack)
            self._packing.__enter__()

    def _behind(self, module, inputs, output):
        if self._packing is not None:
            self._packing.__exit__(None, None, None)
        self._packing = self._whole = None
        for tensor in self.tensors:
            tensor.owner.__dict__.pop(tensor.name, None)

    def _pack(self, tensor):
        if self._whole is None or tensor.untyped_storage().data_ptr() != self._whole:
            return tensor
        return _Saved(tensor.detach())

    def _unpack(self, saved):
        if not isinstance(saved, _Saved):
            return saved
        if self._again is None:
            self._again = self.gather()
        return self._again.view(saved.dtype).as_strided(saved.size, saved.stride, saved.offset)


# ---- the module's function -----------------------------------------------------------------------

_units = weakref.WeakKeyDictionary()


def _default_units(model):
    """The outermost entries of lists of layers."""
    found = []

    def visit(module):
        for child in module.children():
            if isinstance(module, (nn.ModuleList, nn.Sequential)):
                found.append(child)
            else:
                visit(child)
    visit(model)
    return found


def ragged_fsdp(model, group=None, *, units=None, block=rows, mean=True, reshard=True, prefetch=False,
                reduce_dtype=None, deterministic=False):
    """Shards a model's parameters over a group, in place, and returns it. Then train as ever: optimizers see
    this rank's slices, which are the parameters now.

    units          modules that are gathered and given up as a whole; by default the entries of the model's
                   lists of layers. What they leave is a unit of the model itself.
    block          function of a parameter: it is cut only at multiples of so many elements, say
                   lambda p: 128 * p.stride(0) for quantized blocks of 128 rows, or p.numel() for
                   optimizers that need it whole. By default a row.
    mean           gradients are means over ranks, else sums
    reshard        the whole bucket is given up after a module's forward pass, and gathered again for its
                   backward pass; False keeps it
    prefetch       the next unit of both passes is gathered while one computes, on a communicator of its own,
                   in the order of the step before; it takes the memory of one more unit
    reduce_dtype   gradients are added in this type
    deterministic  equal gradients give equal bits

    Rank 0's values count. Tensors are in host memory. Parameters that two modules share are refused.
    checkpoint_state() is for torch.distributed.checkpoint.
    """
    comm = communicator(group)
    if model in _units:
        raise InvalidInput("ragged_fsdp: this model is sharded already")
    ahead = _Ahead(comm) if prefetch else None
    if prefetch:
        _hear_optimizers()
        with _aheads_lock:
            _aheads.add(ahead)
    options = {"mean": mean, "reshard": reshard, "reduce_dtype": reduce_dtype,
               "deterministic": deterministic, "ahead": ahead}
    paths, seen, made = {id(m): path for path, m in model.named_modules()}, set(), []
    for unit in [*(_default_units(model) if units is None else units), model]:
        if id(unit) not in paths:
            raise InvalidInput("ragged_fsdp: a unit is no part of the model")
        tensors, values = [], []
        for path, owner in unit.named_modules():
            for name, value in list(owner._parameters.items()):
                if value is None or any(t.owner is owner for u in made for t in u.tensors):
                    continue
                if id(value) in seen:
                    raise InvalidInput(f"ragged_fsdp: {path}.{name} is shared with another module; give it "
                                       "one owner, which others call")
                seen.add(id(value))
                whole_path = ".".join(part for part in (paths[id(owner)], name) if part)
                tensors.append(_Tensor(owner, name, whole_path, value, block(value)))
                values.append(value)
        if tensors:
            made.append(_Unit(unit, tensors, values, comm, options))
    _units[model] = made
    return model


def units_of(model):
    """The units of a sharded model, which count `gathers` and `scatters` and have a `plan`."""
    if model not in _units:
        raise InvalidInput("this model is not sharded by ragged_fsdp()")
    return _units[model]


def _start(optimizer):
    """Gives an optimizer that has not stepped yet its state, without changing a parameter."""
    if optimizer.state:
        return
    parameters = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
    gradients, rates = [p.grad for p in parameters], [g["lr"] for g in optimizer.param_groups]
    for p in parameters:
        p.grad = torch.zeros_like(p)
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    optimizer.step()
    for p, gradient in zip(parameters, gradients):
        p.grad = gradient
    for group, rate in zip(optimizer.param_groups, rates):
        group["lr"] = rate
    for state in optimizer.state.values():
        for key, value in state.items():
            if key == "step":
                state[key] = torch.zeros_like(value) if isinstance(value, torch.Tensor) else 0


def checkpoint_state(model, optimizer=None):
    """What torch.distributed.checkpoint saves, and loads in place, on any number of ranks:

        dcp.save(tt.checkpoint_state(model, optimizer), checkpoint_id=path)
        dcp.load(tt.checkpoint_state(model, optimizer), checkpoint_id=path)

    Tensors are this rank's slices themselves, under the names that they had before sharding, as rows of
    their shapes where the block is whole rows, else flat. Of the optimizer there are tensors that have
    a parameter's size, and its other tensors.
    """
    tensors = {f"model.{t.path}": t.described(shard) for unit in units_of(model)
               for t, shard in zip(unit.tensors, unit.shards)}
    if optimizer is None:
        return tensors
    _start(optimizer)
    for unit in units_of(model):
        for tensor, shard in zip(unit.tensors, unit.shards):
            for key, value in optimizer.state.get(shard, {}).items():
                if isinstance(value, torch.Tensor):
                    tensors[f"optimizer.{tensor.path}.{key}"] = (
                        tensor.described(value) if value.shape == shard.shape else value)
    return tensors
