"""Hosts for one test, on this machine: each is a network, UTS, IPC and mount namespace of its own,
and a veth pair joins it to a bridge, which is in a namespace, too.

Nothing of it has a name, a file or an interface outside. A namespace lives as long as a process in
it: here a `cat` that ends when its end of a pipe does, and ranks that the kernel kills when this
process ends. So nothing is left behind, however the test ends.

Not separate, because the kernel has them once: the boot id, the clock, processes, the file system.
"""

import contextlib
import ctypes
import ipaddress
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import typing

PATIENCE_S = 60
PROGRAMS = ("ip", "tc", "unshare", "nsenter", "mount", "cat", "sh")
SPACES = ("--net", "--uts", "--ipc", "--mount")
TBF = ("burst", "64kb", "latency", "100ms")
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


class Unavailable(Exception):
    """Why there can be no such hosts here."""


def end_when_asked():
    """SIGTERM ends this program by an exception, so that its networks end with what runs there. For
    programs that start what others start further: that does not end by itself."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def path_of(program):
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def why_not():
    """Why there can be no hosts here; "" where there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [program for program in PROGRAMS if path_of(program) is None]
    if missing:
        return f"not installed: {', '.join(missing)} (iproute2, util-linux)"
    try:
        with Network() as network:
            network.add("probe", rate="100mbit")
    except Unavailable as reason:
        return f"this kernel or container gives no namespaces with veth, bridge and tbf: {reason}"
    return ""


def rate_limit(rate):
    """What an interface does with what it sends, as tc has it: no more than "20mbit"."""
    return ["tbf", "rate", rate, *TBF]


def namespace_of(process):
    """None if it has ended."""
    try:
        return os.readlink(f"/proc/{process}/ns/net")
    except OSError:
        return None


class Traffic(typing.NamedTuple):
    """Bytes with all headers, and packets: what the kernel hands on as one counts as one, and has
    one header."""

    bytes: int
    packets: int

    def __sub__(self, earlier):
        return Traffic(self.bytes - earlier.bytes, self.packets - earlier.packets)


class Counters(typing.NamedTuple):
    received: Traffic
    sent: Traffic

    def __sub__(self, earlier):
        return Counters(self.received - earlier.received, self.sent - earlier.sent)


class Space:
    """Namespaces, kept by one sleeping process."""

    def __init__(self):
        self._keeper = subprocess.Popen([path_of("unshare"), *SPACES, path_of("cat")], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)
        try:
            self._keeper.stdin.write("made\n")
            self._keeper.stdin.flush()
        except BrokenPipeError:
            pass
        if self._keeper.stdout.readline() != "made\n":
            raise Unavailable(self._keeper.communicate()[1].strip() or "unshare ended")

    @property
    def pid(self):
        return self._keeper.pid

    def entering(self, *command):
        """The command line that runs a command in here; the process is the command's own."""
        return [path_of("nsenter"), f"--target={self.pid}", *SPACES, f"--wd={os.getcwd()}", "--",
                *map(str, command)]

    def run(self, *command, stdin=""):
        done = subprocess.run(self.entering(*command), input=stdin, text=True, capture_output=True,
                              timeout=PATIENCE_S)
        if done.returncode != 0:
            raise Unavailable(f"{' '.join(map(str, command))}: {done.stderr.strip()}\n{stdin}")
        return done.stdout

    def ip(self, *commands):
        """Commands of `ip`, without the word."""
        self.run(path_of("ip"), "-batch", "-", stdin="\n".join(commands) + "\n")

    def write(self, path, text):
        """To a file of the kernel's that shows this namespace."""
        self.run(path_of("sh"), "-c", f"printf %s '{text}' > {path}")

    def await_carriers(self, *interfaces):
        """The kernel tells of a new cable when it finds the time."""
        end = time.monotonic() + PATIENCE_S
        for interface in interfaces:
            while "state UP" not in self.run(path_of("ip"), "link", "show", interface):
                if time.monotonic() > end:
                    raise Unavailable(f"{interface} has no carrier")
                time.sleep(0.01)

    def shape(self, interface, discipline):
        """`discipline`: words of tc, for what the interface sends."""
        self.run(path_of("tc"), "qdisc", "replace", "dev", interface, "root", *discipline)

    def counters(self, interface):
        """What the kernel counts there, since it was made."""
        for line in self.run("cat", "/proc/net/dev").splitlines():
            name, _, numbers = line.partition(":")
            if name.strip() == interface:
                numbers = list(map(int, numbers.split()))
                return Counters(received=Traffic(*numbers[:2]), sent=Traffic(*numbers[8:10]))
        raise Unavailable(f"no interface {interface}")

    def close(self):
        """Ends every process in here."""
        here = namespace_of(self.pid)
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            if here is not None and namespace_of(process.name) == here:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(process.name), signal.SIGKILL)
        self._keeper.communicate()


