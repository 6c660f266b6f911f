"""Audit and AuditProcedure: several reports about one inference service, in one document."""

from typing import Literal

from pydantic import Field

from steelyard.schema.base import DyffEntity, SchemaModel


class AuditRequirement(SchemaModel):
    """A report that an audit needs."""

    dataset: str
    """Id of the dataset."""
    rubric: str
    """Name of the rubric."""


class AuditProcedure(DyffEntity):
    """Which reports an audit needs."""

    kind: Literal["AuditProcedure"] = "AuditProcedure"
    """Always AuditProcedure."""
    name: str
    """A name for people."""
    requirements: list[AuditRequirement] = Field(default_factory=list)
    """The reports."""


class AuditFields(SchemaModel):
    """What an Audit is besides an entity."""

    auditProcedure: str
    """Id of the procedure."""
    inferenceService: str
    """Id of the inference service."""


class Audit(AuditFields, DyffEntity):
    """Several reports about one inference service, in one document."""

    kind: Literal["Audit"] = "Audit"
    """Always Audit."""
