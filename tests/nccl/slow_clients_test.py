#!/usr/bin/env python3
"""What known clients of NCCL do: the drop-in must bear it. One test per habit, named after its client."""

import os
import subprocess
import sys
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [FOLDER, os.path.join(os.path.dirname(FOLDER), "support")]

from ports import reserved_port  # noqa: E402
from support import (BUILD, HERE, LIBRARY, RANKS, STUB_RESULT, TUTTI, WithPrograms,  # noqa: E402
                     WithTheToolkitsHeader, WithWorkshop, environment, names, nvidias_library, run)

# The functions that vLLM's wrapper looks up, and SGLang's.
VLLM = ["ncclGetErrorString", "ncclGetVersion", "ncclGetUniqueId", "ncclCommInitRank", "ncclAllReduce",
        "ncclReduce", "ncclAllGather", "ncclReduceScatter", "ncclSend", "ncclRecv", "ncclBroadcast",
        "ncclCommDestroy", "ncclGroupStart", "ncclGroupEnd", "ncclCommWindowRegister",
        "ncclCommWindowDeregister"]

VLLM_PROGRAM = """
import ctypes
library = ctypes.CDLL("libnccl.so.2")
for name in %r:
    getattr(library, name)
class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]
version = ctypes.c_int()
assert library.ncclGetVersion(ctypes.byref(version)) == 0
digits = str(version.value)
print(digits[0].lstrip("0"), digits[1:3].lstrip("0"), digits[3:].lstrip("0"))
unique = UniqueId()
assert library.ncclGetUniqueId(ctypes.byref(unique)) == 0
comm = ctypes.c_void_p()
library.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int]
assert library.ncclCommInitRank(ctypes.byref(comm), 1, unique, 0) == 0
send = (ctypes.c_float * 4)(1, 2, 3, 4)
recv = (ctypes.c_float * 4)()
assert library.ncclAllReduce(send, recv, ctypes.c_size_t(4), 7, 0, comm, None) == 0
assert list(recv) == [1, 2, 3, 4]
assert library.ncclCommDestroy(comm) == 0
"""

NCCL4PY_PROGRAM = """
import ctypes, sys
library = ctypes.CDLL("libnccl.so.2")
missing = [name for name in sys.argv[1:] if not hasattr(library, name)]
print("missing", *missing)
"""


class Clients(WithPrograms):
    def client(self, name, *ranks, **more):
        """On these numbers of ranks, or on every one."""
        self.runs_on_every_number_of_ranks("clients", "-ldl", "-pthread", before=[name],
                                           ranks=ranks or RANKS, **more)

    def test_1_pytorch_sends_fp8_as_bytes_and_builds_on_send_and_recv(self):
        self.client("pytorch_collectives")

    def test_2_megatron_deregisters_windows_as_buffers(self):
        self.client("megatron_deregister")

    def test_2_pytorchs_watchdog_deregisters_what_a_stuck_call_uses(self):
        self.client("pytorch_watchdog", 2, 3)

    def test_3_pytorch_polls_after_an_abort(self):
        self.client("pytorch_abort")

    def test_5_xla_splits_without_blocking(self):
        self.client("xla_nonblocking")

    def test_6_pytorch_passes_configurations_of_its_headers_version(self):
        self.client("pytorch_versions")

    def test_8_megatron_names_networks_and_changes_the_environment(self):
        self.client("megatron_options")

    def test_9_deepspeed_preloads_an_interposer(self):
        interposer = self.workshop.compile(os.path.join(HERE, "interposer.c"), "libinterposer.so",
                                           "-shared", "-fPIC", '-DNCCL_HEADER="plugins/nccl/abi.h"')
        self.client("deepspeed_interposer", env=environment(LD_PRELOAD=interposer))

    def test_nccls_own_bootstrap_by_a_place_that_every_rank_knows(self):
        key = self.workshop.write("key", "5f" * 32 + "\n")
        os.chmod(key, 0o600)
        for host, secret in (("127.0.0.1", {"TUTTI_KEY_FILE": key}), ("localhost", {"TUTTI_INSECURE": "1"})):
            with self.subTest(host=host, **secret):
                place = {"NCCL_COMM_ID": f"{host}:{reserved_port()}", "NCCL_DEBUG": "error"}
                self.client("by_comm_id", 3, env=environment(**place, **secret))

    def test_a_place_without_a_key_is_refused_with_what_to_do(self):
        program = self.workshop.program("clients", "-ldl", "-pthread")
        done = run(TUTTI, "run", "--", program, "by_comm_id", "1",
                   env=environment(NCCL_COMM_ID=f"127.0.0.1:{reserved_port()}"))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("NCCL_COMM_ID", done.stderr)
        self.assertIn("TUTTI_KEY_FILE", done.stderr)

    def test_ranks_with_another_key_stay_outside(self):
        keys = [self.workshop.write(f"key{i}", f"{i}" * 64 + "\n") for i in (1, 2)]
        for key in keys:
            os.chmod(key, 0o600)
        program = self.workshop.program("comm_id")
        place = environment(NCCL_COMM_ID=f"127.0.0.1:{reserved_port()}", TUTTI_INIT_TIMEOUT="3", NCCL_DEBUG="error")
        ranks = [subprocess.Popen([TUTTI, "run", "--", program, str(rank), "2"], stderr=subprocess.PIPE,
                                  text=True, env={**place, "TUTTI_KEY_FILE": key})
                 for rank, key in enumerate(keys)]
        for rank, process in enumerate(ranks):
            said = process.communicate(timeout=200)[1]
            self.assertEqual(process.returncode, 1, f"rank {rank}: {said}")

    def test_10_nccl_tests_refers_weakly_to_newer_names(self):
        self.client("nccl_tests_weak")


