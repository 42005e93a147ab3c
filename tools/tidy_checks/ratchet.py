"""The list of what is too big today. An entry may only shrink, and goes when it is no longer needed.

One entry per line: size, check, and path or path:function. '#' starts a comment.
"""

from tidy_checks.finding import Finding


def parse(text):
    """{(check, key): size}; a malformed line raises ValueError."""
    entries = {}
    for number, line in enumerate(text.splitlines(), 1):
        fields = line.split("#")[0].split()
        if not fields:
            continue
        if len(fields) != 3 or not fields[0].isdigit():
            raise ValueError(f"line {number}: expected 'size check path[:function]': {line!r}")
        entries[(fields[1], fields[2])] = int(fields[0])
    return entries


def measure(findings):
    """{(check, key): size}: the largest of the sized findings, the number of the others."""
    sizes = {}
    for finding in findings:
        key = (finding.check, finding.key)
        counted = sizes.get(key, 0) + 1
        sizes[key] = counted if finding.size == 1 else max(finding.size, sizes.get(key, 0))
    return sizes


def apply(findings, entries, path):
    """The findings that stay: those not covered, and one per entry that is larger than it must be."""
    sizes = measure(findings)
    covered = {key for key, size in sizes.items() if size <= entries.get(key, 0)}
    left = [f for f in findings if (f.check, f.key) not in covered]
    for (check, key), allowed in sorted(entries.items()):
        size = sizes.get((check, key), 0)
        if size < allowed:
            what = f"lower it to {size}" if size else "remove it"
            left.append(Finding("ratchet", path, 1, f"{check} {key} allows {allowed}: {what} "
                                "(tools/tidy --tighten)"))
    return left


def tighten(text, findings):
    """The file with its entries lowered to the sizes found; none is added or raised."""
    sizes = measure(findings)
    kept = []
    for line in text.splitlines():
        fields = line.split("#")[0].split()
        if len(fields) == 3:
            size = min(int(fields[0]), sizes.get((fields[1], fields[2]), 0))
            if size == 0:
                continue
            line = line.replace(fields[0], str(size), 1)
        kept.append(line)
    return "".join(line + "\n" for line in kept)
