"""Times and URLs as people write them: flags and task files read them alike. ValueError says what one should be."""

import math
import re

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds(text: str) -> float:
    """`90`, `90s`, `15m`, `2h30m`."""
    pieces = re.findall(r"(\d+(?:\.\d+)?)([smhd]?)", text)
    if not pieces or "".join(number + unit for number, unit in pieces) != text:
        raise ValueError("should be a time such as 90s, 15m or 2h")
    return positive(sum(float(number) * _SECONDS[unit or "s"] for number, unit in pieces))


def positive(number: float) -> float:
    if not 0 < number < math.inf:
        raise ValueError("should be more than nothing, and finite")
    return number


def base_url(text: str) -> str:
    """Return the base URL without the slash at its end."""
    if not re.fullmatch(r"https?://[^/\s?#@]+(/[^\s?#]*)?", text):
        raise ValueError("should be a base URL such as http://host:8000/v1")
    if re.search(r"/(chat/)?completions/?$", text):
        raise ValueError("should end before /chat/completions and /completions")
    return text.rstrip("/")
