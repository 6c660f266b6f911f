"""Structural schemas: what a definition's schema may hold, in the order and the words of a real server.

A real server checks a schema twice: its structure (`_invariants`, `_completeness`), and each of its fields
(`_schema_causes`). Rules are tried last, and those of a schema with other faults not at all.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from steelyard_common.types import Json, mapping, sequence
from steelyard_local_kubernetes.apiserver.errors import (
    Cause,
    forbidden_field,
    invalid,
    missing_value,
    not_supported,
)
from steelyard_local_kubernetes.apiserver.expressions.refusals import rule_causes, wording_causes
from steelyard_local_kubernetes.apiserver.expressions.values import with_root_fields
from steelyard_local_kubernetes.apiserver.rules.go_schema import go_form, root_fault
from steelyard_local_kubernetes.apiserver.validation import Validator

_TYPES = ["array", "boolean", "integer", "number", "object", "string"]
_META = ("metadata", "kind", "apiVersion")
# Words that no schema here has; the first is refused only where nothing else is wrong.
_UNSUPPORTED = (
    "$schema", "id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref",
)  # fmt: skip
_JUNCTORS = ("anyOf", "allOf", "oneOf")
_SINGLE = ("items", "additionalProperties", "not")
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
# Words that say what a value is, and not which values are valid; by what they must be where only the latter is said.
_GENERIC = {
    "type": "empty", "default": "undefined", "title": "empty", "description": "empty", "nullable": "false",
    "x-kubernetes-preserve-unknown-fields": "false", "x-kubernetes-embedded-resource": "false",
    "x-kubernetes-int-or-string": "false", "x-kubernetes-list-map-keys": "empty",
    "x-kubernetes-list-type": "undefined", "x-kubernetes-map-type": "undefined", "x-kubernetes-validations": "empty",
}  # fmt: skip
_INTEGER_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_EMPTY = {"root": "at the root", "item": "for specified array items", "field": "for specified object fields"}


def structural_causes(schema: Json, path: str, *, status: bool = False) -> list[Cause]:
    """`status`: the definition has a status, which is checked by itself."""
    causes, structure = _root_causes(schema, path, status=status), []
    whole = _is_a_structure(schema)
    if whole:
        faults = [*_invariants(schema, path, "root"), *_completeness(schema, path)]
        faults.sort(key=lambda cause: f"{cause.field}: {cause.message}")
        structure = faults or _default_causes(schema, path)
    fields = _schema_causes(schema, path, _Place(root=True))
    causes += structure + fields
    if not causes and _any(schema, ("$schema",)):
        return [invalid(path, "", "OpenAPIV3Schema 'schema' is not supported")]
    if whole and not structure:
        causes += _rule_causes(schema, path, _Rules(fields, root=True))
    return causes


def _is_a_structure(schema: Json) -> bool:
    """Return whether a real server can read the schema as a structure; of one that it cannot it checks the fields."""
    return not (
        _any(schema, _UNSUPPORTED)
        or _any_list_of_items(schema)
        or any(part.get(_PRESERVE) is False for part in _inside(schema))
    )


def _root_causes(schema: Json, path: str, *, status: bool) -> list[Cause]:
    causes = []
    if status and schema.get("type") and schema["type"] != "object":
        text = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
        causes.append(invalid(f"{path}.type", schema["type"], text))
    elif status and (text := root_fault(schema)):
        causes.append(invalid(path, go_form(schema), text))
    if schema.get("nullable"):
        causes.append(forbidden_field(f"{path}.nullable", "nullable cannot be true at the root"))
    return causes


def _below(schema: Json, path: str) -> Iterator[tuple[str, Json, str]]:
    """Schemas of the parts of a value: their level, themselves, their paths."""
    if isinstance(items := schema.get("items"), dict):
        yield "item", items, f"{path}.items"
    for name, below in mapping(schema, "properties").items():
        yield "field", below, f"{path}.properties[{name}]"
    if isinstance(extra := schema.get("additionalProperties"), dict):
        yield "field", extra, f"{path}.additionalProperties"


def _inside(schema: Json) -> Iterator[Json]:
    """The schema and all schemas in it, in any order. Definitions that hold a Pod's template have thousands."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        yield part
        waiting += mapping(part, "properties").values()
        waiting += [part[word] for word in _SINGLE if isinstance(part.get(word), dict)]
        waiting += [inner for word in _JUNCTORS if word in part for inner in sequence(part, word)]


