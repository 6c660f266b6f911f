"""Readers of objects that others wrote: a field of another type than it should have reads as absent.

One object that is written strangely must not end a list of all.
"""

from datetime import datetime
from typing import Any

from steelyard_common.types import Json
from steelyard_kube.times import parse_optional_time


def part(obj: Any, *path: str) -> Json:
    """Return the object at a path; empty where there is none."""
    for name in path:
        obj = obj.get(name) if isinstance(obj, dict) else None
    return obj if isinstance(obj, dict) else {}


def items(obj: Any, *path: str) -> list[Json]:
    """Return the objects in the list at a path."""
    value = part(obj, *path[:-1]).get(path[-1])
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text(obj: Any, *path: str) -> str:
    """Return the text or number at a path; empty where there is none."""
    value = part(obj, *path[:-1]).get(path[-1])
    return str(value) if isinstance(value, str | int | float) else ""


def number(obj: Any, *path: str) -> int:
    value = part(obj, *path[:-1]).get(path[-1])
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def find_condition(obj: Any, type: str) -> Json | None:
    conditions = items(obj, "status", "conditions")
    return next((condition for condition in conditions if condition.get("type") == type), None)


def holds(obj: Any, type: str) -> bool:
    return (find_condition(obj, type) or {}).get("status") == "True"


def parse_time(value: str) -> datetime | None:
    try:
        return parse_optional_time(value)
    except ValueError:
        return None
