"""Ports for tests that must name one before anybody listens."""

import errno
import pathlib
import random
import socket

LEAST_PORT = 10000
_EPHEMERAL = pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range")

_reserved = []  # until the test's process ends


def free_port():
    """For a listener that does not share. The kernel gives it to nobody: it hands out only the
    ephemeral ports, and each of them to any connection of the tests beside this one."""
    least_ephemeral = int(_EPHEMERAL.read_text().split()[0])
    for port in random.sample(range(LEAST_PORT, least_ephemeral), 100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                continue
            return port
    raise RuntimeError(f"100 ports of {LEAST_PORT}..{least_ephemeral - 1} are all in use")


def reserved_port():
    """For Tutti, whose listeners may use an address again: nobody else is given it."""
    probe = socket.socket()
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    probe.bind(("127.0.0.1", 0))
    _reserved.append(probe)
    return probe.getsockname()[1]