def has_default(schema: Json) -> bool:
    """Return whether the schema, or one in it, has a default."""
    return any("default" in part for part in _inside(schema))


def _any(schema: Json, words: tuple[str, ...]) -> bool:
    return any(part.get(word) for part in _inside(schema) for word in words)


def _any_list_of_items(schema: Json) -> bool:
    return any(isinstance(part.get("items"), list) for part in _inside(schema))


# ---- structure


def _invariants(schema: Json, path: str, level: str) -> Iterator[Cause]:
    kind, embedded = schema.get("type") or "", bool(schema.get("x-kubernetes-embedded-resource"))
    either, kept = (
        schema.get("x-kubernetes-int-or-string"),
        schema.get("x-kubernetes-preserve-unknown-fields"),
    )
    properties = mapping(schema, "properties")
    if kind == "array" and schema.get("items") is None:
        yield missing_value(f"{path}.items", "must be specified")
    for below_level, below, where in _below(schema, path):
        yield from _invariants(below, where, below_level)
    if level == "root" and schema.get("additionalProperties") is not None:
        yield forbidden_field(f"{path}.additionalProperties", "must not be used at the root")
    for other, name in ((kept, "preserve-unknown-fields"), (embedded, "embedded-resource")):
        if either and other:
            text = "must be false if x-kubernetes-int-or-string is true"
            yield invalid(f"{path}.x-kubernetes-{name}", True, text)
    yield from _value_causes(schema, path)
    if embedded and kind != "object":
        text = "must be object if x-kubernetes-embedded-resource is true"
        yield invalid(f"{path}.type", kind, text) if kind else missing_value(f"{path}.type", text)
    elif not kind and not either and not kept:
        yield missing_value(f"{path}.type", f"must not be empty {_EMPTY[level]}")
    if level == "root" and kind not in ("", "object"):
        yield invalid(f"{path}.type", kind, "must be object at the root")
    yield from _own_fields(properties, path, level, embedded=embedded)
    if embedded and not kept and not properties:
        text = "must not be empty if x-kubernetes-embedded-resource is true without "
        yield missing_value(f"{path}.properties", f"{text}x-kubernetes-preserve-unknown-fields")


def _own_fields(properties: Json, path: str, level: str, *, embedded: bool) -> Iterator[Cause]:
    """Fields that every object has: a definition may say little of them."""
    for name in ("kind", "apiVersion"):
        below = properties.get(name)
        if below is not None and (level == "root" or embedded) and below.get("type") != "string":
            yield invalid(f"{path}.properties[{name}].type", below.get("type") or "", "must be string")
    metadata = properties.get("metadata")
    if metadata is None:
        return
    where = f"{path}.properties[metadata]"
    if (level == "root" or embedded) and metadata.get("type") != "object":
        yield invalid(f"{where}.type", metadata.get("type") or "", "must be object")
    others = {
        name for name, value in metadata.items() if value and name not in ("type", "properties", "default")
    }
    if level == "root" and (others or {*mapping(metadata, "properties")} - {"name", "generateName"}):
        text = (
            "must not specify anything other than name and generateName, but metadata is implicitly specified"
        )
        yield forbidden_field(where, text)


def _value_causes(schema: Json, path: str) -> Iterator[Cause]:
    """Faults of what says which values are valid, and not what they are."""
    free_any = sequence(schema, "anyOf") == _INTEGER_OR_STRING
    free_all = bool(sequence(schema, "allOf")) and schema["allOf"][0].get("anyOf") == _INTEGER_OR_STRING
    for word in _JUNCTORS:
        for index, part in enumerate(sequence(schema, word)):
            if not (word == "anyOf" and free_any):
                yield from _subschema_causes(
                    part, f"{path}.{word}[{index}]", free=word == "allOf" and index == 0 and free_all
                )
    if isinstance(part := schema.get("not"), dict):
        yield from _subschema_causes(part, f"{path}.not")
    if (pattern := schema.get("pattern")) and (fault := _pattern_fault(pattern)):
        text = f"must be a valid regular expression, but isn't: error parsing regexp: {fault}"
        yield invalid(f"{path}.pattern", pattern, text)


