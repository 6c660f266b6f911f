"""Rules as data: a table has the checks of each field of an object, in the order of a real server."""

from collections.abc import Callable, Iterable
from typing import Any

from steelyard_common.types import Json, sequence
from steelyard_local_kubernetes.apiserver.errors import Cause, invalid, missing_value, not_supported
from steelyard_local_kubernetes.apiserver.names import name_causes

# Faults of the object that holds the field, which lies at this path.
Rule = Callable[[Json, str], list[Cause]]
# Faults of the field's own value and path.
Check = Callable[[Any, str], list[Cause]]


def causes_by(rules: Iterable[Rule], obj: Json, path: str) -> list[Cause]:
    causes: list[Cause] = []
    # A loop and no comprehension: nearly every rule has nothing to say, and this is run for each Pod.
    for rule in rules:
        if own := rule(obj, path):
            causes += own
    return causes


def below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def need(*names: str, detail: str = "") -> Rule:
    """Texts and lists that may not be empty."""

    def rule(obj: Json, path: str) -> list[Cause]:
        return [missing_value(below(path, name), detail) for name in names if not obj.get(name)]

    return rule


def if_given(name: str, check: Check) -> Rule:
    """A check of a field that is there, and not empty."""

    def rule(obj: Json, path: str) -> list[Cause]:
        value = obj.get(name)
        return check(value, below(path, name)) if value not in (None, "") else []

    return rule


def if_named(name: str, kind: str = "subdomain") -> Rule:
    return if_given(name, lambda value, path: name_causes(value, path, kind))


def if_given_choice(name: str, *choices: str) -> Rule:
    """One of these texts, or none."""
    return if_given(
        name, lambda value, path: [] if value in choices else [not_supported(path, value, list(choices))]
    )


def choice(name: str, *choices: str, needed: bool = False) -> Rule:
    """One of these texts, where the field is there. `needed`: an empty text is a missing value."""

    def rule(obj: Json, path: str) -> list[Cause]:
        value, where = obj.get(name), below(path, name)
        if needed and not value:
            return [missing_value(where)]
        return [] if value is None or value in choices else [not_supported(where, value, list(choices))]

    return rule


def number(name: str, least: int, most: int, detail: str = "") -> Rule:
    """A number that, where it is there, is in a range."""
    text = detail or f"must be between {least} and {most}, inclusive"

    def rule(obj: Json, path: str) -> list[Cause]:
        value = obj.get(name)
        return [] if value is None or least <= value <= most else [invalid(below(path, name), value, text)]

    return rule


def part(name: str, *rules: Rule) -> Rule:
    """Rules of an object within the object, where it is there."""

    def rule(obj: Json, path: str) -> list[Cause]:
        value = obj.get(name)
        return causes_by(rules, value, below(path, name)) if isinstance(value, dict) else []

    return rule


def items(name: str, *rules: Rule) -> Rule:
    """Rules of each object of a list."""

    def rule(obj: Json, path: str) -> list[Cause]:
        where = below(path, name)
        return [
            cause
            for index, item in enumerate(sequence(obj, name))
            for cause in causes_by(rules, item, f"{where}[{index}]")
        ]

    return rule


def values(name: str, check: Check) -> Rule:
    """A check of each value of a list."""

    def rule(obj: Json, path: str) -> list[Cause]:
        where = below(path, name)
        return [
            cause
            for index, item in enumerate(sequence(obj, name))
            for cause in check(item, f"{where}[{index}]")
        ]

    return rule
