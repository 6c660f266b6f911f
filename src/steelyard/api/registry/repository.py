"""A repository: the content of one artifact, and where it lies in storage.

`ociartifacts/<id>/` holds `blobs/<hex>`, `manifests/<hex>` and `tags/<tag>`. What has not been verified yet is in
`staging/<id>/`, where the reaper removes it once the artifact is finished or gone.

Finalizing writes `sealed`, create-only: the tags with their digests, and what is deleted. From then on it alone counts.
A request that had begun before looks for it right before each of its writes; what it writes in spite of that is content
by its digest, to which no tag leads, or a mark of a deletion, which nobody reads any more.

So a blob or a manifest is deleted by a mark, `deleted/blobs/<hex>` or `deleted/manifests/<hex>`: stores have no
conditional delete, and a process that is suspended right before a plain one would act on an artifact that is ready.
What the seal says was deleted is removed once the artifact is ready.
"""

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

import orjson

from steelyard.api.datasets.creation import WAITING_FOR_UPLOAD
from steelyard.api.entities.loading import load, load_other
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import NotFound
from steelyard.api.registry.errors import Denied, DigestInvalid, TagInvalid
from steelyard.schema.entities import AnyEntity
from steelyard.schema.names import place
from steelyard.storage.store import ObjectMissing, Store

MANIFEST_BYTES = 4 << 20
"""Maximum size of a manifest, which is the specification's advice."""
MOST_TAGS = 1000
"""Maximum tags of a repository, and of one answer."""
MOST_MANIFESTS = 10_000
"""Maximum manifests of a repository, with those that have no tag or are deleted."""
_DELETED = "deleted/"
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_TAG = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}")


@dataclass(frozen=True)
class Seal:
    """Content of an artifact as it was finalized."""

    tags: Mapping[str, str]
    """Digests by tags."""
    deleted: Sequence[str] = ()
    """Keys of the blobs and manifests that were deleted."""

    @classmethod
    def parse(cls, json: bytes) -> "Seal":
        content = orjson.loads(json)
        # Earlier versions wrote the tags alone, of which one may be called `tags`, too.
        is_whole = isinstance(content.get("tags"), Mapping)
        return cls(content["tags"], content["deleted"]) if is_whole else cls(content)

    def dump_json(self) -> bytes:
        return orjson.dumps({"tags": self.tags, "deleted": list(self.deleted)})


