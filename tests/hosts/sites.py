#!/usr/bin/env python3
"""Sites of emulated hosts: the hosts of a site are joined by its switch (hosts.py), and a router
joins the site to the others by one link, which may be slow or long.

    tests/hosts/sites.py --sites 2x3 --host-rate 400mbit --wan-rate 20mbit -- \\
        build/bin/tutti perf all_reduce -b 1M -e 1M

starts the command as the ranks of one job, with a cluster file that says where they are, and prints
what rank 0 says and what the links between the sites carried. It needs what hosts.py needs.
"""

import argparse
import contextlib
import json
import pathlib
import re
import subprocess
import sys
import time

import hosts
import job

LATENCY_US = {"wan": 1000, "site": 50, "host": 1}
NOT_HERE = 77  # the exit status where there can be no such network
DELAYED_SWITCH = pathlib.Path(__file__).resolve().parent / "delayed_switch.py"
HOST_GBIT_PER_S = 10  # what a veth pair carries, about


def parse_shape(text):
    """How many hosts each site has: "2x3" are two sites of three, "3+2+1" three that differ."""
    if re.fullmatch(r"[1-9]\d*x[1-9]\d*", text):
        sites, each = map(int, text.split("x"))
        return [each] * sites
    if re.fullmatch(r"[1-9]\d*(\+[1-9]\d*)+", text):
        return [int(each) for each in text.split("+")]
    raise argparse.ArgumentTypeError(f"'{text}' is not like 2x3 or 3+2+1")


def gigabits(rate):
    """Of "20mbit" or "1gbit", as tc has them."""
    found = re.fullmatch(r"([\d.]+)(kbit|mbit|gbit)", rate)
    if found is None:
        raise argparse.ArgumentTypeError(f"'{rate}' is no rate like 20mbit")
    return float(found[1]) * {"kbit": 1e-6, "mbit": 1e-3, "gbit": 1}[found[2]]


class Site(hosts.Network):
    """Its switch is its router, too, whose interface to the other sites is `wan`."""

    UPLINK = "wan"

    def __init__(self, number):
        super().__init__(subnet=number)
        self.number = number
        self.gateway = f"10.77.{number}.254"

    def _make_switch(self):
        super()._make_switch()
        self._switch.write("/proc/sys/net/ipv4/ip_forward", "1")
        self._switch.ip(f"address add {self.gateway}/24 dev switch", "link set lo up")

    def add(self, name, **more):
        host = super().add(name, **more)
        host.ip(f"route add default via {self.gateway}")
        return host

    def join(self, wan, port, sites, rate):
        """By a cable to the port of the switch between the sites."""
        wan.ip(f"link add {port} type veth peer name {self.UPLINK} netns {self._switch.pid}",
               f"link set {port} master switch up")
        self._switch.ip(f"address add 10.78.0.{self.number}/24 dev {self.UPLINK}",
                        f"link set {self.UPLINK} up",
                        *(f"route add 10.77.{other}.0/24 via 10.78.0.{other}"
                          for other in range(1, sites + 1) if other != self.number))
        self._switch.await_carriers(self.UPLINK)
        if rate is not None:
            self._switch.shape(self.UPLINK, hosts.rate_limit(rate))

    def uplink(self):
        """What has left the site is `sent`."""
        return self._switch.counters(self.UPLINK)


