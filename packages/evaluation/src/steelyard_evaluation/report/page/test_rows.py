"""Rows of the report's page: which are shown, and how their values are."""

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from steelyard_evaluation.report.evidence.test_verify import EXACT, make_folder
from steelyard_evaluation.report.page import row_pages
from steelyard_evaluation.report.page.page import numbers_inside
from steelyard_evaluation.report.page.row_columns import RowColumns, make_columns
from steelyard_evaluation.report.page.rows import MOST_BYTES, MOST_TEXT, choice_sentence, choose, readable
from steelyard_evaluation.report.report import Report, Request, make_report, score_files
from steelyard_evaluation.storage.files import FileStore


def make_rows(texts: list[str]) -> RowColumns:
    count = len(texts)
    keys = {"_index_": list(range(count)), "_replication_": ["a"] * count}
    answer = [[{"_response_index_": 0, "text": "a"}]] * count
    scores = {
        "correct": [True] * count,
        "score": [1.0] * count,
        "prediction": ["a"] * count,
        "label": ["a"] * count,
    }
    return make_columns(
        pa.table({**keys, "responses": answer}), pa.table({"text": texts}), [pa.table(scores)], {}, {}
    )


def rows_of(page: bytes) -> list[Any]:
    """The rows as the page's script has them."""
    raw = numbers_inside(page, "rows-data")
    assert raw is not None
    data = json.loads(raw)
    return [
        {
            "i": index,
            "r": data["r"][k],
            "s": [[values[k] for values in column] for column in data["s"]],
            "e": data["e"].get(str(k)),
        }
        for k, index in enumerate(data["i"])
    ]


def test_all_rows_are_shown_where_there_is_room() -> None:
    chosen = choose(np.arange(10), [3], times=1, most=10)
    assert chosen.whole
    assert list(chosen.indexes) == list(range(10))


@pytest.mark.parametrize("wrong", [[], [5, 4, 3], list(range(500))])
def test_a_sample_has_wrong_ones_in_at_most_half_its_room(wrong: list[int]) -> None:
    chosen = choose(np.repeat(np.arange(1000), 2), wrong, times=2, most=100)
    assert len(chosen.indexes) == 50
    assert {*wrong[:25]} <= {*chosen.indexes.tolist()}
    assert chosen.first == min(25, len(wrong))
    others = sorted({*chosen.indexes.tolist()} - {*wrong[:25]})
    assert max(b - a for a, b in pairwise(others)) <= 1000 // (50 - chosen.first) + 30


def test_long_texts_are_cut_and_fill_a_page_only_so_far() -> None:
    rows = make_rows(["x" * 9000] * 3)
    assert rows.question[0][1][0] == f"{'x' * MOST_TEXT}… (7,000 more characters)"
    many = make_rows(["\u00e4" * 1900] * 900)
    end = many.fitting(0, 900, MOST_BYTES)
    assert 400 < end < 600
    assert len(json.dumps(many.data(["r"], 0, end), ensure_ascii=False).encode()) <= MOST_BYTES * 1.01
    chosen = choose(np.arange(900), [], times=1)
    assert choice_sentence(900, chosen, 1) == "All 900 rows."
    assert choice_sentence(end, chosen, 1).startswith(f"The first {end} of 900 rows")


def test_one_row_is_shown_however_long() -> None:
    assert make_rows(["x" * 1900] * 3).fitting(1, 3, 10) == 2


def test_conversations_and_pictures_are_distinguished_from_text() -> None:
    turns = [{"role": "user", "content": "why?"}, {"role": "assistant", "content": "so"}]
    assert readable(turns) == "user: why?\n\nassistant: so"
    question = pa.table({"x": [[0.0] * 15 + [1.0], [3.0] * 16], "asked": [turns, turns], "none": ["", ""]})
    kind = pa.list_(pa.struct([pa.field("_response_index_", pa.int64()), pa.field("text", pa.string())]))
    keys = {"_index_": [0, 1], "_replication_": ["a", "b"]}
    responses = pa.array(
        [None, [{"_response_index_": 0, "text": "b"}, {"_response_index_": 1, "text": "c"}]], kind
    )
    errors = {(0, "a"): {"status": 429, "reason": "Transient"}}
    columns = make_columns(pa.table({**keys, "responses": responses}), question, [], {"b": 1}, errors)
    assert columns.pictures == ["a" * 15 + "q", "a" * 16]
    assert [name for name, _ in columns.question] == ["asked"]
    assert dict(columns.answer)["text"] == [None, "b"]
    assert "c" in str(dict(columns.answer)["further responses"][1])
    assert (columns.errors[0][:2], list(columns.errors), columns.replications) == (
        [429, "Transient"],
        [0],
        [0, 1],
    )


