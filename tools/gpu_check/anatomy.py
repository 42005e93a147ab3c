#!/usr/bin/env python3
"""What the pieces of a call cost: the host to put them into a stream, the device to do them.

    python3 tools/gpu_check/anatomy.py [--repeats N]

It prints rows of a Markdown table: what, us to enqueue it, us on the device (between two events around it, less
what two events have between them), medians. What this interpreter adds to each call of the driver is the first
row's. The second table is of a stream that waits for a word which the host
stores later: us from the store until the host sees the stream past it (median, 90th percentile, worst), alone, beside
a stream that copies all the time, and beside an idle process. The third one is of graphs: us of a launch until its
end."""

import argparse
import ctypes
import os
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cuda_driver import CAPTURE_THREAD_LOCAL, WAIT_64, WRITE_64, Driver, DriverError, MissingFunction  # pylint: disable=wrong-import-position

KIB = 1024
HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
NOTHING = HOST_FUNCTION(lambda data: None)


class Bench:
    def __init__(self, repeats):
        self.driver = Driver()
        self.repeats = repeats
        self.stream = self.driver.stream()
        self.begin, self.end = self.driver.event(True), self.driver.event(True)
        self.memory = self.driver.memory(64 << 20)
        self.target = self.driver.memory(64 << 20)
        self.words = self.driver.pinned(4096)
        ctypes.memset(self.words, 0, 4096)
        self.device_words = self.driver.memory(4096)
        self.driver.cuMemsetD8(self.device_words, ctypes.c_ubyte(0), 4096)
        self.empty_us = 0.0
        self.empty_us = self.cost([])[1]

    def cost(self, calls):
        """Medians of us to enqueue them and on the device."""
        enqueued, ran = [], []
        for _ in range(self.repeats + 2):
            self.driver.cuEventRecord(self.begin, self.stream)
            start = time.perf_counter()
            failed = [status for status in [call() for call in calls] if status]
            enqueued.append((time.perf_counter() - start) * 1e6)
            if failed:
                raise DriverError(self.driver.name_of(failed[0]))
            self.driver.cuEventRecord(self.end, self.stream)
            self.driver.cuStreamSynchronize(self.stream)
            ran.append(self.driver.elapsed_us(self.begin, self.end) - self.empty_us)
        return statistics.median(enqueued[2:]), statistics.median(ran[2:])

    def row(self, what, calls):
        """`calls`: a function that prepares them, since the driver may not have them."""
        try:
            enqueued, ran = self.cost(calls())
            print(f"| {what} | {enqueued:.1f} | {ran:.1f} |", flush=True)
        except (DriverError, MissingFunction) as error:
            print(f"| {what} | {error} | |", flush=True)

    def copies(self, count, size, source):
        return [(self.target + i * size, source + i * size, size) for i in range(count)]

    def one_by_one(self, copies, stream=None):
        return [self.driver.prepare("cuMemcpyAsync", target, origin, size, stream or self.stream)
                for target, origin, size in copies]

    def batch(self, copies, overlaps):
        return [self.driver.copy_batch(self.stream, copies, overlaps)]

    def copy_rows(self, source, whose):
        for size in (KIB, 128 * KIB, 1024 * KIB, 8192 * KIB):
            for count in (1, 7):
                some = self.copies(count, size, source)
                name = f"{count} x {size // KIB} KiB, {whose}"
                self.row(f"{name}: one call each", lambda some=some: self.one_by_one(some))
                self.row(f"{name}: one batch", lambda some=some: self.batch(some, False))
                self.row(f"{name}: one batch with the hint",
                         lambda some=some: self.batch(some, True))

    def word_rows(self):
        for place, words in (("pinned host memory", self.words), ("device memory", self.device_words)):
            for count in (1, 7, 15):
                waits = [(WAIT_64, words + 64 * i, 0) for i in range(count)]
                self.row(f"waits for {count} words that are there, {place}",
                         lambda waits=waits: [self.driver.operations(self.stream, waits)])
            self.row(f"1 write, {place}",
                     lambda words=words: [self.driver.operations(self.stream, [(WRITE_64, words + 2048, 1)])])

    def other_rows(self):
        side, event = self.driver.stream(), self.driver.event()
        self.row("host function", lambda: [self.driver.prepare("cuLaunchHostFunc", self.stream, NOTHING, 0)])

        def fork_and_join():
            return [call for first, second in ((self.stream, side), (side, self.stream))
                    for call in (self.driver.prepare("cuEventRecord", event, first),
                                 self.driver.prepare("cuStreamWaitEvent", second, event, ctypes.c_uint(0)))]
        self.row("fork to another stream by an event, and join", fork_and_join)

    def hand_overs(self, beside):
        found = []
        for i in range(1, 4 * self.repeats + 1):
            self.driver.check("cuStreamBatchMemOp", self.driver.operations(
                self.stream, [(WAIT_64, self.words + 1024, i), (WRITE_64, self.words + 3072, i)])())
            until = time.perf_counter() + 100e-6  # the wait is not satisfied at once
            while time.perf_counter() < until:
                pass
            beside()
            start = time.perf_counter()
            self.driver.store(self.words + 1024, i)
            while ctypes.c_uint64.from_address(self.words + 3072).value < i:
                pass
            found.append((time.perf_counter() - start) * 1e6)
        self.driver.store(self.words + 1024, 0)
        self.driver.store(self.words + 3072, 0)
        return sorted(found)

    def stall_rows(self):
        busy = self.driver.stream()

        def row(name, beside):
            times = self.hand_overs(beside)
            print(f"| {name} | {statistics.median(times):.1f} | {times[len(times) * 9 // 10]:.1f} | {times[-1]:.1f} |",
                  flush=True)
        row("alone", lambda: None)
        row("beside a stream that copies",
            lambda: self.driver.cuMemcpyAsync(self.target, self.memory, 8 << 20, busy))
        with Holder() as holder:
            row("beside an idle process" if holder.handle else "beside an idle process that has no memory",
                lambda: None)

    def graph_row(self, name, calls):
        try:
            self.driver.cuStreamBeginCapture(self.stream, ctypes.c_int(CAPTURE_THREAD_LOCAL))
            failed = [status for status in [call() for call in calls] if status]
            graph, run = ctypes.c_uint64(), ctypes.c_uint64()
            self.driver.cuStreamEndCapture(self.stream, ctypes.byref(graph))
            if failed:
                raise DriverError(self.driver.name_of(failed[0]))
            self.driver.cuGraphInstantiateWithFlags(ctypes.byref(run), graph, ctypes.c_ulonglong(0))
            times = []
            for _ in range(self.repeats + 2):
                start = time.perf_counter()
                self.driver.cuGraphLaunch(run.value, self.stream)
                self.driver.cuStreamSynchronize(self.stream)
                times.append((time.perf_counter() - start) * 1e6)
            print(f"| {name} | {statistics.median(times[2:]):.1f} |", flush=True)
        except (DriverError, MissingFunction) as error:
            print(f"| {name} | {error} |", flush=True)

    def beside_each_other(self, copies):
        """The first one in the stream, the others in streams that fork from it and join it again."""
        fork, join = self.driver.event(), self.driver.event()
        calls = [self.driver.prepare("cuEventRecord", fork, self.stream), *self.one_by_one(copies[:1])]
        for copy in copies[1:]:
            side = self.driver.stream()
            calls += [self.driver.prepare("cuStreamWaitEvent", side, fork, ctypes.c_uint(0)),
                      *self.one_by_one([copy], side), self.driver.prepare("cuEventRecord", join, side),
                      self.driver.prepare("cuStreamWaitEvent", self.stream, join, ctypes.c_uint(0))]
        return calls

    def graph_rows(self):
        some = self.copies(7, KIB, self.memory)
        waits = [(WAIT_64, self.words + 64 * i, 0) for i in range(7)]
        self.graph_row("1 copy", self.one_by_one(some[:1]))
        self.graph_row("7 copies one after the other", self.one_by_one(some))
        self.graph_row("7 copies beside each other", self.beside_each_other(some))
        self.graph_row("1 node of 7 waits", [self.driver.operations(self.stream, waits)])
        self.graph_row("a host function", [self.driver.prepare("cuLaunchHostFunc", self.stream, NOTHING, 0)])


