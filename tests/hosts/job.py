"""A job on the hosts of a test: its ranks are started as torchrun would start them, host by host."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from environment import clean_environment  # noqa: E402

PORT = 29500  # nothing else listens on a host that was made for the test
PATIENCE_S = 60


class Job:
    """`each`: how many ranks every host has, one number or one for each host. The key of the jobs
    on a network lies in its folder."""

    def __init__(self, network, each):
        self.hosts = network.hosts
        self.counts = [each] * len(self.hosts) if isinstance(each, int) else list(each)
        if len(self.counts) != len(self.hosts):
            raise ValueError(f"{len(self.counts)} numbers of ranks for {len(self.hosts)} hosts")
        self.ranks = sum(self.counts)
        self.key = network.folder / "key"
        if not self.key.exists():
            self.key.touch(mode=0o600)
            self.key.write_text("7" * 64 + "\n", encoding="utf-8")

    def places(self):
        """The host of each rank, and its number there."""
        return [(number, local) for number, count in enumerate(self.counts)
                for local in range(count)]

    def start(self, command, common=None, only=None):
        """Every rank's process, or those of `only` some. `command` may be a function of the rank.
        `common`: variables of all of them; None takes one away."""
        shared = {"WORLD_SIZE": self.ranks, "MASTER_ADDR": self.hosts[0].ipv4, "MASTER_PORT": PORT,
                  "TUTTI_KEY_FILE": self.key}
        processes = []
        places = self.places()
        for rank in range(self.ranks) if only is None else only:
            number, local = places[rank]
            own = {"LOCAL_WORLD_SIZE": self.counts[number], "RANK": rank, "LOCAL_RANK": local}
            variables = {**clean_environment(), **shared, **own, **(common or {})}
            processes.append(self.hosts[number].start(
                *(command(rank) if callable(command) else command),
                environment={name: str(value) for name, value in variables.items()
                             if value is not None}))
        return processes


def finish(processes, patience_s=PATIENCE_S):
    """What every process said, and its exit status."""
    return [(process.communicate(timeout=patience_s)[0], process.returncode)
            for process in processes]