class ClientsWithTheToolkitsHeader(WithTheToolkitsHeader, Clients):
    pass


class PythonClients(WithWorkshop):
    def test_4_vllm_looks_up_every_symbol_and_reads_the_version_by_digits(self):
        printed = self.succeeds(TUTTI, "run", "--", sys.executable, "-c", VLLM_PROGRAM % VLLM)
        self.assertEqual(printed, "2 30 7\n")
        folder = os.path.dirname(LIBRARY)
        printed = self.succeeds(sys.executable, "-c", VLLM_PROGRAM % VLLM,
                                env=environment(LD_LIBRARY_PATH=folder))
        self.assertEqual(printed, "2 30 7\n")

    def test_7_nccl4py_looks_up_every_name(self):
        every = [*names(), *("p" + name for name in names())]
        printed = self.succeeds(TUTTI, "run", "--", sys.executable, "-c", NCCL4PY_PROGRAM, *every)
        self.assertEqual(printed, "missing\n")


class Loading(WithPrograms):
    def test_a_program_linked_with_nccl_gets_tutti(self):
        program = self.workshop.program("version")
        self.assertEqual(self.succeeds(program), f"{STUB_RESULT} 0\n")
        self.assertEqual(self.succeeds(TUTTI, "run", "--", program), "0 23007\n")

    def test_a_program_linked_with_nvidias_nccl_gets_tutti(self):
        library = nvidias_library()
        version = self.workshop.program("version", library=library)
        self.assertNotIn(self.succeeds(version), ("0 23007\n", f"{STUB_RESULT} 0\n"))
        self.assertEqual(self.succeeds(TUTTI, "run", "--", version), "0 23007\n")
        calls = self.workshop.program("calls", library=library)
        for ranks in (1, 3):
            self.runs(calls, str(ranks))

    def test_a_program_that_opens_nccl_by_name_gets_tutti(self):
        program = self.workshop.compile(os.path.join(HERE, "opens.c"), "opens", "-ldl")
        stub = environment(LD_LIBRARY_PATH=self.workshop.stub_folder)
        ours = environment(LD_LIBRARY_PATH=os.path.dirname(LIBRARY))
        self.assertEqual(self.succeeds(program, env=stub), f"{STUB_RESULT} 0\n")
        self.assertEqual(self.succeeds(program, env=ours), "0 23007\n")
        self.assertEqual(self.succeeds(TUTTI, "run", "--", program, env=stub), "0 23007\n")

    def test_fork_leaves_the_parent_unharmed(self):
        self.runs_on_every_number_of_ranks("forks", "-pthread")

    def test_a_child_of_a_fork_beside_the_first_call_does_not_wait_for_it(self):
        program = self.workshop.program("early_forks", "-pthread", "-ldl", "-rdynamic")
        for place in ("log", "handlers"):
            with self.subTest(place=place):
                self.runs(program, place, env=environment(NCCL_DEBUG="VERSION"))


class Ends(WithWorkshop):
    """Calls from atexit's handlers and from destructors, of a thread's objects and of the program."""

    def end(self, name, **variables):
        program = self.workshop.program("ends", "-pthread")
        printed = self.succeeds(TUTTI, "run", "--", program, name, env=environment(**variables))
        self.assertEqual(printed, "ended\n")

    def test_groups_in_handlers_of_atexit(self):
        self.end("groups_in_handlers")

    def test_groups_while_a_thread_ends(self):
        self.end("groups_of_threads")

    def test_a_destructor_destroys_a_communicator_that_does_not_block(self):
        self.end("communicators_that_poll")

    def test_texts_in_handlers_of_atexit(self):
        long = os.path.join(self.workshop.folder, "a" * 100)
        self.end("texts_in_handlers", NCCL_DEBUG_FILE=long)


class Beside(WithWorkshop):
    """Two libraries in one process. NCCL goes as far as it can on this machine: without a GPU, to the
    communicator that it cannot make."""

    def program(self, library=None):
        folder = os.path.join(BUILD, "lib")
        return self.workshop.program("beside", f"-L{folder}", "-ltutti", "-ldl",
                                     f"-Wl,-rpath,{folder}", library=library)

    def test_libtutti_in_the_same_process(self):
        self.succeeds(TUTTI, "run", "--", self.program())

    def test_tutti_preloaded_and_nccl_opened_by_path(self):
        for order in ("first", "last"):
            with self.subTest(opened=order):
                printed = self.succeeds(TUTTI, "run", "--", self.program(), "nccl", nvidias_library(), order)
                self.assertIn("beside Tutti's 23007", printed)

    def test_nccl_linked_and_tutti_opened_by_path(self):
        program = self.program(nvidias_library())
        for order in ("first", "last"):
            with self.subTest(opened=order):
                self.assertIn("beside Tutti's 23007", self.succeeds(program, "tutti", LIBRARY, order))


if __name__ == "__main__":
    if not BUILD:
        print("TEST_BINARY_DIR does not name a build")
        sys.exit(77)
    unittest.main(verbosity=2)  # says why a test was skipped
