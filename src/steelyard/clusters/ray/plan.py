"""A dry run: the manifest, and what would change in the cluster."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from steelyard.clusters.connection import Connection
from steelyard.clusters.errors import NotFound
from steelyard.clusters.kinds import Kind
from steelyard_common.types import Json, value_text

_EMPTY: tuple[Any, ...] = (None, {}, [])
_SERVER_FIELDS = frozenset({"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"})


@dataclass(frozen=True)
class Change:
    """One field that would change; None where it is not there."""

    field: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.field}: {value_text(self.before)} -> {value_text(self.after)}"


@dataclass(frozen=True)
class Plan:
    """Effect that an `apply` would have."""

    manifest: Json
    new: bool
    """True if there is no such object yet."""
    changes: tuple[Change, ...]

    @property
    def yaml(self) -> str:
        import yaml

        return str(yaml.safe_dump(self.manifest, sort_keys=False))

    def __str__(self) -> str:
        if self.new:
            return f"would be created:\n{self.yaml}"
        return "\n".join(map(str, self.changes)) or "nothing would change"


async def dry_run(connection: Connection, kind: Kind, manifest: Json) -> Plan:
    """Return what a forced apply of the manifest would change; the API server checks it, and keeps nothing."""
    metadata = manifest["metadata"]
    after = await connection.apply(kind, manifest, force=True, dry_run=True)
    try:
        before = await connection.get(kind, metadata["name"], metadata["namespace"])
    except NotFound:
        return Plan(manifest, True, ())
    return Plan(manifest, False, tuple(changes(before, after)))


def changes(before: Any, after: Any, path: str = "") -> Iterator[Change]:
    """Yield the fields in which two objects differ, without those that the server itself keeps.

    An empty object or list is like none: KubeRay writes such fields into what it has read.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted({*before, *after}):
            if (path == "metadata" and name in _SERVER_FIELDS) or (not path and name == "status"):
                continue
            inner = f"{path}.{name}" if path else name
            yield from changes(before.get(name), after.get(name), inner)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from changes(old, new, f"{path}[{number}]")
    elif before != after and not (before in _EMPTY and after in _EMPTY):
        yield Change(path, before, after)
