"""Tables: which columns each kind has, and a list of objects as rows. `rendering.py` asks for them."""

from collections.abc import Sequence
from datetime import datetime

from steelyard.kube.objects import status_of
from steelyard.local.apiserver import columns as c
from steelyard.local.apiserver.columns import AGE, NAME, SELECTOR, Column, at, containers, count
from steelyard.local.apiserver.item import Item
from steelyard.local.apiserver.kinds import ResourceType
from steelyard.local.apiserver.printer import custom_columns
from steelyard.types import Json, mapping, sequence


def _wide(name: str, cell: c.Cell) -> Column:
    return Column(name, cell, priority=1)


_EVENT = [
    Column("Last Seen", c.event_last),
    Column("Type", at("type", absent="")),
    Column("Reason", at("reason", absent="")),
    Column("Object", c.event_object),
    _wide("Subobject", at("involvedObject", "fieldPath", absent="")),
    _wide("Source", c.event_source),
    Column("Message", lambda obj, now: (obj.get("message") or "").strip()),
    _wide("First Seen", c.event_first),
    _wide("Count", lambda obj, now: str(obj.get("count") or 1)),
    Column("Name", at("metadata", "name"), priority=1, format="name"),
]
_TEMPLATE = ("spec", "template", "spec")
_COLUMNS: dict[str, list[Column]] = {
    "pods": [
        NAME,
        Column("Ready", c.pod_ready),
        Column("Status", c.pod_status),
        Column("Restarts", c.pod_restarts),
        AGE,
        _wide("IP", at("status", "podIP")),
        _wide("Node", at("spec", "nodeName")),
        _wide("Nominated Node", at("status", "nominatedNodeName")),
        _wide("Readiness Gates", lambda obj, now: c.NONE),
    ],
    "services": [
        NAME,
        Column("Type", at("spec", "type")),
        Column("Cluster-IP", at("spec", "clusterIP")),
        Column("External-IP", lambda obj, now: c.NONE),
        Column("Port(s)", c.service_ports),
        AGE,
        _wide("Selector", c.service_selector),
    ],
    "configmaps": [
        NAME,
        Column("Data", lambda obj, now: len(mapping(obj, "data")) + len(mapping(obj, "binaryData"))),
        AGE,
    ],
    "secrets": [NAME, Column("Type", at("type")), Column("Data", count("data")), AGE],
    "events": _EVENT,
    "nodes": [
        NAME,
        Column("Status", c.node_status),
        Column("Roles", c.node_roles),
        AGE,
        Column("Version", at("status", "nodeInfo", "kubeletVersion", absent="")),
        _wide("Internal-IP", c.node_address("InternalIP")),
        _wide("External-IP", c.node_address("ExternalIP")),
        _wide("OS-Image", at("status", "nodeInfo", "osImage", absent=c.UNKNOWN)),
        _wide("Kernel-Version", at("status", "nodeInfo", "kernelVersion", absent=c.UNKNOWN)),
        _wide("Container-Runtime", at("status", "nodeInfo", "containerRuntimeVersion", absent=c.UNKNOWN)),
    ],
    "namespaces": [NAME, Column("Status", at("status", "phase")), AGE],
    "serviceaccounts": [NAME, Column("Secrets", count("secrets")), AGE],
    "jobs.batch": [
        NAME,
        Column("Status", c.job_status),
        Column("Completions", c.job_completions),
        Column("Duration", c.job_duration),
        AGE,
        *containers(*_TEMPLATE),
        SELECTOR,
    ],
    "deployments.apps": [
        NAME,
        Column(
            "Ready",
            lambda obj, now: f"{status_of(obj).get('readyReplicas', 0)}/{obj['spec'].get('replicas', 0)}",
        ),
        Column("Up-to-date", at("status", "updatedReplicas", absent=0)),
        Column("Available", at("status", "availableReplicas", absent=0)),
        AGE,
        *containers(*_TEMPLATE),
        SELECTOR,
    ],
    "replicasets.apps": [
        NAME,
        Column("Desired", at("spec", "replicas", absent=0), type="integer"),
        Column("Current", at("status", "replicas", absent=0), type="integer"),
        Column("Ready", at("status", "readyReplicas", absent=0), type="integer"),
        AGE,
        *containers(*_TEMPLATE),
        SELECTOR,
    ],
    "endpointslices.discovery.k8s.io": [
        NAME,
        Column("AddressType", at("addressType")),
        Column("Ports", c.slice_ports),
        Column("Endpoints", c.slice_endpoints),
        AGE,
    ],
    "roles.rbac.authorization.k8s.io": [
        NAME,
        Column("Created At", at("metadata", "creationTimestamp"), type="date"),
    ],
    "rolebindings.rbac.authorization.k8s.io": [
        NAME,
        Column("Role", lambda obj, now: f"{obj['roleRef'].get('kind')}/{obj['roleRef'].get('name')}"),
        AGE,
        *(
            _wide(f"{subject_kind}s", c.subjects(subject_kind))
            for subject_kind in ("User", "Group", "ServiceAccount")
        ),
    ],
    "horizontalpodautoscalers.autoscaling": [
        NAME,
        Column("Reference", c.scale_target),
        Column("Targets", lambda obj, now: ", ".join(map(c.metric_target, sequence(obj["spec"], "metrics")))),
        Column("MinPods", lambda obj, now: str(obj["spec"].get("minReplicas", "<unset>"))),
        Column("MaxPods", at("spec", "maxReplicas"), type="integer"),
        Column("Replicas", at("status", "currentReplicas", absent=0), type="integer"),
        AGE,
    ],
    "priorityclasses.scheduling.k8s.io": [
        NAME,
        Column("Value", at("value", absent=0), type="integer"),
        Column("Global-Default", lambda obj, now: bool(obj.get("globalDefault")), type="boolean"),
        AGE,
        Column("PreemptionPolicy", at("preemptionPolicy")),
    ],
    "leases.coordination.k8s.io": [NAME, Column("Holder", at("spec", "holderIdentity", absent="")), AGE],
    "customresourcedefinitions.apiextensions.k8s.io": [
        NAME,
        Column("Created At", at("metadata", "creationTimestamp"), type="date"),
    ],
}


def table_of(kind: ResourceType, items: Sequence[Item], metadata: Json, include: str, now: datetime) -> Json:
    """The kind's columns and a row per object; `include` is what of the object goes along."""
    columns = custom_columns(kind) if kind.custom else _COLUMNS.get(kind.bucket, [NAME, AGE])
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": [_definition(column) for column in columns],
        "rows": [_row(columns, item.parsed(), include, now) for item in items],
    }


def _definition(column: Column) -> Json:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }


def _row(columns: Sequence[Column], obj: Json, include: str, now: datetime) -> Json:
    row: Json = {"cells": [column.cell(obj, now) for column in columns]}
    # kubectl asks for the object where it needs more than the cells, for `--sort-by` for one.
    if include == "Object":
        row["object"] = obj
    elif include != "None":
        own = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
        row["object"] = {**own, "metadata": obj["metadata"]}
    return row
