"""Kinds that the cluster client works with, the versions of them that it can speak, and who serves them."""

from dataclasses import dataclass

from steelyard_kube.resource import EVENTS as EVENT_RESOURCE
from steelyard_kube.resource import PERSISTENT_VOLUME_CLAIMS, PODS, SECRETS, SERVICES, Resource


@dataclass(frozen=True)
class Kind:
    """A kind of object. `versions` has those that this client speaks, the preferred one first."""

    group: str
    plural: str
    name: str
    versions: tuple[str, ...] = ("v1",)
    namespaced: bool = True
    product: str = ""
    """The program that serves it, for messages where it is missing."""
    apart: bool = False
    """True if its versions are not those of its group, so that they have to be asked for."""

    def at(self, version: str) -> Resource:
        return Resource(self.group, version, self.plural, self.name, self.namespaced)


def _core(resource: Resource) -> Kind:
    return Kind(
        resource.group, resource.plural, resource.kind, (resource.version,), resource.namespaced, "Kubernetes"
    )


def _kueue(plural: str, name: str, *, namespaced: bool = False) -> Kind:
    return Kind("kueue.x-k8s.io", plural, name, ("v1beta2", "v1beta1"), namespaced, "Kueue")


POD = _core(PODS)
EVENT = _core(EVENT_RESOURCE)
SECRET = _core(SECRETS)
SERVICE = _core(SERVICES)
CLAIM = _core(PERSISTENT_VOLUME_CLAIMS)
INGRESS = Kind("networking.k8s.io", "ingresses", "Ingress", product="Kubernetes")

RAY_CLUSTER = Kind("ray.io", "rayclusters", "RayCluster", product="KubeRay")
RAY_JOB = Kind("ray.io", "rayjobs", "RayJob", product="KubeRay")
APP_WRAPPER = Kind("workload.codeflare.dev", "appwrappers", "AppWrapper", ("v1beta2",), product="AppWrapper")
WORKLOAD = _kueue("workloads", "Workload", namespaced=True)
LOCAL_QUEUE = _kueue("localqueues", "LocalQueue", namespaced=True)
CLUSTER_QUEUE = _kueue("clusterqueues", "ClusterQueue")
RESOURCE_FLAVOR = _kueue("resourceflavors", "ResourceFlavor")
PRIORITY_CLASS = _kueue("workloadpriorityclasses", "WorkloadPriorityClass")
COHORT = Kind(
    "kueue.x-k8s.io", "cohorts", "Cohort", ("v1beta2", "v1beta1", "v1alpha1"), False, "Kueue", apart=True
)
HTTP_ROUTE = Kind("gateway.networking.k8s.io", "httproutes", "HTTPRoute", product="the Gateway API")
ROUTE = Kind("route.openshift.io", "routes", "Route", product="OpenShift")
