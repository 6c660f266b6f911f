"""Label and field selectors as predicates over raw objects, for whoever serves or filters objects itself."""

import re
from collections.abc import Callable, Mapping

from steelyard.kube.errors import ApiError
from steelyard.kube.objects import labels_of
from steelyard.types import Json

Matcher = Callable[[Json], bool]
Requirement = Callable[[Mapping[str, str]], bool]

_SET = re.compile(r"^(?P<key>\S+)\s+(?P<op>in|notin)\s*\((?P<values>[^()]*)\)$")
_EQUAL = re.compile(r"^(?P<key>[^\s=!]+)\s*(?P<op>==|=|!=)\s*(?P<value>[^\s=!]*)$")
_EXISTS = re.compile(r"^(?P<not>!)?\s*(?P<key>[^\s=!()]+)$")


def bad_request(message: str) -> ApiError:
    return ApiError(message, status=400, reason="BadRequest")


def everything(obj: Json) -> bool:
    """The predicate of no selector."""
    return True


def matcher(label_selector: str, field_selector: str) -> Matcher:
    """The predicate for both selectors of a list or a watch; an empty one matches everything."""
    labels = parse_labels(label_selector)
    fields = parse_fields(field_selector)
    if not labels and not fields:
        return everything

    def matches(obj: Json) -> bool:
        own = labels_of(obj)
        return all(matches(own) for matches in labels) and all(matches(obj) for matches in fields)

    return matches


def parse_labels(selector: str) -> list[Requirement]:
    """Equality- and set-based requirements, all of which must hold."""
    if not selector.strip():
        return []
    # Commas inside parentheses separate the values of a set, not requirements.
    return [_requirement(part.strip()) for part in re.split(r",(?![^()]*\))", selector)]


def _requirement(text: str) -> Requirement:
    if match := _SET.match(text):
        key, values = match["key"], {value.strip() for value in match["values"].split(",")}
        if match["op"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: key not in labels or labels[key] not in values
    if match := _EQUAL.match(text):
        key, value = match["key"], match["value"]
        if match["op"] == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if match := _EXISTS.match(text):
        key, wanted = match["key"], match["not"] is None
        return lambda labels: (key in labels) is wanted
    raise bad_request(f"unable to parse requirement: {text!r}")


def parse_fields(selector: str) -> list[Matcher]:
    """`path=value`, `path==value`, `path!=value`; an absent field is the empty text."""
    return [_field(part.strip()) for part in selector.split(",")] if selector.strip() else []


def _field(text: str) -> Matcher:
    match = _EQUAL.match(text)
    if not match:
        raise bad_request(f"invalid field selector: {text!r}")
    path, value, equal = match["key"].split("."), match["value"], match["op"] != "!="
    return lambda obj: (field_text(obj, path) == value) is equal


def field_text(obj: Json, path: list[str]) -> str:
    """The field as a selector compares it."""
    here: object = obj
    for key in path:
        here = here.get(key) if isinstance(here, dict) else None
    if isinstance(here, bool):
        return str(here).lower()
    return "" if here is None else str(here)
