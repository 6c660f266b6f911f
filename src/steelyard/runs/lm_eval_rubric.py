"""The rubric `lm_eval.Task`: lm-eval's own filters, metrics and standard errors over the answers of a run.

A row is one request; lm-eval scores documents, which may have several. So a row's own score is only whether it was
answered, and the numbers of the report are lm-eval's.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa

from steelyard.report.errors import ReportFailed
from steelyard.report.results import Answer, Json, Metric, Results
from steelyard.report.rubrics.rows import judged, schema
from steelyard.report.statistics import Estimate
from steelyard.runs.lm_eval_replay import replay, text_of
from steelyard.runs.lm_eval_tasks import TaskName

_SCHEMA = schema(
    ("prompt", pa.string()),
    ("likelihood", pa.float64()),
    ("greedy", pa.bool_()),
)
_SHARES = {"acc", "acc_norm", "acc_mutual_info", "acc_bytes", "exact_match", "f1", "em"}
"""Metrics from 0 to 1, but of some tasks (squadv2), which count to 100."""
_TWO_SIDED = 1.959963984540054


class NoTokens(ValueError):
    """The endpoint did not tell what it should of the tokens of a prompt."""


@dataclass(frozen=True)
class Task:
    """One task of an installed lm-eval; the fields are those of `--task lm_eval:NAME?…`."""

    task: str
    include_path: str = ""
    num_fewshot: int | None = None
    limit: int | None = None
    chat: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        return ("prompt", "context")

    @property
    def scores(self) -> pa.Schema:
        return _SCHEMA

    def score(self, answer: Answer) -> Json:
        prompt = answer.row["prompt"]
        row = {"prompt": text_of(prompt)}
        nothing: Json = {"likelihood": None, "greedy": None}
        if not answer.responses:
            return judged(0.0, (), None, False) | row | nothing
        text = str(answer.responses[0]["text"])
        if answer.row["context"]:
            likelihood, greedy = likelihood_of(text, int(answer.row["context"]), answer.index)
            told = {"likelihood": likelihood, "greedy": greedy}
            return judged(1.0, (), f"{likelihood:.6g}", True) | row | told
        return judged(1.0, (), text, True) | row | nothing

    def summarise(self, scores: pa.Table) -> Results:
        name = TaskName(self.task, self.include_path, self.num_fewshot, self.limit, self.chat)
        rows = scores.select(["_index_", "prompt", "prediction", "likelihood", "greedy"]).to_pylist()
        missing = sum(row["prediction"] is None for row in rows)
        return _results(self.task, replay(name, rows), missing)


def likelihood_of(told: str, context: int, index: int) -> tuple[float, bool]:
    """The log-likelihood of what follows the first `context` characters, and whether each of its tokens was the
    likeliest: from what the endpoint told of each token. The token asked for after the end is none of them.
    """
    tokens = orjson.loads(told)
    total, greedy, counted = 0.0, True, 0
    ends = [*tokens["offsets"][1:], None]
    for offset, end, value, top in zip(
        tokens["offsets"][:-1], ends, tokens["logprobs"], tokens["tops"], strict=False
    ):
        if offset < context and (end is None or end <= context):
            continue
        if value is None:
            raise NoTokens(f"row {index}: the endpoint told no likelihood of a token of the continuation")
        total += value
        greedy = greedy and value == top
        counted += 1
    if not counted:
        raise NoTokens(f"row {index}: the endpoint told no token of the continuation (does it take echo?)")
    return total, greedy


def _results(task: str, found: Mapping[str, Any], missing: int) -> Results:
    metrics = tuple(metrics_of(found))
    lead = metrics[0].estimate
    value = "nothing" if lead.value is None else f"{lead.value:.4f}"
    limits = ["lm-eval's own code made these numbers; its standard errors know nothing of clusters."]
    if missing:
        limits.append(
            f"{missing:,} requests got no answer; lm-eval scored them as empty, or as most unlikely."
        )
    numbers = {
        key: found[key] for key in ("results", "groups", "versions", "n-shot", "n-samples") if key in found
    }
    return Results(
        headline=f"lm-eval's task {task}: {metrics[0].title} {value}.",
        metrics=metrics,
        limits=tuple(limits),
        numbers={
            "lmEval": orjson.loads(orjson.dumps(numbers, default=str, option=orjson.OPT_SERIALIZE_NUMPY))
        },
    )


def metrics_of(found: Mapping[str, Any]) -> list[Metric]:
    """Every number in lm-eval's dictionary of results."""
    results = {**found["results"], **found.get("groups", {})}
    metrics = []
    for task, numbers in results.items():
        size = found.get("n-samples", {}).get(task, {}).get("effective", 0)
        for key, value in numbers.items():
            metric, comma, kept = key.partition(",")
            if not comma or metric.endswith("_stderr") or not isinstance(value, int | float):
                continue
            error = numbers.get(f"{metric}_stderr,{kept}")
            name = f"{task}.{metric}" + ("" if kept == "none" else f".{kept}")
            title = f"{task}: {metric}" + ("" if kept == "none" else f" ({kept})")
            share = metric in _SHARES and 0 <= value <= 1
            estimate = _estimate(float(value), error, int(size), share=share)
            metrics.append(Metric(name, title, estimate, "share" if share else "number"))
    if not metrics:
        raise ReportFailed("NothingToScore", "lm-eval found no number")
    return metrics


def _estimate(value: float, error: object, size: int, *, share: bool) -> Estimate:
    if not isinstance(error, int | float):
        return Estimate(value, None, None, "lm-eval tells no standard error", size)
    half = _TWO_SIDED * float(error)
    low, high = value - half, value + half
    if share:
        low, high = max(0.0, low), min(1.0, high)
    return Estimate(value, low, high, "lm-eval's standard error, normal", size, float(error))
