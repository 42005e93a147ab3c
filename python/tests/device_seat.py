"""Ranks with devices in Python: the software device by its driver, arrays in its memory, which no thread of
the host can touch, shown by DLPack as PyTorch shows its own; and ranks that are threads of a process.

A test calls place.find_software_device() before it imports this.
"""

import ctypes
import threading

import numpy
import tutti

CUDA = 2  # DLPack's number of such memory
CODES = {"i": 0, "u": 1, "f": 2}


# ---- the driver, as far as tests need it ----------------------------------------------------

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
        self.seat.wait()

    def read(self):
        values = numpy.empty_like(self.like)
        self._copy(values.ctypes.data, self.pointer)
        return values

    def __dlpack_device__(self):
        return CUDA, self.seat.device

    def __dlpack__(self, **_):
        made = Tensor(self.pointer, CUDA, self.seat.device, self.like.ndim, CODES[self.like.dtype.kind],
                      8 * self.like.itemsize, 1, self.shape, None, 0, None, None)
        self.tensors.append(made)  # it lives as long as the array, so that there is nothing to delete
        capsule = ctypes.pythonapi.PyCapsule_New
        capsule.restype = ctypes.py_object
        capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return capsule(ctypes.addressof(made), b"dltensor", None)


class Seat:
    """A thread of this process at a device of its own, which is current in it."""

    def __init__(self, device, driver=None):
        self.driver, self.device, self.comm = driver or Driver(), device, None
        context, stream = ctypes.c_void_p(), ctypes.c_void_p()
        Driver.must(self.driver.retain(ctypes.byref(context), device))
        Driver.must(self.driver.current(context.value))
        Driver.must(self.driver.stream(ctypes.byref(stream), 1))
        self.stream = stream.value

    def on_stream(self):
        return tutti.on_stream(self.stream)

    def wait(self):
        Driver.must(self.driver.wait(self.stream))

    def array(self, values):
        return Array(self, values)


def run(function, ranks, more=()):
    """What function(seat) returns as each of the ranks, whose communicator is seat.comm. For each function of
    `more` there is a thread more, with the next device and no communicator; their results come last."""
    driver, key, results = Driver(), tutti.unique_id(), [None] * (ranks + len(more))

    def main(number):
        seat = None
        try:
            seat = Seat(number, driver)
            if number < ranks:
                seat.comm = tutti.Communicator(ranks, number, key)
            results[number] = function(seat) if number < ranks else more[number - ranks](seat)
            if seat.comm is not None:
                seat.comm.close()
        except BaseException as error:  # noqa: BLE001  (the test raises it)
            results[number] = error
            if seat is not None and seat.comm is not None:
                seat.comm.abort()  # nobody waits for this rank
    threads = [threading.Thread(target=main, args=(number,), daemon=True) for number in range(len(results))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(240)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    if any(thread.is_alive() for thread in threads):
        raise TimeoutError("a rank hangs")
    return results