def _subschema_causes(part: Json, path: str, *, free: bool = False) -> Iterator[Cause]:
    yield from _value_causes({**part, "anyOf": []} if free else part, path)
    for _, below, where in _below(part, path):
        if where != f"{path}.additionalProperties":
            yield from _subschema_causes(below, where)
    if part.get("additionalProperties") is not None:
        yield forbidden_field(f"{path}.additionalProperties", "must be undefined to be structural")
    for word, wanted in _GENERIC.items():
        if part.get(word) or (word == "default" and word in part):
            yield forbidden_field(f"{path}.{word}", f"must be {wanted} to be structural")
    if "metadata" in mapping(part, "properties"):
        yield forbidden_field(f"{path}.properties[metadata]", "must not be specified in a nested context")


def _completeness(schema: Json, path: str) -> Iterator[Cause]:
    """Faults of fields for which only their valid values are stated. A real server checks the root alone."""
    yield from _incomplete(schema, schema, path, path)


def _incomplete(values: Json, schema: Json, path: str, where: str) -> Iterator[Cause]:
    parts = [
        (part, f"{where}.{word}[{i}]") for word in _JUNCTORS for i, part in enumerate(sequence(values, word))
    ]
    if isinstance(values.get("not"), dict):
        parts.append((values["not"], f"{where}.not"))
    for part, place in parts:
        yield from _incomplete(part, schema, path, place)
        for name, below in mapping(part, "properties").items():
            own = mapping(schema, "properties").get(name)
            inner, outer = f"{place}.properties[{name}]", f"{path}.properties[{name}]"
            if own is None:
                yield missing_value(outer, f"because it is defined in {inner}")
            else:
                yield from _incomplete({"allOf": [below]}, own, outer, inner)


def _default_causes(schema: Json, path: str) -> list[Cause]:
    """Faults of defaults: one that its own schema refuses would make every object invalid that leaves the field out."""
    causes = []
    if schema.get("default") is not None:
        value: Any = schema["default"]
        faults = Validator(schema).find_causes(value)
        causes += [
            Cause(".".join(filter(None, (f"{path}.default", cause.field))), cause.message, cause.reason)
            for cause in faults
        ]
        if _has_unknown(schema, value):
            causes.append(invalid(f"{path}.default", value, "must not have unknown fields"))
    for _, below, where in _below(schema, path):
        causes += _default_causes(below, where)
    return causes


def _has_unknown(schema: Json, value: Any) -> bool:
    """Return whether a value has fields that its schema does not know, whatever its type is."""
    if isinstance(value, list):
        items = schema.get("items")
        return any(_has_unknown(items if isinstance(items, dict) else {}, item) for item in value)
    if not isinstance(value, dict):
        return False
    properties, others = mapping(schema, "properties"), schema.get("additionalProperties")
    known = ("apiVersion", "kind", "metadata") if schema.get("x-kubernetes-embedded-resource") else ()
    for name, below in value.items():
        if name in known:
            continue
        if name in properties or others:
            own = properties.get(name, others)
            if _has_unknown(own if isinstance(own, dict) else {}, below):
                return True
        elif not schema.get("x-kubernetes-preserve-unknown-fields"):
            return True
    return False


def _pattern_fault(pattern: str) -> str:
    """Say in Go's words why a text is not a pattern; empty where it is one. The engine that will match is like Go's."""
    try:
        Validator({"type": "string", "pattern": pattern})
    except ValueError:
        pass
    else:
        return ""
    if unsupported_syntax := re.search(r"\(\?(<?[=!]|>)", pattern):
        return f"invalid or unsupported Perl syntax: `{unsupported_syntax[0]}`"
    if pattern.count("(") > pattern.count(")"):
        return f"missing closing ): `{pattern}`"
    if pattern.count("[") > pattern.count("]"):
        return f"missing closing ]: `{pattern[pattern.rindex('[') :]}`"
    return f"invalid regular expression: `{pattern}`"


