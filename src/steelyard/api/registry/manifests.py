"""Manifests, by tag and by digest, and the list of tags.

A manifest's object is the media type of its first push, a line break, and its bytes as they were pushed. It is
create-only, and written before its tag, so a crash leaves no tag without its manifest.
"""

import hashlib
import re
from collections.abc import Collection, Iterator
from urllib.parse import quote

import orjson
from starlette.responses import Response

from steelyard.api.http.context import RequestContext
from steelyard.api.http.responses import value_response
from steelyard.api.registry.errors import (
    DigestInvalid,
    ManifestBlobUnknown,
    ManifestInvalid,
    ManifestUnknown,
    TagInvalid,
    TooMany,
)
from steelyard.api.registry.repository import (
    MANIFEST_BYTES,
    MOST_MANIFESTS,
    MOST_TAGS,
    Repository,
    readable,
    writable,
)
from steelyard.api.registry.sealing import Seal
from steelyard.storage.store import ObjectExists, ObjectMissing

_MEDIA = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9!#$&^_.+-]{0,126}/[a-zA-Z0-9][a-zA-Z0-9!#$&^_.+-]{0,126}")
_MOST_DESCRIPTORS = 10_000
_CONTENT_SECURITY_POLICY = "sandbox; default-src 'none'"
"""Policy for a browser: a client chose the manifest's media type, so nothing of it runs with this host's rights."""


async def get(context: RequestContext) -> Response:
    """The manifest, byte for byte as it was pushed."""
    repository = await readable(context)
    digest = await digest_of(repository, context.values["reference"])
    media, content = await _read(repository, digest)
    headers = {
        "Content-Length": str(len(content)),
        "Content-Type": media,
        "Docker-Content-Digest": digest,
        "Content-Security-Policy": _CONTENT_SECURITY_POLICY,
        "X-Content-Type-Options": "nosniff",
    }
    return Response(b"" if context.request.method == "HEAD" else content, headers=headers)


async def put(context: RequestContext) -> Response:
    """The manifest, durable; what it names has to be there before."""
    repository, reference = await writable(context), context.values["reference"]
    content = b"".join([piece async for piece in context.stream(MANIFEST_BYTES)])
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    named = ":" not in reference
    if named:
        repository.check_tag(reference)
    elif repository.manifest(reference) != repository.manifest(digest):
        raise DigestInvalid(f"digest: is {reference}, and the content has {digest}")
    manifest = _parsed(content)
    media = context.headers.get("content-type", "").partition(";")[0].strip() or str(
        manifest.get("mediaType", "")
    )
    if not _MEDIA.fullmatch(media):
        raise ManifestInvalid("Content-Type: should be the media type of the manifest")
    await _check_content(repository, manifest, await repository.deleted())
    await _check_room(repository, digest, reference if named else None)
    await repository.check_open()
    await _write(repository, digest, media, content)
    if named:
        await repository.write_tag(reference, digest)
    else:
        await repository.restore_manifest(digest)
        await repository.check_kept()
    headers = {"Location": f"{repository.path}/manifests/{digest}", "Docker-Content-Digest": digest}
    return Response(status_code=201, headers=headers)


async def _write(repository: Repository, digest: str, media: str, content: bytes) -> None:
    """Write a manifest. Raises ManifestInvalid if it is there with another media type.

    A write that replaced it could be suspended until after the artifact is ready, and change the media type then.
    """
    key = repository.manifest(digest)
    try:
        await repository.store.create(key, media.encode() + b"\n" + content)
    except ObjectExists as error:
        kept = (await repository.store.get(key)).partition(b"\n")[0].decode()
        if kept != media:
            raise ManifestInvalid(
                f"Content-Type: the manifest was pushed to this artifact as {kept}, and keeps this media type"
            ) from error


async def _check_room(repository: Repository, digest: str, tag: str | None) -> None:
    """Raise TooMany for a tag or a manifest beyond those that a repository may have."""
    if tag is not None and len(tags := await repository.tags()) >= MOST_TAGS and tag not in tags:
        raise TooMany(f"the artifact has {MOST_TAGS} tags, and no more are allowed")
    if await repository.has(repository.manifest(digest)):  # perhaps deleted: it counts nevertheless
        return
    if len([manifest async for manifest in repository.manifests()]) >= MOST_MANIFESTS:
        raise TooMany(f"the artifact has {MOST_MANIFESTS} manifests, and no more are allowed")


async def delete(context: RequestContext) -> Response:
    """Accepted: the tag is gone, or the manifest of a digest with all of its tags."""
    repository, reference = await writable(context), context.values["reference"]
    digest = await digest_of(repository, reference)
    await repository.check_open()
    if ":" not in reference:
        await repository.delete_tag(reference)
        return Response(status_code=202)
    if not await repository.holds_manifest(digest):
        raise ManifestUnknown(f"there is no manifest {reference}")
    await repository.delete_manifest(digest)
    return Response(status_code=202)


