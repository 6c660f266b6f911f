"""All kinds of entities that the platform stores, and how one is parsed."""

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
    kind.__name__: kind
    for kind in (
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
"""Classes of entities by kind."""

PLURALS: dict[str, str] = {kind: f"{kind.lower()}s" for kind in ENTITIES}
"""Names of routes and collections by kind."""

_ADAPTER: TypeAdapter[AnyEntity] = TypeAdapter(Entity, config=ConfigDict(defer_build=True))


def entity_of(value: bytes | str | dict[str, Any]) -> AnyEntity:
    """Return the entity of a JSON text or its values, by its `kind`. Raises pydantic.ValidationError."""
    if isinstance(value, dict):
        return _ADAPTER.validate_python(value)
    return _ADAPTER.validate_json(value)
