"""Example reports in storage, as `run_report` leaves them. Tests of audits use them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from steelyard_evaluation.engine import layout
from steelyard_evaluation.report.example import CREATED, make_questions, make_verified
from steelyard_evaluation.report.layout import NUMBERS, PAGE, SCORES
from steelyard_evaluation.report.report import Request, make_report
from steelyard_evaluation.storage.files import FileStore

SERVICE = "5" * 32
DATASET = "d" * 32
TWICE = ("a" * 32, "b" * 32)


def make_answers(questions: Sequence[dict[str, Any]], wrong: Sequence[int]) -> list[dict[str, Any]]:
    """Return outputs of a system that answers the next class to the questions in `wrong`, and all others right."""

    def answer(question: dict[str, Any]) -> str:
        label = str(question["label"])
        return "abc"["abc".index(label) - 2] if question["_index_"] in wrong else label

    return [
        {
            "_index_": question["_index_"],
            "_replication_": replication,
            "responses": [{"_response_index_": 0, "label": answer(question), "probabilities": None}],
        }
        for replication in TWICE
        for question in questions
    ]


async def make_stored_report(
    root: Path,
    identity: str,
    *,
    wrong: Sequence[int] | None = (),
    questions: Sequence[dict[str, Any]] | None = None,
    rubric: str = "classification.Classification",
    system: str = "abc",
    model: str = "7",
    **names: str,
) -> FileStore:
    """Make and store a report of a system that answers the questions in `wrong` wrong; its evaluation is stored next to
    it. With None for `wrong` it answers nothing.

    `clusters` among the names is the column that defines clusters.
    """
    question_rows = list(questions if questions is not None else make_questions())
    dataset, output = FileStore(root / identity / "dataset"), FileStore(root / identity / "evaluation")
    outputs = make_answers(question_rows, wrong or ())
    if wrong is None:
        outputs = [row | {"responses": None} for row in outputs]
    await make_verified(dataset, output, questions=question_rows, outputs=outputs)
    await output.put(layout.RUN, orjson.dumps(_run(system, model)))
    cluster_by = names.pop("clusters", None)
    record = {"report": identity, "inferenceService": SERVICE, "dataset": DATASET, **names}
    scratch = root / identity / "scratch"
    scratch.mkdir()
    made = await make_report(Request(rubric, dataset, output, record, cluster_by=cluster_by), scratch)
    report = FileStore(root / identity / "report")
    await report.put_file(SCORES, made.scores)
    await report.put(NUMBERS, made.numbers)
    await report.put(PAGE, made.page)
    return report


def _run(system: str, model: str) -> dict[str, Any]:
    service = {"id": SERVICE, "name": system, "model": {"id": "3" * 32, "name": f"{system}-model"}}
    files = [{"path": "model.onnx", "size": 7, "sha256": model * 64}] if model else []
    source = {"id": "3" * 32, "kind": "Model"}
    return {
        "schemaVersion": "0.1",
        "created": CREATED,
        "identity": {
            "inferenceService": service,
            "volumes": [{"name": "model", "source": source, "files": files}],
        },
        "settings": {"batchSize": 1000},
    }
