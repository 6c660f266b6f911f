"""Files of datasets, modules and models: a signed URL for each, then `finalize`, which verifies and closes."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from starlette.responses import Response

from steelyard.api.entities.loading import load
from steelyard.api.http.context import Call, answer, json_of
from steelyard.api.http.errors import Conflict, Invalid, NotFound
from steelyard.schema.answers import StorageSignedURL
from steelyard.schema.commands import StatusData, StatusPatch, UpdateEntityStatus
from steelyard.schema.dataset import Dataset
from steelyard.schema.model import Model
from steelyard.schema.module import Module
from steelyard.schema.names import place
from steelyard.storage.signing import Signer
from steelyard.storage.staging import Area, ChangedMeanwhile, Expected, UploadError, discard, finalise

WAITING = "WaitingForUpload"
_ENDED = frozenset({"Deleted", "Error", "Terminated"})
Uploaded = Dataset | Module | Model


async def uplink(call: Call) -> Response:
    """A URL to PUT one file to."""
    entity = await _uploaded(call)
    path = call.values["path"]
    expected = {each.path: each for each in _expected(entity)}.get(path)
    if expected is None:
        raise Invalid(f"path: {path!r} is none of the files of {entity.kind} {entity.id}", field="path")
    if entity.status != WAITING:
        raise Conflict(f"status: {entity.kind} {entity.id} is {entity.status} and takes no more files")
    headers = {"content-md5": expected.md5} if expected.md5 else {}
    expires = call.now + timedelta(seconds=call.api.platform.settings.upload_url_seconds)
    signed = signer(call).sign("PUT", _area(call, entity).key(path), expires, headers)
    return answer(StorageSignedURL(url=signed.url, method=signed.method, headers=dict(signed.headers)))


async def finalize(call: Call) -> Response:
    """Verify what was uploaded; from then on it is final. Answers null, also when it was done before."""
    entity = await _uploaded(call)
    if entity.status == WAITING:
        await _finish(call, entity)
    elif entity.status in _ENDED or not _expected(entity):
        raise Conflict(f"status: {entity.kind} {entity.id} is {entity.status}")
    return json_of(None)


def signer(call: Call) -> Signer:
    """Signs URLs that go out. Raises BadRequest where the API does not know by which address it is reached."""
    return Signer(call.api.platform.signing_secret, f"{call.base_url}/v0/objects")


def verifier(call: Call) -> Signer:
    """Verifies URLs that have come in, and names upload areas: that takes no address."""
    return Signer(call.api.platform.signing_secret, "")


async def _finish(call: Call, entity: Uploaded) -> None:
    store, area, spool = call.api.platform.store, _area(call, entity), call.api.platform.settings.spool
    try:
        await finalise(store, area, _expected(entity), _final(entity), spool=Path(spool) if spool else None)
    except ChangedMeanwhile as error:
        await _set_status(call, entity, "Error", "UploadFailed", str(error))
        raise Conflict(str(error), field=error.path) from error
    except UploadError as error:
        raise Invalid(f"artifacts: {error}", field=error.path) from error
    # A model that was uploaded is fetched next, like any other; datasets and modules are ready as they are.
    try:
        await _set_status(call, entity, "Created" if isinstance(entity, Model) else "Ready", None, None)
    except Conflict:
        if (await load(call)).status in _ENDED:
            raise
        # Somebody else has finalized it meanwhile, and it may have gone on since.
    await discard(store, area)


async def _set_status(
    call: Call, entity: Uploaded, status: str, reason: str | None, message: str | None
) -> None:
    patch = StatusPatch(status=status, reason=reason, message=message)
    data = StatusData(id=entity.id, kind=entity.kind, attributes=patch)
    await call.api.commands.edit(UpdateEntityStatus(data=data), call.asker(), call.now)


async def _uploaded(call: Call) -> Uploaded:
    entity = await load(call)
    if not isinstance(entity, Dataset | Module | Model):
        raise NotFound(f"{entity.kind} {entity.id} has no files to upload")
    return entity


def _expected(entity: Uploaded) -> Sequence[Expected]:
    if not isinstance(entity, Model):
        return [Expected(each.path, None, each.digest.md5) for each in entity.artifacts]
    if entity.source.kind != "Upload" or entity.artifact.volume is None:
        return []
    return [Expected(each.path, each.size, each.digest.md5) for each in entity.artifact.volume.files]


def _area(call: Call, entity: Uploaded) -> Area:
    return Area(entity.id, verifier(call).nonce(entity.id))


def _final(entity: Uploaded) -> str:
    return f"uploads/{entity.id}" if isinstance(entity, Model) else place(entity.kind, entity.id)
