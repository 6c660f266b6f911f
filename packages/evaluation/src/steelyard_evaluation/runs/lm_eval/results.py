"""The numbers of a report on lm-eval's tasks: lm-eval's own, with intervals, and what failed documents leave open.

A share is that of all documents, those that failed counted as wrong. Above the share of failed documents that the
setting `max_failed` allows there is no number, only what it would be if all of them were wrong, and if all were right.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from steelyard_evaluation.report.errors import ReportFailed
from steelyard_evaluation.report.results import Bounds, Metric, Results, Table
from steelyard_evaluation.report.statistics.intervals import (
    Estimate,
    Floats,
    Integers,
    mean,
    row_clusters,
)
from steelyard_evaluation.report.status import FAILED, has_status
from steelyard_evaluation.report.wording import between_text, count, format_value, percent
from steelyard_evaluation.runs.lm_eval.documents import metric_keys
from steelyard_evaluation.runs.lm_eval.intervals import by_standard_error, mean_of_tasks
from steelyard_evaluation.runs.lm_eval.task_name import TaskName

FOUND = b"lm_eval"
"""Key in the metadata of the scores: lm-eval's results of the whole run, as JSON."""
_MOST_REASONS = 10


@dataclass(frozen=True)
class _Documents:
    """The scores of all documents, and what lm-eval made of them together."""

    table: pa.Table
    outcome: Mapping[str, Any]
    failed: NDArray[np.bool_]
    """Mask of the documents that failed."""

    @property
    def total(self) -> int:
        return self.table.num_rows

    @property
    def failures(self) -> int:
        return int(np.count_nonzero(self.failed))

    def values(
        self, tasks: Sequence[str], key: str, *, failures: bool = True
    ) -> tuple[Floats, Integers] | None:
        """Each document's number of a metric, and its cluster; None where one has no number.

        A document that failed has 0, or is left out where `failures` do not count.
        """
        mine = self._task_mask(tasks) if failures else self._task_mask(tasks) & ~self.failed
        metrics = self.table.filter(pa.array(mine))["metrics"].to_pylist()
        numbers = [0.0 if text is None else orjson.loads(text).get(key) for text in metrics]
        if not numbers or any(number is None for number in numbers):
            return None
        return np.asarray(numbers, dtype=np.float64), row_clusters(self.table)[mine]

    def clusters(self, tasks: Sequence[str]) -> Integers:
        """The clusters of the documents that did not fail."""
        return row_clusters(self.table)[self._task_mask(tasks) & ~self.failed]

    def _task_mask(self, tasks: Sequence[str]) -> NDArray[np.bool_]:
        names = pa.array(sorted(tasks), pa.string())
        return np.asarray(pc.is_in(self.table["task"], value_set=names).to_numpy(), dtype=np.bool_)


def make_results(name: TaskName, scores: pa.Table) -> Results:
    """Return the content of the report, from the rows with the scores of documents."""
    outcome = orjson.loads((scores.schema.metadata or {})[FOUND])
    failed = np.asarray(has_status(scores, FAILED).to_numpy(), dtype=np.bool_)
    documents = _Documents(scores, outcome, failed)
    metrics = [metric for metric, _ in _metrics(name, documents)]
    bounds = _bounds(name, documents)
    too_many = documents.failures > name.max_failed * documents.total
    if too_many:
        metrics = [
            replace(
                metric, estimate=Estimate(None, None, None, "too many documents failed", metric.estimate.n)
            )
            for metric in metrics
        ]
    if not metrics:
        if not too_many:
            raise ReportFailed("NothingToScore", "lm-eval found no number")
        metrics = [
            Metric("score", name.task, Estimate(None, None, None, "all documents failed", documents.total))
        ]
    return Results(
        headline=_headline(name, documents, metrics[0], bounds, too_many=too_many),
        metrics=tuple(metrics),
        tables=tuple(_tables(documents)),
        limits=tuple(_limits(documents)),
        numbers={
            "lmEval": outcome["results"],
            "lmEvalBounds": outcome["bounds"],
            "documents": {"scored": documents.total - documents.failures, "failed": documents.failures},
            "maxFailed": name.max_failed,
        },
        bounds=bounds,
    )


