"""Configurations as typed trees, in which one modifier changes every part that it matches.

    from tutti import config

    @config.node
    class Optimizer:
        rate: float                       # no default: it must be set before the tree is used
        momentum: float = 0.9

    @config.node
    class Training:
        steps: int = 4
        optimizer: Optimizer = Optimizer()

    slow = config.Modifier(Optimizer, {"rate": 0.01})
    training = config.apply(Training(), slow)
    print(config.to_text(training))

Nodes are frozen classes of `attrs`; what a field holds is checked against its type by `typeguard`. Both are
installed by `pip install tutti-comm[config]`. A change makes a new tree and leaves the old one as it was, so
trees share parts and never see each other's changes, and no tree contains itself. The form follows AXLearn
(arXiv 2507.05411): composition only, modifiers that visit the tree, rules by hardware, and a stable text to
review. Threads: values. Errors: `tutti.InvalidInput`, with the path of the field.
"""

import difflib
import fnmatch
import glob
import json
import math
import os
import typing

import attrs
import typeguard

from tutti.errors import InvalidInput

__all__ = ["REQUIRED", "Difference", "Modifier", "Rules", "apply", "changed", "diff", "from_text", "hardware",
           "instantiate", "missing", "node", "to_text", "walk"]


class _Required:
    """The value of a field that has none yet."""

    def __repr__(self):
        return "REQUIRED"

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self


REQUIRED = _Required()
_PLAIN = (bool, int, float, str, type(None))


def _names(cls):
    return [field.name for field in attrs.fields(cls)]


def _refuse_unknown(cls, names, where=""):
    known = _names(cls)
    for name in names:
        if name in known:
            continue
        close = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known) or 'none'}"
        raise InvalidInput(f"{where}{cls.__name__} has no field {name!r}: {hint}")


def _refuse_what_has_no_text(value, path):
    if isinstance(value, tuple):
        for i, part in enumerate(value):
            _refuse_what_has_no_text(part, f"{path}[{i}]")
    elif isinstance(value, float) and not math.isfinite(value):
        raise InvalidInput(f"{path} is {value}: a configuration has finite numbers")
    elif not (type(value) in _PLAIN or is_node(value)):
        raise InvalidInput(f"{path} is of type {type(value).__name__}: a configuration holds numbers, strings, "
                           "bools, None, other nodes, and tuples of these")


def _check(self, field, value):
    if value is REQUIRED:
        return
    path = f"{type(self).__name__}.{field.name}"
    _refuse_what_has_no_text(value, path)
    wanted = typing.get_type_hints(type(self))[field.name]
    is_number = wanted in (int, float, typing.Optional[int], typing.Optional[float])
    try:
        if isinstance(value, bool) and is_number:
            raise typeguard.TypeCheckError("is a bool")
        typeguard.check_type(value, wanted)
    except typeguard.TypeCheckError as error:
        text = getattr(wanted, "__name__", str(wanted)) if isinstance(wanted, type) else str(wanted)
        raise InvalidInput(f"{path} is {value!r}, and must be {text}: {error}") from None


def _fields_may_be_unset(cls, fields):
    del cls
    return [field.evolve(default=REQUIRED) if field.default is attrs.NOTHING else field for field in fields]


def node(cls=None, *, makes=None):
    """Makes a class with annotated fields a kind of node: frozen, compared by value, made by keywords.

    A field without a default is REQUIRED until it is set. `makes` is what instantiate() calls with the fields,
    a class or a function.

    >>> from tutti import config
    >>> @config.node
    ... class Optimizer:
    ...     rate: float
    >>> Optimizer(rate=0.1), Optimizer()
    (Optimizer(rate=0.1), Optimizer(rate=REQUIRED))
    """
    def wrap(cls):
        made = attrs.frozen(cls, kw_only=True, slots=False, field_transformer=_fields_may_be_unset)
        for field in attrs.fields(made):
            if field.default is not REQUIRED and isinstance(field.default, (list, dict, set)):
                raise InvalidInput(f"{made.__name__}.{field.name} has a default that can be changed: use a tuple")
        plain_init = made.__init__

        def init(self, /, **values):
            _refuse_unknown(type(self), values)
            plain_init(self, **values)
            for field in attrs.fields(type(self)):
                _check(self, field, getattr(self, field.name))

        made.__init__ = init
        made.__tutti_makes__ = staticmethod(makes) if makes is not None else None
        return made
    return wrap if cls is None else wrap(cls)


