"""Figures of the report's page."""

from xml.etree import ElementTree

import numpy as np
import pytest

from steelyard_evaluation.report.page.figures import class_bars, confusion_matrix, intervals, pixels
from steelyard_evaluation.report.results import Figure, Metric
from steelyard_evaluation.report.statistics.confusion import NO_ANSWER
from steelyard_evaluation.report.statistics.intervals import Estimate

SURE = Estimate(0.97, 0.96, 0.98, "Wilson score interval", 100)
UNDEFINED = Estimate(None, None, None, "no rows", 0)


def _texts(figure: Figure) -> list[str]:
    """All text of a figure that is well-formed XML with title and description."""
    root = ElementTree.fromstring(str(figure.svg))
    assert root.find("title") is not None
    assert root.find("desc") is not None
    return [text for node in root.iter() if node.tag == "text" and (text := "".join(node.itertext()))]


def test_intervals_are_labelled_and_say_where_their_axis_starts() -> None:
    figure = intervals("Sure", [Metric("a", "Accuracy", SURE), Metric("b", "Other <1>", UNDEFINED)])
    texts = _texts(figure)
    assert "97.0 %  (96.0–98.0)" in texts
    assert "Other <1>" in texts
    assert "The axis starts at 90 %." in figure.summary


def test_very_many_classes_show_the_lowest() -> None:
    classes = [(f"c{k}", Estimate(k / 100, 0.0, 1.0, "", 1)) for k in range(100)]
    figure = class_bars("F1 of each class", classes)
    assert figure.title == "F1 of each class (40 lowest of 100)"
    assert "c0" in _texts(figure)
    assert "c99" not in _texts(figure)


def test_a_matrix_with_rows_that_failed_counts_rows() -> None:
    whole, failed = np.array([[3, 1, 0], [0, 2, 0]]), np.array([[3, 1, 0], [0, 2, 1]])
    summaries = [confusion_matrix(["a", "b"], counts).summary for counts in (whole, failed)]
    assert "5 of 6 answers lie on the diagonal" in summaries[0]
    assert "5 of 7 rows lie on the diagonal" in summaries[1]


def test_a_class_without_a_value_is_not_the_lowest() -> None:
    unknown = Estimate(None, None, None, "", 0)
    figure = class_bars("F1 of each class", [("a", unknown), ("b", Estimate(0.5, 0.4, 0.6, "", 9))])
    assert "The lowest is class b with 50.0 %" in figure.summary
    assert "The lowest" not in class_bars("F1 of each class", [("a", unknown)]).summary


def test_a_class_without_a_value_has_no_bar() -> None:
    assert "–  (no interval)" in _texts(class_bars("F1", [("a", UNDEFINED)]))


@pytest.mark.parametrize("labels", [["a"], ["0", "1", "2"], ["a very long name of a class & more", "b"]])
def test_the_matrix_shows_each_count(labels: list[str]) -> None:
    counts = np.zeros((len(labels), len(labels) + 1), dtype=np.int64)
    counts[0, 0], counts[-1, -1] = 1234, 5
    figure = confusion_matrix(labels, counts)
    texts = _texts(figure)
    assert "1,234" in texts
    assert "5" in texts
    assert NO_ANSWER in texts
    assert figure.table is not None
    assert figure.table.columns == ("True class", *labels, NO_ANSWER)


@pytest.mark.parametrize(("count", "drawn"), [(64, True), (63, False), (1, False), (33 * 33, False)])
def test_only_small_squares_are_pictures(count: int, drawn: bool) -> None:
    assert (pixels([float(k) for k in range(count)], "image of row 3") is not None) is drawn


def test_a_picture_is_darkest_where_values_are_highest() -> None:
    figure = pixels([0, 16, 8, 0], "x")
    assert figure is not None
    assert '<path d="M1 0h1v1h-1z" fill-opacity="1.0"/>' in figure.svg
    assert '<path d="M0 1h1v1h-1z" fill-opacity="0.5"/>' in figure.svg
    assert pixels([3, 3, 3, 3], "even") is not None


@pytest.mark.parametrize("strange", [float("nan"), float("inf")])
def test_numbers_without_a_size_are_no_picture(strange: float) -> None:
    assert pixels([1, 2, strange, 4], "x") is None
