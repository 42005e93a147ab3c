#!/usr/bin/env python3
"""What the headers of the runtime layer declare can be linked from outside of its library.

Tests of this build link the runtime's objects, so that a function without TUTTI_RUNTIME_API is
missed by nobody but a stranger. Here the symbols that the library hides are compared with what its
headers declare.
"""

import os
import re
import subprocess
import sys
import unittest

SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
HEADERS = os.path.join(SOURCES, "include", "tutti", "runtime")
BUILD = os.environ.get("TEST_BINARY_DIR", os.path.join(SOURCES, "build"))

# A hidden function: "0000 t tutti::runtime::FitCost::sequence_ms(long, int) const". The cold part
# that a compiler makes of one is not it.
HIDDEN = re.compile(r"^[0-9a-f]+ t tutti::runtime::((?:\w+::)?)(\w+)\((?!.*\[clone)")


def declared(name, owner, text):
    """Whether the header declares a function of this name: at namespace scope, or in this class."""
    call = re.compile(r"\b" + name + r"\([^;{]*\)[^;{]*;")  # a body in the header needs no export
    classes = re.findall(r"^(?:class|struct) (?:TUTTI_RUNTIME_API )?(\w+)[^;{]*\{(.*?)^\};", text,
                         re.DOTALL | re.MULTILINE)
    if owner:
        # Private members count, too: inline functions of the header may call them.
        return any(known == owner and call.search(body) for known, body in classes)
    outside = re.sub(r"^(?:class|struct) [^;{]*\{.*?^\};", "", text, flags=re.DOTALL | re.MULTILINE)
    return bool(call.search(outside))


def hidden_declarations(symbols, headers):
    """The functions that headers declare and the library does not export."""
    found = set()
    for line in symbols.splitlines():
        match = HIDDEN.match(line)
        if not match:
            continue
        owner, name = match.group(1).removesuffix("::"), match.group(2)
        if any(declared(name, owner, text) for text in headers):
            found.add((owner + "::" if owner else "") + name)
    return sorted(found)


def without_comments(text):
    return re.sub(r"//[^\n]*", "", text)


class Exports(unittest.TestCase):
    def test_every_declared_function_is_exported(self):
        library = os.path.join(BUILD, "lib", "libtutti_runtime.so")
        listing = subprocess.run(["nm", "-C", library], check=True, capture_output=True, text=True)
        symbols = listing.stdout
        self.assertIn(" T tutti::runtime::plan_bucket(", symbols)
        headers = []
        for folder, _, names in os.walk(HEADERS):
            for name in names:
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    headers.append(without_comments(file.read()))
        self.assertEqual(hidden_declarations(symbols, headers), [])

    def test_a_hidden_function_is_found(self):
        headers = ["struct FitCost {\n  double sequence_ms(int64_t length) const;\n};\n"
                   "int visible(int a);\n"]
        symbols = ("00 t tutti::runtime::FitCost::sequence_ms(long) const\n"
                   "00 t tutti::runtime::visible(int)\n"
                   "00 t tutti::runtime::helper(int)\n"
                   "00 t tutti::runtime::Other::visible(int)\n")
        self.assertEqual(hidden_declarations(symbols, headers), ["FitCost::sequence_ms", "visible"])


if __name__ == "__main__":
    if not os.path.exists(os.path.join(BUILD, "lib", "libtutti_runtime.so")):
        print("there is no libtutti_runtime.so in " + BUILD)
        sys.exit(77)
    unittest.main()
