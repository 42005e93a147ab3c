#!/usr/bin/env python3
"""Device memory in Python: collectives, groups and movers on streams of the software device, whose memory no
thread of the host can touch. Arrays are shown by DLPack, as PyTorch shows its own."""

import unittest

import place

place.find_software_device(devices=4)
place.find()

import numpy  # noqa: E402
from device_seat import run  # noqa: E402

import tutti  # noqa: E402


class OnStream(unittest.TestCase):
    def test_collectives(self):
        def main(seat):
            comm, ranks = seat.comm, seat.comm.ranks
            x = seat.array(numpy.arange(1000.0, dtype="f4") + comm.rank)
            every = seat.array(numpy.zeros(2 * ranks, "i8"))
            uneven = seat.array(numpy.zeros(sum(range(1, ranks + 1)), "f8"))
            with seat.on_stream():
                comm.all_reduce(x)
                comm.all_gather(seat.array(numpy.full(2, comm.rank)), every)
                comm.all_gather_v(seat.array(numpy.full(comm.rank + 1, comm.rank + 0.5)), uneven,
                                  list(range(1, ranks + 1)))
            total = ranks * numpy.arange(1000.0) + sum(range(ranks))
            expected = numpy.repeat(numpy.arange(ranks) + 0.5, range(1, ranks + 1))
            return (numpy.array_equal(x.read(), total), numpy.array_equal(uneven.read(), expected),
                    numpy.array_equal(every.read(), numpy.repeat(numpy.arange(ranks), 2)))
        for ranks in (1, 2, 4):
            self.assertEqual(run(main, ranks), [(True,) * 3] * ranks)

    def test_groups_of_calls(self):
        def main(seat):
            got, own = seat.array(numpy.zeros(7)), seat.array(numpy.full(7, float(seat.comm.rank)))
            peer = 1 - seat.comm.rank
            with seat.on_stream(), tutti.group():
                seat.comm.send(own, peer)
                seat.comm.recv(got, peer)
            return got.read().tolist()
        self.assertEqual(run(main, 2), [[1.0] * 7, [0.0] * 7])

    def test_exchanges_and_sums(self):
        plan = tutti.reshard(tutti.even(12, 2), tutti.striped(12, 2, 1))

        def main(seat):
            x = seat.array(numpy.arange(6.0, dtype="f4")[:, None].repeat(3, 1) + 6 * seat.comm.rank)
            y = seat.array(numpy.zeros((6, 3), "f4"))
            z, n = seat.array(numpy.full(5, 0.5, "f4")), seat.array(numpy.full(2, seat.comm.rank))
            mover = tutti.Exchange(plan, row=3)
            with seat.on_stream():
                for _ in range(2):
                    mover.run(seat.comm, x, y)
                tutti.all_reduce_together(seat.comm, [z, n])
            return y.read()[:, 1].tolist(), z.read().tolist(), n.read().tolist()
        for rank, (rows, z, n) in enumerate(run(main, 2)):
            self.assertEqual(rows, list(range(rank, 12, 2)))
            self.assertEqual((z, n), ([1.0] * 5, [1, 1]))

    def test_what_cannot_be_is_refused(self):
        def main(seat):
            x, said = seat.array(numpy.zeros(4, "f4")), []
            index = tutti.build_index([0], k=1, experts=1)
            rows = tutti.RowDispatch(seat.comm, experts=1, capacity=4, width=4)
            counts = tutti.Counts(ranks=1, values=[1], sums=[1])

            def on_stream(call):
                def within():
                    with seat.on_stream():
                        call()
                return within
            for call in (lambda: seat.comm.all_reduce(x), on_stream(lambda: seat.comm.all_reduce(x, wait=False)),
                         on_stream(lambda: rows.dispatch(index, counts, x)),
                         on_stream(lambda: tutti.all_reduce_fused(seat.comm, [x])),
                         lambda: tutti.on_stream(seat.stream).__exit__(None, None, None)):
                try:
                    call()
                except tutti.InvalidInput as error:
                    said.append(str(error))
            return said
        said, = run(main, 1)
        self.assertEqual(len(said), 5, said)
        self.assertIn("within tutti.on_stream(STREAM)", said[0])
        self.assertIn("leave wait out", said[1])
        self.assertIn("not in host memory", said[2])


if __name__ == "__main__":
    unittest.main(verbosity=1)
