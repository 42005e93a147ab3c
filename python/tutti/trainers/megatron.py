"""Token dispatchers of Megatron-Core by tutti. One line, once the model is built:

    tutti.trainers.megatron.use(model)

Tokens go straight to their experts' ranks by one-sided writes, over the expert group, and the expert tensor
group gathers and adds them (MoE Parallel Folding). Tested with megatron-core 0.16; tensors are in host
memory.
"""

from megatron.core.transformer.moe.moe_layer import BaseMoELayer
from megatron.core.transformer.moe.token_dispatcher import MoETokenDispatcher

from tutti.errors import InvalidInput
from tutti.torch.folded import FoldedSwitch


class _Groups:
    """What a dispatcher of Megatron-Core asks of a collection of process groups."""

    def __init__(self, ep, expt_tp, tp_ep):
        self.ep, self.expt_tp, self.tp_ep = ep, expt_tp, tp_ep


def _refuse_options(config):
    if config.moe_pad_expert_input_to_capacity:
        raise InvalidInput("Megatron's moe_pad_expert_input_to_capacity pads rows to one size for CUDA graphs; "
                           "this dispatcher moves those that there are: leave the option out")
    if config.moe_router_padding_for_quantization:
        raise InvalidInput("Megatron's moe_router_padding_for_quantization is for its own permutation: leave "
                           "the option out")


class TokenDispatcher(MoETokenDispatcher):
    """In the place of Megatron-Core's dispatchers, with their arguments and their order of rows: by expert,
    expert tensor rank, expert rank and token.

    Dropped tokens, which the router leaves out of its map, may be any. `switch` is a FoldedSwitch of the
    same groups, for layers that share one; by default the dispatcher has its own.
    """

    def __init__(self, num_local_experts, local_expert_indices, config, pg_collection=None, switch=None):
        super().__init__(config=config, pg_collection=pg_collection)
        _refuse_options(config)
        self.num_local_experts = num_local_experts
        self.local_expert_indices = list(local_expert_indices)
        self.switch = switch or FoldedSwitch(self.ep_group, self.tp_group,
                                             experts=num_local_experts * self.ep_size)
        first = self.switch.switch.comm.rank * num_local_experts
        if self.local_expert_indices != list(range(first, first + num_local_experts)):
            raise InvalidInput(f"this rank has Megatron's experts {self.local_expert_indices}; {first} to "
                               f"{first + num_local_experts - 1} belong to its place in the expert group")

    def set_shared_experts(self, shared_experts):
        raise InvalidInput("moe_shared_expert_overlap puts shared experts between the steps of Megatron's own "
                           "dispatcher; leave it out, and the layer computes them beside this one")

    def dispatch_preprocess(self, hidden_states, routing_map, probs):
        """Rows of tokens and the probability of each slot; nothing is sent."""
        self.hidden_shape = hidden_states.shape
        tokens = hidden_states.reshape(-1, self.hidden_shape[-1])
        chosen = routing_map.nonzero()  # token, expert: ascending
        each = routing_map.sum(1)
        k = int(each[0]) if len(each) else 1
        self._slot_tokens, self._even = chosen[:, 0], k > 0 and bool((each == k).all())
        self._topk = chosen[:, 1].view(-1, k) if self._even else chosen[:, 1:]
        self._tokens = tokens.shape[0]
        rows = tokens if self._even else tokens.index_select(0, self._slot_tokens)
        return rows, probs[routing_map]

    def token_dispatch(self, hidden_states, probs):
        """Counts, rows and probabilities go to their experts' ranks."""
        self._counts = self.switch.count(self._topk)
        rows = self.switch.dispatch(hidden_states, self._topk, self._counts)
        sent = self.switch.dispatch_slots(probs.unsqueeze(1), self._topk, self._counts)
        return rows, sent.squeeze(1)

    def dispatch_postprocess(self, hidden_states, probs):
        """Rows, how many each of this rank's experts has, and their probabilities."""
        return hidden_states, self.switch.rows_of_experts(self._counts), probs

    def combine_preprocess(self, hidden_states):
        return hidden_states

    def token_combine(self, hidden_states, async_finish=True, allocate_on_comm_stream=True):
        """Results go home, added over the expert tensor group: a row for each slot."""
        return self.switch.combine(hidden_states, self._topk, self._counts)

    def combine_postprocess(self, hidden_states):
        """The sum of each token's slots, in the shape of the input."""
        width = self.hidden_shape[-1]
        if self._even:
            summed = hidden_states.view(self._tokens, -1, width).sum(1)
        else:
            summed = hidden_states.new_zeros((self._tokens, width)).index_add(0, self._slot_tokens,
                                                                            hidden_states)
        return summed.view(self.hidden_shape)


def use(model):
    """Gives every mixture of experts in `model` (a module, or Megatron's list of them) a TokenDispatcher of
    tutti, with the groups of the one that it has. Layers of the same groups and experts share memory for
    rows. Returns how many layers there are. Collective over the job's ranks."""
    switches, layers = {}, 0
    for part in model if isinstance(model, (list, tuple)) else [model]:
        for layer in part.modules():
            if not isinstance(layer, BaseMoELayer):
                continue
            was = layer.token_dispatcher
            key = id(was.ep_group), id(was.tp_group), layer.config.num_moe_experts
            made = TokenDispatcher(layer.num_local_experts, layer.local_expert_indices, layer.config,
                                   _Groups(was.ep_group, was.tp_group, was.tp_ep_group),
                                   switches.get(key))
            switches[key] = made.switch
            layer.token_dispatcher = made
            layers += 1
    if layers == 0:
        raise InvalidInput("use: the model has no mixture of experts of Megatron-Core")
    return layers


__all__ = ["TokenDispatcher", "use"]
