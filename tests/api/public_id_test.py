#!/usr/bin/env python3
"""Ids without a key: ranks that have the job's key meet by one, others are refused."""

import ctypes
import os
import subprocess
import sys
import unittest

BUILD = os.environ.get("TEST_BINARY_DIR", "")
KEY, OTHER = "5a" * 32, "a5" * 32
KEY_IN_ID = slice(32, 64)


class Id(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


def library():
    found = ctypes.CDLL(os.path.join(BUILD, "lib", "libtutti.so"))
    found.tuttiGetLastError.restype = ctypes.c_char_p
    found.tuttiCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, Id, ctypes.c_int]
    return found


def bytes_of(made):
    return ctypes.string_at(ctypes.byref(made), 128)


def main(rank, text):
    """As a rank of two: prints the id's bytes, then what became of it."""
    tutti = library()
    made = Id()
    if rank == 0:
        if tutti.tuttiGetPublicId(ctypes.byref(made)) != 0:
            print(tutti.tuttiGetLastError(None).decode())
            return
        print(bytes_of(made).hex(), flush=True)
    else:
        ctypes.memmove(ctypes.byref(made), bytes.fromhex(text), 128)
    comm = ctypes.c_void_p()
    if tutti.tuttiCommInitRank(ctypes.byref(comm), 2, made, rank) != 0:
        print(tutti.tuttiGetLastError(None).decode())
        return
    tutti.tuttiCommDestroy(comm)
    print("met")


def start(rank, key, text=""):
    # None of them waits for a rank that was refused.
    variables = {**os.environ, "TUTTI_KEY": key, "TUTTI_INIT_TIMEOUT": "5", "TUTTI_LOG": "off"}
    if not key:
        del variables["TUTTI_KEY"]
    return subprocess.Popen([sys.executable, "-B", __file__, str(rank), text], env=variables,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


class PublicId(unittest.TestCase):
    def meet(self, key):
        """Rank 0 has the key, rank 1 this one: the bytes of the id and the last words of both."""
        first = start(0, KEY)
        text = first.stdout.readline().strip()
        second = start(1, key, text)
        said = [rank.communicate(timeout=60)[0].strip() for rank in (first, second)]
        return bytes.fromhex(text), said

    def test_it_holds_no_key_and_ranks_with_the_jobs_meet(self):
        made, said = self.meet(KEY)
        self.assertEqual(made[KEY_IN_ID], bytes(32))
        self.assertEqual(said, ["met", "met"])

    def test_another_key_is_refused(self):
        said = self.meet(OTHER)[1]
        self.assertNotIn("met", said)

    def test_without_a_key_the_error_says_what_to_set(self):
        self.assertIn("TUTTI_KEY_FILE", self.meet("")[1][1])
        lonely = start(0, "")
        self.assertIn("TUTTI_KEY_FILE", lonely.communicate(timeout=60)[0])


if __name__ == "__main__":
    if len(sys.argv) > 2:
        main(int(sys.argv[1]), sys.argv[2])
    elif not BUILD:
        print("TEST_BINARY_DIR is not set")
        sys.exit(77)
    else:
        unittest.main()
