"""A repository: the content of one artifact, and where it lies in storage.

`ociartifacts/<id>/` holds `blobs/<hex>`, `manifests/<hex>`, the tags and the list of referrers. Files that are not
verified yet are in `staging/<id>/`, where the reaper removes it once the artifact is finished or gone.

Finalizing seals it, for good: the seal names the tags with their digests, the deleted content, and the referrers.
From then on it alone counts. A request that had begun before checks for it right before and after its writes; what it
writes in spite of that is content by its digest, to which no tag leads, or a mark of a deletion, which is never read
any more.

So a blob is deleted by a mark, `deleted/blobs/<hex>`: stores have no conditional delete, and a process that is
suspended right before a plain one would act on an artifact that is ready. What the seal says was deleted is removed
once the artifact is ready. How a manifest is deleted, with its tags, is in `tagging`.
"""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

from steelyard.api.datasets.creation import WAITING_FOR_UPLOAD
from steelyard.api.entities.loading import load, load_other
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import NotFound
from steelyard.api.registry.errors import Denied, DigestInvalid, TagInvalid
from steelyard.api.registry.referrers import Referrers
from steelyard.api.registry.sealing import Seal, Sealing
from steelyard.api.registry.tagging import Tagging
from steelyard_evaluation.storage.store import ObjectInfo, ObjectMissing, Store
from steelyard_schema.entities import AnyEntity
from steelyard_schema.names import place

