#!/usr/bin/env python3
"""Installs the build into an empty folder and uses it as a stranger would: by CMake and by pkg-config."""

import glob
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = os.environ.get("TEST_BINARY_DIR", "")

CONSUMER = """
#include <tutti/tutti.h>
int main(void) {
  int version = 0;
  return tuttiGetVersion(&version) == tuttiSuccess && version == TUTTI_VERSION ? 0 : 1;
}
"""
LISTS = """
cmake_minimum_required(VERSION 3.20)
project(consumer LANGUAGES C)
find_package(Tutti REQUIRED)
add_executable(consumer consumer.c)
target_link_libraries(consumer Tutti::tutti)
"""


def run(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, **more)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.prefix = os.path.join(cls.folder, "prefix")
        run("cmake", "--install", BUILD, "--prefix", cls.prefix)
        cls.write("consumer.c", CONSUMER)
        cls.write("CMakeLists.txt", LISTS)

    @classmethod
    def write(cls, name, text):
        with open(os.path.join(cls.folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    def installed(self, pattern):
        found = glob.glob(os.path.join(self.prefix, "**", pattern), recursive=True)
        self.assertEqual(len(found), 1, f"{pattern}: {found}")
        return found[0]

    def test_cmake_package(self):
        build = os.path.join(self.folder, "build")
        run("cmake", "-G", "Ninja", "-S", self.folder, "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run("cmake", "--build", build)
        run(os.path.join(build, "consumer"))

    def test_pkg_config(self):
        library = os.path.dirname(self.installed("libtutti.so"))
        where = {**os.environ, "PKG_CONFIG_PATH": os.path.dirname(self.installed("tutti.pc"))}
        flags = run("pkg-config", "--cflags", "--libs", "tutti", env=where).split()
        program = os.path.join(self.folder, "by_pkg_config")
        run("gcc", "-Wall", "-Werror", os.path.join(self.folder, "consumer.c"), "-o", program, *flags)
        run(program, env={**os.environ, "LD_LIBRARY_PATH": library})

    def test_program_and_notices(self):
        self.assertTrue(os.access(self.installed("bin/tutti"), os.X_OK))
        run(self.installed("bin/all_reduce_perf"), "-t", "2", "-b", "8", "-n", "1")
        self.assertTrue(os.access(self.installed("share/tutti/plot_results.py"), os.X_OK))
        self.installed("LICENSE")
        self.installed("THIRD_PARTY_NOTICES")


if __name__ == "__main__":
    if not BUILD:
        print("TEST_BINARY_DIR does not name a build")
        sys.exit(77)
    unittest.main()
