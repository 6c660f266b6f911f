"""Refusals of every row alike: a wrong key, model, path or parameter, and not the rows, is their cause.

A row that is refused is recorded, and not asked again. Where an attempt got nothing but refusals that are about no row,
its record would keep the next attempt from asking: so the record is removed.
"""

import asyncio
import shutil
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import orjson

from steelyard_common.bounded_parquet import read_table
from steelyard_common.refused_calls import (
    find_message,
    find_reason,
    is_about_model,
    is_about_policy,
    is_about_row,
)
from steelyard_evaluation.engine import layout
from steelyard_evaluation.engine.epoch import Epoch
from steelyard_evaluation.engine.parts import RETRIED
from steelyard_evaluation.engine.progress import Progress, Refusal
from steelyard_evaluation.runs.folder import RunFolder

STATUSES = {
    **dict.fromkeys(range(300, 400), "the address"),
    **dict.fromkeys((401, 403), "the key"),
    404: "the model or the path (a base URL often ends in /v1)",
    407: "the proxy",
    **dict.fromkeys((405, 406, 410, 411, 415, 421, 426), "the path"),
}
"""HTTP statuses that are about the endpoint, with what a person should check."""
WRONG = frozenset(range(400, 500)) - STATUSES.keys()
"""HTTP statuses that may be about one request."""
SAME = 100
"""Number of rows, each of them refused for the same reason, after which no other row is tried."""
MALFORMED = "MalformedAnswer: "
"""Beginning of the messages of row errors whose answers could not be read."""
NOT_JSON = "the answer is not JSON"
LENGTHS = frozenset({"max_tokens", "max_completion_tokens", "min_tokens", "truncate_prompt_tokens"})
"""Parameters that may be wrong for one row and right for another: it depends on the length of its prompt."""


def find_parameter(body: str) -> str | None:
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


def _reason(refusal: Refusal) -> str:
    return find_reason(refusal.body.encode())


def _is_malformed(refusal: Refusal) -> bool:
    return refusal.message.startswith(MALFORMED)


