#!/usr/bin/env python3
"""Structures as programs have them that were compiled with NCCL 2.32.3's header: fields are read by size and
version, and a request for encryption is refused rather than passed over."""

import ctypes
import os
import sys
import unittest

BUILD = os.path.abspath(os.environ.get("TEST_BINARY_DIR", "build"))
MAGIC, UNDEFINED, INVALID_ARGUMENT, INVALID_USAGE = 0xcafebeef, -2**31, 4, 5
FIELDS = ("blocking", "cgaClusterSize", "minCTAs", "maxCTAs", "*netName", "splitShare", "trafficClass", "*commName",
          "collnetEnable", "CTAPolicy", "shrinkShare", "nvlsCTAs", "nChannelsPerNetPeer", "nvlinkCentricSched",
          "graphUsageMode", "numRmaCtx", "maxP2pPeers", "graphStreamOrdering", "launchOrderImplicit", "numRmaSig",
          "rmaEagerInit", "hostCftMode", "nvlsHostMode")


class Config(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("magic", ctypes.c_uint), ("version", ctypes.c_uint),
                *((name.strip("*"), ctypes.c_char_p if name.startswith("*") else ctypes.c_int) for name in FIELDS)]


class Encryption(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("magic", ctypes.c_uint), ("version", ctypes.c_uint),
                ("mode", ctypes.c_int), ("psk", ctypes.c_char_p)]


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


class NewerConfigurations(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        os.environ["TUTTI_LOG"] = "off"
        cls.nccl = ctypes.CDLL(os.path.join(BUILD, "lib", "nccl", "libnccl.so.2"))
        cls.nccl.ncclGetLastError.restype = ctypes.c_char_p
        cls.nccl.ncclCommInitRankConfig.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int,
                                                    ctypes.c_void_p]

    def make(self, version, size=120, **fields):
        """The result of making a communicator of one rank with this configuration, and the last error."""
        config = Config(size, MAGIC, version)
        for name in FIELDS:
            if not name.startswith("*"):
                setattr(config, name, fields.get(name, UNDEFINED))
        unique, made = UniqueId(), ctypes.c_void_p()
        self.assertEqual(self.nccl.ncclGetUniqueId(ctypes.byref(unique)), 0)
        result = self.nccl.ncclCommInitRankConfig(ctypes.byref(made), 1, unique, 0, ctypes.byref(config))
        if result == 0:
            self.assertEqual(self.nccl.ncclCommDestroy(made), 0)
        return result, self.nccl.ncclGetLastError(None).decode()

    def test_a_configuration_of_2_32_is_taken_and_checked(self):
        self.assertEqual(ctypes.sizeof(Config), 120)
        self.assertEqual(self.make(23203)[0], 0)
        self.assertEqual(self.make(23203, launchOrderImplicit=1, numRmaSig=4, rmaEagerInit=1, hostCftMode=2,
                                   nvlsHostMode=2**31 - 1)[0], 0)
        for name, value in (("hostCftMode", 4), ("nvlsHostMode", -1)):
            result, error = self.make(23203, **{name: value})
            self.assertEqual(result, INVALID_ARGUMENT)
            self.assertIn(f"config.{name} is {value}", error)

    def test_fields_that_the_version_or_the_size_does_not_have_are_not_read(self):
        self.assertEqual(self.make(23100, nvlsHostMode=-7)[0], 0)
        self.assertEqual(self.make(23007, hostCftMode=77, nvlsHostMode=-7)[0], 0)
        self.assertEqual(self.make(23203, size=96, hostCftMode=77, nvlsHostMode=-7)[0], 0)

    def set_encryption(self, mode, key, size=32, magic=MAGIC):
        config = Encryption(size, magic, 23203, mode, key)
        return self.nccl.ncclSetEncryption(ctypes.byref(config)), self.nccl.ncclGetLastError(None).decode()

    def test_encryption_is_refused_and_no_encryption_is_not(self):
        self.assertEqual(ctypes.sizeof(Encryption), 32)
        self.assertEqual(self.nccl.ncclSetEncryption(None), 0)
        self.assertEqual(self.set_encryption(0, None)[0], 0)
        result, error = self.set_encryption(1, b"0123456789abcdef0123456789abcdef")
        self.assertEqual(result, INVALID_USAGE)
        self.assertIn("does not encrypt", error)
        for mode, key in ((1, None), (1, b"short"), (2, None)):
            self.assertEqual(self.set_encryption(mode, key)[0], INVALID_ARGUMENT)
        self.assertEqual(self.set_encryption(0, None, magic=1)[0], INVALID_ARGUMENT)
        self.assertEqual(self.set_encryption(0, None, size=24)[0], INVALID_ARGUMENT)


if __name__ == "__main__":
    sys.exit(unittest.main())
