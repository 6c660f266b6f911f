"""Audit and AuditProcedure: several reports about one inference service, in one document."""

from typing import Annotated, Literal

from pydantic import Field

from steelyard.schema.base import DyffEntity, SchemaModel
from steelyard.schema.bounds import FEW, Id, Rubric, Word


class AuditRequirement(SchemaModel):
    """A report that an audit needs."""

    dataset: Id
    """Id of the dataset."""
    rubric: Rubric
    """Name of the rubric."""


class AuditProcedure(DyffEntity):
    """Which reports an audit needs."""

    kind: Literal["AuditProcedure"] = "AuditProcedure"
    """Always AuditProcedure."""
    name: Word
    """A name for people."""
    requirements: Annotated[list[AuditRequirement], FEW] = Field(default_factory=list)
    """The reports."""


class AuditFields(SchemaModel):
    """What an Audit is besides an entity."""

    auditProcedure: Id
    """Id of the procedure."""
    inferenceService: Id
    """Id of the inference service."""


class Audit(AuditFields, DyffEntity):
    """Several reports about one inference service, in one document."""

    kind: Literal["Audit"] = "Audit"
    """Always Audit."""
