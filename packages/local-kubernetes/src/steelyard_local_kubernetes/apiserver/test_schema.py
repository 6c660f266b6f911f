"""Fields of kinds: unknown ones, defaults, types."""

from typing import Any

from steelyard_local_kubernetes.apiserver.published import kind_node
from steelyard_local_kubernetes.apiserver.schema import (
    compile_schema,
    drop_unknown,
    fill_defaults,
)

TEXT = {"type": "string"}


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def test_an_object_that_a_definition_says_nothing_about_is_pruned() -> None:
    """A real server does so: a schema that wants its fields kept has to say it."""
    bare: dict[str, Any] = {"type": "object"}
    kept = {**bare, "x-kubernetes-preserve-unknown-fields": True}
    any_value = {**bare, "additionalProperties": True}
    node = compile_schema({"type": "object", "properties": {"bare": bare, "kept": kept, "any": any_value}})
    value: dict[str, Any] = {"bare": {"x": 1}, "kept": {"x": 1}, "any": {"x": {"y": 1}}}
    assert drop_unknown(node, value) == ["bare.x"]
    assert value == {"bare": {}, "kept": {"x": 1}, "any": {"x": {"y": 1}}}


def test_unknown_fields_are_named_with_their_paths() -> None:
    node = compile_schema(schema(a=schema(b=TEXT), items={"type": "array", "items": schema(c=TEXT)}))
    value = {"x": 1, "a": {"b": "", "y": 2}, "items": [{"c": ""}, {"z": 3}]}
    assert drop_unknown(node, value) == ["x", "a.y", "items[1].z"]
    assert value == {"a": {"b": ""}, "items": [{"c": ""}, {}]}


def test_maps_and_free_objects_keep_their_fields() -> None:
    free = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {"known": schema(a=TEXT)},
    }
    node = compile_schema(schema(map={"type": "object", "additionalProperties": schema(a=TEXT)}, free=free))
    value = {"map": {"k": {"a": "", "b": ""}}, "free": {"any": 1, "known": {"b": 1}}}
    assert drop_unknown(node, value) == ["map.k.b", "free.known.b"]
    assert value == {"map": {"k": {"a": ""}}, "free": {"any": 1, "known": {}}}


def test_defaults_fill_what_is_absent() -> None:
    inner = schema(
        n={"type": "integer", "default": 1}, text={"type": "string", "default": "x", "nullable": True}
    )
    node = compile_schema(
        schema(
            made={**inner, "default": {}}, given=inner, absent=inner, list={"type": "array", "items": inner}
        )
    )
    value: dict[str, Any] = {"given": {"n": None, "text": None}, "list": [{}, {"n": 2}]}
    fill_defaults(node, value)
    whole = {"n": 1, "text": "x"}
    assert value == {"made": whole, "given": {"n": 1, "text": None}, "list": [whole, {"n": 2, "text": "x"}]}


def test_objects_do_not_share_their_defaults() -> None:
    node = compile_schema(
        schema(a={"type": "object", "default": {"k": []}, "x-kubernetes-preserve-unknown-fields": True})
    )
    one: dict[str, Any] = {}
    fill_defaults(node, one)
    one["a"]["k"].append(1)
    two: dict[str, Any] = {}
    fill_defaults(node, two)
    assert two == {"a": {"k": []}}


def test_a_schema_may_refer_to_itself() -> None:
    node = kind_node("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
    value = {
        "spec": {
            "versions": [
                {"schema": {"openAPIV3Schema": {"properties": {"a": {"properties": {"b": {"typo": 1}}}}}}}
            ]
        }
    }
    assert drop_unknown(node, value) == [
        "spec.versions[0].schema.openAPIV3Schema.properties.a.properties.b.typo"
    ]
