"""Slurm for one test: a controller and a node on this host, with folders and ports of their own."""

import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

from ports import free_port

PROGRAMS = ("slurmctld", "slurmd", "srun", "sinfo", "munged")
PATIENCE_S = 200
STARTS = 3

CONFIGURATION = """\
ClusterName=tutti
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs=64 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def path_of(program):
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def installed():
    return os.geteuid() == 0 and all(path_of(program) for program in PROGRAMS)


class DaemonEnded(RuntimeError):
    pass


class Cluster:
    """A context: the daemons run inside it."""

    def __enter__(self):
        for _ in range(STARTS - 1):
            try:
                return self._enter()
            except DaemonEnded as ended:  # as when somebody took its port meanwhile
                print(ended, file=sys.stderr)
        return self._enter()

    def _enter(self):
        self._temporary = tempfile.TemporaryDirectory()
        self._folder = pathlib.Path(self._temporary.name)
        self._folder.chmod(0o755)  # munge's socket refuses less
        self._daemons = []
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for daemon in reversed(self._daemons):
            daemon.terminate()
            try:
                daemon.wait(timeout=PATIENCE_S)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self._temporary.cleanup()

    def srun(self, *arguments, environment):
        command = [path_of("srun"), "--overcommit", *arguments]
        return subprocess.run(command, text=True, capture_output=True, timeout=PATIENCE_S,
                              env={**environment, "SLURM_CONF": str(self._configuration)})

    def _start(self):
        folder = self._folder
        for name in ("state", "spool"):
            (folder / name).mkdir()
        key = folder / "munge.key"
        key.touch(mode=0o400)
        key.write_bytes(os.urandom(1024))
        self._configuration = folder / "slurm.conf"
        self._configuration.write_text(CONFIGURATION.format(
            host=socket.gethostname().split(".")[0], folder=folder,
            controller_port=free_port(), node_port=free_port()))
        self._daemon("munged", "--foreground", "--force", f"--key-file={key}",
                     f"--socket={folder}/munge.socket", f"--pid-file={folder}/munged.pid",
                     f"--log-file={folder}/munged.log", f"--seed-file={folder}/munged.seed")
        self._until((folder / "munge.socket").exists, "munged to listen")
        self._daemon("slurmctld", "-D", "-f", str(self._configuration))
        self._daemon("slurmd", "-D", "-f", str(self._configuration))
        self._until(self._node_is_idle, "the node to be idle")

    def _daemon(self, program, *arguments):
        with open(self._folder / f"{program}.out", "w") as output:
            self._daemons.append(subprocess.Popen([path_of(program), *arguments], stdout=output,
                                                  stderr=subprocess.STDOUT))

    def _node_is_idle(self):
        command = [path_of("sinfo"), "-h", "-o", "%T"]
        result = subprocess.run(command, text=True, capture_output=True, timeout=PATIENCE_S,
                                env={**os.environ, "SLURM_CONF": str(self._configuration)})
        return result.stdout.strip() == "idle"

    def _until(self, condition, what):
        end = time.monotonic() + PATIENCE_S
        while not condition():
            outputs = "".join(path.read_text() for path in self._folder.glob("*.out"))
            for daemon in self._daemons:
                if daemon.poll() is not None:
                    raise DaemonEnded(f"{daemon.args[0]} ended instead of {what}\n{outputs}")
            if time.monotonic() > end:
                raise RuntimeError(f"waited {PATIENCE_S} s for {what}\n{outputs}")
            time.sleep(0.1)
