#!/usr/bin/env python3
"""Processes that a launcher started: mpirun where it is installed, else its variables in a loop."""

import ctypes.util
import itertools
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from environment import clean_environment  # noqa: E402
from ports import free_port, reserved_port  # noqa: E402
import slurm  # noqa: E402

BINARIES = pathlib.Path(os.environ.get("TEST_BINARY_DIR", "build")) / "bin"
PROGRAM = BINARIES / "tests" / "launched"
HERE = pathlib.Path(__file__).resolve().parent
RANKS = 3
COMMUNICATORS = 3  # that the program makes
EXPECTED_SUM = RANKS * (RANKS + 1) // 2


class Launched(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.runtime = self.folder / "runtime"
        self.runtime.mkdir(mode=0o700)
        self.common = {"TUTTI_SOCKET_IFNAME": "lo", "XDG_RUNTIME_DIR": str(self.runtime)}

    def tearDown(self):
        self.assertEqual(list(self.runtime.iterdir()), [], "something is left behind")

    def run_loop(self, common, own=lambda rank: {}, ranks=RANKS, command=(PROGRAM,)):
        """As a shell loop: every rank's (output, exit code)."""
        processes = []
        for rank in range(ranks):
            environment = {**clean_environment(), **self.common, **common, **own(rank)}
            processes.append(subprocess.Popen(list(map(str, command)), env=environment, text=True,
                                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
        return [(process.communicate(timeout=200)[0], process.returncode) for process in processes]

    def torchrun(self, common=None, command=(PROGRAM,)):
        """torchrun's variables for all ranks on this host."""
        shared = {"WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1",
                  "MASTER_PORT": str(reserved_port() - 1), "TORCHELASTIC_RUN_ID": "none",
                  **(common or {})}
        return self.run_loop(shared, lambda rank: {"RANK": str(rank), "LOCAL_RANK": str(rank)},
                             command=command)

    def assert_met(self, results, way):
        for rank, (output, code) in enumerate(results):
            self.assertEqual(code, 0, output)
            lines = output.splitlines()
            self.assertEqual(len(lines), COMMUNICATORS, output)
            for line in lines:
                self.assertIn(f"sum {EXPECTED_SUM}; rank {rank} of {RANKS} by ", line)
                self.assertIn(way, line)

    def assert_refused(self, results, *words):
        for output, code in results:
            self.assertEqual(code, 1, output)
            for word in words:
                self.assertIn(word, output)

    def key_file(self, digit="0"):
        path = self.folder / f"key{digit}"
        path.touch(mode=0o600)
        path.write_text(digit * 64 + "\n")
        return str(path)

    def test_one_host_needs_nothing(self):
        self.assert_met(self.torchrun(), "by torchrun; met by a file of this host")

    def test_dev_shm_is_not_needed(self):
        """64 KiB of it, as in a small container, or none that could be written."""
        for mounted in ("size=64k", "size=0,ro"):
            with self.subTest(mounted):
                mount = f'mount -t tmpfs -o {mounted} none /dev/shm && exec "$@"'
                here = ["unshare", "--mount", "sh", "-c", mount, "sh"]
                probe = subprocess.run([*here, "true"], capture_output=True, text=True,
                                       timeout=60)
                if probe.returncode != 0:
                    self.skipTest(f"no mounts of one's own here: {probe.stderr.strip()}")
                fill = "head -c 128K /dev/zero > /dev/shm/probe"
                filled = subprocess.run([*here, "sh", "-c", fill], capture_output=True,
                                        timeout=60)
                self.assertNotEqual(filled.returncode, 0, "there is room in /dev/shm")
                large = ["all_reduce", "--ranks", "4", "-b", "8M", "-e", "8M", "-n", "2"]
                done = subprocess.run([*here, BINARIES / "tutti", "perf", *large], text=True,
                                      capture_output=True, timeout=200, env=clean_environment())
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn("Out of bounds values : 0 OK", done.stdout)

    def test_a_read_only_tmp_is_an_error_for_all_ranks(self):
        """As readOnlyRootFilesystem of Kubernetes makes it."""
        if PROGRAM.resolve().is_relative_to("/tmp"):
            self.skipTest("the build is below /tmp")
        here = ["unshare", "--mount", "sh", "-c",
                'mount -t tmpfs -o ro none /tmp && exec "$0"']
        probe = subprocess.run([*here, "true"], capture_output=True, text=True, timeout=60)
        if probe.returncode != 0:
            self.skipTest(f"no mounts of one's own here: {probe.stderr.strip()}")
        results = self.torchrun({"XDG_RUNTIME_DIR": ""}, command=(*here, PROGRAM.resolve()))
        self.assert_refused(results, "Read-only file system", "set XDG_RUNTIME_DIR")

    def test_a_place_and_a_key(self):
        results = self.torchrun({"TUTTI_ID": f"127.0.0.1:{reserved_port()}",
                                 "TUTTI_KEY_FILE": self.key_file()})
        self.assert_met(results, "met by TUTTI_ID")
        results = self.torchrun({"NCCL_COMM_ID": f"127.0.0.1:{reserved_port()}",
                                 "TUTTI_KEY_FILE": self.key_file()})
        self.assert_met(results, "met by TUTTI_ID")

    def test_several_hosts_and_no_key(self):
        # Resolves to this host, but nobody can know that.
        several = {"MASTER_ADDR": "LOCALHOST"}
        self.assert_refused(self.torchrun(several), "TUTTI_KEY_FILE", "TUTTI_INSECURE=1")
        results = self.torchrun({**several, "TUTTI_INSECURE": "1", "TUTTI_LOG": "error"})
        self.assert_met(results, "met by MASTER_ADDR; WITHOUT A KEY")
        results = self.torchrun({**several, "TUTTI_KEY_FILE": self.key_file()})
        self.assert_met(results, "met by MASTER_ADDR")
        self.assertNotIn("WITHOUT", results[0][0])

    def test_a_rank_with_another_key_is_kept_out(self):
        shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "LOCALHOST", "TUTTI_PORT": str(reserved_port()),
                  "TUTTI_INIT_TIMEOUT": "3"}
        keys = [self.key_file("0"), self.key_file("1")]
        results = self.run_loop(shared, lambda rank: {"RANK": str(rank),
                                                      "TUTTI_KEY_FILE": keys[rank]}, ranks=2)
        self.assert_refused(results)
        self.assertIn("rank 1 of 2 did not come", results[0][0])
        self.assertIn("refused", results[1][0])
        for output, _ in results:
            self.assertNotIn("0" * 16, output)
            self.assertNotIn("1" * 16, output)

    def test_a_readable_key_file_is_refused(self):
        path = self.key_file()
        os.chmod(path, 0o644)
        self.assert_refused(self.torchrun({"TUTTI_KEY_FILE": path}), "chmod 600")

    def test_nobody_launched_it(self):
        self.assert_refused(self.run_loop({}, ranks=1), "not started as one rank", "torchrun")

    # Starts a rank for each line of its input: its number and the job's.
    LOOP = ('while read rank job; do RANK=$rank LOCAL_RANK=$rank "$0" $job & done; wait')

    def start_loop(self, common):
        environment = {**clean_environment(), **self.common, "WORLD_SIZE": "2",
                       "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", "TUTTI_SLOW": "0.2",
                       "TUTTI_LOG": "warn", **common}
        process = subprocess.Popen(["sh", "-c", self.LOOP, str(PROGRAM)], env=environment, text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT)
        self.addCleanup(process.kill)
        return process

    def start_rank(self, loop, rank, job):
        loop.stdin.write(f"{rank} {job}\n")
        loop.stdin.flush()

    def assert_apart(self, first, second):
        """Rank 0 of one job and rank 1 of another one wait beside each other, then the others
        come: that is how ranks would change places."""
        self.start_rank(first, 0, 1)
        self.assertIn("rank 1 of 2 did not come", first.stdout.readline())
        self.start_rank(second, 1, 2)
        line = second.stdout.readline()
        self.assertIn("rank 0 has not posted", line)
        self.start_rank(first, 1, 1)
        self.start_rank(second, 0, 2)
        for job, loop in ((1, first), (2, second)):
            output = loop.communicate(timeout=200)[0]
            self.assertEqual(loop.returncode, 0, output)
            self.assertEqual(output.count(f"sum {3 * job}; "), 2 * COMMUNICATORS, output)
        return line

    def test_two_loops_that_look_the_same_do_not_see_each_other(self):
        line = self.assert_apart(self.start_loop({}), self.start_loop({}))
        self.assertIn("waits for a job that looks the same", line)
        self.assertIn("TUTTI_JOB", line)

    def test_names_tell_jobs_of_one_loop_apart(self):
        self.assert_apart(self.start_loop({"TUTTI_JOB": "one"}),
                          self.start_loop({"TUTTI_JOB": "other"}))

    def test_two_jobs_of_one_loop_are_refused(self):
        loop = self.start_loop({})
        self.start_rank(loop, 0, 1)
        self.assertIn("rank 1 of 2 did not come", loop.stdout.readline())
        self.start_rank(loop, 0, 2)
        output = loop.communicate(timeout=200)[0]
        self.assertEqual(output.count("two jobs"), 2, output)  # both ranks 0 are told
        self.assertNotIn("sum ", output)

    def test_a_rank_that_lives_keeps_its_place(self):
        """Ranks of two jobs of one loop have met. The others are refused, so somebody hears of it,
        and not those whose job runs."""
        loop = self.start_loop({})
        end = self.folder / "end"
        self.start_rank(loop, 0, f"1 {end}")
        self.assertIn("rank 1 of 2 did not come", loop.stdout.readline())
        self.start_rank(loop, 1, f"2 {end}")
        for _ in range(2 * COMMUNICATORS):
            self.assertIn("sum 5; ", loop.stdout.readline())
        self.start_rank(loop, 1, "1")
        self.start_rank(loop, 0, "2")
        lines = iter(loop.stdout.readline, "")
        refusals = sorted(itertools.islice((line for line in lines if "init: " in line), 2))
        for rank, line in enumerate(refusals):
            self.assertRegex(line, rf"process \d+ is rank {rank} of a job that runs")
            self.assertIn("TUTTI_JOB", line)
        end.touch()
        self.assertNotIn("sum ", loop.communicate(timeout=200)[0])

    def mpiexec(self):
        """MPICH's; its variables do not name the job."""
        found = shutil.which("mpiexec.hydra")
        if found is None:
            self.skipTest("mpiexec.hydra (MPICH) is not installed")
        return found

    def test_two_mpiexecs_do_not_see_each_other(self):
        mpiexec = self.mpiexec()
        late = 'test $PMI_RANK = {} && sleep 1; exec "$0" {}'
        environment = {**clean_environment(), **self.common}
        jobs = [subprocess.Popen([mpiexec, "-n", "2", "sh", "-c", late.format(2 - job, job), PROGRAM],
                                 env=environment, text=True, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                for job in (1, 2)]
        for job, process in enumerate(jobs, start=1):
            output = process.communicate(timeout=200)[0]
            self.assertEqual(process.returncode, 0, output)
            self.assertEqual(output.count(f"sum {3 * job}; "), 2 * COMMUNICATORS, output)

    def test_srun(self):
        shared = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": str(RANKS),
                  "SLURM_STEP_NUM_NODES": "1"}
        results = self.run_loop(shared, lambda rank: {"SLURM_PROCID": str(rank)})
        self.assert_met(results, "by srun; met by a file of this host")

    def test_perf(self):
        """Rank 0 has the table, and the root may be any rank of the job."""
        results = self.torchrun(command=(BINARIES / "tutti", "perf", "broadcast", "-b", "1K", "-r",
                                         str(RANKS - 1), "-n", "3", "--percentiles"))
        for rank, (output, code) in enumerate(results):
            self.assertEqual(code, 0, output)
            self.assertEqual("# Out of bounds values : 0 OK" in output, rank == 0, output)

    def mpirun(self, *arguments, **environment):
        mpirun = shutil.which("mpirun")
        if mpirun is None:
            self.skipTest("mpirun is not installed")
        command = [mpirun, "--allow-run-as-root", "--oversubscribe", "-np", str(RANKS),
                   *arguments, str(PROGRAM)]
        result = subprocess.run(command, text=True, capture_output=True, timeout=300,
                                env={**clean_environment(), **self.common, **environment})
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout.splitlines()

    def test_mpirun(self):
        lines = self.mpirun()
        self.assertEqual(len(lines), COMMUNICATORS * RANKS, lines)
        for line in lines:
            self.assertIn(f"sum {EXPECTED_SUM}; ", line)
            self.assertIn(" by Open MPI's mpirun; met by PMIx", line)

    def test_mpirun_without_pmix(self):
        # The ranks see mpirun's variables, but no PMIx: as with a launcher that has none.
        lines = self.mpirun("/usr/bin/env", "-u", "PMIX_NAMESPACE")
        self.assertEqual(len(lines), COMMUNICATORS * RANKS, lines)
        for line in lines:
            self.assertIn("met by a file of this host", line)

    def run_with_pmi2(self, own=lambda rank: {}):
        """Against a stand-in for Slurm's library: what is shown is that the calls fit together."""
        compiler = os.environ.get("CXX", "c++")
        library = self.folder / "libpmi2.so.0"
        subprocess.run([compiler, "-std=c++20", "-shared", "-fPIC", "-o", str(library),
                        str(HERE / "fake_pmi2.cpp")], check=True, timeout=300)
        store = self.folder / "store"
        store.mkdir()
        shared = {"LD_LIBRARY_PATH": str(self.folder), "PMI_FD": "9", "PMI_SIZE": str(RANKS),
                  "PMI_JOBID": "job", "FAKE_PMI2": str(store)}
        results = self.run_loop(shared, lambda rank: {"PMI_RANK": str(rank), **own(rank)})
        return results, len(list(store.glob("finalized-*")))

    def test_pmi2(self):
        results, goodbyes = self.run_with_pmi2()
        self.assert_met(results, "met by PMI2")
        self.assertEqual(goodbyes, RANKS, "every rank says goodbye")

    def test_pmi2_when_rank_0_has_no_place_to_meet(self):
        """The others are in the launcher's fence already, which has no end without rank 0."""
        results, _ = self.run_with_pmi2(
            lambda rank: {"TUTTI_SOCKET_IFNAME": "none" if rank == 0 else "lo"})
        self.assert_refused(results[:1], "TUTTI_SOCKET_IFNAME")
        self.assert_refused(results[1:], "rank 0 of", "could not open the rendezvous")

    def srun(self, *arguments):
        """Real Slurm: its controller and one node, both on this host and only for this test."""
        if not slurm.installed():
            self.skipTest("slurmctld, slurmd, srun and munged are not all installed, or not root")
        with slurm.Cluster() as cluster:
            result = cluster.srun("-n", str(RANKS), *arguments, str(PROGRAM),
                                  environment={**clean_environment(), **self.common})
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        lines = result.stdout.splitlines()
        self.assertEqual(len(lines), COMMUNICATORS * RANKS, result.stdout + result.stderr)
        return lines

    def test_real_srun(self):
        for line in self.srun():
            self.assertIn(f"sum {EXPECTED_SUM}; ", line)
            self.assertIn(" by srun; met by a file of this host", line)

    def test_real_srun_with_pmi2(self):
        if ctypes.util.find_library("pmi2") is None:
            self.skipTest("libpmi2 is not installed")
        for line in self.srun("--mpi=pmi2"):
            self.assertIn(f"sum {EXPECTED_SUM}; ", line)
            self.assertIn(" by srun; met by PMI2", line)

    def test_real_torchrun(self):
        torchrun = shutil.which("torchrun")
        if torchrun is None:
            self.skipTest("torchrun is not installed")
        # torch 1.13 knows its other ways to treat the outputs no more under Python 3.11.
        command = [torchrun, "--no_python", f"--nproc_per_node={RANKS}", "--redirects=2", "--tee=1",
                   f"--log_dir={self.folder}", f"--master_port={free_port()}", str(PROGRAM)]
        result = subprocess.run(command, text=True, capture_output=True, timeout=300,
                                env={**clean_environment(), **self.common})
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        lines = result.stdout.splitlines()
        self.assertEqual(len(lines), COMMUNICATORS * RANKS, result.stdout + result.stderr)
        for line in lines:
            self.assertIn(f"sum {EXPECTED_SUM}; ", line)
            self.assertIn(" by torchrun; met by a file of this host", line)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
