"""Comments are sentences with a subject: 'A rank that died ...', not 'Who died ...'."""

import re

from tidy_checks.finding import Finding

# A sentence begins with the comment, behind the end of another, or behind an empty line.
_BARE = re.compile(r"(?:^\s*|[.!?:]\s+|\n[ \t]*\n\s*)(Who|Whom|What|Whoever)\b")


def sentences_without_subject(text):
    """(offset, word) of each sentence of a comment's text that begins with a bare relative."""
    return [(match.start(1), match.group(1)) for match in _BARE.finditer(text)]


def check(source):
    for line, text in source.comments:
        for offset, word in sentences_without_subject(text):
            yield Finding("prose", source.path, line + text.count("\n", 0, offset),
                          f"a sentence begins with '{word}': name what it is about (a rank that ...)")
