"""What the text before a '{' or a ';' declares. Text is code: without comments, literals, directives."""

import dataclasses
import re

_OPERATOR = re.compile(r"\boperator\s*(\(\s*\)|\[\s*\]|\"\"\s*\w+|[^\w\s(]+)")
_ATTRIBUTE = re.compile(r"\[\[.*?\]\]", re.DOTALL)
_PAREN_WORDS = ("alignas", "__attribute__", "__declspec", "noexcept", "decltype", "explicit")
_TYPE_HEAD = re.compile(
    r"(?:(?:typedef|static|inline|constexpr|constinit|const|friend|extern|export|thread_local)\s+)*"
    r"(?:class|struct|union|enum)\b"
)
_LAMBDA = re.compile(r"=\s*\[[^\]]*\]")


@dataclasses.dataclass(frozen=True)
class Signature:
    name: str
    parameters: int


def _closing(text, start, opening, closing):
    """The position after the bracket that closes text[start], or -1."""
    depth = 0
    for i in range(start, len(text)):
        if text[i] == opening:
            depth += 1
        elif text[i] == closing:
            depth -= 1
            if depth == 0:
                return i + 1
    return -1


def _without_calls(text, word):
    """Removes `word(...)` with balanced parentheses."""
    pattern = re.compile(r"\b%s\s*\(" % word)
    match = pattern.search(text)
    while match:
        end = _closing(text, match.end() - 1, "(", ")")
        if end < 0:
            return text
        text = text[: match.start()] + " " + text[end:]
        match = pattern.search(text)
    return text


def _angle_end(text, start):
    """The position after the '>' that closes text[start] == '<', or -1 where it is a comparison."""
    depth = parens = 0
    for i in range(start, len(text)):
        c = text[i]
        if c in "([{":
            parens += 1
        elif c in ")]}":
            parens -= 1
            if parens < 0:
                return -1
        elif c == ";":
            return -1
        elif parens == 0 and c == "<":
            depth += 1
        elif parens == 0 and c == ">":
            depth -= 1
            if depth == 0:
                return i + 1
    return -1


def _without_angles(text):
    out = []
    i = 0
    while i < len(text):
        if text[i] == "<" and re.search(r"\w\s*$", text[max(0, i - 40) : i]):
            end = _angle_end(text, i)
            if end > 0:
                i = end
                continue
        out.append(text[i])
        i += 1
    return "".join(out)


def simplify(text):
    """The declaration without attributes, template parameters and template arguments."""
    text = _ATTRIBUTE.sub(" ", text)
    text = _OPERATOR.sub("operator_symbol", text)
    for word in _PAREN_WORDS:
        text = _without_calls(text, word)
    text = text.replace("->", "  ")
    text = re.sub(r"\btemplate(?=\s*<)", "template_", text)
    text = _without_angles(text)
    return re.sub(r"\btemplate_", " ", text).strip()


def cut_at_top_level(text, characters):
    """The text before the first of these characters that is outside parentheses ('==' is none)."""
    depth = 0
    for i, c in enumerate(text):
        if c in characters and depth == 0:
            if c == "=" and (text[i + 1 : i + 2] == "=" or text[i - 1 : i] in ("=", "!", "<", ">")):
                continue
            return text[:i]
        if c in "([":
            depth += 1
        elif c in ")]":
            depth -= 1
    return text


def _without_paren_contents(text):
    out = []
    depth = 0
    for c in text:
        depth -= c == ")"
        if depth == 0:
            out.append(c)
        depth += c == "("
    return "".join(out)


def _without_braces(text):
    """Without what a requires-expression or an initializer holds."""
    while True:
        shorter = re.sub(r"\{[^{}]*\}", " ", text)
        if shorter == text:
            return text
        text = shorter


def _has_initializer_list(simple):
    return re.search(r"\)[^:()]*(?<!:):(?!:)", _without_paren_contents(simple)) is not None


def classify(head):
    """What the '{' after `head` opens at namespace or class scope.

    'namespace', 'extern', 'type', 'function', or 'init': braces inside a declaration that goes on.
    """
    if re.search(r'\bextern\s*"[^"]*"\s*$', head):
        return "extern"
    if re.search(r"\bnamespace\b[^()=;]*$", head):
        return "namespace"
    simple = simplify(head)
    before = cut_at_top_level(simple, "=")
    if before != simple:
        return "function" if _LAMBDA.search(simple) else "init"
    if "(" not in simple:
        return "type" if _TYPE_HEAD.match(simple) else "init"
    if re.search(r"\brequires\s*(\([^()]*\))?\s*$", head):
        return "init"
    if _has_initializer_list(simple) and re.search(r"[\w>]\s*$", head):
        return "init"
    return "function"


def _groups(simple):
    """(name before it, contents) of each parenthesis at top level that follows a name."""
    i = simple.find("(")
    while i >= 0:
        end = _closing(simple, i, "(", ")")
        if end < 0:
            return
        name = re.search(r"(~?[\w:~]+)\s*$", simple[:i])
        if name and name.group(1) not in ("requires", "sizeof"):
            yield name.group(1), simple[i + 1 : end - 1]
        i = simple.find("(", end)


def _is_macro(name):
    return re.fullmatch(r"[A-Z][A-Z0-9_]+", name) is not None


def _count(contents):
    if contents.strip() in ("", "void"):
        return 0
    count = 1
    depth = 0
    for c in contents:
        depth += (c in "([{") - (c in ")]}")
        count += c == "," and depth == 0
    return count


def signature(head):
    """Name and parameter count of a function's head; a lambda is named after its variable."""
    simple = simplify(head)
    before = cut_at_top_level(simple, "=")
    if before != simple and _LAMBDA.search(simple):
        return Signature(before.split()[-1], 0)
    found = list(_groups(_without_braces(before)))
    plain = [group for group in found if not _is_macro(group[0])]
    name, contents = (plain or found or [("?", "")])[0]
    return Signature(name, _count(contents))


def declared_function(statement):
    """The Signature of a function declaration, or None for another statement."""
    simple = cut_at_top_level(simplify(statement), "=")
    if "(" not in simple or re.match(r"(using|typedef|static_assert|friend\s+class)\b", simple):
        return None
    found = signature(statement)
    return None if _is_macro(found.name) or found.name == "?" else found
