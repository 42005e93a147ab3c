#!/usr/bin/env python3
"""A job on the hosts of the virtual machine (vm/rxe-vm --hosts N), each with an RDMA card of its own.

    tests/hosts/vm/rxe-vm --hosts 2 -- tests/hosts/rdma_job.py --ranks 2 -- \\
        build/bin/tutti perf all_reduce -b 1K -e 1K

runs inside the machine, starts the command as torchrun would, prints what every rank says, and ends
with the first exit status that is not 0. `--kill RANK` kills that rank with SIGKILL when another has
said the word of `--when`, and prints how long each of the others went on. `--cut HOST` takes the
network from that host's card instead; its sockets stay.
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

    def __init__(self, number):
        self.number = number
        self.ipv4 = f"10.78.0.{number + 1}"

    def start(self, *command, environment):
        own = {"TUTTI_RDMA_DEVICES": f"=rxe{self.number}", "TUTTI_SOCKET_IFNAME": "eth0"}
        return subprocess.Popen(["on", str(self.number), *map(str, command)],
                                env={**environment, **own}, text=True, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


class VmNetwork:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.hosts = [VmHost(number) for number in range(len(list(CARDS.iterdir())))]


def watch(rank, process, said, lock):
    for line in process.stdout:
        with lock:
            said[rank].append(line)


def harm_when(processes, said, options):
    """SIGKILL for the process that `on` has become, or a card without a network."""
    while not any(options.when in line for lines in said for line in lines):
        if all(process.poll() is not None for process in processes):
            return
        time.sleep(0.05)
    if options.kill is not None:
        processes[options.kill].send_signal(signal.SIGKILL)
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
    parser.add_argument("--when", default="#")
    parser.add_argument("--patience", type=float, default=600)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        network = VmNetwork(folder)
        variables = {name: value for name, value in os.environ.items() if name.startswith("TUTTI_")}
        processes = job.Job(network, options.ranks).start(options.command, variables)
        said, lock = [[] for _ in processes], threading.Lock()
        readers = [threading.Thread(target=watch, args=(rank, process, said, lock))
                   for rank, process in enumerate(processes)]
        for reader in readers:
            reader.start()
        if options.kill is not None or options.cut is not None:
            harm_when(processes, said, options)
        for process in processes:
            process.wait(timeout=options.patience)
        for reader in readers:
            reader.join()
        for rank, lines in enumerate(said):
            print("".join(f"{rank}: {line}" for line in lines), end="")
        return next((process.returncode for process in processes if process.returncode != 0), 0)


if __name__ == "__main__":
    sys.exit(main())
