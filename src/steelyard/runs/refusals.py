"""Is it the rows that are refused, or whoever asks? A wrong key, model, path or parameter refuses every row alike.

Rows that are refused are recorded, and asked no more. Where an attempt got nothing else, by a status that is about no
row, its record would only be in the way of the next one: so it is taken back.
"""

import asyncio
import json
import shutil
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from steelyard.evaluation import layout
from steelyard.evaluation.epoch import Epoch
from steelyard.evaluation.parts import RETRIED
from steelyard.evaluation.progress import Progress
from steelyard.runs.folder import RunFolder
from steelyard.types import JsonValue

STATUSES = {
    401: "the key",
    403: "the key",
    404: "the model or the path",
    405: "the path",
    407: "the proxy",
}
"""Statuses that are about the endpoint, and what to look at."""


WRONG = frozenset({400, 422})
"""Statuses that are about a request."""
LENGTHS = frozenset({"max_tokens", "max_completion_tokens", "min_tokens", "truncate_prompt_tokens"})
"""Parameters that may be wrong for one row and right for another: it depends on the length of its prompt."""


def refused_parameter(body: str) -> str | None:
    """The parameter that a refusal names: `error.param`, or the `loc` of FastAPI; without `body.` before it."""
    try:
        content = json.loads(body)
    except ValueError:
        return None
    match content:
        case {"error": {"param": str(name)}} | {"param": str(name)}:
            return name.removeprefix("body.").partition(".")[0] or None
        case {"detail": [{"loc": ["body", str(name), *_]}, *_]}:
            return name
    return None


@dataclass
class Refusals:
    """Of one attempt, whose files have `epoch` in their names."""

    folder: RunFolder
    epoch: str
    progress: Progress | None = None
    shared: Collection[str] = ()
    """Names of the parameters that every request has alike."""
    _done: int = 0

    def begins(self, progress: Progress) -> None:
        """The rows that are done now were done before."""
        self.progress, self._done = progress, progress.done

    def nothing_else(self) -> bool:
        """Whether this attempt got nothing but row errors so far."""
        return self.progress is not None and 0 < self.progress.done - self._done == self.progress.row_errors

    def said(self) -> str | None:
        """What the endpoint says to every row, when it is about no row; else None. Blocking."""
        errors = self._errors(f"*-{self.epoch}-*.parquet")
        if not errors:
            return None
        statuses = {error["status"] for error in errors}
        status, body = errors[0]["status"], " ".join((errors[0]["body"] or "").split())[:300]
        reply = f"status {status}" + (f": {body}" if body else "")
        if statuses <= STATUSES.keys():
            return (
                f"every row is refused ({reply}). Look at {STATUSES[status]}; no row is recorded as an error"
            )
        if (parameter := self._parameter()) is not None:
            return (
                f"every row is refused for the parameter {parameter!r} ({reply}). "
                "Change it or leave it out; no row is recorded as an error"
            )
        return None

    def _parameter(self) -> str | None:
        """The one parameter for which every row so far was refused, in this attempt and before it.

        One that all requests share is judged from the first rows; any other one only after the last row.
        """
        errors = self._errors("*.parquet")
        progress = self.progress
        if progress is None or len(errors) < progress.done or any(e["status"] not in WRONG for e in errors):
            return None
        parameters = {refused_parameter(error["body"] or "") for error in errors}
        if len(parameters) != 1 or (parameter := parameters.pop()) is None:
            return None
        shared = parameter in self.shared and parameter not in LENGTHS
        return parameter if shared or progress.done == progress.total else None

    def _errors(self, pattern: str) -> list[dict[str, JsonValue]]:
        return [
            row
            for path in sorted(Path(self.folder.outputs.root, layout.ERRORS).glob(pattern))
            for row in pq.read_table(path, columns=["reason", "status", "body"]).to_pylist()
            if row["reason"] != RETRIED
        ]

    async def take_back(self) -> None:
        """Forget what this attempt recorded. Fenced where a later one counts on it by now."""
        await Epoch(self.folder.outputs, self.epoch).check()
        await asyncio.to_thread(self._remove)

    def _remove(self) -> None:
        if self._done == 0 or self._parameter() is not None:  # nothing was ever answered
            shutil.rmtree(self.folder.outputs.root)
            return
        for path in [*self._files(layout.PARTS), *self._files(layout.ERRORS)]:  # a row set alone says nothing
            path.unlink()

    def _files(self, prefix: str) -> Iterator[Path]:
        """Parts before their row sets."""
        found = Path(self.folder.outputs.root, prefix).glob(f"*-{self.epoch}-*.parquet*")
        yield from sorted(found, key=lambda path: (path.suffix != ".parquet", path.name))
