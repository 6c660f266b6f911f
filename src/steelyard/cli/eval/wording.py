"""Numbers for people."""

from collections.abc import Sequence

_IRREGULAR = {"retry": "retries"}


def count(number: int, what: str = "") -> str:
    """`1,234 rows`, `1 row`, or the number alone."""
    if not what:
        return f"{number:,}"
    return f"{number:,} {what if number == 1 else _IRREGULAR.get(what, what + 's')}"


def duration(seconds: float) -> str:
    """`12 s`, `3 min`, `2 h 5 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def headline_lines(headlines: Sequence[tuple[str, str]]) -> list[str]:
    """The headlines, with their rubrics where there are several."""
    if len(headlines) == 1:
        return [headline for _, headline in headlines]
    return [f"{rubric}: {headline}" for rubric, headline in headlines]
