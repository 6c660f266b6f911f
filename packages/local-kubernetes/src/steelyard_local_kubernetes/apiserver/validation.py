"""Values against a structural schema: JSON Schema by jsonschema-rs, and by hand what Kubernetes adds to it."""

import base64
import binascii
from collections.abc import Iterator, Sequence
from typing import Any

import jsonschema_rs
import orjson
from jsonschema_rs import ValidationErrorKind as Kind

from steelyard_common.types import Json, mapping, sequence
from steelyard_local_kubernetes.apiserver.errors import (
    Cause,
    invalid,
    missing_value,
    not_supported,
    too_many,
    value_text,
)
from steelyard_local_kubernetes.apiserver.expressions.values import item_key

_KEPT = [
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "pattern",
    "required",
]
# In one pass over the text, as on a real server: others may take for ever.
_PATTERNS = jsonschema_rs.RegexOptions()
_FORMATS = ("byte", "date-time", "date", "email", "hostname", "ipv4", "ipv6", "uri", "uuid")
_JSON_TYPE = {"dict": "object", "list": "array", "str": "string", "bool": "boolean", "int": "integer"}
_JSON_TYPE |= {"float": "number", "NoneType": "null"}
_MAX_INT64 = (1 << 63) - 1
_NONE = object()
_SORTED = orjson.OPT_SORT_KEYS


class Validator:
    """One schema, compiled."""

    def __init__(self, schema: Json) -> None:
        self._schema = schema
        # Draft 4 has the boolean exclusiveMinimum of Kubernetes' schemas.
        self._compiled = jsonschema_rs.Draft4Validator(
            _json_schema(schema, root=True),
            validate_formats=True,
            pattern_options=_PATTERNS,
            formats={"byte": _is_base64},
        )
        self._keyed = _has_keys(schema)

    def causes(self, obj: Json, old: Json | None = None) -> list[Cause]:
        """Return the faults of an object that it did not have before; its metadata is not checked."""
        return self.find_causes(_without_metadata(obj), _without_metadata(old) if old else None)

    def find_causes(self, value: Any, old: Any = None) -> list[Cause]:
        causes: list[Cause] = []
        # Much faster than the search for faults, and nearly every object is right.
        if not self._compiled.is_valid(value):
            for error in _as_gos(list(self._compiled.iter_errors(value))):
                # Kubernetes ratchets: what was wrong before and has not changed is not refused.
                if old is None or not is_unchanged(self._schema, value, old, error.instance_path):
                    causes += _causes(error)
        if self._keyed:
            causes += _duplicates(self._schema, value, "")
        return causes


def _without_metadata(obj: Json) -> Json:
    return {key: member for key, member in obj.items() if key != "metadata"}


# ---- lowering


def _json_schema(schema: Json, *, root: bool = False) -> Json:
    """JSON Schema for what Kubernetes means by a structural one."""
    lowered: Json = {key: schema[key] for key in _KEPT if key in schema and not _is_idle(key, schema)}
    if "required" in lowered:
        lowered["required"] = list(dict.fromkeys(lowered["required"]))
    if schema.get("format") in _FORMATS:
        lowered["format"] = schema["format"]
    if schema.get("x-kubernetes-int-or-string"):
        lowered["type"] = ["integer", "string"] + ["null"] * bool(schema.get("nullable"))
    elif kind := schema.get("type"):
        # JSON Schema's draft 4 has no `nullable`: null is a second type.
        lowered["type"] = [kind, "null"] if schema.get("nullable") else kind
    if "items" in schema:
        lowered["items"] = _json_schema(schema["items"])
    if isinstance(extra := schema.get("additionalProperties"), dict):
        lowered["additionalProperties"] = _json_schema(extra)
    if schema.get("x-kubernetes-embedded-resource"):
        # An object within another has a type of its own, whether its schema asks for it or not.
        lowered["required"] = [*dict.fromkeys(["apiVersion", "kind", *lowered.get("required", [])])]
    if properties := schema.get("properties"):
        own = {
            key: property_schema
            for key, property_schema in properties.items()
            if not (root and key in ("metadata",))
        }
        lowered["properties"] = {key: _json_schema(property_schema) for key, property_schema in own.items()}
    for word in ("allOf", "anyOf", "oneOf"):
        if word in schema and word not in lowered:
            lowered[word] = [_json_schema(subschema) for subschema in schema[word]]
    if "not" in schema:
        lowered["not"] = _json_schema(schema["not"])
    return lowered


