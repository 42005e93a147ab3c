"""Ports for tests that must name one before anybody listens."""

import socket

_reserved = []  # until the test's process ends


def free_port():
    """For a listener that does not share: somebody else may be given it first."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def reserved_port():
    """For Tutti, whose listeners may use an address again: nobody else is given it."""
    probe = socket.socket()
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    probe.bind(("127.0.0.1", 0))
    _reserved.append(probe)
    return probe.getsockname()[1]