class Host(Space):
    """Joined to its network by eth0. Others call it by .ipv4 and .ipv6."""

    def __init__(self, network, name, number):
        super().__init__()
        self._network = network
        self.name = name
        self.port = f"port{number}"
        self.ipv4 = f"10.77.{network.subnet}.{number}"
        self.ipv6 = str(ipaddress.IPv6Address(f"fd77:0:0:{network.subnet}::{number}"))
        self.processes = []

    def name_addresses(self, **names):
        """What names mean here: the file /etc/hosts, as only this host sees it."""
        text = "127.0.0.1 localhost\n" + "".join(f"{to} {name}\n" for name, to in names.items())
        path = self._network.folder / f"hosts-{self.port}"
        path.write_text(text, encoding="utf-8")
        self.run("mount", "--bind", path, "/etc/hosts")

    def start(self, *command, environment):
        """A process here. It ends with the test. A card that this machine has, or the virtual one, is
        no part of the network."""
        variables = {"TUTTI_NCCL_IB_DISABLE": "1", **environment}
        process = subprocess.Popen(self.entering(*command), env=variables, text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT,
                                   preexec_fn=lambda: LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL))
        self.processes.append(process)
        return process

    def close(self):
        super().close()
        for process in self.processes:
            process.wait()
            process.stdout.close()


class Network:
    """A context: the hosts exist inside it. Its switch is a bridge."""

    def __init__(self, ipv4=True, ipv6=False, subnet=0):
        self.subnet = subnet
        self._ipv4 = ipv4
        self._ipv6 = ipv6
        self._switch = None
        self.hosts = []

    def __enter__(self):
        self._temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self._temporary.name)
        try:
            self._make_switch()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _make_switch(self):
        self._switch = Space()
        self._switch.ip("link add switch type bridge", "link set switch up")

    def __exit__(self, *_):
        for space in [*self.hosts, self._switch]:
            if space is not None:
                space.close()
        self._temporary.cleanup()

    def add(self, name, rate=None, before=()):
        """A new host. `before`: interfaces that it has before eth0, each a (kind, name, IPv4
        address): "bridge" as of containers, "nowhere" with a cable to nobody, "unplugged"."""
        host = Host(self, name, len(self.hosts) + 1)
        self.hosts.append(host)
        host.write("/proc/sys/kernel/hostname", name)
        host.ip("link set lo up")
        for kind, interface, address in before:
            self._add_interface(host, kind, interface, address)
        self._switch.ip(f"link add {host.port} type veth peer name eth0 netns {host.pid}",
                        f"link set {host.port} master switch up")
        addresses = [f"address add {host.ipv4}/24 dev eth0"] if self._ipv4 else []
        if self._ipv6:
            addresses.append(f"address add {host.ipv6}/64 dev eth0 nodad")
        host.ip(*addresses, "link set eth0 up")
        host.await_carriers("eth0", *(name for kind, name, _ in before if kind != "unplugged"))
        if rate is not None:
            for space, device in ((host, "eth0"), (self._switch, host.port)):
                space.shape(device, rate_limit(rate))
        return host

    def _add_interface(self, host, kind, interface, address):
        prefix = 16 if kind == "bridge" else 24
        if kind == "bridge":
            host.ip(f"link add {interface} type bridge", "link add box type veth peer name inside",
                    f"link set box master {interface} up", "link set inside up")
        else:
            far_end = f"{host.port}{interface}"
            self._switch.ip(f"link add {far_end} type veth peer name {interface} netns {host.pid}",
                            f"link set {far_end} {'up' if kind == 'nowhere' else 'down'}")
        host.ip(f"address add {address}/{prefix} dev {interface}", f"link set {interface} up")

    def cut_off(self, host):
        """Its cable is pulled out of the switch, and no end of it notices more than that."""
        self._switch.ip(f"link set {host.port} down")
