"""Descriptions of fields from the docstrings below them."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pydantic import Field

from steelyard_schema.base import SchemaModel
from steelyard_schema.docstrings import find_docstring


class Leaf(SchemaModel):
    """A leaf."""

    size: int
    """Its size,
    in millimetres."""
    silent: int
    inner: "Leaf | None" = None
    """The leaf within."""


class Tree(SchemaModel):
    """A tree."""

    leaf: Leaf
    """A leaf."""
    other: Leaf
    """The other leaf."""
    written: int = Field(description="What the field says itself.")
    """What nobody reads."""
    schema_: int = Field(alias="schema")
    """A field with an alias."""


class Sapling(Tree):
    """A tree that says less."""

    other: Leaf


def described(schema: dict[str, Any]) -> dict[str, str | None]:
    return {name: field.get("description") for name, field in schema["properties"].items()}


def test_the_docstring_below_a_field_describes_it() -> None:
    schema = Tree.model_json_schema()
    assert described(schema) == {
        "leaf": None,  # the type that it refers to says the same
        "other": "The other leaf.",
        "written": "What the field says itself.",
        "schema": "A field with an alias.",
    }
    assert described(Tree.model_json_schema(by_alias=False))["schema_"] == "A field with an alias."


def test_a_field_that_refers_to_its_own_model_is_described() -> None:
    assert described(Leaf.model_json_schema()["$defs"]["Leaf"]) == {
        "size": "Its size,\nin millimetres.",
        "silent": None,
        "inner": "The leaf within.",
    }


def test_a_field_that_is_declared_again_has_the_new_docstring_or_none() -> None:
    assert find_docstring(Sapling, "leaf") == "A leaf."
    assert find_docstring(Sapling, "other") is None


def test_models_of_functions_are_distinguished() -> None:
    def one() -> type[SchemaModel]:
        class Local(SchemaModel):
            field: int
            """One."""

        return Local

    def two() -> type[SchemaModel]:
        class Local(SchemaModel):
            field: int
            """Two."""

        return Local

    assert [find_docstring(model, "field") for model in (one(), two())] == ["One.", "Two."]


def test_a_model_is_built_when_it_is_first_used_by_any_number_of_threads() -> None:
    for _ in range(20):

        class Fresh(Tree):
            more: list[Leaf] = Field(default_factory=list)

        assert not Fresh.__pydantic_complete__
        value = {
            "leaf": {"size": 1, "silent": 2},
            "other": {"size": 3, "silent": 4},
            "written": 5,
            "schema": 6,
        }
        with ThreadPoolExecutor(8) as threads:
            read = list(threads.map(Fresh.parse, [value] * 32))
        assert {instance.dump_json() for instance in read} == {Fresh.parse(value).dump_json()}
