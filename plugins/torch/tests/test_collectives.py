"""Every collective of the backend against Gloo's result, or against arithmetic where Gloo has none."""

import unittest

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

import ranks

EXACT = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool]
INEXACT = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
SIZES = [(0,), (1,), (7, 3), (4099,)]


def data(shape, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    if dtype.is_floating_point:
        return torch.randint(-8, 9, shape, generator=generator).to(dtype)
    return torch.randint(0 if dtype == torch.uint8 else -5, 6, shape, generator=generator).to(dtype)


def strided(tensor):
    """The same elements, every second one of a larger tensor."""
    wide = torch.zeros(*tensor.shape, 2, dtype=tensor.dtype)
    wide[..., 0] = tensor
    return wide[..., 0]


def layouts(tensor):
    yield tensor.clone()
    yield strided(tensor)


def reduced(op, parts):
    """The reduction in rank order, in the type itself for integers, in float64 otherwise."""
    dtype = parts[0].dtype
    exact = [part if not dtype.is_floating_point else part.double() for part in parts]
    result = exact[0].clone()
    for part in exact[1:]:
        if op == ReduceOp.SUM or op == ReduceOp.AVG:
            result = result | part if dtype == torch.bool else result + part
        elif op == ReduceOp.PRODUCT:
            result = result & part if dtype == torch.bool else result * part
        elif op == ReduceOp.MIN:
            result = torch.minimum(result, part)
        elif op == ReduceOp.MAX:
            result = torch.maximum(result, part)
        elif op == ReduceOp.BAND:
            result = result & part
        elif op == ReduceOp.BOR:
            result = result | part
        else:
            result = result ^ part
    if op == ReduceOp.AVG:
        result = (torch.div(result, len(parts)) if dtype.is_floating_point
                  else torch.div(result, len(parts), rounding_mode="trunc").to(dtype))
    return result.to(dtype)


def check(name, found, wanted):
    if wanted.dtype.is_floating_point:
        limit = 1e-2 if found.element_size() < 4 else 1e-6
        torch.testing.assert_close(found, wanted, rtol=limit, atol=limit,
                                   msg=lambda text: name + text)
    else:
        assert torch.equal(found, wanted), f"{name}: {found} instead of {wanted}"


def ops_for(dtype):
    ops = [ReduceOp.SUM, ReduceOp.PRODUCT, ReduceOp.MIN, ReduceOp.MAX]
    if dtype != torch.bool:
        ops.append(ReduceOp.AVG)
    if not dtype.is_floating_point:
        ops += [ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR]
    return ops


def done(work, is_async):
    if is_async:
        work.wait()


def reductions(rank, n):
    for dtype in EXACT + INEXACT:
        for op in ops_for(dtype):
            for shape in SIZES:
                parts = [data(shape, dtype, 100 + r) for r in range(n)]
                wanted = reduced(op, parts)
                for is_async, own in zip((False, True), layouts(parts[rank])):
                    name = f"{dtype} {op} {shape} async={is_async}: "
                    done(dist.all_reduce(own, op, async_op=is_async), is_async)
                    check("all_reduce " + name, own, wanted)
                    root = n - 1
                    own = parts[rank].clone()
                    done(dist.reduce(own, root, op, async_op=is_async), is_async)
                    check("reduce " + name, own, wanted if rank == root else parts[rank])


def reduce_scatters(rank, n):
    for dtype in [torch.int16, torch.int32, torch.uint8, torch.float32, torch.bfloat16]:
        for op in ops_for(dtype):
            for count in (0, 1, 1025):
                wholes = [data((n * count,), dtype, 200 + r) for r in range(n)]
                wanted = reduced(op, wholes)[rank * count:(rank + 1) * count]
                for is_async, own in zip((False, True), layouts(wholes[rank])):
                    name = f"{dtype} {op} {count} async={is_async}: "
                    out = strided(torch.zeros(count, dtype=dtype))
                    done(dist.reduce_scatter_tensor(out, own, op, async_op=is_async), is_async)
                    check("reduce_scatter_tensor " + name, out, wanted)
                    out = torch.zeros(count, dtype=dtype)
                    done(dist.reduce_scatter(out, list(own.chunk(n)) if count else [own] * n, op,
                                             async_op=is_async), is_async)
                    check("reduce_scatter " + name, out, wanted)
    counts = [r + 1 for r in range(n)]
    wholes = [[data((c,), torch.int32, 300 + r + 10 * c) for c in counts] for r in range(n)]
    out = torch.zeros(counts[rank], dtype=torch.int32)
    dist.reduce_scatter(out, wholes[rank])
    check("uneven reduce_scatter ", out, reduced(ReduceOp.SUM, [w[rank] for w in wholes]))
    in_place = data((n * 8,), torch.int32, 400 + rank)
    wanted = reduced(ReduceOp.SUM, [data((n * 8,), torch.int32, 400 + r) for r in range(n)])
    dist.reduce_scatter_tensor(in_place[rank * 8:(rank + 1) * 8], in_place)
    check("reduce_scatter in place ", in_place[rank * 8:(rank + 1) * 8],
          wanted[rank * 8:(rank + 1) * 8])


def moved(rank, n):
    types = EXACT + INEXACT + [torch.complex64, torch.float8_e4m3fn]
    for dtype in types:
        for shape in SIZES:
            parts = [data(shape, torch.float32, 500 + r).to(dtype) for r in range(n)]
            for is_async, own in zip((False, True), layouts(parts[rank])):
                move_one(rank, n, parts, own, is_async)


def bits(tensor):
    return torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor).view(torch.uint8)