def _headline(
    name: TaskName, documents: _Documents, lead: Metric, bounds: Bounds | None, *, too_many: bool
) -> str:
    if too_many:
        failed = f"{count(documents.failures)} of {count(documents.total)} documents failed"
        allowed = f"max_failed allows {percent(name.max_failed)}"
        between = (
            f": between {percent(bounds.all_failed_wrong)} and {percent(bounds.all_failed_right)}"
            if bounds
            else ""
        )
        return f"lm-eval's task {name.task} has no number: {failed}, and {allowed}{between}."
    what = lead.title.removeprefix(f"{name.task}: ")
    value = "nothing" if lead.estimate.value is None else format_value(lead.estimate, lead.unit, lead.scale)
    if lead.estimate.low is None or lead.estimate.high is None:
        return f"lm-eval's task {name.task}: {what} {value}."
    between = between_text(lead.estimate, lead.unit, lead.scale)
    return f"lm-eval's task {name.task}: {what} {value} (95 % interval {between})."


def _numbers(documents: _Documents) -> dict[str, dict[str, Any]]:
    """lm-eval's numbers by task and group; the shares are those of all documents."""
    results = documents.outcome["results"]
    numbers = {
        task: dict(numbers) for task, numbers in {**results["results"], **results.get("groups", {})}.items()
    }
    for task, shares in (documents.outcome["bounds"].get("low") or {}).items():
        numbers.setdefault(task, {}).update(shares)
    return numbers


def _order_tasks(name: TaskName, numbers: Mapping[str, Any]) -> list[str]:
    """The task or group that was asked for first: it leads."""
    return sorted(numbers, key=lambda task: task != name.task)


def _metrics(name: TaskName, documents: _Documents) -> Iterator[tuple[Metric, str]]:
    """Every number that lm-eval found, and its task; a pooled one first where a run of several tasks has no number."""
    numbers, results = _numbers(documents), documents.outcome["results"]["results"]
    tasks = [str(task) for task in pc.unique(documents.table["task"]).to_pylist()]
    if len(tasks) > 1 and not metric_keys(numbers.get(name.task, {})):
        yield from _pool(name, documents, tasks)
    for task in _order_tasks(name, numbers):
        for key in metric_keys(numbers[task]):
            metric, _, kept = key.partition(",")
            error = results.get(task, numbers[task]).get(f"{metric}_stderr,{kept}")
            members = _members(task, tasks, documents.outcome["results"].get("group_subtasks", {}))
            share = any(key in documents.outcome["shares"].get(member, ()) for member in members)
            share = share and 0 <= numbers[task][key] <= 1
            estimate = _estimate(
                documents, (task in tasks, members, key), float(numbers[task][key]), error, share
            )
            named = f"{task}.{metric}" + ("" if kept == "none" else f".{kept}")
            yield Metric(named, _title(task, key), estimate, "share" if share else "number"), task


def _members(task: str, tasks: Sequence[str], groups: Mapping[str, Sequence[str]]) -> list[str]:
    """The tasks with documents in a group, that of groups in it among them; a task is its own member."""
    if task in tasks:
        return [task]
    return list(
        dict.fromkeys(name for member in groups.get(task, ()) for name in _members(member, tasks, groups))
    )


def _title(task: str, key: str) -> str:
    metric, _, kept = key.partition(",")
    return f"{task}: {metric}" + ("" if kept == "none" else f" ({kept})")


def _pool(name: TaskName, documents: _Documents, tasks: Sequence[str]) -> Iterator[tuple[Metric, str]]:
    """The mean over the documents of all tasks, where lm-eval itself has no number for the group."""
    scores = documents.table["score"]
    shares = documents.outcome["shares"]
    leads = {next(iter(shares.get(task, ())), None) for task in tasks}
    if None in leads or scores.null_count:
        return
    values = np.asarray(scores.to_numpy(), dtype=np.float64)
    key = " or ".join(sorted(str(lead).partition(",")[0] for lead in leads))
    estimate = _share(values, row_clusters(documents.table))
    note = "over the documents of all tasks; lm-eval has no number for this group"
    yield Metric(f"{name.task}.documents", f"{name.task}: {key}", estimate, "share", note), name.task


