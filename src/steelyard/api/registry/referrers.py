"""Manifests that refer to another one as their subject: signatures, lists of contents, attestations of an image.

`referrers/<hex of the subject>/<hex>` holds what the list of referrers says of a manifest, its descriptor. It is
written once, after its manifest and before its tag, so that a list costs nothing of the manifests themselves. A deleted
manifest keeps its descriptor, and is left out of the list.

An earlier version of the platform wrote no descriptors. `referrers-indexed` says that none is missing: it is written
with the first manifest of a repository, and otherwise once all manifests have been read.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import orjson

from steelyard.api.registry.errors import ManifestInvalid
from steelyard_evaluation.storage.store import ObjectExists, ObjectMissing, Store

PAGE_REFERRERS, PAGE_BYTES = 1000, 4 << 20
"""Maximum descriptors that one answer is made from, and their bytes; the first one counts whatever its size."""
DIGEST = "sha256:"


@dataclass(frozen=True)
class Referrer:
    """One entry of the index: a manifest, and its subject."""

    subject: str
    """Hexadecimal digits of the subject's digest."""
    manifest: str
    """Hexadecimal digits of the manifest's digest."""
    size: int
    """Bytes of the descriptor."""

    @property
    def name(self) -> str:
        return f"{self.subject}/{self.manifest}"


@dataclass(frozen=True)
class Referrers:
    """The index of one repository."""

    store: Store
    folder: str

    async def add(self, subject: str, manifest: str, descriptor: bytes) -> None:
        """Keep the descriptor of a manifest, which never changes."""
        with suppress(ObjectExists):
            await self.store.create(self._key(subject, manifest), descriptor)

    async def list_referrers(self, subject: str = "") -> list[Referrer]:
        """Return the referrers of a subject, or of all subjects, in the order of their digests."""
        prefix = f"{self._prefix}{subject}/" if subject else self._prefix
        return [
            Referrer(info.key.split("/")[-2], info.key.split("/")[-1], info.size)
            async for info in self.store.list(prefix)
        ]

    async def read(self, referrers: Sequence[Referrer]) -> list[Mapping[str, object]]:
        """Return the descriptors of these referrers."""
        return [
            orjson.loads(await self.store.get(self._key(referrer.subject, referrer.manifest)))
            for referrer in referrers
        ]

    async def is_whole(self) -> bool:
        """Return whether the index has every manifest of the repository."""
        try:
            await self.store.head(self._index_mark)
        except ObjectMissing:
            return False
        return True

    async def complete(self) -> None:
        """Note that the index has every manifest of the repository, and that pushes add theirs from now on."""
        with suppress(ObjectExists):
            await self.store.create(self._index_mark, b"")

    def _key(self, subject: str, manifest: str) -> str:
        return f"{self._prefix}{subject}/{manifest}"

    @property
    def _prefix(self) -> str:
        return f"{self.folder}/referrers/"

    @property
    def _index_mark(self) -> str:
        return f"{self.folder}/referrers-indexed"


def read_subject(manifest: Mapping[str, object]) -> str | None:
    """Return the digest of a manifest's subject; None without a subject. Raises ManifestInvalid."""
    match manifest.get("subject"):
        case None:
            return None
        case {"digest": str(digest)}:
            return digest
        case _:
            raise ManifestInvalid("subject: should be a descriptor with a digest")


def make_descriptor(manifest: Mapping[str, object], media: str, digest: str, size: int) -> bytes:
    """Return the descriptor by which a list of referrers names a manifest."""
    kind = manifest.get("artifactType")
    if not kind and isinstance(config := manifest.get("config"), dict):
        kind = config.get("mediaType")  # what an image without a type is known by
    descriptor: dict[str, object] = {"mediaType": media, "digest": digest, "size": size}
    if isinstance(kind, str) and kind:
        descriptor["artifactType"] = kind
    if isinstance(annotations := manifest.get("annotations"), dict) and annotations:
        descriptor["annotations"] = annotations
    return orjson.dumps(descriptor)


def cut_page(referrers: Sequence[Referrer]) -> Sequence[Referrer]:
    """Return as many of the first referrers as one answer is made from."""
    total = 0
    for number, referrer in enumerate(referrers[:PAGE_REFERRERS]):
        total += referrer.size
        if number and total > PAGE_BYTES:
            return referrers[:number]
    return referrers[:PAGE_REFERRERS]
