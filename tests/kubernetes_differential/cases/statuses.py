# ruff: noqa: E501 - a table is read by its rows
"""Writes of a status: the fields that come with it and those that do not, kind by kind."""

from steelyard_common.types import Json
from tests.kubernetes_differential.case import Case, Until, delete, get, merge, post
from tests.kubernetes_differential.cases.rows import KINDS
from tests.kubernetes_differential.samples import (
    APPS,
    BATCH,
    CORE,
    CRDS,
    LABELS,
    PODS,
    WIDGETS,
    definition,
    deployment,
    job,
    pod,
    service,
    template,
    widget,
)

KEPT = (
    "metadata.labels",
    "metadata.annotations",
    "metadata.finalizers",
    "metadata.generation",
    "message",
    "reason",
)
METADATA: Json = {"labels": {"b": "c"}, "annotations": {"x": "y"}, "finalizers": ["a.b/c"]}
REPLICAS: Json = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "spec": {"replicas": 0, "selector": {"matchLabels": LABELS}, "template": template()},
}
WITH_STATUS: dict[str, tuple[str, Json]] = {
    **{kind: KINDS[kind] for kind in ("StatefulSet", "DaemonSet", "CronJob", "ReplicationController", "PersistentVolumeClaim", "ResourceQuota", "Ingress", "PodDisruptionBudget", "HorizontalPodAutoscaler", "PersistentVolume", "ValidatingAdmissionPolicy")},
    "Pod": (PODS, pod("a")),
    "Job": (f"{BATCH}/jobs", job("a")),
    "Deployment": (f"{APPS}/deployments", deployment("a", replicas=0, paused=True)),  # else its revision is written beside the case
    "ReplicaSet": (f"{APPS}/replicasets", REPLICAS),
    "Service": (f"{CORE}/services", service("a")),
    "Node": ("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node"}),
    "FlowSchema": ("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas", {"spec": {"priorityLevelConfiguration": {"name": "exempt"}}}),
    "PriorityLevelConfiguration": ("/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations", {"spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}}),
    "ServiceCIDR": ("/apis/networking.k8s.io/v1/servicecidrs", {"spec": {"cidrs": ["10.77.0.0/24"]}}),
    "VolumeAttachment": ("/apis/storage.k8s.io/v1/volumeattachments", {"spec": {"attacher": "a.b", "nodeName": "n", "source": {"persistentVolumeName": "v"}}}),
    "ResourceClaim": ("/apis/resource.k8s.io/v1/namespaces/{{ns}}/resourceclaims", {"spec": {}}),
}  # fmt: skip


def written(kind: str, path: str, obj: Json) -> Case:
    name = "{{ns}}" if "{{ns}}" not in path else "a"
    one = f"{path}/{name}"
    return Case(f"statuses: {kind}", post(path, obj | {"metadata": {"name": name}}, compare=("kind",)), merge(f"{one}/status", {"metadata": METADATA}, compare=KEPT), merge(f"{one}/status", {"metadata": {"labels": {"b c": "d"}}}, compare=KEPT),
                merge(one, {"metadata": {"finalizers": None}}, compare=("kind",)), delete(one, compare=("kind",)))  # fmt: skip


CASES = [
    *[written(kind, path, obj) for kind, (path, obj) in WITH_STATUS.items()],
    Case("statuses: Widget", post(CRDS, definition(), compare=("kind",)), Until(WIDGETS, compare=("kind",)), post(WIDGETS, widget("a"), compare=("kind",)), merge(f"{WIDGETS}/a/status", {"metadata": METADATA}, compare=KEPT), merge(f"{WIDGETS}/a/status", {"metadata": {"labels": {"b c": "d"}}}, compare=KEPT)),
    Case("statuses: a definition", post(CRDS, definition(), compare=("kind",)), merge(f"{CRDS}/widgets.{{{{group}}}}/status", {"metadata": METADATA}, compare=KEPT)),
    Case("statuses: of a namespace", merge("/api/v1/namespaces/{{ns}}/status", {"metadata": {"labels": {"b": "c"}}, "status": {"phase": "Terminating"}}, compare=("metadata.labels", "status", "message")), get("/api/v1/namespaces/{{ns}}", compare=("status.phase",))),
]  # fmt: skip