@dataclass(frozen=True)
class Repository:
    """Content of one artifact."""

    id: str
    store: Store
    is_open: bool = True
    """False once the artifact has been finalized: its tags are those of the seal."""

    @property
    def path(self) -> str:
        return f"/v2/artifacts/{self.id}"

    def blob(self, digest: str) -> str:
        """Return the key of a blob. Raises DigestInvalid."""
        return f"{self._folder}/blobs/{hex_of(digest)}"

    def manifest(self, digest: str) -> str:
        """Return the key of a manifest. Raises DigestInvalid."""
        return f"{self._folder}/manifests/{hex_of(digest)}"

    def tag(self, tag: str) -> str:
        """Return the key of a tag. Raises TagInvalid."""
        if not _TAG.fullmatch(tag):
            raise TagInvalid(
                "the tag should be 1 to 128 letters, digits, _ . or -, and not begin with . or -"
            )
        return f"{self._folder}/tags/{tag}"

    def chunks(self, upload: str) -> str:
        """Return the prefix of the chunks of an upload."""
        return f"{self.uploads}{upload}/"

    @property
    def uploads(self) -> str:
        """Prefix of the chunks of all uploads."""
        return f"staging/{self.id}/registry-"

    def begun(self, upload: str = "") -> str:
        """Return the key of the mark that an upload has begun and not ended, or the prefix of all of them."""
        # Apart from the chunks: who counts uploads does not list every chunk.
        return f"staging/{self.id}/uploads/{upload}"

    def extent(self, upload: str) -> str:
        """Return the key of the note of how far an upload is."""
        return f"staging/{self.id}/extents/{upload}"

    @property
    def seal(self) -> str:
        """Key of the seal."""
        return f"{self._folder}/sealed"

    async def sealed(self) -> Seal | None:
        """Return what the seal says; None where there is none."""
        try:
            return Seal.parse(await self.store.get(self.seal))
        except ObjectMissing:
            return None

    async def deleted(self) -> frozenset[str]:
        """Return the keys of the deleted blobs and manifests, whether they are still in storage or not."""
        if not self.is_open:
            sealed = await self.sealed()
            return frozenset() if sealed is None else frozenset(sealed.deleted)
        prefix = f"{self._folder}/{_DELETED}"
        return frozenset(
            [f"{self._folder}/{info.key.removeprefix(prefix)}" async for info in self.store.list(prefix)]
        )

    async def delete(self, key: str) -> None:
        """Mark a blob or a manifest as deleted. Raises Denied if it was sealed before."""
        await self.store.put(self._mark(key), b"")
        if (sealed := await self.sealed()) is not None and key not in sealed.deleted:
            raise self._denied()

    async def delete_tag(self, tag: str) -> None:
        """Delete a tag. Raises Denied if it was sealed before."""
        await self.store.delete(self.tag(tag))
        if (sealed := await self.sealed()) is not None and tag in sealed.tags:
            raise self._denied()

    async def restore(self, key: str) -> None:
        """Take the mark from a blob or a manifest that was pushed again."""
        await self.store.delete(self._mark(key))

    async def remove_deleted(self) -> None:
        """Remove the blobs and manifests that the seal names as deleted. The artifact is ready."""
        for key in await self.deleted():
            await self.store.delete(key)

    async def check_open(self) -> None:
        """Raise Denied if the artifact is sealed. A request asks right before it writes: its body may take long."""
        if await self.has(self.seal):
            raise self._denied()

    async def tags(self) -> list[str]:
        """Return all tags, in the order of their characters."""
        if not self.is_open and (sealed := await self.sealed()) is not None:
            return sorted(sealed.tags)
        prefix = f"{self._folder}/tags/"
        return [info.key.removeprefix(prefix) async for info in self.store.list(prefix)]

    async def unfinished(self) -> list[str]:
        """Return the ids of the uploads that have begun and not ended."""
        prefix = self.begun()
        return [info.key.removeprefix(prefix) async for info in self.store.list(prefix)]

    async def manifests(self) -> AsyncIterator[str]:
        """Yield the digests of all manifests."""
        prefix = f"{self._folder}/manifests/"
        async for info in self.store.list(prefix):
            yield f"sha256:{info.key.removeprefix(prefix)}"

    async def holds(self, key: str) -> bool:
        """Tell whether a blob or a manifest is there, and not deleted."""
        return await self.content_size(key) is not None

    async def content_size(self, key: str) -> int | None:
        """Return the size of a blob or a manifest; None if it is not there, or deleted."""
        return None if await self.is_deleted(key) else await self.stored_size(key)

    async def is_deleted(self, key: str) -> bool:
        """Tell whether a blob or a manifest has the mark, which counts until the artifact is finalized."""
        return self.is_open and await self.has(self._mark(key))

    async def has(self, key: str) -> bool:
        """Tell whether there is an object of this key."""
        return await self.stored_size(key) is not None

    async def stored_size(self, key: str) -> int | None:
        """Return the size of an object; None if it is not there."""
        try:
            return (await self.store.head(key)).size
        except ObjectMissing:
            return None

    def _denied(self) -> Denied:
        return Denied(f"artifact {self.id} is being finalized, and takes nothing more")

    def _mark(self, key: str) -> str:
        return f"{self._folder}/{_DELETED}{key.removeprefix(f'{self._folder}/')}"

    @property
    def _folder(self) -> str:
        return place("OCIArtifact", self.id)


def hex_of(digest: str) -> str:
    """Return the hexadecimal digits of a digest. Raises DigestInvalid."""
    match = _DIGEST.fullmatch(digest)
    if match is None:
        raise DigestInvalid("the digest should be sha256: and 64 hexadecimal digits in lower case")
    return match[1]


async def readable(context: RequestContext) -> Repository:
    """Return the repository of the path's artifact. Raises NotFound, Forbidden."""
    return _repository(context, await load(context))


async def writable(context: RequestContext) -> Repository:
    """Return the repository of the path's artifact, which still takes content. Raises NotFound, Forbidden, Denied."""
    entity = await load(context)
    repository = _repository(context, entity)
    if entity.status != WAITING_FOR_UPLOAD:
        raise Denied(f"artifact {entity.id} is {entity.status}, and takes nothing more")
    return repository


async def readable_other(context: RequestContext, id: str) -> Repository:
    """Return another artifact's repository, if the caller may read it. Raises NotFound, Forbidden."""
    return _repository(context, await load_other(context, "artifacts", id))


def _repository(context: RequestContext, entity: AnyEntity) -> Repository:
    if entity.status == "Deleted":
        raise NotFound(f"artifact: OCIArtifact {entity.id} is deleted")
    return Repository(entity.id, context.api.platform.store, entity.status == WAITING_FOR_UPLOAD)
