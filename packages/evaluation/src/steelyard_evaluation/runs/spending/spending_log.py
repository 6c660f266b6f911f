"""RUN/.spent/: what the calls of a run cost, one small file an attempt.

The counters lie in memory that is the file's (a shared mapping): they outlive the process whatever kills it, without a
system call for each answer. After a power loss the tokens of the durable answers are the least that was spent.
"""

import mmap
import struct
from dataclasses import dataclass, field
from pathlib import Path

from steelyard_evaluation.engine.caps import Usage
from steelyard_evaluation.runs.folder import RunFolder

FOLDER = ".spent"
_SENT, _ANSWERED, _PROMPT, _COMPLETION, _KEPT = range(5)
_COUNTERS = struct.Struct("<5Q")
_EARLIER = struct.Struct("<4Q")
"""Counters of earlier versions, which did not count the answers that are rows'."""


@dataclass(frozen=True)
class CallTotals:
    """The number of calls and tokens that were spent."""

    calls: int = 0
    lost: int = 0
    """Calls that were sent and whose answer did not arrive: the process or the connection ended before."""
    tokens: Usage = field(default_factory=Usage)
    kept: int = 0
    """Number of answers that became a row's. More than there are rows were paid twice: a kill lost the first ones."""

    def __add__(self, other: "CallTotals") -> "CallTotals":
        return CallTotals(
            self.calls + other.calls,
            self.lost + other.lost,
            self.tokens + other.tokens,
            self.kept + other.kept,
        )

    @property
    def token_loss(self) -> int:
        """Estimated tokens of the lost calls, at the mean of the answered ones."""
        answered = self.calls - self.lost
        return round(self.tokens.total * self.lost / answered) if answered > 0 else 0


def sum_logs(folder: RunFolder) -> CallTotals:
    """Sums the spending logs of all attempts of the run in `folder`, without the runs of its judges."""
    paths = sorted((folder.path / FOLDER).glob("*"))
    return sum(map(_read, paths), CallTotals())


def find_damaged_logs(folder: RunFolder) -> list[Path]:
    """Return the files among the spending logs of a run that no attempt can have left: their size is another one."""
    sizes = {0, _EARLIER.size, _COUNTERS.size}
    return [path for path in sorted((folder.path / FOLDER).glob("*")) if path.stat().st_size not in sizes]


def _read(path: Path) -> CallTotals:
    with path.open("rb") as file:
        data = file.read(_COUNTERS.size)
    if len(data) < _EARLIER.size:
        return CallTotals()  # its writer died before its first call
    sent, answered, prompt, completion = _EARLIER.unpack_from(data)
    kept = _COUNTERS.unpack_from(data)[_KEPT] if len(data) >= _COUNTERS.size else 0
    return CallTotals(sent, sent - answered, Usage(prompt, completion), kept)


class SpendingLog:
    """The meter of one attempt. Each attempt has a file of its own, so that two of them never count over each other."""

    def __init__(self, folder: RunFolder, epoch: str) -> None:
        earlier = sum_logs(folder)
        self.before = earlier.tokens
        self.losses = earlier.lost
        path = folder.path / FOLDER / epoch
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb+") as file:
            # The file gets its size before it is mapped: a write beyond its end would be a SIGBUS.
            file.write(bytes(_COUNTERS.size))
            file.flush()
            self._memory = mmap.mmap(file.fileno(), _COUNTERS.size)
        self._counters = memoryview(self._memory).cast("Q")

    def note_sent(self) -> None:
        self._counters[_SENT] += 1

    def note_unsent(self) -> None:
        self._counters[_SENT] -= 1

    def note_answered(self, usage: Usage) -> None:
        # Tokens first: a process that dies in between has a lost call too many, never a token too few.
        self._counters[_PROMPT] += usage.prompt
        self._counters[_COMPLETION] += usage.completion
        self._counters[_ANSWERED] += 1

    def note_kept(self) -> None:
        self._counters[_KEPT] += 1
