"""Faults that pydantic reports, in the words of the authors of task files."""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from steelyard_common.types import JsonValue, shorten
from steelyard_evaluation.runs.tasks.model import Sampling, Task
from steelyard_evaluation.runs.tasks.positions import Document, Fault, Path

_SHOULD: Mapping[str, str] = {
    "string_type": "should be text",
    "string_too_short": "should not be empty",
    "int_type": "should be a whole number",
    "int_from_float": "should be a whole number",
    "float_type": "should be a number",
    "bool_type": "should be true or false",
    "list_type": "should be a list",
    "dict_type": "should be an object of name: value",
    "model_type": "should be an object of name: value",
    "model_attributes_type": "should be an object of name: value",
    "finite_number": "should be a finite number",
}
_BOUNDS: Mapping[str, tuple[str, str]] = {
    "greater_than": ("gt", "should be more than"),
    "greater_than_equal": ("ge", "should be at least"),
    "less_than": ("lt", "should be less than"),
    "less_than_equal": ("le", "should be at most"),
    "too_short": ("min_length", "should have this many items at least:"),
    "too_long": ("max_length", "should have this many items at most:"),
}
Error = Mapping[str, Any]


def list_faults(error: ValidationError, document: Document) -> Iterator[Fault]:
    """Each fault once, with its place in the file."""
    several: dict[Path, list[Error]] = {}
    for fault in error.errors():
        # A union reports one fault for each of its branches, all at the same place of the file.
        several.setdefault(_path(fault["loc"], document.data), []).append(fault)
    for path, errors in several.items():
        first = errors[0]
        # At its parent: what is missing has no place in the file.
        if first["type"] == "missing":
            parent = path[:-1]
            yield Fault(document.key(parent), path, _missing(path))
        elif first["type"] == "extra_forbidden":
            yield Fault(document.key(path), path, _unknown(path))
        else:
            should = list(dict.fromkeys(_should(error) for error in errors))
            words = " or ".join([should[0], *(text.removeprefix("should be ") for text in should[1:])])
            yield Fault(
                document.place(path), path, f"{short(first['input'])}: {words}{_quote_advice(errors)}"
            )


def misspelt(sampling: JsonValue, path: Path, document: Document) -> Iterator[Fault]:
    """Parameters that are nearly ours: any other name is the endpoint's."""
    known = Sampling.model_fields
    for name in sampling if isinstance(sampling, dict) else ():
        if name not in known and (near := nearest(str(name), known, cutoff=0.85)):
            place = document.key((*path, name))
            yield Fault(place, (*path, name), f"there is no such parameter; did you mean {near}?")


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    matches = difflib.get_close_matches(name.lower().replace("-", "_"), list(known), 1, cutoff)
    return matches[0] if matches else None


def short(value: JsonValue) -> str:
    return shorten(" ".join(repr(value).split()), 60)


def _path(loc: tuple[int | str, ...], data: JsonValue) -> Path:
    """The path in the file, without pydantic's own steps, such as the branch of a union."""
    path: Path = ()
    for number, step in enumerate(loc):
        last = number == len(loc) - 1
        if (
            isinstance(data, dict)
            and isinstance(step, str)
            and (step in data or (last and _is_field(path, step)))
        ):
            path, data = (*path, step), data.get(step)
        elif isinstance(data, list) and isinstance(step, int) and step < len(data):
            path, data = (*path, step), data[step]
    return path


def _is_field(path: Path, name: str) -> bool:
    model = _model_at(path)
    return model is not None and name in model.model_fields


def _model_at(path: Path) -> type[BaseModel] | None:
    """The model whose fields stand at `path`."""
    model: type[BaseModel] | None = Task
    for step in path:
        if isinstance(step, int):
            continue
        field = None if model is None else model.model_fields.get(step)
        model = None if field is None else _model_in(field.annotation)
    return model


def _model_in(annotation: JsonValue) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for part in get_args(annotation) if (model := _model_in(part))), None)


def _missing(path: Path) -> str:
    model = _model_at(path[:-1])
    field = None if model is None else model.model_fields.get(str(path[-1]))
    return "is missing" + (f": {field.description}" if field is not None and field.description else "")


def _unknown(path: Path) -> str:
    model = _model_at(path[:-1])
    known = list(model.model_fields) if model is not None else []
    near = nearest(str(path[-1]), known)
    return f"there is no such field; {f'did you mean {near}?' if near else 'there are ' + ', '.join(known)}"


def _should(fault: Error) -> str:
    kind, context = fault["type"], fault.get("ctx") or {}
    if kind in _BOUNDS:
        key, words = _BOUNDS[kind]
        return f"{words} {context[key]}"
    if kind == "literal_error":
        return f"should be {context['expected']}".replace("'", "")
    if kind == "value_error":
        return str(context["error"])
    if kind == "string_pattern_mismatch":
        return "should be letters, digits, '.', '_' and '-', 64 at most"
    return _SHOULD.get(kind, str(fault["msg"]))


def _quote_advice(errors: list[Error]) -> str:
    """YAML reads yes, no, on, off, 12 and 1.5 as something else than text."""
    value = errors[0]["input"]
    wants_text = {error["type"] for error in errors} == {"string_type"}
    return "; put it in quotes" if wants_text and isinstance(value, bool | int | float) else ""
