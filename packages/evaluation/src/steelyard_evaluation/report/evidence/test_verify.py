"""Verification of a report: every change of any of its files is found."""

import json
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from steelyard_evaluation.engine import layout
from steelyard_evaluation.engine.parts import ERROR_SCHEMA, parquet
from steelyard_evaluation.report.evidence.lone_page import check_scripts, check_shown
from steelyard_evaluation.report.evidence.recomputation import table_difference
from steelyard_evaluation.report.evidence.verify import (
    Check,
    NotAReport,
    ReportFolders,
    find_report_folder,
    verify_report,
)
from steelyard_evaluation.report.evidence.verify_audit import NotAnAudit, find_audit_folder
from steelyard_evaluation.report.example import make_outputs, make_questions, make_verified
from steelyard_evaluation.report.page.page import numbers_inside
from steelyard_evaluation.report.publish import publish
from steelyard_evaluation.report.report import Request, make_report
from steelyard_evaluation.storage.files import FileStore

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
EXACT = "exact-match?target=label&field=label"
RECORD = {
    "_index_": 9,
    "_replication_": "a" * 32,
    "reason": "BadRequest",
    "message": "refused",
    "status": 400,
    "body": '{"error": "too long"}',
    "attempts": 1,
    "replica": "http://x",
}


def table(records: list[dict[str, Any]]) -> bytes:
    return parquet(pa.Table.from_pylist(records, schema=ERROR_SCHEMA))


@pytest.mark.parametrize(("share", "different"), [(0.5, False), (0.25, True)])
def test_the_probabilities_of_an_earlier_version_are_compared(share: float, *, different: bool) -> None:
    """A column of maps then, of lists of pairs now."""
    kind: Any = pa.map_(pa.string(), pa.float64())
    index = pa.array([0, 1])
    before = pa.table({"_index_": index, "probabilities": pa.array([[("a", 0.5)], None], kind)})
    now = pa.table({"_index_": index, "probabilities": [[{"key": "a", "value": share}], None]})
    assert bool(table_difference(before, now)) is different


async def make_folder(
    root: Path, key: Ed25519PrivateKey | None = KEY, more: tuple[str, ...] = (EXACT,)
) -> ReportFolders:
    """A run's folder: 12 questions, asked twice; the 10th was refused once."""
    folders = ReportFolders(root, root / "inputs", root / "outputs", root / "outputs")
    inputs, outputs = FileStore(folders.dataset), FileStore(folders.evaluation)
    questions = make_questions(12)
    for question in questions:
        del question["image"]
    await make_verified(
        inputs, outputs, questions=questions, outputs=make_outputs(questions, ["a" * 32, "b" * 32])
    )
    await outputs.put(f"{layout.ERRORS}errors-0000-e-000000.parquet", table([RECORD]))
    request = Request(EXACT, inputs, outputs, {"dataset": "some"}, more=more, records={"run.yaml": b"a: 1\n"})
    (root / "run.yaml").write_bytes(b"a: 1\n")
    (root / "scratch").mkdir()
    await publish(await make_report(request, root / "scratch"), FileStore(root), key)
    return folders


def files_of(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file() and "scratch" not in path.parts)


async def faults(folders: ReportFolders, key: Ed25519PrivateKey | None = KEY) -> list[str]:
    return [check.what for check in await checks(folders, key) if check.state == "fault"]


async def checks(folders: ReportFolders, key: Ed25519PrivateKey | None = KEY) -> list[Check]:
    return [check async for check in verify_report(folders, None if key is None else key.public_key())]


async def test_an_untouched_report_has_no_fault(tmp_path: Path) -> None:
    folders = await make_folder(tmp_path)
    results = await checks(folders)
    assert {check.state for check in results} == {"fine"}
    said = "\n".join(check.what for check in results)
    for name in (
        "run.yaml",
        "part-0.parquet",
        "part-00001.parquet",
        "manifest.json",
        "run.json",
        "errors-0000",
    ):
        assert name in said
    assert (
        "24 rows (22 scored, 2 failed, 0 left out) scored again have the scores of scores-exact-match" in said
    )
    assert "is signed by the key" in said


async def test_a_changed_byte_of_any_file_is_found(tmp_path: Path) -> None:
    folders = await make_folder(tmp_path, more=())
    files = files_of(tmp_path)
    assert len(files) == 11
    chance = random.Random(5)
    for path in files:
        before = path.read_bytes()
        changed = bytearray(before)
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        path.write_bytes(changed)
        assert await faults(folders), path
        path.write_bytes(before)
    assert not await faults(folders)


@pytest.mark.soak
async def test_two_thousand_changed_bytes_are_found(tmp_path: Path) -> None:
    folders = await make_folder(tmp_path)
    files = files_of(tmp_path)
    chance = random.Random(6)
    for _ in range(2000):
        path = chance.choice(files)
        before = path.read_bytes()
        changed = bytearray(before)
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        path.write_bytes(changed)
        assert await faults(folders), path
        path.write_bytes(before)


