"""The fields that Measurement and SafetyCase share: a method, and what it is applied to."""

from typing import Annotated

from pydantic import Field

from steelyard_schema.analysis_scope import AnalysisScope
from steelyard_schema.base import SchemaModel
from steelyard_schema.bounds import ENTITY_BYTES, FEW, Id, Text, Word
from steelyard_schema.method import ForeignMethod
from steelyard_schema.security import SecurityContext

_BASE64 = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$"


class AnalysisArgument(SchemaModel):
    """An argument of a method."""

    keyword: Word
    """Name of the method's parameter."""
    value: Text
    """Value, which the method reads as it likes."""


class AnalysisInput(SchemaModel):
    """An entity whose data the method reads."""

    keyword: Word
    """Name of the method's input."""
    entity: Id
    """Id of the entity."""


class AnalysisData(SchemaModel):
    """Other data that the method reads."""

    key: Word
    """Name of the data; of data about an entity, the entity's id."""
    value: Annotated[str, Field(pattern=_BASE64, max_length=ENTITY_BYTES)]
    """The data in base64."""


class AnalysisFields(SchemaModel):
    """Fields that every analysis has."""

    scope: AnalysisScope = Field(default_factory=AnalysisScope)
    """Entities that the results are about."""
    arguments: Annotated[list[AnalysisArgument], FEW] = Field(default_factory=list)
    """Arguments of the method."""
    inputs: Annotated[list[AnalysisInput], FEW] = Field(default_factory=list)
    """Entities whose data the method reads."""
    method: ForeignMethod
    """The method."""
    data: Annotated[list[AnalysisData], FEW] = Field(default_factory=list)
    """Other data that the method reads."""
    securityContext: SecurityContext = Field(default_factory=SecurityContext)
    """Privileges of the workflow."""
