"""Loads the entities that a create request refers to, for a caller who may use them.

A missing one is an error of the request's field, 422 and not 404: clients repeat a create that is answered 404 for half
a minute, since the entity might only be late.
"""

from typing import TypeVar

import orjson

from steelyard.api.entities.loading import parse
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Conflict, Forbidden, Invalid
from steelyard_schema.account import APIResource
from steelyard_schema.entities import PLURALS, AnyEntity
from steelyard_schema.family import Family
from steelyard_schema.inference_service import ForeignInferenceService, InferenceService
from steelyard_schema.method import ForeignMethod, Method
from steelyard_schema.model import ForeignModel, Model
from steelyard_schema.status import FAILURE

E = TypeVar("E", bound=AnyEntity)
_ENDED = FAILURE | {"Deleted", "Terminated"}


async def resolve(context: RequestContext, kind: type[E], id: str, field: str) -> E:
    """Return the entity of an id or of `family@tag`.

    Raises Invalid if it does not exist or can never be used, Forbidden without `consume`.
    """
    name = kind.__name__
    if "@" in id:
        context.tags[field], id = id, await _member(context, name, id, field)
    if isinstance(pending := context.pending.get(id), kind):
        return pending
    resource: APIResource = PLURALS[name]  # type: ignore[assignment]
    json = await context.api.entities.get(name, id)
    # An entity that the caller may not see is answered as one that does not exist: its id reveals nothing.
    account = "" if json is None else str(orjson.loads(json)["account"])
    visible = any(context.access.allows(resource, function, account, id) for function in ("get", "consume"))
    if json is None or not visible:
        raise Invalid(f"{field}: there is no {name} {id}{await _describe_kind(context, id)}", field=field)
    try:
        entity = parse(name, json)
    except Conflict as error:
        raise Invalid(f"{field}: {error.detail}", field=field) from error
    assert isinstance(entity, kind)
    if not context.access.allows(resource, "consume", entity.account, entity.id):
        raise Forbidden(
            f"{field}: {name} {id} may be seen, but not used: that takes {resource}/consume", field=field
        )
    if entity.status in _ENDED:
        why = ", ".join(filter(None, (entity.reason, entity.message)))
        raise Invalid(f"{field}: {name} {id} is {entity.status}{f' ({why})' if why else ''}", field=field)
    return entity


async def _describe_kind(context: RequestContext, id: str) -> str:
    """Return what else has the id, in words; nothing where the caller may not see it."""
    entity = await context.api.entities.find(id)
    if entity is None:
        return ""
    kind, json = entity
    resource: APIResource = PLURALS[kind]  # type: ignore[assignment]
    may_see = context.access.allows(resource, "get", str(orjson.loads(json)["account"]), id)
    return f": it is the id of {'an' if kind[0] in 'AEIO' else 'a'} {kind}" if may_see else ""


async def _member(context: RequestContext, kind: str, reference: str, field: str) -> str:
    """Return the id of the entity that has a tag of a family."""
    id, _, tag = reference.partition("@")
    family = await resolve(context, Family, id, field)
    member = family.members.get(tag)
    if member is None:
        known = ", ".join(family.members) or "none"
        raise Invalid(f"{field}: the family {id} has no tag {tag!r}; there are {known}", field=field)
    if member.entity.kind != kind:
        raise Invalid(f"{field}: {reference} is a {member.entity.kind}, not a {kind}", field=field)
    return member.entity.id


def foreign_method(method: Method) -> ForeignMethod:
    """Return the form of a method that is embedded in an analysis."""
    return ForeignMethod.parse(_common_fields(method, ForeignMethod))


def foreign_model(model: Model) -> ForeignModel:
    """Return the form of a model that is embedded in a service."""
    return ForeignModel.parse(_common_fields(model, ForeignModel))


def foreign_service(service: InferenceService) -> ForeignInferenceService:
    """Return the form of a service that is embedded in a session."""
    return ForeignInferenceService.parse(_common_fields(service, ForeignInferenceService))


def _common_fields(
    entity: AnyEntity, form: type[ForeignModel | ForeignInferenceService | ForeignMethod]
) -> dict[str, object]:
    names = {field.alias or name for name, field in form.model_fields.items()}
    return {name: value for name, value in entity.dump().items() if name in names}
