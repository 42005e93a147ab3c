#!/usr/bin/env python3
"""The adapters of tutti.trainers beside the trainers' own dispatchers: every abstract method, on CPU tensors,
values and gradients. Where a trainer cannot be imported, its tests say why and are skipped."""

import contextlib
import importlib
import inspect
import sys
import types
import unittest
import warnings
from unittest import mock

import place

place.find("torch")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch_ranks  # noqa: E402

import tutti  # noqa: E402
import tutti.torch as tt  # noqa: E402

TOKENS, WIDTH, EXPERTS = 10, 8, 4


def trainer(name):
    """An adapter and None, or None and why it cannot be imported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return importlib.import_module(f"tutti.trainers.{name}"), None
        except Exception as error:  # noqa: BLE001  (trainers raise whatever their parts raise)
            return None, f"{type(error).__name__}: {error}"


MEGATRON, NO_MEGATRON = trainer("megatron")
TITAN, NO_TITAN = trainer("titan")
if MEGATRON is None and TITAN is None:
    print(f"skipped: megatron-core cannot be imported ({NO_MEGATRON}), and torchtitan neither ({NO_TITAN})")
    sys.exit(place.SKIPPED)


def groups_of(rank, mesh):
    """By axis the process group of this rank; new_group() is called for all. Their backend is tutti's, as
    gloo gathers no lists of different sizes, which Megatron's own dispatcher asks of an expert tensor group."""
    mine = {}
    for axis in mesh.axes:
        for ranks in mesh.groups(axis):
            made = dist.new_group(list(ranks), backend="tutti")
            if ranks.place_of(rank) >= 0:
                mine[axis] = made
    return mine


def abstract(base):
    return sorted(name for name, value in inspect.getmembers(base)
                  if getattr(value, "__isabstractmethod__", False))


def routed(rank, k, drop, dtype):
    """Tokens, map and probabilities of a rank, as a router makes them."""
    numbers = torch.Generator().manual_seed(rank)
    scores = torch.rand(TOKENS, EXPERTS, generator=numbers)
    chosen = torch.zeros(TOKENS, EXPERTS, dtype=torch.bool).scatter(1, scores.topk(k).indices, True)
    if drop:
        chosen[3] = False  # a token without any expert
        chosen[5, chosen[5].nonzero()[0]] = False
    x = torch.randn(TOKENS, 1, WIDTH, generator=numbers).to(dtype)
    return x, chosen, (scores * chosen)


# ---- Megatron-Core -------------------------------------------------------------------------------

def moved(tensor, as_numpy=False, record_stream=False):
    """What Megatron does with a tensor on a GPU."""
    return tensor.numpy() if as_numpy and torch.is_tensor(tensor) else tensor


@contextlib.contextmanager
def without_cuda():
    """Megatron's own dispatcher works on the current device of CUDA and a stream; here there is none."""
    stream = mock.MagicMock()
    with mock.patch("torch.cuda.Stream", lambda *args, **more: stream), \
            mock.patch("torch.cuda.current_stream", lambda *args: stream), \
            mock.patch("torch.cuda.stream", lambda stream: contextlib.nullcontext()), \
            mock.patch("torch.cuda.current_device", lambda: torch.device("cpu")), \
            mock.patch("megatron.core.transformer.moe.token_dispatcher.maybe_move_tensor_to_cpu", moved):
        yield


def one_pass(dispatcher, rank, k, drop, dtype, part):
    """All methods in the order of Megatron's layer; expert e multiplies by e + 1, and by its part."""
    x, chosen, probs = routed(rank, k, drop, dtype)
    x.requires_grad_(), probs.requires_grad_()
    rows, sent = dispatcher.dispatch_preprocess(x, chosen, probs)
    rows, sent = dispatcher.token_dispatch(rows, sent)
    rows, per_expert, sent = dispatcher.dispatch_postprocess(rows, sent)
    factors = torch.tensor([e + 1.0 for e in dispatcher.local_expert_indices])
    every = factors.repeat_interleave(per_expert).unsqueeze(1) * sent.unsqueeze(1) * part
    results = (rows * every).to(dtype)
    y = dispatcher.combine_preprocess(results)
    y = dispatcher.combine_postprocess(dispatcher.token_combine(y))
    (y.float() * torch.arange(y.numel()).view(y.shape)).sum().backward()
    return [t.detach() for t in (rows.float(), sent, per_expert, y.float(), x.grad.float(), probs.grad)]