# ---- fields


@dataclass(frozen=True)
class _Place:
    """Place of a schema in a definition."""

    root: bool = False
    meta: bool = False  # in the metadata of an object
    undefaulted: str = ""  # why no default may be here


def _schema_causes(schema: Json, path: str, place: _Place) -> list[Cause]:
    causes = list(_word_causes(schema, path, place))
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        causes.append(forbidden_field(f"{path}.uniqueItems", text))
    properties, extra = mapping(schema, "properties"), schema.get("additionalProperties")
    if properties and extra not in (None, True):
        text = "additionalProperties and properties are mutual exclusive"
        causes.append(forbidden_field(f"{path}.additionalProperties", text))
    inner = replace(place, root=False)
    if isinstance(extra, dict):
        causes += _schema_causes(extra, f"{path}.additionalProperties", inner)
    for name, below in properties.items():
        own = inner
        if name in _META and (place.root or schema.get("x-kubernetes-embedded-resource")):
            reason = f"in top-level {name}" if place.root else inner.undefaulted
            own = replace(inner, meta=True, undefaulted=reason)
        causes += _schema_causes(below, f"{path}.properties[{name}]", own)
    if isinstance(part := schema.get("not"), dict):
        causes += _schema_causes(part, f"{path}.not", inner)
    for word in ("allOf", "oneOf", "anyOf"):
        for index, part in enumerate(sequence(schema, word)):
            causes += _schema_causes(part, f"{path}.{word}[{index}]", inner)
    items = schema.get("items")
    if isinstance(items, dict):
        causes += _schema_causes(items, f"{path}.items", inner)
    for index, part in enumerate(items if isinstance(items, list) else ()):
        causes += _schema_causes(part, f"{path}.items[{index}]", inner)
    causes += [*_extension_causes(schema, path), *_list_causes(schema, path)]
    ruled = with_root_fields(schema) if place.root else schema
    for index, rule in enumerate(sequence(schema, "x-kubernetes-validations")):
        causes += wording_causes(rule, ruled, f"{path}.x-kubernetes-validations[{index}]")
    return causes


def _word_causes(schema: Json, path: str, place: _Place) -> Iterator[Cause]:
    if schema.get("type") and schema["type"] not in _TYPES:
        yield not_supported(f"{path}.type", schema["type"], _TYPES)
    if "default" in schema and place.undefaulted:
        yield forbidden_field(f"{path}.default", f"must not be set {place.undefaulted}")
    for word in _UNSUPPORTED[1:]:
        if schema.get(word):
            yield forbidden_field(f"{path}.{word}", f"{word} is not supported")
    if schema.get("type") == "null":
        text = "type cannot be set to null, use nullable as an alternative"
        yield forbidden_field(f"{path}.type", text)
    if isinstance(schema.get("items"), list) and schema["items"]:
        yield forbidden_field(f"{path}.items", "items must be a schema object and not an array")
    if place.meta and schema.get("x-kubernetes-embedded-resource"):
        text = "must not be used inside of resource meta"
        yield forbidden_field(f"{path}.x-kubernetes-embedded-resource", text)


def _extension_causes(schema: Json, path: str) -> Iterator[Cause]:
    kind = schema.get("type") or ""
    if schema.get(_PRESERVE) is False:
        yield invalid(f"{path}.{_PRESERVE}", False, "must be true or undefined")
    for word, wanted, choices in (
        ("map-type", "object", ["atomic", "granular"]),
        ("list-type", "array", ["atomic", "set", "map"]),
    ):
        value = schema.get(f"x-kubernetes-{word}")
        if value is not None and kind != wanted:
            text = f"must be {wanted} if x-kubernetes-{word} is specified"
            yield invalid(f"{path}.type", kind, text) if kind else missing_value(f"{path}.type", text)
        elif word == "list-type" and value == "set":
            yield from _set_causes(schema.get("items"), f"{path}.items")
        if value is not None and value not in choices:
            yield not_supported(f"{path}.x-kubernetes-{word}", value, choices)