class Sites:
    """A context. `shape`: how many hosts each site has. Rates are of each direction of a link, of
    hosts' and of sites'. `wan_delay_ms`: what comes to a site comes so much later. `wan`: in place of
    the last two what tc's netem does to what comes to a site, such as "delay 20ms"."""

    def __init__(self, shape, host_rate=None, wan_rate=None, wan=None, wan_delay_ms=None):
        self.shape = shape
        self._host_rate = host_rate
        self._wan_rate = wan_rate
        self._netem = wan
        self._delay_ms = wan_delay_ms
        self._delayed = None
        self.sites = []

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self._wan = stack.enter_context(contextlib.closing(hosts.Space()))
            self._wan.ip("link add switch type bridge", "link set switch up")
            for number, size in enumerate(self.shape, start=1):
                site = stack.enter_context(Site(number))
                self.sites.append(site)
                for host in range(1, size + 1):
                    site.add(f"site{number}-host{host}", rate=self._host_rate)
                self._join(site)
            if self._delay_ms is not None:
                self._delay()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self._stack.close()
        if self._delayed is not None:  # it has ended with the space that it was in
            self._delayed.communicate()

    def _delay(self):
        """By a switch of ours in place of the kernel's."""
        ports = [f"site{site.number}" for site in self.sites]
        self._wan.ip(*(f"link set {port} nomaster" for port in ports))
        self._delayed = subprocess.Popen(
            self._wan.entering(sys.executable, DELAYED_SWITCH, self._delay_ms, *ports), text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if self._delayed.stdout.readline() != "ready\n":
            raise hosts.Unavailable(f"delayed_switch.py: {self._delayed.communicate()[1].strip()}")

    def _join(self, site):
        port = f"site{site.number}"
        site.join(self._wan, port, len(self.shape), self._wan_rate)
        if self._wan_rate is not None:
            self._wan.shape(port, hosts.rate_limit(self._wan_rate))
        elif self._netem is not None:
            self._set_netem(port)

    def _set_netem(self, port):
        self._wan.shape(port, ["netem", *self._netem.split(), "limit", "100000"])

    def set_netem(self, wan):
        """From now on, for all sites."""
        self._netem = wan
        for site in self.sites:
            self._set_netem(f"site{site.number}")

    @property
    def hosts(self):
        return [host for site in self.sites for host in site.hosts]

    @property
    def folder(self):
        return self.sites[0].folder

    def cut_off(self, site):
        """The cable of its uplink is pulled out of the switch between the sites."""
        self._wan.ip(f"link set site{site.number} down")

    def uplinks(self):
        return [site.uplink() for site in self.sites]

    def describe(self, counts):
        """A cluster file of a job with so many ranks on each host; returns its path."""
        one_way_us = delay_us(self._netem) if self._delay_ms is None else self._delay_ms * 1e3
        latency_us = {**LATENCY_US, **({} if one_way_us is None else {"wan": one_way_us})}
        counts = iter(counts)
        host_rate = HOST_GBIT_PER_S if self._host_rate is None else gigabits(self._host_rate)
        wan_rate = (gigabits(self._wan_rate) if self._wan_rate is not None
                    else rate_gbit(self._netem) or HOST_GBIT_PER_S)
        rates = {"wan": {"port_Gbit_per_s": wan_rate}, "site": {"port_Gbit_per_s": host_rate}}
        levels = [{"name": name, "latency_us": latency_us[name], **rates.get(name, {})}
                  for name in ("wan", "site", "host")]
        tree = {"children": [{"name": f"site{site.number}",
                              "children": [{"name": host.name, "ranks": next(counts)}
                                           for host in site.hosts]} for site in self.sites]}
        path = self.folder / "cluster.json"
        path.write_text(json.dumps({"tutti_topology": 1, "levels": levels, "tree": tree}, indent=1),
                        encoding="utf-8")
        return path


def delay_us(netem):
    """One way, of netem's words; None where they say nothing of it."""
    found = re.search(r"\bdelay ([\d.]+)(us|ms|s)\b", netem or "")
    return found and float(found[1]) * {"us": 1, "ms": 1e3, "s": 1e6}[found[2]]


def rate_gbit(netem):
    """Of netem's words, in Gbit/s; None where they say nothing of it."""
    found = re.search(r"\brate (\S+)", netem or "")
    return found and gigabits(found[1])


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--sites", type=parse_shape, default=[3, 3], metavar="SHAPE", help="2x3, or 3+2+1")
    add("--ranks", default="1", help="on each host; or a number for each: 2,1,1,2,1,1")
    add("--host-rate", metavar="RATE", help="of each host's link, as tc has it: 400mbit")
    wan = parser.add_mutually_exclusive_group()
    wan.add_argument("--wan-rate", metavar="RATE", help="of each site's link to the others")
    wan.add_argument("--wan", metavar="NETEM", help="in its place: what tc's netem does there, such"
                     " as 'delay 20ms'; the kernel may not have it (rxe-vm's has)")
    add("--wan-delay", type=float, metavar="MS", help="what comes to a site comes so many milliseconds"
        " later, by a switch that needs no netem; also with --wan-rate")
    add("--env", action="append", default=[], metavar="NAME=VALUE", help="a variable of the ranks")
    add("--timeout", type=float, default=600, help="in seconds")
    add("command", nargs="+")
    options = parser.parse_args()
    if options.wan is not None and options.wan_delay is not None:
        parser.error("--wan-delay: let --wan say the delay")
    for rate in (options.host_rate, options.wan_rate):
        if rate is not None:
            try:
                gigabits(rate)
            except argparse.ArgumentTypeError as wrong:
                parser.error(str(wrong))
    counts = [int(count) for count in options.ranks.split(",")]
    options.counts = counts * sum(options.sites) if len(counts) == 1 else counts
    if len(options.counts) != sum(options.sites) or min(options.counts) < 1:
        parser.error(f"--ranks: there are {sum(options.sites)} hosts, each with a rank or more")
    return options


def run(options):
    """The greatest exit status of a rank."""
    network = Sites(options.sites, options.host_rate, options.wan_rate, options.wan,
                    options.wan_delay)
    with network:
        common = {"TUTTI_TOPOLOGY": network.describe(options.counts),
                  **dict(text.partition("=")[::2] for text in options.env)}
        before = network.uplinks()
        since = time.monotonic()
        done = job.finish(job.Job(network, options.counts).start(options.command, common),
                          options.timeout)
        sys.stdout.write(done[0][0])
        print(f"# {time.monotonic() - since:.1f} s")
        for site, earlier in zip(network.sites, before):
            moved = site.uplink() - earlier
            print(f"# site{site.number}: {moved.sent.bytes} bytes left, {moved.received.bytes} came")
        for rank, (output, status) in enumerate(done):
            if rank > 0 and status != 0:
                print(f"rank {rank} ended with {status}:\n{output}", file=sys.stderr)
        return max(abs(status) for _, status in done)


def main():
    options = parse_options()
    hosts.end_when_asked()
    try:
        reason = hosts.why_not()
        if reason == "":
            return run(options)
    except hosts.Unavailable as wrong:
        reason = str(wrong).strip()
    print(f"sites.py: {reason}", file=sys.stderr)
    return NOT_HERE


if __name__ == "__main__":
    sys.exit(main())
