#!/usr/bin/env python3
"""A thread that has no current device: communicators of the drop-in are of device 0 there, as with NCCL, in a
process that uses CUDA. The software device is the driver."""

import os
import subprocess
import sys
import unittest

BUILD = os.path.abspath(os.environ.get("TEST_BINARY_DIR", "build"))
PROGRAM = r"""
import ctypes, sys
driver = ctypes.CDLL("libcuda.so.1")
def cuda(name, *arguments):
    function, found = ctypes.c_void_p(), ctypes.c_int()
    driver.cuGetProcAddress_v2(name.encode(), ctypes.byref(function), 13000, ctypes.c_uint64(0), ctypes.byref(found))
    result = ctypes.CFUNCTYPE(ctypes.c_int)(function.value)(*arguments)
    assert result == 0, (name, result)
nccl = ctypes.CDLL(sys.argv[1])
class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]
def ok(result, what):
    nccl.ncclGetLastError.restype = ctypes.c_char_p
    assert result == 0, (what, result, nccl.ncclGetLastError(None))
if sys.argv[2] == "used":
    cuda("cuInit", 0)
unique, comm, device = UniqueId(), ctypes.c_void_p(), ctypes.c_int(-1)
ok(nccl.ncclGetUniqueId(ctypes.byref(unique)), "id")
nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int]
ok(nccl.ncclCommInitRank(ctypes.byref(comm), 1, unique, 0), "init")
ok(nccl.ncclCommCuDevice(comm, ctypes.byref(device)), "device")
assert device.value == 0, device
if sys.argv[2] == "used":
    current, context, memory = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
    cuda("cuCtxGetCurrent", ctypes.byref(current))
    assert current.value is None, "a device is current that the program did not choose"
    cuda("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    cuda("cuCtxPushCurrent", context)
    cuda("cuMemAlloc", ctypes.byref(memory), ctypes.c_size_t(4096))
    cuda("cuCtxPopCurrent", ctypes.byref(current))
    at = ctypes.c_void_p(memory.value)
    # On the NULL stream, which is the communicator's device's.
    ok(nccl.ncclAllReduce(at, at, ctypes.c_size_t(1024), 7, 0, comm, None), "all_reduce")
ok(nccl.ncclCommDestroy(comm), "destroy")
print("right")
"""


class DefaultDevice(unittest.TestCase):
    def outcome(self, use):
        library = os.path.join(BUILD, "lib", "nccl", "libnccl.so.2")
        environment = dict(os.environ, LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "software_device"))
        done = subprocess.run([sys.executable, "-c", PROGRAM, library, use], env=environment, capture_output=True,
                              text=True, timeout=120)
        self.assertEqual(done.stdout, "right\n", done.stdout + done.stderr)
        self.assertNotIn("goes by the host", done.stderr)

    def test_is_device_0_where_none_is_current(self):
        self.outcome("used")

    def test_is_none_where_the_process_has_not_begun_to_use_cuda(self):
        self.outcome("unused")


if __name__ == "__main__":
    sys.exit(unittest.main())
