"""A type name means one thing: in the library it is defined once. It is a word that the field uses, where it has one.

A name that is defined several times today is an entry of the ratchet, by the number of its definitions.
"""

import collections
import re

from tidy_checks.finding import Finding

FOLDERS = ("src/", "transports/")
# Names that were riddles -> the word of the field.
REPLACED = {
    "Alike": "SignatureInputs", "Asker": "PlaceClient", "Attendant": "ProgressThread", "Company": "SpinInputs",
    "Crossing": "HostStaging", "Deaf": "ScopedSignalMask", "Deed": "PlanEvent", "Founding": "CreateOptions",
    "Lounge": "PendingTeardowns", "Maker": "Initializer", "Making": "PendingInit", "Moment": "Timestamp",
    "PartBoard": "SharedPartState", "Patience": "WaitLimit", "Presence": "InFlightCalls", "Sentry": "Watchdog",
    "Shown": "ProgressPublisher", "Sight": "ObservedFiles", "Stay": "ScopedFlag", "Told": "StoresPastCache",
    "Trail": "BlameChain", "Visitor": "UseGuard",
}
_DEFINITION = re.compile(r"\b(?:class|struct|union|enum(?:\s+(?:class|struct))?)\s+"
                         r"(?:\[\[[^\]]*\]\]\s*|alignas\s*\([^)]*\)\s*)*"
                         r"([A-Z]\w*)\s*(?:final\s*)?(?::(?!:)[^;{}()]*)?\{")


def definitions(source):
    """(name, line) of every class, struct, union and enumeration that the file defines."""
    for match in _DEFINITION.finditer(source.code):
        yield match.group(1), source.line_at(match.start(1))


def check(sources):
    """A Finding for each name that these files define more than once or that was replaced; tests may use any name."""
    places = collections.defaultdict(list)
    for source in sources:
        if source.path.startswith(FOLDERS) and not source.path.endswith(("_test.cc", "_test.h")):
            for name, line in definitions(source):
                places[name].append(f"{source.path}:{line}")
                if name in REPLACED:
                    yield Finding("type-name", source.path, line, f"{name}: the field says {REPLACED[name]}", name)
    for name, found in sorted(places.items()):
        if len(found) > 1:
            yield Finding("type-name", "src", 1, f"{name} has {len(found)} meanings: {', '.join(found)}",
                          name, len(found))
