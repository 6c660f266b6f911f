"""Configurations of Kueue's objects, and their manifests in each of its versions."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from steelyard.clusters.config import Amount, Config, DnsLabel, Labels, ObjectName
from steelyard.clusters.errors import Fault, Unsupported
from steelyard.clusters.ray.config import Toleration
from steelyard.clusters.ray.names import DEFAULT_QUEUE
from steelyard_common.types import Json


def _manifest(kind: str, name: str, spec: Json | None = None, **more: Any) -> Json:
    body = {"kind": kind, "metadata": {"name": name}, **more}
    return body if spec is None else {**body, "spec": spec}


class FlavorConfig(Config):
    """A flavour: a sort of nodes with quotas of its own."""

    name: ObjectName
    node_labels: Labels = Field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()

    def manifest(self) -> Json:
        spec: Json = {"nodeLabels": dict(self.node_labels)} if self.node_labels else {}
        if self.tolerations:
            spec["tolerations"] = [
                {key: value for key, value in item.model_dump(exclude={"seconds"}).items() if value}
                for item in self.tolerations
            ]
        return _manifest("ResourceFlavor", self.name, spec)


class Quota(Config):
    """Amounts of one resource: a queue's own, and what it may borrow from its cohort and lend to it."""

    nominal: Amount
    borrowing_limit: Amount | None = None
    lending_limit: Amount | None = None


class FlavorQuota(Config):
    """Quotas of one flavour, by resource."""

    flavor: ObjectName
    quotas: Annotated[dict[str, Quota], Field(min_length=1)]


class QuotaGroup(Config):
    """Flavours that are tried one after the other, for the same resources."""

    flavors: Annotated[tuple[FlavorQuota, ...], Field(min_length=1, max_length=16)]

    @property
    def resources(self) -> list[str]:
        return list(self.flavors[0].quotas)

    def relations(self) -> Iterator[Fault]:
        for number, flavor in enumerate(self.flavors[1:], 1):
            if set(flavor.quotas) != set(self.resources):
                yield Fault(
                    f"flavors.{number}.quotas", f"must be of {', '.join(self.resources)}, as the first"
                )


class ClusterQueueConfig(Config):
    """A cluster queue: a pool of quotas, to which local queues lead."""

    name: ObjectName
    groups: Annotated[tuple[QuotaGroup, ...], Field(max_length=16)]
    cohort: ObjectName | None = None
    strategy: Literal["StrictFIFO", "BestEffortFIFO"] = "BestEffortFIFO"
    namespaces: Labels = Field(default_factory=dict)
    """Labels of the namespaces that may use it. Default: all namespaces."""
    preempt: Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority"] = "Never"
    """Workloads of this queue that may be evicted for others of it."""

    def relations(self) -> Iterator[Fault]:
        yield from _group_faults(self.groups, limits=self.cohort is not None, need="a cohort")

    def manifest(self, version: str) -> Json:
        selector: Json = {"matchLabels": dict(self.namespaces)} if self.namespaces else {}
        spec: Json = {
            "resourceGroups": [_group(group) for group in self.groups],
            "queueingStrategy": self.strategy,
            "namespaceSelector": selector,
            "preemption": {"withinClusterQueue": self.preempt},
        }
        if self.cohort is not None:
            spec["cohort" if version == "v1beta1" else "cohortName"] = self.cohort
        return _manifest("ClusterQueue", self.name, spec)


def _group_faults(groups: Sequence[QuotaGroup], *, limits: bool, need: str) -> Iterator[Fault]:
    seen: set[str] = set()
    for number, group in enumerate(groups):
        for resource in set(group.resources) & seen:
            yield Fault(f"groups.{number}", f"{resource} is in another group already")
        seen.update(group.resources)
        for place, flavor in enumerate(group.flavors):
            for resource, quota in flavor.quotas.items():
                given = {quota.borrowing_limit, quota.lending_limit} != {None}
                if given and not limits:
                    yield Fault(
                        f"groups.{number}.flavors.{place}.quotas.{resource}",
                        f"borrowing_limit and lending_limit need {need}",
                    )


def _group(group: QuotaGroup) -> Json:
    return {
        "coveredResources": group.resources,
        "flavors": [
            {
                "name": flavor.flavor,
                "resources": [_quota(name, flavor.quotas[name]) for name in group.resources],
            }
            for flavor in group.flavors
        ],
    }


def _quota(name: str, quota: Quota) -> Json:
    limits = {"borrowingLimit": quota.borrowing_limit, "lendingLimit": quota.lending_limit}
    texts = {field: str(value) for field, value in limits.items() if value is not None}
    return {"name": name, "nominalQuota": str(quota.nominal), **texts}


class CohortConfig(Config):
    """A cohort of cluster queues, which lend each other quota, with quotas of its own for all of them."""

    name: ObjectName
    parent: ObjectName | None = None
    """Cohort from which this one borrows, and to which it lends."""
    groups: Annotated[tuple[QuotaGroup, ...], Field(max_length=16)] = ()
    """Quotas in addition to those of the queues."""

    def relations(self) -> Iterator[Fault]:
        if self.parent == self.name:
            yield Fault("parent", "must be another cohort")
        yield from _group_faults(self.groups, limits=self.parent is not None, need="a parent")

    def manifest(self, version: str) -> Json:
        spec: Json = {"resourceGroups": [_group(group) for group in self.groups]} if self.groups else {}
        if self.parent is not None:
            if version == "v1alpha1":  # its releases have had two names for the field
                raise Unsupported("the cluster's Kueue has cohorts of v1alpha1: a parent needs v1beta1")
            spec["parentName"] = self.parent
        return _manifest("Cohort", self.name, spec)


class LocalQueueConfig(Config):
    """A queue of a namespace, which leads to a cluster queue. With `default`, it is for jobs that name none."""

    name: ObjectName
    cluster_queue: ObjectName
    namespace: DnsLabel | None = None
    default: bool = False

    def manifest(self, namespace: str) -> Json:
        manifest = _manifest("LocalQueue", self.name, {"clusterQueue": self.cluster_queue})
        manifest["metadata"]["namespace"] = namespace
        if self.default:
            manifest["metadata"]["annotations"] = {DEFAULT_QUEUE: "true"}
        return manifest


class PriorityClassConfig(Config):
    """A priority in queues: the higher value goes first."""

    name: ObjectName
    value: Annotated[int, Field(ge=-(2**31), le=2**31 - 1, strict=True)]
    description: str = ""

    def manifest(self) -> Json:
        return _manifest("WorkloadPriorityClass", self.name, value=self.value, description=self.description)
