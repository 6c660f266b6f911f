"""References in requests: from an id to the entity that it names, for a caller who may use it.

A missing one is a fault of the request's field, 422 and never 404: clients take a 404 on create for a lag and repeat it
for half a minute.
"""

from typing import TypeVar

import orjson

from steelyard.api.entities.loading import parsed
from steelyard.api.http.context import Call
from steelyard.api.http.errors import Conflict, Forbidden, Invalid
from steelyard.schema.account import APIResource
from steelyard.schema.entities import PLURALS, AnyEntity
from steelyard.schema.inference_service import ForeignInferenceService, InferenceService
from steelyard.schema.model import ForeignModel, Model
from steelyard.schema.status import FAILURE

E = TypeVar("E", bound=AnyEntity)
_ENDED = FAILURE | {"Deleted", "Terminated"}


async def resolve(call: Call, kind: type[E], id: str, field: str) -> E:
    """The entity. Raises Invalid where it is not there or can never be used, Forbidden where it may not be."""
    name = kind.__name__
    resource: APIResource = PLURALS[name]  # type: ignore[assignment]
    json = await call.api.entities.get(name, id)
    if json is None or not _visible(call, resource, str(orjson.loads(json)["account"]), id):
        raise Invalid(f"{field}: there is no {name} {id}", field=field)
    entity = _parsed(name, json, field)
    assert isinstance(entity, kind)
    if not call.access.allows(resource, "consume", entity.account, entity.id):
        raise Forbidden(
            f"{field}: {name} {id} may be seen, but not used: that takes {resource}/consume", field=field
        )
    if entity.status in _ENDED:
        why = ", ".join(each for each in (entity.reason, entity.message) if each)
        raise Invalid(f"{field}: {name} {id} is {entity.status}{f' ({why})' if why else ''}", field=field)
    return entity


def _parsed(name: str, json: bytes, field: str) -> AnyEntity:
    try:
        return parsed(name, json)
    except Conflict as error:
        raise Invalid(f"{field}: {error.detail}", field=field) from error


def _visible(call: Call, resource: APIResource, account: str, id: str) -> bool:
    return any(call.access.allows(resource, function, account, id) for function in ("get", "consume"))


def foreign_model(model: Model) -> ForeignModel:
    return ForeignModel.parse(_only(model, ForeignModel))


def foreign_service(service: InferenceService) -> ForeignInferenceService:
    return ForeignInferenceService.parse(_only(service, ForeignInferenceService))


def _only(entity: AnyEntity, form: type[ForeignModel | ForeignInferenceService]) -> dict[str, object]:
    names = {field.alias or name for name, field in form.model_fields.items()}
    return {name: value for name, value in entity.dump().items() if name in names}