def _estimate(
    documents: _Documents, task: tuple[bool, Sequence[str], str], value: float, error: object, share: bool
) -> Estimate:
    """The number with its interval: by the documents' own numbers where it is their mean, else by lm-eval's error."""
    one_task, members, key = task
    if share:
        by_task = documents.outcome["results"]["results"]
        numbers = [documents.values([member], key) for member in members if key in by_task.get(member, {})]
        known_numbers = [pair for pair in numbers if pair is not None]
        if known_numbers and len(known_numbers) == len(numbers):
            return _estimate_share(known_numbers, value, one_task)
        reason = "no interval: lm-eval kept no number of some documents"
        return Estimate(value, None, None, reason, documents.total)
    scored = documents.values(members, key, failures=False) if one_task else None
    if scored is not None and abs(float(scored[0].mean()) - value) < 1e-9 * max(1.0, abs(value)):
        return replace(mean(*scored), value=value)
    known = float(error) if isinstance(error, int | float) else None
    return by_standard_error(key.partition(",")[0], value, known, documents.clusters(members))


def _estimate_share(tasks: Sequence[tuple[Floats, Integers]], value: float, one_task: bool) -> Estimate:
    """A share with the interval of what it is: the mean over all documents, or that of the tasks' own shares."""
    values, clusters = (np.concatenate(parts) for parts in zip(*tasks, strict=True))
    # A group may weigh its tasks by size or equally (`weight_by_size` of lm-eval): the number itself shows which.
    if one_task or abs(float(values.mean()) - value) < 1e-9:
        return replace(_share(values, clusters), value=value)
    if abs(float(np.mean([task.mean() for task, _ in tasks])) - value) < 1e-9:
        return mean_of_tasks([task for task, _ in tasks], [units for _, units in tasks])
    reason = "no interval: it is no mean over the documents, nor over the tasks"
    return Estimate(value, None, None, reason, int(values.size))


def _share(values: Floats, clusters: Integers) -> Estimate:
    """The mean of numbers from 0 to 1; its interval stays there, and is never a point."""
    return mean(values, clusters, (0.0, 1.0))


def _bounds(name: TaskName, documents: _Documents) -> Bounds | None:
    """The leading share if all documents that failed were wrong, and if all were right."""
    bounds = documents.outcome["bounds"]
    if not bounds or not documents.failures:
        return None
    for task in _order_tasks(name, bounds["low"]):
        for key, low in bounds["low"][task].items():
            return Bounds(float(low), float(bounds["high"][task][key]))
    return None


def _tables(documents: _Documents) -> Iterator[Table]:
    if not documents.failures:
        return
    reasons = documents.table.filter(pa.array(documents.failed))["fault"].to_pylist()
    several = Counter(str(reason) for reason in reasons).most_common(_MOST_REASONS)
    rows = tuple((reason, number) for reason, number in several)
    yield Table("Why documents failed", ("Reason", "Documents"), rows)
    low, high = (documents.outcome["bounds"].get(side, {}) for side in ("low", "high"))
    open_ones = tuple(
        (_title(task, key), percent(value), percent(high[task][key]))
        for task, shares in low.items()
        for key, value in shares.items()
    )
    if open_ones and documents.failures < documents.total:
        columns = ("Share", "If all that failed were wrong", "If all were right")
        yield Table("What failed documents leave open", columns, open_ones)


def _limits(documents: _Documents) -> Iterator[str]:
    yield "lm-eval's own code made these numbers; the intervals are ours wherever the documents' numbers are known."
    if documents.failures:
        yield (
            f"{count(documents.failures)} of {count(documents.total)} documents failed: a request of theirs got no "
            "answer that counts. They are wrong in every share, and in no other number; under lmEval in report.json "
            "stand lm-eval's numbers of the others alone."
        )
    if cut := documents.outcome.get("cut", 0):
        yield (
            f"In {count(cut)} of {count(documents.outcome['requests'])} requests the prompt was longer than the "
            "model's context, and was cut from the left, as lm-eval does."
        )
    if inside := documents.outcome.get("inside", 0):
        yield (
            f"In {count(inside)} of {count(documents.outcome['requests'])} requests the border between question and "
            "answer lies inside a token. The whole token counts, since the endpoint has no /tokenize; lm-eval with "
            "the model's tokenizer may count otherwise there."
        )
