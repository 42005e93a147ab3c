#!/usr/bin/env python3
"""What a driver does where Tutti would hang, or be spoilt, if it did something else.

    python3 tools/gpu_check/driver_facts.py [--seconds S] [--fact NAME]

Each fact is asked by a process of its own, which gets S seconds (20): one that is not over then is killed, and the
answer is "HANGS". It prints rows of a Markdown table: fact, answer, seconds. A driver that has no such function
says so; so does the software device."""

import argparse
import ctypes
import os
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cuda_driver import CAPTURE_GLOBAL, WAIT_64, WRITE_64, Driver, DriverError, MissingFunction  # pylint: disable=wrong-import-position

PATIENCE = 2.0  # seconds, after which a call of the driver counts as one that waits
PTX = b""".version 7.0
.target sm_80
.address_size 64
.visible .entry nothing() { ret; }
\0"""
BUFFER_ID, RANGE_START, RANGE_SIZE, MEMORY_TYPE = 7, 11, 12, 2
FACTS = {}


def fact(text):
    def keep(function):
        FACTS[function.__name__] = (text, function)
        return function
    return keep


class Held:
    """A stream that waits for a word which release() stores."""

    def __init__(self, driver):
        self.driver = driver
        self.stream = driver.stream()
        self.word = driver.pinned(4096)
        ctypes.memset(self.word, 0, 4096)
        driver.check("cuStreamBatchMemOp", driver.operations(self.stream, [(WAIT_64, self.word, 1)])())

    def release(self):
        self.driver.store(self.word, 1)
        return self.driver.ends(self.stream, 5)


def in_thread(driver, function):
    """Calls it in a thread with the context; a function that waits for it, some seconds, and says whether it is over
    and what it returned."""
    found = []

    def body():
        driver.enter()
        try:
            found.append(str(function() or "CUDA_SUCCESS"))
        except (DriverError, MissingFunction) as error:
            found.append(str(error))
    thread = threading.Thread(target=body, daemon=True)
    thread.start()

    def over(seconds):
        thread.join(seconds)
        return found[0] if found else None
    return over


def load_module(driver):
    module = ctypes.c_void_p()
    driver.cuModuleLoadData(ctypes.byref(module), ctypes.c_char_p(PTX))
    return module


def capture(driver):
    stream = driver.stream()
    driver.cuStreamBeginCapture(stream, ctypes.c_int(CAPTURE_GLOBAL))

    def end():
        graph = ctypes.c_uint64()
        return driver.ask("cuStreamEndCapture", stream, ctypes.byref(graph))
    return end


@fact("cuModuleLoadData in a thread, beside a global capture of another one")
def load_beside_capture(driver):
    end = capture(driver)
    answer = in_thread(driver, lambda: load_module(driver) and None)(PATIENCE)
    return f"{answer or 'waits'}; the capture ends with {end()}"


@fact("cuModuleUnload in a thread, beside a global capture of another one")
def unload_beside_capture(driver):
    module = load_module(driver)
    end = capture(driver)
    answer = in_thread(driver, lambda: driver.ask("cuModuleUnload", module))(PATIENCE)
    return f"{answer or 'waits'}; the capture ends with {end()}"


def beside_wait(driver, prepare):
    """Does it while a stream waits, and meanwhile, in another thread, a copy and a write on another stream."""
    target, free = driver.memory(4096), driver.stream()
    words = driver.pinned(4096)
    doing = prepare()
    held = Held(driver)
    answer = in_thread(driver, doing)
    early = answer(PATIENCE)

    def others():
        driver.cuMemcpyAsync(target, target + 2048, 64, free)
        driver.check("cuStreamBatchMemOp", driver.operations(free, [(WRITE_64, words, 1)])())
    beside = in_thread(driver, others)(PATIENCE)
    released = held.release()
    late = early or answer(5) or "never returns"
    return (f"{'returns at once' if early else 'waits for the stream'} ({late}); other threads' copies and writes "
            f"{'go on' if beside == 'CUDA_SUCCESS' else 'are held up' if beside is None else beside}"
            f"{'' if released else '; the stream does not end'}")