def same(a, b):
    return a.shape == b.shape and torch.equal(bits(a), bits(b))


def move_one(rank, n, parts, own, is_async):
    shape, dtype = own.shape, own.dtype
    name = f"{dtype} {tuple(shape)} async={is_async}"
    root = n // 2
    whole = torch.stack([p.float() if dtype == torch.float8_e4m3fn else p for p in parts]).to(dtype)

    got = own.clone() if rank == root else strided(torch.zeros(shape, dtype=dtype))
    done(dist.broadcast(got, root, async_op=is_async), is_async)
    assert same(got.contiguous(), parts[root]), f"broadcast {name}"

    got = [torch.zeros(shape, dtype=dtype) for _ in range(n)]
    done(dist.all_gather(got, own, async_op=is_async), is_async)
    assert all(same(g, p) for g, p in zip(got, parts)), f"all_gather {name}"

    flat = torch.zeros((n,) + tuple(shape), dtype=dtype)
    done(dist.all_gather(list(flat.unbind(0)), own, async_op=is_async), is_async)
    assert same(flat, whole), f"all_gather to views {name}"

    flat = torch.zeros((n * shape[0],) + tuple(shape[1:]), dtype=dtype)
    done(dist.all_gather_into_tensor(flat, own, async_op=is_async), is_async)
    assert same(flat.view(whole.shape), whole), f"all_gather_into_tensor {name}"

    got = [torch.zeros(shape, dtype=dtype) for _ in range(n)] if rank == root else None
    done(dist.gather(own, got, dst=root, async_op=is_async), is_async)
    assert rank != root or all(same(g, p) for g, p in zip(got, parts)), f"gather {name}"

    got = torch.zeros(shape, dtype=dtype)
    done(dist.scatter(got, parts if rank == root else None, src=root, async_op=is_async), is_async)
    assert same(got, parts[rank]), f"scatter {name}"

    got = [torch.zeros(shape, dtype=dtype) for _ in range(n)]
    done(dist.all_to_all(got, [own] * n, async_op=is_async), is_async)
    assert all(same(g, p) for g, p in zip(got, parts)), f"all_to_all {name}"

    got = torch.zeros((n * shape[0],) + tuple(shape[1:]), dtype=dtype)
    sent = torch.cat([own.contiguous()] * n) if dtype != torch.float8_e4m3fn else whole.view(
        got.shape)
    done(dist.all_to_all_single(got, sent, async_op=is_async), is_async)
    if dtype != torch.float8_e4m3fn:
        assert same(got.view(whole.shape), whole), f"all_to_all_single {name}"


