"""A RayCluster as it is: the whole object, and readers of it. Fields that this version does not know stay."""

from collections.abc import Mapping
from dataclasses import dataclass

from steelyard.clusters.object_view import ObjectView
from steelyard.clusters.ray import names
from steelyard.clusters.ray.status import ClusterStatus, cluster_status
from steelyard.clusters.reading import items, number, text
from steelyard_kube.objects import read_annotations, read_labels
from steelyard_schema import ray_annotations


@dataclass(frozen=True, repr=False)
class RayCluster(ObjectView):
    """A RayCluster of the API. `resource` may be changed, and written with `clusters.save`."""

    @property
    def labels(self) -> Mapping[str, str]:
        return read_labels(self.resource)

    @property
    def annotations(self) -> Mapping[str, str]:
        return read_annotations(self.resource)

    @property
    def queue(self) -> str:
        """The LocalQueue that it goes through; empty for none."""
        return self.labels.get(names.QUEUE, "")

    @property
    def dashboard(self) -> str | None:
        """Address of the dashboard as the platform reports it; `clusters.dashboard` also looks elsewhere."""
        return self.annotations.get(ray_annotations.DASHBOARD) or None

    @property
    def groups(self) -> Mapping[str, int]:
        """Desired number of workers by group."""
        return {
            text(group, "groupName"): number(group, "replicas")
            for group in items(self.resource, "spec", "workerGroupSpecs")
        }

    @property
    def status(self) -> ClusterStatus:
        """Status as far as the object itself shows it; `clusters.status` also says what its Pods wait for."""
        return cluster_status(self.resource)
