"""Checks that look at one file by itself: sizes, and a few things that are not written here."""

import re

from tidy_checks import signature
from tidy_checks.finding import Finding
from tidy_checks.scan import scan

MAX_FUNCTION_LINES = 70
MAX_KERNEL_LINES = 200  # functions in *.cu and *.cuh
MAX_FILE_LINES = 500
MAX_COLUMNS = 100
MAX_PARAMETERS = 5

# A public header states what applies of these.
_CONTRACT = re.compile(r"\b(Owns|Threads|Units|Errors|Ordering|Lifetime):")
_C_NAME = re.compile(r"p?(tutti|nccl)[A-Z]\w*$")  # defined in C++ files, declared extern "C" in a header
_REASON = re.compile(r"TODO\([^()\s][^()]*\): *\S")
_ALLOWED_MUTABLE = re.compile(r"tidy: allow mutable \([^()\s][^()]*\)")
_NOT_A_VARIABLE = re.compile(
    r"(using|typedef|friend|extern|static_assert|namespace|class|enum|concept|asm|return|export)\b")


def is_public_header(path):
    return path.startswith("include/") and path.endswith(".h")


def check_sizes(source, functions):
    limit = MAX_KERNEL_LINES if source.path.endswith((".cu", ".cuh")) else MAX_FUNCTION_LINES
    for function in functions:
        if function.lines > limit:
            yield Finding("function-lines", source.path, function.first_line,
                          f"{function.name} has {function.lines} lines, the limit is {limit}",
                          function.name, function.lines)
    if len(source.lines) > MAX_FILE_LINES:
        yield Finding("file-lines", source.path, MAX_FILE_LINES,
                      f"{len(source.lines)} lines, the limit is {MAX_FILE_LINES}",
                      size=len(source.lines))
    for number, line in enumerate(source.lines, 1):
        if len(line) > MAX_COLUMNS:
            yield Finding("columns", source.path, number,
                          f"{len(line)} columns, the limit is {MAX_COLUMNS}")


def check_parameters(source, functions, statements):
    if is_public_header(source.path):
        return
    found = [(f.name, f.parameters, f.first_line) for f in functions if not f.extern_c]
    for statement in statements:
        if statement.scope != "function" and not statement.extern_c:
            declared = signature.declared_function(statement.text)
            if declared:
                found.append((declared.name, declared.parameters, statement.first_line))
    for name, parameters, line in found:
        if parameters > MAX_PARAMETERS and not _C_NAME.match(name):
            yield Finding("parameters", source.path, line,
                          f"{name} has {parameters} parameters, the limit is {MAX_PARAMETERS}",
                          name, parameters)


def check_words(source):
    for match in re.finditer(r"\bgoto\b", source.code):
        yield Finding("goto", source.path, source.line_at(match.start()), "goto")
    for number, line in enumerate(source.lines, 1):
        if re.search(r"\b(FIXME|XXX)\b", line):
            yield Finding("todo", source.path, number, "FIXME: mend it, or write TODO(reason): what")
        elif re.search(r"\bTODO\b", line) and not _REASON.search(line):
            yield Finding("todo", source.path, number, "write TODO(what it waits for): what to do")


_FOLLOWS_LOCALE = re.compile(
    r"\b(strto(d|f|ld)|atof|sto(d|f|ld))\s*\(|printf\([^;]*\"[^\"]*%[-+ #0-9.*]*l?[aefgAEFG]")


def check_locale(source):
    """In what is loaded into programs; those of the project's own have the locale of C."""
    if not source.path.startswith(("src/", "transports/", "plugins/")):
        return
    if "_test." in source.path:
        return
    for match in _FOLLOWS_LOCALE.finditer(source.text):
        yield Finding("locale", source.path, source.line_at(match.start()),
                      "this reads or writes numbers as the program's locale does: "
                      "src/base/decimal.h, or fmt")


def check_contract(source):
    if is_public_header(source.path) and not _CONTRACT.search(source.text):
        yield Finding("contract", source.path, 1, "a public header states what applies of "
                      "Owns, Threads, Units, Errors, Ordering, Lifetime")


def _is_const(declaration):
    """Whether the variable itself is constant: `const char* x` is not, `const char* const x` is."""
    if re.search(r"\bconstexpr\b", declaration):
        return True
    if not re.search(r"\bconst\b", declaration):
        return False
    return "*" not in declaration or re.search(r"\*\s*const\b[^*]*$", declaration) is not None


def is_mutable_variable(statement):
    """Whether a statement defines a variable with static storage that can change."""
    text = signature.simplify(statement.text)
    declaration = signature.cut_at_top_level(text, "={")
    if _NOT_A_VARIABLE.match(declaration):
        return False
    if re.match(r"(struct|union)\b", declaration) and len(declaration.split()) < 3:
        return False
    if statement.scope == "type" and not re.search(r"\bstatic\b", declaration):
        return False
    if statement.scope == "function" and not re.match(r"(static|thread_local)\s", declaration):
        return False
    declaration = declaration.split("[")[0]
    if "(" in declaration or len(declaration.split()) < 2:
        return False
    return not _is_const(declaration)


def check_mutable(source, statements):
    for statement in statements:
        if not is_mutable_variable(statement):
            continue
        around = source.lines[max(0, statement.first_line - 2) : statement.last_line]
        if not any(_ALLOWED_MUTABLE.search(line) for line in around):
            yield Finding("mutable", source.path, statement.first_line,
                          "a variable that outlives every owner; hand it in, or write "
                          "'tidy: allow mutable (reason)'")


def check(source):
    try:
        functions, statements = scan(source)
    except ValueError as error:
        yield Finding("braces", source.path, 1, str(error))
        functions, statements = [], []
    yield from check_sizes(source, functions)
    yield from check_parameters(source, functions, statements)
    yield from check_words(source)
    yield from check_locale(source)
    yield from check_contract(source)
    if not source.path.startswith("tests/") and not source.path.endswith("_test.cc"):
        yield from check_mutable(source, statements)
