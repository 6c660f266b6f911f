"""Times of quotas are printed as they are given."""

from datetime import timedelta

import pytest

from steelyard.cli.quotas import span_text


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (timedelta(days=1), "1d"),
        (timedelta(days=7), "7d"),
        (timedelta(hours=36), "36h"),
        (timedelta(minutes=10), "10m"),
        (timedelta(seconds=90), "90s"),
    ],
)
def test_a_time_is_written_as_the_option_takes_it(span: timedelta, text: str) -> None:
    assert span_text(span) == text
