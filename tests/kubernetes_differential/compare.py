"""Differences between two servers' answers to one case, and the list of those that are accepted."""

import fnmatch
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from steelyard_common.types import Json, JsonValue
from tests.kubernetes_differential.case import Case
from tests.kubernetes_differential.client import at

ABSENT = object()
ACCEPTED = Path(__file__).with_name("accepted.toml")


@dataclass(frozen=True)
class Difference:
    """One place in the answer to one step; `here` is the embedded server's."""

    case: str
    step: int
    path: str
    here: Any
    there: Any

    def __str__(self) -> str:
        return f"{self.path}\n      here: {_shown(self.here)}\n      real: {_shown(self.there)}"


@dataclass(frozen=True)
class AcceptedDifference:
    """A reason for which differences stay, and their places: cases, steps (all, if none are named) and paths.

    Cases and paths are patterns of the shell.
    """

    reason: str
    where: tuple[Json, ...]

    def covers(self, difference: Difference) -> bool:
        return any(
            fnmatch.fnmatchcase(difference.case, place["case"])
            and difference.step in place.get("steps", [difference.step])
            and any(fnmatch.fnmatchcase(difference.path, path) for path in place["paths"])
            for place in self.where
        )


@cache
def accepted() -> tuple[AcceptedDifference, ...]:
    content = tomllib.loads(ACCEPTED.read_text())
    return tuple(
        AcceptedDifference(row["reason"], tuple(row["where"])) for row in content.get("difference", [])
    )


def differences(case: Case, here: list[Json], there: list[Json]) -> list[Difference]:
    """All differences, in order, without those that are accepted."""
    rows = accepted()
    ours, theirs = (
        [causes_by_name(managers_by_name(answer)) for answer in answers] for answers in (here, there)
    )
    return [
        difference
        for difference in _differences(case, ours, theirs)
        if not any(row.covers(difference) for row in rows)
    ]


def managers_by_name(value: JsonValue) -> Any:
    """Return a copy in which the entries of all `managedFields` are in the order of their managers' names.

    A server sorts them by time, in whole seconds, before name. Two writes of one case may or may not share a second,
    on either server: the order that the clock made says nothing about the server.
    """
    match value:
        case list():
            return [managers_by_name(below) for below in value]
        case dict():
            content = {key: managers_by_name(below) for key, below in value.items()}
            if isinstance(entries := content.get("managedFields"), list):
                content["managedFields"] = sorted(entries, key=_manager)
            return content
    return value


def _manager(entry: JsonValue) -> list[str]:
    keys = ("operation", "manager", "apiVersion", "subresource")
    return [str(entry.get(key, "")) for key in keys] if isinstance(entry, dict) else []


def causes_by_name(answer: Json) -> Json:
    """Return an answer in which the causes of a schema's properties are in the order of their names.

    A real server's code looks at the properties in an order that changes from one request to the next. The message,
    which repeats the causes, is left with the place of each.
    """
    match answer:
        case {"body": {"message": str(message), "details": {"causes": [*causes]} as details} as body}:
            for cause in causes:
                message = message.replace(_text_of(cause), "CAUSE", 1)
            sorted_causes = iter(sorted(filter(_is_of_a_property, causes), key=_text_of))
            ordered = [next(sorted_causes) if _is_of_a_property(cause) else cause for cause in causes]
            return {**answer, "body": {**body, "message": message, "details": {**details, "causes": ordered}}}
    return answer


def _is_of_a_property(cause: Json) -> bool:
    return "openAPIV3Schema.properties[" in cause.get("field", "")


def _text_of(cause: Json) -> str:
    return f"{cause.get('field')}: {cause.get('message')}"


def _differences(case: Case, here: list[Json], there: list[Json]) -> Iterator[Difference]:
    for index, step in enumerate(case.steps):
        ours, theirs = (_part(answers[index], getattr(step, "compare", ())) for answers in (here, there))
        if ours.get("status", 0) // 100 != theirs.get("status", 0) // 100:
            # One of the two refuses: nothing else of the answers can be compared.
            yield Difference(case.name, index, "answer", _summary(here[index]), _summary(there[index]))
            continue
        for path, a, b in _between(ours, theirs, ""):
            yield Difference(case.name, index, path, a, b)


def _summary(answer: Json) -> JsonValue:
    body = answer.get("body")
    return [answer.get("status"), body.get("message", body.get("kind")) if isinstance(body, dict) else body]


def _part(answer: Json, paths: tuple[str, ...]) -> Json:
    """The answer with only those parts of its body, or of its events, that the step compares."""
    if not paths or "failure" in answer:
        return answer
    if "events" in answer:
        chosen = [
            {path: at(event, path) for path in paths} if isinstance(event, dict) else event
            for event in answer["events"]
        ]
        return {**answer, "events": chosen}
    return {**answer, "body": {path: at(answer.get("body"), path) for path in paths}}


def _between(here: JsonValue, there: JsonValue, path: str) -> Iterator[tuple[str, Any, Any]]:
    match here, there:
        case dict(), dict():
            for key in sorted({*here, *there}):
                where = f"{path}.{key}" if path else key
                yield from _between(here.get(key, ABSENT), there.get(key, ABSENT), where)
        case list(), list():
            for index in range(max(len(here), len(there))):
                a = here[index] if index < len(here) else ABSENT
                b = there[index] if index < len(there) else ABSENT
                yield from _between(a, b, f"{path}[{index}]")
        case _:
            if here is not there and (here != there or type(here) is not type(there)):
                yield path, here, there


def _shown(value: Any) -> str:
    text = "(absent)" if value is ABSENT else orjson.dumps(value).decode()
    return text if len(text) <= 400 else f"{text[:400]} ... ({len(text)} characters)"