def is_node(value):
    """Whether it is a node, and not its class."""
    return hasattr(type(value), "__tutti_makes__")


def _must_be_tree(tree):
    if not is_node(tree):
        raise InvalidInput(f"a tree of nodes is expected (config.node), not {type(tree).__name__}")
    return tree


# ---- parts --------------------------------------------------------------------------------------


def _joined(path, step):
    return f"{path}{step}" if step.startswith("[") or not path else f"{path}.{step}"


def _steps(value):
    """The (step, child) of a node or a tuple."""
    if is_node(value):
        return [(name, getattr(value, name)) for name in _names(type(value))]
    return [(f"[{i}]", part) for i, part in enumerate(value)] if isinstance(value, tuple) else []


def walk(tree):
    """The (path, node) of all nodes, children first; the path of the tree itself is "".

    >>> from tutti import config
    >>> @config.node
    ... class Layer:
    ...     width: int = 8
    >>> @config.node
    ... class Model:
    ...     layers: tuple[Layer, ...] = (Layer(), Layer(width=4))
    >>> [path for path, _ in config.walk(Model())]
    ['layers[0]', 'layers[1]', '']
    """
    def visit(value, path):
        for step, child in _steps(value):
            yield from visit(child, _joined(path, step))
        if is_node(value):
            yield path, value
    return visit(_must_be_tree(tree), "")


def _leaves(value, path=""):
    children = _steps(value)
    if not children and not is_node(value):
        yield path, value
    for step, child in children:
        yield from _leaves(child, _joined(path, step))


def missing(tree):
    """The paths of fields that must be set before the tree can be used.

    >>> from tutti import config
    >>> @config.node
    ... class Optimizer:
    ...     rate: float
    >>> config.missing(Optimizer())
    ['rate']
    """
    return [path for path, value in _leaves(_must_be_tree(tree)) if value is REQUIRED]


@attrs.frozen
class Difference:
    """What has another value in the second of two trees. A part that only one of them has is None in the other."""

    path: str
    old: object
    new: object


def diff(old, new):
    """Everything that differs, in the order of the fields. Nodes of different kinds differ as a whole.

    >>> from tutti import config
    >>> @config.node
    ... class Layer:
    ...     width: int = 8
    >>> config.diff(Layer(), Layer(width=4))
    [Difference(path='width', old=8, new=4)]
    """
    def compare(a, b, path):
        alike = type(a) is type(b) and (is_node(a) or (isinstance(a, tuple) and len(a) == len(b)))
        if not alike:
            return [] if a == b and type(a) is type(b) else [Difference(path, a, b)]
        found = []
        for (step, one), (_, other) in zip(_steps(a), _steps(b)):
            found += compare(one, other, _joined(path, step))
        return found
    return compare(_must_be_tree(old), _must_be_tree(new), "")


# ---- changes ------------------------------------------------------------------------------------


def _split(path):
    """'model.layers[2].width' -> ['model', 'layers', '[2]', 'width']"""
    steps = [step for part in path.replace("[", ".[").split(".") for step in [part] if step]
    if not steps:
        raise InvalidInput("the path of a field is empty")
    return steps


def _put(value, steps, new, path):
    step, rest = steps[0], steps[1:]
    here = _joined(path, step)
    if step.startswith("["):
        index = int(step[1:-1]) if step.endswith("]") and step[1:-1].isdigit() else -1
        if not isinstance(value, tuple) or not 0 <= index < len(value):
            raise InvalidInput(f"there is no {here}")
        inner = _put(value[index], rest, new, here) if rest else new
        return value[:index] + (inner,) + value[index + 1:]
    if not is_node(value):
        raise InvalidInput(f"there is no {here}: {path or 'the tree'} is {value!r}")
    _refuse_unknown(type(value), [step], f"{path}: " if path else "")
    inner = _put(getattr(value, step), rest, new, here) if rest else new
    return attrs.evolve(value, **{step: inner})


