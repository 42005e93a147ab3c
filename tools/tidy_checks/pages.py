"""Pages that say what the code is: docs/architecture.md has the arrows between folders, and the glossary words."""

import re

from tidy_checks import layers
from tidy_checks.finding import Finding

ARCHITECTURE = "docs/architecture.md"
_ROW = re.compile(r"^\| `([\w./]+)` \|.*\| ([^|]*) \|$")
_ALL_ABOVE = "every folder above but include"


def _line_of(lines, beginning):
    return next((number for number, line in enumerate(lines, 1) if line.startswith(beginning)), 1)


def _targets(text, above):
    if text == _ALL_ABOVE:
        return {folder for folder in above if folder not in ("include", "src/base")}
    names = text.removeprefix("only ").split(", ")
    return {name if name in layers.ARROWS else "src/" + name for name in names} - {"src/nothing"}


def check_arrows(text):
    """Whether the table of folders says what layers.py says."""
    lines = text.split("\n")
    begin = _line_of(lines, "## Folders and arrows")
    above = []
    for number, line in enumerate(lines[begin:], begin + 1):
        row = _ROW.match(line)
        if not row or row.group(1) not in layers.ARROWS:
            if row:
                yield Finding("pages", ARCHITECTURE, number, f"layers.py has no folder '{row.group(1)}'")
            continue
        folder = row.group(1)
        said, drawn = _targets(row.group(2), above), set(layers.ARROWS[folder])
        for target in sorted(said ^ drawn):
            which = "has no arrow" if target in said else "has an arrow"
            yield Finding("pages", ARCHITECTURE, number, f"layers.py {which} from {folder} to {target}")
        above.append(folder)
    for folder in sorted(set(layers.ARROWS) - set(above)):
        yield Finding("pages", ARCHITECTURE, begin, f"the table lacks '{folder}'")


def check(read):
    """`read`: the text of a file of the checkout, or nothing where there is none."""
    text = read(ARCHITECTURE)
    if text:
        yield from check_arrows(text)
