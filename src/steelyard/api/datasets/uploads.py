"""Uploads of datasets, data sources, modules and models: signed URLs, then `finalize`, which verifies all files."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Literal

from starlette.responses import Response

from steelyard.api.datasets.creation import WAITING_FOR_UPLOAD
from steelyard.api.entities.loading import load, status_reason
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Conflict, Invalid, NotFound
from steelyard.api.http.responses import model_response, value_response
from steelyard_evaluation.storage.signing import Signer
from steelyard_evaluation.storage.staging import (
    Area,
    ChangedMeanwhile,
    ExpectedFile,
    UploadError,
    discard,
    finalise,
    is_closed,
)
from steelyard_schema.answers import StorageSignedURL
from steelyard_schema.commands import StatusData, StatusPatch, UpdateEntityStatus
from steelyard_schema.data_source import DataSource, list_uploads
from steelyard_schema.dataset import Dataset
from steelyard_schema.dependencies import find_data_source
from steelyard_schema.model import Model
from steelyard_schema.module import Module
from steelyard_schema.names import place

LARGEST_PUT = 4900 << 20
"""Most bytes that every kind of store takes in one request."""
_ENDED = frozenset({"Deleted", "Error", "Terminated"})
Uploaded = DataSource | Dataset | Module | Model


async def uplink(context: RequestContext) -> Response:
    """A signed URL to PUT one file to."""
    entity = await _parse_upload(context)
    path = context.values["path"]
    expected = {file.path: file for file in _list_expected(entity)}.get(path)
    if expected is None:
        raise Invalid(f"path: {path!r} is not one of the files of {entity.kind} {entity.id}", field="path")
    if entity.status != WAITING_FOR_UPLOAD:
        raise Conflict(
            f"status: {entity.kind} {entity.id} is {entity.status}{status_reason(entity)} and takes no more files"
        )
    headers = {"content-md5": expected.md5} if expected.md5 else {}
    lifetime = timedelta(seconds=context.api.platform.settings.upload_url_seconds)
    area = _area(context, entity)
    fits = expected.size is None or expected.size <= LARGEST_PUT
    # A file of a closed area must not change any more: the API compares what is sent, a store would write it.
    fits = fits and not await is_closed(context.api.platform.store, area)
    url = await sign_url(context, "PUT", area.key(path), lifetime, headers, by_store=fits)
    return model_response(url)


async def finalize(context: RequestContext) -> Response:
    """Null; the uploaded files are verified and final. A repeat answers the same."""
    entity = await _parse_upload(context)
    if entity.status == WAITING_FOR_UPLOAD:
        await _finish(context, entity)
    elif entity.status in _ENDED or not _list_expected(entity):
        raise Conflict(f"status: {entity.kind} {entity.id} is {entity.status}{status_reason(entity)}")
    return value_response(None)


def signer(context: RequestContext) -> Signer:
    """Return a signer of URLs for clients. Raises BadRequest if the API's own address is not known."""
    return Signer(context.api.platform.signing_secret, f"{context.base_url}/v0/objects")


async def sign_url(
    context: RequestContext,
    method: Literal["GET", "PUT"],
    key: str,
    lifetime: timedelta,
    headers: Mapping[str, str] | None = None,
    *,
    by_store: bool = True,
) -> StorageSignedURL:
    """A URL for a client: the store's own where the settings ask for it and the store has one, else the API's."""
    platform, needed = context.api.platform, dict(headers or {})
    if by_store and platform.settings.signed_urls == "store":
        signed = await platform.store.sign(method, key, lifetime)
        if signed is not None:
            return StorageSignedURL(url=signed.url, method=method, headers={**signed.headers, **needed})
    signed = signer(context).sign(method, key, context.now + lifetime, needed, token=context.access.token)
    return StorageSignedURL(url=signed.url, method=method, headers=dict(signed.headers))


def verifier(context: RequestContext) -> Signer:
    """Return a verifier of clients' URLs, which also names upload areas: neither needs the API's address."""
    return Signer(context.api.platform.signing_secret, "")


async def _finish(context: RequestContext, entity: Uploaded) -> None:
    store, area = context.api.platform.store, _area(context, entity)
    try:
        # A model's final place is written by its own workflow, which fetches the files from here.
        target = f"uploads/{entity.id}" if isinstance(entity, Model) else place(entity.kind, entity.id)
        most_bytes = context.api.platform.settings.file_bytes
        await finalise(store, area, _list_expected(entity), target, most_bytes)
    except ChangedMeanwhile as error:
        await _set_status(context, entity, "Error", "UploadFailed", str(error))
        raise Conflict(str(error), field=error.path) from error
    except UploadError as error:
        raise Invalid(f"artifacts: {error}", field=error.path) from error
    # An uploaded model has a workflow, like any other; all others are ready as they are.
    try:
        await _set_status(context, entity, "Created" if isinstance(entity, Model) else "Ready", None, None)
    except Conflict:
        # Another request may have finalized it at the same time, and the workflow may have begun: that is no error.
        if (await load(context)).status in _ENDED:
            raise
    await discard(store, area)


async def _set_status(
    context: RequestContext, entity: Uploaded, status: str, reason: str | None, message: str | None
) -> None:
    patch = StatusPatch(status=status, reason=reason, message=message)
    data = StatusData(id=entity.id, kind=entity.kind, attributes=patch)
    await context.api.commands.edit(UpdateEntityStatus(data=data), context.command_origin(), context.now)


async def _parse_upload(context: RequestContext) -> Uploaded:
    entity = await load(context)
    if not isinstance(entity, DataSource | Dataset | Module | Model):
        raise NotFound(f"{entity.kind} {entity.id} has no files to upload")
    return entity


def _list_expected(entity: Uploaded) -> Sequence[ExpectedFile]:
    if isinstance(entity, Dataset) and find_data_source(entity):
        return []  # its file is made by its workflow
    if isinstance(entity, DataSource):
        return [ExpectedFile(path, None, md5) for path, md5 in list_uploads(entity).items()]
    if not isinstance(entity, Model):
        return [ExpectedFile(file.path, None, file.digest.md5) for file in entity.artifacts]
    if entity.source.kind != "Upload" or entity.artifact.volume is None:
        return []
    return [ExpectedFile(file.path, file.size, file.digest.md5) for file in entity.artifact.volume.files]


def _area(context: RequestContext, entity: Uploaded) -> Area:
    return Area(entity.id, verifier(context).nonce(entity.id))
