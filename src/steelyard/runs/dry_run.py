"""What a run would cost, without a call: every prompt is made and measured."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from steelyard.evaluation.caps import Prices, Usage
from steelyard.evaluation.indexes import IndexMap
from steelyard.evaluation.plan import BadInput
from steelyard.evaluation.resume import resume
from steelyard.evaluation.shape import INDEX
from steelyard.evaluation.source import open_source
from steelyard.runs.plan import plan_of
from steelyard.runs.prompts.inputs import selected_batches
from steelyard.runs.resolve import ResolvedRequest, check_unchanged
from steelyard.types import JsonValue

BYTES_PER_TOKEN = 4
"""Of English; other languages and code take more tokens. No tokenizer is asked: it would be another model's."""


@dataclass(frozen=True)
class Estimate:
    """What is left to be paid for."""

    calls: int
    done: int
    """Calls that were answered in earlier attempts."""
    faults: tuple[str, ...]
    """Rows that cannot be asked, the first of them."""
    fault_count: int
    prompt_tokens: int
    completion_tokens: int | None
    """At most; None where the request sets no max_tokens."""
    cost: float | None
    """At most; None without prices or without max_tokens."""


def estimate(resolved: ResolvedRequest, *, fresh: bool = False) -> Estimate:
    """Blocking; UsageError as the run itself would raise it."""
    request = resolved.request
    plan = plan_of(request, resolved.identity, resolved.columns, None)
    done = (
        asyncio.run(_done(resolved, plan.replications)) if not fresh and check_unchanged(resolved) else None
    )
    faults: list[str] = []
    calls = size = fault_count = ordinal = 0
    for batch in selected_batches(resolved.rows, resolved.source):
        indexes = batch.column(0).to_pylist()
        for index, row in zip(indexes, batch.drop_columns([INDEX]).to_pylist(), strict=True):
            left = request.replications - (0 if done is None else int(done[ordinal].sum()))
            ordinal += 1
            try:
                size += left * len(plan.request(row))
            except BadInput as error:
                fault_count += 1
                if len(faults) < 3:
                    faults.append(f"row {index}: {error}")
                continue
            calls += left
    most = request.prompt.sampling.get("max_tokens") or request.prompt.sampling.get("max_completion_tokens")
    completion = calls * int(most) if isinstance(most, int) else None
    prompt = size // BYTES_PER_TOKEN
    prices = request.limits.prices
    cost = None
    if prices is not None and completion is not None:
        cost = Prices(prices.prompt, prices.completion).cost(Usage(prompt, completion))
    finished = 0 if done is None else int(done.sum())
    return Estimate(calls, finished, tuple(faults), fault_count, prompt, completion, cost)


async def _done(
    resolved: ResolvedRequest, replications: tuple[str, ...]
) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """Of each question and replication, whether it is answered."""
    source = await open_source(resolved.folder.inputs)
    indexes = await asyncio.to_thread(IndexMap, source)
    total = source.rows * len(replications)
    found = await resume(resolved.folder.outputs, indexes, replications, total)
    done = np.zeros(total, dtype=np.bool_)
    for start, stop in found.rows.ranges():
        done[start:stop] = True
    return done.reshape(-1, len(replications))


def as_json(found: Estimate) -> Mapping[str, JsonValue]:
    return {
        "calls": found.calls,
        "answered": found.done,
        "rowsThatCannotBeAsked": found.fault_count,
        "promptTokens": found.prompt_tokens,
        "completionTokensAtMost": found.completion_tokens,
        "costAtMost": found.cost,
    }
