"""Schemas of definitions with values that seldom stand there: nulls in lists, formats of other types."""

from typing import Any

from steelyard_common.types import Json
from tests.kubernetes_differential.case import Case, post
from tests.kubernetes_differential.samples import CRDS, DRY, definition

SAID = ("kind", "message", "reason", "details", "code")


def with_field(schema: Json) -> Json:
    return definition(
        {"type": "object", "properties": {"spec": {"type": "object", "properties": {"f": schema}}}}
    )


def tried(*schemas: Json) -> list[Any]:
    return [post(f"{CRDS}?{DRY}", with_field(schema), compare=SAID) for schema in schemas]


FOO: Json = {"type": "string", "format": "foo"}
CASES = [
    Case(
        "definitions: nulls in lists of schemas",
        *tried(
            {"type": "integer", "enum": [None]},
            {"type": "integer", "enum": [1, None], "nullable": True},
            {"type": "string", "enum": [None, "a"], "default": "a"},
            {"type": "object", "oneOf": [None]},
            {"type": "object", "required": [None]},
        ),
    ),
    Case(
        "definitions: formats",
        *tried(
            *(
                {"type": kind, "format": name}
                for kind in ("string", "integer", "number", "boolean")
                for name in (
                    "int32",
                    "double",
                    "date-time",
                    "datetime",
                    "foo",
                    "A_b",
                    "byte",
                    "k8s-short-name",
                )
            ),
            {"type": "object", "format": "foo", "properties": {"a": FOO, "b": FOO}},
        ),
    ),
    Case(
        "definitions: defaults with unknown fields",
        *tried(
            *(
                {"type": kind, "default": value}
                for kind in ("string", "integer", "boolean")
                for value in ({"a": "b"}, {"": ""}, {}, [{"a": "b"}], [])
            ),
            {"type": "object", "default": {"a": "b"}},
            {"type": "object", "default": [{"a": "b"}]},
            {"type": "object", "properties": {"a": {"type": "integer"}}, "default": {"a": "x", "b": 1}},
            {"type": "array", "items": {"type": "string"}, "default": {"a": "b"}},
            {"type": "array", "items": {"type": "string"}, "default": [{"a": "b"}]},
            {"type": "array", "items": {"type": "object"}, "default": [{"a": "b"}, 5]},
        ),
    ),
]
