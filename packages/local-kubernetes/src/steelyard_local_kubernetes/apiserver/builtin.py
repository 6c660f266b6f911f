"""The built-in kinds: their rules, and what their names and fields (`served.py`, `published.py`) do not say."""

from dataclasses import replace
from functools import partial
from typing import Any

from steelyard_local_kubernetes.apiserver.kinds import ResourceType, Rules, ScalePaths
from steelyard_local_kubernetes.apiserver.published import kind_node
from steelyard_local_kubernetes.apiserver.rules import (
    access,
    autoscalers,
    autoscaling,
    cluster,
    crds,
    cron,
    discovery,
    events,
    hooks,
    networking,
    nodes,
    others,
    pods,
    quotas,
    scheduling,
    services,
    sets,
    storage,
    workloads,
)
from steelyard_local_kubernetes.apiserver.served import list_resources, list_subresources

_HOOKS, _STORAGE = "admissionregistration.k8s.io", "storage.k8s.io"
_NETWORKING, _FLOW = "networking.k8s.io", "flowcontrol.apiserver.k8s.io"
_DEVICES = "resource.k8s.io"


def _kind(group: str, plural: str, rules: Rules, version: str = "v1", **options: Any) -> ResourceType:
    served = list_resources(group, version)[plural]
    kind = served["kind"]
    node = partial(kind_node, group, version, kind)
    below = list_subresources(group, version, plural)
    return ResourceType(
        group,
        version,
        plural,
        kind,
        node,
        rules,
        singular=served["singularName"],
        short_names=tuple(served.get("shortNames", ())),
        categories=tuple(served.get("categories", ())),
        namespaced=served["namespaced"],
        has_status="status" in below,
        subresources=tuple(name for name in below if name != "status"),
        **options,
    )


_POD_FIELDS = "spec.nodeName spec.restartPolicy spec.schedulerName spec.serviceAccountName spec.hostNetwork "
_POD_FIELDS += "status.phase status.podIP status.podIPs status.nominatedNodeName"
_EVENT_FIELDS = "involvedObject.kind involvedObject.namespace involvedObject.name involvedObject.uid "
_EVENT_FIELDS += "involvedObject.apiVersion involvedObject.resourceVersion involvedObject.fieldPath "
_EVENT_FIELDS += "reason reportingComponent source type"


_ENDPOINTS = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
_PLAIN: dict[str, Any] = {"has_generation": False}
_STRICT: dict[str, Any] = {"unconditional": False}
_SCALED: dict[str, Any] = {
    "scaling": ScalePaths(("spec", "replicas"), ("status", "replicas"), ("spec", "selector"))
}


def _fields(text: str) -> frozenset[str]:
    return frozenset(text.split())


def builtin_kinds() -> list[ResourceType]:
    kinds = {kind.bucket: kind for kind in _kinds()}
    event, autoscaler = kinds["events"], kinds["horizontalpodautoscalers.autoscaling"]
    # The same events under the names of their newer group.
    newer = replace(
        event,
        group="events.k8s.io",
        node=partial(kind_node, "events.k8s.io", "v1", "Event"),
        stored_as=event,
        convert_in=events.as_old,
        convert_out=events.as_new,
        new_check=events.check_new,
    )
    older = replace(
        autoscaler,
        version="v1",
        node=partial(kind_node, "autoscaling", "v1", "HorizontalPodAutoscaler"),
        stored_as=autoscaler,
        convert_in=autoscaling.as_new,
        convert_out=autoscaling.as_old,
    )
    return [*kinds.values(), newer, older]


def _kinds() -> list[ResourceType]:
    return [*_core(), *_apps(), *_access(), *_cluster_wide(), *_storage(), *_network()]


def _core() -> list[ResourceType]:
    plain = _PLAIN
    return [
        _kind("", "configmaps", cluster.CONFIG_MAP, **plain),
        _kind("", "endpoints", networking.ENDPOINTS, deprecation=_ENDPOINTS, **plain),
        _kind("", "events", events.EVENT, selectable=_fields(_EVENT_FIELDS), new_check=events.check_core, **plain),
        _kind("", "limitranges", quotas.RANGE, **plain),
        _kind("", "namespaces", cluster.NAMESPACE, name_check="label", selectable=_fields("status.phase"), **plain),
        _kind("", "nodes", nodes.NODE, selectable=_fields("spec.unschedulable"), **plain),
        _kind("", "persistentvolumeclaims", storage.CLAIM, returned=True, **plain),
        _kind("", "persistentvolumes", storage.VOLUME, returned=True, **plain),
        _kind("", "pods", pods.POD, selectable=_fields(_POD_FIELDS), returned=True),
        _kind("", "podtemplates", sets.POD_TEMPLATE, returned=True),
        _kind(
            "", "replicationcontrollers", sets.CONTROLLER, returned=True,
            selectable=_fields("status.replicas"), **_SCALED,
        ),
        _kind("", "resourcequotas", quotas.QUOTA, returned=True, **plain),
        _kind("", "secrets", cluster.SECRET, selectable=_fields("type"), **plain),
        _kind("", "serviceaccounts", Rules(), returned=True, **plain),
        _kind(
            "", "services", services.SERVICE, name_check="service", returned=True,
            selectable=_fields("spec.clusterIP spec.type"), **plain,
        ),
    ]  # fmt: skip


