"""Groups whose members change (c10d's reconfigure, from torch 2.14 on)."""

import datetime
import os
import unittest

import torch
import torch.distributed as dist

import tutti_torch

import ranks

HAS = hasattr(dist, "_reconfigure")
SECONDS = datetime.timedelta(seconds=1)


class Member:
    """This rank of a group in the regime, with the store by which the ranks exchange handles."""

    def __init__(self, rank, n, path):
        self.rank, self.n = rank, n
        self.store = dist.FileStore(path, n)
        dist.init_process_group("tutti", store=self.store, rank=rank, world_size=n,
                                timeout=20 * SECONDS, enable_reconfigure=True)

    def handles(self, name):
        self.store.set(f"{name}/{self.rank}", dist._get_reconfigure_handle())
        return [self.store.get(f"{name}/{rank}").decode() for rank in range(self.n)]

    @staticmethod
    def sum_of_ones():
        tensor = torch.ones(4)
        dist.all_reduce(tensor)
        return tensor[0].item()


def members_change(rank, n, path):
    member = Member(rank, n, path)
    try:
        dist.all_reduce(torch.ones(1))
        raise AssertionError("a group without members reduced")
    except RuntimeError as error:
        assert "before its first reconfigure" in str(error)
    before = member.handles("all")
    dist._reconfigure(1, before, timeout=20 * SECONDS).wait()
    assert member.sum_of_ones() == n
    handles = member.handles("again")
    assert not set(handles) & set(before), "a handle was used twice"
    if rank != 1:  # in the opposite order, without rank 1
        dist._reconfigure(2, [handles[2], handles[0]], timeout=20 * SECONDS).wait()
        assert dist.get_world_size() == 2 and dist.get_rank() == (0 if rank == 2 else 1)
        assert member.sum_of_ones() == 2
        peer = 1 - dist.get_rank()
        got = torch.zeros(3)
        works = [dist.isend(torch.full((3,), float(rank)), group_dst=peer),
                 dist.irecv(got, group_src=peer)]
        for work in works:
            work.wait()
        assert got[0].item() == 2 - rank
    dist._reconfigure(3, set(member.handles("together")), timeout=20 * SECONDS).wait()
    assert member.sum_of_ones() == n


def failures_leave_the_group(rank, n, path):
    member = Member(rank, n, path)
    dist._reconfigure(1, member.handles("all"), timeout=20 * SECONDS).wait()
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    for wrong in ([], ["tutti:nobody"], [dist._get_reconfigure_handle()] * 2, ["gloo:0"]):
        try:
            dist._reconfigure(2, wrong, timeout=SECONDS)
            raise AssertionError(f"{wrong} was accepted")
        except ValueError:
            pass
    assert member.sum_of_ones() == n
    handles = member.handles("incomplete")
    if rank == 0:  # nobody else comes
        try:
            dist._reconfigure(3, handles, timeout=SECONDS)
            raise AssertionError("it came to be without the others")
        except RuntimeError as error:
            assert "timed out" in str(error), error
    assert dist.get_world_size() == n and member.sum_of_ones() == n
    backend.abort()
    dist._reconfigure(4, member.handles("after an abort"), timeout=20 * SECONDS).wait()
    assert member.sum_of_ones() == n


def edit_of_world():
    return tutti_torch.last_edit()


def reconfigure(uuid, handles):
    dist._reconfigure(uuid, handles, timeout=30 * SECONDS).wait()


def members_stay_connected(rank, n, path):
    """What an edit keeps: over TCP, as every pair talks by a connection."""
    os.environ["TUTTI_TRANSPORTS"] = "tcp"
    os.environ["TUTTI_LAZY_CONNECT"] = "0"
    member = Member(rank, n, path)
    reconfigure(1, member.handles("all"))
    assert edit_of_world()["epoch"] == 0, "the first communicator is made, not edited"
    handles = member.handles("without the last")
    if rank != n - 1:
        reconfigure(2, handles[:-1])
        said = edit_of_world()
        assert (said["epoch"], said["removed"], said["links_kept"], said["links_closed"]) == (1, 1, n - 2, 1), said
        assert said["links_made"] == 0, said
        assert member.sum_of_ones() == n - 1
    # The last one has not heard of it, and comes back, in front of the others.
    handles = member.handles("with it again")
    reconfigure(3, handles[-1:] + handles[:-1])
    assert dist.get_rank() == (rank + 1) % n
    said = edit_of_world()
    if rank != n - 1:
        assert (said["epoch"], said["joined"], said["links_kept"], said["links_made"]) == (2, 1, n - 2, 1), said
    assert member.sum_of_ones() == n


