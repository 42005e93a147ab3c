"""Groups whose members change (c10d's reconfigure, from torch 2.14 on)."""

import datetime
import unittest

import torch
import torch.distributed as dist

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


@unittest.skipUnless(HAS, "this torch has no reconfigure")
class Reconfigure(unittest.TestCase):
    def test_members_come_go_and_change_places(self):
        ranks.run(members_change, 3, ranks.fresh_path(), backend=None)

    def test_what_fails_leaves_the_group_as_it_was(self):
        ranks.run(failures_leave_the_group, 2, ranks.fresh_path(), backend=None)


if __name__ == "__main__":
    unittest.main()
