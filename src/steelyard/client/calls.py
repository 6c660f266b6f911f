"""Descriptions of all requests; the sync and the async client only send them."""

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Generic, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, Field

from steelyard.client.call import Call
from steelyard.client.pages import list_type, query_params
from steelyard_schema.account import AccessGrant, Account, APIKey
from steelyard_schema.answers import (
    ArtifactURL,
    CroissantTaken,
    EvidenceLinks,
    InferenceSessionAndToken,
    PipelineRunStatus,
    QuarantinedEntity,
    Status,
    StorageSignedURL,
    WorkflowLogsResponse,
    WorkflowProgress,
)
from steelyard_schema.base import DocumentationBase, DyffEntity
from steelyard_schema.curve import Curve
from steelyard_schema.evaluation import Evaluation, EvaluationClientConfiguration
from steelyard_schema.measurement import Measurement
from steelyard_schema.publication import access_label
from steelyard_schema.quota import StoredQuota
from steelyard_schema.safety_case import SafetyCase
from steelyard_schema.score import Score
from steelyard_schema.secrets import Secret
from steelyard_schema.spending import ServiceSpending

E = TypeVar("E", bound=DyffEntity | Account | QuarantinedEntity | StoredQuota)
Fields = Mapping[str, Any]
Workflow = Annotated[Evaluation | Measurement | SafetyCase, Field(discriminator="kind")]
"""An entity that a run of a pipeline creates."""
Request = BaseModel | Fields | None
Grants = Sequence[AccessGrant | Mapping[str, Any]]

LOG_SECONDS = 150.0
"""Time-out for logs: the platform itself waits up to two minutes for lines."""
FINALIZE_SECONDS = INFER_SECONDS = 900.0


def make_body(request: Request, fields: Fields) -> dict[str, Any]:
    """Return a request of the schema, or plain fields, as JSON values without those that are None."""
    content = to_json(request) if request is not None else {}
    # The platform takes null for a value that is given; a caller's None means that none is.
    return {name: to_json(value) for name, value in {**content, **fields}.items() if value is not None}