@fact("cuMemFree beside a stream that waits")
def free_beside_wait(driver):
    memory = driver.memory(1 << 20)
    return beside_wait(driver, lambda: lambda: driver.ask("cuMemFree", memory))


@fact("cuMemHostAlloc beside a stream that waits")
def pin_beside_wait(driver):
    return beside_wait(driver, lambda: lambda: driver.pinned(1 << 20) and None)


@fact("cuMemHostUnregister beside a stream that waits")
def unregister_beside_wait(driver):
    pages = ctypes.create_string_buffer(1 << 16)
    address = (ctypes.addressof(pages) + 4095) // 4096 * 4096

    def prepare():
        driver.cuMemHostRegister(address, 8192, ctypes.c_uint(3))
        return lambda: driver.ask("cuMemHostUnregister", address)
    return beside_wait(driver, prepare)


@fact("cuModuleLoadData beside a stream that waits")
def load_beside_wait(driver):
    return beside_wait(driver, lambda: lambda: load_module(driver) and None)


class AllocationProperties(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("handles", ctypes.c_int), ("where", ctypes.c_int), ("device", ctypes.c_int),
                ("windows", ctypes.c_void_p), ("flags", ctypes.c_ubyte * 8)]


class Access(ctypes.Structure):
    _fields_ = [("where", ctypes.c_int), ("device", ctypes.c_int), ("flags", ctypes.c_int)]


class Mapped:
    """A reservation with `pieces` allocations one behind the other."""

    def __init__(self, driver, pieces=1):
        self.driver = driver
        properties = AllocationProperties(kind=1, where=1, device=driver.device.value)
        self.size = driver.made("cuMemGetAllocationGranularity", ctypes.byref(properties), ctypes.c_int(0))
        self.base = driver.made("cuMemAddressReserve", pieces * self.size, 0, 0, ctypes.c_ulonglong(0))
        for i in range(pieces):
            handle = driver.made("cuMemCreate", self.size, ctypes.byref(properties), ctypes.c_ulonglong(0))
            driver.cuMemMap(self.base + i * self.size, self.size, 0, handle, ctypes.c_ulonglong(0))
        self.allow(pieces * self.size)

    def allow(self, size):
        access = Access(where=1, device=self.driver.device.value, flags=3)
        return self.driver.ask("cuMemSetAccess", self.base, size, ctypes.byref(access), 1)


@fact("cuMemUnmap beside a stream that waits")
def unmap_beside_wait(driver):
    mapped = Mapped(driver)
    return beside_wait(driver, lambda: lambda: driver.ask("cuMemUnmap", mapped.base, mapped.size))


@fact("cuMemSetAccess beside a stream that waits")
def allow_beside_wait(driver):
    mapped = Mapped(driver)
    return beside_wait(driver, lambda: lambda: mapped.allow(mapped.size))


@fact("own work on another stream, behind a call that waits, with 1 hardware queue")
def one_queue(driver):
    memory, free = driver.memory(4096), driver.stream()
    held = Held(driver)
    driver.cuMemcpyAsync(memory, memory + 2048, 64, free)
    runs = driver.ends(free, PATIENCE)
    held.release()
    return "runs" if runs else "waits with it"


one_queue.environment = {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}


def attributes(driver, address):
    numbers, size, kind = ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_uint()
    start = ctypes.c_uint64()
    wanted = (ctypes.c_int * 4)(BUFFER_ID, RANGE_START, RANGE_SIZE, MEMORY_TYPE)
    places = (ctypes.c_void_p * 4)(*[ctypes.addressof(one) for one in (numbers, start, size, kind)])
    driver.cuPointerGetAttributes(ctypes.c_uint(4), wanted, places, address)
    return numbers.value, start.value, size.value, kind.value


