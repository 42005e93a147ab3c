#!/usr/bin/env python3
"""One rank of a timed loop by NCCL's interface, whatever library has it: for beside_nccl.py, which starts it.

    python3 tools/gpu_check/nccl_rank.py --library PATH --rank R --ranks N --id FILE --most BYTES

It reads lines "COLLECTIVE BYTES WAY CALLS" and answers each with one of JSON: us of a call in a row, us until a
call has returned, us of processor time of a call, medians of three rounds; or "why" there are none. BYTES is the
larger buffer. WAY: "eager", "captured" (a graph of one call), either one with " registered" (windows) or " in_place"
behind it, joined by "+"."""

import argparse
import ctypes
import json
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cuda_driver import CAPTURE_THREAD_LOCAL, Driver, DriverError  # pylint: disable=wrong-import-position

FLOAT, SUM = ctypes.c_int(7), ctypes.c_int(0)
SYMMETRIC = 1
ROUNDS = 3


class UniqueId(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]


class Refused(Exception):
    """The library cannot do it so."""


class Rank:
    def __init__(self, options):
        self.driver = Driver()
        self.nccl = ctypes.CDLL(options.library, mode=os.RTLD_NOW | os.RTLD_LOCAL | os.RTLD_DEEPBIND)
        self.rank, self.ranks = options.rank, options.ranks
        self.comm = ctypes.c_void_p()
        self.call("ncclCommInitRank", ctypes.byref(self.comm), ctypes.c_int(self.ranks), self.meet(options.id),
                  ctypes.c_int(self.rank))
        self.stream = self.driver.stream()
        self.plain = [self.driver.memory(options.most) for _ in range(2)]
        self.windows = None
        self.most = options.most

    def call(self, name, *arguments):
        function = getattr(self.nccl, name, None)
        if function is None:
            raise Refused(f"it has no {name}")
        wide = [ctypes.c_size_t(one) if isinstance(one, int) else one for one in arguments]
        status = function(*wide)
        if status != 0:
            raise Refused(f"{name}: {status}")

    def meet(self, path):
        made = UniqueId()
        if self.rank == 0:
            self.call("ncclGetUniqueId", ctypes.byref(made))
            with open(path + ".part", "wb") as file:
                file.write(bytes(made))
            os.rename(path + ".part", path)
            return made
        while not os.path.exists(path):
            time.sleep(0.01)
        with open(path, "rb") as file:
            return UniqueId.from_buffer_copy(file.read())

    def registered(self):
        """Both buffers, by ncclMemAlloc, in windows; the library's reason if it has none."""
        if self.windows is None:
            buffers = []
            for _ in range(2):
                memory, window = ctypes.c_void_p(), ctypes.c_void_p()
                self.call("ncclMemAlloc", ctypes.byref(memory), self.most)
                self.call("ncclCommWindowRegister", self.comm, memory, self.most, ctypes.byref(window),
                          ctypes.c_int(SYMMETRIC))
                buffers.append(memory.value)
            self.windows = buffers
        return self.windows

    def collective(self, name, size, send, recv, in_place):
        """A function that puts one call into the stream."""
        count, share = size // 4, size // 4 // self.ranks
        mine = 4 * share * self.rank
        if name == "all_reduce":
            return self.prepare("ncclAllReduce", recv if in_place else send, recv, count, FLOAT, SUM)
        if name == "all_gather":
            return self.prepare("ncclAllGather", recv + mine if in_place else send, recv, share, FLOAT)
        if name == "reduce_scatter":
            return self.prepare("ncclReduceScatter", send, send + mine if in_place else recv, share, FLOAT, SUM)
        if name == "all_to_all" and hasattr(self.nccl, "ncclAlltoAll"):
            return self.prepare("ncclAlltoAll", send, recv, share, FLOAT)
        return self.group(name, count, share, send, recv)

    def prepare(self, name, *arguments):
        function = getattr(self.nccl, name)
        wide = [ctypes.c_size_t(one) if isinstance(one, int) else one for one in arguments]
        stream = ctypes.c_void_p(self.stream)
        return lambda: function(*wide, self.comm, stream)

    def group(self, name, count, share, send, recv):
        """Of send and receive with the next and the last rank, or with all."""
        following, previous = (self.rank + 1) % self.ranks, (self.rank - 1) % self.ranks
        pairs = [("ncclSend", send, count, following), ("ncclRecv", recv, count, previous)]
        if name == "all_to_all":
            pairs = [(function, buffer + 4 * share * peer, share, peer) for peer in range(self.ranks)
                     for function, buffer in (("ncclSend", send), ("ncclRecv", recv))]
        calls = [self.prepare(function, buffer, elements, FLOAT, ctypes.c_int(peer))
                 for function, buffer, elements, peer in pairs]
        begin, end = self.nccl.ncclGroupStart, self.nccl.ncclGroupEnd

        def all_of_them():
            return begin() or max(call() for call in calls) or end()
        return all_of_them

    def captured(self, call):
        self.driver.cuStreamBeginCapture(self.stream, ctypes.c_int(CAPTURE_THREAD_LOCAL))
        status = call()
        graph, run = ctypes.c_uint64(), ctypes.c_uint64()
        self.driver.cuStreamEndCapture(self.stream, ctypes.byref(graph))
        if status != 0:
            raise Refused(f"captured: {status}")
        self.driver.cuGraphInstantiateWithFlags(ctypes.byref(run), graph, ctypes.c_ulonglong(0))
        return self.driver.prepare("cuGraphLaunch", run.value, self.stream)

    def time(self, name, size, way, calls):
        words = way.split("+")
        send, recv = self.registered() if "registered" in words else self.plain
        call = self.collective(name, size, send, recv, "in_place" in words)
        if "captured" in words:
            call = self.captured(call)
        self.several(call, 2)
        rounds = [self.several(call, calls) for _ in range(ROUNDS)]
        return [statistics.median(column) for column in zip(*rounds)]

    def several(self, call, calls):
        """us of each: in a row until the stream's end, until it has returned, of processor time."""
        processor, start = time.process_time(), time.perf_counter()
        for _ in range(calls):
            status = call()
            if status != 0:
                raise Refused(f"the call: {status}")
        returned = time.perf_counter()
        used = time.process_time() - processor
        self.driver.cuStreamSynchronize(self.stream)
        return ((time.perf_counter() - start) * 1e6 / calls, (returned - start) * 1e6 / calls, used * 1e6 / calls)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--id", required=True)
    parser.add_argument("--most", type=int, required=True)
    rank = Rank(parser.parse_args())
    version = ctypes.c_int()
    rank.call("ncclGetVersion", ctypes.byref(version))
    print(json.dumps({"version": version.value}), flush=True)
    for line in sys.stdin:
        name, size, way, calls = line.split()
        try:
            each, returned, used = rank.time(name, int(size), way, int(calls))
            answer = {"us": each, "enqueue_us": returned, "processor_us": used}
        except (Refused, DriverError) as why:
            answer = {"why": str(why)}
        print(json.dumps(answer), flush=True)
    os._exit(0)  # the peers may be gone


if __name__ == "__main__":
    main()
