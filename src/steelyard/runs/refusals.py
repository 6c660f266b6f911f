"""Is it the rows that are refused, or whoever asks? A wrong key, model or path refuses every row alike.

Rows that are refused are recorded, and asked no more. Where an attempt got nothing else, by a status that is about no
row, its record would only be in the way of the next one: so it is taken back.
"""

import asyncio
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from steelyard.evaluation import layout
from steelyard.evaluation.epoch import Epoch
from steelyard.evaluation.progress import Progress
from steelyard.runs.folder import RunFolder

STATUSES = {
    401: "the key",
    403: "the key",
    404: "the model or the path",
    405: "the path",
    407: "the proxy",
}
"""Statuses that are about the endpoint, and what to look at."""


@dataclass
class Refusals:
    """Of one attempt, whose files have `epoch` in their names."""

    folder: RunFolder
    epoch: str
    progress: Progress | None = None
    _done: int = 0

    def begins(self, progress: Progress) -> None:
        """The rows that are done now were done before."""
        self.progress, self._done = progress, progress.done

    def nothing_else(self) -> bool:
        """Whether this attempt got nothing but row errors so far."""
        return self.progress is not None and 0 < self.progress.done - self._done == self.progress.row_errors

    def said(self) -> str | None:
        """What the endpoint says to every row, when it is about no row; else None. Blocking."""
        errors = [
            row
            for path in self._files(layout.ERRORS)
            for row in pq.read_table(path, columns=["status", "body"]).to_pylist()
        ]
        statuses = {error["status"] for error in errors}
        if not errors or not statuses <= STATUSES.keys():
            return None
        status, body = errors[0]["status"], " ".join((errors[0]["body"] or "").split())[:300]
        told = f"status {status}" + (f": {body}" if body else "")
        return f"every row is refused ({told}). Look at {STATUSES[status]}; no row is recorded as an error"

    async def take_back(self) -> None:
        """Forget what this attempt recorded. Fenced where a later one counts on it by now."""
        await Epoch(self.folder.outputs, self.epoch).check()
        await asyncio.to_thread(self._remove)

    def _remove(self) -> None:
        if self._done == 0:
            shutil.rmtree(self.folder.outputs.root)
            return
        for path in [*self._files(layout.PARTS), *self._files(layout.ERRORS)]:  # a row set alone says nothing
            path.unlink()

    def _files(self, prefix: str) -> Iterator[Path]:
        """Parts before their row sets."""
        found = Path(self.folder.outputs.root, prefix).glob(f"*-{self.epoch}-*.parquet*")
        yield from sorted(found, key=lambda path: (path.suffix != ".parquet", path.name))
