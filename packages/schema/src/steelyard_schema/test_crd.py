"""Custom resource definitions: structural, described, immutable, and as committed."""

from collections.abc import Iterator
from functools import cache
from itertools import chain
from typing import Any

import pytest
from pydantic import BaseModel

from steelyard_common.types import Json
from steelyard_schema.crd import custom_resource_definitions, spec_schema
from steelyard_schema.definitions import load_definitions
from steelyard_schema.generate import files
from steelyard_schema.resources import RESOURCES
from steelyard_schema.structural import structural

ALLOWED = {
    "type", "description", "default", "enum", "format", "pattern", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems", "required", "properties", "items",
    "additionalProperties", "nullable", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations",
    "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-int-or-string", "minProperties",
    "maxProperties",
}  # fmt: skip


def nodes(node: Json, path: str = "") -> Iterator[tuple[str, Json]]:
    yield path, node
    for name, field in node.get("properties", {}).items():
        yield from nodes(field, f"{path}.{name}")
    for word in ("items", "additionalProperties"):
        if isinstance(node.get(word), dict):
            yield from nodes(node[word], f"{path}[]")


@cache
def definitions() -> dict[str, Json]:
    return {crd["spec"]["names"]["kind"]: crd for crd in custom_resource_definitions()}


generated_files = cache(files)
schema_of_spec = cache(lambda kind: spec_schema(RESOURCES[kind]))


def schema_of(crd: Json) -> Json:
    (version,) = crd["spec"]["versions"]
    return dict(version["schema"]["openAPIV3Schema"])


def test_every_node_is_structural() -> None:
    for path, node in chain.from_iterable(nodes(schema_of(crd), kind) for kind, crd in definitions().items()):
        assert set(node) <= ALLOWED, path
        free = node.get("x-kubernetes-preserve-unknown-fields") or node.get("x-kubernetes-int-or-string")
        assert "type" in node or free, path
        assert not ("properties" in node and "additionalProperties" in node), path


@pytest.mark.parametrize("kind", RESOURCES)
def test_every_field_says_what_it_is(kind: str) -> None:
    fields = [(path, node) for path, node in nodes(schema_of_spec(kind), "spec") if not path.endswith("[]")]
    assert [path for path, node in fields if not node.get("description")] == []


def test_a_spec_is_immutable_by_one_rule_and_its_defaults_are_the_published_ones() -> None:
    spec, crd = schema_of_spec("Evaluation"), definitions()["Evaluation"]
    assert schema_of(crd)["properties"]["spec"]["x-kubernetes-validations"][0]["rule"] == "self == oldSelf"
    assert spec["properties"]["replications"]["default"] == 1
    assert spec["properties"]["client"]["properties"]["transientErrorRetryLimit"]["default"] == 120
    assert spec["properties"]["inferenceSession"]["required"] == ["inferenceService"]


def test_no_spec_has_unknown_fields_that_the_immutability_rule_would_not_compare() -> None:
    """A renamed unknown field passes `self == oldSelf` on a real API server; a renamed key of a map does not."""
    for kind in RESOURCES:
        for path, node in nodes(schema_of_spec(kind), "spec"):
            assert not ("type" in node and "x-kubernetes-preserve-unknown-fields" in node), path


def test_lowering() -> None:
    class Part(BaseModel):
        """Inner."""

        n: int = 3

    class Whole(BaseModel):
        maybe: Part | None = None
        free: dict[str, Any]
        either: int | str = 1

    lowered = structural(Whole.model_json_schema())
    assert lowered["properties"]["maybe"] == {
        "type": "object",
        "description": "Inner.",
        "nullable": True,
        "properties": {"n": {"type": "integer", "default": 3}},
    }
    anything = {"x-kubernetes-preserve-unknown-fields": True}
    assert lowered["properties"]["free"] == {"type": "object", "additionalProperties": anything}
    assert lowered["properties"]["either"] == {"default": 1, "x-kubernetes-preserve-unknown-fields": True}
    assert structural({"type": "integer", "exclusiveMinimum": 0}) == {
        "type": "integer",
        "minimum": 0,
        "exclusiveMinimum": True,
    }
    assert structural({"type": "string", "const": "x"}) == {"type": "string", "enum": ["x"]}


def test_every_line_of_a_reference_table_is_a_whole_row() -> None:
    for name, content in generated_files().items():
        if name.startswith("docs/reference/"):
            broken = [line for line in content.splitlines() if line.startswith("|") != line.endswith("|")]
            assert not broken, name


def test_what_is_installed_is_what_is_made() -> None:
    assert {crd["spec"]["names"]["kind"]: crd for crd in load_definitions()} == definitions()
