"""What `tutti plan` finds, as configurations (tutti.config): which mesh, and how a step is cut.

    tutti plan llama-8b --topology cluster.json --json found.json

    from tutti import arrangements, config
    best = arrangements.of_plan(open("found.json").read())[0]
    print(config.to_text(best))                  # to review, and to keep beside the job
    mesh = best.mesh()
"""

import json

import tutti
from tutti import config
from tutti.errors import InvalidInput

__all__ = ["Arrangement", "Axis", "of_plan", "of_sizes"]


@config.node
class Axis:
    """An axis of a mesh: `name` is "tp", "cp", "ep", "pp" or "dp", with the level behind a dot where the axis
    lies on several levels of the cluster ("dp.rack")."""

    name: str
    ranks: int


@config.node
class Arrangement:
    """How a job lies on its ranks and how it cuts a step, as docs/planning.md has it.

    axes                the mesh, the fastest axis first
    micro_batch         sequences of a micro-batch
    micro_batches       of a replica in a step
    chunks              of each pipeline rank; more than 1: the pipeline is interleaved
    zero                0 to 3: what data parallel ranks divide of optimizer, gradients and weights
    recomputed          activations are computed again in the backward pass
    sequence_parallel   what tensor parallelism leaves whole is divided by tokens

    >>> from tutti import arrangements
    >>> arrangements.of_sizes(tp=2, dp=4).mesh()
    Mesh(tp=2, dp=4)
    """

    axes: tuple[Axis, ...]
    micro_batch: int = 1
    micro_batches: int = 1
    chunks: int = 1
    zero: int = 0
    recomputed: bool = False
    sequence_parallel: bool = False

    def mesh(self):
        """The tutti.Mesh of these axes."""
        unset = config.missing(self)
        if unset:
            raise InvalidInput(f"not set: {', '.join(unset)}")
        return tutti.Mesh(**{axis.name: axis.ranks for axis in self.axes})

    def degree(self, name):
        """The ranks of all axes of this name, whatever their levels: degree("dp") counts "dp.rack", too."""
        product = 1
        for axis in self.axes:
            product *= axis.ranks if axis.name.split(".")[0] == name else 1
        return product


def of_sizes(**sizes):
    """The arrangement of a mesh with these axes, the fastest first: of_sizes(tp=2, dp=4)."""
    return Arrangement(axes=tuple(Axis(name=name, ranks=ranks) for name, ranks in sizes.items()))


def of_plan(text):
    """The arrangements that `tutti plan --json FILE` has written, the best first.

    >>> from tutti import arrangements
    >>> found = arrangements.of_plan('''{"ranking": [{"mesh": "tp=2,dp=4", "micro_batch": 1, "micro_batches": 8,
    ...     "chunks": 1, "zero": 1, "recomputed": false, "sequence_parallel": true}]}''')
    >>> found[0].axes[1], found[0].zero
    (Axis(name='dp', ranks=4), 1)
    """
    fields = ("micro_batch", "micro_batches", "chunks", "zero", "recomputed", "sequence_parallel")
    try:
        ranking = json.loads(text)["ranking"]
        return tuple(
            config.changed(of_sizes(**{name: int(ranks) for name, ranks in
                                       (axis.split("=") for axis in one["mesh"].split(","))}),
                           {field: one[field] for field in fields})
            for one in ranking)
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"this is not what `tutti plan --json FILE` writes: {error!r}") from None
