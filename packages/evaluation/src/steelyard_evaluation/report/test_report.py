"""Reports of an output: every row is scored once, from verified files alone."""

import base64
import hashlib
import io
import json
import re
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import orjson
import pyarrow.parquet as pq
import pytest

from steelyard_evaluation.engine import layout
from steelyard_evaluation.report.errors import ReportFailed
from steelyard_evaluation.report.example import make_outputs, make_questions, make_verified
from steelyard_evaluation.report.report import Report, Request, make_report
from steelyard_evaluation.report.rubrics import NoSuchRubric
from steelyard_evaluation.storage.checked import add_digest
from steelyard_evaluation.storage.files import FileStore
from steelyard_evaluation.storage.store import ObjectMissing

NAMES = {
    "inferenceServiceName": "abc-system",
    "dataset": "d" * 32,
    "evaluation": "e" * 32,
    "account": "examples",
}


@dataclass(frozen=True)
class Adapter:
    kind: str
    configuration: dict[str, str]


@pytest.fixture
def dataset(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path / "dataset")


@pytest.fixture
def output(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path / "output")


def _scratch(path: Path, name: str = "scratch") -> Path:
    folder = path / name
    folder.mkdir()
    return folder


async def _report(tmp_path: Path, dataset: FileStore, output: FileStore, name: str = "scratch") -> Report:
    request = Request("classification.Classification", dataset, output, NAMES)
    return await make_report(request, _scratch(tmp_path, name))


async def test_scores_every_row_once(tmp_path: Path, dataset: FileStore, output: FileStore) -> None:
    await make_verified(dataset, output)
    report = await _report(tmp_path, dataset, output)
    scores = pq.read_table(report.scores)
    assert scores.column_names == [
        *("_index_", "_replication_", "score", "label", "prediction", "correct", "probability", "brier"),
        *("probabilities", "status"),
    ]
    assert scores.num_rows == 80
    by_index = {row["_index_"]: row for row in scores.drop_columns(["probabilities"]).to_pylist()}
    assert by_index[3] | {"_replication_": ""} == {
        "_index_": 3,
        "_replication_": "",
        "score": 0.0,
        "label": "a",
        "prediction": "b",
        "correct": False,
        "probability": 0.8,
        "brier": pytest.approx(0.01 + 0.81 + 0.64),
        "status": "scored",
    }
    assert by_index[9]["prediction"] is None
    numbers = json.loads(report.numbers)
    accuracy = numbers["metrics"][0]
    assert (accuracy["name"], accuracy["value"], accuracy["n"]) == ("accuracy", 66 / 80, 80)
    assert "cluster jackknife (40 clusters" in accuracy["method"]
    assert report.headline.startswith("Of 80 rows, 82.5 % were answered right")


async def test_the_same_inputs_are_the_same_bytes(
    tmp_path: Path, dataset: FileStore, output: FileStore
) -> None:
    await make_verified(dataset, output)
    once, again = [await _report(tmp_path, dataset, output, name) for name in ("one", "two")]
    assert (once.page, once.numbers) == (again.page, again.numbers)
    assert once.scores.read_bytes() == again.scores.read_bytes()


async def test_a_file_that_was_not_verified_is_refused(
    tmp_path: Path, dataset: FileStore, output: FileStore
) -> None:
    await make_verified(dataset, output)
    sink = io.BytesIO()
    pq.write_table(pq.read_table(output.root / "part-00000.parquet").slice(1), sink)
    await output.put("part-00000.parquet", sink.getvalue())
    with pytest.raises(
        ReportFailed, match=r"part-00000\.parquet is not the file that was verified"
    ) as failure:
        await _report(tmp_path, dataset, output)
    assert (failure.value.code, failure.value.permanent) == ("DigestMismatch", True)


async def test_a_changed_dataset_is_refused(tmp_path: Path, dataset: FileStore, output: FileStore) -> None:
    await make_verified(dataset, output)
    await dataset.put("part-0.parquet", b"other")
    with pytest.raises(ReportFailed, match="SHA-256"):
        await _report(tmp_path, dataset, output)


async def test_files_next_to_the_manifest_are_not_read(
    tmp_path: Path, dataset: FileStore, output: FileStore
) -> None:
    await make_verified(dataset, output)
    await output.put("part-99999.parquet", b"stray")
    assert pq.read_table((await _report(tmp_path, dataset, output)).scores).num_rows == 80


