"""Sends and receives: both ways at once, beside each other, in batches, in order."""

import unittest

import torch
import torch.distributed as dist

import ranks

MIB = 1 << 20


def long_messages_cross(rank, n):
    given = torch.arange(8 * MIB // 4, dtype=torch.int32) + rank
    got = torch.zeros_like(given)
    peer = 1 - rank
    for _ in range(3):
        sending = dist.isend(given, peer)
        receiving = dist.irecv(got, peer)
        sending.wait()
        receiving.wait()
        assert got[0].item() == peer and got[-1].item() == given[-1].item() - rank + peer
    dist.barrier()


def peers_wait_for_nobody_else(rank, n):
    # Rank 0 sends to 1, which receives last, and to 2, which needs its message first.
    long = torch.ones(8 * MIB // 4)
    short = torch.zeros(4)
    if rank == 0:
        to_1 = dist.isend(long, 1)
        dist.send(short + 5, 2)
        to_1.wait()
    elif rank == 2:
        dist.recv(short, 0)
        assert short[0].item() == 5
        dist.send(short, 1)
    else:
        dist.recv(short, 2)
        dist.recv(long, 0)
    dist.barrier()


def batches(rank, n):
    right, left = (rank + 1) % n, (rank - 1) % n
    given = [torch.full((k,), float(rank)) for k in (1, 1000, 300000)]
    got = [torch.zeros_like(g) for g in given]
    calls = [dist.P2POp(dist.isend, g, right) for g in given]
    calls += [dist.P2POp(dist.irecv, g, left) for g in got]
    for work in dist.batch_isend_irecv(calls):
        work.wait()
    assert all(torch.equal(g, torch.full_like(g, float(left))) for g in got)
    dist.barrier()


def order_of_messages(rank, n):
    if rank == 0:
        works = [dist.isend(torch.tensor([k]), 1) for k in range(50)]
    else:
        tensors = [torch.zeros(1, dtype=torch.int64) for _ in range(50)]
        works = [dist.irecv(tensor, 0) for tensor in tensors]
    for work in works:
        work.wait()
    assert rank == 0 or [t.item() for t in tensors] == list(range(50))
    dist.barrier()


class PointToPoint(unittest.TestCase):
    def test_both_sides_send_first_and_8_mib_arrive(self):
        ranks.run(long_messages_cross, 2)

    def test_a_peer_waits_for_its_own_messages_only(self):
        ranks.run(peers_wait_for_nobody_else, 3)

    def test_batches(self):
        ranks.run(batches, 4)

    def test_messages_keep_their_order(self):
        ranks.run(order_of_messages, 2)


if __name__ == "__main__":
    unittest.main()
