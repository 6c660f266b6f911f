"""The route table: every path of the API, who may call it, and which handler answers."""

from collections.abc import Iterator
from dataclasses import replace

from starlette.responses import Response

from steelyard.api.accounts import accounts
from steelyard.api.datasets import objects
from steelyard.api.datasets.downlinks import downlinks
from steelyard.api.datasets.uploads import finalize, uplink
from steelyard.api.entities.collection import Collection
from steelyard.api.http.context import Call, json_response
from steelyard.api.http.pages import page_routes
from steelyard.api.http.routing import Administrator, Grant, Parameter, Route, Signed
from steelyard.api.inference_sessions import sessions as inference_sessions
from steelyard.api.kinds import KINDS, Kind
from steelyard.api.quarantine import administration as quarantine
from steelyard.api.reports.evidence import evidence
from steelyard.api.workflows.log_stream import log_stream
from steelyard.api.workflows.logs import whole_log, workflow_logs
from steelyard.api.workflows.progress import progress
from steelyard.schema.account import AccessGrant, Account, APIKey
from steelyard.schema.answers import (
    ArtifactURL,
    EvidenceLinks,
    InferenceSessionAndToken,
    QuarantinedEntity,
    Status,
    StorageSignedURL,
    WorkflowLogsResponse,
    WorkflowProgress,
)
from steelyard.schema.base import DocumentationBase
from steelyard.schema.entities import ENTITIES, PLURALS
from steelyard.schema.requests import (
    CREATE_REQUESTS,
    AccountCreateRequest,
    AccountPermissionsSetRequest,
    AccountTokenCreateRequest,
    DocumentationEditRequest,
    InferenceSessionTokenCreateRequest,
    LabelsEditRequest,
)
from steelyard.views.fields import FILTERS

ANY = "*/*"
_ABOUT = (
    Parameter("query", "JSON: an object of filters, or a list of objects of which one has to hold."),
    Parameter("labels", "JSON: an object of labels that the entity has."),
    Parameter("orderBy", "A filter's name, creationTime or lastTransitionTime."),
    Parameter("order", "ascending or descending."),
    Parameter("limit", "Most entities of the answer."),
    Parameter("after", 'JSON: ["<value of orderBy>", "<id>"] of the last entity seen.'),
)
_LOGS = (
    Parameter("limit", "Most lines; 1000 unless given."),
    Parameter("since", "A time span such as 30m, 1h or 2d."),
)


def routes() -> Iterator[Route]:
    yield from page_routes(routes)
    for kind in KINDS:
        yield from _tagged(kind.name, _of(kind))
    yield from _tagged("InferenceSession", _sessions())
    yield from _tagged("Account", _accounts())
    yield from _tagged("Quarantine", _quarantine())
    yield from _tagged("Objects", _objects())


def _tagged(tag: str, rows: Iterator[Route]) -> Iterator[Route]:
    for row in rows:
        yield replace(row, tag=tag)


def _of(kind: Kind) -> Iterator[Route]:
    """What every kind has, then what only some have."""
    request, entity = CREATE_REQUESTS[kind.name], ENTITIES[kind.name]
    its = Collection(kind.name, request, kind.build, kind.privileged)
    path, grant = f"/v0/{PLURALS[kind.name]}", its.resource
    one = f"{path}/{{id}}"
    filters = tuple(Parameter(name, f"Only with this {name}.") for name in FILTERS[kind.name])
    if kind.name != "InferenceSession":
        yield Route("POST", path, Grant(grant, "create"), its.create, f"Create: {kind.name}", request, entity)
    yield Route("GET", path, Grant(grant, "query"), its.query, "Query", None, list[entity], filters + _ABOUT)  # type: ignore[valid-type]
    yield Route("GET", one, Grant(grant, "get"), its.get, "Get", None, entity)
    yield Route("PUT", f"{one}/delete", Grant(grant, "delete"), its.delete, "Delete", None, Status)
    yield Route("PATCH", f"{one}/labels", Grant(grant, "edit"), its.label, "Edit labels", LabelsEditRequest)
    doc, edit = f"{one}/documentation", DocumentationEditRequest
    yield Route("GET", doc, Grant(grant, "get"), its.documentation, "Documentation", None, DocumentationBase)
    yield Route(
        "PATCH",
        doc,
        Grant(grant, "edit"),
        its.edit_documentation,
        "Edit documentation",
        edit,
        DocumentationBase,
    )
    if kind.uploads:
        to = f"{one}/upload/{{path:path}}"
        yield Route(
            "GET", to, Grant(grant, "create"), uplink, "Where to upload a file", None, StorageSignedURL,
            errors=(400, 409, 422),
        )  # fmt: skip
        yield Route("POST", f"{one}/finalize", Grant(grant, "create"), finalize, "Finish the upload")
    if kind.downlinks:
        at = f"{one}/downlinks"
        yield Route(
            "GET", at, Grant(grant, "data"), downlinks, "Where to download", None, list[ArtifactURL],
            errors=(400, 409),
        )  # fmt: skip
    if kind.name in {"Report", "Audit"}:
        yield Route(
            "GET", f"{one}/evidence", Grant(grant, "data"), evidence, "Where to download it with all it was made from",
            None, EvidenceLinks, errors=(400, 409),
        )  # fmt: skip
    if kind.logs:
        yield from _workflow(kind, its, one)


