from datetime import UTC, datetime, timedelta, timezone

import pytest

from steelyard_kube.times import format_time, parse_optional_time, parse_time

NOON = datetime(2030, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2030-01-31T12:00:00Z", NOON),
        ("2030-01-31T13:00:00+01:00", NOON),
        ("2030-01-31T12:00:00", NOON),
        ("2030-01-31T12:00:00.123456789Z", NOON + timedelta(microseconds=123456)),
    ],
    ids=["in UTC", "in another zone", "without a zone, as if in UTC", "with nanoseconds"],
)
def test_a_time_is_parsed(text: str, moment: datetime) -> None:
    assert parse_time(text) == parse_optional_time(text) == moment
    assert parse_time(text).tzinfo is not None


@pytest.mark.parametrize("text", [None, ""])
def test_a_time_may_be_missing(text: str | None) -> None:
    assert parse_optional_time(text) is None


def test_a_time_is_written_in_whole_seconds_of_utc() -> None:
    east = timezone(timedelta(hours=1))
    assert format_time(datetime(2030, 1, 31, 13, 0, 0, 999_999, east)) == "2030-01-31T12:00:00Z"
    assert format_time(datetime(1, 1, 1, tzinfo=UTC)) == "0001-01-01T00:00:00Z"
