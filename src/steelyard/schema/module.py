"""Module: files of code that methods and reports use."""

from typing import Literal

from pydantic import Field

from steelyard.schema.base import DyffEntity, SchemaModel
from steelyard.schema.bounds import Word
from steelyard.schema.data import Artifact


class ModuleFields(SchemaModel):
    """What a Module is besides an entity."""

    name: Word
    """A name for people."""
    artifacts: list[Artifact] = Field(min_length=1, max_length=10_000)
    """The files."""


class Module(ModuleFields, DyffEntity):
    """Files of code that methods and reports use."""

    kind: Literal["Module"] = "Module"
    """Always Module."""
