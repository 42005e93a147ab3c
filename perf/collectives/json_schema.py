"""The part of JSON Schema that docs/perf_results.schema.json uses."""

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def has_type(value, name):
    if name in ("integer", "number"):
        kinds = int if name == "integer" else (int, float)
        return isinstance(value, kinds) and not isinstance(value, bool)
    return isinstance(value, TYPES[name])


class Schema:
    def __init__(self, document):
        self._document = document

    def mistakes(self, value):
        """What is wrong with a value, one sentence each."""
        return list(self._check(value, self._document, "$"))

    def _check(self, value, rule, where):
        if "$ref" in rule:
            yield from self._check(value, self._resolve(rule["$ref"]), where)
            return
        if "anyOf" in rule:
            if all(any(True for _ in self._check(value, option, where)) for option in rule["anyOf"]):
                yield f"{where}: fits none of {rule['anyOf']}"
        if "const" in rule and value != rule["const"]:
            yield f"{where}: {value!r} is not {rule['const']!r}"
        if "enum" in rule and not any(value is one or (value == one and type(value) is type(one))
                                      for one in rule["enum"]):
            yield f"{where}: {value!r} is not one of {rule['enum']}"
        names = rule.get("type", [])
        names = [names] if isinstance(names, str) else names
        if names and not any(has_type(value, name) for name in names):
            yield f"{where}: {value!r} is not {' or '.join(names)}"
            return
        if isinstance(value, dict):
            yield from self._check_object(value, rule, where)
        if isinstance(value, list) and "items" in rule:
            for index, item in enumerate(value):
                yield from self._check(item, rule["items"], f"{where}[{index}]")

    def _check_object(self, value, rule, where):
        known = rule.get("properties", {})
        for name in rule.get("required", []):
            if name not in value:
                yield f"{where}: '{name}' is missing"
        for name, item in value.items():
            if name in known:
                yield from self._check(item, known[name], f"{where}.{name}")
            elif rule.get("additionalProperties", True) is False:
                yield f"{where}: '{name}' is not in the schema"

    def _resolve(self, reference):
        rule = self._document
        for part in reference.removeprefix("#/").split("/"):
            rule = rule[part]
        return rule
