"""Manifests, by tag and by digest.

A manifest's object is the media type of its first push, a line break, and its bytes as they were pushed. It is
create-only, and written before its tag, so a crash leaves no tag without its manifest.
"""

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress

import orjson
from starlette.responses import Response

from steelyard.api.http.context import RequestContext
from steelyard.api.registry.errors import (
    ContentChanged,
    DigestInvalid,
    ManifestBlobUnknown,
    ManifestInvalid,
    ManifestUnknown,
    TooMany,
)
from steelyard.api.registry.referrers import DIGEST, Referrer, make_descriptor, read_subject
from steelyard.api.registry.repository import (
    MANIFEST_BYTES,
    MOST_MANIFESTS,
    MOST_TAGS,
    Repository,
    hex_digits,
    readable,
    writable,
)
from steelyard.api.registry.sealing import Seal
from steelyard_common.whole_files import TooLarge, parse_json
from steelyard_evaluation.storage.store import ObjectExists, ObjectMissing

_MEDIA = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9!#$&^_.+-]{0,126}/[a-zA-Z0-9][a-zA-Z0-9!#$&^_.+-]{0,126}")
MOST_DESCRIPTORS = 10_000
"""Maximum entries of a manifest: its configuration, layers and manifests together."""
MOST_NAMED = 100_000
"""Maximum blobs and manifests that the manifests of an artifact name."""
MANIFESTS_BYTES = 256 << 20
"""Maximum bytes of all manifests of an artifact, which are read when it is finalized."""
_MANIFEST_VALUES = 200_000
"""Maximum values of a manifest's JSON, which take more memory than its bytes."""
_CONTENT_SECURITY_POLICY = "sandbox; default-src 'none'"
"""Policy for a browser: a client chose the manifest's media type, so nothing of it runs with this host's rights."""


async def get(context: RequestContext) -> Response:
    """The manifest, byte for byte as it was pushed."""
    repository = await readable(context)
    digest = await resolve_digest(repository, context.values["reference"])
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
    manifest = _parse(content)
    subject = read_subject(manifest)
    if subject is not None:
        hex_digits(subject)
    media = context.headers.get("content-type", "").partition(";")[0].strip() or str(
        manifest.get("mediaType", "")
    )
    if not _MEDIA.fullmatch(media):
        raise ManifestInvalid("Content-Type: should be the media type of the manifest")
    await _check_content(repository, manifest, await repository.list_deleted())
    await _check_room(repository, digest, reference if named else None)
    if not await repository.is_sealed_with(repository.manifest(digest), reference if named else None, digest):
        await repository.check_open()
        await _write(repository, digest, media, content)
        await _index(repository, manifest, media, digest, len(content))
        if named:
            await repository.write_tag(reference, digest)
        else:
            await repository.restore_manifest(digest)
            await repository.check_kept()
    headers = {"Location": f"{repository.path}/manifests/{digest}", "Docker-Content-Digest": digest}
    if subject is not None:
        headers["OCI-Subject"] = (
            subject  # a client that misses it keeps a list of referrers of its own, by a tag
        )
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
    manifests = [manifest async for manifest in repository.manifests()]
    if not manifests:
        await repository.referrers.complete()
    if len(manifests) >= MOST_MANIFESTS:
        raise TooMany(f"the artifact has {MOST_MANIFESTS} manifests, and no more are allowed")


async def delete(context: RequestContext) -> Response:
    """Accepted: the tag is gone, or the manifest of a digest with all of its tags."""
    repository, reference = await writable(context), context.values["reference"]
    digest = await resolve_digest(repository, reference)
    await repository.check_open()
    if ":" not in reference:
        await repository.delete_tag(reference)
        return Response(status_code=202)
    if not await repository.holds_manifest(digest):
        raise ManifestUnknown(f"there is no manifest {reference}")
    await repository.delete_manifest(digest)
    return Response(status_code=202)


async def read_seal(repository: Repository) -> Seal:
    """Return what an open repository holds now, as a seal would say it."""
    deleted = sorted(await repository.list_deleted())
    tagged = await repository.read_tags()
    await _index_earlier(repository)
    return Seal(tagged, deleted, [referrer.name for referrer in await repository.referrers.list_referrers()])


async def find_referrers(repository: Repository, subject: str) -> list[Referrer]:
    """Return the manifests that have a subject, without the deleted ones, in the order of their digests."""
    sealed = None if repository.is_open else await repository.read_seal()
    if sealed is None or sealed.referrers is None:  # the seal of an earlier version says nothing about them
        await _index_earlier(repository)
    referrers = await repository.referrers.list_referrers(subject)
    deleted = await repository.list_deleted()
    kept = None if sealed is None or sealed.referrers is None else frozenset(sealed.referrers)
    return [
        referrer
        for referrer in referrers
        if repository.manifest(f"{DIGEST}{referrer.manifest}") not in deleted
        and (kept is None or referrer.name in kept)
    ]


async def _index(
    repository: Repository, manifest: dict[str, object], media: str, digest: str, size: int
) -> None:
    """Let the list of referrers have a manifest, if it has a subject."""
    subject = read_subject(manifest)
    if subject is not None:
        descriptor = make_descriptor(manifest, media, digest, size)
        await repository.referrers.add(hex_digits(subject), hex_digits(digest), descriptor)


