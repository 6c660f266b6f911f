"""Audit and AuditProcedure: several reports about one inference service, in one document."""

from typing import Annotated, Literal

from pydantic import Field

from steelyard_schema.base import DyffEntity, SchemaModel
from steelyard_schema.bounds import FEW, Id, Rubric, Word


class AuditRequirement(SchemaModel):
    """A report that an audit needs: a dataset and a rubric."""

    dataset: Id
    """Id of the dataset."""
    rubric: Rubric
    """Name of the rubric."""


class AuditProcedure(DyffEntity):
    """List of the reports that an audit needs."""

    kind: Literal["AuditProcedure"] = "AuditProcedure"
    """Kind of the entity: AuditProcedure."""
    name: Word
    """Name for people."""
    requirements: Annotated[list[AuditRequirement], FEW] = Field(default_factory=list)
    """Reports that an audit needs."""


class AuditFields(SchemaModel):
    """Fields of an Audit besides those of every entity."""

    auditProcedure: Id
    """Id of the procedure."""
    inferenceService: Id
    """Id of the inference service."""


class Audit(AuditFields, DyffEntity):
    """Several reports about one inference service, in one document."""

    kind: Literal["Audit"] = "Audit"
    """Kind of the entity: Audit."""
