"""A repository: the content of one artifact, and where it lies in storage.

`ociartifacts/<id>/` holds `blobs/<hex>`, `manifests/<hex>` and `tags/<tag>`. What has not been verified yet is in
`staging/<id>/`, where the reaper removes it once the artifact is finished or gone.

Finalizing writes `sealed`, create-only: the tags with their digests. From then on they alone count. A push that had
begun before looks for it right before each of its writes; what it writes in spite of that is content by its digest, to
which no tag leads.
"""

import re
from collections.abc import AsyncIterator, Mapping
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
"""Maximum manifests of a repository, with those that have no tag."""
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

    @property
    def seal(self) -> str:
        """Key of the seal."""
        return f"{self._folder}/sealed"

    async def sealed(self) -> Mapping[str, str] | None:
        """Return the sealed tags with their digests; None where there is no seal."""
        try:
            tags: dict[str, str] = orjson.loads(await self.store.get(self.seal))
        except ObjectMissing:
            return None
        return tags

    async def check_open(self) -> None:
        """Raise Denied if the artifact is sealed. A request asks right before it writes: its body may take long."""
        if await self.has(self.seal):
            raise Denied(f"artifact {self.id} is being finalized, and takes nothing more")

    async def tags(self) -> list[str]:
        """Return all tags, in the order of their characters."""
        if not self.is_open and (sealed := await self.sealed()) is not None:
            return sorted(sealed)
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

    async def has(self, key: str) -> bool:
        return await self.size(key) is not None

    async def size(self, key: str) -> int | None:
        """Return the size of an object; None if it is not there."""
        try:
            return (await self.store.head(key)).size
        except ObjectMissing:
            return None

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
