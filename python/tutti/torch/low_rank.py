"""Low-rank layers under tensor parallelism cut at their wide sides (BOOST): what crosses the ranks is as
narrow as the bottleneck, and statistics of norms travel with it.

Activations between layers are divided along their width: rank r of p has the r-th of p equal parts of the
last dimension. All of a layer's projections share one collective, so that a block of a transformer has
four, forward, and four backward.
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.tensor.parallel import ParallelStyle
from torch.utils.checkpoint import checkpoint

from tutti.errors import InvalidInput
from tutti.torch.movers import Sums


def _part(width, sums, what):
    if width % sums.comm.ranks:
        raise InvalidInput(f"low rank: {what} is {width}, and {sums.comm.ranks} ranks divide it; make it a "
                           "multiple")
    each = width // sums.comm.ranks
    return slice(sums.comm.rank * each, (sums.comm.rank + 1) * each)


def _values(seed, rows, columns, dtype):
    """A whole matrix, the same for any number of ranks."""
    numbers = torch.Generator().manual_seed(seed)
    return torch.randn(rows, columns, generator=numbers, dtype=torch.float64).to(dtype) * rows ** -0.5


class LowRank(nn.Module):
    """Several projections x -> x A_j -> (x A_j) B_j of one input, of `inner[j]` between and `widths[j]`
    behind, optionally of RMSNorm(x).

        parts = layer.narrow(x)         # this rank's terms: [..., sum(inner)] and, with a norm, [..., 1]
        parts = sums.all_reduce(*parts) # one collective
        outputs = layer.widen(*parts)   # of each projection this rank's part of the width

    layer(x) does all three. `sums` is a tutti.torch.Sums of the tensor parallel group; with
    wire="float32" the activations and the norm's sums of squares are one collective on the wire. `norm` is
    RMSNorm's epsilon; the norm's division follows the sum, so it is exact.

    >>> import torch, tutti, tutti.torch as tt
    >>> x = torch.randn(3, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    >>> def main(comm):
    ...     layer = tt.LowRank(8, [2, 2], [8, 4], tt.Sums(comm), norm=1e-6, dtype=torch.float64)
    ...     return torch.cat(layer(x.chunk(comm.ranks, 1)[comm.rank]), 1).sum().item()
    >>> one, two = tutti.run(main, ranks=1), tutti.run(main, ranks=2)
    >>> abs(sum(two) - sum(one)) < 1e-12
    True
    """

    def __init__(self, width, inner, widths, sums, *, norm=None, seed=0, dtype=torch.float32):
        super().__init__()
        if len(inner) != len(widths) or not inner or min(inner) < 1:
            raise InvalidInput(f"LowRank: {len(inner)} inner widths and {len(widths)} outer ones")
        if any(r > min(width, out) for r, out in zip(inner, widths)):
            raise InvalidInput(f"LowRank: the inner widths {list(inner)} are wider than the layers, {width} and "
                               f"{list(widths)}")
        if norm is not None and not norm > 0:
            raise InvalidInput(f"LowRank: norm is {norm}; it is the epsilon of RMSNorm, above 0")
        self.width, self.inner, self.sums, self.norm = width, list(inner), sums, norm
        own = _part(width, sums, "the width")
        self.down = nn.Parameter(torch.cat([_values(seed * 1000 + j, width, r, dtype)[own]
                                            for j, r in enumerate(inner)], 1))
        self.up = nn.ParameterList(
            _values(seed * 1000 + 500 + j, r, out, dtype)[:, _part(out, sums, "an output")].contiguous()
            for j, (r, out) in enumerate(zip(inner, widths)))
        self.gain = None if norm is None else nn.Parameter(torch.ones(own.stop - own.start, dtype=dtype))

    def narrow(self, x):
        if self.norm is None:
            return (x @ self.down,)
        wide = x if x.dtype == torch.float64 else x.float()
        return (x * self.gain) @ self.down, (wide * wide).sum(-1, keepdim=True)

    def widen(self, z, squares=None):
        if squares is not None:
            z = z * torch.rsqrt(squares / self.width + self.norm).to(z.dtype)
        return [part @ up for part, up in zip(z.split(self.inner, -1), self.up)]

    def reduce(self, parts):
        """The sums over ranks of what narrow() gave: always a tuple."""
        summed = self.sums.all_reduce(*parts)
        return (summed,) if len(parts) == 1 else tuple(summed)

    def forward(self, x):
        return self.widen(*self.reduce(self.narrow(x)))


class LowRankBlock(nn.Module):
    """A block of a transformer of low-rank layers: causal attention and a gated network, each behind an
    RMSNorm. y = block(x) for this rank's part of the width: [batch, tokens, width / ranks]. The heads are
    divided over the ranks, and so is `hidden`.

    recompute: only what is as narrow as `inner`, and the input, stays for the backward pass; the rest is
    computed again, without communication.

    >>> import torch, tutti, tutti.torch as tt
    >>> def main(comm):
    ...     sums = tt.Sums(comm, wire="float32")
    ...     block = tt.LowRankBlock(16, hidden=32, heads=4, inner=4, sums=sums)
    ...     y = block(torch.ones(1, 3, 8))
    ...     forward = sums.calls
    ...     y.sum().backward()
    ...     return tuple(y.shape), forward, sums.calls
    >>> tutti.run(main, ranks=2)[0]
    ((1, 3, 8), 4, 8)
    """

    def __init__(self, width, hidden, heads, inner, sums, *, norm=1e-6, recompute=False, seed=0,
                 dtype=torch.float32):
        super().__init__()
        if width % heads:
            raise InvalidInput(f"LowRankBlock: {heads} heads do not divide the width {width}")
        own = _part(heads, sums, "the number of heads")
        self.heads, self.recompute = own.stop - own.start, recompute
        more = {"dtype": dtype}
        self.enter = LowRank(width, [inner] * 3, [width] * 3, sums, norm=norm, seed=4 * seed, **more)
        self.leave = LowRank(width, [inner], [width], sums, seed=4 * seed + 1, **more)
        self.gates = LowRank(width, [inner] * 2, [hidden] * 2, sums, norm=norm, seed=4 * seed + 2, **more)
        self.shrink = LowRank(hidden, [inner], [width], sums, seed=4 * seed + 3, **more)

    def _run(self, work, *inputs):
        return checkpoint(work, *inputs, use_reentrant=False) if self.recompute else work(*inputs)

    def _attend(self, *parts):
        q, k, v = (x.unflatten(-1, (self.heads, -1)).transpose(1, 2) for x in self.enter.widen(*parts))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.leave.narrow(y.transpose(1, 2).flatten(2))

    def _add_attention(self, x, *parts):
        x = x + self.leave.widen(*parts)[0]
        return (x, *self.gates.narrow(x))

    def _gate(self, *parts):
        gate, up = self.gates.widen(*parts)
        return self.shrink.narrow(F.silu(gate) * up)

    def forward(self, x):
        parts = self.enter.reduce(self._run(self.enter.narrow, x))
        parts = self.leave.reduce(self._run(self._attend, *parts))
        x, *parts = self._run(self._add_attention, x, *parts)
        parts = self.shrink.reduce(self._run(self._gate, *self.gates.reduce(parts)))
        return x + self.shrink.widen(*parts)[0]


class Bottleneck(ParallelStyle):
    """A style of parallelize_module() for two Linear layers without bias in an nn.Sequential, the first of
    which is narrow: it divides both at their wide sides and adds what is between over the mesh.

        parallelize_module(model, mesh["tp"], {"layers.*.out": tt.Bottleneck()})

    The module then takes and gives this rank's part of the last dimension. All ranks have equal values of
    the weights before. `sums`: a Sums of the mesh's group, for modules that share one.
    """

    def __init__(self, sums=None):
        super().__init__()
        self.sums = sums

    def _apply(self, module, device_mesh):
        layers = list(module.children())
        if len(layers) != 2 or any(not isinstance(x, nn.Linear) or x.bias is not None for x in layers):
            raise InvalidInput(f"Bottleneck: {type(module).__name__} is not two Linear layers without bias")
        down, up = layers
        sums = self.sums = self.sums or Sums(device_mesh.get_group())
        with torch.no_grad():
            own = _part(down.in_features, sums, "the width")
            down.weight = nn.Parameter(down.weight[:, own].clone(), down.weight.requires_grad)
            own = _part(up.out_features, sums, "the output")
            up.weight = nn.Parameter(up.weight[own].clone(), up.weight.requires_grad)
        down.register_forward_hook(lambda layer, inputs, output: sums.all_reduce(output))
        return module