def _workflow(kind: Kind, its: Collection, one: str) -> Iterator[Route]:
    grant, logs = its.resource, f"{one}/logs"
    yield Route(
        "PUT", f"{one}/terminate", Grant(grant, "terminate"), its.terminate, "Terminate", None, Status
    )
    yield Route(
        "GET", f"{one}/progress", Grant(grant, "get"), progress, "How far it is, and what it waits for", None,
        WorkflowProgress,
    )  # fmt: skip
    yield Route(
        "GET", logs, Grant(grant, "data"), whole_log, "The whole log", None, ArtifactURL, errors=(400, 409)
    )
    yield Route(
        "GET", f"{logs}/workflow", Grant(grant, "data"), workflow_logs, "Newest lines of the log", None,
        WorkflowLogsResponse, _LOGS,
    )  # fmt: skip
    yield Route(
        "WEBSOCKET", f"{logs}/workflow/stream", Grant(grant, "data"), log_stream, "Lines as they are written"
    )


def _sessions() -> Iterator[Route]:
    kind = next(each for each in KINDS if each.name == "InferenceSession")
    its = Collection(kind.name, CREATE_REQUESTS[kind.name], kind.build, kind.privileged)

    async def create(call: Call) -> Response:
        return json_response(await inference_sessions.with_token(call, await its.created(call)))

    path, grant = "/v0/inferencesessions", its.resource
    one = f"{path}/{{id}}"
    made, asked = InferenceSessionAndToken, InferenceSessionTokenCreateRequest
    yield Route("POST", path, Grant(grant, "create"), create, f"Create: {kind.name}", its.request, made)
    for method in ("GET", "POST"):
        yield Route(
            method, f"{one}/ready", Grant(grant, "get"), inference_sessions.ready, "Whether it is ready"
        )
        yield Route(
            method, f"{one}/token", Grant(grant, "create"), inference_sessions.token, "Another token",
            asked if method == "POST" else None, str, errors=(400, 409, 413, 415, 422),
        )  # fmt: skip
    to = f"{one}/infer/{{endpoint:path}}"
    yield Route(
        "POST",
        to,
        Grant(grant, "consume"),
        inference_sessions.infer,
        "Ask a replica",
        media=ANY,
        errors=(501, 502),
    )


def _quarantine() -> Iterator[Route]:
    path, one, check = "/v0/quarantine", "/v0/quarantine/{id}", Administrator()
    found = list[QuarantinedEntity]
    which = (
        Parameter("consumer", "Only what this consumer has put in quarantine; commands is the aggregator."),
    )
    yield Route("GET", path, check, quarantine.query, "Entities in quarantine", None, found)
    yield Route("GET", one, check, quarantine.get, "One, with what waits", None, found, which)
    yield Route("PUT", f"{one}/release", check, quarantine.release, "Try again", None, Status, which)
    yield Route("PUT", f"{one}/drop", check, quarantine.drop, "Go on without it", None, Status, which)


def _accounts() -> Iterator[Route]:
    path, one, keys = "/v0/accounts", "/v0/accounts/{id}", "/v0/accounts/{id}/tokens"
    get, edit = Grant("accounts", "get"), Grant("accounts", "edit")
    new, asked = AccountCreateRequest, AccountTokenCreateRequest
    yield Route("POST", path, Grant("accounts", "create"), accounts.create, "Create: Account", new, Account)
    yield Route(
        "GET", path, Grant("accounts", "query"), accounts.query, "Query", None, list[Account],
        (Parameter("name", "Only with this name."),),
    )  # fmt: skip
    yield Route("GET", one, get, accounts.get, "Get", None, Account)
    yield Route("PUT", f"{one}/delete", Grant("accounts", "delete"), accounts.delete, "Delete", None, Status)
    yield Route("PUT", f"{one}/suspend", edit, accounts.suspend, "Suspend", None, Status)
    yield Route("PUT", f"{one}/reactivate", edit, accounts.reactivate, "Reactivate", None, Status)
    new_key = Grant("accounts", "create")
    yield Route("POST", f"{path}/signing-keys", new_key, accounts.rotate, "Create: signing key", None, str)
    yield Route(
        "PATCH", f"{one}/labels", edit, accounts.label, "Edit labels (not implemented)", errors=(501,)
    )
    granted = f"{one}/permissions"
    yield Route("GET", granted, get, accounts.permissions, "Permissions", None, list[AccessGrant])
    yield Route(
        "PUT", granted, edit, accounts.set_permissions, "Set permissions", AccountPermissionsSetRequest,
        list[AccessGrant],
    )  # fmt: skip
    yield Route("POST", keys, edit, accounts.create_token, "Create: token", asked, str)
    yield Route("GET", keys, get, accounts.tokens, "Tokens", None, list[APIKey])
    yield Route("DELETE", keys, edit, accounts.revoke, "Revoke all tokens")
    yield Route("GET", f"{keys}/{{jti}}", get, accounts.token, "One token", None, APIKey)
    yield Route("DELETE", f"{keys}/{{jti}}", edit, accounts.revoke, "Revoke a token")


def _objects() -> Iterator[Route]:
    path = "/v0/objects/{key:path}"
    yield Route("PUT", path, Signed(), objects.put, "Upload a file, with a signed URL", media="")
    yield Route("GET", path, Signed(), objects.get, "Download a file, with a signed URL", media=ANY)
