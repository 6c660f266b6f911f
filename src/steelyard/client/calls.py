"""Every request that the platform answers, described once; the sync and the async client only send them."""

import json
import uuid
from collections.abc import Mapping
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict

from steelyard.client.call import Call, query_params
from steelyard.schema.account import AccessGrant, Account, APIKey
from steelyard.schema.answers import (
    ArtifactURL,
    InferenceSessionAndToken,
    Status,
    StorageSignedURL,
    WorkflowLogsResponse,
)
from steelyard.schema.base import DocumentationBase, DyffEntity

E = TypeVar("E", bound=DyffEntity | Account)
Fields = Mapping[str, Any]
PAGE = 500


def body_of(request: BaseModel | Fields | None, fields: Fields) -> dict[str, Any]:
    """A request as JSON values: a request of the schema, or plain fields; what is None is left out."""
    given = request.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True) if isinstance(
        request, BaseModel
    ) else dict(request or {})  # fmt: skip
    return {name: _value(value) for name, value in {**given, **fields}.items() if value is not None}


def _value(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    if isinstance(value, list | tuple):
        return [_value(each) for each in value]
    return value.isoformat() if hasattr(value, "isoformat") else value


class Calls(Generic[E]):
    """The requests of one collection; `path` is its route, `entity` the type of its entities."""

    def __init__(self, path: str, entity: type[E]) -> None:
        self.path, self.entity = path, entity

    def create(
        self, request: BaseModel | Fields | None, fields: Fields, idempotency_key: str | None
    ) -> Call[E]:
        headers = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}
        return Call("POST", f"/{self.path}", self.entity, json=body_of(request, fields), headers=headers)

    def get(self, id: str) -> Call[E]:
        return Call("GET", self.of(id), self.entity)

    def page(self, filters: Fields, last: tuple[str, str] | None, size: int) -> Call[list[E]]:
        asked = {**filters, "limit": size}
        if last is not None:
            asked["after"] = json.dumps(last)
        return Call("GET", f"/{self.path}", list[self.entity], params=query_params(asked))  # type: ignore[name-defined]

    def delete(self, id: str) -> Call[Status]:
        return Call("PUT", f"{self.of(id)}/delete", Status)

    def terminate(self, id: str) -> Call[Status]:
        return Call("PUT", f"{self.of(id)}/terminate", Status)

    def label(self, id: str, labels: Mapping[str, str | None]) -> Call[None]:
        return Call("PATCH", f"{self.of(id)}/labels", type(None), json={"labels": dict(labels)})

    def documentation(self, id: str) -> Call[DocumentationBase]:
        return Call("GET", f"{self.of(id)}/documentation", _Documentation)

    def edit_documentation(self, id: str, patch: Mapping[str, str | None]) -> Call[DocumentationBase]:
        json_ = {"documentation": dict(patch)}
        return Call("PATCH", f"{self.of(id)}/documentation", _Documentation, json=json_)

    def uplink(self, id: str, path: str) -> Call[StorageSignedURL]:
        return Call("GET", f"{self.of(id)}/upload/{quote(path)}", StorageSignedURL)

    def finalize(self, id: str) -> Call[None]:
        return Call("POST", f"{self.of(id)}/finalize", type(None))

    def downlinks(self, id: str) -> Call[list[ArtifactURL]]:
        return Call("GET", f"{self.of(id)}/downlinks", list[ArtifactURL])

    def logs(self, id: str, since: str | None, limit: int) -> Call[WorkflowLogsResponse]:
        params = query_params({"since": since, "limit": limit})
        return Call("GET", f"{self.of(id)}/logs/workflow", WorkflowLogsResponse, params=params)

    def of(self, id: str) -> str:
        """The path of one entity."""
        return f"/{self.path}/{quote(id, safe='')}"

    # ---- inference sessions

    def create_session(
        self, request: BaseModel | Fields | None, fields: Fields, idempotency_key: str | None
    ) -> Call[InferenceSessionAndToken]:
        headers = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}
        json_ = body_of(request, fields)
        return Call("POST", f"/{self.path}", InferenceSessionAndToken, json=json_, headers=headers)

    def ready(self, id: str) -> Call[Any]:
        return Call("GET", f"{self.of(id)}/ready", object)

    def session_token(self, id: str, expires: str | None) -> Call[str]:
        return Call("POST", f"{self.of(id)}/token", str, json={"expires": expires} if expires else {})

    def infer(self, id: str, endpoint: str, body: Any, token: str) -> Call[Any]:
        path = f"{self.of(id)}/infer/{quote(endpoint)}"
        return Call("POST", path, object, json=body, headers={"Authorization": f"Bearer {token}"})

    # ---- accounts

    def listed(self, filters: Fields) -> Call[list[E]]:
        return Call("GET", f"/{self.path}", list[self.entity], params=query_params(filters))  # type: ignore[name-defined]

    def permissions(self, id: str) -> Call[list[AccessGrant]]:
        return Call("GET", f"{self.of(id)}/permissions", list[AccessGrant])

    def set_permissions(self, id: str, permissions: list[Any]) -> Call[list[AccessGrant]]:
        json_ = {"permissions": _value(permissions)}
        return Call("PUT", f"{self.of(id)}/permissions", list[AccessGrant], json=json_)

    def create_token(self, id: str, grants: list[Any], expires: str) -> Call[str]:
        json_ = {"grants": _value(grants), "expires": expires}
        return Call("POST", f"{self.of(id)}/tokens", str, json=json_)

    def tokens(self, id: str) -> Call[list[APIKey]]:
        return Call("GET", f"{self.of(id)}/tokens", list[APIKey])

    def revoke(self, id: str, key: str | None) -> Call[None]:
        return Call("DELETE", f"{self.of(id)}/tokens{f'/{quote(key)}' if key else ''}", type(None))


class _Documentation(DocumentationBase):
    """An answer may say whose documentation it is."""

    model_config = ConfigDict(extra="ignore")


def cursor(entity: E, order_by: str) -> tuple[str, str] | None:
    """Where the next page begins; None where the field is not one of the entity's own."""
    value = entity.dump().get(order_by)
    return None if value is None else (str(value), entity.id or "")
