"""Faults that pydantic finds, in words: what is wrong with a field's value, and what is allowed there.

pydantic's own message for an unknown field names neither its value nor the fields that exist.
"""

import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import get_args, get_origin

from pydantic import BaseModel, SecretBytes, SecretStr, ValidationError
from pydantic_core import ErrorDetails

from steelyard_common.types import value_text
from steelyard_schema.base import LABEL_KEY_PATTERN
from steelyard_schema.family import REFERENCE_PATTERN, TAG_PATTERN
from steelyard_schema.ids import ID_PATTERN, UUID4_PATTERN
from steelyard_schema.kubernetes import LABEL_VALUE_PATTERN, QUANTITY_PATTERN

LONGEST_VALUE = 80
"""Maximum characters of a wrong value that a message repeats."""
_MOST_BITS = 256
_SHOULD = "should be "
_OWN_WORDS = {"value_error", "assertion_error"}
"""Types of faults whose messages are the schema's own, and name the value where that helps."""
_MOST_NAMED = 40
_PATTERN_WORDS = {
    ID_PATTERN: "an id, of 32 digits and letters from a to f",
    LABEL_KEY_PATTERN: "a Kubernetes label key, such as example.com/team",
    LABEL_VALUE_PATTERN: "at most 63 letters, digits, hyphens, dots and underscores, with a letter or a digit at both "
    "ends",
    QUANTITY_PATTERN: "a quantity of Kubernetes below 8Ei, such as 500m, 2 or 4Gi",
    UUID4_PATTERN: "the id of an entity, as the platform gave it: 32 digits and letters from a to f",
    REFERENCE_PATTERN: "an id, of 32 digits and letters from a to f, or FAMILY@TAG with the id of a family",
    TAG_PATTERN: "a tag of at most 127 letters, digits, hyphens, dots and underscores, the first no hyphen or dot",
}
"""Words for the patterns that users meet."""
_ABOUT_VALUES = ("Value error, ", "Input ", "String ")
"""Beginnings of pydantic's messages, which say nothing."""


def faults_text(error: ValidationError, prefix: str = "", model: type[BaseModel] | None = None) -> str:
    """Return all faults of a validation in one line: each field's path behind `prefix`, then what is wrong there.

    A fault of the whole value has the prefix alone. With `model`, an unknown field's fault names the fields that exist.
    """
    return "; ".join(_with_path(fault, prefix, model) for fault in error.errors(include_url=False))


def error_text(error: BaseException) -> str:
    """Return what an exception says; the faults of a validation in our words, in one line."""
    return faults_text(error) if isinstance(error, ValidationError) else str(error)


def exception_text(error: BaseException) -> str:
    """Return an exception's type, and what it says as `error_text` has it."""
    said = error_text(error)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def exception_line(error: BaseException, folders: Sequence[Path]) -> str:
    """Return an exception's type and its first line, with its last place below the folders if there is one."""
    place = place_in(error, folders)
    line = exception_text(error).partition("\n")[0]
    return f"{line} ({place})" if place else line


def place_in(error: BaseException, folders: Sequence[Path]) -> str:
    """Return the last place of an error's way in files below the folders, such as `a/b.py, line 7`; empty for none.

    Modules lie in working folders whose names say nothing, so the path is that within its folder.
    """
    places = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    # The file that cannot be read has no frame of its own. Users' code may raise this error with anything in it.
    if isinstance(error, SyntaxError) and isinstance(error.filename, str):
        places.append((error.filename, error.lineno))
    for filename, line in reversed(places):
        for folder in folders:
            if line is not None and (path := Path(filename)).is_relative_to(folder):
                return f"{path.relative_to(folder)}, line {line}"
    return ""


def _with_path(fault: ErrorDetails, prefix: str, model: type[BaseModel] | None) -> str:
    path = ".".join(map(str, fault["loc"]))
    field = prefix + path if path else prefix.rstrip(".")
    message = fault_message(fault, model)
    return f"{field}: {message}" if field else message


