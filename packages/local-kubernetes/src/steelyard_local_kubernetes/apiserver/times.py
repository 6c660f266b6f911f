"""Times as Go reads and writes them, refused in its words."""

import re
from datetime import UTC, datetime

_FORM = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d?):(\d\d):(\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)
_USUAL = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_LAYOUT, _MICRO_LAYOUT = "2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05.000000Z07:00"
# Parts of the layout, the form of each in a text, and the least and the greatest that it may be.
_PARTS: list[tuple[str, str, str, int, int]] = [
    ("2006", r"\d{4}", "year", 0, 9999),
    ("-", "-", "", 0, 0),
    ("01", r"\d\d", "month", 1, 12),
    ("-", "-", "", 0, 0),
    ("02", r"\d\d", "", 0, 0),
    ("T", "T", "", 0, 0),
    ("15", r"\d\d?", "hour", 0, 23),
    (":", ":", "", 0, 0),
    ("04", r"\d\d", "minute", 0, 59),
    (":", ":", "", 0, 0),
    ("05", r"\d\d", "second", 0, 59),
]


def normalize_time(text: str, *, micro: bool = False) -> str:
    """The time as Go writes it again. ValueError in Go's words."""
    fits = _FORM.fullmatch(text)
    try:
        if fits is None or (micro and len(fits[7] or "") != 7):
            raise ValueError(text)
        # In UTC, too: a time in the first hours of year 1 east of Greenwich is before all times that others can read.
        hour = fits[4].rjust(2, "0")
        moment = datetime.fromisoformat(f"{text[:11]}{hour}{text[fits.end(4) :]}").astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError(f'parsing time "{text}"{_fault(text, micro=micro)}') from error
    if micro:
        return f"{moment:%Y-%m-%dT%H:%M:%S.%f}Z".rjust(27, "0")
    return text if _USUAL.fullmatch(text) else f"{moment:%Y-%m-%dT%H:%M:%S}Z".rjust(20, "0")


def _fault(text: str, *, micro: bool) -> str:
    """Say as Go does which part of the layout is the first that does not fit."""
    layout, rest = (_MICRO_LAYOUT if micro else _LAYOUT), text
    for part, form, name, least, most in _PARTS:
        match = re.match(form, rest, re.ASCII)
        if match is None:
            return f' as "{layout}": cannot parse "{rest}" as "{part}"'
        if name and not least <= int(match[0]) <= most:
            return f": {name} out of range"
        rest = rest[match.end() :]
    fraction = re.match(r"\.\d{6}" if micro else r"(\.\d+)?", rest, re.ASCII)
    if fraction is None:
        return f' as "{layout}": cannot parse "{rest}" as ".000000"'
    rest = rest[fraction.end() :]
    zone = re.match(r"Z|[+-]\d\d:\d\d", rest, re.ASCII)
    if zone is None:
        return f' as "{layout}": cannot parse "{rest}" as "Z07:00"'
    if rest := rest[zone.end() :]:
        return f': extra text: "{rest}"'
    return ": day out of range"
