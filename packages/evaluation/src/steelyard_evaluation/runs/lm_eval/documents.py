"""The results of lm-eval for each document of a task, as plain data, and the bounds that failed documents set.

`model` makes it inside lm-eval's process; the rubric writes it into the scores.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TypedDict

from steelyard_common.types import JsonValue

Key = tuple[str, int]
"""A document: the name of its task, and its number there."""
SHARES = {"acc", "acc_norm", "acc_mutual_info", "acc_bytes", "exact_match", "f1", "em"}
"""Metrics that are shares wherever they lie between 0 and 1; some tasks (squadv2) count them to 100."""
MOST_TEXT = 4000
_LOW, _HIGH = "low", "high"


class Document(TypedDict):
    """One document. Its numbers are lm-eval's own, by `metric,filter`."""

    task: str
    document: int
    rows: list[int]
    """The numbers of its requests."""
    metrics: dict[str, float]
    score: float | None
    """The document's number of the task's first metric; None for a metric without a number for one document."""
    share: bool
    """The score lies between 0 and 1, and 1 is best."""
    label: str
    prediction: str | None
    scored: bool


def metric_keys(numbers: Mapping[str, JsonValue]) -> list[str]:
    """The metrics, `name,filter`, among a task's numbers, in lm-eval's order."""
    return [
        key
        for key, value in numbers.items()
        if "," in key
        and not key.partition(",")[0].endswith("_stderr")
        and isinstance(value, int | float)
        and not isinstance(value, bool)
    ]


def find_shares(
    tasks: Mapping[str, JsonValue],
    samples: Mapping[str, Sequence[JsonValue]],
    results: Mapping[str, JsonValue],
) -> dict[str, list[str]]:
    """The metrics of each task that are shares: means over documents of numbers from 0 to 1, where more is better."""
    shares: dict[str, list[str]] = {}
    for task, several in samples.items():
        shares[task] = []
        for key in metric_keys(results.get(task, {})):
            metric, _, kept = key.partition(",")
            values = [
                value
                for sample in several
                # A task may score each document by several filters: a metric belongs to one of them.
                if sample["filter"] == kept and (value := sample.get(metric)) is not None
            ]
            better = tasks[task].higher_is_better().get(metric, True)
            if better is not False and _is_share(metric, values, results[task][key]):
                shares[task].append(key)
    return shares


def _is_share(metric: str, values: Sequence[JsonValue], mean: float) -> bool:
    numbers = [_number(value) for value in values]
    known = [number for number in numbers if number is not None]
    if not known or len(known) < len(numbers) or not all(0 <= number <= 1 for number in known):
        return False
    right_or_wrong = all(number in (0.0, 1.0) for number in known)
    # lm-eval's own number decides: where it is no mean of the documents' numbers, it is no share either.
    return (right_or_wrong or metric in SHARES) and math.isclose(
        sum(known) / len(known), mean, rel_tol=1e-9, abs_tol=1e-12
    )


def make_document(
    key: Key,
    origin: tuple[list[int], str],
    samples: Sequence[Mapping[str, JsonValue]],
    results: Mapping[str, JsonValue],
    shares: Mapping[str, Sequence[str]],
) -> Document:
    """A document by lm-eval's samples of it, one for each filter; it failed where there is none.

    `origin` are the numbers of its requests, and its target.
    """
    (task, number), (rows, label) = key, origin
    metrics = {
        f"{metric},{sample['filter']}": value
        for sample in samples
        for metric in sample["metrics"]
        if (value := _number(sample[metric])) is not None
    }
    lead = next(iter(metric_keys(results.get(task, {}))), None)
    return Document(
        task=task,
        document=number,
        rows=rows,
        metrics=metrics,
        score=None if lead is None else metrics.get(lead),
        share=lead in shares.get(task, ()),
        label=label,
        prediction=_prediction(samples[0]) if samples else None,
        scored=bool(samples),
    )


def _prediction(sample: Mapping[str, JsonValue]) -> str | None:
    """The text that was generated, as the filter left it, or the likeliest of several choices."""
    answers = sample["filtered_resps"]
    if _is_choice(sample):
        values = [answer[0] for answer in answers]
        return str(sample["arguments"][values.index(max(values))][1]).strip()[:MOST_TEXT]
    first = answers[0]
    return str(first[0] if isinstance(first, list | tuple) and first else first)[:MOST_TEXT]


def _is_choice(sample: Mapping[str, JsonValue]) -> bool:
    answers = sample["filtered_resps"]
    return len(answers) > 1 and all(
        isinstance(answer, list | tuple) and len(answer) == 2 and isinstance(answer[0], float)
        for answer in answers
    )


def _number(value: JsonValue) -> float | None:
    """A number as float; None for other values, such as the pairs behind corpus metrics."""
    # Tasks return numpy's and torch's scalars as well as Python's.
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        value = value.item()
    return float(value) if isinstance(value, bool | int | float) else None


def share_bounds(
    results: Mapping[str, JsonValue],
    loaded: Mapping[str, JsonValue],
    shares: Mapping[str, Sequence[str]],
    failed: Mapping[str, int],
) -> dict[str, dict[str, dict[str, float]]]:
    """The shares of tasks and groups if every failed document were wrong (`low`) or right (`high`)."""
    if not failed:
        return {}
    everywhere = list(dict.fromkeys(key for keys in shares.values() for key in keys))
    sides: dict[str, dict[str, dict[str, float]]] = {}
    for side in (_LOW, _HIGH):
        tasks = {
            task: _with_failed(
                results.get(task, {}), shares.get(task) or everywhere, failed.get(task, 0), side
            )
            for task in loaded["tasks"]
        }
        # lm-eval's own aggregation, with its weights: a group's bounds are what it would make of the tasks'
        # bounds.
        groups = {name: group.aggregate(tasks) for name, group in loaded.get("groups", {}).items()}
        sides[side] = {
            name: {key: float(numbers[key]) for key in metric_keys(numbers) if key in everywhere}
            for name, numbers in (tasks | groups).items()
        }
    return sides


def _with_failed(
    numbers: Mapping[str, JsonValue], shares: Sequence[str], failed: int, side: str
) -> dict[str, JsonValue]:
    """A task's shares over all documents, and how many these are; errors are lm-eval's, of those that were scored."""
    scored = int(numbers.get("sample_len", 0))
    size = scored + failed
    adjusted: dict[str, JsonValue] = {"sample_len": size}
    for key in shares:
        metric, _, kept = key.partition(",")
        right = scored * float(numbers.get(key, 0.0)) + (failed if side == _HIGH else 0)
        adjusted[key] = right / size if size else 0.0
        adjusted[f"{metric}_stderr,{kept}"] = numbers.get(f"{metric}_stderr,{kept}", 0.0)
    return adjusted