def fault_message(fault: ErrorDetails, model: type[BaseModel] | None) -> str:
    """Return what is wrong with the value, and what is allowed in its place; `model` is what the whole should be.

    The value is not repeated where the model hides its input, and where it is, or under its name could be, a secret.
    """
    message, value = fault["msg"], fault.get("input")
    for beginning in _ABOUT_VALUES:
        message = message.removeprefix(beginning)
    message = message.replace("valid tuple", "list").replace("valid list", "list")
    is_unknown = fault["type"] in {"extra_forbidden", "unexpected_keyword_argument"}
    short = _is_short(value) and (model is None or not _is_hidden(model, fault["loc"], is_unknown))
    if fault["type"] == "missing":
        return "is missing"
    if is_unknown:
        with_value = f", with the value {_format_value(value)}" if short else ""
        names = sorted(_fields_at(model, fault["loc"][:-1])) if model is not None else []
        known = f"; there are {', '.join(names[:_MOST_NAMED])}" if names else ""
        return f"is not a field here{with_value}{known}"
    if fault["type"] in {"model_type", "dataclass_type"}:
        message = _object_text(model, fault["loc"])
    if fault["type"] in _OWN_WORDS or not short:
        return message
    if words := _PATTERN_WORDS.get(fault.get("ctx", {}).get("pattern", "")):
        message = f"should be {words}"
    return f"{message}, and is {_format_value(value)}"


def _object_text(model: type[BaseModel] | None, path: Sequence[int | str]) -> str:
    """Return what should be where something else than an object stands."""
    names = sorted(_fields_at(model, path)) if model is not None else []
    with_fields = f" with fields such as {', '.join(names[:_MOST_NAMED])}" if names else ""
    return f"should be an object{with_fields}"


def join_messages(messages: Sequence[str]) -> str:
    """Return one message for what several forms of one field say of its value.

    "should be A, and is 1" and "should be B, and is 1" become "should be A or B, and is 1".
    """
    parts = [message.rpartition(", and is ") for message in messages]
    if (
        len(messages) > 1
        and len({value for _, _, value in parts}) == 1
        and all(said.startswith(_SHOULD) for said, _, _ in parts)
    ):
        allowed = " or ".join(said.removeprefix(_SHOULD) for said, _, _ in parts)
        return f"{_SHOULD}{allowed}, and is {parts[0][2]}"
    return "; ".join(messages)


def _is_hidden(model: type[BaseModel], path: Sequence[int | str], is_unknown: bool) -> bool:
    """Return whether what stands at a path may be a secret: an unknown field may be one whose name is misspelt."""
    if model.model_config.get("hide_input_in_errors"):
        return True
    if not is_unknown:
        return any(_has_secret(kind) for kind in _kinds_at(model, path))
    return any(
        _has_secret(field.annotation)
        for kind in _models(_kinds_at(model, path[:-1]))
        for field in kind.model_fields.values()
    )


def _has_secret(kind: object) -> bool:
    """Return whether a type is that of a secret, or a list or a table of secrets."""
    return kind in {SecretStr, SecretBytes} or any(map(_has_secret, get_args(kind)))


def _is_short(value: object) -> bool:
    # Python refuses to write numbers of thousands of digits.
    too_large = isinstance(value, int) and value.bit_length() > _MOST_BITS
    return isinstance(value, str | int | float | None) and not too_large


def _format_value(value: object) -> str:
    text = str(value)
    return value_text(value) if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]!r}..."


def _fields_at(model: type[BaseModel], path: Sequence[int | str]) -> set[str]:
    """Return the names of the fields at a fault's path; none where the path leads to no model."""
    return {
        field.alias or name
        for kind in _models(_kinds_at(model, path))
        for name, field in kind.model_fields.items()
        if name != "schemaVersion"
    }


def _kinds_at(model: type[BaseModel], path: Sequence[int | str]) -> list[object]:
    """Return the types of what stands at a fault's path."""
    kinds: list[object] = [model]
    for part in path:
        kinds = [inner for kind in kinds for inner in _below(kind, part)]
    return kinds


def _below(kind: object, part: int | str) -> Iterator[object]:
    """Yield the types of what `part` of a path leads to: a field, an entry, or one alternative of a union."""
    for model in _models([kind]):
        if model.__name__ == part:  # pydantic names the alternative of a union that it has tried
            yield model
        for name, field in model.model_fields.items():
            if part in {field.alias, name}:
                yield field.annotation
            elif field.default == part and field.discriminator is None:
                yield model  # the alternative that its `kind` has chosen
    if get_origin(kind) in {list, dict}:
        yield get_args(kind)[-1]
    elif not isinstance(kind, type):
        for inner in get_args(kind):
            yield from _below(inner, part)


def _models(kinds: Sequence[object]) -> Iterator[type[BaseModel]]:
    for kind in kinds:
        if isinstance(kind, type) and get_origin(kind) is None and issubclass(kind, BaseModel):
            yield kind
        elif get_origin(kind) not in {list, dict}:
            yield from _models([argument for argument in get_args(kind) if not isinstance(argument, str)])
