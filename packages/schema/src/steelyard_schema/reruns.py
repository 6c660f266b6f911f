"""Repetitions of a workflow: the create request that its entity was made of, which makes another one."""

from datetime import datetime
from typing import Any

from steelyard_common.types import Json
from steelyard_schema.audit import Audit
from steelyard_schema.base import DyffEntity
from steelyard_schema.data_source import UPLOAD, DataSource, file_patterns
from steelyard_schema.dataset import Dataset
from steelyard_schema.dependencies import dependency_names, find_baseline, find_data_source
from steelyard_schema.evaluation import Evaluation
from steelyard_schema.inference_service import InferenceService
from steelyard_schema.inference_session import InferenceSession
from steelyard_schema.measurement import Measurement
from steelyard_schema.model import Model
from steelyard_schema.requests import CREATE_REQUESTS
from steelyard_schema.safety_case import SafetyCase
from steelyard_schema.secrets import list_secrets
from steelyard_schema.security import SecurityContext

RERUN_OF = "steelyard/rerun-of"
"""Annotation of an entity: id of the earlier one that it repeats."""


def is_uploaded(entity: DyffEntity) -> bool:
    """Return whether a client has sent the entity's files: no request alone can make it again."""
    if isinstance(entity, Dataset):
        return find_data_source(entity) is None
    if isinstance(entity, DataSource):
        return entity.sourceKind == UPLOAD
    return isinstance(entity, Model) and entity.source.kind == "Upload"


def make_request(entity: DyffEntity, now: datetime) -> Json:
    """Return the fields of the create request that the entity was made of, with ids for embedded entities.

    `securityContext` is among them only if an administrator has set it. A session lasts as long as the first was to.
    """
    content = entity.dump()
    fields = {
        field.alias or name: None for name, field in CREATE_REQUESTS[content["kind"]].model_fields.items()
    }
    request = {name: content[name] for name in fields if name in content}
    if content.get("securityContext", SecurityContext().dump()) != SecurityContext().dump():
        request["securityContext"] = content["securityContext"]
    request |= _translate(entity, now)
    return {name: value for name, value in request.items() if value is not None}


def _translate(entity: DyffEntity, now: datetime) -> dict[str, Any]:
    """Return the fields that a request has in another form than the entity; None for those that it must not have."""
    match entity:
        case DataSource() | Model():
            return {"files": file_patterns(entity) or None, "secrets": list_secrets(entity) or None}
        case Dataset():
            # Without a schema in the request, the entity has an empty one: the rows are taken as they are found.
            schema = entity.schema_.dump() if entity.schema_.arrowSchema else None
            source = {"dataSource": find_data_source(entity), "files": file_patterns(entity) or None}
            return {"artifacts": None, "schema": schema, **source}
        case InferenceService():
            model = entity.model.id if entity.model else None
            return {"model": model, "secrets": list_secrets(entity) or None}
        case InferenceSession():
            expires = _move_end(entity.expires, entity.creationTime, now)
            return {"inferenceService": entity.inferenceService.id, "expires": expires}
        case Evaluation():  # what names a session that runs has a copy of it
            own = entity.inferenceSessionReference is None
            return {"inferenceSession": _session(entity, now) if own else None}
        case Audit():
            names = dependency_names(entity)
            texts = {name: names.get(name) for name in ("useCase", "author")}
            return {"baseline": find_baseline(entity), **texts}
        case Measurement() | SafetyCase():
            return {"method": entity.method.id}
    return {}


def _session(evaluation: Evaluation, now: datetime) -> Json:
    """Return the session that the evaluation's request asked for."""
    session = evaluation.inferenceSession
    content = {**session.dump(), "inferenceService": session.inferenceService.id}
    if (expires := _move_end(session.expires, evaluation.creationTime, now)) is not None:
        content["expires"] = expires
    return content


def _move_end(expires: datetime | None, created: datetime, now: datetime) -> str | None:
    """Return the end of a session that begins now, and is to last as long as the one that was created then."""
    return None if expires is None else (now + (expires - created)).isoformat()
