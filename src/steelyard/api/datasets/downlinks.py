"""What an entity has brought about, as signed URLs: each file with its digest, as a manifest vouches for it."""

import base64
from datetime import timedelta

import orjson
from starlette.responses import Response

from steelyard.api.datasets.uploads import signer
from steelyard.api.entities.loading import load
from steelyard.api.http.context import Call, json_response
from steelyard.api.http.errors import Conflict
from steelyard.schema.answers import ArtifactURL, StorageSignedURL
from steelyard.schema.data import Artifact, Digest
from steelyard.schema.entities import AnyEntity
from steelyard.schema.names import MANIFEST, place
from steelyard.schema.status import SUCCESS
from steelyard.storage.store import ObjectMissing


async def downlinks(call: Call) -> Response:
    """Links to an evaluation's verified parts, a dataset's or module's files, or the pages of a report or audit."""
    entity = await load(call)
    if entity.status not in SUCCESS:
        raise Conflict(f"status: {entity.kind} {entity.id} is {entity.status}: its files are not final")
    artifacts = await artifacts_of(call, entity)
    links = [link(call, entity, artifact).dump_json() for artifact in artifacts]
    return json_response(f"[{','.join(links)}]".encode())


async def artifacts_of(call: Call, entity: AnyEntity) -> list[Artifact]:
    """Its files, as its manifest vouches for them; without a manifest, all that lie there."""
    manifest = await _manifest(call, entity)
    return manifest if manifest is not None else await _listed(call, entity)


def link(call: Call, entity: AnyEntity, artifact: Artifact) -> ArtifactURL:
    expires = call.now + timedelta(seconds=call.api.platform.settings.download_url_seconds)
    signed = signer(call).sign("GET", f"{place(entity.kind, entity.id)}/{artifact.path}", expires)
    url = StorageSignedURL(url=signed.url, method=signed.method, headers=dict(signed.headers))
    return ArtifactURL(artifact=artifact, signedURL=url)


async def _manifest(call: Call, entity: AnyEntity) -> list[Artifact] | None:
    try:
        json = await call.api.platform.store.get(f"{place(entity.kind, entity.id)}/{MANIFEST}")
    except ObjectMissing:
        return None
    files = orjson.loads(json)["files"]
    return [_artifact(str(each["path"]), each.get("md5")) for each in files]


async def _listed(call: Call, entity: AnyEntity) -> list[Artifact]:
    """Without a manifest: all that lies there but what is the platform's own, below names that begin with a dot."""
    prefix = f"{place(entity.kind, entity.id)}/"
    keys = [info.key.removeprefix(prefix) async for info in call.api.platform.store.list(prefix)]
    return [_artifact(path, None) for path in keys if not path.startswith(".")]


def _artifact(path: str, md5: str | None) -> Artifact:
    name = path.rpartition("/")[2]
    suffix = name.partition(".")[2]
    return Artifact(kind=suffix or None, path=path, digest=Digest(md5=_base64(md5)))


def _base64(md5: str | None) -> str | None:
    """Return the digest as Content-MD5 has it; a manifest may have it in hexadecimal digits."""
    return base64.b64encode(bytes.fromhex(md5)).decode() if md5 and len(md5) == 32 else md5
