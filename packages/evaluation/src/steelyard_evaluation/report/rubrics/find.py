"""Finds a rubric by its name: `module.Name`, `module.Name?arg=value`, or the kebab-case of Name if only one rubric has
it.

Rubrics are entry points of the group `steelyard.rubrics`, so that any installed distribution can have its own. A rubric
is a dataclass whose fields are the arguments.
"""

import dataclasses
import os
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, cast
from urllib.parse import unquote

from pydantic import TypeAdapter, ValidationError

from steelyard_common.errors import UsageError
from steelyard_evaluation.report.errors import NotInstalled
from steelyard_evaluation.report.results import Rubric
from steelyard_evaluation.report.rubrics.calls import rubric_code
from steelyard_schema.faults import exception_text, fault_message
from steelyard_schema.rubric_names import GROUP, alias, list_names, nearest

_OURS = __name__.partition(".")[0]


class NoSuchRubric(NotInstalled):
    """No installed rubric has this name; the message lists those that there are."""


class BadRubricArgument(UsageError):
    """The rubric takes no such argument, or not this value."""


class RubricNotImportable(UsageError):
    """The code of an installed rubric cannot be imported, or has no rubric of this name."""


def find_rubric(
    reference: str, known: Iterable[EntryPoint] | None = None, files: Mapping[str, str] | None = None
) -> Rubric:
    """Return the rubric that `reference` names, made with its arguments.

    `files` has the present path of a file that an argument names: a report keeps copies of the files of its rubrics.
    """
    name, _, query = reference.partition("?")
    return _make(_point(name, list_installed() if known is None else known), query, files or {})


def list_installed() -> tuple[EntryPoint, ...]:
    """Return the rubrics of all installed distributions; they are read again when one may have been added."""
    # A distribution that is installed while a notebook runs changes the folder's time; reading them all takes
    # 20 ms each time.
    return _read_entry_points(tuple((folder, _change_time(folder)) for folder in sys.path))


@cache
def _read_entry_points(folders: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=GROUP))


def _change_time(folder: str) -> int:
    try:
        return os.stat(folder or ".").st_mtime_ns
    except OSError:
        return 0


def takes(name: str) -> tuple[str, ...]:
    """Return the arguments of the rubric of this name. Raises NoSuchRubric."""
    return _fields(_load(_point(name, list_installed())))


def _point(name: str, known: Iterable[EntryPoint]) -> EntryPoint:
    points = sorted(known, key=lambda point: point.name)
    matches = [point for point in points if name in (point.name, alias(point.name))]
    # A full name wins over another rubric's short one: installing a package must not change what a report was
    # made by.
    exact = [point for point in matches if point.name == name]
    match exact or matches:
        case [point]:
            return point
        case []:
            there = ", ".join(point.name for point in points) or "none"
            near = nearest(name, list_names(point.name for point in points))
            hint = f"did you mean {near}? " if near else ""
            raise NoSuchRubric(f"there is no rubric {name!r}; {hint}installed: {there}")
        case several:
            names = ", ".join(point.name for point in several)
            raise NoSuchRubric(f"several rubrics are called {name!r}; name one of: {names}")


def parse_arguments(query: str) -> dict[str, str]:
    """Return the arguments of `a=1&b=2`; `%26` is an ampersand, and a plus is a plus, as patterns need it."""
    # Not urllib's parse_qsl: it would turn each plus of a regular expression into a blank.
    pairs = (part.partition("=") for part in query.split("&") if part)
    return {unquote(name): unquote(value) for name, _, value in pairs}


def _make(point: EntryPoint, query: str, files: Mapping[str, str]) -> Rubric:
    kind = _load(point)
    arguments = {name: files.get(value, value) for name, value in parse_arguments(query).items()}
    there = _fields(kind)
    for argument in arguments:
        if argument not in there:
            raise BadRubricArgument(
                f"rubric {point.name} has no argument {argument!r}; it takes: {', '.join(there) or 'none'}"
            )
    try:
        # Arguments come as text: pydantic reads them by the types of the dataclass's fields.
        with rubric_code(kind, "when it is made", but=ValidationError):
            return cast(Rubric, TypeAdapter(kind).validate_python(arguments))
    except ValidationError as error:
        fault = error.errors()[0]
        if fault["loc"]:
            message = f"argument {'.'.join(map(str, fault['loc']))}: {fault_message(fault, None)}"
        else:  # the rubric's own check, which names the argument itself
            message = f"argument {fault['msg'].removeprefix('Value error, ')}"
        raise BadRubricArgument(f"rubric {point.name}, {message}") from error


def _load(point: EntryPoint) -> Any:
    """Return the class of a rubric.

    Raises RubricNotImportable if the import of another distribution's code fails, or finds something else.
    """
    try:
        kind = point.load()
    # The code of others may raise anything, and may also end the process.
    except (Exception, SystemExit) as error:
        # The command line names the extra that an import of ours lacks.
        if point.module.partition(".")[0] == _OURS:
            raise
        line = exception_text(error).partition("\n")[0]
        raise RubricNotImportable(f"rubric {point.name}: importing {point.module} failed: {line}") from error
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        raise RubricNotImportable(f"rubric {point.name}: should be a dataclass with the methods of a rubric")
    return kind


def _fields(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind) if field.init)
