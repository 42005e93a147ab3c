"""The CUDA driver for the scripts of tools/gpu-check, by ctypes: neither CUDA's runtime library nor a package is
needed, so they run on the software device, too.

    driver = Driver()                     a context of device 0 is current in the calling thread
    driver.cuStreamSynchronize(stream)    any function of the driver; an error raises DriverError
    driver.ask("cuStreamQuery", stream)   the same, but returns the error's name; "CUDA_SUCCESS"

Integers are passed as 64 bits, so what is no pointer, size or int of the machine needs a ctypes type.
"""

import ctypes
import functools
import time

# The interface that a function is asked for by, where the newest one has other parameters: as src/drivers/cuda.
VERSIONS = {"cuStreamBatchMemOp": 11070, "cuStreamWaitValue64": 11070, "cuStreamWriteValue64": 11070,
            "cuStreamGetCaptureInfo": 11030, "cuGraphInstantiateWithFlags": 11040, "cuMemAlloc": 3020,
            "cuMemFree": 3020, "cuMemcpyAsync": 4000, "cuStreamGetCtx": 9020, "cuMemHostAlloc": 2020,
            "cuMemHostRegister": 6050, "cuMemHostGetDevicePointer": 3020, "cuDevicePrimaryCtxRelease": 11000,
            "cuIpcOpenMemHandle": 11000, "cuMemsetD8": 3020, "cuStreamDestroy": 4000, "cuEventDestroy": 4000,
            "cuMemGetInfo": 3020, "cuMemcpyDtoH": 3020, "cuStreamBeginCapture": 10010}
NEWEST = 12080
NON_BLOCKING = 1
WAIT_64, WRITE_64 = 4, 5
CAPTURE_GLOBAL, CAPTURE_THREAD_LOCAL = 0, 1


class DriverError(Exception):
    """What the driver refused, by its own name for it."""


class MissingFunction(Exception):
    """The driver has no such function."""


class MemoryOperation(ctypes.Structure):
    """One of cuStreamBatchMemOp's, as cuda.h lays it out."""
    _fields_ = [("operation", ctypes.c_int), ("address", ctypes.c_uint64), ("value", ctypes.c_uint64),
                ("flags", ctypes.c_uint), ("alias", ctypes.c_uint64), ("unused", ctypes.c_uint64)]


class CopyAttributes(ctypes.Structure):
    """One of cuMemcpyBatchAsync's; flags: 1 is the hint to leave the multiprocessors to others."""
    _fields_ = [("order", ctypes.c_int), ("source", ctypes.c_int * 2), ("target", ctypes.c_int * 2),
                ("flags", ctypes.c_uint)]


class Driver:
    def __init__(self, device=0):
        self.library = ctypes.CDLL("libcuda.so.1")
        self.known = {}
        self.cuInit(ctypes.c_uint(0))
        self.device = ctypes.c_int()
        self.cuDeviceGet(ctypes.byref(self.device), ctypes.c_int(device))
        self.context = ctypes.c_void_p()
        self.cuDevicePrimaryCtxRetain(ctypes.byref(self.context), self.device)
        self.enter()

    def enter(self):
        """For every further thread."""
        self.cuCtxSetCurrent(self.context)

    def find(self, name, version=None):
        if (name, version) not in self.known:
            entry, found = ctypes.c_void_p(), ctypes.c_int()
            asked = ctypes.c_int(version or VERSIONS.get(name, NEWEST))
            status = self.library.cuGetProcAddress_v2(name.encode(), ctypes.byref(entry), asked, ctypes.c_uint64(0),
                                                      ctypes.byref(found))
            if status != 0 or not entry.value:
                raise MissingFunction(f"the driver has no {name}")
            self.known[name, version] = entry.value
        return self.known[name, version]

    def prepare(self, name, *arguments, version=None):
        """A call of it without parameters, which costs little more than the driver does; it returns the status."""
        function = ctypes.CFUNCTYPE(ctypes.c_int)(self.find(name, version))
        wide = [ctypes.c_uint64(one) if isinstance(one, int) else one for one in arguments]
        return functools.partial(function, *wide)

    def status(self, name, *arguments, version=None):
        return self.prepare(name, *arguments, version=version)()

    def name_of(self, status):
        if status == 0:
            return "CUDA_SUCCESS"
        text = ctypes.c_char_p()
        self.status("cuGetErrorName", ctypes.c_int(status), ctypes.byref(text))
        return text.value.decode() if text.value else f"error {status}"

    def check(self, name, status):
        if status != 0:
            raise DriverError(f"{name}: {self.name_of(status)}")

    def ask(self, name, *arguments, version=None):
        return self.name_of(self.status(name, *arguments, version=version))

    def __getattr__(self, name):
        if not name.startswith("cu"):
            raise AttributeError(name)

        def call(*arguments):
            self.check(name, self.status(name, *arguments))
        return call

    def made(self, name, *arguments, kind=ctypes.c_uint64):
        """What the function stores by its first parameter."""
        out = kind()
        getattr(self, name)(ctypes.byref(out), *arguments)
        return out.value

    def memory(self, size):
        return self.made("cuMemAlloc", size)

    def pinned(self, size):
        """Its address, which is the device's, too."""
        return self.made("cuMemHostAlloc", size, ctypes.c_uint(3))

    def stream(self, flags=NON_BLOCKING):
        return self.made("cuStreamCreateWithPriority", ctypes.c_uint(flags), ctypes.c_int(0))

    def event(self, is_timed=False):
        return self.made("cuEventCreate", ctypes.c_uint(0 if is_timed else 2))

    def elapsed_us(self, begin, end):
        return self.made("cuEventElapsedTime", begin, end, kind=ctypes.c_float) * 1000

    def operations(self, stream, operations):
        """A call that puts them there: (kind, address, value) of each."""
        all_of_them = (MemoryOperation * len(operations))(*[(kind, address, value, 0, 0, 0)
                                                            for kind, address, value in operations])
        return self.prepare("cuStreamBatchMemOp", stream, ctypes.c_uint(len(operations)), all_of_them,
                            ctypes.c_uint(0))

    def copy_batch(self, stream, copies, overlaps):
        """A call that puts them there as one list: (target, source, size) of each."""
        columns = [(ctypes.c_uint64 * len(copies))(*column) for column in zip(*copies)]
        attributes = CopyAttributes(order=1, flags=1 if overlaps else 0)
        tail = (ctypes.byref(attributes), ctypes.byref(ctypes.c_size_t(0)), 1)
        try:
            return self.prepare("cuMemcpyBatchAsync", *columns, len(copies), *tail, stream, version=13000)
        except MissingFunction:
            failed = ctypes.c_size_t()
            return self.prepare("cuMemcpyBatchAsync", *columns, len(copies), *tail, ctypes.byref(failed), stream,
                                version=12080)

    def store(self, address, value):
        """Of 64 bits, by the host, into pinned memory."""
        ctypes.c_uint64.from_address(address).value = value

    def version(self):
        return self.made("cuDriverGetVersion", kind=ctypes.c_int)

    def is_done(self, stream):
        return self.ask("cuStreamQuery", stream) == "CUDA_SUCCESS"

    def ends(self, stream, seconds):
        """Whether the stream comes to its end within so many."""
        end = time.monotonic() + seconds
        while not self.is_done(stream):
            if time.monotonic() > end:
                return False
            time.sleep(0.0005)
        return True
