"""A C++ file as the checks see it: the text, and the same text with everything but code blanked out."""

import bisect
import dataclasses
import functools
import re

# Longest first where one could start the other. Identifiers and numbers are matched only so that
# the quote in 1'000 and the prefix in u8"x" are not taken for the start of something else.
_TOKEN = re.compile(
    r"""
      (?P<comment> //(?:[^\n\\]|\\\n|\\.)* | /\*.*?(?:\*/|\Z) )
    | (?P<raw>     (?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?(?:\)(?P=mark)"|\Z) )
    | (?P<text>    "(?:[^"\\\n]|\\.|\\\n)*" | '(?:[^'\\\n]|\\.)+' )
    | [A-Za-z_]\w* (?=["'])? | \.?[0-9](?:'?[0-9A-Za-z_.])*
    """,
    re.VERBOSE | re.DOTALL,
)
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w*)((?:[^\n\\]|\\\n|\\.)*)", re.MULTILINE)
_INCLUDE = re.compile(r'#\s*include\s*([<"])([^">]+)[">]')


@dataclasses.dataclass(frozen=True)
class Include:
    line: int
    name: str
    quoted: bool


@dataclasses.dataclass(frozen=True)
class Directive:
    offset: int
    word: str


def _blank(text):
    return re.sub(r"[^\n]", " ", text)


def _blank_token(match):
    token = match.group(0)
    if match.group("comment"):
        return _blank(token)
    if match.group("raw") or match.group("text"):
        return token[0] + _blank(token[1:-1]) + token[-1] if len(token) > 1 else " "
    return token


class SourceFile:
    """Offsets and lines are those of the file in `text`, `code` and `directives` alike."""

    def __init__(self, path, text):
        self.path = path
        self.text = text
        self.lines = text.split("\n")
        if self.lines[-1] == "":
            self.lines.pop()
        self._starts = [0] + [m.end() for m in re.finditer("\n", text)]
        code = _TOKEN.sub(_blank_token, text)
        self.directives = []
        self.includes = []
        for match in _DIRECTIVE.finditer(code):
            self._add_directive(match)
        self.code = _DIRECTIVE.sub(lambda match: _blank(match.group(0)), code)

    def _add_directive(self, match):
        self.directives.append(Directive(match.start(), match.group(1)))
        if match.group(1) == "include":
            found = _INCLUDE.search(self.text[match.start() : match.end()])
            if found:
                line = self.line_at(match.start())
                self.includes.append(Include(line, found.group(2), found.group(1) == '"'))

    @functools.cached_property
    def comments(self):
        """(first line, text without its marks) of each comment; lines of // without code between are one."""
        found = []
        for match in _TOKEN.finditer(self.text):
            if not match.group("comment"):
                continue
            line = self.line_at(match.start())
            text = re.sub(r"^[ \t]*(?://[/!]?<?|/\*+|\*+/?)[ \t]?|[ \t]*\*/$", "", match.group("comment"),
                          flags=re.MULTILINE)
            alone = not self.lines[line - 1][: match.start() - self._starts[line - 1]].strip()
            if alone and found and found[-1][2] == line - 1:
                found[-1] = (found[-1][0], f"{found[-1][1]}\n{text}", line + text.count("\n"))
            else:
                found.append((line, text, line + text.count("\n") if alone else -1))
        return [(line, text) for line, text, _ in found]

    def line_at(self, offset):
        """The line, counted from 1, of a position in the text."""
        return bisect.bisect_right(self._starts, offset)