async def test_an_answer_without_a_question_is_named(
    tmp_path: Path, dataset: FileStore, output: FileStore
) -> None:
    questions = make_questions()
    await make_verified(
        dataset, output, questions=questions[:-1], outputs=make_outputs(questions, ["a" * 32])
    )
    with pytest.raises(ReportFailed, match="no row 39") as failure:
        await _report(tmp_path, dataset, output)
    assert (failure.value.code, failure.value.row) == ("NoSuchRow", "39")


async def test_a_dataset_without_labels_names_the_column(
    tmp_path: Path, dataset: FileStore, output: FileStore
) -> None:
    questions = make_questions()
    for question in questions:
        question["truth"] = question.pop("label")
    outputs = make_outputs(make_questions(), ["a" * 32])
    await make_verified(dataset, output, questions=questions, outputs=outputs)
    with pytest.raises(ReportFailed, match="no column 'label'; it has text, image, truth"):
        await _report(tmp_path, dataset, output)
    view = [Adapter("Rename", {"truth": "label"})]
    request = Request("classification", dataset, output, NAMES, dataset_view=view)
    assert (
        json.loads((await make_report(request, _scratch(tmp_path, "view"))).numbers)["metrics"][0]["n"] == 40
    )


@pytest.mark.parametrize(
    ("adapter", "fault"),
    [
        (Adapter("Select", {"fields": ["responses"]}), "drops _index_, _replication_"),  # type: ignore[dict-item]
        (Adapter("Rename", {"nothing": "x"}), "the view fails: there is no field 'nothing'"),
        (Adapter("Nothing", {}), "there is no adapter 'Nothing'"),
    ],
)
async def test_a_view_that_does_not_fit_is_refused(
    tmp_path: Path, dataset: FileStore, output: FileStore, adapter: Adapter, fault: str
) -> None:
    await make_verified(dataset, output)
    request = Request("classification", dataset, output, NAMES, evaluation_view=[adapter])
    with pytest.raises(ReportFailed, match=fault) as failure:
        await make_report(request, _scratch(tmp_path))
    assert failure.value.code == "BadView"


async def test_names_come_from_the_record_of_the_run(
    tmp_path: Path, dataset: FileStore, output: FileStore
) -> None:
    await make_verified(dataset, output)
    service = {"id": "s" * 32, "name": "digits", "model": {"id": "m" * 32, "name": "regression"}}
    run = {"created": "2026-01-02T03:04:05+00:00", "identity": {"inferenceService": service}}
    await output.put(layout.RUN, orjson.dumps(add_digest(run)))
    request = Request("classification", dataset, output, {"inferenceService": "s" * 32})
    page = (await make_report(request, _scratch(tmp_path))).page.decode()
    assert "<dt>System</dt><dd>digits</dd>" in page
    assert "<dt>Model</dt><dd>regression</dd>" in page
    assert "2 January 2026, 03:04 UTC" in page


async def test_model_and_scores_are_named_by_their_digests(
    tmp_path: Path, dataset: FileStore, output: FileStore
) -> None:
    await make_verified(dataset, output)
    model = {"path": "model.onnx", "size": 7, "sha256": "7" * 64}
    volume = {"name": "model", "source": {"id": "m" * 32, "kind": "Model"}, "files": [model]}
    unknown = {"name": "more", "source": {"id": "n" * 32, "kind": "Model"}}
    await output.put(layout.RUN, orjson.dumps(add_digest({"identity": {"volumes": [volume, unknown]}})))
    report = await _report(tmp_path, dataset, output)
    evidence = {entry["what"]: entry for entry in json.loads(report.numbers)["evidence"]}
    assert evidence["Model"] == {"what": "Model", **model}
    assert evidence["Scores"]["sha256"] == hashlib.sha256(report.scores.read_bytes()).hexdigest()
    assert b"7777777777" in report.page
    assert b"identity.volumes" not in report.page


async def test_an_unknown_rubric_costs_nothing(tmp_path: Path, dataset: FileStore, output: FileStore) -> None:
    with pytest.raises(NoSuchRubric):
        await make_report(Request("no.Such", dataset, output), tmp_path)


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