@pytest.mark.parametrize("strange", [float("nan"), float("inf"), None])
def test_vectors_with_numbers_without_a_size_are_no_pictures(strange: float | None) -> None:
    question = pa.table({"x": pa.array([[0.0] * 15 + [strange]], pa.list_(pa.float64()))})
    rows = pa.table(
        {
            "_index_": [0],
            "_replication_": ["a"],
            "responses": [[{"_response_index_": 0, "text": "b"}]],
        }
    )
    assert make_columns(rows, question, [], {}, {}).pictures is None


def test_score_files_have_names_of_their_own() -> None:
    rubrics = ["text.ExactMatch", "exact-match?field=a", "exact-match?field=b", "contains"]
    assert score_files(rubrics) == [
        *("scores.parquet", "scores-exact-match.parquet", "scores-exact-match.2.parquet"),
        "scores-contains.parquet",
    ]


async def _report(root: Path, **changes: Any) -> Report:
    places = await make_folder(root)
    request = Request(EXACT, FileStore(places.dataset), FileStore(places.evaluation), {}, **changes)
    (root / "more").mkdir()
    return await make_report(request, root / "more")


async def test_the_page_names_status_and_body_of_rows_without_an_answer(tmp_path: Path) -> None:
    report = await _report(tmp_path)
    page = report.page.decode()
    assert "Status 400" in page
    assert "too long" in re.sub(r"<script.*?</script>", "", page, flags=re.S)
    assert (
        page.index("Rows without an answer") < page.index("Where it was wrong") < page.index(">Figures</h2>")
    )
    errors = json.loads(report.numbers)["rowErrors"]
    assert errors["total"] == 2
    assert errors["kinds"] == [
        {"what": "BadRequest, status 400", "rows": 1},
        {"what": "without a record", "rows": 1},
    ]
    assert sum(row["e"] is not None for row in rows_of(report.page)) == 2


async def test_several_rubrics_stand_on_one_page(tmp_path: Path) -> None:
    report = await _report(tmp_path, more=("classification", "contains?target=label&field=label"))
    page = report.page.decode()
    for number in (1, 2, 3):
        assert f'<section id="rubric-{number}">' in page
    identities = re.findall(r'\bid="([^"]*)"', page)
    assert len(identities) == len(set(identities))
    for ids in re.findall(r'aria-labelledby="([^"]*)"', page):
        assert set(ids.split()) <= set(identities)
    numbers = json.loads(report.numbers)
    assert [section["rubric"] for section in numbers["more"]] == [
        "classification",
        "contains?target=label&field=label",
    ]
    assert set(report.extra_files) == {"scores-classification.parquet", "scores-contains.parquet"}
    assert len(rows_of(report.page)[0]["s"]) == 3


async def test_rows_that_do_not_fit_stand_in_linked_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_pages, "PAGE_ROWS", 10)
    monkeypatch.setattr(choose, "__defaults__", (8,))
    report = await _report(tmp_path, row_pages=True)
    names = [f"rows/page-{number:05d}.html" for number in (1, 2, 3)]
    assert sorted(report.extra_files) == names
    rows = [row for name in names for row in rows_of(report.extra_files[name].read_bytes())]
    assert [(row["i"], row["r"]) for row in rows] == [(index, time) for time in (0, 1) for index in range(12)]
    assert "A sample of 8 of 24 rows: 4 of them because something went wrong" in report.page.decode()
    assert all(f'href="{name}"'.encode() in report.page for name in names)
    assert b'href="page-00003.html"' in report.extra_files[names[1]].read_bytes()
    listed = {entry["path"] for entry in json.loads(report.numbers)["evidence"]}
    assert {*names} <= listed