def groups_part_and_meet(rank, n, path):
    member = Member(rank, n, path)
    reconfigure(1, member.handles("all"))
    handles = member.handles("parts")
    mine = handles[:2] if rank < 2 else handles[2:]
    reconfigure(20 + rank // 2, mine)
    assert member.sum_of_ones() == 2 and edit_of_world()["removed"] == n - 2
    # Two join two, and the list fixes their ranks: the first two are edited.
    handles = member.handles("together")
    order = [handles[0], handles[3], handles[1], handles[2]]
    reconfigure(3, order)
    assert dist.get_rank() == [0, 2, 3, 1][rank]
    gathered = [torch.zeros(1) for _ in range(n)]
    dist.all_gather(gathered, torch.tensor([float(rank)]))
    assert [int(one.item()) for one in gathered] == [0, 3, 1, 2]
    # Alone, and all together again.
    handles = member.handles("alone")
    reconfigure(40 + rank, [handles[rank]])
    assert member.sum_of_ones() == 1
    reconfigure(5, member.handles("all again"))
    assert member.sum_of_ones() == n and dist.get_rank() == rank


def failures_are_healed(rank, n, path):
    member = Member(rank, n, path)
    reconfigure(1, member.handles("all"))
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    # A call that nobody else makes.
    set_timeout = getattr(dist, "set_timeout", dist.distributed_c10d._set_pg_timeout)
    set_timeout(0.2 * SECONDS, dist.group.WORLD)
    if rank == 0:
        try:
            dist.all_reduce(torch.ones(1))
            raise AssertionError("it reduced alone")
        except RuntimeError:
            pass
    set_timeout(20 * SECONDS, dist.group.WORLD)
    reconfigure(2, member.handles("after a timeout"))
    assert member.sum_of_ones() == n and edit_of_world()["epoch"] == 1
    # Aborted by one of them, and without the last one, which then comes back.
    if rank == 1:
        backend.abort()
    handles = member.handles("after an abort")
    if rank != n - 1:
        reconfigure(3, handles[:-1])
        assert member.sum_of_ones() == n - 1 and edit_of_world()["epoch"] == 2
    reconfigure(4, member.handles("everybody"))
    assert member.sum_of_ones() == n
    # A uuid that was used leaves the members as they were.
    handles = member.handles("used")
    try:
        dist._reconfigure(4, handles, timeout=SECONDS).wait()
        raise AssertionError("a uuid was used twice")
    except RuntimeError as error:
        assert "already used" in str(error) or "timed out" in str(error), error
    assert member.sum_of_ones() == n


def a_rank_dies(rank, n, path):
    member = Member(rank, n, path)
    reconfigure(1, member.handles("all"))
    handles = member.handles("before")
    if rank == 1:
        os._exit(0)
    try:
        while True:
            member.sum_of_ones()
    except RuntimeError:
        pass
    reconfigure(2, [handles[0], handles[2]])
    assert member.sum_of_ones() == 2 and edit_of_world()["removed"] == 1
    return rank


@unittest.skipUnless(HAS, "this torch has no reconfigure")
class Reconfigure(unittest.TestCase):
    def test_members_come_go_and_change_places(self):
        ranks.run(members_change, 3, ranks.fresh_path(), backend=None)

    def test_what_fails_leaves_the_group_as_it_was(self):
        ranks.run(failures_leave_the_group, 2, ranks.fresh_path(), backend=None)

    def test_connections_of_members_stay(self):
        ranks.run(members_stay_connected, 4, ranks.fresh_path(), backend=None)

    def test_groups_part_and_meet_in_the_order_of_the_list(self):
        ranks.run(groups_part_and_meet, 4, ranks.fresh_path(), backend=None)

    def test_timeouts_and_aborts_are_healed(self):
        ranks.run(failures_are_healed, 3, ranks.fresh_path(), backend=None)

    def test_members_go_on_without_one_that_died(self):
        processes, answers, store = ranks.start(a_rank_dies, 3, ranks.fresh_path(), backend=None)
        self.assertEqual(ranks.collect(processes, answers, store, 2), [0, None, 2])


if __name__ == "__main__":
    unittest.main()