class Holder:
    """Another process with 64 MiB of device memory, of which this one gets a handle."""

    def __enter__(self):
        self.child = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--hold"], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True)
        words = self.child.stdout.readline().split()
        self.handle = bytes.fromhex(words[1]) if len(words) == 2 else b""
        return self

    def __exit__(self, *_):
        self.child.stdin.close()
        self.child.wait()


def hold():
    driver = Driver()
    memory = driver.memory(64 << 20)
    handle = (ctypes.c_char * 64)()
    driver.cuIpcGetMemHandle(ctypes.byref(handle), memory)
    print("handle", bytes(handle).hex(), flush=True)
    sys.stdin.read()


class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 64)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--hold", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.hold:
        return hold()
    bench = Bench(options.repeats)
    print("| piece | us to enqueue | us on the device |\n|---|---|---|")
    bench.row("a call that does nothing", lambda: [bench.driver.prepare("cuDriverGetVersion", ctypes.byref(ctypes.c_int()))])
    bench.copy_rows(bench.memory, "within the device")
    with Holder() as holder:
        handle = Handle.from_buffer_copy(holder.handle or bytes(64))
        theirs = bench.driver.made("cuIpcOpenMemHandle", handle, ctypes.c_uint(1))
        bench.copy_rows(theirs, "from another process")
        bench.driver.cuIpcCloseMemHandle(theirs)
    bench.word_rows()
    bench.other_rows()
    print("\n| a wait whose word comes later | us, median | 90th percentile | worst |\n|---|---|---|---|")
    bench.stall_rows()
    print("\n| graph | us of a launch |\n|---|---|")
    bench.graph_rows()
    return 0


if __name__ == "__main__":
    sys.exit(main())