@pytest.mark.parametrize(
    "name",
    [
        "scores.parquet",
        "inputs/part-0.parquet",
        "outputs/.steelyard/run.json",
        "report.json",
        "run.yaml",
        "attestation.json",
    ],
)
async def test_a_missing_file_is_a_fault(tmp_path: Path, name: str) -> None:
    folders = await make_folder(tmp_path, more=())
    (tmp_path / name).unlink()
    assert any(Path(name).name in fault for fault in await faults(folders))


async def test_a_prettier_number_is_found_everywhere(tmp_path: Path) -> None:
    """Page and report.json changed alike, and the statement made again: only scoring again shows it."""
    folders = await make_folder(tmp_path, key=None)
    numbers = json.loads((tmp_path / "report.json").read_bytes())
    value = numbers["metrics"][0]["value"]
    for name in ("report.json", "report.html"):
        path = tmp_path / name
        path.write_text(path.read_text().replace(str(value), "0.99"))
    said = await faults(folders, None)
    assert any(
        line.startswith("report.json, metrics[0].value: says 0.99, computed again 0.") for line in said
    )


@pytest.mark.parametrize("name", ["report.html", "report.json", "scores.parquet"])
async def test_a_changed_page_is_found_without_its_attestation(tmp_path: Path, name: str) -> None:
    folders = await make_folder(tmp_path, key=None)
    (tmp_path / "attestation.json").unlink()
    assert not await faults(folders, None)
    data = bytearray((tmp_path / name).read_bytes())
    place = data.find(b"Evaluation report") if name == "report.html" else len(data) // 2
    data[place] ^= 1
    (tmp_path / name).write_bytes(data)
    assert await faults(folders, None)


REPLACEMENTS: tuple[Any, ...] = (None, 5, "x", [], {}, [5], ["x"])


def edited(value: Any, inside: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The places in a document, two of each list."""
    inner = (
        value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    )
    for name, part in inner:
        yield (*inside, name)
        yield from edited(part, (*inside, name))


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.soak)], ids=["one in four", "all"])
async def test_a_report_that_was_edited_to_anything_has_a_fault_and_ends_no_check(
    tmp_path: Path, step: int
) -> None:
    """Every place is edited; `step` leaves out replacements, other ones at the next place."""
    folders = await make_folder(tmp_path)
    shutil.rmtree(folders.dataset)
    document = json.loads((tmp_path / "report.json").read_text())
    parts = ("scoring", "evidence", "datasetView", "more", "rows", "counts", "metrics")
    for number, place in enumerate([place for place in edited(document) if place[0] in parts]):
        parent = document
        for name in place[:-1]:
            parent = parent[name]
        before = parent[place[-1]]
        for new in REPLACEMENTS[number % step :: step]:
            if before == new:
                continue
            parent[place[-1]] = new
            (tmp_path / "report.json").write_text(json.dumps(document))
            assert await faults(folders), (place, new)
        parent[place[-1]] = before


async def test_what_cannot_be_checked_is_said(tmp_path: Path) -> None:
    folders = await make_folder(tmp_path)
    first, *rest = await checks(folders, None)
    assert first.state == "unchecked"
    assert first.what.startswith(
        "the signature by the key 63d00ee3cf4f… is not checked: give the public key with --key FILE"
    ), first.what
    assert {check.state for check in rest} == {"fine"}
    other = Ed25519PrivateKey.from_private_bytes(bytes(32))
    assert await faults(folders, other) == ["attestation.json: is not signed by this key"]


async def test_scores_of_an_earlier_report_are_removed(tmp_path: Path) -> None:
    folders = await make_folder(tmp_path)
    (tmp_path / "again").mkdir()
    request = Request(EXACT, FileStore(folders.dataset), FileStore(folders.evaluation), {})
    await publish(await make_report(request, tmp_path / "again"), FileStore(tmp_path))
    assert not (tmp_path / "scores-exact-match.parquet").exists()
    assert not await faults(folders, None)


@pytest.mark.parametrize(
    "element", [b"<script>", b"<title>", b'<script type="application/json" id="report">']
)
def test_elements_without_an_end_are_read_once(element: bytes) -> None:
    page = element * 30_000
    began = time.process_time()
    checks = [*check_scripts(page), *check_shown(page, {"headline": "90 %"}, [])]
    assert numbers_inside(page) is None
    assert any(check.state == "fault" for check in checks)
    assert time.process_time() - began < 5


def test_other_files_are_no_reports(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").touch()
    with pytest.raises(NotAReport, match=r"should be a report\.html or a report\.json"):
        find_report_folder(tmp_path / "run.yaml")
    for name in ("report.html", "run"):
        with pytest.raises(NotAReport, match="no such file"):
            find_report_folder(tmp_path / name)
        with pytest.raises(NotAnAudit, match="no such file"):
            find_audit_folder(tmp_path / name)
