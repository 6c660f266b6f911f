"""The expected cost of a run, without a call: every prompt is made and measured, those of the judges too.

`eval run --dry-run` calls `count_calls` for the model and `count_judging` for its judges.
"""

import asyncio
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from steelyard_common.errors import UsageError
from steelyard_common.types import JsonValue
from steelyard_evaluation.engine.caps import Prices, Usage
from steelyard_evaluation.engine.indexes import IndexMap
from steelyard_evaluation.engine.journal import orphans
from steelyard_evaluation.engine.plan import BadInput, Plan
from steelyard_evaluation.engine.resume import resume
from steelyard_evaluation.engine.rows import to_rows
from steelyard_evaluation.engine.shape import INDEX
from steelyard_evaluation.engine.source import open_source
from steelyard_evaluation.runs.folder import RunRow, open_run
from steelyard_evaluation.runs.judge.judge import check_specs, request_to
from steelyard_evaluation.runs.judge.questions import lines_about
from steelyard_evaluation.runs.judge.spec import JudgeSpec
from steelyard_evaluation.runs.plan import make_plan
from steelyard_evaluation.runs.prompts.inputs import first_rows, select_batches
from steelyard_evaluation.runs.prompts.render import check_rows
from steelyard_evaluation.runs.request import RunRequest
from steelyard_evaluation.runs.resolve import ResolvedRequest, check_unchanged, resolve
from steelyard_evaluation.runs.spending.accounts import MODEL
from steelyard_evaluation.runs.spending.prices import PriceSpec

BYTES_PER_TOKEN = 4
"""Bytes of English in a token; other languages and code take more tokens. No tokenizer is asked: it would be another
model's.
"""
PLACEHOLDER = "x"
"""The text that stands for an answer which does not exist yet, where a judge's prompt is made of it."""


@dataclass(frozen=True)
class ExpectedCalls:
    """The calls to one model that are still to be paid for, and what they may cost."""

    name: str
    """`model`, or the judge's name."""
    model: str
    calls: int
    done: int
    """Number of calls that were answered in earlier attempts."""
    faults: tuple[str, ...]
    """The first of the rows that cannot be asked."""
    fault_count: int
    prompt_tokens: int
    completion_tokens: int | None
    """An upper bound; None where the request sets no max_tokens."""
    prices: PriceSpec | None
    unbounded_answers: bool = False
    """True where a judge's prompts quote answers whose length has no limit: `prompt_tokens` are without them."""

    @property
    def cost(self) -> float | None:
        """An upper bound; None where prices or numbers of tokens are unknown."""
        if self.prices is None or self.completion_tokens is None or self.unbounded_answers:
            return None
        prices = Prices(self.prices.prompt, self.prices.completion)
        return prices.cost(Usage(self.prompt_tokens, self.completion_tokens))


def count_calls(resolved: ResolvedRequest, *, name: str = MODEL, fresh: bool = False) -> ExpectedCalls:
    """Count the calls that a run has left. Blocking; UsageError as the run itself would raise it."""
    request = resolved.request
    plan = make_plan(request, resolved.identity, resolved.columns, None)
    done = (
        asyncio.run(_find_answered(resolved, plan.replications))
        if not fresh and check_unchanged(resolved)
        else None
    )
    if done is None:
        # As the run itself says it: where nothing can be asked, there is nothing to estimate.
        check_rows(plan.request, first_rows(resolved.rows, resolved.source), request.source.location)
    faults: list[str] = []
    calls = size = fault_count = 0
    for ordinal, (index, row) in enumerate(_rows(resolved)):
        # Rows that earlier attempts answered are paid for already.
        left = request.replications - (0 if done is None else int(done[ordinal].sum()))
        try:
            size += left * len(plan.request(row))
        except BadInput as error:
            # All faults are counted and three are shown: one bad column makes the same fault in every row.
            fault_count += 1
            if len(faults) < 3:
                faults.append(f"row {index}: {error}")
            continue
        calls += left
    most = _most_tokens(request)
    return ExpectedCalls(
        name=name,
        model=request.model,
        calls=calls,
        done=0 if done is None else int(done.sum()),
        faults=tuple(faults),
        fault_count=fault_count,
        prompt_tokens=size // BYTES_PER_TOKEN,
        completion_tokens=None if most is None else calls * most,
        prices=request.limits.prices,
    )


