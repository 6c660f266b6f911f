"""Cells of each built-in kind, in the order of the columns that `served.py` names."""

from collections.abc import Iterable
from datetime import datetime

from steelyard_common.types import Json, mapping, sequence
from steelyard_local_kubernetes.apiserver import columns as c
from steelyard_local_kubernetes.apiserver import columns_cluster as k
from steelyard_local_kubernetes.apiserver import columns_workloads as w
from steelyard_local_kubernetes.apiserver.columns import NONE, UNKNOWN, UNSET, Cell, at, count
from steelyard_local_kubernetes.apiserver.columns_workloads import join_field, pairs, truth, whole

NAME, AGE, CREATED = at("metadata", "name"), c.object_age, at("metadata", "creationTimestamp")
PLAIN = [NAME, CREATED]
_POD = ("spec", "template", "spec")
_JOB_POD = ("spec", "jobTemplate", "spec", "template", "spec")


def _text(*path: str, absent: str = "") -> Cell:
    return at(*path, absent=absent)


def _role(obj: Json, now: datetime) -> str:
    return f"{obj['roleRef'].get('kind')}/{obj['roleRef'].get('name')}"


def _data(obj: Json, now: datetime) -> int:
    return len(mapping(obj, "data")) + len(mapping(obj, "binaryData"))


def _metrics(obj: Json, now: datetime) -> str:
    return ", ".join(map(c.metric_target, sequence(obj["spec"], "metrics"))) or NONE


def _empty_cell(obj: Json, now: datetime) -> str:
    return NONE


