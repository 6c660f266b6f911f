"""Registry of the served kinds: the built-in ones, and those of the established definitions."""

from collections.abc import Iterable

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.builtin import builtin_kinds
from steelyard_local_kubernetes.apiserver.custom import read_kinds
from steelyard_local_kubernetes.apiserver.kinds import ResourceType

Path = tuple[str, str, str]  # group, version, plural


class Registry:
    """Kinds by what URLs and owner references call them."""

    def __init__(self) -> None:
        self._kinds: dict[Path, ResourceType] = {}
        self._names: dict[tuple[str, str], ResourceType] = {}  # apiVersion, kind
        self._buckets: dict[str, ResourceType] = {}
        self._custom: dict[str, list[ResourceType]] = {}
        self._specs: dict[str, Json] = {}
        self.generation = 0  # grows when what is served changes
        for kind in builtin_kinds():
            self._add(kind)
        self._builtin = {(kind.group, kind.version) for kind in self._kinds.values()}

    def _add(self, kind: ResourceType) -> None:
        self._kinds[kind.group, kind.version, kind.plural] = kind
        self._names[kind.api_version, kind.kind] = kind
        # Other versions are the same objects by another name; the garbage collector writes them as they are stored.
        if kind.stored_as is None:
            self._buckets[kind.bucket] = kind

    def find(self, group: str, version: str, plural: str) -> ResourceType | None:
        return self._kinds.get((group, version, plural))

    def has_builtin(self, group: str, version: str) -> bool:
        """Return whether a group has built-in kinds in this version."""
        return (group, version) in self._builtin

    def find_kind(self, api_version: str, kind: str) -> ResourceType | None:
        return self._names.get((api_version, kind))

    def storage_kind(self, bucket: str) -> ResourceType:
        """The kind as it is stored; KeyError where it is not served any more."""
        return self._buckets[bucket]

    def versions(self, bucket: str) -> list[ResourceType]:
        """All kinds that are the same objects."""
        return [kind for kind in self._kinds.values() if kind.bucket == bucket]

    def kinds(self) -> Iterable[ResourceType]:
        return list(self._kinds.values())

    def groups(self) -> dict[str, list[str]]:
        """Versions by group, in the order in which they came; the core group is the empty name."""
        names: dict[str, list[str]] = {}
        for group, version, _ in self._kinds:
            versions = names.setdefault(group, [])
            if version not in versions:
                versions.append(version)
        return names

    def define(self, crd: Json) -> None:
        """Serve what a definition says."""
        name = crd["metadata"]["name"]
        # A version that the new spec does not serve must not go on being served.
        self.forget(name)
        self._custom[name] = read_kinds(crd)
        self._specs[name] = crd["spec"]
        for kind in self._custom[name]:
            self._add(kind)
        self.generation += 1

    def definition(self, name: str) -> Json | None:
        """The spec by which the kinds of a definition are served."""
        return self._specs.get(name)

    def forget(self, name: str) -> None:
        self._specs.pop(name, None)
        for kind in self._custom.pop(name, ()):
            del self._kinds[kind.group, kind.version, kind.plural]
            self._names.pop((kind.api_version, kind.kind), None)
            self._buckets.pop(kind.bucket, None)
            self.generation += 1

    def names_of_others(self, crd: Json) -> tuple[set[str], set[str]]:
        """Names of resources and of kinds that others in the definition's group have already."""
        # A definition is no rival of its own earlier form.
        own = {id(kind) for kind in self._custom.get(crd["metadata"]["name"], ())}
        resources: set[str] = set()
        kinds: set[str] = set()
        for kind in self._kinds.values():
            if kind.group == crd["spec"]["group"] and id(kind) not in own:
                resources |= {kind.plural, kind.singular_name, *kind.short_names}
                kinds |= {kind.kind, kind.list_name}
        return resources, kinds
