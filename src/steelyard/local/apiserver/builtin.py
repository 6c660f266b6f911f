"""The built-in kinds: their names in the API, their fields, their rules."""

from dataclasses import replace
from functools import partial

from steelyard.local.apiserver.kinds import ResourceType, Rules, Scaling
from steelyard.local.apiserver.published import kind_node
from steelyard.local.apiserver.rules import (
    access,
    cluster,
    crds,
    discovery,
    events,
    pods,
    scheduling,
    services,
    workloads,
)


def _kind(group: str, plural: str, kind: str, rules: Rules, **options: object) -> ResourceType:
    version = str(options.pop("version", "v1"))
    node = partial(kind_node, group, version, kind)
    return ResourceType(group, version, plural, kind, node, rules, **options)  # type: ignore[arg-type]


_POD_FIELDS = "spec.nodeName spec.restartPolicy spec.schedulerName spec.serviceAccountName spec.hostNetwork "
_POD_FIELDS += "status.phase status.podIP status.podIPs status.nominatedNodeName"
_EVENT_FIELDS = "involvedObject.kind involvedObject.namespace involvedObject.name involvedObject.uid "
_EVENT_FIELDS += "involvedObject.apiVersion involvedObject.resourceVersion involvedObject.fieldPath "
_EVENT_FIELDS += "reason reportingComponent source type"


_PLAIN = {"has_status": False, "has_generation": False}
_SCALED: dict[str, object] = {
    "scaling": Scaling(("spec", "replicas"), ("status", "replicas"), ("spec", "selector")),
    "subresources": ("scale",),
}


def _fields(text: str) -> frozenset[str]:
    return frozenset(text.split())


def builtin_kinds() -> list[ResourceType]:
    kinds = _kinds()
    event = next(kind for kind in kinds if kind.kind == "Event")
    # The same events under the names of their newer group.
    alias = replace(
        event,
        group="events.k8s.io",
        node=partial(kind_node, "events.k8s.io", "v1", "Event"),
        stored_as=event,
        convert_in=events.as_old,
        convert_out=events.as_new,
    )
    return [*kinds, alias]


def _kinds() -> list[ResourceType]:
    return [
        _kind("", "configmaps", "ConfigMap", cluster.CONFIG_MAP, short_names=("cm",), **_PLAIN),
        _kind("", "events", "Event", events.EVENT, short_names=("ev",), selectable=_fields(_EVENT_FIELDS), **_PLAIN),
        _kind(
            "", "namespaces", "Namespace", cluster.NAMESPACE, short_names=("ns",), namespaced=False,
            has_generation=False, name_check="label", selectable=_fields("status.phase"),
        ),
        _kind(
            "", "nodes", "Node", cluster.NODE, short_names=("no",), namespaced=False, has_generation=False,
            selectable=_fields("spec.unschedulable"),
        ),
        _kind(
            "", "pods", "Pod", pods.POD, short_names=("po",), categories=("all",), selectable=_fields(_POD_FIELDS),
            subresources=("log", "binding", "exec", "eviction"),
        ),
        _kind("", "secrets", "Secret", cluster.SECRET, selectable=_fields("type"), **_PLAIN),
        _kind("", "serviceaccounts", "ServiceAccount", Rules(), short_names=("sa",), subresources=("token",), **_PLAIN),
        _kind(
            "", "services", "Service", services.SERVICE, short_names=("svc",), categories=("all",),
            has_generation=False, name_check="service", selectable=_fields("spec.clusterIP spec.type"),
        ),
        _kind(
            "apps", "deployments", "Deployment", workloads.DEPLOYMENT, short_names=("deploy",), categories=("all",),
            **_SCALED,
        ),
        _kind("apps", "replicasets", "ReplicaSet", workloads.REPLICA_SET, short_names=("rs",), categories=("all",),
              selectable=_fields("status.replicas"), **_SCALED),
        _kind("batch", "jobs", "Job", workloads.JOB, categories=("all",), selectable=_fields("status.successful")),
        _kind(
            # A lease replaced without its version could be taken from the leader that has just renewed it.
            "coordination.k8s.io", "leases", "Lease", cluster.LEASE, unconditional=False, **_PLAIN,
        ),
        _kind(
            "discovery.k8s.io", "endpointslices", "EndpointSlice", discovery.ENDPOINT_SLICE, has_status=False,
        ),
        _kind(access.GROUP, "roles", "Role", access.ROLE, name_check="path", **_PLAIN),
        _kind(access.GROUP, "rolebindings", "RoleBinding", access.ROLE_BINDING, name_check="path", **_PLAIN),
        _kind(
            access.GROUP, "clusterroles", "ClusterRole", access.CLUSTER_ROLE, name_check="path", namespaced=False,
            **_PLAIN,
        ),
        _kind(
            access.GROUP, "clusterrolebindings", "ClusterRoleBinding", access.CLUSTER_ROLE_BINDING, name_check="path",
            namespaced=False, **_PLAIN,
        ),
        _kind(
            "autoscaling", "horizontalpodautoscalers", "HorizontalPodAutoscaler", scheduling.AUTOSCALER, version="v2",
            short_names=("hpa",), categories=("all",), has_generation=False,
        ),
        _kind(
            "scheduling.k8s.io", "priorityclasses", "PriorityClass", scheduling.PRIORITY_CLASS, short_names=("pc",),
            namespaced=False, has_status=False,
        ),
        _kind(
            "apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition", crds.DEFINITION,
            short_names=("crd", "crds"), categories=("api-extensions",), namespaced=False, unconditional=False,
        ),
    ]  # fmt: skip
