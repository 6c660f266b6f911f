import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.report import rows_pages
from steelyard.report.page import numbers_inside
from steelyard.report.report import Report, Request, make_report, score_files
from steelyard.report.rows import MOST_BYTES, MOST_TEXT, Row, choose, picture_of, readable, row_json, sampled
from steelyard.report.test_verify import EXACT, make_folder
from steelyard.storage.files import FileStore


def make_row(index: int, text: str = "why?") -> Row:
    scores = [{"correct": True, "score": 1.0, "prediction": "a", "label": "a"}]
    return Row(index, 0, {"_index_": index, "text": text}, [{"_response_index_": 0, "text": "a"}], scores)


def rows_of(page: bytes) -> list[Any]:
    data = numbers_inside(page, "rows-data")
    assert data is not None
    found: list[Any] = json.loads(data)["rows"]
    return found


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


def test_long_rows_fill_the_page_only_so_far() -> None:
    chosen = choose(np.arange(600), [], times=1)
    rows, sentence = sampled((make_row(index, "x" * 9000) for index in range(600)), chosen, 1)
    assert len(rows) == 600
    assert all(len(row["q"][0][1]) < MOST_TEXT + 40 for row in rows)
    assert "(7,000 more characters)" in rows[0]["q"][0][1]
    assert sentence == "All 600 rows."
    many = [make_row(index, "\u00e4" * 1900) for index in range(900)]
    rows, sentence = sampled(many, choose(np.arange(900), [], times=1), 1)
    assert len(json.dumps(rows, ensure_ascii=False).encode()) <= MOST_BYTES * 1.01
    assert sentence.startswith(f"The first {len(rows)} of 900 rows")


def test_conversations_and_pictures_are_told_from_text() -> None:
    turns = [{"role": "user", "content": "why?"}, {"role": "assistant", "content": "so"}]
    assert readable(turns) == "user: why?\n\nassistant: so"
    assert picture_of({"x": [0.0] * 15 + [1.0]}) == "a" * 15 + "q"
    assert picture_of({"x": [1.0] * 17}) is None
    drawn = row_json(Row(0, 0, {"x": [0.0] * 15 + [1.0]}, None, [], {"status": 429, "reason": "Transient"}))
    assert (drawn["q"], drawn["e"][:2]) == ([], [429, "Transient"])


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
    assert sum("e" in row for row in rows_of(report.page)) == 2


async def test_several_rubrics_stand_on_one_page(tmp_path: Path) -> None:
    report = await _report(tmp_path, more=("classification", "contains?target=label&field=label"))
    page = report.page.decode()
    for number in (1, 2, 3):
        assert f'<section id="rubric-{number}">' in page
    identities = re.findall(r'\bid="([^"]*)"', page)
    assert len(identities) == len(set(identities))
    for each in re.findall(r'aria-labelledby="([^"]*)"', page):
        assert set(each.split()) <= set(identities)
    numbers = json.loads(report.numbers)
    assert [each["rubric"] for each in numbers["more"]] == [
        "classification",
        "contains?target=label&field=label",
    ]
    assert set(report.beside) == {"scores-classification.parquet", "scores-contains.parquet"}
    assert len(rows_of(report.page)[0]["s"]) == 3


async def test_rows_that_do_not_fit_stand_in_linked_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows_pages, "PAGE_ROWS", 10)
    monkeypatch.setattr(choose, "__defaults__", (8,))
    report = await _report(tmp_path, row_pages=True)
    names = [f"rows/page-{number:05d}.html" for number in (1, 2, 3)]
    assert sorted(report.beside) == names
    rows = [row for name in names for row in rows_of(report.beside[name].read_bytes())]
    assert [(row["i"], row["r"]) for row in rows] == [(index, time) for time in (0, 1) for index in range(12)]
    assert "A sample of 8 of 24 rows: 4 of them because something went wrong" in report.page.decode()
    assert all(f'href="{name}"'.encode() in report.page for name in names)
    assert b'href="page-00003.html"' in report.beside[names[1]].read_bytes()
    listed = {each["path"] for each in json.loads(report.numbers)["evidence"]}
    assert {*names} <= listed
