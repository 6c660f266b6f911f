"""The step that makes an audit."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from steelyard.steps.common import Log, execute
from steelyard.steps.example import ID, make_config
from steelyard.steps.run_audit import main
from steelyard_evaluation.report.audit.example import SERVICE, make_stored_report
from steelyard_schema.steps import EXIT_OK, EXIT_PERMANENT, EXIT_RETRY

OLD, NEW = "1" * 32, "2" * 32


def make_spec(root: Path, *, baseline: str = "", **changes: Any) -> dict[str, Any]:
    inputs = {NEW: f"file://{root}/{NEW}/report"}
    if baseline:
        inputs["baseline"] = f"file://{root}/{baseline}"
    return {
        "auditProcedure": "c" * 32,
        "inferenceService": SERVICE,
        "storage": {"inputs": inputs, "output": f"file://{root}/audit"},
        **changes,
    }


def run(
    root: Path, spec: dict[str, Any], monkeypatch: pytest.MonkeyPatch, attempt: int = 1
) -> tuple[int, dict[str, Any]]:
    """Exit status and termination message."""
    monkeypatch.setenv("STEELYARD_TERMINATION_LOG", str(root / "termination"))
    config = make_config("run_audit", "Audit", spec)
    epoch = f"1795241700-11111111-{attempt:04d}"
    config = config.model_copy(update={"attempt": attempt, "epoch": epoch})
    (root / "config.json").write_text(config.model_dump_json())
    status = execute(main, Log("run_audit", io.StringIO()), root / "config.json")
    return status, json.loads((root / "termination").read_text())


@pytest.fixture
async def root(tmp_path: Path) -> Path:
    await make_stored_report(tmp_path, OLD, wrong=(1, 2), system="old")
    await make_stored_report(tmp_path, NEW, wrong=(1,))
    return tmp_path


def files(folder: Path) -> list[str]:
    written = (path for path in folder.rglob("*") if path.is_file())
    return sorted(str(path.relative_to(folder)) for path in written if ".dyff" not in path.parts)


def test_writes_page_numbers_and_scores(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(root, make_spec(root), monkeypatch)[0] == EXIT_OK
    kept = [f"reports/{NEW}/report.html", f"scores/{NEW}.parquet"]
    made = ["attestation.json", "audit.json", "index.html", *kept]
    assert [file for file in files(root / "audit") if not file.startswith(".steelyard/")] == made
    numbers = json.loads((root / "audit/audit.json").read_bytes())
    assert (numbers["audit"], numbers["auditProcedure"]) == (ID, "c" * 32)
    progress = json.loads((root / "audit/.steelyard/progress.json").read_bytes())
    assert (progress["done"], progress["total"], progress["unit"]) == (1, 1, "reports")


def test_the_earlier_audits_output_is_enough(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {"inputs": {OLD: f"file://{root}/{OLD}/report"}, "output": f"file://{root}/before"}
    assert run(root, make_spec(root, storage=before, id="8" * 32), monkeypatch)[0] == EXIT_OK
    (root / OLD).rename(root / "gone")
    assert run(root, make_spec(root, baseline="before"), monkeypatch)[0] == EXIT_OK
    (requirement,) = json.loads((root / "audit/audit.json").read_bytes())["requirements"]
    assert requirement["comparison"]["difference"]["value"] == pytest.approx(1 / 40)


def test_running_again_writes_the_same(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = []
    for attempt in (1, 2):
        assert run(root, make_spec(root), monkeypatch, attempt)[0] == EXIT_OK
        written.append([(root / "audit" / name).read_bytes() for name in ("index.html", "audit.json")])
    assert written[0] == written[1]


@pytest.mark.parametrize(
    ("changes", "code", "fault"),
    [
        ({"storage": {"inputs": {}, "output": "file:///x"}}, "BadConfiguration", "names no report"),
        ({"storage": {"inputs": {"r": "file:///x"}}}, "BadConfiguration", "spec.storage.output: is missing"),
        (
            {"storage": {"inputs": {"../r": "file:///x"}, "output": "file:///x"}},
            "BadConfiguration",
            "'../r' should be a report's id",
        ),
        (
            {"colour": "red"},
            "BadConfiguration",
            "spec.colour: is not a field here, with the value 'red'; there are account, ",
        ),
        ({"inferenceService": "f" * 32}, "WrongSystem", "about the inference service"),
    ],
)
def test_what_no_other_attempt_mends_is_permanent(
    root: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], code: str, fault: str
) -> None:
    status, termination = run(root, make_spec(root, **changes), monkeypatch)
    assert (status, termination["code"]) == (EXIT_PERMANENT, code)
    assert fault in termination["message"]


def test_a_damaged_report_is_permanent(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / NEW / "report" / "scores.parquet").write_bytes(b"other")
    status, termination = run(root, make_spec(root), monkeypatch)
    assert (status, termination["code"]) == (EXIT_PERMANENT, "DigestMismatch")


@pytest.mark.parametrize("missing", ["report", "baseline"])
def test_what_is_absent_is_worth_a_retry(root: Path, monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    if missing == "report":
        (root / NEW / "report" / "report.json").unlink()
    spec = make_spec(root, baseline="nowhere" if missing == "baseline" else "")
    status, termination = run(root, spec, monkeypatch)
    assert (status, termination["code"]) == (EXIT_RETRY, "InputMissing")