def changed(tree, values):
    """A tree with other values at these paths.

    >>> from tutti import config
    >>> @config.node
    ... class Layer:
    ...     width: int = 8
    >>> @config.node
    ... class Model:
    ...     layers: tuple[Layer, ...] = (Layer(), Layer())
    >>> config.changed(Model(), {"layers[1].width": 2})
    Model(layers=(Layer(width=8), Layer(width=2)))
    """
    _must_be_tree(tree)
    for path, value in values.items():
        tree = _put(tree, _split(path), value, "")
    return tree


@attrs.frozen
class Modifier:
    """A change of all nodes that it matches.

    `where`: a class of nodes; a pattern of their paths as in a shell ("model.layers*"); or a function of
    (path, node) that says yes or no. `change`: new values of fields by name; or a function that takes the
    node and gives the one in its place. Children are changed before their parents, each node once.
    """

    where: object
    change: object

    def matches(self, tree):
        """The paths of the nodes that it would change."""
        return [path for path, one in walk(tree) if self._does_match(path, one)]

    def _does_match(self, path, one):
        if isinstance(self.where, type):
            return isinstance(one, self.where)
        if isinstance(self.where, str):
            return fnmatch.fnmatchcase(path, self.where.replace("[", "[[]"))
        return bool(self.where(path, one))

    def _change(self, path, one):
        if not isinstance(self.change, dict):
            return self.change(one)
        _refuse_unknown(type(one), self.change, f"{path}: " if path else "")
        return attrs.evolve(one, **self.change)


def apply(tree, *modifiers):
    """The tree as these modifiers make it, one after the other.

    >>> from tutti import config
    >>> @config.node
    ... class Layer:
    ...     width: int = 8
    >>> @config.node
    ... class Model:
    ...     layers: tuple[Layer, ...] = (Layer(), Layer())
    >>> config.apply(Model(), config.Modifier(Layer, {"width": 2}))
    Model(layers=(Layer(width=2), Layer(width=2)))
    """
    _must_be_tree(tree)
    for modifier in modifiers:
        def visit(value, path, modifier=modifier):
            if isinstance(value, tuple):
                return tuple(visit(part, f"{path}[{i}]") for i, part in enumerate(value))
            if not is_node(value):
                return value
            inner = {name: visit(part, _joined(path, name)) for name, part in _steps(value)}
            one = attrs.evolve(value, **inner)
            return modifier._change(path, one) if modifier._does_match(path, value) else one
        tree = visit(tree, "")
        _must_be_tree(tree)
    return tree


class Rules:
    """Modifiers by hardware: a list of (pattern, modifiers), the pattern as in a shell, without case.

    Two rules that match one hardware must not give one field different values, unless `ordered`: then the
    later one counts.

    >>> from tutti import config
    >>> @config.node
    ... class Model:
    ...     precision: str = "float32"
    >>> rules = config.Rules([("*h100*", [config.Modifier(Model, {"precision": "bfloat16"})])])
    >>> rules.apply(Model(), "NVIDIA H100 80GB HBM3 x 8"), rules.apply(Model(), "cpu x 2")
    (Model(precision='bfloat16'), Model(precision='float32'))
    """

    def __init__(self, rules, ordered=False):
        self._rules = [(pattern, tuple(modifiers)) for pattern, modifiers in rules]
        self._ordered = ordered

    def apply(self, tree, name=None):
        """The tree as the rules for this hardware make it; without a name, for what hardware() finds."""
        name = hardware() if name is None else name
        matching = [(pattern, modifiers) for pattern, modifiers in self._rules
                    if fnmatch.fnmatchcase(name.lower(), pattern.lower())]
        if not self._ordered:
            self._refuse_conflicts(tree, name, matching)
        return apply(tree, *(one for _, modifiers in matching for one in modifiers))

    @staticmethod
    def _refuse_conflicts(tree, name, matching):
        made = {}
        for pattern, modifiers in matching:
            for change in diff(tree, apply(tree, *modifiers)):
                other, value = made.setdefault(change.path, (pattern, change.new))
                if value != change.new:
                    raise InvalidInput(f"{name!r} matches {other!r} and {pattern!r}, which set {change.path} to "
                                       f"{value!r} and {change.new!r}: make one pattern narrower, or say "
                                       "ordered=True, and the later rule counts")


