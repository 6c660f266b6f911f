"""The step that makes a report by a rubric of a module, which runs in a process of its own."""

import io
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from steelyard.steps.common import Log, StepFailed
from steelyard.steps.example import make_config
from steelyard.steps.run_report import main
from steelyard.steps.test_run_report import make_spec
from steelyard_evaluation.report.example import make_verified
from steelyard_evaluation.storage.files import FileStore


@pytest.fixture
async def root(tmp_path: Path) -> Path:
    await make_verified(FileStore(tmp_path / "dataset"), FileStore(tmp_path / "evaluation"))
    return tmp_path


async def _run(root: Path, **changes: Any) -> None:
    await main(make_config("run_report", "Report", make_spec(root, **changes)), Log("t", io.StringIO()))


RUBRIC = """
from dataclasses import dataclass

import pyarrow as pa

from steelyard_evaluation.report.results import Answer, Json, Results
from steelyard_evaluation.report.rubrics.rows import right_or_wrong, schema
from steelyard_evaluation.report.summary import ScoreKind, summarise_scores


@dataclass(frozen=True)
class Among:
    labels: str

    @property
    def columns(self) -> tuple[str, ...]:
        return ("label",)

    @property
    def scores(self) -> pa.Schema:
        return schema()

    def score(self, answer: Answer) -> Json:
        print("scored", answer.index)
        label = answer.responses[0]["label"] if answer.responses else None
        return right_or_wrong(label is not None and label in self.labels, tuple(self.labels), label)

    def summarise(self, scores: pa.Table) -> Results:
        return summarise_scores(scores, ScoreKind("among", "Among"))


def broken() -> None:
    ...
"""


def make_module(root: Path, **changes: Any) -> dict[str, Any]:
    (root / "module/rubrics").mkdir(parents=True)
    (root / "module/rubrics/among.py").write_text(RUBRIC)
    spec = make_spec(root)
    spec["storage"]["inputs"]["m" * 32] = f"file://{root}/module"
    return {
        "storage": spec["storage"],
        "modules": ["m" * 32],
        "rubric": "rubrics.among.Among?labels=abc",
        **changes,
    }


async def test_a_rubric_of_a_module_makes_a_report(root: Path) -> None:
    out = io.StringIO()
    await main(make_config("run_report", "Report", make_spec(root, **make_module(root))), Log("t", out))
    files = sorted(str(f.relative_to(root / "report")) for f in (root / "report").rglob("*") if f.is_file())
    assert files == [
        ".steelyard/epoch/1795241700-11111111-0001",
        ".steelyard/progress.json",
        ".steelyard/published/1795241700-11111111.json",
        "attestation.json",
        "report.html",
        "report.json",
        "scores.parquet",
    ]
    numbers = json.loads((root / "report/report.json").read_bytes())
    assert numbers["names"]["evaluation"] == "e" * 32
    assert numbers["metrics"][0]["value"] == 78 / 80  # the 10th question is without an answer, twice
    assert out.getvalue().count('"scored ') == 80


APPLIED = """
import pyarrow as pa

KEYS = [("_index_", pa.int64()), ("_replication_", pa.string())]
SCHEMA = pa.schema([*KEYS, ("same", pa.bool_()), ("length", pa.int64())])

class Same:
    name, schema = "rubrics.Same", SCHEMA

    def apply(self, task_data, predictions):
        labels = {row["_index_"]: row["label"] for row in task_data.to_table().to_pylist()}
        for batch in predictions.to_batches():
            rows = []
            for row in batch.to_pylist():
                said = row["responses"][0]["label"] if row["responses"] else ""
                keys = {name: row[name] for name, _ in KEYS}
                rows.append({**keys, "same": said == labels[row["_index_"]], "length": len(said)})
            yield pa.RecordBatch.from_pylist(rows, SCHEMA)
"""


async def test_a_rubric_of_the_original_kind_makes_a_report(root: Path) -> None:
    changes = make_module(root, rubric="rubrics.same.Same")
    (root / "module/rubrics/same.py").write_text(APPLIED)
    await _run(root, **changes)
    same, _, length = json.loads((root / "report/report.json").read_bytes())["metrics"]
    # Of 40 questions, each asked twice, 6 answers are wrong and one is missing.
    assert (same["name"], same["unit"], same["value"]) == ("same", "share", 66 / 80)
    assert (length["name"], length["unit"], length["value"]) == ("length", "number", 78 / 80)
    rows = pq.read_table(root / "report/scores.parquet").to_pylist()
    assert all(row["correct"] == row["same"] and row["score"] == row["same"] for row in rows)


async def test_a_rubric_of_dyff_audit_names_the_command_that_installs_it(root: Path) -> None:
    with pytest.raises(StepFailed) as failure:
        await _run(root, rubric="dyff.audit.scoring.text.Missing")
    assert failure.value.code == "NoSuchRubric"
    assert failure.value.message.endswith("install it with: steelyard runners install dyff-audit")


@pytest.mark.parametrize(
    ("changes", "code", "fault"),
    [
        ({"rubric": "rubrics.among.Other"}, "NoSuchRubric", "the module 'rubrics.among' has no 'Other'"),
        ({"rubric": "rubrics.other.Among"}, "NoSuchRubric", "there is no module 'rubrics.other'"),
        ({"rubric": "rubrics.among.broken"}, "NoSuchRubric", "should be a dataclass with the methods of a"),
        ({"rubric": "rubrics.among.Among?x=1"}, "BadRubricArgument", "no argument 'x'"),
    ],
)
async def test_a_rubric_that_no_module_has_is_named(
    root: Path, changes: dict[str, Any], code: str, fault: str
) -> None:
    module = make_module(root, **changes)
    with pytest.raises(StepFailed, match=fault) as failure:
        await _run(root, **module)
    assert (failure.value.code, failure.value.permanent) == (code, True)
    assert not (root / "report/report.html").exists()


async def test_a_rubric_that_fails_makes_no_report(root: Path) -> None:
    module = make_module(root)
    (root / "module/rubrics/among.py").write_text(RUBRIC.replace("print(", "raise KeyError("))
    with pytest.raises(StepFailed, match=r"KeyError: .* \(rubrics/among\.py, line \d+\)$") as failure:
        await _run(root, **module)
    assert (failure.value.code, failure.value.permanent) == ("MethodFailed", False)
    assert not (root / "report/report.html").exists()
