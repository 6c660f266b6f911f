"""Finds a rubric by its name: `module.Name`, `module.Name?arg=value`, or the kebab-case of Name where only
one rubric has it.

Rubrics are entry points of the group `steelyard.rubrics`, so that any installed distribution can bring its
own. Each is a dataclass whose fields are the arguments.
"""

import dataclasses
import re
from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import cast
from urllib.parse import parse_qsl

from pydantic import TypeAdapter, ValidationError

from steelyard.errors import UsageError
from steelyard.report.results import Rubric

GROUP = "steelyard.rubrics"


class NoSuchRubric(UsageError):
    """No installed rubric has this name; the message lists those that there are."""


class BadRubricArgument(UsageError):
    """The rubric takes no such argument, or not this value."""


def find_rubric(reference: str, known: Iterable[EntryPoint] | None = None) -> Rubric:
    """The rubric that `reference` names, made with its arguments."""
    points = sorted(entry_points(group=GROUP) if known is None else known, key=lambda point: point.name)
    name, _, query = reference.partition("?")
    found = [point for point in points if name in (point.name, alias(point.name))]
    exact = [point for point in found if point.name == name]
    match exact or found:
        case [point]:
            return _make(point, query)
        case []:
            there = ", ".join(point.name for point in points) or "none"
            raise NoSuchRubric(f"there is no rubric {name!r}; installed: {there}")
        case several:
            names = ", ".join(point.name for point in several)
            raise NoSuchRubric(f"several rubrics are called {name!r}; name one of: {names}")


def alias(name: str) -> str:
    """`text.ExactMatch` is `exact-match` on the command line."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", name.rpartition(".")[2]).lower()


def _make(point: EntryPoint, query: str) -> Rubric:
    kind = point.load()
    arguments = dict(parse_qsl(query, keep_blank_values=True))
    takes = [field.name for field in dataclasses.fields(kind) if field.init]
    for argument in arguments:
        if argument not in takes:
            raise BadRubricArgument(
                f"rubric {point.name} has no argument {argument!r}; it takes: {', '.join(takes) or 'none'}"
            )
    try:
        return cast(Rubric, TypeAdapter(kind).validate_python(arguments))
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(map(str, fault["loc"]))
        raise BadRubricArgument(f"rubric {point.name}, argument {where}: {fault['msg']}") from error
