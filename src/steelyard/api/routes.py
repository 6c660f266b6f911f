"""The route table: every path of the API, who may call it, and which handler answers."""

from collections.abc import Iterator
from dataclasses import replace

from steelyard.api.accounts.routes import account_routes
from steelyard.api.backups.routes import backup_routes
from steelyard.api.datasets.routes import download_routes, object_routes, upload_routes
from steelyard.api.entities.collection import Collection
from steelyard.api.entities.routes import creation_routes, entity_routes
from steelyard.api.http.pages import page_routes
from steelyard.api.http.routing import Route
from steelyard.api.kinds import KINDS, Kind
from steelyard.api.quarantine.routes import quarantine_routes
from steelyard.api.quotas.routes import quota_routes
from steelyard.api.reports.routes import evidence_routes
from steelyard.api.workflows.routes import workflow_routes
from steelyard_schema.requests import CREATE_REQUESTS


def routes() -> Iterator[Route]:
    """Yield every route of the API."""
    yield from page_routes(routes)
    for kind in KINDS:
        yield from _tag(kind.name, _kind_routes(kind))
    yield from _tag("Quota", quota_routes())
    yield from _tag("Account", account_routes())
    yield from _tag("Quarantine", quarantine_routes())
    yield from _tag("Backup", backup_routes())
    yield from _tag("Objects", object_routes())


def _tag(tag: str, routes: Iterator[Route]) -> Iterator[Route]:
    for route in routes:
        yield replace(route, tag=tag)


def _kind_routes(kind: Kind) -> Iterator[Route]:
    collection = Collection(
        kind=kind.name,
        request=CREATE_REQUESTS[kind.name],
        build=kind.build,
        privileged=kind.privileged,
        place=kind.path,
        completed=kind.completed,
        answer=kind.answer,
        ending=kind.ending,
        shown=kind.shown,
    )
    if not kind.own_creation:
        yield from creation_routes(collection)
    if kind.own_routes:
        yield from kind.own_routes(collection)
    yield from entity_routes(collection)
    if kind.uploads:
        yield from upload_routes(collection.resource)
    if kind.downloads:
        yield from download_routes(collection.kind, collection.resource)
    if kind.evidence:
        yield from evidence_routes(collection.resource)
    if kind.workflow:
        yield from workflow_routes(collection)
