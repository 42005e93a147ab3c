"""One thing that a check objects to."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Finding:
    check: str
    path: str
    line: int
    message: str
    item: str = ""  # what the ratchet counts: a function; empty for the file
    size: int = 1  # how big it is; findings without a size of their own are counted

    @property
    def key(self):
        return f"{self.path}:{self.item}" if self.item else self.path

    def __str__(self):
        return f"{self.path}:{self.line}: [{self.check}] {self.message}"