def count_judging(resolved: ResolvedRequest, *, fresh: bool = False) -> tuple[ExpectedCalls, ...]:
    """Count the calls to each judge. Blocking; UsageError as judging itself would raise it.

    Where every row is answered, the judges' prompts are the very ones. Before, they are made with a placeholder, and
    the answers in them count as long as `max_tokens` lets them be.
    """
    check_specs(resolved.request.judges)
    answered = not fresh and resolved.folder.verified and check_unchanged(resolved)
    with tempfile.TemporaryDirectory(prefix="steelyard-dry-run-") as scratch:
        return tuple(
            _count_judge_calls(resolved, spec, Path(scratch), answered) for spec in resolved.request.judges
        )


def _count_judge_calls(
    resolved: ResolvedRequest, spec: JudgeSpec, scratch: Path, answered: bool
) -> ExpectedCalls:
    request, location = resolved.request, resolved.request.source.location
    rows = open_run(resolved.folder.path).rows() if answered else _placeholder_rows(resolved)
    questions = scratch / f"{spec.name}.jsonl"
    with questions.open("wb") as file:
        file.writelines(lines_about(rows, request.prompt, spec, location))
        # Every row may be an error: then the judge has nothing to read, and no dataset could be opened.
        if file.tell() == 0:
            return ExpectedCalls(spec.name, spec.model, 0, 0, (), 0, 0, 0, spec.prices)
    folder = resolved.folder.judge(spec.name) if answered else None
    try:
        judging = resolve(
            request_to(spec, request, questions), scratch / spec.name if folder is None else folder.path
        )
        expected = count_calls(judging, name=spec.name, fresh=not answered)
    except UsageError as error:
        raise UsageError(f"judge {spec.name}: {error}") from error
    if answered:
        return expected
    most = _most_tokens(request)
    quoted = expected.calls * (most or 0)
    return replace(expected, prompt_tokens=expected.prompt_tokens + quoted, unbounded_answers=most is None)


def _rows(resolved: ResolvedRequest) -> Iterator[tuple[int, dict[str, JsonValue]]]:
    """Yield the index and the columns of each row that is to be asked."""
    for batch in select_batches(resolved.rows, resolved.source):
        indexes = batch.column(0).to_pylist()
        yield from zip(indexes, to_rows(batch.drop_columns([INDEX])), strict=True)


def _placeholder_rows(resolved: ResolvedRequest) -> Iterator[RunRow]:
    """Yield the rows that can be asked, as if each had an answer."""
    plan = make_plan(resolved.request, resolved.identity, resolved.columns, None)
    for index, row in _rows(resolved):
        if not _can_be_asked(plan, row):
            continue
        for replication in range(resolved.request.replications):
            yield RunRow(index, replication, row, [{"text": PLACEHOLDER}])


def _can_be_asked(plan: Plan, row: Mapping[str, JsonValue]) -> bool:
    try:
        plan.request(dict(row))
    except BadInput:
        return False
    return True


def _most_tokens(request: RunRequest) -> int | None:
    """Return the limit of tokens of one answer."""
    sampling = request.prompt.sampling
    most = sampling.get("max_tokens") or sampling.get("max_completion_tokens")
    return most if isinstance(most, int) else None


async def _find_answered(
    resolved: ResolvedRequest, replications: tuple[str, ...]
) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """Return whether each question and replication is answered."""
    source = await open_source(resolved.folder.inputs)
    indexes = await asyncio.to_thread(IndexMap, source)
    total = source.rows * len(replications)
    resumed = await resume(resolved.folder.outputs, indexes, replications, total)
    for piece in (await orphans(resolved.folder.outputs, resumed))[0]:
        resumed.rows.add_ranges(piece.ranges)
    done = np.zeros(total, dtype=np.bool_)
    for start, stop in resumed.rows.ranges():
        done[start:stop] = True
    return done.reshape(-1, len(replications))


def as_json(expected: ExpectedCalls) -> dict[str, JsonValue]:
    """The numbers for programs."""
    return {
        "calls": expected.calls,
        "answered": expected.done,
        "rowsThatCannotBeAsked": expected.fault_count,
        "promptTokens": expected.prompt_tokens,
        "completionTokensAtMost": expected.completion_tokens,
        "costAtMost": expected.cost,
    }
