"""Where exceptions end. Below the C border code may throw std::bad_alloc and catches nothing: the border
(src/api/caught.h) makes an error of the call of it, with a sentence, and where no call of the user's is above,
the outermost loop of a thread of the library does. The other places are these, as data, each with its reason.
"""

import re

from tidy_checks.finding import Finding

ALLOWED = {
    "src/base/caught.h": "the three ways in which an exception ends",
    "src/base/caught.cc": "the sentence that needs no memory",
    "src/base/thread.cc": "the body of every thread; and std::thread reports by exceptions",
    # Outermost loops of threads of the library.
    "src/bootstrap/launch/exchange_of_launcher.cc": "a thread in the launcher's library",
    "src/bootstrap/server_loop.cc": "the thread of a rendezvous",
    "src/bootstrap/watch.cc": "the control thread",
    "src/operation/captured_task.cc": "a thread of the driver of CUDA",
    "src/operation/task_scheduler.cc": "each task of a queue or group has its own end",
    # What ends work that has failed must come to its end.
    "src/comm/communicator.cc": "the end of a communicator and of a call that has thrown",
    "src/operation/captured_calls.cc": "the end of a capture: who waits for it is told",
    "src/operation/group.cc": "the end of a group: who waits for one of its operations is told",
    "src/operation/stream_turns.cc": "a call that is half in its stream",
    "src/operation/task.cc": "the end of a task: who waits for it is told",
    "src/exec/call_state.cc": "the end of a call that fails: its peers are told",
    "src/diagnosis/stall.cc": "the last words to each of the peers",
    # What is half done would be of no use to the next call.
    "src/transport/door/gate.cc": "a caller that is heard beside others",
    "transports/tcp/connection.h": "a message that is half on the wire",
    "transports/ucx/worker.cc": "nothing may be thrown through UCX; it goes on behind it",
    "transports/tcp/link.cc": "why a link has failed, where there is no memory to say it",
    "src/transport/stream/message_link.cc": "a frame that is half taken",
    "src/transport/stream/byte_pipe.cc": "a message that is half on the wire",
}

_BELOW = re.compile(r"(src/(?!api/|runtime/)|transports/)")
_CATCH = re.compile(r"\bcatch\s*\(|\battempt\s*\(|\bcaught_status\s*\(|\bnothrow\b")


def check(source):
    if not _BELOW.match(source.path) or source.path.endswith(("_test.cc", "_test.h")):
        return
    if source.path in ALLOWED:
        return
    for match in _CATCH.finditer(source.code):
        yield Finding("catches", source.path, source.line_at(match.start()),
                      f"'{match.group(0).rstrip(' (')}': let it throw, the C border makes an error of it")


def check_all(sources):
    """What is allowed must be there: a file that catches nothing any more leaves the table."""
    for source in sources:
        if source.path in ALLOWED and not _CATCH.search(source.code):
            yield Finding("catches", source.path, 1, "catches nothing: take it out of tidy_checks/catches.py")
