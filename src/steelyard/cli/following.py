"""The lines of a workflow that `steelyard logs` prints: those that there are, and with `--follow` those that come."""

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from steelyard_schema.answers import WorkflowLogEntry, WorkflowLogsResponse
from steelyard_schema.status import TERMINAL

POLL_SECONDS = 1.0
"""Pause before the next request while lines come; it grows while none do."""
LONGEST_PAUSE = 5.0
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


@dataclass(frozen=True)
class Log:
    """The log of one workflow; its newest `limit` lines are shown; `note` gets all other messages."""

    workflows: Workflows
    kind: str
    """Name of the collection."""
    id: str
    limit: int
    show: Callable[[Iterable[WorkflowLogEntry]], None]
    note: Callable[[str], None]

    def show_first(self, answer: WorkflowLogsResponse) -> None:
        """Show the newest lines of an answer, and note how many are left out."""
        lines = answer.logs[-self.limit :]
        self.show(lines)
        if answer.totalLines > len(lines):
            self.note(self._omission_text(answer.totalLines, len(lines)))

    def _omission_text(self, total: int, shown: int) -> str:
        text = f"earlier lines that are not shown: {total - shown:,}; --limit {MOST_LINES} shows"
        if total <= MOST_LINES:
            return f"{text} all"
        return (
            f"{text} {MOST_LINES:,}; the address of a file with all is the answer to "
            f"GET /v0/{self.kind}/{self.id}/logs, once the workflow has ended"
        )


def show_newest(log: Log, since: str | None) -> None:
    """Show the newest lines that there are."""
    answer = log.workflows.logs(log.id, since=since, limit=log.limit)
    log.show_first(answer)
    if not answer.logs:
        log.note("nothing is written" + (f" since {since}" if since else " yet"))


def follow(
    log: Log,
    since: str | None,
    *,
    pause: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Show the newest lines, then each line once, until the workflow has ended.

    The base installation has no WebSockets, and the API's own stream also polls every second.
    """
    workflows, id = log.workflows, log.id
    asked, ended = clock(), workflows.get(id).status in TERMINAL
    answer = workflows.logs(id, since=since, limit=max(log.limit, _FIRST_LINES))
    log.show_first(answer)
    seen, seconds = {_key(line) for line in answer.logs}, POLL_SECONDS
    while not ended:
        pause(seconds)
        window, asked = clock() - asked + LATE_SECONDS, clock()
        # The status first: what was written before the end is among the lines that are read after it.
        ended = workflows.get(id).status in TERMINAL
        answer = workflows.logs(id, since=f"{math.ceil(window)}s", limit=MOST_LINES)
        # Lines of the window that were shown before may be among those that are left out.
        if left_out := answer.totalLines - len(answer.logs):
            log.note(f"up to {left_out:,} lines came faster than they can be shown, and are left out here")
        new = [line for line in answer.logs if _key(line) not in seen]
        log.show(new)
        seconds = POLL_SECONDS if new else min(seconds * 1.5, LONGEST_PAUSE)
        # Only the lines of the window can come again.
        seen = {_key(line) for line in answer.logs}


def _key(line: WorkflowLogEntry) -> _Key:
    # Kubernetes gives nanoseconds, and the log that is kept after the Pod milliseconds of the same line.
    return line.timestamp.rstrip("Z")[:_TO_MILLISECONDS], line.labels.get("pod_uid", ""), line.message