def _kind(cause: Refusal) -> str:
    """Return the fault of an answer, without what the answer says: its message shows that behind a colon."""
    return cause.message.partition(": ")[0]


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
        """Return whether this attempt got nothing but row errors, and answers without content, so far."""
        progress = self.progress
        if progress is None or progress.done - self._done > progress.row_errors:
            return False
        return progress.row_errors > 0 or bool(progress.unread)

    def explanation(self) -> str | None:
        """Return why the endpoint refuses every row; None where its answers are about rows. Blocking."""
        return self._refusal() or self._no_answer()

    def _refusal(self) -> str | None:
        progress = self.progress
        if progress is None or not progress.refusals or progress.refusals.total() < progress.row_errors:
            return None
        refusals = list(progress.refusals)
        statuses, reason = {refusal.status for refusal in refusals}, _reason(refusals[0])
        reply = refusals[0].message.removeprefix("BadRequest: ") + (f": {reason}" if reason else "")
        # A provider may answer 403 to a row that breaks its policy. The token of a 401 is a key, and no row's.
        about_rows = any(r.status == 403 and is_about_policy(_reason(r)) for r in refusals)
        unknown_model = all(r.status in WRONG and is_about_model(_reason(r)) for r in refusals)
        if unknown_model or (statuses <= STATUSES.keys() and not about_rows):
            cause = STATUSES.get(refusals[0].status or 0, "the name of the model")
            return f"every row is refused ({reply}). Look at {cause}; no row is recorded as an error"
        if (parameter := self._parameter()) is not None:
            return (
                f"every row is refused for the parameter {parameter!r} ({reply}). "
                "Change it or leave it out; no row is recorded as an error"
            )
        if self._alike():
            return f"every row is refused ({reply}); no row is recorded as an error"
        return None

    def _no_answer(self) -> str | None:
        """Return why no answer of status 200 is one: a page to log in, an error, a list without choices, or null."""
        progress = self.progress
        if progress is None or not progress.unread or not self._only_unread(progress.refusals):
            return None
        causes = list(progress.unread)
        if any(is_about_row(find_message(cause.body.encode()) or "") for cause in causes):
            return None
        # One answer may be unreadable because of its row; then it is an error of this row, and others are asked.
        alike = len({_kind(cause) for cause in causes}) == 1 and progress.unread.total() >= SAME
        if not alike and not (progress.done == progress.total and self._nothing_was_ever_read()):
            return None
        kind, reason = _kind(causes[0]), _reason(causes[0])
        reply = f"status 200: {kind}" + (f": {reason}" if reason else "")
        look = ". Look at the address and the key" if kind == NOT_JSON else ""
        return f"every row is refused ({reply}){look}; no row is recorded as an error"

    def _only_unread(self, refusals: Counter[Refusal]) -> bool:
        """Return whether these are all the row errors of this attempt, each of an answer that could not be read."""
        every = self.progress is not None and refusals.total() == self.progress.row_errors
        return every and all(map(_is_malformed, refusals))

    def _nothing_was_ever_read(self) -> bool:
        """Return whether each row that earlier attempts have done got an answer that could not be read."""
        return self._earlier.total() == self._done and all(map(_is_malformed, self._earlier))

    def _parameter(self) -> str | None:
        """The one parameter for which every row so far was refused, in this attempt and in earlier ones."""
        refusals, progress = self._all(), self.progress
        if progress is None or refusals is None:
            return None
        parameters = {find_parameter(refusal.body) for refusal in refusals}
        if len(parameters) != 1 or (parameter := parameters.pop()) is None:
            return None
        # The first rows show what a parameter of all requests does. Any other may be right for a later row.
        shared = parameter in self.shared and parameter not in LENGTHS
        return parameter if shared or progress.done == progress.total else None

    def _alike(self) -> bool:
        """Return whether all rows so far are refused for reasons outside them."""
        refusals, progress = self._all(), self.progress
        if progress is None or refusals is None or len({refusal.status for refusal in refusals}) != 1:
            return False
        reasons = {_reason(refusal) for refusal in refusals}
        if any(map(is_about_row, reasons)):
            return False
        return progress.done == progress.total or (len(reasons) == 1 and refusals.total() >= SAME)

    def _all(self) -> Counter[Refusal] | None:
        """The refusals of all attempts; None where a row was answered, or failed in another way."""
        progress = self.progress
        refusals = Counter() if progress is None else progress.refusals + self._earlier
        some = progress is not None and refusals.total() >= progress.done
        return refusals if some and all(refusal.status in WRONG for refusal in refusals) else None

    @cached_property
    def _earlier(self) -> Counter[Refusal]:
        """The row errors that earlier attempts recorded."""
        paths = Path(self.folder.outputs.root, layout.ERRORS).glob("*.parquet")
        return Counter(
            Refusal(row["status"], row["message"], row["body"] or "")
            for path in sorted(paths)
            if f"-{self.epoch}-" not in path.name
            for row in read_table(path, ["reason", "message", "status", "body"]).to_pylist()
            if row["reason"] != RETRIED
        )

    async def take_back(self) -> None:
        """Remove what this attempt recorded; Fenced where a later attempt relies on it by now."""
        await Epoch(self.folder.outputs, self.epoch).check()
        await asyncio.to_thread(self._remove)

    def _remove(self) -> None:
        if self._done == 0 or self._nothing_was_ever_read() or self._parameter() is not None or self._alike():
            # Nothing in it was paid for, and its identity may be what was wrong: the mended command begins
            # again.
            shutil.rmtree(self.folder.outputs.root)
            return
        # A crash in between leaves a row set without its part, which counts for nothing; never the other way round.
        pieces = Path(self.folder.outputs.root, layout.JOURNAL).glob(f"{self.epoch}-*.json")
        for path in [*pieces, *self._files(layout.PARTS), *self._files(layout.ERRORS)]:
            path.unlink()

    def _files(self, prefix: str) -> Iterator[Path]:
        """The attempt's files under `prefix`, parts before their row sets."""
        paths = Path(self.folder.outputs.root, prefix).glob(f"*-{self.epoch}-*.parquet*")
        yield from sorted(paths, key=lambda path: (path.suffix != ".parquet", path.name))
