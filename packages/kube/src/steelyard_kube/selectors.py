"""Label and field selectors as predicates over raw objects, for code that serves or filters objects itself."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from steelyard_common.types import Json
from steelyard_kube.errors import ApiError
from steelyard_kube.label_selectors import BadSelector, Requirement, requirements
from steelyard_kube.objects import read_labels

Matcher = Callable[[Json], bool]

_TERMS = re.compile(r"((?:[^\\,]|\\.)*)(?:,|$)", re.DOTALL)
_TERM = re.compile(r"(?P<path>[^=!]*?)(?P<op>!=|==|=)(?P<value>.*)", re.DOTALL)
_ESCAPED = re.compile(r"\\([\\,=])")


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
        own = read_labels(obj)
        return all(matches(own) for matches in labels) and all(matches(obj) for matches in fields)

    return matches


def parse_labels(selector: str) -> list[Requirement]:
    """Requirements that must all hold."""
    try:
        return requirements(selector)
    except BadSelector as error:
        raise bad_request(str(error)) from error


@dataclass(frozen=True, slots=True)
class FieldTest:
    """`path=value` or `path!=value`; an absent field is the empty text."""

    path: str
    value: str
    equal: bool = True

    def __call__(self, obj: Json) -> bool:
        return (field_text(obj, self.path.split(".")) == self.value) is self.equal


def parse_fields(selector: str) -> list[FieldTest]:
    """`path=value`, `path==value`, `path!=value`; empty terms are passed over, as Kubernetes does."""
    terms = [term for term in _TERMS.findall(selector) if term]
    return [test for term in terms if (test := _field(term, selector)).path or test.value]


def _field(text: str, selector: str) -> FieldTest:
    match = _TERM.fullmatch(text)
    if not match:
        raise bad_request(f"invalid selector: '{selector}'; can't understand '{text}'")
    value = _ESCAPED.sub(r"\1", match["value"])
    return FieldTest(match["path"], value, match["op"] != "!=")


def field_text(obj: Json, path: list[str]) -> str:
    """The field as a selector compares it."""
    here: object = obj
    for key in path:
        here = here.get(key) if isinstance(here, dict) else None
    if isinstance(here, bool):
        return str(here).lower()
    return "" if here is None else str(here)