async def test_the_calibration_error_is_among_the_first_figures(
    tmp_path: Path, dataset: FileStore, output: FileStore
) -> None:
    await make_verified(dataset, output)
    page = (await _report(tmp_path, dataset, output)).page.decode()
    tiles = re.findall(r'<div class="tile[^"]*"><span class="name">([^<]*)<', page)
    assert {"Accuracy", "RMS calibration error", "Brier score"} <= set(tiles)


async def test_the_page_stands_alone(tmp_path: Path, dataset: FileStore, output: FileStore) -> None:
    await make_verified(dataset, output)
    page = (await _report(tmp_path, dataset, output)).page.decode()
    parser = _Tags()
    parser.feed(page)
    names = [name for name, _ in parser.tags]
    assert '<html lang="en">' in page
    assert names.count("h1") == 1
    code = re.findall(r"<script>(.*?)</script>", page, re.S)
    allowed = base64.b64encode(hashlib.sha256("".join(code).encode()).digest()).decode()
    assert len(code) == 1
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{allowed}'" in page
    assert [a for tag, a in parser.tags if tag == "script"] == [
        {"type": "application/json", "id": "rows-data"},
        {"type": "application/json", "id": "report"},
        {},
    ]
    addresses = [a.get(key) for _, a in parser.tags for key in ("href", "src") if a.get(key)]
    assert addresses
    assert all(str(address).startswith("#") for address in addresses)
    assert not re.search(r"url\(|@import|https?://", page)
    assert not [name for name in names if name in {"link", "img", "iframe", "object"}]
    identities = [a["id"] for _, a in parser.tags if "id" in a]
    assert len(identities) == len(set(identities))
    for tag, attributes in parser.tags:
        if tag == "svg" and attributes.get("aria-hidden") != "true":
            assert attributes["role"] == "img"
            assert attributes.get("aria-label") or attributes.get("aria-labelledby")
        if tag == "th":
            assert attributes.get("scope") in {"row", "col"}
    assert "21 November 2026, 06:15 UTC" in page
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page


async def test_the_page_holds_the_same_numbers(tmp_path: Path, dataset: FileStore, output: FileStore) -> None:
    manifest = await make_verified(dataset, output)
    report = await _report(tmp_path, dataset, output)
    inside = re.search(rb'<script type="application/json" id="report">(.*?)</script>', report.page, re.S)
    assert inside is not None
    assert json.loads(inside[1]) == json.loads(report.numbers)
    for entry in (*manifest.inputs, *manifest.files):
        assert entry.sha256.encode() in report.page


async def test_what_data_say_stays_text(tmp_path: Path, dataset: FileStore, output: FileStore) -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
    questions = make_questions()
    for question in questions:
        question["text"] = evil
    outputs = make_outputs(questions, ["a" * 32])
    outputs[0]["responses"][0]["label"] = evil
    await make_verified(dataset, output, questions=questions, outputs=outputs)
    page = (await _report(tmp_path, dataset, output)).page.decode()
    assert "alert(1)" in page
    assert "<script>alert" not in page
    assert "<img" not in page
    assert page.count("</script>") == 3


async def test_nothing_wrong_is_said_so(tmp_path: Path, dataset: FileStore, output: FileStore) -> None:
    questions = make_questions(6)
    outputs = make_outputs(make_questions(3), ["a" * 32])
    await make_verified(dataset, output, questions=questions, outputs=outputs)
    assert b"None of the 3 questions got a wrong answer." in (await _report(tmp_path, dataset, output)).page


async def test_without_a_manifest_there_is_no_report(
    tmp_path: Path, dataset: FileStore, output: FileStore
) -> None:
    await make_verified(dataset, output)
    await output.delete(layout.MANIFEST)
    with pytest.raises(ObjectMissing, match="manifest"):
        await _report(tmp_path, dataset, output)


async def test_dropped_rows_and_an_edited_manifest_make_no_report(
    tmp_path: Path, dataset: FileStore, output: FileStore
) -> None:
    manifest = await make_verified(dataset, output)
    whole = manifest.rows.total
    kept = manifest.files[:1]
    rows = manifest.rows.model_copy(update={"total": kept[0].rows, "present": kept[0].rows})
    edited = manifest.model_copy(update={"files": kept, "rows": rows})
    await output.put(layout.MANIFEST, edited.model_dump_json().encode())
    with pytest.raises(ReportFailed, match=f"which is {whole} rows in all; the manifest says") as failure:
        await _report(tmp_path, dataset, output)
    assert failure.value.code == "OutputInvalid"