def _is_idle(word: str, schema: Json) -> bool:
    """Return whether a word bounds nothing: a real server takes it in a definition, JSON Schema does not."""
    value = schema[word]
    if word.startswith("exclusive"):
        # It says only whether the bound itself is valid.
        return schema.get(word.removeprefix("exclusive").lower()) is None
    if word in ("required", "enum"):
        return not value
    least = word.startswith("min") and word != "minimum"
    return (least and value < 0) or (word == "multipleOf" and value <= 0)


# ---- wording


def _field(path: list[str | int]) -> str:
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".")


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _as_gos(errors: list["jsonschema_rs.ValidationError"]) -> Iterator["jsonschema_rs.ValidationError"]:
    """Errors that a real server has, too: 4.0 is an integer to it, and of a text it names the first fault alone."""
    texts: dict[str, int] = {}
    for error in errors:
        if (rank := _RANKS.get(type(error.kind).__name__.rpartition("_")[2])) is not None:
            where = str(error.instance_path)
            texts[where] = min(rank, texts.get(where, rank))
    for error in errors:
        rank = _RANKS.get(type(error.kind).__name__.rpartition("_")[2])
        whole = isinstance(error.instance, float) and error.instance.is_integer()
        if whole and isinstance(error.kind, Kind.Type) and "integer" in error.kind.types:
            continue
        if rank is None or rank == texts[str(error.instance_path)]:
            yield error


# A real server checks a text in this order.
_RANKS = {"MaxLength": 0, "MinLength": 1, "Pattern": 2}
_FOUND = {"OneOfNotValid": "none valid", "OneOfMultipleValid": "{0} valid alternatives"}


def _causes(error: "jsonschema_rs.ValidationError") -> list[Cause]:
    kind = type(error.kind).__name__.rpartition("_")[2]
    if kind not in ("AnyOf", *_FOUND):
        return [_cause(error)]
    parts = getattr(error.kind, "context", None) or [[]]
    valid = sum(not part for part in parts)
    text = f'"{_field(error.instance_path)}" must validate '
    if kind == "AnyOf":
        text += "at least one schema (anyOf)"
    else:
        text += f"one and only one schema (oneOf). Found {_FOUND[kind].format(valid)}"
    whole = Cause("<nil>", f'Invalid value: "": {text}')
    return [whole] if valid else [whole, *(_below(part, error.instance_path) for part in parts[0])]


def _below(error: "jsonschema_rs.ValidationError", path: list[str | int]) -> Cause:
    """Cause of an error in a part of a schema, which knows no more than the path from there."""
    cause = _cause(error)
    prefix = _field(path)
    if cause.field == prefix or cause.field.startswith((f"{prefix}.", f"{prefix}[")):
        return cause
    return Cause(f"{prefix}.{cause.field}".strip("."), cause.message, cause.reason)


def _cause(error: "jsonschema_rs.ValidationError") -> Cause:
    path, value = _field(error.instance_path), error.instance
    body = f"{path} in body"
    match error.kind:
        case Kind.Required(property=name):
            return missing_value(f"{path}.{name}".removeprefix("."))
        case Kind.Type(types=wanted):
            kind_name = _JSON_TYPE[type(value).__name__]
            text = f'Invalid value: "{kind_name}": {body} must be of type {_first(wanted)}: "{kind_name}"'
            return Cause(path, text, "FieldValueTypeInvalid")
        case Kind.Enum(options=options):
            return not_supported(path, value, [str(option) for option in options])
        case Kind.Pattern(pattern=pattern):
            return invalid(path, value, f"{body} should match '{pattern}'")
        case Kind.Format(format=name):
            text = f"Invalid value: {value_text(value)}: {body} must be of type {name}: {value_text(value)}"
            return Cause(path, text, "FieldValueTypeInvalid")
        case Kind.MaxLength(limit=limit):
            return Cause(path, f"Too long: may not be more than {limit} bytes", "FieldValueTooLong")
        case Kind.MaxItems(limit=limit) | Kind.MaxProperties(limit=limit):
            return too_many(path, len(value) if isinstance(value, list | dict) else 0, limit)
        case other:
            bound = getattr(other, "multiple_of", None) or getattr(other, "limit", "")
            rule = _LIMITS.get(type(other).__name__.rpartition("_")[2])
            # The library's own message shows the value: braces in it are no fields to fill in.
            text = rule.format(limit=_number(bound)) if rule else error.message
            # Of a list or a map that is too small its size is shown.
            size = len(value) if isinstance(value, list | dict) and rule else None
            if isinstance(bound, int | float) and bound > _MAX_INT64 and isinstance(value, int):
                # As in Go, where such a factor becomes the lowest number.
                value, body = -_MAX_INT64 - 1, f"factor MultipleOf declared for {path} must be positive:"
                text = str(value)
            return invalid(path, value if size is None else size, f"{body} {text}")


