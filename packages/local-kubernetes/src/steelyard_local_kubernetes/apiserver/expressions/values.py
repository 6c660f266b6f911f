"""Objects as CEL sees them: by their schema's types, under names that CEL can read. And examples of values."""

import base64
import binascii
import re
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from steelyard_common.types import Json, mapping

_NAME = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*")
_RESERVED = (
    "true false null in as break const continue else for function if import let loop package namespace "
)
_RESERVED += "return var void while"
_STANDS_FOR = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_UNITS = {"h": 3600, "m": 60, "s": 1, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_TEXT: Json = {"type": "string"}
_METADATA: Json = {"type": "object", "properties": {"name": _TEXT, "generateName": _TEXT}}
ROOT_FIELDS: Json = {"apiVersion": _TEXT, "kind": _TEXT, "metadata": _METADATA}


@cache
def escape_name(name: str) -> str | None:
    """A field's name in CEL; None for one that CEL cannot read."""
    if not _NAME.fullmatch(name):
        return None
    if name in _RESERVED.split():
        return f"__{name}__"
    return re.sub(r"__|[./-]", lambda match: _STANDS_FOR[match[0]], name)


def readable_fields(schema: Json) -> Json:
    """The fields that rules may read; every whole object has some of its own."""
    own: Json = mapping(schema, "properties")
    return {**own, **ROOT_FIELDS} if schema.get("x-kubernetes-embedded-resource") else own


def with_root_fields(schema: Json) -> Json:
    """A kind's schema with what rules at the root may read of every object."""
    return {**schema, "x-kubernetes-embedded-resource": True}


def cel_value(schema: Json, value: Any, like: Any = None) -> Any:
    """`value` by its schema. Lists that are sets or maps come in the order of `like`: theirs has no meaning."""
    match value:
        case dict():
            return _object(schema, value, like)
        case list():
            items = mapping(schema, "items")
            return [cel_value(items, item) for item in _in_order(schema, value, like)]
        case str():
            return _text(schema.get("format") or "", value)
        # JSON writes 1.0 as 1; CEL's operators take two numbers of one type only.
        case int() if schema.get("type") == "number" and not isinstance(value, bool):
            return float(value)
        case _:
            return value


def _object(schema: Json, value: Json, like: Any) -> Json:
    like = like if isinstance(like, dict) else {}
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        return {key: cel_value(extra, member, like.get(key)) for key, member in value.items()}
    values: Json = {}
    fields = readable_fields(schema)
    for name, member in value.items():
        if name in fields and member is not None and (key := escape_name(name)):
            values[key] = cel_value(fields[name], member, like.get(name))
    return values


def _in_order(schema: Json, value: list[Any], like: Any) -> list[Any]:
    if not isinstance(like, list) or schema.get("x-kubernetes-list-type") not in ("set", "map"):
        return value
    last = len(like)
    at = {repr(item_key(schema, item)): last - 1 - place for place, item in enumerate(reversed(like))}
    places = [at.get(repr(item_key(schema, item)), last) for item in value]
    return [item for _, item in sorted(zip(places, value, strict=True), key=lambda pair: pair[0])]


def item_key(schema: Json, item: Any) -> Any:
    """Return the key that distinguishes an item of a list."""
    keys = schema.get("x-kubernetes-list-map-keys")
    return [item.get(key) for key in keys] if keys and isinstance(item, dict) else item


def _text(form: str, value: str) -> Any:
    """Texts with a format are moments, spans and bytes in CEL."""
    try:
        match form:
            case "date-time" | "date":
                moment = datetime.fromisoformat(value)
                # A `date` has no zone; CEL's timestamps all have one.
                return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            case "duration":
                parts = re.findall(r"(\d+(?:\.\d*)?|\.\d+)(h|ms|us|µs|ns|m|s)", value)
                if "".join(number + unit for number, unit in parts) != value.lstrip("+-"):
                    raise ValueError(value)
                seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
                return timedelta(seconds=-seconds if value.startswith("-") else seconds)
            case "byte":
                return base64.b64decode(value, validate=True)
    except (ValueError, binascii.Error):
        pass  # the schema's own check says so
    return value


# ---- examples

_EXAMPLES: Json = {"integer": 1, "number": 1.0, "boolean": True, "string": "a"}
_FORMS = {"date-time": "2000-01-01T00:00:00Z", "date": "2000-01-01", "duration": "1s", "byte": "YQ=="}


def example(schema: Json) -> Any:
    """A value with every field of the schema, to try a rule on."""
    if "enum" in schema:
        return schema["enum"][0]
    if schema.get("x-kubernetes-int-or-string"):
        # Either type would do: `is_loose` keeps a failure on the example from counting.
        return 1
    kind = schema.get("type")
    if kind == "array":
        return [example(mapping(schema, "items"))]
    if kind == "string":
        return _FORMS.get(schema.get("format") or "", "a")
    if kind in _EXAMPLES:
        return _EXAMPLES[kind]
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        return {"a": example(extra)}
    return {name: example(below) for name, below in readable_fields(schema).items()}


def is_loose(schema: Json) -> bool:
    """Return whether values may differ from the example in their types or keys."""
    if schema.get("x-kubernetes-int-or-string") or isinstance(schema.get("additionalProperties"), dict):
        return True
    below = [*readable_fields(schema).values()]
    if isinstance(items := schema.get("items"), dict):
        below.append(items)
    return any(is_loose(subschema) for subschema in below)