async def tags(context: RequestContext) -> Response:
    """The tags in order: at most `n`, after the tag `last`."""
    repository = await readable(context)
    asked, last = context.query.get("n", str(MOST_TAGS)), context.query.get("last", "")
    if not re.fullmatch(r"[0-9]{1,9}", asked):
        raise TagInvalid("n: should be a number of tags")
    limit = min(int(asked), MOST_TAGS)
    after = [tag for tag in await repository.tags() if tag > last]
    page = after[:limit]
    response = value_response({"name": f"artifacts/{repository.id}", "tags": page})
    if page and len(after) > limit:
        response.headers["Link"] = (
            f'<{repository.path}/tags/list?n={limit}&last={quote(page[-1])}>; rel="next"'
        )
    return response


async def content_of(repository: Repository) -> Seal:
    """Return what an open repository holds now, as a seal would say it."""
    deleted = sorted(await repository.deleted())
    return Seal(await repository.tagged(), deleted)


async def missing(repository: Repository, content: Seal) -> str | None:
    """Return what keeps this content of an artifact from being whole; None if it is.

    What is whole once stays whole: blobs and manifests are not removed before the artifact is ready.
    """
    if not content.tags:
        unfinished = len(await repository.unfinished())
        uploads = f", and {unfinished} upload{'s have' if unfinished > 1 else ' has'} begun and not ended"
        return f"the push is not finished: the repository has no tag{uploads if unfinished else ''}"
    deleted = frozenset(content.deleted)
    try:
        for tag, digest in content.tags.items():
            # A manifest may have been deleted since the deletions were read.
            key = repository.manifest(digest)
            if key in deleted or not await repository.has(key):
                return f"tag {tag} leads to a manifest that is not there"
        async for digest in repository.manifests():
            if repository.manifest(digest) not in deleted:
                await _check_content(repository, _parsed((await _read(repository, digest))[1]), deleted)
    except (ManifestBlobUnknown, ManifestUnknown) as error:
        return error.detail
    return None


async def digest_of(repository: Repository, reference: str) -> str:
    """Return the digest of a tag, or the digest itself. Raises ManifestUnknown, TagInvalid, DigestInvalid."""
    if ":" in reference:
        repository.manifest(reference)
        return reference
    if (digest := await repository.target(reference)) is None:
        raise ManifestUnknown(f"there is no tag {reference}")
    return digest


async def _read(repository: Repository, digest: str) -> tuple[str, bytes]:
    """Return media type and bytes. Raises ManifestUnknown."""
    try:
        if await repository.is_deleted(digest):
            raise ManifestUnknown(f"there is no manifest {digest}")
        media, _, content = (await repository.store.get(repository.manifest(digest))).partition(b"\n")
    except ObjectMissing as error:
        raise ManifestUnknown(f"there is no manifest {digest}") from error
    return media.decode(), content


def _parsed(content: bytes) -> dict[str, object]:
    try:
        manifest = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise ManifestInvalid(f"the manifest is not JSON: {error}") from error
    if not isinstance(manifest, dict) or manifest.get("schemaVersion") != 2:
        raise ManifestInvalid("the manifest should be a JSON object with schemaVersion 2")
    return manifest


async def _check_content(
    repository: Repository, manifest: dict[str, object], deleted: Collection[str]
) -> None:
    """Raise ManifestBlobUnknown if something is missing that the manifest names, ManifestInvalid, DigestInvalid."""

    async def has(key: str) -> bool:
        return key not in deleted and await repository.has(key)

    for digest in dict.fromkeys(_digests(manifest, "layers")) | dict.fromkeys(_digests(manifest, "config")):
        if not await has(repository.blob(digest)):
            raise ManifestBlobUnknown(f"the manifest names blob {digest}, which is not there")
    for digest in dict.fromkeys(_digests(manifest, "manifests")):
        if not await has(repository.manifest(digest)):
            raise ManifestBlobUnknown(f"the index names manifest {digest}, which is not there")


def _digests(manifest: dict[str, object], field: str) -> Iterator[str]:
    value = manifest.get(field)
    descriptors = value if isinstance(value, list) else [] if value is None else [value]
    if len(descriptors) > _MOST_DESCRIPTORS:
        raise ManifestInvalid(f"{field}: has more than {_MOST_DESCRIPTORS} entries")
    for descriptor in descriptors:
        if not isinstance(descriptor, dict) or not isinstance(digest := descriptor.get("digest"), str):
            raise ManifestInvalid(f"{field}: should have descriptors with a digest")
        if not descriptor.get("urls"):  # content of another place, which is not pushed
            yield digest