@fact("cuPointerGetAttributes of three allocations in one reservation")
def attributes_of_pieces(driver):
    mapped = Mapped(driver, 3)
    found = [attributes(driver, mapped.base + i * mapped.size + 64) for i in range(3)]
    ids = len({one[0] for one in found})
    ranges = [f"{(one[1] - mapped.base) // mapped.size}+{one[2] // mapped.size}" for one in found]
    return f"{ids} buffer ids; ranges in allocations (first + how many): {', '.join(ranges)}"


@fact("cuPointerGetAttributes of memory by cuMemAllocAsync, and inside a capture")
def attributes_of_pool(driver):
    stream = driver.stream()
    out = ctypes.c_uint64()
    driver.cuMemAllocAsync(ctypes.byref(out), 1 << 20, stream)
    plain = attributes(driver, out.value)
    driver.cuStreamBeginCapture(stream, ctypes.c_int(CAPTURE_GLOBAL))
    try:
        status = driver.ask("cuMemAllocAsync", ctypes.byref(out), 1 << 20, stream)
        captured = attributes(driver, out.value) if status == "CUDA_SUCCESS" else status
    except DriverError as error:
        captured = str(error)
    return f"id {plain[0]}, {plain[2]} bytes, type {plain[3]}; captured: {captured}"


@fact("the handle of a stream that was destroyed behind a call")
def destroyed_handle(driver):
    held = Held(driver)
    first = held.stream
    driver.cuStreamDestroy(first)
    query = driver.ask("cuStreamQuery", first)
    made = [driver.stream() for _ in range(64)]
    driver.store(held.word, 1)
    return f"query of it: {query}; {'comes again' if first in made else 'does not come again'} among 64 new streams"


@fact("cuStreamGetCtx of a green context's stream")
def green_stream(driver):
    resource = ctypes.create_string_buffer(4096)
    driver.cuDeviceGetDevResource(driver.device, resource, ctypes.c_int(1))
    described = driver.made("cuDevResourceGenerateDesc", resource, ctypes.c_uint(1))
    green = driver.made("cuGreenCtxCreate", described, driver.device, ctypes.c_uint(1))
    stream = driver.made("cuGreenCtxStreamCreate", green, ctypes.c_uint(1), ctypes.c_int(0))
    context = driver.made("cuStreamGetCtx", stream)
    return "the primary context" if context == driver.context.value else "another context than the primary one"


@fact("device memory of 1 communicator, and of 8, of one rank each")
def communicators(driver):
    nccl = ctypes.CDLL("libnccl.so.2")
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    used = []
    for count in (0, 1, 7):
        for _ in range(count):
            made = ctypes.c_void_p()
            status = nccl.ncclCommInitAll(ctypes.byref(made), 1, (ctypes.c_int * 1)(0))
            if status != 0:
                return f"ncclCommInitAll: {status}"
        driver.cuMemGetInfo(ctypes.byref(free), ctypes.byref(total))
        used.append((total.value - free.value) / 2**20)
    return f"{used[1] - used[0]:.0f} MiB, {used[2] - used[0]:.0f} MiB"


@fact("planted: a fact that hangs")
def planted(_driver):
    time.sleep(3600)


def ask(name):
    try:
        return FACTS[name][1](Driver())
    except (DriverError, MissingFunction, OSError) as error:
        return f"not asked: {error}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--fact", action="append", choices=sorted(FACTS))
    parser.add_argument("--ask", choices=sorted(FACTS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ask:
        print(ask(options.ask), flush=True)
        os._exit(0)  # not to wait for a thread that is stuck in the driver
    print("| fact | answer | seconds |\n|---|---|---|", flush=True)
    for name in options.fact or [name for name in FACTS if name != "planted"]:
        text, function = FACTS[name]
        environment = dict(os.environ, **getattr(function, "environment", {}))
        start = time.monotonic()
        child = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--ask", name], env=environment,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            answer = child.communicate(timeout=options.seconds)[0].strip().splitlines()
            answer = answer[-1] if answer else f"exit status {child.returncode} without an answer"
        except subprocess.TimeoutExpired:
            child.kill()
            answer = "HANGS"
        print(f"| {text} | {answer.replace('|', '/')} | {time.monotonic() - start:.1f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
