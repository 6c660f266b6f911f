"""Tags of a repository, and the deletions of the manifests that they lead to.

Stores have no conditional write but create-only, so each change is a new object: `tagging/<tag>/<number>` holds what
the tag leads to since then, and is empty where the tag was deleted. `generations/<hex>/<number>` counts the deletions
and pushes of a manifest: an odd generation is deleted, an even one is there, and 0 has no object. A tag leads to one
generation of its manifest. So one object that is created once deletes a manifest with all of its tags, a push creates
its tag before or after that object, and a push that was suspended never takes the place of a later one.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from steelyard.api.registry.errors import TooMany
from steelyard_evaluation.storage.store import ObjectExists, ObjectMissing, Store

MOST_CHANGES = 10_000
"""Maximum changes of one tag, and deletions and pushes of one manifest."""


@dataclass(frozen=True)
class Series:
    """Numbered changes of the tags, or of the manifests, of one repository."""

    store: Store
    prefix: str
    earlier: str
    """Prefix of what an earlier version of the platform kept, which is the first change."""
    untagged: str = ""
    """Prefix of the marks `<tag>/<hex>` by which that version deleted tags with their manifest."""

    async def latest(self, name: str) -> int:
        """Return the number of the latest change; 0 where there was none."""
        keys = [info.key async for info in self.store.list(f"{self.prefix}{name}/")]
        return int(keys[-1].rpartition("/")[2]) if keys else int(await self._has(f"{self.earlier}{name}"))

    async def all_latest(self) -> dict[str, int]:
        """Return the number of the latest change by name, without the names whose latest change is empty."""
        latest = {info.key.removeprefix(self.earlier): 1 async for info in self.store.list(self.earlier)}
        async for info in self.store.list(self.prefix):
            name, _, number = info.key.removeprefix(self.prefix).partition("/")
            latest[name] = int(number) if info.size else 0
        return {name: number for name, number in latest.items() if number}

    async def get(self, name: str, number: int) -> str:
        """Return the content of a change."""
        try:
            return (await self.store.get(self._key(name, number))).decode()
        except ObjectMissing:
            content = (await self.store.get(f"{self.earlier}{name}")).decode()
        is_untagged = await self._has(f"{self.untagged}{name}/{content.removeprefix('sha256:')}")
        return "" if is_untagged else content

    async def create(self, name: str, number: int, content: str) -> bool:
        """Create a change; return False where another request has created one of this number. Raises TooMany."""
        if number > MOST_CHANGES:
            raise TooMany(f"{name} was changed {MOST_CHANGES} times, and no further change is allowed")
        try:
            await self.store.create(self._key(name, number), content.encode())
        except ObjectExists:
            return False
        return True

    async def has_untagged(self) -> bool:
        """Return whether an earlier version has deleted tags with their manifest."""
        async for _ in self.store.list(self.untagged):
            return True
        return False

    async def _has(self, key: str) -> bool:
        try:
            await self.store.head(key)
        except ObjectMissing:
            return False
        return True

    def _key(self, name: str, number: int) -> str:
        return f"{self.prefix}{name}/{number:06d}"


@dataclass(frozen=True)
class Tagging:
    """Tags of one repository, and the generations of its manifests, which are named by the digits of their digests."""

    changes: Series
    generations: Series

    @classmethod
    def for_folder(cls, store: Store, folder: str) -> "Tagging":
        """Return the tags of the repository in a folder."""
        return cls(
            Series(store, f"{folder}/tagging/", earlier=f"{folder}/tags/", untagged=f"{folder}/untagged/"),
            Series(store, f"{folder}/generations/", earlier=f"{folder}/deleted/manifests/"),
        )

    async def is_deleted(self, manifest: str) -> bool:
        """Return whether a manifest is deleted."""
        return await self.generations.latest(manifest) % 2 == 1

    async def list_deleted(self) -> list[str]:
        """Return the deleted manifests."""
        return [name for name, number in (await self.generations.all_latest()).items() if number % 2]

    async def delete_manifest(self, manifest: str) -> None:
        """Delete a manifest with all tags that lead to it."""
        generation = await self.generations.latest(manifest)
        if generation % 2 == 0:
            # Another request that has created it meanwhile has deleted the manifest, too.
            await self.generations.create(manifest, generation + 1, "deleted")

    async def restore_manifest(self, manifest: str) -> int:
        """Return the generation of a manifest that was pushed, which is a new one if it was deleted before."""
        while (generation := await self.generations.latest(manifest)) % 2:
            await self.generations.create(manifest, generation + 1, "pushed")
        return generation

    async def write(self, tag: str, manifest: str) -> None:
        """Let a tag lead to a manifest, which is restored if it is deleted."""
        while True:
            # The number is read first: a push or a deletion of the tag since then makes this request start again.
            number = await self.changes.latest(tag)
            content = f"{manifest} {await self.restore_manifest(manifest)}"
            if number and await self.changes.get(tag, number) == content:
                return
            if await self.changes.create(tag, number + 1, content):
                return

    async def delete(self, tag: str) -> None:
        """Delete a tag, wherever it leads."""
        # Where another request changes the tag meanwhile, this deletion comes before that.
        await self.changes.create(tag, await self.changes.latest(tag) + 1, "")

    async def target(self, tag: str) -> str | None:
        """Return the manifest that a tag leads to; None where there is no such tag."""
        while number := await self.changes.latest(tag):
            target = _parse_change(await self.changes.get(tag, number))
            if target is None:
                return None
            manifest, generation = target
            if generation == await self.generations.latest(manifest):
                return manifest
            # The manifest is deleted; the tag may have been pushed again since.
            if number == await self.changes.latest(tag):
                return None
        return None

    async def names(self) -> list[str]:
        """Return all tags."""
        latest = await self.changes.all_latest()
        # Where no manifest was ever deleted, no tag has to be read.
        are_read = await self.generations.all_latest() or await self.changes.has_untagged()
        return list(await self._targets(latest) if are_read else latest)

    async def targets(self) -> dict[str, str]:
        """Return the manifests that the tags lead to, by tag."""
        return await self._targets(await self.changes.all_latest())

    async def _targets(self, latest: Mapping[str, int]) -> dict[str, str]:
        contents = {tag: await self.changes.get(tag, number) for tag, number in latest.items()}
        generations = await self.generations.all_latest()
        targets = {tag: target for tag, content in contents.items() if (target := _parse_change(content))}
        return {
            tag: manifest
            for tag, (manifest, generation) in targets.items()
            if generations.get(manifest, 0) == generation
        }


def _parse_change(content: str) -> tuple[str, int] | None:
    """Return the manifest and its generation of a change of a tag; None for a deletion."""
    # Earlier versions wrote the digest alone.
    manifest, _, generation = content.removeprefix("sha256:").partition(" ")
    return (manifest, int(generation or 0)) if manifest else None