def uneven(rank, n):
    send = [(rank + peer) % 3 for peer in range(n)]
    receive = [(peer + rank) % 3 for peer in range(n)]
    given = torch.arange(sum(send) * 5, dtype=torch.float32).view(-1, 5) + 1000 * rank
    got = torch.full((sum(receive), 5), -1.0)
    dist.all_to_all_single(got, given, receive, send)
    gloo = dist.new_group(backend="gloo")
    wanted = torch.full((sum(receive), 5), -1.0)
    dist.all_to_all_single(wanted, given, receive, send, group=gloo)
    assert torch.equal(got, wanted)
    sizes = [2 * r for r in range(n)]
    outs = [torch.zeros(s) for s in sizes]
    dist.all_gather(outs, torch.full((sizes[rank],), float(rank)))
    assert all(torch.equal(o, torch.full((s,), float(r)))
               for r, (o, s) in enumerate(zip(outs, sizes)))


def coalesced(rank, n):
    tensors = [torch.full((k + 1,), float(rank)) for k in range(5)]
    with dist._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    total = float(sum(range(n)))
    assert all(torch.equal(t, torch.full_like(t, total)) for t in tensors)
    ins = [torch.full((k,), float(rank)) for k in (1, 3)]
    outs = [torch.zeros(n * k) for k in (1, 3)]
    with dist._coalescing_manager(async_ops=True) as manager:
        for i, o in zip(ins, outs):
            dist.all_gather_into_tensor(o, i)
    manager.wait()
    assert all(torch.equal(o, torch.arange(float(n)).repeat_interleave(k))
               for o, k in zip(outs, (1, 3)))
    reduced_outs = [torch.zeros(k) for k in (1, 3)]
    with dist._coalescing_manager():
        for i, o in zip(outs, reduced_outs):
            dist.reduce_scatter_tensor(o, i)
    assert all(torch.equal(o, torch.full_like(o, float(n * rank))) for o in reduced_outs)
    with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
        dist.all_reduce(tensors[0], async_op=True)
        dist.broadcast(tensors[1], 0, async_op=True)
    manager.wait()
    assert tensors[0].item() == total * n


def scaled(rank, n):
    factor = 0.5
    tensor = torch.full((100,), float(rank + 1))
    dist.all_reduce(tensor, dist._make_nccl_premul_sum(factor))
    assert torch.equal(tensor, torch.full((100,), factor * n * (n + 1) / 2))
    out = torch.zeros(10)
    dist.reduce_scatter_tensor(out, torch.full((10 * n,), 2.0),
                               dist._make_nccl_premul_sum(torch.tensor([0.25])))
    assert torch.equal(out, torch.full((10,), 0.5 * n))


def objects(rank, n):
    found = [None] * n
    dist.all_gather_object(found, {"rank": rank, "text": "x" * rank})
    assert found == [{"rank": r, "text": "x" * r} for r in range(n)]
    given = [("from", 0), 17] if rank == 0 else [None, None]
    dist.broadcast_object_list(given, src=0)
    assert given == [("from", 0), 17]
    got = [None]
    dist.scatter_object_list(got, list(range(n)) if rank == 0 else None, src=0)
    assert got == [rank]
    gathered = [None] * n if rank == 0 else None
    dist.gather_object(rank * 3, gathered, dst=0)
    assert rank != 0 or gathered == [r * 3 for r in range(n)]
    if n > 1 and rank < 2:
        given = ["hello"] if rank == 0 else [None]
        if rank == 0:
            dist.send_object_list(given, dst=1)
        else:
            dist.recv_object_list(given, src=0)
        assert given == ["hello"]
    dist.barrier()


class Collectives(unittest.TestCase):
    def on(self, function):
        for n in (1, 2, 4):
            with self.subTest(ranks=n):
                ranks.run(function, n)

    def test_reductions_of_all_types_and_operations(self):
        self.on(reductions)

    def test_reduce_scatter_even_uneven_and_in_place(self):
        self.on(reduce_scatters)

    def test_what_only_moves_arrives_as_it_was(self):
        self.on(moved)

    def test_uneven_all_to_all_and_all_gather(self):
        self.on(uneven)

    def test_coalesced_calls(self):
        self.on(coalesced)

    def test_scaled_sums(self):
        self.on(scaled)

    def test_objects(self):
        self.on(objects)


if __name__ == "__main__":
    unittest.main()
