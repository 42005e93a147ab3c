"""A token dispatcher of torchtitan by tutti. Nothing changes in the trainer's code:

    torchtitan ... --override.imports tutti.trainers.titan.token_dispatcher

Tokens go straight to their experts' ranks by one-sided writes. Tested with torchtitan 0.3; tensors are in
host memory, and the checker of SPMD types does not know this dispatcher: leave it off.
"""

from dataclasses import dataclass

from torch.distributed.tensor import DeviceMesh
from torchtitan.config import override
from torchtitan.models.common.token_dispatcher import (AllToAllTokenDispatcher, BaseEPTokenDispatcher,
                                                       LocalTokenDispatcher)

from tutti.torch.experts import TokenSwitch


@dataclass(frozen=True)
class _Dispatched:
    """What combine() needs of its dispatch()."""

    topk: object
    counts: object
    scores: object


class TokenDispatcher(BaseEPTokenDispatcher):
    """In the place of AllToAllTokenDispatcher, with its shapes and its order of rows: by expert, rank and
    token. `capacity` is of rows on a rank; without it there is always room for all."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseEPTokenDispatcher.Config):
        capacity: int | None = None

    def __init__(self, config):
        super().__init__(config)
        self.capacity = config.capacity
        self.switch = None

    def wire_meshes(self, *, ep_mesh: DeviceMesh | None):
        self.switch = None if ep_mesh is None else TokenSwitch(
            ep_mesh.get_group(), experts=self.num_experts, capacity=self.capacity)
        super().wire_meshes(ep_mesh=ep_mesh)

    def dispatch(self, x_TD, topk_scores_TK, topk_expert_ids_TK, num_local_tokens_per_expert_E):
        """Rows of this rank's experts, how many each has, and what combine() takes. The counts that come
        in are those of the ids, which are counted and exchanged here."""
        if self.switch is None:  # experts are not divided
            return LocalTokenDispatcher.dispatch(self, x_TD, topk_scores_TK, topk_expert_ids_TK,
                                                 num_local_tokens_per_expert_E)
        counts = self.switch.count(topk_expert_ids_TK)
        rows = self.switch.dispatch(x_TD, topk_expert_ids_TK, counts)
        first = self.switch.comm.rank * self.switch.each
        return (rows, counts[:, first:first + self.switch.each].sum(0),
                _Dispatched(topk_expert_ids_TK, counts, topk_scores_TK))

    def combine(self, routed_output_RD, metadata, x_TD):
        """The sums of results times scores, in float32, of each of this rank's tokens."""
        if self.switch is None:
            return LocalTokenDispatcher.combine(self, routed_output_RD, metadata, x_TD)
        slots = self.switch.combine(routed_output_RD, metadata.topk, metadata.counts)
        scored = slots.float() * metadata.scores.reshape(-1, 1)
        return scored.view(x_TD.shape[0], -1, x_TD.shape[-1]).sum(1).to(x_TD.dtype)


@override(target=AllToAllTokenDispatcher.Config, exact=True, description="Token dispatch by tutti.")
def token_dispatcher(config, *, capacity=None):
    """The override: every AllToAllTokenDispatcher of the model becomes a TokenDispatcher of tutti."""
    return TokenDispatcher.Config(num_experts=config.num_experts, top_k=config.top_k, capacity=capacity)


__all__ = ["TokenDispatcher", "token_dispatcher"]
