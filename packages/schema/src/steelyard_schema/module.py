"""Module: files of code that methods and reports use."""

from typing import Literal

from pydantic import Field

from steelyard_schema.base import DyffEntity, SchemaModel
from steelyard_schema.bounds import Word
from steelyard_schema.data import Artifact


class ModuleFields(SchemaModel):
    """Fields of a Module besides those of every entity."""

    name: Word
    """Name for people."""
    artifacts: list[Artifact] = Field(min_length=1, max_length=10_000)
    """Files of the module."""


class Module(ModuleFields, DyffEntity):
    """Files of code that methods and reports use."""

    kind: Literal["Module"] = "Module"
    """Kind of the entity: Module."""
