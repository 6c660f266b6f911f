"""Differences between what a case saw on the two servers, and those that are known."""

import fnmatch
import json
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from steelyard_common.types import Json, JsonValue

ACCEPTED = Path(__file__).with_name("accepted.toml")
ABSENT = "(absent)"


@dataclass(frozen=True)
class Difference:
    """One place of what a case saw."""

    case: str
    path: str
    here: JsonValue
    there: JsonValue

    def __str__(self) -> str:
        here, there = (json.dumps(value)[:600] for value in (self.here, self.there))
        return f"{self.case}: {self.path}\n      here: {here}\n      real: {there}"


@dataclass(frozen=True)
class AcceptedDifference:
    """A difference that stays, with its reason. Patterns are those of the shell."""

    cases: tuple[str, ...]
    path: str
    reason: str

    def covers(self, difference: Difference) -> bool:
        named = any(fnmatch.fnmatchcase(difference.case, case) for case in self.cases)
        return named and fnmatch.fnmatchcase(difference.path, self.path)


def accepted() -> list[AcceptedDifference]:
    return [AcceptedDifference(**row) for row in tomllib.loads(ACCEPTED.read_text())["difference"]]


def differences(here: dict[str, Json], there: dict[str, Json]) -> list[Difference]:
    """All differences, in order; a case that could not be seen on either server is one."""
    rows = []
    for case in sorted(there):
        rows += [Difference(case, *row) for row in _between(here[case], there[case], "")]
        if "failure" in here[case] and "failure" in there[case]:
            rows.append(Difference(case, "failure", here[case], there[case]))
    return rows


def _between(here: JsonValue, there: JsonValue, path: str) -> Iterator[tuple[str, JsonValue, JsonValue]]:
    if isinstance(here, dict) and isinstance(there, dict):
        for key in sorted({*here, *there}):
            where = f"{path}/{key}" if path else key
            yield from _between(here.get(key, ABSENT), there.get(key, ABSENT), where)
    elif here != there:
        yield path, here, there