_EVENT = [
    c.event_last,
    _text("type"),
    _text("reason"),
    c.event_object,
    _text("involvedObject", "fieldPath"),
    c.event_source,
    lambda obj, now: (obj.get("message") or "").strip(),
    c.event_first,
    lambda obj, now: str(obj.get("count") or 1),
    NAME,
]
_BINDING = [NAME, _role, AGE, *(c.subjects(subject) for subject in ("User", "Group", "ServiceAccount"))]
_WEBHOOKS = [NAME, count("webhooks"), AGE]
_REPLICAS = [
    NAME,
    whole("spec", "replicas"),
    whole("status", "replicas"),
    whole("status", "readyReplicas"),
    AGE,
    *c.containers(*_POD),
]
CORE: dict[str, list[Cell]] = {
    "componentstatuses": [NAME, k.component("status"), k.component("message"), k.component("error")],
    "configmaps": [NAME, _data, AGE],
    "endpoints": [NAME, k.endpoints, AGE],
    "events": _EVENT,
    "namespaces": [NAME, at("status", "phase"), AGE],
    "nodes": [
        NAME,
        c.node_status,
        c.node_roles,
        AGE,
        _text("status", "nodeInfo", "kubeletVersion"),
        c.node_address("InternalIP"),
        c.node_address("ExternalIP"),
        *(
            at("status", "nodeInfo", field, absent=UNKNOWN)
            for field in ("osImage", "kernelVersion", "containerRuntimeVersion")
        ),
    ],
    "persistentvolumeclaims": [
        NAME,
        w.phase,
        _text("spec", "volumeName"),
        w.claim_capacity,
        w.claim_modes,
        w.storage_class,
        _text("spec", "volumeAttributesClassName", absent=UNSET),
        AGE,
        _text("spec", "volumeMode", absent=UNSET),
    ],
    "persistentvolumes": [
        NAME,
        at("spec", "capacity", "storage", absent="0"),
        w.volume_modes,
        _text("spec", "persistentVolumeReclaimPolicy"),
        w.phase,
        w.volume_claim,
        w.storage_class,
        _text("spec", "volumeAttributesClassName", absent=UNSET),
        _text("status", "reason"),
        AGE,
        _text("spec", "volumeMode", absent=UNSET),
    ],
    "pods": [
        NAME,
        c.pod_ready,
        c.pod_status,
        c.pod_restarts,
        AGE,
        at("status", "podIP"),
        at("spec", "nodeName"),
        at("status", "nominatedNodeName"),
        c.readiness_gates,
    ],
    "podtemplates": [NAME, *c.containers("template", "spec"), pairs("template", "metadata", "labels")],
    "replicationcontrollers": [*_REPLICAS, pairs("spec", "selector")],
    "resourcequotas": [NAME, w.quota_column(limits=False), w.quota_column(limits=True), AGE],
    "secrets": [NAME, at("type"), count("data"), AGE],
    "serviceaccounts": [NAME, count("secrets"), AGE],
    "services": [
        NAME,
        at("spec", "type"),
        at("spec", "clusterIP"),
        c.external_addresses,
        c.service_ports,
        AGE,
        pairs("spec", "selector"),
    ],
}
WORKLOADS: dict[str, list[Cell]] = {
    "controllerrevisions.apps": [NAME, w.revision_controller, whole("revision"), AGE],
    "daemonsets.apps": [
        NAME,
        *(
            whole("status", field)
            for field in (
                "desiredNumberScheduled",
                "currentNumberScheduled",
                "numberReady",
                "updatedNumberScheduled",
                "numberAvailable",
            )
        ),
        pairs(*_POD, "nodeSelector"),
        AGE,
        *c.containers(*_POD),
        c.selector,
    ],
    "deployments.apps": [
        NAME,
        w.ready_ratio,
        whole("status", "updatedReplicas"),
        whole("status", "availableReplicas"),
        AGE,
        *c.containers(*_POD),
        c.selector,
    ],
    "replicasets.apps": [*_REPLICAS, c.selector],
    "statefulsets.apps": [NAME, w.ready_ratio, AGE, *c.containers(*_POD)],
    "cronjobs.batch": [
        NAME,
        _text("spec", "schedule"),
        at("spec", "timeZone"),
        w.suspension,
        count("status", "active"),
        w.cron_last,
        AGE,
        *c.containers(*_JOB_POD),
        _empty_cell,
    ],
    "jobs.batch": [
        NAME,
        c.job_status,
        c.job_completions,
        c.job_duration,
        AGE,
        *c.containers(*_POD),
        c.selector,
    ],
    "horizontalpodautoscalers.autoscaling": [
        NAME,
        c.scale_target,
        _metrics,
        lambda obj, now: str(obj["spec"].get("minReplicas", UNSET)),
        whole("spec", "maxReplicas"),
        whole("status", "currentReplicas"),
        AGE,
    ],
    "poddisruptionbudgets.policy": [
        NAME,
        w.budget("minAvailable"),
        w.budget("maxUnavailable"),
        whole("status", "disruptionsAllowed"),
        AGE,
    ],
}
CLUSTER: dict[str, list[Cell]] = {
    "apiservices.apiregistration.k8s.io": [NAME, k.api_service, k.api_available, AGE],
    "certificatesigningrequests.certificates.k8s.io": [
        NAME,
        AGE,
        _text("spec", "signerName"),
        _text("spec", "username"),
        k.request_duration,
        k.request_state,
    ],
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": _WEBHOOKS,
    "validatingwebhookconfigurations.admissionregistration.k8s.io": _WEBHOOKS,
    "validatingadmissionpolicies.admissionregistration.k8s.io": [
        NAME,
        count("spec", "validations"),
        k.policy_parameters,
        AGE,
    ],
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": [
        NAME,
        _text("spec", "policyName"),
        k.binding_parameters,
        AGE,
    ],
    "rolebindings.rbac.authorization.k8s.io": _BINDING,
    "clusterrolebindings.rbac.authorization.k8s.io": _BINDING,
    "priorityclasses.scheduling.k8s.io": [
        NAME,
        whole("value"),
        truth("globalDefault"),
        AGE,
        at("preemptionPolicy"),
    ],
    "leases.coordination.k8s.io": [NAME, _text("spec", "holderIdentity"), AGE],
    "runtimeclasses.node.k8s.io": [NAME, _text("handler"), AGE],
    "flowschemas.flowcontrol.apiserver.k8s.io": [
        NAME,
        _text("spec", "priorityLevelConfiguration", "name"),
        whole("spec", "matchingPrecedence"),
        at("spec", "distinguisherMethod", "type"),
        AGE,
        k.missing_level,
    ],
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": [
        NAME,
        _text("spec", "type"),
        k.concurrency_shares,
        *(k.queue_field(name) for name in ("queues", "handSize", "queueLengthLimit")),
        AGE,
    ],
    "deviceclasses.resource.k8s.io": [NAME, AGE],
    "resourceclaims.resource.k8s.io": [NAME, k.claim_state, AGE],
    "resourceclaimtemplates.resource.k8s.io": [NAME, AGE],
    "resourceslices.resource.k8s.io": [
        NAME,
        _text("spec", "nodeName"),
        _text("spec", "driver"),
        _text("spec", "pool", "name"),
        AGE,
    ],
    "csidrivers.storage.k8s.io": [
        NAME,
        truth("spec", "attachRequired"),
        truth("spec", "podInfoOnMount"),
        truth("spec", "storageCapacity"),
        w.token_audiences,
        truth("spec", "requiresRepublish"),
        join_field("spec", "volumeLifecycleModes", absent=NONE),
        AGE,
    ],
    "csinodes.storage.k8s.io": [NAME, count("spec", "drivers"), AGE],
    "storageclasses.storage.k8s.io": [
        w.class_name,
        _text("provisioner"),
        _text("reclaimPolicy"),
        _text("volumeBindingMode"),
        truth("allowVolumeExpansion"),
        AGE,
    ],
    "volumeattachments.storage.k8s.io": [
        NAME,
        _text("spec", "attacher"),
        _text("spec", "source", "persistentVolumeName"),
        _text("spec", "nodeName"),
        truth("status", "attached"),
        AGE,
    ],
    "volumeattributesclasses.storage.k8s.io": [NAME, _text("driverName"), AGE],
    "endpointslices.discovery.k8s.io": [NAME, at("addressType"), c.slice_ports, c.slice_endpoints, AGE],
    "ingressclasses.networking.k8s.io": [NAME, _text("spec", "controller"), k.class_parameters, AGE],
    "ingresses.networking.k8s.io": [
        NAME,
        at("spec", "ingressClassName"),
        k.ingress_hosts,
        k.ingress_address,
        k.ingress_ports,
        AGE,
    ],
    "ipaddresses.networking.k8s.io": [NAME, k.address_parent],
    "networkpolicies.networking.k8s.io": [NAME, c.selector_cell("spec", "podSelector"), AGE],
    "servicecidrs.networking.k8s.io": [NAME, join_field("spec", "cidrs"), AGE],
}


def kind_cells(bucket: str) -> Iterable[Cell]:
    """Kinds without an entry show their names and when they were made."""
    for part in (CORE, WORKLOADS, CLUSTER):
        if bucket in part:
            return part[bucket]
    return PLAIN
