"""Fields of every request, and their types."""

from typing import Annotated, Literal

from pydantic import AfterValidator, AwareDatetime, Field

from steelyard_schema.base import SCHEMA_VERSION, SchemaModel, to_utc
from steelyard_schema.family import REFERENCE_PATTERN
from steelyard_schema.ids import ID_PATTERN
from steelyard_schema.kubernetes import LABEL_VALUE_PATTERN

NAME_LENGTH = 255
Name = Annotated[str, Field(min_length=1, max_length=NAME_LENGTH)]
AccountName = Annotated[str, Field(pattern=LABEL_VALUE_PATTERN, max_length=63)]
EntityId = Annotated[str, Field(pattern=ID_PATTERN, max_length=32)]
EntityReference = Annotated[str, Field(pattern=REFERENCE_PATTERN, max_length=160)]
"""Id of an entity, or `family@tag` for the entity that has this tag of a family."""
End = Annotated[AwareDatetime, AfterValidator(to_utc)]
"""A time that names its zone."""


class Request(SchemaModel):
    """Fields of every request. The published client leaves the version out."""

    schemaVersion: Literal["0.1"] = SCHEMA_VERSION
    """Version of the schema."""


class CreateRequest(Request):
    """Fields of every create request."""

    account: AccountName
    """Account that will own the entity."""
