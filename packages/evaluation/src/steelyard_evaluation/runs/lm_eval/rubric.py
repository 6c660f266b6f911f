"""The rubric `lm_eval.Task`: lm-eval's own filters, metrics and standard errors over the answers of a run.

A row is one request; lm-eval scores documents, which may have several. The score of a document, lm-eval's own, stands
with the first row of its requests, and its other rows count for nothing. A document that lacks an answer has failed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from steelyard_common.errors import UsageError
from steelyard_common.types import Json
from steelyard_evaluation.engine.tokens import NoLikelihood, likelihood
from steelyard_evaluation.report.results import Answer, Results
from steelyard_evaluation.report.rubrics.answer import answer_in
from steelyard_evaluation.report.rubrics.rows import schema, score_row
from steelyard_evaluation.report.status import FAILED, SCORED, UNIT
from steelyard_evaluation.runs.lm_eval.process import prompt_digest, replay
from steelyard_evaluation.runs.lm_eval.results import FOUND, make_results
from steelyard_evaluation.runs.lm_eval.task_name import MAX_FAILED, TaskName
from steelyard_evaluation.runs.prompts.render import GENERATE

_UNIT = {UNIT: b"document"}
_SCHEMA = schema(
    ("task", pa.string()),
    ("document", pa.int64()),
    ("metrics", pa.string()),
    ("likelihoods", pa.list_(pa.float64())),
    ("greedy", pa.list_(pa.bool_())),
    ("inside_token", pa.bool_()),
    ("cut", pa.bool_()),
    ("fault", pa.string()),
    ("prompt_digest", pa.string()),
).with_metadata(_UNIT)
NO_ANSWER = "no answer"
NOTHING_FOUND = "[invalid]"
"""Text that lm-eval's filters put in the place of an answer in which they find nothing."""


@dataclass(frozen=True)
class Task:
    """One task of an installed lm-eval; the fields are those of `--task lm_eval:NAME?…`."""

    task: str
    include_path: str = ""
    num_fewshot: int | None = None
    limit: int | None = None
    chat: bool = False
    max_failed: float = MAX_FAILED
    prefix_token_id: int | None = None
    max_length: int | None = None
    think_end_token: str = ""

    @property
    def name(self) -> TaskName:
        return TaskName(
            self.task,
            self.include_path,
            self.num_fewshot,
            self.limit,
            self.chat,
            self.max_failed,
            self.prefix_token_id,
            self.max_length,
            self.think_end_token,
        )

    @property
    def columns(self) -> tuple[str, ...]:
        return ("prompt", "kind", "task", "document")

    @property
    def files(self) -> tuple[str, ...]:
        """The files of tasks of one's own: a number depends on them as on the dataset. They are run, so a report is
        scored again with the files at their own place, never with copies that another person has sent.
        """
        folder = Path(self.include_path) if self.include_path else None
        inside = sorted(folder.rglob("*")) if folder else []
        return tuple(str(path) for path in inside if path.is_file() and "__pycache__" not in path.parts)

    @property
    def scores(self) -> pa.Schema:
        return _SCHEMA

    def score(self, answer: Answer) -> Json:
        """Return the record of one request; `together` makes scores of documents from these."""
        row = answer.row
        columns: Json = {
            "task": row["task"],
            "document": row["document"],
            "metrics": None,
            "prompt_digest": prompt_digest(row["prompt"]),
        }
        return score_row(0.0, (), None, False) | columns | _reply(answer, self.think_end_token)

    def together(self, scores: pa.Table) -> pa.Table:
        """lm-eval's score of each document, at the first row of its requests, and what it made of all."""
        rows = scores.to_pylist()
        # lm-eval takes the answers in the order of its requests, which is that of the index.
        answers = sorted(rows, key=lambda row: int(row["_index_"]))
        outcome = replay(self.name, [_answer(row) for row in answers], _digests(answers))
        first = {int(row["_index_"]): row for row in rows}
        documents = [
            _score_document(document, [first[number] for number in document["rows"]])
            for document in outcome["documents"]
        ]
        kept = {key: outcome[key] for key in ("results", "bounds", "shares")} | {
            "requests": len(rows),
            "inside": sum(bool(row["inside_token"]) for row in rows),
            "cut": sum(bool(row["cut"]) for row in rows),
        }
        documents.sort(key=lambda row: int(row["_index_"]))
        return pa.Table.from_pylist(
            documents, scores.schema.with_metadata(_UNIT | {FOUND: orjson.dumps(kept)})
        )

    def unread(self, scores: pa.Table) -> list[bool]:
        """Return in which documents lm-eval's filter found nothing; of several filters, one may find something."""
        return [
            said == NOTHING_FOUND
            and len({key.partition(",")[2] for key in orjson.loads(metrics or "{}")}) < 2
            for said, metrics in zip(
                scores["prediction"].to_pylist(), scores["metrics"].to_pylist(), strict=True
            )
        ]

    def summarise(self, scores: pa.Table) -> Results:
        return make_results(self.name, scores)


