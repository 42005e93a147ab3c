#!/usr/bin/env python3
"""A job on the hosts of the virtual machine (vm/rxe-vm --hosts N), each with an RDMA card of its own.

    tests/hosts/vm/rxe-vm --hosts 2 -- tests/hosts/rdma_job.py --ranks 2 -- \\
        build/bin/tutti perf all_reduce -b 1K -e 1K

runs inside the machine, starts the command as torchrun would, prints what every rank says, and ends
with the first exit status that is not 0. `--kill RANK` kills that rank with SIGKILL when another has
said the word of `--when`, and prints how long each of the others went on. `--cut HOST` takes the
network from that host's first card instead; its sockets stay. `--isolate HOST` loses all that the host
sends and all that is sent to it. With `--cards 2` there are half as many hosts, each with two cards.
"""

import argparse
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import job  # noqa: E402

CARDS = pathlib.Path("/sys/class/infiniband")


class VmHost:
    """Of the machine's script: `on` enters it."""

    def __init__(self, number, cards):
        self.number = number
        self.cards = cards
        self.ipv4 = f"10.78.0.{number + 1}"

    def start(self, *command, environment):
        names = ",".join(f"rxe{card}" for card in self.cards)
        own = {"TUTTI_RDMA_DEVICES": f"={names}", "TUTTI_SOCKET_IFNAME": "eth0"}
        return subprocess.Popen(["on", str(self.number), *map(str, command)],
                                env={**environment, **own}, text=True, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


class VmNetwork:
    def __init__(self, folder, cards):
        self.folder = pathlib.Path(folder)
        found = len(list(CARDS.iterdir()))
        hosts = found // cards
        self.hosts = [VmHost(number, range(number, hosts * cards, hosts)) for number in range(hosts)]


def watch(rank, process, said, lock):
    for line in process.stdout:
        with lock:
            said[rank].append(line)


def isolate(host):
    """In both directions: the switch's end of a cable loses what comes to the host."""
    subprocess.run(["netem", "loss 100%", str(host.number)], check=True)
    lose = ["root", "netem", "loss", "100%"]
    subprocess.run(["tc", "-n", f"h{host.number}", "qdisc", "replace", "dev", "eth0", *lose], check=True)
    for card in host.cards:
        subprocess.run(["netem", "loss 100%", str(card)], check=True)
        subprocess.run(["tc", "qdisc", "replace", "dev", f"r{card}", *lose], check=True)


def harm_when(processes, said, network, options):
    """SIGKILL for the process that `on` has become, or a host or a card without a network."""
    while not any(options.when in line for lines in said for line in lines):
        if all(process.poll() is not None for process in processes):
            return
        time.sleep(0.05)
    if options.kill is not None:
        processes[options.kill].send_signal(signal.SIGKILL)
    elif options.isolate is not None:
        isolate(network.hosts[options.isolate])
    else:
        subprocess.run(["ip", "link", "set", f"r{options.cut}", "down"], check=True)
    begun = time.monotonic()
    for rank, process in enumerate(processes):
        if rank != options.kill:
            process.wait(timeout=options.patience)
            print(f"rank {rank} ended {time.monotonic() - begun:.2f} s later")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=1, help="on each host")
    harm = parser.add_mutually_exclusive_group()
    harm.add_argument("--kill", type=int)
    harm.add_argument("--cut", type=int)
    harm.add_argument("--isolate", type=int)
    parser.add_argument("--cards", type=int, default=1, help="of each host")
    parser.add_argument("--when", default="#")
    parser.add_argument("--patience", type=float, default=600)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        network = VmNetwork(folder, options.cards)
        variables = {name: value for name, value in os.environ.items() if name.startswith("TUTTI_")}
        processes = job.Job(network, options.ranks).start(options.command, variables)
        said, lock = [[] for _ in processes], threading.Lock()
        readers = [threading.Thread(target=watch, args=(rank, process, said, lock))
                   for rank, process in enumerate(processes)]
        for reader in readers:
            reader.start()
        if any(one is not None for one in (options.kill, options.cut, options.isolate)):
            harm_when(processes, said, network, options)
        for process in processes:
            process.wait(timeout=options.patience)
        for reader in readers:
            reader.join()
        for rank, lines in enumerate(said):
            print("".join(f"{rank}: {line}" for line in lines), end="")
        return next((process.returncode for process in processes if process.returncode != 0), 0)


if __name__ == "__main__":
    sys.exit(main())