def hardware():
    """What this host computes with: "NVIDIA H100 80GB HBM3 x 8", or "cpu x 2" where no driver shows a GPU."""
    models = []
    for path in sorted(glob.glob("/proc/driver/nvidia/gpus/*/information")):
        with open(path, encoding="utf-8", errors="replace") as file:
            models += [line.split(":", 1)[1].strip() for line in file if line.startswith("Model:")]
    if models:
        return f"{models[0]} x {len(models)}"
    return f"cpu x {os.cpu_count()}"


# ---- use ----------------------------------------------------------------------------------------


def instantiate(tree):
    """What the nodes make: each one's `makes` is called with its fields, in which nodes have been replaced by
    what they make. A node that makes nothing stays as it is, and must have no part that makes something.

    >>> from tutti import config
    >>> @config.node(makes=complex)
    ... class Number:
    ...     real: float
    ...     imag: float = 0.5
    >>> config.instantiate(Number(real=1.0))
    (1+0.5j)
    """
    unset = missing(tree)
    if unset:
        raise InvalidInput(f"not set: {', '.join(unset)}")

    def make(value, path):
        if isinstance(value, tuple):
            return tuple(make(part, f"{path}[{i}]") for i, part in enumerate(value))
        if not is_node(value):
            return value
        made = {name: make(part, _joined(path, name)) for name, part in _steps(value)}
        if type(value).__tutti_makes__ is not None:
            return type(value).__tutti_makes__(**made)
        for name, part in _steps(value):
            if made[name] is not part and made[name] != part:
                raise InvalidInput(f"{_joined(path, name)} makes something, and {type(value).__name__}, which holds "
                                   "it, makes nothing: give it makes=")
        return value
    return make(tree, "")


def to_text(tree):
    """JSON, the same for equal trees: fields in their order, one a line; "is" names the kind of node.

    >>> from tutti import config
    >>> @config.node
    ... class Layer:
    ...     width: int = 8
    >>> print(config.to_text(Layer()))
    {
     "is": "Layer",
     "width": 8
    }
    """
    def plain(value):
        if value is REQUIRED:
            return {"is": "REQUIRED"}
        if isinstance(value, tuple):
            return [plain(part) for part in value]
        if not is_node(value):
            return value
        return {"is": type(value).__name__, **{name: plain(part) for name, part in _steps(value)}}
    return json.dumps(plain(_must_be_tree(tree)), indent=1)


def from_text(text, classes):
    """The tree of a text. Only these classes of nodes are made, whatever the text says.

    >>> from tutti import config
    >>> @config.node
    ... class Layer:
    ...     width: int = 8
    >>> config.from_text('{"is": "Layer", "width": 2}', [Layer])
    Layer(width=2)
    """
    known = {}
    for one in classes:
        if known.setdefault(one.__name__, one) is not one:
            raise InvalidInput(f"two classes of nodes are called {one.__name__}")

    def value_of(found, path):
        if isinstance(found, list):
            return tuple(value_of(part, f"{path}[{i}]") for i, part in enumerate(found))
        if not isinstance(found, dict):
            return found
        name = found.pop("is", None)
        if name == "REQUIRED" and not found:
            return REQUIRED
        if name not in known:
            close = difflib.get_close_matches(str(name), known, 1)
            raise InvalidInput(f"{path or 'the text'}: no class of nodes is called {name!r}"
                               + (f": did you mean {close[0]!r}?" if close else f": there are {', '.join(known)}"))
        _refuse_unknown(known[name], found, f"{path}: " if path else "")
        return known[name](**{field: value_of(part, _joined(path, field)) for field, part in found.items()})

    try:
        found = json.loads(text, parse_constant=lambda word: word)
    except ValueError as error:
        raise InvalidInput(f"the text is no JSON: {error}") from None
    return _must_be_tree(value_of(found, ""))
