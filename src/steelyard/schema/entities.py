"""Every kind of entity that the platform keeps, and how one is read from its JSON."""

from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter

from steelyard.schema.audit import Audit, AuditProcedure
from steelyard.schema.dataset import Dataset
from steelyard.schema.evaluation import Evaluation
from steelyard.schema.inference_service import InferenceService
from steelyard.schema.inference_session import InferenceSession
from steelyard.schema.model import Model
from steelyard.schema.module import Module
from steelyard.schema.report import Report

AnyEntity = (
    Audit
    | AuditProcedure
    | Dataset
    | Evaluation
    | InferenceService
    | InferenceSession
    | Model
    | Module
    | Report
)
Entity = Annotated[AnyEntity, Field(discriminator="kind")]

ENTITIES: dict[str, type[AnyEntity]] = {
    each.__name__: each
    for each in (
        Dataset,
        Module,
        Model,
        InferenceService,
        InferenceSession,
        Evaluation,
        Report,
        AuditProcedure,
        Audit,
    )
}
"""Classes by kind."""

PLURALS: dict[str, str] = {kind: f"{kind.lower()}s" for kind in ENTITIES}
"""Routes and collections by kind."""

_ADAPTER: TypeAdapter[AnyEntity] = TypeAdapter(Entity, config=ConfigDict(defer_build=True))


def entity_of(value: bytes | str | dict[str, Any]) -> AnyEntity:
    """The entity of a JSON text or its values, by its `kind`. Raises pydantic.ValidationError."""
    if isinstance(value, dict):
        return _ADAPTER.validate_python(value)
    return _ADAPTER.validate_json(value)
