"""Refusals of every row alike: a wrong key, model, path or parameter, and not the rows, is their cause.

A row that is refused is recorded, and not asked again. Where an attempt got nothing but refusals that are about no row,
its record would keep the next attempt from asking: so the record is removed.
"""

import asyncio
import shutil
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson
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
"""HTTP statuses that are about the endpoint, with what a person should check."""


WRONG = frozenset({400, 422})
"""HTTP statuses that are about one request."""
LENGTHS = frozenset({"max_tokens", "max_completion_tokens", "min_tokens", "truncate_prompt_tokens"})
"""Parameters that may be wrong for one row and right for another: it depends on the length of its prompt."""


def refused_parameter(body: str) -> str | None:
    """The parameter that a refusal names: `error.param`, or the `loc` of FastAPI; without `body.` before it."""
    try:
        # An endpoint may answer with a nesting that the standard library would end in a RecursionError.
        content = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    match content:
        # OpenAI and vLLM name the parameter; FastAPI's own answer is pydantic's list of faults.
        case {"error": {"param": str(name)}} | {"param": str(name)}:
            return name.removeprefix("body.").partition(".")[0] or None
        case {"detail": [{"loc": ["body", str(name), *_]}, *_]}:
            return name
    return None


@dataclass
class Refusals:
    """The refusals of one attempt, whose files have `epoch` in their names."""

    folder: RunFolder
    epoch: str
    progress: Progress | None = None
    shared: Collection[str] = ()
    """Names of the parameters that every request has alike."""
    _done: int = 0

    def begins(self, progress: Progress) -> None:
        """Note which rows earlier attempts have done."""
        self.progress, self._done = progress, progress.done

    def nothing_else(self) -> bool:
        """Return whether this attempt got nothing but row errors so far."""
        return self.progress is not None and 0 < self.progress.done - self._done == self.progress.row_errors

    def explanation(self) -> str | None:
        """Return why the endpoint refuses every row; None where its answers are about rows. Blocking."""
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
        """The one parameter for which every row so far was refused, in this attempt and in earlier ones."""
        errors = self._errors("*.parquet")
        progress = self.progress
        if progress is None or len(errors) < progress.done or any(e["status"] not in WRONG for e in errors):
            return None
        parameters = {refused_parameter(error["body"] or "") for error in errors}
        if len(parameters) != 1 or (parameter := parameters.pop()) is None:
            return None
        # The first rows show what a parameter of all requests does. Any other may be right for a later row.
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
        """Remove what this attempt recorded; Fenced where a later attempt relies on it by now."""
        await Epoch(self.folder.outputs, self.epoch).check()
        await asyncio.to_thread(self._remove)

    def _remove(self) -> None:
        nothing_was_ever_answered = self._done == 0 or self._parameter() is not None
        if nothing_was_ever_answered:
            # Nothing in it was paid for, and its identity may be what was wrong: the mended command begins
            # again.
            shutil.rmtree(self.folder.outputs.root)
            return
        # A crash in between leaves a row set without its part, which counts for nothing; never the other way round.
        for path in [*self._files(layout.PARTS), *self._files(layout.ERRORS)]:
            path.unlink()

    def _files(self, prefix: str) -> Iterator[Path]:
        """The attempt's files under `prefix`, parts before their row sets."""
        paths = Path(self.folder.outputs.root, prefix).glob(f"*-{self.epoch}-*.parquet*")
        yield from sorted(paths, key=lambda path: (path.suffix != ".parquet", path.name))
