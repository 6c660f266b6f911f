"""A report by a rubric of a module, made by its step and verified on the command line."""

import io
import json
import shutil
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from steelyard.cli.main import app
from steelyard.steps.common import Log
from steelyard.steps.example import make_config
from steelyard.steps.run_report import main
from steelyard_common.errors import UsageError
from steelyard_evaluation.engine.epoch import claim
from steelyard_evaluation.report.audit.make import Request, make_audit
from steelyard_evaluation.report.audit.subject import Subject
from steelyard_evaluation.report.example import make_verified
from steelyard_evaluation.report.publish import make_publication, publish_audit
from steelyard_evaluation.storage.files import FileStore
from tests.processes.test_run_report import RUBRIC


def verify(what: str, *arguments: object) -> Result:
    return CliRunner().invoke(app, [what, "verify", *map(str, arguments)])


@pytest.fixture(autouse=True)
def _same_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the folders out of the path again that the command adds to it."""
    monkeypatch.setattr(sys, "path", [*sys.path])


@pytest.fixture
async def root(tmp_path: Path) -> Path:
    """Folder of a report's evidence, and of the module that has its rubric."""
    await make_verified(FileStore(tmp_path / "report/inputs"), FileStore(tmp_path / "report/outputs"))
    # A name of its own: what is imported stays imported for the other tests of this process.
    (tmp_path / "module/verified_rubrics").mkdir(parents=True)
    (tmp_path / "module/verified_rubrics/among.py").write_text(RUBRIC)
    spec = {
        "rubric": "verified_rubrics.among.Among?labels=abc",
        "modules": ["m" * 32],
        "evaluation": "e" * 32,
        "dataset": "d" * 32,
        "inferenceService": "s" * 32,
        "storage": {
            "inputs": {
                "dataset": f"file://{tmp_path}/report/inputs",
                "evaluation": f"file://{tmp_path}/report/outputs",
                "m" * 32: f"file://{tmp_path}/module",
            },
            "output": f"file://{tmp_path}/output",
        },
    }
    await main(make_config("run_report", "Report", spec), Log("run_report", io.StringIO()))
    for name in ("report.html", "report.json", "scores.parquet", "attestation.json"):
        shutil.copy(tmp_path / "output" / name, tmp_path / "report" / name)
    return tmp_path


@pytest.fixture
async def audit(root: Path) -> Path:
    """Folder of the evidence of an audit with the report."""
    folder = root / "audit"
    identity = json.loads((root / "output/report.json").read_bytes())["names"]["report"]
    shutil.copytree(root / "report/inputs", folder / "datasets" / ("d" * 32))
    shutil.copytree(root / "report/outputs", folder / "evaluations" / ("e" * 32))
    (folder / "reports").mkdir()
    shutil.copytree(root / "output", folder / "reports" / identity)
    (root / "scratch").mkdir()
    subject = Subject("a" * 32, "examples", "c" * 32, "s" * 32)
    reports = {identity: FileStore(folder / "reports" / identity)}
    made = await make_audit(Request(subject, reports), root / "scratch")
    publication = make_publication(
        await claim(FileStore(folder), make_config("run_audit", "Audit", {}).epoch)
    )
    await publish_audit(made, "a" * 32, publication)
    return folder


def test_the_scores_of_a_modules_rubric_are_computed_again(root: Path) -> None:
    without = verify("report", root / "report")
    assert without.exit_code == 0, without.output
    assert "left out  scoring again: is not possible here: there is no rubric" in without.output
    assert "give the module with --module FOLDER" in without.output
    done = verify("report", root / "report", "--module", root / "module")
    assert done.exit_code == 0, done.output
    assert "80 rows (78 scored" in done.output
    assert ", 0 failed, " in done.output.splitlines()[-1]
    (root / "module/verified_rubrics/among.py").unlink()
    missing = verify("report", root / "report", "--module", root / "missing")
    assert isinstance(missing.exception, UsageError)
    assert "there is no such folder" in str(missing.exception)


def test_the_scores_of_a_modules_rubric_in_an_audit_are_computed_again(root: Path, audit: Path) -> None:
    without = verify("audit", audit)
    assert without.exit_code == 0, without.output
    assert "give the module with --module FOLDER" in without.output
    done = verify("audit", audit, "--module", root / "module")
    assert done.exit_code == 0, done.output
    assert "80 rows (78 scored" in done.output
    assert ", 0 failed, " in done.output.splitlines()[-1]