def _reply(answer: Answer, think_end_token: str) -> Json:
    """The text of a generation, or the likelihood of a text, or why there is neither."""
    columns: Json = {"prediction": None, "likelihoods": [], "greedy": [], "inside_token": None}
    columns |= {"cut": None, "fault": None}
    if not answer.responses:
        return columns | {"fault": NO_ANSWER}
    text = str(answer.responses[0]["text"])
    if answer.row["kind"] == GENERATE:
        if think_end_token:  # as lm-eval's own models cut it
            text = text.rpartition(think_end_token)[2].lstrip()
        return columns | {"prediction": answer_in(text)}
    kept = orjson.loads(text)
    try:
        if "fault" in kept:
            raise NoLikelihood(kept["fault"])
        value, greedy = likelihood(kept["logprobs"], kept["tops"])
    except NoLikelihood as fault:
        return columns | {"fault": str(fault)}
    inside = kept.get("inside") if kept.get("context_tokens") is None else False
    columns |= {"likelihoods": [value], "greedy": [greedy], "inside_token": inside}
    return columns | {"cut": "cut" in kept}


def _answer(row: Mapping[str, Any]) -> object:
    """The answer in the form that `model` takes; None where there is none."""
    if row["fault"] is not None:
        return None
    return [row["likelihoods"][0], row["greedy"][0]] if row["likelihoods"] else row["prediction"]


def _digests(answers: Sequence[Mapping[str, Any]]) -> list[str | None]:
    """The digests of the prompts, by the number of the request; None where one was not asked."""
    digests: list[str | None] = []
    for row in answers:
        number = int(row["_index_"])
        if number < len(digests):
            raise UsageError("lm-eval's tasks say themselves how often they ask; leave out --replications")
        digests += [None] * (number - len(digests))
        digests.append(str(row["prompt_digest"]))
    return digests


def _score_document(document: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The row of one document: that of its first request, with lm-eval's score."""
    row = {
        **rows[0],
        "label": document["label"],
        "prediction": document["prediction"],
        "likelihoods": [value for request in rows for value in request["likelihoods"]],
        "greedy": [value for request in rows for value in request["greedy"]],
        "inside_token": any(request["inside_token"] for request in rows),
        "cut": any(request["cut"] for request in rows),
    }
    if not document["scored"]:
        faults = dict.fromkeys(str(request["fault"]) for request in rows if request["fault"] is not None)
        # For a number that is no share, 0 may be the best: a failed document has none.
        score = 0.0 if document["share"] else None
        return row | {"status": FAILED, "score": score, "correct": False, "fault": "; ".join(faults)}
    score = document["score"]
    metrics = orjson.dumps(document["metrics"], option=orjson.OPT_SORT_KEYS).decode()
    right = score == 1 if document["share"] else True
    return row | {"status": SCORED, "score": score, "correct": right, "metrics": metrics}