def _first(types: object) -> object:
    return ",".join(name for name in types if name != "null") if isinstance(types, list | tuple) else types


def _number(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


_LIMITS = {
    "Minimum": "should be greater than or equal to {limit}",
    "ExclusiveMinimum": "should be greater than {limit}",
    "Maximum": "should be less than or equal to {limit}",
    "ExclusiveMaximum": "should be less than {limit}",
    "MinLength": "should be at least {limit} chars long",
    "MinItems": "should have at least {limit} items",
    "MinProperties": "should have at least {limit} properties",
    "MultipleOf": "should be a multiple of {limit}",
}


# ---- lists that are maps or sets


def _has_keys(schema: Json) -> bool:
    below = [
        schema.get("items"),
        schema.get("additionalProperties"),
        *mapping(schema, "properties").values(),
    ]
    own = schema.get("x-kubernetes-list-type") in ("map", "set")
    return own or any(_has_keys(subschema) for subschema in below if isinstance(subschema, dict))


def _duplicates(schema: Json, value: Any, path: str) -> list[Cause]:
    causes: list[Cause] = []
    if isinstance(value, list):
        causes += _own_duplicates(schema, value, path)
        for index, item in enumerate(value):
            causes += _duplicates(mapping(schema, "items"), item, f"{path}[{index}]")
    elif isinstance(value, dict):
        for name, property_schema in mapping(schema, "properties").items():
            if name in value:
                causes += _duplicates(property_schema, value[name], f"{path}.{name}".removeprefix("."))
    return causes


def _own_duplicates(schema: Json, value: list[Any], path: str) -> list[Cause]:
    keys = sequence(schema, "x-kubernetes-list-map-keys")
    seen, causes = [], []
    kind = schema.get("x-kubernetes-list-type")
    for index, item in enumerate(value if kind in ("map", "set") else ()):
        # Items of a list map are the same by their keys alone, those of a set as a whole.
        own = {key: item.get(key) for key in keys} if kind == "map" and isinstance(item, dict) else item
        if own in seen:
            causes.append(
                Cause(f"{path}[{index}]", f"Duplicate value: {value_text(own)}", "FieldValueDuplicate")
            )
        seen.append(own)
    return causes


def is_unchanged(schema: Json, new: Any, old: Any, path: Sequence[str | int]) -> bool:
    """Return whether the value at `path`, or something that contains it, is unchanged. Items are matched by their keys.

    A schema that has become stricter since does not stop the rest from being written.
    """
    if old is _NONE:
        return False
    # To Python true and 1 are the same.
    if orjson.dumps(new, option=_SORTED) == orjson.dumps(old, option=_SORTED):
        return True
    if not path:
        return False
    step, *rest = path
    if isinstance(new, dict) and isinstance(old, dict) and isinstance(step, str):
        below = mapping(schema, "properties").get(step) or schema.get("additionalProperties")
        below = below if isinstance(below, dict) else {}
        return is_unchanged(below, new.get(step), old.get(step, _NONE), rest)
    # An index is a place in the new list; which old item that was, only the list's keys say.
    if isinstance(new, list) and isinstance(old, list) and isinstance(step, int):
        return is_unchanged(mapping(schema, "items"), new[step], _item_before(schema, new[step], old), rest)
    return False


def _item_before(schema: Json, item: Any, old: list[Any]) -> Any:
    if schema.get("x-kubernetes-list-type") != "map":
        # Only a list map says which old item is the same: at another place an item of another list is a new one.
        return _NONE
    key = item_key(schema, item)
    return next((item for item in old if item_key(schema, item) == key), _NONE)
