#!/usr/bin/env python3
"""Pages lead somewhere: every relative link of a page names a file and a headline that exist, every page of
docs/ that a source file names exists, every decision that is named by its number has a section, every quote is in its
file, and no raw rounds of measurements are tracked."""

import os
import re
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LINK = re.compile(r"\]\(([^)\s]+)\)")
NAMED = re.compile(r"\bdocs/[\w./-]+\.md\b(?:#[\w-]+)?")
NUMBERED = re.compile(r"\b[Dd]ecisions?\s+\[?(\d{4})\b")
DECISIONS = "docs/decisions/"
QUOTE = re.compile(r"^<!-- quote: (\S+) -->\n\n((?:    .*\n|\n(?=    ))+)", re.MULTILINE)
QUOTES = "<!-- quote:"
SOURCES = (".h", ".cc", ".py", ".cmake", ".txt")
MEASUREMENTS = "docs/measurements/"
MOST_BYTES = 150 * 1024


def tracked(root):
    done = subprocess.run(["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard"],
                          capture_output=True, text=True, check=True)
    return [name for name in done.stdout.splitlines() if os.path.exists(os.path.join(root, name))]


def read(root, name):
    with open(os.path.join(root, name), encoding="utf-8") as file:
        return file.read()


def anchors(text):
    """What a link may name behind '#': headlines in small letters, with hyphens, without punctuation."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    heads = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def dead_place(root, name, file, anchor):
    if not os.path.exists(os.path.join(root, file)):
        yield f"{name}: there is no {file}"
    elif anchor and anchor not in anchors(read(root, file)):
        yield f"{name}: {file} has no headline '{anchor}'"


def dead_links(root, name):
    text = read(root, name)
    for target in LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
        yield from dead_place(root, name, file, anchor)


def decisions(root, names):
    """The numbers that sections of the pages have, in the order of the pages."""
    pages = [name for name in names if name.startswith(DECISIONS) and name.endswith(".md")]
    return [number for name in pages for number in re.findall(r"^## (\d{4})$", read(root, name), re.MULTILINE)]


def wrong_decisions(root, names):
    numbers = decisions(root, names)
    for number in sorted({number for number in numbers if numbers.count(number) > 1}):
        yield f"{DECISIONS}: two sections are called {number}"
    for name in names:
        if not name.endswith(SOURCES + (".md",)) or name.endswith("docs_test.py"):
            continue
        for number in sorted(set(NUMBERED.findall(read(root, name))) - set(numbers)):
            if not any(other.startswith(DECISIONS + number) for other in names):
                yield f"{name}: there is no decision {number}"


def wrong_quotes(root, name):
    """A quote is a block behind a remark that names its file; it has the lines of the file, indented as one likes."""
    text = read(root, name)
    quotes = QUOTE.findall(text)
    if len(quotes) != text.count(QUOTES):
        yield f"{name}: a remark of a quote without a block behind it"
    for file, block in quotes:
        if not os.path.exists(os.path.join(root, file)):
            yield f"{name}: there is no {file}"
            continue
        wanted = [line.strip() for line in block.strip().splitlines()]
        lines = [line.strip() for line in read(root, file).splitlines()]
        if not any(lines[at:at + len(wanted)] == wanted for at in range(len(lines))):
            yield f"{name}: {file} has no such lines: {wanted[0]}"


def findings(root):
    names = tracked(root)
    for name in names:
        if name.endswith(".md"):
            yield from dead_links(root, name)
            yield from wrong_quotes(root, name)
        if name.endswith(SOURCES) and not name.endswith("docs_test.py"):
            for page in sorted(set(NAMED.findall(read(root, name)))):
                yield from dead_place(root, name, *page.partition("#")[::2])
        if name.endswith(".csv"):
            yield f"{name}: raw rounds are not tracked"
    yield from wrong_decisions(root, names)
    size = sum(os.path.getsize(os.path.join(root, name)) for name in names
               if name.startswith(MEASUREMENTS))
    if size > MOST_BYTES:
        yield f"{MEASUREMENTS}: {size} bytes, at most {MOST_BYTES}: one page per topic, newest medians"


class Docs(unittest.TestCase):
    def test_this_checkout(self):
        self.assertEqual(list(findings(ROOT)), [])


class Check(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        subprocess.run(["git", "init", "-q", self.root], check=True)
        self.write("docs/a.md", "# A page: of `one`\n[b](../b.md), [c](#a-page-of-one), [d](https://x.org)\n")
        self.write("b.md", "[a](docs/a.md#a-page-of-one)\n")

    def write(self, name, text):
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def test_what_leads_somewhere_passes(self):
        self.assertEqual(list(findings(self.root)), [])

    def test_a_missing_page(self):
        self.write("b.md", "[a](docs/b.md)\n")
        self.assertEqual(list(findings(self.root)), ["b.md: there is no docs/b.md"])

    def test_a_missing_headline(self):
        self.write("b.md", "[a](docs/a.md#b)\n")
        self.assertEqual(list(findings(self.root)), ["b.md: docs/a.md has no headline 'b'"])

    def test_a_page_that_a_source_names(self):
        self.write("src/a.cc", "// docs/a.md has why, and docs/decisions/calls.md#0001, and docs/a.md#why.\n")
        self.assertEqual(list(findings(self.root)), ["src/a.cc: docs/a.md has no headline 'why'",
                                                     "src/a.cc: there is no docs/decisions/calls.md"])

    def test_a_decision_that_is_named(self):
        self.write("docs/decisions/calls.md", "## 0001\n")
        self.write("src/a.cc", "// Decision 0001 has why, and decision 0002.\n")
        self.assertEqual(list(findings(self.root)), ["src/a.cc: there is no decision 0002"])

    def test_two_decisions_of_one_number(self):
        self.write("docs/decisions/calls.md", "## 0001\n")
        self.write("docs/decisions/windows.md", "## 0001\n")
        self.assertEqual(list(findings(self.root)), ["docs/decisions/: two sections are called 0001"])

    def test_a_quote(self):
        self.write("src/a.cc", "int f() {\n  one();\n\n  two();\n}\n")
        self.write("b.md", "<!-- quote: src/a.cc -->\n\n    one();\n\n    two();\n\nText.\n")
        self.assertEqual(list(findings(self.root)), [])
        self.write("src/a.cc", "int f() {\n  one();\n  two();\n}\n")
        self.assertEqual(list(findings(self.root)), ["b.md: src/a.cc has no such lines: one();"])
        self.write("b.md", "<!-- quote: src/b.cc -->\n\n    one();\n")
        self.assertEqual(list(findings(self.root)), ["b.md: there is no src/b.cc"])
        self.write("b.md", "<!-- quote: src/a.cc -->\n\nNothing.\n")
        self.assertEqual(list(findings(self.root)), ["b.md: a remark of a quote without a block behind it"])

    def test_raw_rounds(self):
        self.write("docs/measurements/all_reduce-2.csv", "1\n")
        self.assertEqual(list(findings(self.root)),
                         ["docs/measurements/all_reduce-2.csv: raw rounds are not tracked"])

    def test_measurements_that_grow(self):
        self.write("docs/measurements/a.md", "x" * (MOST_BYTES + 1))
        self.assertIn("at most", list(findings(self.root))[0])


if __name__ == "__main__":
    unittest.main()
