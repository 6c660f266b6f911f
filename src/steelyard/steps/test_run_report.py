"""The step that makes a report."""

import io
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from steelyard.steps.common import Log, StepFailed, execute
from steelyard.steps.example import make_config
from steelyard.steps.run_report import main
from steelyard_evaluation.engine.epoch import claim
from steelyard_evaluation.report.example import make_verified
from steelyard_evaluation.storage.files import FileStore


@pytest.fixture
async def root(tmp_path: Path) -> Path:
    await make_verified(FileStore(tmp_path / "dataset"), FileStore(tmp_path / "evaluation"))
    return tmp_path


def make_spec(root: Path, **changes: Any) -> dict[str, Any]:
    return {
        "rubric": "classification.Classification",
        "evaluation": "e" * 32,
        "dataset": "d" * 32,
        "inferenceService": "s" * 32,
        "storage": {
            "inputs": {"dataset": f"file://{root}/dataset", "evaluation": f"file://{root}/evaluation"},
            "output": f"file://{root}/report",
        },
        **changes,
    }


async def _run(root: Path, attempt: int = 1, resource: str = "1795241700-11111111", **changes: Any) -> None:
    config = make_config("run_report", "Report", make_spec(root, **changes))
    config = config.model_copy(update={"attempt": attempt, "epoch": f"{resource}-{attempt:04d}"})
    await main(config, Log("t", io.StringIO()))


async def test_writes_page_numbers_and_scores(root: Path) -> None:
    await _run(root)
    assert _files(root) == [
        ".steelyard/epoch/1795241700-11111111-0001",
        ".steelyard/progress.json",
        ".steelyard/published/1795241700-11111111.json",
        "attestation.json",
        "report.html",
        "report.json",
        "scores.parquet",
    ]
    assert json.loads((root / "report/report.json").read_bytes())["names"]["evaluation"] == "e" * 32
    assert pq.read_table(root / "report/scores.parquet").num_rows == 80
    progress = json.loads((root / "report/.steelyard/progress.json").read_bytes())
    assert (progress["done"], progress["total"], progress["unit"]) == (80, 80, "rows")


def _files(root: Path) -> list[str]:
    written = (path for path in (root / "report").rglob("*") if path.is_file())
    return sorted(str(path.relative_to(root / "report")) for path in written)


async def test_running_again_writes_the_same(root: Path) -> None:
    await _run(root)
    before = [(root / "report" / name).read_bytes() for name in ("report.html", "report.json")]
    (root / "dataset").rename(root / "gone")
    await _run(root, attempt=2)
    assert [(root / "report" / name).read_bytes() for name in ("report.html", "report.json")] == before
    progress = json.loads((root / "report/.steelyard/progress.json").read_bytes())
    assert (progress["done"], progress["total"]) == (80, 80)


async def test_another_report_replaces_what_is_there(root: Path) -> None:
    await _run(root)
    (root / "report/scores-other.parquet").write_bytes(b"of another rubric")
    await _run(root, resource="1795241701-22222222", inferenceService="t" * 32)
    assert json.loads((root / "report/report.json").read_bytes())["names"]["inferenceService"] == "t" * 32
    assert not (root / "report/scores-other.parquet").exists()


async def test_an_attempt_that_was_taken_over_publishes_nothing(root: Path) -> None:
    await claim(FileStore(root / "report"), "1795241700-11111111-0002")
    with pytest.raises(StepFailed) as failure:
        await _run(root)
    assert (failure.value.code, failure.value.permanent) == ("Fenced", False)


@pytest.mark.parametrize(
    ("changes", "code", "fault"),
    [
        ({"rubric": "no.Such"}, "NoSuchRubric", r"installed: .*classification\.Classification"),
        ({"rubric": "classification?x=1"}, "BadRubricArgument", "no argument 'x'"),
        ({"modules": ["m"]}, "BadConfiguration", r"spec\.storage\.inputs\.m: is missing"),
        ({"storage": {}}, "BadConfiguration", r"spec\.storage\.output: is missing"),
        (
            {"rubrik": "x"},
            "BadConfiguration",
            r"spec\.rubrik: is not a field here, with the value 'x'; there are account, ",
        ),
        (
            {
                "datasetView": {
                    "id": "v",
                    "viewOf": "d",
                    "schema": {"arrowSchema": ""},
                    "adapterPipeline": [{"kind": "Nothing"}],
                }
            },
            "BadView",
            "no adapter 'Nothing'",
        ),
        (
            {
                "datasetView": {
                    "id": "v",
                    "viewOf": "d",
                    "schema": {"arrowSchema": ""},
                    "adapterPipeline": [
                        {
                            "kind": "TransformJSON",
                            "configuration": {"_index_": "$._index_", "label": "$._index_"},
                        }
                    ],
                }
            },
            "NothingInCommon",
            r"labels of the data \(numbers: 0, 1, .*and the answers \(words: a, b, c\) have no value in common",
        ),
    ],
)
async def test_what_cannot_be_scored_is_said_for_good(
    root: Path, changes: dict[str, Any], code: str, fault: str
) -> None:
    with pytest.raises(StepFailed, match=fault) as failure:
        await _run(root, **changes)
    assert (failure.value.code, failure.value.permanent) == (code, True)


async def test_views_are_applied(root: Path) -> None:
    view = {"id": "v", "viewOf": "d", "schema": {"arrowSchema": ""}}
    pipeline = [{"kind": "Rename", "configuration": {"label": "old", "text": "label"}}]
    await _run(root, datasetView={**view, "adapterPipeline": pipeline}, evaluationView=view)
    assert json.loads((root / "report/report.json").read_bytes())["metrics"][0]["value"] == 0


def test_an_unverified_output_is_worth_a_retry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = tmp_path / "termination"
    monkeypatch.setenv("STEELYARD_TERMINATION_LOG", str(words))
    (tmp_path / "config.json").write_text(
        make_config("run_report", "Report", make_spec(tmp_path)).model_dump_json()
    )
    assert execute(main, Log("run_report", io.StringIO()), tmp_path / "config.json") == 1
    assert json.loads(words.read_bytes())["code"] == "InputMissing"
