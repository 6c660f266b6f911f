"""Tests of schedules: what they accept, and when they come, also where a clock is set forward or back."""

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from steelyard_local_kubernetes.cron_schedule import parse_schedule


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("schedule", "moment", "following"),
    [
        ("* * * * *", "2026-01-01T00:00:30", "2026-01-01T00:01:00"),
        ("30 4 * * *", "2026-01-01T04:30:00", "2026-01-02T04:30:00"),
        ("0,30 */6 * * *", "2026-01-01T06:31:00", "2026-01-01T12:00:00"),
        ("5/20 * * * *", "2026-01-01T00:06:00", "2026-01-01T00:25:00"),
        ("0 0 1 jan,JUL *", "2026-01-02T00:00:00", "2026-07-01T00:00:00"),
        ("0 0 29 2 *", "2026-01-01T00:00:00", "2028-02-29T00:00:00"),
        ("0 0 * * mon-fri", "2026-01-02T00:00:00", "2026-01-05T00:00:00"),
        ("0 0 13 * fri", "2026-01-01T00:00:00", "2026-01-02T00:00:00"),  # either day is enough
        ("0 0 13 * */1", "2026-01-01T00:00:00", "2026-01-13T00:00:00"),  # a star restricts nothing
        ("0 0 ? * sun", "2026-01-01T00:00:00", "2026-01-04T00:00:00"),
        ("@monthly", "2026-01-01T00:00:00", "2026-02-01T00:00:00"),
        ("@every 90s", "2026-01-01T00:00:00", "2026-01-01T00:01:30"),
        ("@every 1h30m", "2026-01-01T00:00:00", "2026-01-01T01:30:00"),
    ],
)
def test_the_time_that_follows(schedule: str, moment: str, following: str) -> None:
    assert parse_schedule(schedule).next_after(at(f"{moment}+00:00")) == at(f"{following}+00:00")


def test_a_day_that_never_comes() -> None:
    assert parse_schedule("0 0 30 2 *").next_after(datetime(2026, 1, 1, tzinfo=UTC)) is None


@pytest.mark.parametrize(
    ("schedule", "moment", "times"),
    [
        pytest.param("30 2 * * *", "2026-03-28T12:00:00", ["2026-03-30T00:30:00"], id="an hour is skipped"),
        pytest.param(
            "30 2 * * *", "2026-10-24T12:00:00", ["2026-10-25T00:30:00", "2026-10-25T01:30:00"],
            id="an hour comes twice",
        ),
        pytest.param("0 0 * * *", "2026-03-29T12:00:00", ["2026-03-29T22:00:00"], id="midnight in summer"),
    ],
)  # fmt: skip
def test_clocks_that_are_set(schedule: str, moment: str, times: list[str]) -> None:
    parsed, moment_at = parse_schedule(schedule), at(f"{moment}+00:00")
    came = []
    for _ in times:
        following = parsed.next_after(moment_at, ZoneInfo("Europe/Berlin"))
        assert following is not None
        came.append(following)
        moment_at = following
    assert came == [at(f"{text}+00:00") for text in times]


@pytest.mark.parametrize(
    ("schedule", "fault"),
    [
        ("", "empty spec string"),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("* * * * 7", "end of range (7) above maximum (6): 7"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("x * * * *", 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
        ("@often", "unrecognized descriptor: @often"),
        ("@every day", 'failed to parse duration @every day: time: invalid duration "day"'),
    ],
)
def test_schedules_that_are_refused(schedule: str, fault: str) -> None:
    with pytest.raises(ValueError, match=re.escape(fault)):
        parse_schedule(schedule)
