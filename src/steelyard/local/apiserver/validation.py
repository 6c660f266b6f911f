"""Values against a structural schema: JSON Schema by jsonschema-rs, and by hand what Kubernetes adds to it."""

from typing import Any

import jsonschema_rs
from jsonschema_rs import ValidationErrorKind as Kind

from steelyard.local.apiserver.errors import Cause, invalid, required, shown, unsupported
from steelyard.local.apiserver.unchanged import is_unchanged
from steelyard.types import Json, mapping, sequence

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
_FORMATS = ("date-time", "date", "email", "hostname", "ipv4", "ipv6", "uri", "uuid")
_JSON_TYPE = {"dict": "object", "list": "array", "str": "string", "bool": "boolean", "int": "integer"}
_JSON_TYPE |= {"float": "number", "NoneType": "null"}


class Validator:
    """One schema, compiled."""

    def __init__(self, schema: Json) -> None:
        self._schema = schema
        # Draft 4 has the boolean exclusiveMinimum of Kubernetes' schemas.
        self._compiled = jsonschema_rs.Draft4Validator(
            _json_schema(schema, root=True), validate_formats=True, pattern_options=_PATTERNS
        )
        self._keyed = _has_keys(schema)

    def causes(self, obj: Json, old: Json | None = None) -> list[Cause]:
        """Return the faults of an object that it did not have before; its metadata is not checked."""
        return self.causes_of(_without_metadata(obj), _without_metadata(old) if old else None)

    def causes_of(self, value: Any, old: Any = None) -> list[Cause]:
        causes: list[Cause] = []
        # Much faster than the search for faults, and nearly every object is right.
        if not self._compiled.is_valid(value):
            errors = self._compiled.iter_errors(value)
            causes += [
                _cause(error)
                for error in errors
                # Kubernetes ratchets: what was wrong before and has not changed is not refused.
                if old is None or not is_unchanged(self._schema, value, old, error.instance_path)
            ]
        if self._keyed:
            causes += _duplicates(self._schema, value, "")
        return causes


def _without_metadata(obj: Json) -> Json:
    return {key: member for key, member in obj.items() if key != "metadata"}


# ---- lowering


def _json_schema(schema: Json, *, root: bool = False) -> Json:
    """JSON Schema for what Kubernetes means by a structural one."""
    lowered: Json = {key: schema[key] for key in _KEPT if key in schema and not _is_idle(key, schema[key])}
    if "required" in lowered:
        lowered["required"] = list(dict.fromkeys(lowered["required"]))
    if schema.get("format") in _FORMATS:
        lowered["format"] = schema["format"]
    if schema.get("x-kubernetes-int-or-string"):
        lowered["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    elif kind := schema.get("type"):
        # JSON Schema's draft 4 has no `nullable`: null is a type beside the other.
        lowered["type"] = [kind, "null"] if schema.get("nullable") else kind
    if "items" in schema:
        lowered["items"] = _json_schema(schema["items"])
    if isinstance(extra := schema.get("additionalProperties"), dict):
        lowered["additionalProperties"] = _json_schema(extra)
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


def _is_idle(word: str, value: Any) -> bool:
    """Tell whether a word bounds nothing: a real server takes it in a definition, JSON Schema does not."""
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


def _cause(error: "jsonschema_rs.ValidationError") -> Cause:
    path, value = _field(error.instance_path), error.instance
    body = f"{path} in body"
    match error.kind:
        case Kind.Required(property=name):
            return required(f"{path}.{name}".removeprefix("."))
        case Kind.Type(types=wanted):
            kind_name = _JSON_TYPE[type(value).__name__]
            text = f'Invalid value: "{kind_name}": {body} must be of type {_first(wanted)}: "{kind_name}"'
            return Cause(path, text, "FieldValueTypeInvalid")
        case Kind.Enum(options=options):
            return unsupported(path, value, [str(option) for option in options])
        case Kind.Pattern(pattern=pattern):
            return invalid(path, value, f"{body} should match '{pattern}'")
        case Kind.Format(format=name):
            return invalid(path, value, f"{body} must be of type {name}: {shown(value)}")
        case Kind.MaxLength(limit=limit):
            return Cause(path, f"Too long: may not be more than {limit} bytes", "FieldValueTooLong")
        case Kind.MaxItems(limit=limit) | Kind.MaxProperties(limit=limit):
            count = len(value) if isinstance(value, list | dict) else 0
            return Cause(path, f"Too many: {count}: must have at most {limit} items", "FieldValueTooMany")
        case other:
            rule = _LIMITS.get(type(other).__name__.rpartition("_")[2])
            # The library's own message shows the value: braces in it are no fields to fill in.
            text = rule.format(limit=getattr(other, "limit", "")) if rule else error.message
            return invalid(path, value, f"{body} {text}")


def _first(types: object) -> object:
    return types[0] if isinstance(types, list | tuple) else types


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
            causes.append(Cause(f"{path}[{index}]", f"Duplicate value: {shown(own)}", "FieldValueDuplicate"))
        seen.append(own)
    return causes
