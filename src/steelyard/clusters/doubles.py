"""A cluster in memory, with the calls of this client beyond the Cluster protocol; it records its requests."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from steelyard.clusters import kinds
from steelyard.clusters.kinds import Kind
from steelyard_common.types import Json
from steelyard_kube.cluster import Resource
from steelyard_kube.errors import ApiError, Conflict, NotFound
from steelyard_kube.memory import MemoryCluster

GROUPS = {
    "ray.io": ["v1"],
    "workload.codeflare.dev": ["v1beta2"],
    "kueue.x-k8s.io": ["v1beta2", "v1beta1"],
    "gateway.networking.k8s.io": ["v1"],
    "route.openshift.io": ["v1"],
}


class MemoryApi(MemoryCluster):
    """`groups` are those that it serves; `requests` has (verb, plural, name) of each request.

    Server-side apply knows one manager of all: a field is another's if it is named in `owned_by_others`.
    """

    def __init__(self, groups: dict[str, list[str]] | None = None) -> None:
        super().__init__(lambda: datetime(2026, 1, 1, tzinfo=UTC))
        self.groups = GROUPS if groups is None else groups
        self.kinds: dict[str, list[str]] = {}
        self.requests: list[tuple[str, str, str]] = []
        self.applied: list[tuple[bool, bool]] = []
        """Pairs for each apply: true if it was forced, true if it was a dry run."""
        self.owned_by_others: set[str] = set()
        self.lacking: set[str] = set()
        """Rights that the account lacks, such as `delete secrets`, as reviews of its rights report them."""
        self.refusal: ApiError | None = None
        self.before_call = self._note

    async def apply(
        self, resource: Resource, obj: Json, *, manager: str, force: bool = False, dry_run: bool = False
    ) -> Json:
        metadata = obj["metadata"]
        name, namespace = metadata["name"], metadata.get("namespace")
        self._note("apply", resource, name)
        self.applied.append((force, dry_run))
        stolen = self.owned_by_others & set(obj.get("spec") or ())
        if stolen and not force:
            raise Conflict(f'conflict with "kubectl": .spec.{stolen.pop()}')
        hook, self.before_call = self.before_call, None  # one request, whatever it is made of here
        try:
            old = await self.get(resource, name, namespace)
        except NotFound:
            return obj if dry_run else await self.create(resource, obj)
        else:
            new = {**old, **obj, "metadata": {**old["metadata"], **metadata}}
            return new if dry_run else await self.replace(resource, new)
        finally:
            self.before_call = hook

    async def create(self, resource: Resource, obj: Json) -> Json:
        if resource.plural != "selfsubjectaccessreviews":
            return await super().create(resource, obj)
        self._note("create", resource, "")
        attributes = obj["spec"]["resourceAttributes"]
        return {"status": {"allowed": f"{attributes['verb']} {attributes['resource']}" not in self.lacking}}

    async def bearer(self) -> str:
        return "own"

    async def group_versions(self) -> Mapping[str, Sequence[str]]:
        self.requests.append(("get", "apis", ""))
        return self.groups

    async def plurals(self, group: str, version: str) -> Sequence[str]:
        self.requests.append(("get", f"{group}/{version}", ""))
        ours = (
            kind.plural for kind in vars(kinds).values() if isinstance(kind, Kind) and kind.group == group
        )
        return [plural for plural in ours if version in self._list_versions(plural, group)]

    def _list_versions(self, plural: str, group: str) -> Sequence[str]:
        """Return the versions of a kind: those of its group, unless `kinds` says otherwise."""
        return self.kinds.get(plural, self.groups.get(group, ()))

    def _note(self, verb: str, resource: Resource, name: str) -> None:
        self.requests.append((verb, resource.plural, name))
        if self.refusal is not None:
            raise self.refusal
        served = self._list_versions(resource.plural, resource.group)
        if resource.group in GROUPS and resource.version not in served:
            raise NotFound("the server could not find the requested resource")
