#!/usr/bin/env python3
"""A switch that holds every frame for a time before it hands it on: for kernels without tc's netem.

    delayed_switch.py MILLISECONDS PORT PORT...

The ports are interfaces that nothing else forwards between. Frames keep their order, and come to a
port that learned their target, or to all others. What an interface does with what it sends (a rate)
happens behind the delay. Prints "ready" and works until it is killed. It has no threads and hands
on what the kernel has put together (up to 64 KiB at once), so it is fast enough for some Gb/s.
"""

import collections
import select
import socket
import sys
import time

ETH_P_ALL = 3
SOL_PACKET, PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING = 263, 15, 23
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33
HEADER = 10  # struct virtio_net_hdr: checksums and segments that the kernel left for later
FRAME = HEADER + 14 + (1 << 16)
BUFFER = 64 << 20
BATCH = 64  # frames of a port before the others have a turn


def open_port(name):
    port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    port.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    port.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    for option in (SO_SNDBUFFORCE, SO_RCVBUFFORCE):
        port.setsockopt(socket.SOL_SOCKET, option, BUFFER)
    port.bind((name, 0))
    port.setblocking(False)
    return port


class Switch:
    def __init__(self, delay_s, ports):
        self._delay_s = delay_s
        self._ports = ports
        self._port_of = {}  # by the address of an interface behind it
        self._held = collections.deque()  # (when it is due, where it came in, the frame)

    def take(self, port):
        for _ in range(BATCH):
            try:
                frame = port.recv(FRAME)
            except OSError:  # nothing more, or the cable is out
                return
            self._port_of[frame[HEADER + 6:HEADER + 12]] = port
            self._held.append((time.monotonic() + self._delay_s, port, frame))

    def hand_on(self):
        while self._held and self._held[0][0] <= time.monotonic():
            _, source, frame = self._held.popleft()
            target = self._port_of.get(frame[HEADER:HEADER + 6])
            for port in self._ports if target is None else [target]:
                if port is source:
                    continue
                try:
                    port.send(frame)
                except OSError:
                    pass  # its queue is full, or its cable is out: the frame is lost

    def run(self):
        while True:
            wait_s = max(0.0, self._held[0][0] - time.monotonic()) if self._held else None
            for port in select.select(self._ports, [], [], wait_s)[0]:
                self.take(port)
            self.hand_on()


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    switch = Switch(float(sys.argv[1]) / 1000, [open_port(name) for name in sys.argv[2:]])
    print("ready", flush=True)
    switch.run()


if __name__ == "__main__":
    main()
