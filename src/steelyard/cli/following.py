"""`steelyard logs --follow`: prints the lines of a workflow as they are written, until the workflow ends."""

import math
import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from steelyard.schema.answers import WorkflowLogEntry, WorkflowLogsResponse
from steelyard.schema.status import TERMINAL

POLL_SECONDS = 1.0
LATE_SECONDS = 60
"""Longest time by which a line may arrive after later lines: another Pod's lines may come late."""
MOST_LINES = 100_000
"""Lines of one answer, the most that the API gives."""
_FIRST_LINES = 10_000
_TO_MILLISECONDS = len("2030-01-01T00:00:00.000")
_Key = tuple[str, str, str]


class Workflows(Protocol):
    """A collection of the client, as far as it is needed here."""

    def get(self, id: str) -> Any: ...

    def logs(self, id: str, *, since: str | None = None, limit: int = 1000) -> WorkflowLogsResponse: ...


def follow(
    workflows: Workflows,
    id: str,
    since: str | None,
    limit: int,
    show: Callable[[Iterable[WorkflowLogEntry]], None],
    *,
    pause: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Show the newest `limit` lines, then each line once, until the workflow has ended.

    The base installation has no WebSockets, and the API's stream looks as often as this does.
    """
    asked, ended = clock(), workflows.get(id).status in TERMINAL
    lines = workflows.logs(id, since=since, limit=max(limit, _FIRST_LINES)).logs
    show(lines[-limit:])
    seen = {_key(line) for line in lines}
    while not ended:
        pause(POLL_SECONDS)
        window, asked = clock() - asked + LATE_SECONDS, clock()
        # The status first: what was written before the end is among the lines that are read after it.
        ended = workflows.get(id).status in TERMINAL
        lines = workflows.logs(id, since=f"{math.ceil(window)}s", limit=MOST_LINES).logs
        show([line for line in lines if _key(line) not in seen])
        # Only the lines of the window can come again.
        seen = {_key(line) for line in lines}


def _key(line: WorkflowLogEntry) -> _Key:
    # Kubernetes gives nanoseconds, and the log that is kept after the Pod milliseconds of the same line.
    return line.timestamp.rstrip("Z")[:_TO_MILLISECONDS], line.labels.get("pod_uid", ""), line.message
