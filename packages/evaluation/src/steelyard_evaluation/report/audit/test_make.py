"""An audit from reports in storage: its page, its numbers, what it refuses."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from steelyard_evaluation.report.audit.example import DATASET, SERVICE, make_stored_report
from steelyard_evaluation.report.audit.make import Audit, Request, make_audit
from steelyard_evaluation.report.audit.subject import Subject
from steelyard_evaluation.report.errors import ReportFailed
from steelyard_evaluation.report.example import make_questions
from steelyard_evaluation.report.layout import SCORES
from steelyard_evaluation.storage.digest import file_sha256
from steelyard_evaluation.storage.files import FileStore
from steelyard_evaluation.storage.store import ObjectMissing

BEFORE, NOW = "b" * 31 + "1", "b" * 31 + "2"


def subject(identity: str = "a" * 32) -> Subject:
    return Subject(identity, "examples", "c" * 32, SERVICE)


async def audit(
    root: Path,
    *reports: FileStore,
    baseline: FileStore | None = None,
    identity: str = "a" * 32,
    name: str = "scratch",
) -> Audit:
    folder = root / name
    folder.mkdir()
    by_id = {report.root.parent.name: report for report in reports}
    return await make_audit(Request(subject(identity), by_id, baseline), folder)


async def stored(root: Path, made: Audit) -> FileStore:
    """Return an audit as `run_audit` stores it."""
    store = FileStore(root / "earlier")
    await store.put("index.html", made.page)
    await store.put("audit.json", made.numbers)
    for place, path in made.scores.items():
        await store.put_file(place, path)
    return store


async def earlier(root: Path, **changes: Any) -> FileStore:
    """The output of an audit of a system that got six questions of 40 wrong."""
    given = {"wrong": (1, 2, 3, 4, 5, 6), "system": "old", "model": "8", **changes}
    report = await make_stored_report(root, BEFORE, **given)
    return await stored(root, await audit(root, report, identity="e" * 32, name="before"))


def numbers(made: Audit) -> Any:
    return json.loads(made.numbers)


@pytest.mark.parametrize(("before", "now"), [(True, False), (False, True)])
async def test_a_report_without_a_number_is_not_compared(tmp_path: Path, before: bool, now: bool) -> None:
    report = await make_stored_report(tmp_path, NOW, wrong=(3,) if now else None)
    baseline = await earlier(tmp_path, wrong=(3,) if before else None)
    made = await audit(tmp_path, report, baseline=baseline)
    lacking = "the earlier report" if now else "this report"
    assert f"because {lacking} has no number" in made.page.decode()
    assert now or made.headline == "abc has no Accuracy."


async def test_the_first_view_says_how_it_did(tmp_path: Path) -> None:
    made = await audit(tmp_path, await make_stored_report(tmp_path, NOW, wrong=(3,)))
    page = made.page.decode()
    assert made.headline == "abc answers 39 of 40 questions right."
    assert "40 questions, each asked 2 times" in page
    assert "95 % interval: 86." in page
    assert "nothing: no earlier audit was named" in page
    assert "it passes no judgement" in page
    audited = numbers(made)
    (requirement,) = audited["requirements"]
    result = requirement["result"]
    assert (result["estimate"]["value"], result["estimate"]["n"], result["rightOrWrong"]) == (0.975, 80, True)
    assert requirement["counts"] == {"scored": 80, "failed": 0, "leftOut": 0}
    assert requirement["comparison"] is audited["baseline"] is None
    assert requirement["dataset"] == DATASET


async def test_it_is_held_against_the_earlier_audit_question_by_question(tmp_path: Path) -> None:
    baseline = await earlier(tmp_path)
    made = await audit(tmp_path, await make_stored_report(tmp_path, NOW, wrong=(6, 7)), baseline=baseline)
    comparison = numbers(made)["requirements"][0]["comparison"]
    assert comparison["counts"] == {"bothRight": 33, "onlyBaseline": 1, "onlySystem": 5, "bothWrong": 1}
    assert comparison["difference"]["value"] == pytest.approx(4 / 40)
    assert comparison["p"] == pytest.approx(14 / 64)
    assert [row["index"] for row in comparison["changes"]["worse"]["shown"]] == [7]
    assert comparison["changes"]["better"]["shown"][0] == {
        "index": 1,
        "label": "b",
        "before": "c",
        "now": "b",
    }
    page = made.page.decode()
    assert "than old, which answers 34 of 40 right" in page
    assert "This could be chance" in page
    assert "Right more often now: 5 questions" in page


@pytest.mark.parametrize(
    ("changes", "because"),
    [
        ({"questions": make_questions(30)}, "the two were asked different data"),
        (
            {"rubric": "classification.Classification?bins=5"},
            "made by the rubric classification.Classification?bins=5",
        ),
    ],
    ids=["other data", "another rubric"],
)
async def test_what_cannot_be_compared_has_a_word_and_no_number(
    tmp_path: Path, changes: dict[str, Any], because: str
) -> None:
    baseline = await earlier(tmp_path, **changes)
    made = await audit(tmp_path, await make_stored_report(tmp_path, NOW), baseline=baseline)
    comparison = numbers(made)["requirements"][0]["comparison"]
    assert set(comparison) == {"comparable", "because"}
    assert because in comparison["because"]
    page = made.page.decode()
    assert "Not comparable with old, because" in page
    assert "p = " not in page
    assert "How chance was judged" not in page


async def test_each_report_meets_the_one_of_the_same_data(tmp_path: Path) -> None:
    other = make_questions(12)
    reports = [
        await make_stored_report(tmp_path, f"{k}" * 32, questions=questions, dataset=f"{k}" * 32)
        for k, questions in ((1, None), (2, other))
    ]
    before = [
        await make_stored_report(tmp_path, f"{k}" * 32, questions=questions, wrong=(0,), dataset=f"{k}" * 32)
        for k, questions in ((8, other), (9, None))
    ]
    baseline = await stored(tmp_path, await audit(tmp_path, *before, identity="e" * 32, name="before"))
    made = await audit(tmp_path, *reports, baseline=baseline)
    assert [requirement["comparison"]["questions"] for requirement in numbers(made)["requirements"]] == [
        40,
        12,
    ]
    assert "Of 2 comparisons, one may look like more than chance" in made.page.decode()


async def test_a_report_that_the_earlier_audit_lacks_is_said(tmp_path: Path) -> None:
    baseline = await earlier(tmp_path)
    one = await make_stored_report(tmp_path, NOW)
    two = await make_stored_report(tmp_path, "2" * 32, questions=make_questions(9), dataset="f" * 32)
    requirements = numbers(await audit(tmp_path, one, two, baseline=baseline))["requirements"]
    assert [requirement["comparison"]["comparable"] for requirement in requirements] == [True, False]
    assert "no report that corresponds" in requirements[1]["comparison"]["because"]


async def test_the_same_reports_are_the_same_bytes(tmp_path: Path) -> None:
    baseline = await earlier(tmp_path)
    one, two = [await make_stored_report(tmp_path, k * 32, dataset=k * 32, wrong=(1,)) for k in "12"]
    first = await audit(tmp_path, one, two, baseline=baseline, name="first")
    again = await audit(tmp_path, two, one, baseline=baseline, name="again")
    assert (first.page, first.numbers) == (again.page, again.numbers)
    for place, path in first.scores.items():
        assert path.read_bytes() == again.scores[place].read_bytes()


async def test_scores_are_kept_for_a_later_audit(tmp_path: Path) -> None:
    made = await audit(tmp_path, await make_stored_report(tmp_path, NOW))
    (path,) = made.scores.values()
    assert list(made.scores) == [f"scores/{NOW}.parquet"]
    table = pq.read_table(path)
    assert table.column_names == [
        *("_index_", "_replication_", "label", "prediction", "correct", "score", "status")
    ]
    assert table.num_rows == 80


async def test_a_share_is_said_of_the_questions_that_were_graded(tmp_path: Path) -> None:
    """Two of 40 questions were left out: 37 of the other 38 were right, not 39 of 40."""
    report = await make_stored_report(tmp_path, NOW, wrong=(3,))
    table = pq.read_table(report.root / SCORES)
    kept = pc.invert(pc.is_in(table["_index_"], value_set=pa.array([5, 6])))
    columns = {
        "status": pc.if_else(kept, table["status"], "left out"),
        "score": pc.if_else(kept, table["score"], None),
        "correct": pc.if_else(kept, table["correct"], None),
    }
    for name, column in columns.items():
        table = table.set_column(table.schema.get_field_index(name), name, column)
    pq.write_table(table, report.root / SCORES)
    numbers = json.loads((report.root / "report.json").read_bytes())
    numbers["metrics"][0] |= {"value": 37 / 38, "n": 76}
    numbers["evidence"] = [
        entry | {"sha256": file_sha256(report.root / SCORES)} if entry["what"] == "Scores" else entry
        for entry in numbers["evidence"]
    ]
    (report.root / "report.json").write_text(json.dumps(numbers))
    made = await audit(tmp_path, report)
    assert made.headline == "abc answers 37 of 38 questions right."
    assert "40 questions, each asked 2 times (76 scored, 0 failed, 4 left out)." in made.page.decode()


CHRF = "overlap.ChrF?target=label&field=label"


async def test_an_audit_says_the_number_that_its_report_says(tmp_path: Path) -> None:
    """An audit counted every sentence as right that shares something with its target, whatever the chrF."""
    report = await make_stored_report(tmp_path, NOW, rubric=CHRF, wrong=(3, 4))
    lead = json.loads(await report.get("report.json"))["metrics"][0]
    made = await audit(tmp_path, report)
    assert made.headline == f"abc scores {lead['value']:.1f} on a scale from 0 to 100 (chrF2)."
    (requirement,) = numbers(made)["requirements"]
    assert not requirement["result"]["rightOrWrong"]
    assert requirement["result"]["estimate"]["value"] == lead["value"] == pytest.approx(95)
    page = made.page.decode()
    assert "questions right" not in page
    assert f"95 % interval: {lead['low']:.1f} to {lead['high']:.1f}" in page


async def test_scores_on_a_scale_are_compared_on_it(tmp_path: Path) -> None:
    baseline = await earlier(tmp_path, rubric=CHRF)
    report = await make_stored_report(tmp_path, NOW, rubric=CHRF, wrong=(1,))
    made = await audit(tmp_path, report, baseline=baseline)
    comparison = numbers(made)["requirements"][0]["comparison"]
    assert comparison["difference"]["value"] == pytest.approx(100 * 5 / 40)
    page = made.page.decode()
    assert "it scores 12.5 more on average" in page
    assert "than old, whose questions score 85.0." in page
    assert "Higher score now: 5 questions" in page
    assert "Right more often" not in page


async def test_an_earlier_audit_without_scores_is_not_compared_on_a_scale(tmp_path: Path) -> None:
    baseline = await earlier(tmp_path, rubric=CHRF)
    path = baseline.root / f"scores/{BEFORE}.parquet"
    before = file_sha256(path)
    old = ["_index_", "_replication_", "label", "prediction", "correct"]
    pq.write_table(pq.read_table(path, columns=old), path)
    audited = (baseline.root / "audit.json").read_text()
    (baseline.root / "audit.json").write_text(audited.replace(before, file_sha256(path)))
    report = await make_stored_report(tmp_path, NOW, rubric=CHRF, wrong=(1,))
    made = await audit(tmp_path, report, baseline=baseline)
    assert "kept no scores" in numbers(made)["requirements"][0]["comparison"]["because"]


async def test_rows_that_hang_together_widen_the_intervals_of_an_audit(tmp_path: Path) -> None:
    questions = [{**question, "document": f"d{question['_index_'] // 10}"} for question in make_questions(40)]
    given: dict[str, Any] = {"questions": questions, "wrong": range(20, 26)}
    baseline = await earlier(tmp_path, clusters="document", questions=questions)
    apart = await audit(tmp_path, await make_stored_report(tmp_path, "1" * 32, **given), name="apart")
    report = await make_stored_report(tmp_path, NOW, clusters="document", **given)
    made = await audit(tmp_path, report, baseline=baseline)
    one, clustered = (numbers(page)["requirements"][0]["result"]["estimate"] for page in (apart, made))
    assert one["value"] == clustered["value"]
    assert clustered["low"] < one["low"]
    assert "cluster jackknife (4 clusters" in clustered["method"]
    assert "4 clusters" in numbers(made)["requirements"][0]["comparison"]["difference"]["method"]


async def test_digests_of_data_model_and_outputs_stand_on_the_page(tmp_path: Path) -> None:
    report = await make_stored_report(tmp_path, NOW)
    made = await audit(tmp_path, report, baseline=await earlier(tmp_path))
    (requirement,) = numbers(made)["requirements"]
    kinds = [entry["what"] for entry in requirement["evidence"]]
    expected = ["Dataset", "Model", "Outputs", "Outputs", "Record of the run", "Record of the run"]
    assert kinds == [*expected, "Report", "Report", "Scores", "Scores kept"]
    page = made.page.decode()
    for entry in requirement["evidence"]:
        assert entry["sha256"] in page
    assert numbers(made)["system"]["modelFiles"] == ["7" * 64]
    assert numbers(made)["baseline"]["system"]["modelFiles"] == ["8" * 64]


@pytest.mark.parametrize(
    ("models", "words"),
    [
        (("7", "9"), "not all answered by the same model files"),
        (("", ""), "No digest of the model&#39;s files was recorded"),
        (("8", "8"), "Both audits are of the same model files"),
    ],
)
async def test_which_model_answered_is_doubted_aloud(
    tmp_path: Path, models: tuple[str, str], words: str
) -> None:
    reports = [
        await make_stored_report(tmp_path, f"{k}" * 32, model=model) for k, model in enumerate(models, 1)
    ]
    assert words in (await audit(tmp_path, *reports, baseline=await earlier(tmp_path))).page.decode()


async def _damaged(store: FileStore, key: str, data: bytes) -> FileStore:
    await store.put(key, data)
    return store


@pytest.mark.parametrize(
    ("key", "data", "code", "fault"),
    [
        (
            "scores.parquet",
            b"other",
            "DigestMismatch",
            "scores.parquet is not the file that report.json names",
        ),
        ("report.json", b"[]", "BadReport", r"report\.json cannot be used"),
        ("report.json", b'{"schemaVersion": "9"}', "BadReport", "schemaVersion"),
    ],
)
async def test_a_damaged_report_is_refused(
    tmp_path: Path, key: str, data: bytes, code: str, fault: str
) -> None:
    report = await _damaged(await make_stored_report(tmp_path, NOW), key, data)
    with pytest.raises(ReportFailed, match=fault) as failure:
        await audit(tmp_path, report)
    assert (failure.value.code, failure.value.permanent) == (code, True)


async def test_a_report_without_a_digest_of_its_scores_is_refused(tmp_path: Path) -> None:
    report = await make_stored_report(tmp_path, NOW)
    content = json.loads(await report.get("report.json"))
    content["evidence"] = [entry for entry in content["evidence"] if entry["what"] != "Scores"]
    await report.put("report.json", json.dumps(content).encode())
    with pytest.raises(ReportFailed, match="make the report again"):
        await audit(tmp_path, report)


async def test_another_systems_report_is_refused(tmp_path: Path) -> None:
    report = await make_stored_report(tmp_path, NOW, inferenceService="6" * 32)
    with pytest.raises(ReportFailed, match="about the inference service 666") as failure:
        await audit(tmp_path, report)
    assert failure.value.code == "WrongSystem"


async def test_a_report_in_anothers_place_is_refused(tmp_path: Path) -> None:
    report = await make_stored_report(tmp_path, NOW, report="f" * 32)
    with pytest.raises(ReportFailed, match=f"holds the report {'f' * 32}, not {NOW}"):
        await audit(tmp_path, report)


async def test_a_damaged_baseline_is_refused(tmp_path: Path) -> None:
    report, baseline = await make_stored_report(tmp_path, NOW), await earlier(tmp_path)
    await baseline.put(f"scores/{BEFORE}.parquet", b"other")
    with pytest.raises(ReportFailed, match=r"is not the file that audit\.json names"):
        await audit(tmp_path, report, baseline=baseline)


async def test_an_audit_is_not_its_own_baseline(tmp_path: Path) -> None:
    baseline = await earlier(tmp_path)
    with pytest.raises(ReportFailed, match="its own baseline"):
        await audit(tmp_path, await make_stored_report(tmp_path, NOW), baseline=baseline, identity="e" * 32)


async def test_what_is_not_there_yet_is_another_matter(tmp_path: Path) -> None:
    with pytest.raises(ObjectMissing):
        await audit(tmp_path, FileStore(tmp_path / NOW / "report"))
    with pytest.raises(ReportFailed, match="no report"):
        await audit(tmp_path, name="empty")


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


async def test_the_page_stands_alone(tmp_path: Path) -> None:
    reports = [await make_stored_report(tmp_path, k * 32, dataset=k * 32) for k in "12"]
    made = await audit(tmp_path, *reports, baseline=await earlier(tmp_path))
    page, parser = made.page.decode(), _Tags()
    parser.feed(page)
    identities = [a["id"] for _, a in parser.tags if "id" in a]
    assert len(identities) == len(set(identities))
    addresses = [str(a.get(key)) for _, a in parser.tags for key in ("href", "src") if a.get(key)]
    anchors = {address[1:] for address in addresses if address.startswith("#")}
    assert anchors <= set(identities)
    assert {address for address in addresses if not address.startswith("#")} == set(made.report_pages)
    assert not re.search(r"url\(|@import|https?://", page)
    assert str(tmp_path) not in page
    inside = re.search(r'<script type="application/json" id="audit">(.*?)</script>', page, re.S)
    assert inside is not None
    assert json.loads(inside[1]) == numbers(made)


async def test_what_data_say_stays_text(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script>"
    questions = make_questions()
    baseline = await earlier(tmp_path, system=evil)
    report = await make_stored_report(tmp_path, NOW, questions=questions, system=evil)
    page = (await audit(tmp_path, report, baseline=baseline)).page.decode()
    assert "alert(1)" in page
    assert "<script>alert" not in page
