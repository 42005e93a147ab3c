"""Which folder may include which: the architecture, as data.

A change here is a change of the architecture: docs/architecture.md must say the same.
"""

import os
import re

from tidy_checks.finding import Finding

# Folder -> what its files may include directly. Every folder may include itself; every folder that is
# not in PUBLIC_ONLY may include src/base.
_BELOW_REGISTRY = [
    "algorithms", "transports", "src/types", "src/codecs", "src/trace", "src/topology", "src/schedule",
    "src/transport", "src/transport/stream", "src/transport/door",
    "src/group", "src/consensus", "src/paths", "src/arrange", "src/health", "src/plan", "src/diagnosis", "src/select", "src/exec", "src/sim", "src/drivers", "src/engines",
    "src/bootstrap", "src/comm",
]
ARROWS = {
    "include": [],
    "src/base": [],
    "src/types": [],
    "src/codecs": ["src/types"],
    "src/trace": [],
    "src/topology": [],
    "src/group": [],
    "src/consensus": [],
    "src/paths": [],
    "src/schedule": [],
    "src/transport": [],
    "src/transport/stream": ["src/transport"],
    "src/transport/door": ["src/transport"],
    "src/plan": ["src/schedule", "src/types", "src/group", "src/codecs"],
    "src/select": ["src/schedule", "src/group", "src/topology", "src/codecs"],
    "src/diagnosis": ["src/schedule", "src/group", "src/transport", "src/bootstrap", "src/types", "src/trace"],
    "src/exec": ["src/schedule", "src/group", "src/plan", "src/transport", "src/types", "src/trace",
                 "src/diagnosis", "src/codecs"],
    "src/sim": ["src/schedule", "src/group", "src/plan", "src/topology", "src/paths"],
    "src/arrange": ["src/schedule", "src/group", "src/plan", "src/topology", "src/types", "src/select", "src/sim",
                    "include"],
    "src/health": ["src/topology", "src/trace"],
    "src/drivers": ["src/topology"],
    "src/engines": ["src/exec", "src/diagnosis", "src/plan", "src/drivers", "src/trace", "src/transport", "src/types"],
    "src/bootstrap": ["src/transport", "src/transport/door"],
    "src/comm": ["src/types", "src/schedule", "src/group", "src/transport", "src/plan", "src/select", "src/exec",
                 "src/diagnosis", "src/bootstrap", "src/topology", "src/trace", "src/consensus", "src/codecs"],
    "src/operation": ["src/types", "src/schedule", "src/plan", "src/exec", "src/comm"],
    "src/registry": _BELOW_REGISTRY,
    "src/api": ["src/types", "src/codecs", "src/schedule", "src/transport", "src/bootstrap", "src/exec", "src/comm",
                "src/operation",
                "src/registry", "src/trace", "include"],
    "src/runtime": ["include"],
    "algorithms": ["src/schedule"],
    "transports": ["src/transport", "src/transport/stream", "src/transport/door", "src/drivers"],
    "examples": ["include"],
    "plugins": ["include"],
    "python": ["include"],
    "cmake": [],
}
PUBLIC_ONLY = {"include", "src/runtime", "examples", "plugins", "python"}
# The library does not contain the verifier (CMakeLists.txt), so only the verifier, OUTSIDE and tests
# include its files.
VERIFIER = re.compile(r"src/(schedule|plan)/verify")
# These may include anything, and nobody may include them.
OUTSIDE = {"tests", "perf", "tools", "docs"}

VENDOR_FREE = {"src/base", "src/types", "src/codecs", "src/trace", "src/topology", "src/schedule", "src/plan",
               "src/select", "src/exec", "src/diagnosis", "src/sim", "src/group", "src/consensus", "src/paths", "src/arrange", "src/health",
               "algorithms"}
_VENDOR = re.compile(r"(cuda|cuda_\w+|nccl|nvml|hwloc|mpi|pmix|pmi2?|gdrapi)\.h$"
                     r"|(infiniband|rdma|ucp|ucs|uct|nvtx3|torch)/")


def folder_of(path):
    """The layer a file belongs to: src/<name>, a part of it with arrows of its own, or the top-level folder."""
    parts = path.split("/")
    if "/".join(parts[:3]) in ARROWS:
        return "/".join(parts[:3])
    if parts[0] == "src" and len(parts) > 2:
        return "src/" + parts[1]
    return parts[0] if len(parts) > 1 else ""


class Resolver:
    """Finds the file of the project that an #include names; None for a header of the system."""

    def __init__(self, root):
        self._root = root

    def resolve(self, path, include):
        candidates = [include.name, "include/" + include.name]
        if include.quoted:
            candidates.insert(0, os.path.normpath(os.path.join(os.path.dirname(path), include.name)))
        for candidate in candidates:
            if os.path.isfile(os.path.join(self._root, candidate)):
                return candidate
        first = include.name.split("/")[0]
        if first in {f.split("/")[0] for f in ARROWS} | OUTSIDE:
            return include.name  # it does not exist (yet), but it is clear where it would be
        return "include/" + include.name if first == "tutti" else None


def allowed(source_folder, target_folder):
    if source_folder in OUTSIDE or source_folder == target_folder:
        return True
    if target_folder == "src/base":
        return source_folder not in PUBLIC_ONLY
    return target_folder in ARROWS.get(source_folder, ())


def check(source, resolver):
    folder = folder_of(source.path)
    if folder not in ARROWS and folder not in OUTSIDE:
        yield Finding("layers", source.path, 1, f"'{folder}' is not a folder of the architecture")
        return
    if folder in OUTSIDE or source.path.endswith(("_test.cc", "_test.h")):
        return
    for include in source.includes:
        target = resolver.resolve(source.path, include)
        if target is None:
            if folder in VENDOR_FREE and _VENDOR.match(include.name):
                yield Finding("layers", source.path, include.line,
                              f"{folder} is free of vendors' headers, this is one: {include.name}")
        elif target.endswith("_test.h"):
            yield Finding("layers", source.path, include.line, f"{include.name} is for tests")
        elif VERIFIER.match(target) and not VERIFIER.match(source.path):
            yield Finding("layers", source.path, include.line,
                          f"the library does not contain the verifier ({include.name})")
        elif not allowed(folder, folder_of(target)):
            yield Finding("layers", source.path, include.line,
                          f"no arrow from {folder} to {folder_of(target)} ({include.name})")
