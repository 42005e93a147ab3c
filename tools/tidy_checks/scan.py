"""Finds functions and statements by following braces. Not a parser: it knows how C++ is written here."""

import copy
import dataclasses
import re

from tidy_checks import signature

_EVENT = re.compile(r"[{}();:]")
_ACCESS = re.compile(r"\s*(public|private|protected)\s*$")
_OPENING = ("if", "ifdef", "ifndef")
_TURNING = ("else", "elif", "elifdef", "elifndef")


@dataclasses.dataclass(frozen=True)
class Function:
    name: str
    first_line: int
    last_line: int
    parameters: int
    extern_c: bool

    @property
    def lines(self):
        return self.last_line - self.first_line + 1


@dataclasses.dataclass(frozen=True)
class Statement:
    text: str
    first_line: int
    last_line: int
    scope: str  # 'namespace', 'type' or 'function'
    extern_c: bool


@dataclasses.dataclass
class _Scope:
    kind: str
    extern_c: bool
    head: int  # where the text before its '{' started
    brace: int
    parens: int = 0
    pending: int = 0  # where the statement that is being read started


class _Scanner:
    def __init__(self, source):
        self.source = source
        self.code = source.code
        self.functions = []
        self.statements = []
        self.scopes = [_Scope("namespace", False, 0, 0)]
        self.saved = []

    def run(self):
        events = [(m.start(), m.group(0)) for m in _EVENT.finditer(self.code)]
        events += [(d.offset, d.word) for d in self.source.directives]
        handlers = {"{": self.open, "}": self.close, "(": self.paren, ")": self.unparen,
                    ";": self.semicolon, ":": self.colon}
        for offset, what in sorted(events):
            if what in handlers:
                handlers[what](offset)
            else:
                self.directive(offset, what)

    def directive(self, offset, word):
        """Every branch of an #if is read from the state at the #if; the last one goes on."""
        if word in _OPENING:
            self.saved.append((offset, copy.deepcopy(self.scopes)))
        elif word in _TURNING and self.saved:
            start, scopes = self.saved[-1]
            self.scopes = copy.deepcopy(scopes)
            top = self.scopes[-1]
            if self.code[top.pending : start].isspace() or top.pending == start:
                top.pending = offset  # no statement was open: the other branch is no part of this one
        elif word == "endif" and self.saved:
            self.saved.pop()

    def open(self, offset):
        top = self.scopes[-1]
        if top.kind in ("function", "block", "init"):
            kind = "init" if top.kind == "init" else "block"
        elif top.parens > 0:
            kind = "init"
        else:
            kind = signature.classify(self.code[top.pending : offset])
        extern_c = top.extern_c or kind == "extern"
        kind = "namespace" if kind == "extern" else kind
        self.scopes.append(_Scope(kind, extern_c, top.pending, offset, pending=offset + 1))

    def close(self, offset):
        if len(self.scopes) == 1:
            raise ValueError(f"line {self.source.line_at(offset)}: this '}}' closes nothing")
        scope = self.scopes.pop()
        if scope.kind == "function":
            self.add_function(scope, offset)
        if scope.kind != "init":  # an initializer belongs to the statement around it
            self.scopes[-1].pending = offset + 1
            self.scopes[-1].parens = 0

    def add_function(self, scope, offset):
        head = self.code[scope.head : scope.brace]
        found = signature.signature(head)
        first = scope.head + len(head) - len(head.lstrip())
        extern_c = scope.extern_c or re.match(r'\s*extern\s*"', head) is not None
        self.functions.append(Function(found.name, self.source.line_at(first),
                                       self.source.line_at(offset), found.parameters, extern_c))

    def paren(self, _):
        self.scopes[-1].parens += 1

    def unparen(self, _):
        self.scopes[-1].parens = max(0, self.scopes[-1].parens - 1)

    def semicolon(self, offset):
        top = self.scopes[-1]
        if top.kind == "init" or (top.parens > 0 and top.kind in ("namespace", "type")):
            return
        text = self.code[top.pending : offset]
        first = top.pending + len(text) - len(text.lstrip())
        scope = "function" if top.kind == "block" else top.kind
        extern_c = top.extern_c or re.match(r'\s*extern\s*"', text) is not None
        self.statements.append(Statement(text.strip(), self.source.line_at(first),
                                         self.source.line_at(offset), scope, extern_c))
        top.pending = offset + 1

    def colon(self, offset):
        top = self.scopes[-1]
        if top.kind == "type" and _ACCESS.match(self.code[top.pending : offset]):
            top.pending = offset + 1


def scan(source):
    """(functions, statements) of a SourceFile; statements inside functions are among them.

    ValueError where the braces do not balance: then nothing that was found can be trusted.
    """
    scanner = _Scanner(source)
    scanner.run()
    if len(scanner.scopes) != 1:
        raise ValueError(f"line {source.line_at(scanner.scopes[-1].brace)}: this '{{' is not closed")
    functions = sorted(set(scanner.functions), key=lambda f: (f.first_line, f.last_line))
    return functions, list(dict.fromkeys(scanner.statements))
