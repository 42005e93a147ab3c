"""What tutti raises. Every sentence says what went wrong and what to change.

All of them are `Error`, with the attributes

    kind      "invalid_input", "infeasible", "ranks_differ" or "communication"
    result    the name of the C API's result: "remote_error", "timeout", "invalid_usage" ...

>>> import tutti
>>> try:
...     tutti.Communicator(ranks=2, rank=0, id=b"too short")
... except tutti.InvalidInput as error:
...     print(error.kind, error.result)
invalid_input invalid_argument
"""

_RESULTS = {
    0: "success", 1: "unhandled_cuda_error", 2: "system_error", 3: "internal_error",
    4: "invalid_argument", 5: "invalid_usage", 6: "remote_error", 7: "in_progress", 8: "timeout",
    9: "unsupported",
}


class Error(RuntimeError):
    """The base of everything that tutti raises by itself."""

    kind = "error"

    def __init__(self, sentence, result=4):
        super().__init__(sentence)
        self.result = _RESULTS.get(result, str(result))


class InvalidInput(Error, ValueError):
    """An argument cannot be right. Nothing has been sent or changed."""

    kind = "invalid_input"


class Infeasible(Error, ValueError):
    """The arguments are right, and there is no solution; the sentence says why."""

    kind = "infeasible"


class RanksDiffer(Error):
    """Ranks planned different things; found before anything was sent."""

    kind = "ranks_differ"


class CommunicationError(Error):
    """A call failed while it ran. The sentence names the rank and the host that caused it, and the
    communicator can only be closed, aborted, split, shrunk, or edited, which mends it."""

    kind = "communication"