async def _index_earlier(repository: Repository) -> None:
    """Let the list of referrers have the manifests that an earlier version of the platform took, once."""
    if await repository.referrers.is_whole():
        return
    async for digest in repository.manifests():
        with suppress(
            ManifestUnknown, ManifestInvalid, DigestInvalid
        ):  # deleted, or with a subject of no use
            media, content = await _read(repository, digest)
            await _index(repository, _parse(content), media, digest, len(content))
    await repository.referrers.complete()


async def missing(repository: Repository, content: Seal) -> str | None:
    """Return what keeps this content of an artifact from being whole; None if it is.

    Complete content stays complete: blobs and manifests are not removed before the artifact is ready. The store is
    asked for two lists, and for each manifest; whatever the manifests name is looked for in the lists.
    """
    if not content.tags:
        unfinished = len(await repository.list_uploads())
        uploads = f", and {unfinished} upload{'s have' if unfinished > 1 else ' has'} begun and not ended"
        return f"the push is not finished: the repository has no tag{uploads if unfinished else ''}"
    deleted = frozenset(content.deleted)
    manifests = {
        info.key: info.size async for info in repository.manifest_objects() if info.key not in deleted
    }
    for tag, digest in content.tags.items():
        if repository.manifest(digest) not in manifests:
            return f"tag {tag} leads to a manifest that is not there"
    if (size := sum(manifests.values())) > MANIFESTS_BYTES:
        return f"its manifests have {size} bytes, of which {MANIFESTS_BYTES} are allowed"
    try:
        named = await _all_named(repository, manifests)
    except (ManifestUnknown, TooMany) as error:
        return error.detail
    for key in manifests:
        named.pop(key, None)
    async for key in repository.blob_keys():
        if key not in deleted:
            named.pop(key, None)
    return _lacks(*next(iter(named.items()))) if named else None


async def _all_named(repository: Repository, manifests: Iterable[str]) -> dict[str, str]:
    """Return the keys of all that the manifests name, each once, with the digests. Raises ManifestUnknown, TooMany."""
    named: dict[str, str] = {}
    for key in manifests:
        _, content = await _read(repository, f"sha256:{key.rpartition('/')[2]}")
        named |= _list_references(repository, _parse(content))
        if len(named) > MOST_NAMED:
            raise TooMany(f"its manifests name more than {MOST_NAMED} blobs and manifests, which are allowed")
    return named


async def resolve_digest(repository: Repository, reference: str) -> str:
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
    if hashlib.sha256(content).hexdigest() != hex_digits(digest):
        raise ContentChanged(f"the stored manifest is not that of its digest {digest}")
    return media.decode(), content


def _parse(content: bytes) -> dict[str, object]:
    try:
        manifest = parse_json(content, _MANIFEST_VALUES, _MANIFEST_VALUES)
    except orjson.JSONDecodeError as error:
        raise ManifestInvalid(f"the manifest is not JSON: {error}") from error
    except TooLarge as error:
        raise ManifestInvalid(f"the manifest {error}") from error
    if not isinstance(manifest, dict) or manifest.get("schemaVersion") != 2:
        raise ManifestInvalid("the manifest should be a JSON object with schemaVersion 2")
    return manifest


async def _check_content(
    repository: Repository, manifest: dict[str, object], deleted: Collection[str]
) -> None:
    """Raise ManifestBlobUnknown if something is missing that the manifest names, ManifestInvalid, DigestInvalid."""
    for key, digest in _list_references(repository, manifest).items():
        if key in deleted or not await repository.has(key):
            raise ManifestBlobUnknown(_lacks(key, digest))


def _lacks(key: str, digest: str) -> str:
    is_blob = key.rpartition("/")[0].endswith("/blobs")
    return f"the {'manifest names blob' if is_blob else 'index names manifest'} {digest}, which is not there"


def _list_references(repository: Repository, manifest: dict[str, object]) -> dict[str, str]:
    """Return the keys of what a manifest names, each once, with the digests. Raises ManifestInvalid, DigestInvalid."""
    named: dict[str, str] = {}
    entries = 0
    for field in ("layers", "config", "manifests"):
        value = manifest.get(field)
        descriptors = value if isinstance(value, list) else [] if value is None else [value]
        entries += len(descriptors)
        if entries > MOST_DESCRIPTORS:
            raise ManifestInvalid(f"{field}: the manifest has more than {MOST_DESCRIPTORS} entries")
        key_of = repository.manifest if field == "manifests" else repository.blob
        named |= {key_of(digest): digest for digest in _digests(descriptors, field)}
    return named


def _digests(descriptors: Iterable[object], field: str) -> Iterator[str]:
    for descriptor in descriptors:
        if not isinstance(descriptor, dict) or not isinstance(digest := descriptor.get("digest"), str):
            raise ManifestInvalid(f"{field}: should have descriptors with a digest")
        if not descriptor.get("urls"):  # content of another place, which is not pushed
            yield digest
