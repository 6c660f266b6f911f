"""Reports in log lines: read, shown, and used for estimates."""

from datetime import UTC, datetime, timedelta

import pytest

from steelyard.clusters.training.progress import Pace, Progress, newest, parse

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('{"progress": {"step": 1}}', {"step": 1}),
        ('50%|####  {"progress": {"step": 1}} more', {"step": 1}),
        ('{"progress": {"step": ', None),
        ('{"progress": 3}', None),
        ("no report", None),
    ],
)
def test_a_report_is_found_in_a_line(text: str, values: dict[str, int] | None) -> None:
    report = parse(text)
    assert (report.values if report else None) == values


@pytest.mark.parametrize(
    ("values", "expected", "share"),
    [
        ({"step": 5, "total": 10, "loss": 0.123456}, "step 5 of 10, loss 0.1235", 0.5),
        ({"epoch": 1, "epochs": 4}, "epoch 1 of 4", 0.25),
        ({"epoch": 1, "epochs": 4, "step": 9, "total": 10}, "epoch 1 of 4, step 9 of 10", 0.9),
        ({"step": 12, "total": 10}, "step 12 of 10", 1.0),
        ({"step": 3, "note": "warm"}, "step 3, note warm", None),
        ({"step": 1, "total": 0}, "step 1 of 0", None),
    ],
)
def test_a_report_is_shown_in_words(values: dict[str, object], expected: str, share: float | None) -> None:
    assert (Progress(values).description, Progress(values).share) == (expected, share)


def test_the_newest_report_counts() -> None:
    report = newest(['{"progress": {"step": 1}}', "text", '{"progress": {"step": 2}}', "text"])
    assert report is not None
    assert report.values == {"step": 2}


def test_the_rest_takes_as_long_as_the_pace_says_and_a_restart_starts_again() -> None:
    pace = Pace()
    assert pace.seconds_left is None
    pace.see(START, 0.1)
    pace.see(START + timedelta(seconds=10), 0.6)
    assert pace.seconds_left == pytest.approx(8)
    pace.see(START + timedelta(seconds=20), 0.5)
    assert pace.seconds_left is None
    pace.see(START + timedelta(seconds=30), 0.6)
    assert pace.seconds_left == pytest.approx(40)