def _set_causes(items: Any, path: str) -> Iterator[Cause]:
    """Items of a set are replaced as wholes."""
    if not isinstance(items, dict):
        return
    text = "must be atomic as item of a list with x-kubernetes-list-type=set"
    kind, listed = items.get("type"), items.get("x-kubernetes-list-type")
    if kind == "array" and listed not in (None, "atomic"):
        yield invalid(f"{path}.x-kubernetes-list-type", listed, text)
    if kind == "object" and items.get("x-kubernetes-map-type") != "atomic":
        # A real server shows the list type here, too.
        yield invalid(f"{path}.x-kubernetes-map-type", listed, text)


def _list_causes(schema: Json, path: str) -> Iterator[Cause]:
    """Keys of a list map are there: required, or with a default."""
    kind, keys, items = (
        schema.get("x-kubernetes-list-type"),
        sequence(schema, "x-kubernetes-list-map-keys"),
        schema.get("items"),
    )
    where = f"{path}.x-kubernetes-list-map-keys"
    if keys and kind != "map":
        text, at = "must be map if x-kubernetes-list-map-keys is non-empty", f"{path}.x-kubernetes-list-type"
        yield missing_value(at, text) if kind is None else invalid(at, kind, text)
    if kind == "map" and not keys:
        yield missing_value(where, "must not be empty if x-kubernetes-list-type is map")
    if kind == "map" and items is None:
        yield missing_value(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
    if kind == "map" and isinstance(items, dict) and items.get("type") != "object":
        text = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid(f"{path}.items.type", items.get("type") or "", text)
    elif kind == "map" and isinstance(items, dict):
        yield from _key_causes(items, keys, path)
    if kind in ("set", "map") and isinstance(items, dict):
        if items.get("nullable"):
            text = f"cannot be nullable when x-kubernetes-list-type is {kind}"
            yield forbidden_field(f"{path}.items.nullable", text)
        for key in keys if kind == "map" else ():
            field = mapping(items, "properties").get(key)
            if field is not None and key not in sequence(items, "required") and field.get("default") is None:
                text = "this property is in x-kubernetes-list-map-keys, so it must have a default "
                yield missing_value(
                    f"{path}.items.properties[{key}].default", f"{text}or be a required property"
                )


def _key_causes(items: Json, keys: list[str], path: str) -> Iterator[Cause]:
    where = f"{path}.x-kubernetes-list-map-keys"
    for index, key in enumerate(keys):
        field = mapping(items, "properties").get(key)
        if field is None:
            yield invalid(where, keys, "entries must all be names of item properties")
        elif field.get("type") in ("array", "object"):
            text = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield invalid(f"{path}.items.properties[{key}].type", items.get("type"), text)
        if key in keys[:index]:
            yield invalid(where, keys, "must not contain duplicate entries")


# ---- rules


@dataclass(frozen=True)
class _Rules:
    """Place of rules in a definition, and the faults of its fields."""

    faults: list[Cause]
    root: bool = False
    apart: str = ""  # the list whose items cannot be distinguished, if the schema is of something in one


def _rule_causes(schema: Json, path: str, place: _Rules) -> list[Cause]:
    causes = []
    for level, below, where in _below(schema, path):
        # The server's own schema of metadata counts, whatever a definition says of it.
        if place.root and where == f"{path}.properties[metadata]":
            continue
        keyed = level != "item" or schema.get("x-kubernetes-list-type") == "map"
        inner = replace(place, root=False, apart=place.apart if keyed else path)
        causes += _rule_causes(below, where, inner)
    # Rules of a schema that is wrong itself, or in what is below it, are not tried.
    if any(cause.field.startswith((f"{path}.", f"{path}[")) for cause in place.faults):
        return causes
    own = with_root_fields(schema) if place.root else schema
    for index, rule in enumerate(sequence(schema, "x-kubernetes-validations")):
        causes += rule_causes(rule, own, f"{path}.x-kubernetes-validations[{index}]", place.apart)
    return causes
