"""The statement about a report: what it names, and when it warns."""

import hashlib
import json
from pathlib import Path
from typing import Any

from steelyard_evaluation.report.evidence.report_statement import EVERY_ANSWER, EVERY_ROW, report_statement
from steelyard_evaluation.report.evidence.test_verify import EXACT, make_folder


async def made(root: Path) -> Any:
    await make_folder(root, key=None)
    return json.loads((root / "attestation.json").read_bytes())


async def test_the_report_is_the_subject_by_digest(tmp_path: Path) -> None:
    subjects = {subject["name"]: subject["digest"]["sha256"] for subject in (await made(tmp_path))["subject"]}
    names = ["report.html", "report.json", "scores.parquet", "scores-exact-match.parquet"]
    assert list(subjects) == names
    for name in names:
        assert subjects[name] == hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()


async def test_what_it_was_made_from_is_the_configuration(tmp_path: Path) -> None:
    predicate = (await made(tmp_path))["predicate"]
    names = [entry["name"] for entry in predicate["configuration"]]
    assert names[0] == "What was asked: run.yaml"
    assert {"Dataset: part-0.parquet", "Record of the run: .steelyard/manifest.json"} <= set(names)
    assert names[-1] == f"scoring: {EXACT}, {EXACT}"
    assert (predicate["result"], predicate["warnedTests"]) == ("WARNED", [EVERY_ANSWER])


async def test_rows_that_are_not_there_fail(tmp_path: Path) -> None:
    await made(tmp_path)
    numbers = json.loads((tmp_path / "report.json").read_bytes())
    numbers["rows"] |= {"missing": 1, "errors": 0}
    predicate = json.loads(report_statement(b"page", json.dumps(numbers).encode()))["predicate"]
    assert (predicate["result"], predicate["failedTests"]) == ("FAILED", [EVERY_ROW])
    numbers["rows"]["missing"] = 0
    assert (
        json.loads(report_statement(b"page", json.dumps(numbers).encode()))["predicate"]["result"] == "PASSED"
    )
