"""Schemas of definitions; the faults that are expected are a real server's own, in its order."""

from typing import Any

import pytest

from steelyard_local_kubernetes.apiserver.rules.structural import structural_causes

STRING = {"type": "string"}


def root(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("schema", "faults"),
    [
        (root(a=STRING), []),
        ({}, ["s.type: Required value: must not be empty at the root"]),
        (root(a={}), ["s.properties[a].type: Required value: must not be empty for specified object fields"]),
        (
            root(a={"type": "array", "items": {}}),
            ["s.properties[a].items.type: Required value: must not be empty for specified array items"],
        ),
        # A schema that cannot be read as a structure is not looked at as one.
        (root(a={"$ref": "x"}), ["s.properties[a].$ref: Forbidden: $ref is not supported"]),
        (root() | {"$schema": "x"}, ["s: Invalid value: \"\": OpenAPIV3Schema 'schema' is not supported"]),
        # What a value is must be said outside of which values are valid.
        (
            root(a=STRING) | {"anyOf": [{"properties": {"a": STRING, "b": {}}}]},
            [
                "s.anyOf[0].properties[a].type: Forbidden: must be empty to be structural",
                "s.properties[b]: Required value: because it is defined in s.anyOf[0].properties[b]",
            ],
        ),
        (
            root(a={"type": "object", "default": {"c": 1}, "properties": {"b": STRING}}),
            ['s.properties[a].default: Invalid value: {"c":1}: must not have unknown fields'],
        ),
        (
            root(a={"type": "array", "items": STRING, "x-kubernetes-list-type": "map"}),
            [
                "s.properties[a].x-kubernetes-list-map-keys: Required value:"
                " must not be empty if x-kubernetes-list-type is map",
                's.properties[a].items.type: Invalid value: "string":'
                " must be object if parent array's x-kubernetes-list-type is map",
            ],
        ),
        (
            root(metadata={"type": "object", "properties": {"labels": {"type": "object"}}}),
            [
                "s.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but"
                " metadata is implicitly specified"
            ],
        ),
    ],
)
def test_faults_of_a_schema(schema: dict[str, Any], faults: list[str]) -> None:
    causes = structural_causes(schema, "s")
    assert [f"{cause.field}: {cause.message}" for cause in causes] == faults


def test_a_schema_with_a_status_says_little_at_its_root() -> None:
    """The status is checked by a part of the schema, which a condition on the whole would not be in."""
    schema = root(a=STRING) | {"anyOf": [{"required": ["a"]}]}
    assert structural_causes(schema, "s") == []
    (cause,) = structural_causes(schema, "s", status=True)
    assert cause.field == "s"
    assert '"AnyOf":[{"ID":"","Schema":"","Ref":null' in cause.message
    assert '"Properties":{"a":{"ID":"",' in cause.message
    assert "only [Description Type Format" in cause.message
    assert structural_causes(root(a=STRING) | {"description": "a", "required": ["a"]}, "s", status=True) == []
