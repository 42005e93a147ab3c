"""Every header compiles alone. What compiled once is remembered by the contents it depends on.

A header that its own source file includes before anything else is shown to compile alone by the build (but
for what that precompiles: includes.py), so only the others are compiled here.
"""

import concurrent.futures
import hashlib
import json
import os
import subprocess

from tidy_checks.finding import Finding
from tidy_checks.source import SourceFile

_WARNINGS = ["-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
_CXX = ["-x", "c++", "-std=c++20", "-fvisibility=hidden", "-DFMT_HEADER_ONLY", "-I.",
        "-Iinclude"]
_C = ["-x", "c", "-std=c11", "-Iinclude"]
# Headers of optional packages, and pkg-config's name for them. What includes one compiles where it is.
_OPTIONAL = {"mpi.h": "mpi"}


def _pkg_config(name):
    """The compiler flags of an installed package as system includes; None if it is not installed."""
    try:
        done = subprocess.run(["pkg-config", "--cflags", name], capture_output=True, text=True)
    except OSError:
        return None
    if done.returncode != 0:
        return None
    return [flag.replace("-I", "-isystem", 1) for flag in done.stdout.split()]


class HeaderCheck:
    def __init__(self, root, resolver, compiler, cache_path):
        self._root = root
        self._resolver = resolver
        self._compiler = compiler
        self._cache_path = cache_path
        self._closures = {}
        self._system_includes = {}
        self._optional_flags = {header: _pkg_config(name) for header, name in _OPTIONAL.items()}
        version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True)
        self._salt = version.stdout + repr((_WARNINGS, _CXX, _C, self._optional_flags))

    def run(self, sources):
        """A Finding for each header among the sources that does not compile alone."""
        known = self._load()
        wanted = {}
        for source in sources:
            if self._is_shown_by_its_source(source):
                continue
            extra = self._extra_flags(source.path)
            for language in self._languages(source.path) if extra is not None else ():
                wanted[f"{source.path} as {language[1]}"] = (source.path, language + extra)
        digests = {name: self._digest(path) for name, (path, _) in wanted.items()}
        stale = [name for name in sorted(wanted) if known.get(name) != digests[name]]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            results = list(pool.map(lambda name: self._compile(*wanted[name]), stale))
        findings = [result for result in results if result]
        good = {name for name, result in zip(stale, results) if result is None}
        kept = {name: digest for name, digest in digests.items()
                if name in good or known.get(name) == digest}
        self._store({**known, **kept})
        return findings

    def _is_shown_by_its_source(self, header):
        """a/b.h, guarded, and a/b.cc begins with it. Public headers are compiled, as C too."""
        stem, extension = os.path.splitext(header.path)
        path = f"{stem}.cc"
        if extension != ".h" or header.path.startswith("include/") or "#pragma once" not in header.text:
            return False
        includes = SourceFile(path, self._read(path)).includes
        return bool(includes) and self._resolver.resolve(path, includes[0]) == header.path

    @staticmethod
    def _languages(path):
        if not path.endswith((".h", ".hpp")):
            return []
        # The C API is also a header of C; what lies deeper in include/tutti is C++.
        is_c = path.startswith("include/tutti/") and path.count("/") == 2
        return [_CXX, _C] if is_c else [_CXX]

    def _extra_flags(self, path):
        """What the optional packages below a header ask for; None if one of them is not installed."""
        extra = []
        for member in self._closure(path) if path.endswith((".h", ".hpp")) else ():
            for header in self._system_includes[member] & set(_OPTIONAL):
                if self._optional_flags[header] is None:
                    return None
                extra += self._optional_flags[header]
        return extra

    def _compile(self, path, language):
        # Twice: a header without a guard is found too.
        name = path[len("include/"):] if path.startswith("include/") else path
        text = f'#include "{name}"\n#include "{name}"\n'
        command = [self._compiler, *language, *_WARNINGS, "-"]
        done = subprocess.run(command, input=text, capture_output=True, text=True, cwd=self._root)
        if done.returncode == 0:
            return None
        errors = [line for line in done.stderr.splitlines() if "error" in line]
        first = (errors or done.stderr.splitlines() or ["the compiler failed"])[0]
        return Finding("header", path, 1, f"does not compile alone ({language[1]}): {first}")

    def _digest(self, path):
        digest = hashlib.sha256(self._salt.encode())
        for member in sorted(self._closure(path)):
            digest.update(member.encode() + b"\0" + self._read(member).encode() + b"\0")
        return digest.hexdigest()

    def _closure(self, path):
        """The header and every file of the project that it includes, directly or not."""
        found = set()
        pending = [path]
        while pending:
            member = pending.pop()
            if member not in found:
                found.add(member)
                pending.extend(self._direct(member))
        return found

    def _direct(self, path):
        if path not in self._closures:
            source = SourceFile(path, self._read(path))
            self._system_includes[path] = {include.name for include in source.includes}
            targets = {self._resolver.resolve(path, include) for include in source.includes}
            self._closures[path] = targets - {None}
        return self._closures[path]

    def _read(self, path):
        try:
            with open(os.path.join(self._root, path), encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def _load(self):
        try:
            with open(self._cache_path, encoding="utf-8") as file:
                return json.load(file)
        except (OSError, ValueError):
            return {}

    def _store(self, known):
        os.makedirs(os.path.dirname(os.path.abspath(self._cache_path)), exist_ok=True)
        temporary = f"{self._cache_path}.{os.getpid()}"
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(known, file, indent=0, sort_keys=True)
        os.replace(temporary, self._cache_path)
