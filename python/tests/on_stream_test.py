#!/usr/bin/env python3
"""Device memory in Python: collectives, groups and movers on streams of the software device, whose memory no
thread of the host can touch. Arrays are shown by DLPack, as PyTorch shows its own."""

import ctypes
import os
import sys
import threading
import unittest

FOLDER = os.path.join(os.environ.get("TEST_BINARY_DIR", ""), "lib", "software_device")
if os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)[0] != FOLDER:
    if not os.path.exists(os.path.join(FOLDER, "libcuda.so.1")):
        print("skipped: there is no software device: it is part of a build with tests")
        sys.exit(77)
    os.environ.update(LD_LIBRARY_PATH=FOLDER + os.pathsep + os.environ.get("LD_LIBRARY_PATH", ""),
                      SOFTDEV_DEVICES="4")
    os.execv(sys.executable, [sys.executable, "-B", *sys.argv])

import place  # noqa: E402

place.find()

import numpy  # noqa: E402

import tutti  # noqa: E402

CUDA = 2  # DLPack's number of such memory
CODES = {"i": 0, "u": 1, "f": 2}


# ---- the driver, as far as this test needs it ----------------------------------------------------

class Driver:
    def __init__(self):
        get = ctypes.CDLL("libcuda.so.1").cuGetProcAddress_v2

        def find(name, *types):
            pointer, found = ctypes.c_void_p(), ctypes.c_int()
            get(name.encode(), ctypes.byref(pointer), 12000, ctypes.c_uint64(0), ctypes.byref(found))
            return ctypes.CFUNCTYPE(ctypes.c_int, *types)(pointer.value)
        p, n = ctypes.c_void_p, ctypes.c_size_t
        self.init = find("cuInit", ctypes.c_uint)
        self.device = find("cuDeviceGet", p, ctypes.c_int)
        self.retain = find("cuDevicePrimaryCtxRetain", p, ctypes.c_int)
        self.current = find("cuCtxSetCurrent", p)
        self.stream = find("cuStreamCreate", p, ctypes.c_uint)
        self.wait = find("cuStreamSynchronize", p)
        self.allocate = find("cuMemAlloc", p, n)
        self.copy = find("cuMemcpyAsync", p, p, n, p)
        self.must(self.init(0))

    @staticmethod
    def must(result):
        if result != 0:
            raise RuntimeError(f"the driver answers {result}")


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int), ("device_id", ctypes.c_int),
                ("ndim", ctypes.c_int), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64),
                ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Array:
    """Memory of a device with values of numpy, shown by DLPack."""

    def __init__(self, seat, values):
        self.seat, self.like = seat, numpy.ascontiguousarray(values)
        pointer = ctypes.c_void_p()
        Driver.must(seat.driver.allocate(ctypes.byref(pointer), max(self.like.nbytes, 1)))
        self.pointer = pointer.value
        self._copy(self.pointer, self.like.ctypes.data)
        self.shape = (ctypes.c_int64 * self.like.ndim)(*self.like.shape)
        self.tensors = []

    def _copy(self, target, source):
        Driver.must(self.seat.driver.copy(target, source, self.like.nbytes, self.seat.stream))
        Driver.must(self.seat.driver.wait(self.seat.stream))

    def read(self):
        values = numpy.empty_like(self.like)
        self._copy(values.ctypes.data, self.pointer)
        return values

    def __dlpack_device__(self):
        return CUDA, self.seat.rank

    def __dlpack__(self, **_):
        made = Tensor(self.pointer, CUDA, self.seat.rank, self.like.ndim, CODES[self.like.dtype.kind],
                      8 * self.like.itemsize, 1, self.shape, None, 0, None, None)
        self.tensors.append(made)  # it lives as long as the array, so that there is nothing to delete
        capsule = ctypes.pythonapi.PyCapsule_New
        capsule.restype = ctypes.py_object
        capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return capsule(ctypes.addressof(made), b"dltensor", None)


class Seat:
    """A rank with a device of its own, a thread of this process."""

    def __init__(self, driver, rank, ranks, key):
        self.driver, self.rank = driver, rank
        context, stream = ctypes.c_void_p(), ctypes.c_void_p()
        driver.must(driver.retain(ctypes.byref(context), rank))
        driver.must(driver.current(context.value))
        driver.must(driver.stream(ctypes.byref(stream), 1))
        self.stream = stream.value
        self.comm = tutti.Communicator(ranks, rank, key)

    def on_stream(self):
        return tutti.on_stream(self.stream)

    def array(self, values):
        return Array(self, values)


def run(function, ranks):
    driver, key, results = Driver(), tutti.unique_id(), [None] * ranks

    def rank_main(rank):
        try:
            seat = Seat(driver, rank, ranks, key)
            results[rank] = function(seat)
            seat.comm.close()
        except BaseException as error:  # noqa: BLE001  (the test raises it)
            results[rank] = error
    threads = [threading.Thread(target=rank_main, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(240)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


# ---- tests ---------------------------------------------------------------------------------------

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
            got, own = seat.array(numpy.zeros(7)), seat.array(numpy.full(7, float(seat.rank)))
            peer = 1 - seat.rank
            with seat.on_stream(), tutti.group():
                seat.comm.send(own, peer)
                seat.comm.recv(got, peer)
            return got.read().tolist()
        self.assertEqual(run(main, 2), [[1.0] * 7, [0.0] * 7])

    def test_exchanges_and_sums(self):
        plan = tutti.reshard(tutti.even(12, 2), tutti.striped(12, 2, 1))

        def main(seat):
            x = seat.array(numpy.arange(6.0, dtype="f4")[:, None].repeat(3, 1) + 6 * seat.rank)
            y = seat.array(numpy.zeros((6, 3), "f4"))
            z, n = seat.array(numpy.full(5, 0.5, "f4")), seat.array(numpy.full(2, seat.rank))
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
