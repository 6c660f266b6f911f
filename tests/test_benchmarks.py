"""Tests that figures do not rot: blocks of docs/benchmarks.md, and ratios that are compared."""

import json
from functools import partial

import pytest

from benchmarks import page, short
from benchmarks.__main__ import BENCHMARKS, ON_SERVERS

PAGE = "# Page\n\n<!-- bench views 1 -->\nold\n<!-- end -->\n\ntext\n\n<!-- bench machine 1 -->\nkept\n<!-- end -->\n"
PRINTED = 'bare: 1\n\n| a |\n|---|\n| 1 |\n\n## Title\n\n| b |\n|---|\n| 2 |\n{"a": 1}\n'


def test_paragraphs_and_tables_of_an_output_are_told_from_its_json() -> None:
    assert page.paragraphs(PRINTED) == ["bare: 1", "| a |\n|---|\n| 1 |", "## Title", "| b |\n|---|\n| 2 |"]


def test_the_blocks_of_one_benchmark_are_filled() -> None:
    assert page.fill(PAGE, "views", ["when", "| a |\n|---|"]) == PAGE.replace("old", "| a |\n|---|")
    assert page.fill(PAGE, "operator", ["when"]) == PAGE


def test_a_block_without_a_part_is_refused() -> None:
    with pytest.raises(ValueError, match="views printed 0 parts, and the page shows number 1"):
        page.fill(PAGE, "views", ["when"])


def test_every_block_of_the_page_belongs_to_a_benchmark() -> None:
    text = page.PAGE.read_text()
    blocks = page.BLOCK.findall(text)
    assert text.count("<!-- bench ") == text.count("<!-- end -->") == len(blocks)
    assert {name for _, name, _, _ in blocks} - {*BENCHMARKS, *ON_SERVERS} == set()
    assert {*BENCHMARKS} - {name for _, name, _, _ in blocks} == set()


def test_every_comparison_has_a_recorded_ratio() -> None:
    recorded = json.loads(short.RECORD.read_text())
    assert recorded.keys() == {comparison.name for comparison in short.COMPARISONS}


COMPARISON = short.COMPARISONS[0]


def more(times: short.Times, ours: float) -> None:
    times.ours.append(ours)


def test_a_ratio_that_fell_by_a_quarter_or_less_holds_without_another_run() -> None:
    assert short.judge(COMPARISON, 2.0, short.Times([1.0], [1.5]), pytest.fail)


@pytest.mark.parametrize(("second", "holds"), [(0.9, True), (1.0, False)])
def test_a_ratio_that_fell_further_is_measured_again(second: float, holds: bool) -> None:
    times = short.Times([1.2, 1.1], [1.4, 1.5])
    assert short.judge(COMPARISON, 2.0, times, partial(more, times, second)) is holds


def test_of_each_side_the_least_run_counts() -> None:
    assert short.Times([2.0, 1.0, 3.0], [5.0, 4.0]).ratio == 4.0


def test_a_run_of_the_peer_that_does_not_end_is_left_out_and_one_of_ours_is_not() -> None:
    def endless() -> float:
        raise TimeoutError

    def second_ends() -> float:
        if len(times.ours) == 1:
            raise TimeoutError
        return 3.0

    times = short.Times()
    comparison = short.Comparison("n", "p", "u", 2, lambda _, __: (lambda: 1.0, second_ends))
    short.measure(comparison, times)
    assert (times.ours, times.peers) == ([1.0, 1.0], [3.0])
    with pytest.raises(TimeoutError):
        short.measure(short.Comparison("n", "p", "u", 1, lambda _, __: (endless, endless)), times)


def test_a_comparison_whose_peer_never_ends_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def endless() -> float:
        raise TimeoutError

    comparison = short.Comparison("n", "p", "u", 1, lambda _, __: (lambda: 1.0, endless))
    monkeypatch.setattr(short, "COMPARISONS", (comparison,))
    assert short.main(["n"]) == 1
    assert "not measured, as no run of the peer ended: n" in capsys.readouterr().err