def _apps() -> list[ResourceType]:
    return [
        _kind("apps", "controllerrevisions", sets.REVISION, **_PLAIN, **_STRICT),
        _kind("apps", "daemonsets", sets.DAEMON_SET),
        _kind("apps", "deployments", workloads.DEPLOYMENT, **_SCALED),
        _kind("apps", "replicasets", workloads.REPLICA_SET, **_SCALED),
        _kind("apps", "statefulsets", sets.STATEFUL_SET, name_check="label", **_SCALED),
        _kind("batch", "cronjobs", cron.CRON_JOB),
        _kind("batch", "jobs", workloads.JOB, selectable=_fields("status.successful")),
        _kind("autoscaling", "horizontalpodautoscalers", autoscalers.AUTOSCALER, version="v2", **_PLAIN),
        _kind("policy", "poddisruptionbudgets", quotas.BUDGET, **_STRICT),
    ]


def _access() -> list[ResourceType]:
    group = access.GROUP
    options: dict[str, Any] = {"name_check": "path", "has_generation": False}
    return [
        _kind(group, "clusterrolebindings", access.CLUSTER_ROLE_BINDING, **options),
        _kind(group, "clusterroles", access.CLUSTER_ROLE, **options),
        _kind(group, "rolebindings", access.ROLE_BINDING, **options),
        _kind(group, "roles", access.ROLE, **options),
        _kind(
            "certificates.k8s.io", "certificatesigningrequests", others.SIGNING_REQUEST, name_check="path",
            selectable=_fields("spec.signerName"), **_PLAIN,
        ),
        _kind(_HOOKS, "mutatingwebhookconfigurations", hooks.MUTATING, **_STRICT),
        _kind(_HOOKS, "validatingadmissionpolicies", hooks.POLICY, keeps_metadata=True, **_STRICT),
        _kind(_HOOKS, "validatingadmissionpolicybindings", hooks.POLICY_BINDING, **_STRICT),
        _kind(_HOOKS, "validatingwebhookconfigurations", hooks.VALIDATING, **_STRICT),
    ]  # fmt: skip


def _cluster_wide() -> list[ResourceType]:
    return [
        _kind("scheduling.k8s.io", "priorityclasses", scheduling.PRIORITY_CLASS),
        # A lease replaced without its version could be taken from the leader that has just renewed it.
        _kind("coordination.k8s.io", "leases", cluster.LEASE, **_PLAIN, **_STRICT),
        _kind("node.k8s.io", "runtimeclasses", others.RUNTIME_CLASS, **_PLAIN, **_STRICT),
        _kind("apiextensions.k8s.io", "customresourcedefinitions", crds.DEFINITION, **_STRICT),
        _kind(
            "apiregistration.k8s.io",
            "apiservices",
            others.API_SERVICE,
            name_check="path",
            **_PLAIN,
            **_STRICT,
        ),
        _kind(_FLOW, "flowschemas", others.FLOW_SCHEMA, keeps_metadata=True),
        _kind(_FLOW, "prioritylevelconfigurations", others.PRIORITY_LEVEL, keeps_metadata=True),
        _kind(_DEVICES, "deviceclasses", Rules(), returned=True),
        _kind(_DEVICES, "resourceclaims", others.DEVICE_CLAIM, returned=True, keeps_metadata=True, **_PLAIN),
        _kind(_DEVICES, "resourceclaimtemplates", others.DEVICE_TEMPLATE, returned=True, **_PLAIN),
        _kind(
            _DEVICES,
            "resourceslices",
            Rules(),
            returned=True,
            selectable=_fields("spec.nodeName spec.driver"),
        ),
    ]


def _storage() -> list[ResourceType]:
    return [
        _kind(_STORAGE, "csidrivers", storage.DRIVER, returned=True, **_PLAIN, **_STRICT),
        _kind(_STORAGE, "csinodes", Rules(), returned=True, **_PLAIN, **_STRICT),
        _kind(_STORAGE, "csistoragecapacities", storage.CAPACITY, **_PLAIN, **_STRICT),
        _kind(_STORAGE, "storageclasses", storage.CLASS, returned=True, **_PLAIN),
        _kind(
            _STORAGE,
            "volumeattachments",
            storage.ATTACHMENT,
            returned=True,
            keeps_metadata=True,
            **_PLAIN,
            **_STRICT,
        ),
        _kind(_STORAGE, "volumeattributesclasses", storage.ATTRIBUTES, returned=True, **_PLAIN),
    ]


def _network() -> list[ResourceType]:
    return [
        _kind("discovery.k8s.io", "endpointslices", discovery.ENDPOINT_SLICE),
        _kind(_NETWORKING, "ingressclasses", networking.INGRESS_CLASS),
        _kind(_NETWORKING, "ingresses", networking.INGRESS),
        _kind(_NETWORKING, "ipaddresses", Rules(), **_PLAIN),
        _kind(_NETWORKING, "networkpolicies", networking.POLICY),
        _kind(_NETWORKING, "servicecidrs", others.SERVICE_NETWORK, keeps_metadata=True, **_PLAIN),
    ]