def megatron(rank, etp, ep, k, drop, dtype, dropped=False):
    from megatron.core.transformer.moe.token_dispatcher import MoEAlltoAllTokenDispatcher
    mesh = tutti.Mesh(etp=etp, ep=ep)
    mine = groups_of(rank, mesh)
    collection = types.SimpleNamespace(ep=mine["ep"], expt_tp=mine["etp"], tp_ep=dist.group.WORLD)
    config = types.SimpleNamespace(
        num_moe_experts=EXPERTS, moe_router_topk=k, moe_permute_fusion=False, cuda_graph_impl="none",
        moe_pad_expert_input_to_capacity=False, moe_router_padding_for_quantization=False,
        moe_expert_capacity_factor=1.0 if drop else None, add_bias_linear=False)
    here = EXPERTS // ep
    place_in_ep = dist.get_rank(mine["ep"])
    own = list(range(place_in_ep * here, (place_in_ep + 1) * here))
    answers = []
    for kind in (MoEAlltoAllTokenDispatcher, MEGATRON.TokenDispatcher):
        with without_cuda():
            dispatcher = kind(here, own, config, collection)
            answers.append(one_pass(dispatcher, rank, k, drop, dtype, 0.5 if etp > 1 else 1.0))
    if dropped and rank == 0:
        answers[1][4][0] = 0
    return [[t.tolist() for t in answer] for answer in answers]


def megatron_layer(rank):
    """use() on a model whose layer is Megatron's own class, around what is no part of the matter."""
    from megatron.core.transformer.moe.moe_layer import BaseMoELayer
    from megatron.core.transformer.moe.token_dispatcher import MoEAllGatherTokenDispatcher

    class Layer(BaseMoELayer):
        def forward(self, hidden_states):
            return hidden_states
    collection = types.SimpleNamespace(ep=dist.group.WORLD, expt_tp=None, tp_ep=dist.group.WORLD, tp=None)
    config = types.SimpleNamespace(
        num_moe_experts=EXPERTS, moe_router_topk=2, moe_pad_expert_input_to_capacity=False,
        moe_router_padding_for_quantization=False, moe_shared_expert_intermediate_size=None,
        moe_shared_expert_overlap=False, add_bias_linear=False)
    model = torch.nn.ModuleList(Layer(config, number, collection) for number in range(2))
    for layer in model:
        layer.token_dispatcher = MoEAllGatherTokenDispatcher(
            layer.num_local_experts, layer.local_expert_indices, config, collection)
    layers = MEGATRON.use(model)
    one, two = (layer.token_dispatcher for layer in model)
    said = []
    config.moe_pad_expert_input_to_capacity = True
    for call in (lambda: MEGATRON.use(torch.nn.Linear(1, 1)), lambda: MEGATRON.use(model),
                 lambda: one.set_shared_experts(None)):
        try:
            call()
        except tutti.InvalidInput as error:
            said.append(str(error))
    return layers, one.switch is two.switch, said


@unittest.skipIf(MEGATRON is None, f"megatron-core cannot be imported: {NO_MEGATRON}")
class Megatron(unittest.TestCase):
    def test_every_abstract_method_is_there(self):
        from megatron.core.transformer.moe.token_dispatcher import MoETokenDispatcher
        self.assertGreaterEqual(len(abstract(MoETokenDispatcher)), 6)
        for name in abstract(MoETokenDispatcher):
            self.assertIn(name, vars(MEGATRON.TokenDispatcher), name)

    def compare(self, ranks, *options):
        for rank, (theirs, ours) in enumerate(torch_ranks.run(megatron, ranks, *options)):
            for name, a, b in zip(("rows", "probs", "counts", "y", "x.grad", "probs.grad"), theirs, ours):
                bound = 0.02 if torch.bfloat16 in options and name not in ("rows", "counts") else 1e-5
                torch.testing.assert_close(torch.tensor(b), torch.tensor(a), rtol=bound, atol=bound,
                                           msg=lambda text, name=name: f"rank {rank} {name}: {text}")

    def test_values_and_gradients_are_those_of_its_own_dispatcher(self):
        for etp, ep, k, drop in ((1, 1, 2, False), (1, 2, 2, False), (1, 4, 1, False), (1, 2, 2, True),
                                 (2, 2, 2, False), (2, 2, 3, True), (2, 1, 2, False)):
            with self.subTest(etp=etp, ep=ep, k=k, drop=drop):
                self.compare(etp * ep, etp, ep, k, drop, torch.float32)

    def test_half_types(self):
        self.compare(2, 1, 2, 2, False, torch.bfloat16)
        self.compare(4, 2, 2, 2, False, torch.bfloat16)

    def test_a_dropped_gradient_is_seen(self):
        with self.assertRaises(AssertionError):
            self.compare(2, 1, 2, 2, False, torch.float32, True)

    def test_use_replaces_the_dispatchers_of_a_model(self):
        for layers, shared, said in torch_ranks.run(megatron_layer, 2):
            self.assertEqual((layers, shared), (2, True))
            self.assertEqual(len(said), 3)
            self.assertIn("no mixture of experts", said[0])


