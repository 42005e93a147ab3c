"""Pages that say what the code is: docs/architecture.md has the arrows between folders, docs/glossary.md the words."""

import re

from tidy_checks import layers
from tidy_checks.finding import Finding

ARCHITECTURE = "docs/architecture.md"
GLOSSARY = "docs/glossary.md"
_MOST_LINES = 250  # of the architecture: it is read in one go
_MOST_WORDS = 80
_IDENTIFIER = re.compile(r"\b[A-Za-z_]\w*\b")
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
    if len(lines) > _MOST_LINES:
        yield Finding("pages", ARCHITECTURE, 1, f"{len(lines)} lines, at most {_MOST_LINES}: a subject has a page in docs/internals")
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


def _bare(word):
    """The word of an entry without what it is said of: 'handle (of a call)'."""
    return re.sub(r" \(.*\)", "", word)


def _check_entry(number, word, meaning, places, names, paths):
    """`names`: the identifiers of the code; `paths`: its files and folders."""
    folders = {path.rsplit("/", 1)[-1] for path in paths if "." not in path}
    if re.search(r"\bnot yet\b", meaning, re.IGNORECASE) and _bare(word) in folders:
        yield Finding("pages", GLOSSARY, number, f"'{word}' is not yet there, says its entry, and it is a folder")
    named = re.findall(r"`([^`]+)`", places)
    if not named:
        yield Finding("pages", GLOSSARY, number, f"'{word}' has no place in the code")
    for name in named:
        known = name in paths if "/" in name else name.split("::")[-1] in names
        if not known:
            yield Finding("pages", GLOSSARY, number, f"'{word}': the code has no {name}")


def check_glossary(text, names, paths):
    """Whether each word has one entry, which names something that the code has."""
    words = {}
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("In `"):
            for folder in re.findall(r"`([^`]+)`", line):
                if folder not in paths:
                    yield Finding("pages", GLOSSARY, number, f"there is no folder {folder}")
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("| ") else []
        if len(cells) != 3 or cells[0] == "Word":
            if cells and cells[0] != "Word":
                yield Finding("pages", GLOSSARY, number, "an entry has a word, its meaning and its place in the code")
            continue
        if cells[0] in words:
            yield Finding("pages", GLOSSARY, number, f"'{cells[0]}' has an entry in line {words[cells[0]]}")
        words[cells[0]] = number
        yield from _check_entry(number, *cells, names, paths)
    if len(words) > _MOST_WORDS:
        yield Finding("pages", GLOSSARY, 1, f"{len(words)} words, at most {_MOST_WORDS}: which ones does one folder use?")


def _names_of(sources):
    found = set()
    for source in sources:
        if source.path.startswith(("src/", "include/", "algorithms/", "transports/", "plugins/")):
            found.update(_IDENTIFIER.findall(source.code))
    return found


def _paths_of(sources):
    found = set()
    for source in sources:
        parts = source.path.split("/")
        found.update("/".join(parts[:length]) for length in range(1, len(parts) + 1))
    return found


def check(read, sources):
    """`read`: the text of a file of the checkout, or nothing where there is none; `sources`: all C++ files."""
    text = read(ARCHITECTURE)
    if text:
        yield from check_arrows(text)
    text = read(GLOSSARY)
    if text:
        yield from check_glossary(text, _names_of(sources), _paths_of(sources))
