"""A file that names something of the standard library includes its header, directly or through files of the
project. The builds do not tell: most precompile these headers, and one standard header brings others along.
"""

import re

from tidy_checks.finding import Finding

# What cmake/TuttiPrecompiled.cmake lists, and the names of each that are in use here.
_NAMES = {
    "algorithm": "all_of any_of binary_search clamp copy copy_if copy_n count count_if equal fill fill_n "
                 "find find_if lower_bound max_element min_element minmax mismatch none_of nth_element "
                 "partial_sort remove_if replace_if rotate shuffle sort stable_partition stable_sort "
                 "transform unique upper_bound",
    "array": "array",
    "atomic": "atomic atomic_ref memory_order_acq_rel memory_order_acquire memory_order_relaxed "
              "memory_order_release memory_order_seq_cst",
    "bit": "bit_cast bit_ceil bit_floor bit_width countl_zero countr_zero endian has_single_bit popcount "
           "rotl rotr",
    "chrono": "chrono",
    "cstring": "memcmp memcpy memmove memset strcmp strerror strlen strncmp strstr",
    "functional": "function greater",
    "map": "map multimap",
    "memory": "make_shared make_unique make_unique_for_overwrite shared_ptr unique_ptr weak_ptr",
    "mutex": "lock_guard mutex scoped_lock try_to_lock unique_lock",
    "optional": "nullopt optional",
    "span": "span",
    "string": "stoi stol stoul stoull string to_string",
    "string_view": "string_view",
    "thread": "jthread this_thread thread",
    "utility": "as_const exchange index_sequence make_index_sequence",
    "vector": "vector",
}
HEADERS = _NAMES.keys() | {"cstdint"}  # whose names are used without std::
_HEADER_OF = {name: header for header, names in _NAMES.items() for name in names.split()}
_NAME = re.compile(r"\bstd::([a-z_0-9]+)\b(?!::)|\bstd::(chrono|this_thread)::")


class IncludeCheck:
    def __init__(self, resolver, read):
        self._resolver = resolver
        self._read = read  # a path from the root -> its SourceFile
        self._read_before = {}

    def check(self, source):
        """A Finding for the first use of each header that the file does not reach."""
        if source.path.endswith(".c"):
            return
        reached = self._reached(source)
        for match in _NAME.finditer(source.code):
            name = match.group(1) or match.group(2)
            header = _HEADER_OF.get(name)
            if header and header not in reached:
                reached.add(header)
                yield Finding("include", source.path, source.line_at(match.start()),
                              f"std::{name} without <{header}>")

    def _reached(self, source):
        """The headers of the system that the file includes, by itself or through the project's."""
        found, pending, system = {source.path}, [source], set()
        while pending:
            member = pending.pop()
            for include in member.includes:
                target = self._resolver.resolve(member.path, include)
                if target is None:
                    system.add(include.name)
                elif target not in found:
                    found.add(target)
                    pending.append(self._source(target))
        return system | {"string_view"} if "string" in system else system

    def _source(self, path):
        if path not in self._read_before:
            self._read_before[path] = self._read(path)
        return self._read_before[path]
