"""Data about the subject and the method of an analysis, which methods and notebooks read by their keys.

The keys and their content are those of dyff-audit. They are copied when the analysis is created: documentation may
change while it runs.
"""

import base64
from collections.abc import Iterator

import orjson

from steelyard.api.entities.loading import parse
from steelyard.api.http.context import RequestContext
from steelyard_common.types import Json
from steelyard_schema.entities import AnyEntity
from steelyard_schema.inference_service import InferenceService
from steelyard_schema.method import Method
from steelyard_schema.model import Model
from steelyard_schema.status import FAILURE

_MOST_BYTES = 128 * 1024
"""Largest value; an entity that is larger is left out, so that an analysis of it can still be created."""
_LEFT_OUT = frozenset({"metadata", "labels", "annotations", "lastTransitionTime", "reason", "message"})
"""Fields that are not copied: the documentation is a field of its own, and the others are for the entity's own
account."""


async def analysis_data(
    context: RequestContext, method: Method, service: InferenceService | None
) -> list[dict[str, str]]:
    """Return the keys `system`, about the analysed system, and `usecase`, about the method."""
    system = await _model(context, service) or service
    return [*_data("system", system), *_data("usecase", method)]


async def _model(context: RequestContext, service: InferenceService | None) -> Model | None:
    """Return the model of a service; None where there is none that the caller may see."""
    if service is None or service.model is None:
        return None
    id = service.model.id
    json = await context.api.entities.get("Model", id)
    if json is None:
        return None
    content = orjson.loads(json)
    may = (context.access.allows("models", name, content["account"], id) for name in ("get", "consume"))
    if content["status"] in FAILURE | {"Deleted"} or not any(may):
        return None
    model = parse("Model", json)
    assert isinstance(model, Model)
    return model


def _data(key: str, entity: Method | Model | InferenceService | None) -> Iterator[dict[str, str]]:
    if entity is None:
        return
    documentation = entity.metadata.documentation
    # Pages show both as texts: dyff-audit refuses a title or a summary that is null.
    texts = {"title": documentation.title or entity.name, "summary": documentation.summary or ""}
    content = {"spec": _spec(entity), "documentation": {**texts, "entity": entity.id}}
    value = base64.b64encode(orjson.dumps(content)).decode()
    if len(value) <= _MOST_BYTES:
        yield {"key": key, "value": value}


def _spec(entity: AnyEntity) -> Json:
    spec = {name: value for name, value in entity.dump().items() if name not in _LEFT_OUT}
    if isinstance(entity, Model) and entity.artifact.volume:
        # There may be thousands of files, of which no analysis needs the names.
        spec["artifact"] = {**spec["artifact"], "volume": {"files": []}}
    return spec
