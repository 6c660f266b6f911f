"""Schedules of CronJobs: `30 4 * * mon-fri`, `@daily`, `@every 90m`, read and computed as Kubernetes does.

Kubernetes reads them with Go's robfig/cron; other readers accept more (a Sunday of 7, seconds, letters) and treat a
clock that is set forward or back in other ways. The API server refuses what `parse_schedule` refuses; the CronJob
controller asks for `next_after`.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from steelyard_common.types import Json

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_NAMED = {
    "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}  # fmt: skip
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_YEARS = 5  # a schedule without a time in so many years has none, such as the 30th of February


@dataclass(frozen=True)
class _Field:
    name: str
    first: int
    last: int
    words: tuple[str, ...] = ()


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12, tuple(_MONTHS)),
    _Field("day of week", 0, 6, tuple(_DAYS)),
)


@dataclass(frozen=True)
class Schedule:
    """Times by the clock of a zone, or every so many seconds."""

    minutes: frozenset[int] = frozenset()
    hours: frozenset[int] = frozenset()
    days: frozenset[int] = frozenset()
    months: frozenset[int] = frozenset()
    weekdays: frozenset[int] = frozenset()
    either_day: bool = False  # both kinds of days are restricted: one that matches is enough
    every: float | None = None

    def next_after(self, moment: datetime, zone: tzinfo = UTC) -> datetime | None:
        """Return the first scheduled time after `moment`; None where there is none for years.

        A time that the clock skips in spring does not come; one that it shows twice in autumn comes twice.
        """
        if self.every is not None:
            return moment.replace(microsecond=0) + timedelta(seconds=self.every)
        at = moment.astimezone(UTC).replace(second=0, microsecond=0) + timedelta(minutes=1)
        last = at + timedelta(days=366 * _YEARS)
        while at <= last:
            local = at.astimezone(zone)
            if local.month not in self.months:
                at = _midnight(local, zone, next_month=True)
            elif not self._has_day(local):
                at = _midnight(local, zone)
            elif local.hour not in self.hours:
                at += timedelta(minutes=60 - local.minute)
            elif local.minute not in self.minutes:
                at += timedelta(minutes=1)
            else:
                return at
        return None

    def _has_day(self, local: datetime) -> bool:
        by_month, by_week = local.day in self.days, local.isoweekday() % 7 in self.weekdays
        return by_month or by_week if self.either_day else by_month and by_week


def _midnight(local: datetime, zone: tzinfo, *, next_month: bool = False) -> datetime:
    """Return the begin of the next day, or of the next month, as a time in UTC."""
    day = local.replace(hour=0, minute=0, fold=0, tzinfo=None)
    day = (day.replace(day=1) + timedelta(days=32)).replace(day=1) if next_month else day + timedelta(days=1)
    return day.replace(tzinfo=zone).astimezone(UTC)


def parse_schedule(text: str) -> Schedule:
    """Return the schedule; ValueError says what is wrong, in Kubernetes' words."""
    if not text:
        raise ValueError("empty spec string")
    if text.startswith("@"):
        return _descriptor(text)
    parts = text.split()
    if len(parts) != len(_FIELDS):
        raise ValueError(f"expected exactly 5 fields, found {len(parts)}: [{' '.join(parts)}]")
    read = [_numbers(part, field) for part, field in zip(parts, _FIELDS, strict=True)]
    minutes, hours, days, months, weekdays = (numbers for numbers, _ in read)
    return Schedule(minutes, hours, days, months, weekdays, not (read[2][1] or read[4][1]))


def _descriptor(text: str) -> Schedule:
    if text.startswith("@every "):
        return Schedule(every=_duration(text))
    if text not in _NAMED:
        raise ValueError(f"unrecognized descriptor: {text}")
    return parse_schedule(_NAMED[text])


def _duration(text: str) -> float:
    duration = text.removeprefix("@every ")
    if not re.fullmatch(r"[-+]?(\d+\.?\d*(ns|us|µs|ms|s|m|h))+", duration):
        raise ValueError(f'failed to parse duration {text}: time: invalid duration "{duration}"')
    seconds = sum(
        float(number) * _UNITS[unit]
        for number, unit in re.findall(r"(\d+\.?\d*)(ns|us|µs|ms|s|m|h)", duration)
    )
    return float(max(int(-seconds if duration.startswith("-") else seconds), 1))


def _numbers(text: str, field: _Field) -> tuple[frozenset[int], bool]:
    """Return the numbers of one field, and whether it is a star, which restricts nothing."""
    numbers: set[int] = set()
    star = False
    for part in filter(None, text.split(",")):
        chosen, is_star = _range(part, field)
        numbers |= set(chosen)
        star = star or is_star
    return frozenset(numbers), star


def _range(text: str, field: _Field) -> tuple[range, bool]:
    span, *steps = text.split("/")
    ends = span.split("-")
    star = ends[0] in ("*", "?")
    if len(ends) > 2:
        raise ValueError(f"too many hyphens: {text}")
    if len(steps) > 1:
        raise ValueError(f"too many slashes: {text}")
    first = field.first if star else _number(ends[0], field)
    if star:
        last = field.last
    elif len(ends) == 2:
        last = _number(ends[1], field)
    else:
        last = field.last if steps else first  # 5/15 means 5-59/15
    step = _number(steps[0], field) if steps else 1
    if first < field.first:
        raise ValueError(f"beginning of range ({first}) below minimum ({field.first}): {text}")
    if last > field.last:
        raise ValueError(f"end of range ({last}) above maximum ({field.last}): {text}")
    if first > last:
        raise ValueError(f"beginning of range ({first}) beyond end of range ({last}): {text}")
    if step == 0:
        raise ValueError(f"step of range should be a positive number: {text}")
    return range(first, last + 1, step), star and step == 1


def _number(text: str, field: _Field) -> int:
    if text.lower() in field.words:
        return field.words.index(text.lower()) + field.first
    if text.startswith("-") and text[1:].isdecimal():
        raise ValueError(f"negative number ({text}) not allowed: {text}")
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    return int(text)


def time_zone(cron_job: Json) -> tzinfo:
    """Return the zone of a CronJob; ZoneInfoNotFoundError or ValueError for an unknown one."""
    name = cron_job["spec"].get("timeZone")
    return ZoneInfo(name) if name else UTC