# ---- torchtitan ----------------------------------------------------------------------------------

def titan_pass(dispatcher, rank, k, dtype):
    x, chosen, probs = routed(rank, k, False, dtype)
    x = x.view(TOKENS, WIDTH).requires_grad_()
    scores, ids = probs.topk(k)
    scores = scores.detach().requires_grad_()
    counts = torch.bincount(ids.reshape(-1), minlength=EXPERTS)
    rows, per_expert, kept = dispatcher.dispatch(x, scores, ids, counts)
    here = len(per_expert)
    first = 0 if here == EXPERTS else rank * here
    factors = torch.arange(first, first + here) + 1.0
    y = dispatcher.combine((rows * factors.repeat_interleave(per_expert).unsqueeze(1)).to(dtype), kept, x)
    (y.float() * torch.arange(y.numel()).view(y.shape)).sum().backward()
    return [t.detach().float().tolist() for t in (rows, per_expert, y, x.grad, scores.grad)]


def titan(rank, ranks, k, dtype, dropped=False):
    from torchtitan.models.common.token_dispatcher import AllToAllTokenDispatcher
    from torchtitan.distributed.utils import set_spmd_backend
    set_spmd_backend("partial_dtensor")  # else its own dispatcher asks a trainer's global mesh
    mesh = dist.device_mesh.init_device_mesh("cpu", (ranks,), mesh_dim_names=("ep",))
    answers = []
    plain = AllToAllTokenDispatcher.Config(num_experts=EXPERTS, top_k=k)
    for config in (plain, TITAN.token_dispatcher(plain)):
        dispatcher = config.build()
        dispatcher.wire_meshes(ep_mesh=mesh if ranks > 1 else None)
        answers.append(titan_pass(dispatcher, rank, k, dtype))
    if dropped and rank == 0:
        answers[1][3][0] = [0.0] * WIDTH
    return answers


@unittest.skipIf(TITAN is None, f"torchtitan cannot be imported: {NO_TITAN}")
class Titan(unittest.TestCase):
    def test_every_abstract_method_is_there(self):
        from torchtitan.models.common.token_dispatcher import BaseEPTokenDispatcher
        self.assertEqual(abstract(BaseEPTokenDispatcher), ["combine", "dispatch"])
        for name in abstract(BaseEPTokenDispatcher):
            self.assertIn(name, vars(TITAN.TokenDispatcher), name)

    def compare(self, *options):
        for rank, (theirs, ours) in enumerate(torch_ranks.run(titan, options[0], *options)):
            for name, a, b in zip(("rows", "counts", "y", "x.grad", "scores.grad"), theirs, ours):
                bound = 0.02 if torch.bfloat16 in options and name not in ("rows", "counts") else 1e-5
                torch.testing.assert_close(torch.tensor(b), torch.tensor(a), rtol=bound, atol=bound,
                                           msg=lambda text, name=name: f"rank {rank} {name}: {text}")

    def test_values_and_gradients_are_those_of_its_own_dispatcher(self):
        for ranks, k in ((1, 2), (2, 2), (4, 1), (4, 3)):
            with self.subTest(ranks=ranks, k=k):
                self.compare(ranks, k, torch.float32)

    def test_half_types(self):
        self.compare(2, 2, torch.bfloat16)

    def test_a_dropped_gradient_is_seen(self):
        with self.assertRaises(AssertionError):
            self.compare(2, 2, torch.float32, True)

    def test_the_override_replaces_it_in_a_config(self):
        from torchtitan.config.override import _REGISTRY
        self.assertIn("tutti.trainers.titan.token_dispatcher", _REGISTRY)


if __name__ == "__main__":
    unittest.main(verbosity=2)