def to_json(value: Any) -> Any:
    """Return a value in the form of JSON. Raises ValueError for a time without a zone."""
    match value:
        case BaseModel():
            # Only what the caller has set: defaults are the platform's, and may be other ones in its version.
            return value.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)
        case Mapping():
            return {str(key): to_json(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [to_json(item) for item in value]
        case datetime():
            if value.tzinfo is None:
                raise ValueError(f"{value.isoformat()} should have a time zone, such as datetime.UTC")
            return value.isoformat()
    return value


def key_header(key: str | None = None) -> dict[str, str]:
    """Return the header by which the platform knows a repeat: nothing is created or changed twice."""
    return {"Idempotency-Key": key or uuid.uuid4().hex}


def post(path: str, answer: type[Any], json: Any = None, key: str | None = None, **more: Any) -> Call[Any]:
    """Describe a POST request, which always has an idempotency key."""
    return Call("POST", path, answer, json=json, headers=key_header(key), **more)


class Calls(Generic[E]):
    """Requests of one collection; `path` is its route, `entity` the type of its entities."""

    def __init__(self, path: str, entity: type[E]) -> None:
        self.path, self.entity = f"/{path}", entity

    def path_to(self, id: str, *more: str) -> str:
        """Return the path of one entity, or of something below it."""
        # A slash in a mistyped id would make a request of another route.
        return "/".join([self.path, quote(id, safe=""), *more])

    def create(self, request: Request, fields: Fields, key: str | None) -> Call[E]:
        body = make_body(request, fields)
        if self.entity is Evaluation and isinstance(client := body.get("client", {}), dict):
            # The API's own default is Dyff's, which cuts long answers off.
            standard = EvaluationClientConfiguration().requestTimeoutSeconds
            body["client"] = {"requestTimeoutSeconds": standard, **client}
        return post(self.path, self.entity, body, key)

    def get(self, id: str) -> Call[E]:
        return Call("GET", self.path_to(id), self.entity)

    def all(self, filters: Fields) -> Call[list[E]]:
        return Call("GET", self.path, list_type(self.entity), params=query_params(filters))

    def delete(self, id: str) -> Call[Status]:
        return Call("PUT", self.path_to(id, "delete"), Status, headers=key_header())

    def terminate(self, id: str) -> Call[Status]:
        return Call("PUT", self.path_to(id, "terminate"), Status, headers=key_header())

    def rerun(self, id: str, fields: Fields, key: str | None) -> Call[E]:
        return post(self.path_to(id, "rerun"), self.entity, make_body(None, fields), key)

    def label(self, id: str, labels: Mapping[str, str | None]) -> Call[None]:
        body = {"labels": dict(labels)}
        return Call("PATCH", self.path_to(id, "labels"), type(None), json=body, headers=key_header())

    def publish(self, id: str, access: str) -> Call[None]:
        return self.label(id, access_label(access))

    def documentation(self, id: str) -> Call[DocumentationBase]:
        return Call("GET", self.path_to(id, "documentation"), DocumentationBase)

    def edit_documentation(self, id: str, patch: Mapping[str, str | None]) -> Call[DocumentationBase]:
        body = {"documentation": dict(patch)}
        return Call(
            "PATCH", self.path_to(id, "documentation"), DocumentationBase, json=body, headers=key_header()
        )

    def croissant(self, id: str) -> Call[dict[str, Any]]:
        return Call("GET", self.path_to(id, "croissant"), dict[str, Any])

    def take_croissant(self, id: str, content: Fields | None) -> Call[CroissantTaken]:
        body = {} if content is None else {"croissant": dict(content)}
        return Call("PUT", self.path_to(id, "croissant"), CroissantTaken, json=body, headers=key_header())

    def uplink(self, id: str, path: str) -> Call[StorageSignedURL]:
        return Call("GET", self.path_to(id, "upload", quote(path)), StorageSignedURL)

    def finalize(self, id: str) -> Call[None]:
        return post(self.path_to(id, "finalize"), type(None), seconds=FINALIZE_SECONDS)

    def downlinks(self, id: str) -> Call[list[ArtifactURL]]:
        return Call("GET", self.path_to(id, "downlinks"), list[ArtifactURL])

    def evidence(self, id: str) -> Call[EvidenceLinks]:
        return Call("GET", self.path_to(id, "evidence"), EvidenceLinks)

    def progress(self, id: str) -> Call[WorkflowProgress]:
        return Call("GET", self.path_to(id, "progress"), WorkflowProgress)

    def spending(self, id: str) -> Call[ServiceSpending]:
        return Call("GET", self.path_to(id, "spending"), ServiceSpending)

    def logs(self, id: str, since: str | None, limit: int) -> Call[WorkflowLogsResponse]:
        params = query_params({"since": since, "limit": limit})
        path = self.path_to(id, "logs", "workflow")
        return Call("GET", path, WorkflowLogsResponse, params=params, seconds=LOG_SECONDS)

    # ---- families, safety cases, pipelines

    def edit_members(self, id: str, members: Mapping[str, Any]) -> Call[dict[str, Any]]:
        body = {"members": {tag: to_json(member) for tag, member in members.items()}}
        return Call("PATCH", self.path_to(id, "members"), dict[str, Any], json=body, headers=key_header())

    def scores(self, id: str) -> Call[list[Score]]:
        return Call("GET", self.path_to(id, "scores"), list[Score])

    def curves(self, id: str) -> Call[list[Curve]]:
        return Call("GET", self.path_to(id, "curves"), list[Curve])

    def run(self, request: Request, fields: Fields, key: str | None) -> Call[E]:
        body = make_body(request, fields)
        path = f"/pipelines/{quote(str(body.get('pipeline', '')), safe='')}/runs"
        return post(path, self.entity, body, key)

    def run_status(self, id: str) -> Call[PipelineRunStatus]:
        return Call("GET", self.path_to(id, "status"), PipelineRunStatus)

    def run_workflows(self, id: str) -> Call[dict[str, Workflow]]:
        return Call("GET", self.path_to(id, "workflows"), dict[str, Workflow])

    # ---- inference sessions

    def create_session(
        self, request: Request, fields: Fields, key: str | None
    ) -> Call[InferenceSessionAndToken]:
        return post(self.path, InferenceSessionAndToken, make_body(request, fields), key)

    def rerun_session(self, id: str, key: str | None) -> Call[InferenceSessionAndToken]:
        return post(self.path_to(id, "rerun"), InferenceSessionAndToken, {}, key)

    def ready(self, id: str) -> Call[object]:
        return Call("GET", self.path_to(id, "ready"), object)

    def session_token(self, id: str, expires: datetime | None) -> Call[str]:
        return post(self.path_to(id, "token"), str, make_body(None, {"expires": expires}))

    def infer(self, id: str, endpoint: str, body: Any, token: str) -> Call[Any]:
        """Describe an inference; it is not repeated, since a model may be slow, or change by being asked."""
        path = self.path_to(id, "infer", quote(endpoint.lstrip("/")))
        headers = {**key_header(), "Authorization": f"Bearer {token}"}
        return Call("POST", path, object, {}, body, headers, INFER_SECONDS, repeatable=False)

    # ---- quarantine

    def list_quarantine(self) -> Call[list[QuarantinedEntity]]:
        return Call("GET", self.path, list[QuarantinedEntity])

    def find_quarantine(self, id: str, consumer: str | None) -> Call[list[QuarantinedEntity]]:
        return Call("GET", self.path_to(id), list[QuarantinedEntity], query_params({"consumer": consumer}))

    def end_quarantine(self, id: str, word: str, consumer: str | None) -> Call[Status]:
        # A drop whose answer was lost may have been done: repeated, it would drop the next message that fails.
        repeatable = word != "drop"
        params = query_params({"consumer": consumer})
        return Call("PUT", self.path_to(id, word), Status, params, repeatable=repeatable)

    # ---- quotas

    def set_quota(
        self,
        principal: str,
        resource: str,
        limit: str,
        duration: timedelta | None,
        epoch: datetime | None,
    ) -> Call[E]:
        fields = {"principal": principal, "resource": resource, "limit": limit, "epoch": epoch}
        if duration is None:
            return post(self.path, self.entity, make_body(None, {**fields, "flavor": "Total"}))
        seconds = f"PT{duration.total_seconds():f}S"
        return post(
            self.path, self.entity, make_body(None, {**fields, "flavor": "Rate", "duration": seconds})
        )

    # ---- backup

    def restore_entity(self, id: str) -> Call[Status]:
        return Call("PUT", self.path_to(id, "restore"), Status)

    # ---- secrets

    def set_secret(self, account: str, name: str, value: str) -> Call[Secret]:
        return Call(
            "PUT", self.path_to(account, "secrets", quote(name, safe="")), Secret, json={"value": value}
        )

    def secrets(self, account: str) -> Call[list[Secret]]:
        return Call("GET", self.path_to(account, "secrets"), list[Secret])

    def delete_secret(self, account: str, name: str) -> Call[None]:
        return Call("DELETE", self.path_to(account, "secrets", quote(name, safe="")), type(None))

    # ---- accounts

    def create_account(self, fields: Fields, key: str | None) -> Call[E]:
        return post(self.path, self.entity, make_body(None, fields), key)

    def suspend(self, id: str) -> Call[Status]:
        return Call("PUT", self.path_to(id, "suspend"), Status)

    def reactivate(self, id: str) -> Call[Status]:
        return Call("PUT", self.path_to(id, "reactivate"), Status)

    def rotate_signing_key(self) -> Call[str]:
        # Repeated, it would make a second key.
        return post(f"{self.path}/signing-keys", str, repeatable=False)

    def permissions(self, id: str) -> Call[list[AccessGrant]]:
        return Call("GET", self.path_to(id, "permissions"), list[AccessGrant])

    def set_permissions(self, id: str, permissions: Grants) -> Call[list[AccessGrant]]:
        body = {"permissions": to_json(permissions)}
        return Call(
            "PUT", self.path_to(id, "permissions"), list[AccessGrant], json=body, headers=key_header()
        )

    def create_token(self, id: str, grants: Grants, expires: datetime) -> Call[str]:
        """Describe the request for a token. It is not repeated: the platform would make another token."""
        body = {"grants": to_json(grants), "expires": to_json(expires)}
        return post(self.path_to(id, "tokens"), str, body, repeatable=False)

    def tokens(self, id: str) -> Call[list[APIKey]]:
        return Call("GET", self.path_to(id, "tokens"), list[APIKey])

    def revoke(self, id: str, key: str | None) -> Call[None]:
        return Call("DELETE", self.path_to(id, "tokens", *([quote(key, safe="")] if key else [])), type(None))
