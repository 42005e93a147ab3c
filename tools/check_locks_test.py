#!/usr/bin/env python3
"""tools/check-locks finds what is touched without its mutex, and says so where it can check nothing."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parent
ROOT = TOOLS.parent
TOOL = TOOLS / "check-locks"

SOURCE = """
#include "src/base/mutex.h"
class Counter {
 public:
  int next() { BODY }
  int now() TUTTI_REQUIRES(mutex_) { return count_; }
  tutti::Mutex mutex_;
  int count_ TUTTI_GUARDED_BY(mutex_) = 0;
};
int ask(Counter& counter) { CALL }
"""
LOCKED_BODY = "const tutti::MutexLock lock(mutex_); return ++count_;"
LOCKED_CALL = "const tutti::MutexLock lock(counter.mutex_); return counter.now() + counter.next();"


def run(*arguments, environment=None):
    return subprocess.run([sys.executable, "-B", TOOL, *arguments], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, check=False, env=environment)


def check(body=LOCKED_BODY, call=LOCKED_CALL):
    """What the tool says of a source that a build folder unites from src/planted."""
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "united" / "library" / "src" / "planted" / "0.cc"
        source.parent.mkdir(parents=True)
        source.write_text(SOURCE.replace("BODY", body).replace("CALL", call), encoding="utf-8")
        entry = {"directory": folder, "file": str(source),
                 "command": f"c++ -I{ROOT} -std=c++20 -Wall -o 0.o -c {source}"}
        (pathlib.Path(folder) / "compile_commands.json").write_text(json.dumps([entry]),
                                                                    encoding="utf-8")
        return run(folder, "src/planted")


class Planted(unittest.TestCase):
    def test_what_is_locked_passes(self):
        done = check()
        self.assertEqual((done.returncode, done.stdout), (0, "check-locks: 1 files, 0 with findings\n"))

    def test_a_member_touched_without_its_mutex_is_found(self):
        done = check(body="return ++count_;")
        self.assertEqual(done.returncode, 1)
        self.assertIn("'count_' requires holding mutex 'mutex_'", done.stdout)

    def test_a_member_touched_after_unlock_is_found(self):
        done = check(body="tutti::MutexLock lock(mutex_); lock.unlock(); return ++count_;")
        self.assertEqual(done.returncode, 1)
        self.assertIn("'count_' requires holding mutex 'mutex_'", done.stdout)

    def test_a_call_that_needs_the_mutex_is_found(self):
        done = check(call="return counter.now();")
        self.assertEqual(done.returncode, 1)
        self.assertIn("'now' requires holding mutex", done.stdout)

    def test_a_mutex_that_stays_locked_is_found(self):
        done = check(body="mutex_.lock(); return ++count_;")
        self.assertEqual(done.returncode, 1)
        self.assertIn("is still held at the end of function", done.stdout)

    def test_a_file_that_clang_cannot_read_is_a_finding(self):
        done = check(body="return nothing_of_this_name;")
        self.assertEqual(done.returncode, 1)
        self.assertIn("nothing_of_this_name", done.stdout)

    def test_a_folder_of_no_source_is_an_error(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "compile_commands.json").write_text("[]", encoding="utf-8")
            done = run(folder, "src/comm")
        self.assertEqual(done.returncode, 2)
        self.assertIn("compiles no source below src/comm", done.stderr)


class Unusable(unittest.TestCase):
    def test_without_clang_it_says_what_to_install(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run(folder, environment={**os.environ, "PATH": folder})
        self.assertEqual(done.returncode, 2)
        self.assertIn("apt-get install clang", done.stderr)


if __name__ == "__main__":
    if shutil.which("clang++") is None:
        print("there is no clang++ (apt-get install clang)")
        sys.exit(77)
    unittest.main()