MANIFEST_BYTES = 4 << 20
"""Maximum size of a manifest, which is the specification's advice."""
MOST_TAGS = 1000
"""Maximum tags of a repository, and of one answer."""
MOST_MANIFESTS = 10_000
"""Maximum manifests of a repository, with those that have no tag or are deleted."""
_DELETED_BLOBS = "deleted/blobs/"
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_TAG = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}")


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
        return f"{self._folder}/blobs/{hex_digits(digest)}"

    def manifest(self, digest: str) -> str:
        """Return the key of a manifest. Raises DigestInvalid."""
        return self._manifest(hex_digits(digest))

    def check_tag(self, tag: str) -> None:
        """Raise TagInvalid for a text that cannot be a tag."""
        if not _TAG.fullmatch(tag):
            raise TagInvalid(
                "the tag should be 1 to 128 letters, digits, _ . or -, and not begin with . or -"
            )

    def chunks(self, upload: str) -> str:
        """Return the prefix of the chunks of an upload."""
        return f"{self.uploads}{upload}/"

    @property
    def uploads(self) -> str:
        """Prefix of the chunks of all uploads."""
        return f"staging/{self.id}/registry-"

    def upload_mark(self, upload: str = "") -> str:
        """Return the key of the mark that an upload has begun and not ended, or the prefix of all of them."""
        # Apart from the chunks: who counts uploads does not list every chunk.
        return f"staging/{self.id}/uploads/{upload}"

    def extent(self, upload: str) -> str:
        """Return the key of the note of how far an upload is."""
        return f"staging/{self.id}/extents/{upload}"

    @property
    def sealing(self) -> Sealing:
        """The closings of the repository, and its seal."""
        return Sealing(self.store, self._folder)

    @property
    def referrers(self) -> Referrers:
        """The index of the manifests that have a subject."""
        return Referrers(self.store, self._folder)

    async def read_seal(self) -> Seal | None:
        """Return what the seal says; None where there is none."""
        return await self.sealing.read_seal()

    async def list_deleted(self) -> frozenset[str]:
        """Return the keys of the deleted blobs and manifests, whether they are still in storage or not."""
        if not self.is_open:
            sealed = await self.read_seal()
            return frozenset() if sealed is None else frozenset(sealed.deleted)
        blobs = [f"{self._folder}/blobs/{name}" for name in await self._names(_DELETED_BLOBS)]
        return frozenset([*blobs, *(self._manifest(name) for name in await self._tagging.list_deleted())])

    async def delete_blob(self, digest: str) -> None:
        """Mark a blob as deleted. Raises Denied if it was sealed before."""
        await self.store.put(self._mark(digest), b"")
        await self._check_deleted(self.blob(digest))

    async def delete_manifest(self, digest: str) -> None:
        """Delete a manifest with all tags that lead to it. Raises Denied if it was sealed before."""
        await self._tagging.delete_manifest(hex_digits(digest))
        await self._check_deleted(self.manifest(digest))

    async def delete_tag(self, tag: str) -> None:
        """Delete a tag, wherever it leads. Raises Denied if it was sealed before."""
        await self._tagging.delete(tag)
        if (sealed := await self.sealing.settle()) is not None and tag in sealed.tags:
            raise self._make_denial()

    async def write_tag(self, tag: str, digest: str) -> None:
        """Let a tag lead to a manifest. Raises Denied if the artifact was sealed without it."""
        await self._tagging.write(tag, hex_digits(digest))
        if (sealed := await self.sealing.settle()) is not None and sealed.tags.get(tag) != digest:
            raise self._make_denial()

    async def restore_blob(self, digest: str) -> None:
        """Take the mark from a blob that was pushed again."""
        await self.store.delete(self._mark(digest))

    async def restore_manifest(self, digest: str) -> None:
        """Take back the deletion of a manifest that was pushed again."""
        await self._tagging.restore_manifest(hex_digits(digest))

    async def remove_deleted(self) -> None:
        """Remove the blobs and manifests that the seal names as deleted. The artifact is ready."""
        for key in await self.list_deleted():
            await self.store.delete(key)

    async def check_open(self) -> None:
        """Raise Denied if the artifact is sealed: a request asks right before it writes, as its body may take long."""
        if await self.read_seal() is not None:
            raise self._make_denial()

    async def check_kept(self) -> None:
        """Raise Denied if the artifact was sealed before what a request has written: it may be sealed as deleted."""
        if await self.sealing.settle() is not None:
            raise self._make_denial()

    async def is_sealed_with(self, key: str, tag: str | None = None, digest: str = "") -> bool:
        """Return whether the seal has this very blob or manifest, and the tag leads to it.

        A finalize that was cut short leaves a sealed artifact that waits: who repeats the push has nothing to write.
        """
        sealed = await self.read_seal()
        if sealed is None or key in sealed.deleted or not await self.has(key):
            return False
        return tag is None or sealed.tags.get(tag) == digest

    async def tags(self) -> list[str]:
        """Return all tags, in the order of their characters."""
        if not self.is_open and (sealed := await self.read_seal()) is not None:
            return sorted(sealed.tags)
        return sorted(await self._tagging.names())

    async def read_tags(self) -> dict[str, str]:
        """Return the digests of all tags of a repository that is open."""
        return {tag: f"sha256:{manifest}" for tag, manifest in (await self._tagging.targets()).items()}

    async def target(self, tag: str) -> str | None:
        """Return the digest that a tag leads to; None where there is no such tag. Raises TagInvalid."""
        self.check_tag(tag)
        if not self.is_open and (sealed := await self.read_seal()) is not None:
            return sealed.tags.get(tag)
        manifest = await self._tagging.target(tag)
        return None if manifest is None else f"sha256:{manifest}"

    async def list_uploads(self) -> list[str]:
        """Return the ids of the uploads that have begun and not ended."""
        prefix = self.upload_mark()
        return [info.key.removeprefix(prefix) async for info in self.store.list(prefix)]

    async def _names(self, folder: str) -> list[str]:
        """Return the names of all objects in a folder of the repository."""
        prefix = f"{self._folder}/{folder}"
        return [info.key.removeprefix(prefix) async for info in self.store.list(prefix)]

    def manifest_objects(self) -> AsyncIterator[ObjectInfo]:
        """Yield the objects of all manifests, the deleted ones too."""
        return self.store.list(f"{self._folder}/manifests/")

    async def manifests(self) -> AsyncIterator[str]:
        """Yield the digests of all manifests, the deleted ones too."""
        async for info in self.manifest_objects():
            yield f"sha256:{info.key.rpartition('/')[2]}"

    async def blob_keys(self) -> AsyncIterator[str]:
        """Yield the keys of all blobs, the deleted ones too."""
        async for info in self.store.list(f"{self._folder}/blobs/"):
            yield info.key

    async def holds_blob(self, digest: str) -> bool:
        """Return whether a blob is there, and not deleted."""
        return await self.blob_size(digest) is not None

    async def blob_size(self, digest: str) -> int | None:
        """Return the size of a blob; None if it is not there, or deleted."""
        # The mark counts until the artifact is finalized.
        is_deleted = self.is_open and await self.has(self._mark(digest))
        return None if is_deleted else await self.find_size(self.blob(digest))

    async def holds_manifest(self, digest: str) -> bool:
        """Return whether a manifest is there, and not deleted."""
        return not await self.is_deleted(digest) and await self.has(self.manifest(digest))

    async def is_deleted(self, digest: str) -> bool:
        """Return whether a manifest is deleted, which counts until the artifact is finalized."""
        return self.is_open and await self._tagging.is_deleted(hex_digits(digest))

    async def has(self, key: str) -> bool:
        """Return whether there is an object of this key."""
        return await self.find_size(key) is not None

    async def find_size(self, key: str) -> int | None:
        """Return the size of an object; None if it is not there."""
        try:
            return (await self.store.head(key)).size
        except ObjectMissing:
            return None

    def _make_denial(self) -> Denied:
        return Denied(
            f"artifact {self.id} is being finalized, and takes nothing more; if that was cut short, a repeat ends it: "
            f"POST /v0/artifacts/{self.id}/finalize"
        )

    def _mark(self, digest: str) -> str:
        return f"{self._folder}/{_DELETED_BLOBS}{hex_digits(digest)}"

    def _manifest(self, name: str) -> str:
        return f"{self._folder}/manifests/{name}"

    async def _check_deleted(self, key: str) -> None:
        if (sealed := await self.sealing.settle()) is not None and key not in sealed.deleted:
            raise self._make_denial()

    @property
    def _tagging(self) -> Tagging:
        return Tagging.for_folder(self.store, self._folder)

    @property
    def _folder(self) -> str:
        return place("OCIArtifact", self.id)


def hex_digits(digest: str) -> str:
    """Return the hexadecimal digits of a digest. Raises DigestInvalid."""
    match = _DIGEST.fullmatch(digest)
    if match is None:
        raise DigestInvalid(
            f"the digest {digest[:100]!r} should be sha256: and 64 hexadecimal digits in lower case"
        )
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
