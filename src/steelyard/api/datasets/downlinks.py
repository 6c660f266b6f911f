"""Signed URLs of the files of an entity, each with the digest of the entity's manifest."""

import base64
from datetime import timedelta

import orjson
from starlette.responses import Response

from steelyard.api.datasets.delivery import READ_BEFORE
from steelyard.api.datasets.uploads import sign_url
from steelyard.api.entities.loading import load, status_reason
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Conflict
from steelyard.api.http.responses import list_response
from steelyard_evaluation.storage.store import ObjectMissing
from steelyard_schema.answers import ArtifactURL
from steelyard_schema.data import Artifact, Digest
from steelyard_schema.entities import PLURALS, AnyEntity
from steelyard_schema.names import MANIFEST, place
from steelyard_schema.publication import PAGES
from steelyard_schema.status import ENDINGS, SUCCESS, TERMINAL, WITH_WORKFLOW

_NOT_UPLOADED = "Expired"
"""Reason of a dataset that was never uploaded: no workflow has run for it."""


async def downlinks(context: RequestContext) -> Response:
    """Signed URLs of an evaluation's verified parts, a dataset's or module's files, or a report's or audit's pages.

    Of a public entity of another account, only the page.
    """
    entity = await load(context)
    check_final(context, entity)
    artifacts = await list_artifacts(context, entity)
    if not _reads_all(context, entity):
        artifacts = [artifact for artifact in artifacts if artifact.path == PAGES.get(entity.kind)]
    return list_response([await link(context, entity, artifact) for artifact in artifacts])


def check_final(context: RequestContext, entity: AnyEntity) -> None:
    """Raise Conflict for an entity without final files: it says why, and whether there will ever be some."""
    if entity.status in SUCCESS:
        return
    what = f"status: {entity.kind} {entity.id} is {entity.status}"
    if entity.status not in TERMINAL:
        raise Conflict(f"{what}: its files are not final before it is {ENDINGS[entity.kind][0]}")
    ran = entity.kind in WITH_WORKFLOW and entity.status != "Deleted" and entity.reason != _NOT_UPLOADED
    log = "; its log is at logs/workflow" if ran and _reads_all(context, entity) else ""
    raise Conflict(f"{what}{status_reason(entity)}: it has no files to download{log}")


def _reads_all(context: RequestContext, entity: AnyEntity) -> bool:
    """Return whether the caller may read more than the page of a public entity."""
    resource = PLURALS[entity.kind]
    return context.access.allows(resource, "data", entity.account, entity.id)  # type: ignore[arg-type]


async def list_artifacts(context: RequestContext, entity: AnyEntity) -> list[Artifact]:
    """Return the files of an entity's manifest; without a manifest, all of its files.

    The platform's own files, in folders whose names begin with a dot, are left out.
    """
    store, folder = context.api.platform.store, place(entity.kind, entity.id)
    try:
        manifest = orjson.loads(await store.get(f"{folder}/{MANIFEST}"))
    except ObjectMissing:
        paths = [info.key.removeprefix(f"{folder}/") async for info in store.list(f"{folder}/")]
        return [_artifact(path, None) for path in paths if not path.startswith(".")]
    return [_artifact(str(file["path"]), file.get("md5")) for file in manifest["files"]]


async def link(context: RequestContext, entity: AnyEntity, artifact: Artifact) -> ArtifactURL:
    """Return a signed URL of one file."""
    lifetime = timedelta(seconds=context.api.platform.settings.download_url_seconds)
    key = f"{place(entity.kind, entity.id)}/{artifact.path}"
    # A client compares a file that comes past the API by the digest of its link. Without one, the API compares it.
    by_store = artifact.digest.md5 is not None or await _is_large(context, key)
    url = await sign_url(context, "GET", key, lifetime, by_store=by_store)
    return ArtifactURL(artifact=artifact, signedURL=url)


async def _is_large(context: RequestContext, key: str) -> bool:
    """Return whether a file is too large to be sent by the API where stores sign URLs."""
    if context.api.platform.settings.signed_urls != "store":
        return False
    try:
        return (await context.api.platform.store.head(key)).size > READ_BEFORE
    except ObjectMissing:
        return False


def _artifact(path: str, md5: str | None) -> Artifact:
    name = path.rpartition("/")[2]
    suffix = name.partition(".")[2]
    if (
        md5 and len(md5) == 32
    ):  # hexadecimal digits, which a manifest may have; clients compare with Content-MD5
        md5 = base64.b64encode(bytes.fromhex(md5)).decode()
    return Artifact(kind=suffix or None, path=path, digest=Digest(md5=md5))
