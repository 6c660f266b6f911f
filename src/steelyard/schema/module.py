"""Module: files of code that methods and reports use."""

from typing import Literal

from pydantic import Field

from steelyard.schema.base import DyffEntity, SchemaModel
from steelyard.schema.data import Artifact


class ModuleFields(SchemaModel):
    """What a Module is besides an entity."""

    name: str
    """A name for people."""
    artifacts: list[Artifact] = Field(min_length=1)
    """The files."""


class Module(ModuleFields, DyffEntity):
    """Files of code that methods and reports use."""

    kind: Literal["Module"] = "Module"
    """Always Module."""
