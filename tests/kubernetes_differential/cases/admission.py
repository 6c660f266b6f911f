# ruff: noqa: E501 - a table is read by its rows
"""Admission of writes: the limits and quotas that they must keep, and additions to them."""

from typing import Any

from steelyard_common.types import Json
from tests.kubernetes_differential.case import Case, Request, Until, delete, get, merge, post
from tests.kubernetes_differential.samples import (
    CONTAINER,
    CORE,
    DRY,
    MAPS,
    PODS,
    config_map,
    container,
    pod,
    service,
)

RANGES, QUOTAS, CLAIMS = f"{CORE}/limitranges", f"{CORE}/resourcequotas", f"{CORE}/persistentvolumeclaims"
SERVICES, SECRETS = f"{CORE}/services", f"{CORE}/secrets"
REFUSED = ("message", "reason", "details", "code", "kind")
SIZED = (
    *REFUSED,
    *(f"spec.{field}.resources" for field in ("containers.0", "containers.1", "initContainers.0")),
    "metadata.annotations",
    "status.qosClass",
)


def limit_range(name: str, *limits: Json) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": name},
        "spec": {"limits": list(limits)},
    }


def limits(kind: str = "Container", **bounds: Any) -> Json:
    return {"type": kind, **bounds}


def quota(name: str, hard: Json, **spec: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name},
        "spec": {"hard": hard, **spec},
    }


def claim(name: str, size: str, **spec: Any) -> Json:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def sized(name: str = "p", *, requests: Json | None = None, limits: Json | None = None, **spec: Any) -> Json:
    resources = {
        key: value for key, value in {"requests": requests, "limits": limits}.items() if value is not None
    }
    return pod(name, containers=[CONTAINER | {"resources": resources}], **spec)


def refused(obj: Json, path: str = PODS) -> Request:
    return post(path, obj, compare=SIZED)


def counted(name: str, hard: Json, **used: str) -> tuple[Request, Until]:
    """A quota, and the wait until it counts."""
    made = post(QUOTAS, quota(name, hard), compare=("spec", "status", *REFUSED))
    return made, uses(name, dict.fromkeys(hard, "0") | used)


def uses(name: str, used: Json) -> Until:
    """Wait until a quota counts this."""
    return Until(f"{QUOTAS}/{name}", {"status.used": used}, compare=("status",))


SMALL: Json = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "200m", "memory": "64Mi"}}

BOUNDED: dict[str, tuple[dict[str, Any], Json]] = {
    "max": ({"max": {"cpu": "150m"}}, sized(requests={"cpu": "300m"}, limits={"cpu": "300m"})),
    "max of requests": ({"max": {"cpu": "150m"}, "default": {"cpu": "120m"}, "defaultRequest": {"cpu": "10m"}}, sized(requests={"cpu": "110m"})),
    "min": ({"min": {"memory": "65Mi"}}, sized(requests={"memory": "1Mi"})),
    "min of limits": ({"min": {"cpu": "150m"}}, sized(limits={"cpu": "120m"})),
    "ratio": ({"maxLimitRequestRatio": {"cpu": "1500m"}}, sized(requests={"cpu": "100m"}, limits={"cpu": "1"})),
    "ratio of nothing": ({"maxLimitRequestRatio": {"cpu": "3"}}, pod("p")),
    "of another resource": ({"max": {"example.dev/x": "1"}}, sized(requests={"example.dev/x": "2"}, limits={"example.dev/x": "2"})),
}  # fmt: skip

CASES = [
    # ---- LimitRange
    Case("limits: defaults",
         post(RANGES, limit_range("l", limits(default={"cpu": "1000m", "memory": "1024Mi"}, defaultRequest={"cpu": "500m"})), compare=("spec", *REFUSED)),
         refused(pod("a")), refused(container(resources={"limits": {"cpu": "3"}})), refused(sized("b", requests={"cpu": "2"}, limits={"cpu": "3"})),
         refused(pod("c", initContainers=[{"name": "i", "image": "localhost/none:1"}])), refused(sized("d", requests={"cpu": "2"})),
         post(f"{PODS}?{DRY}", pod("e"), compare=SIZED)),
    Case("limits: defaults that follow", post(RANGES, limit_range("l", limits(max={"cpu": "2"}, min={"memory": "16Mi"}), limits("Pod", max={"cpu": "3"})), compare=("spec", *REFUSED)), refused(pod("a"))),
    *[Case(f"limits: container {name}", post(RANGES, limit_range("l", limits(**bounds)), compare=("kind",)), refused(obj), refused(sized("q", **SMALL)))
      for name, (bounds, obj) in BOUNDED.items()],
    Case("limits: pod", post(RANGES, limit_range("l", limits("Pod", max={"cpu": "300m"}, maxLimitRequestRatio={"memory": "2"})), compare=("spec", *REFUSED)),
         refused(pod("p", containers=[CONTAINER | {"resources": SMALL}, {**CONTAINER, "name": "b", "resources": SMALL}])), refused(sized("q", **SMALL)),
         refused(pod("r", containers=[CONTAINER | {"resources": SMALL}], initContainers=[{**CONTAINER, "name": "i", "resources": {"requests": {"cpu": "1", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "64Mi"}}}])),
         refused(pod("s", containers=[CONTAINER | {"resources": SMALL}], initContainers=[{**CONTAINER, "name": "i", "restartPolicy": "Always", "resources": SMALL}]))),
    Case("limits: claims", post(RANGES, limit_range("l", limits("PersistentVolumeClaim", min={"storage": "1Gi"}, max={"storage": "2Gi"})), compare=("spec", *REFUSED)),
         post(CLAIMS, claim("a", "500Mi"), compare=REFUSED), post(CLAIMS, claim("b", "3Gi"), compare=REFUSED), post(CLAIMS, claim("c", "2048Mi"), compare=("kind", "spec.resources", "message"))),
    Case("limits: generated name", post(RANGES, limit_range("l", limits(max={"cpu": "1"}, default={"cpu": "2"})), compare=REFUSED), post(RANGES, limit_range("l", limits(max={"cpu": "100m"})), compare=("kind",)),
         post(PODS, {"metadata": {"generateName": "g-"}, "spec": {"containers": [CONTAINER | {"resources": {"requests": {"cpu": "50m"}, "limits": {"cpu": "1"}}}]}}, compare=("reason", "code"))),
    Case("limits: other kinds", post(RANGES, limit_range("l", limits(max={"cpu": "100m"})), compare=("kind",)), post(MAPS, config_map("a"), compare=("kind",)), get(RANGES, compare=("kind", "items.0.spec")),
         delete(f"{RANGES}/l", compare=("kind", "status"))),
    # ---- ResourceQuota
    Case("quota: pods", *counted("q", {"pods": "2", "count/pods": "3"}), post(PODS, pod("a"), compare=("kind",)), uses("q", {"pods": "1", "count/pods": "1"}), post(f"{PODS}?{DRY}", pod("b"), compare=("kind",)), post(PODS, pod("b"), compare=("kind",)), refused(pod("c")), post(f"{PODS}?{DRY}", pod("c"), compare=SIZED),
         delete(f"{PODS}/a?gracePeriodSeconds=0", compare=("kind",)), uses("q", {"pods": "1", "count/pods": "1"}), post(PODS, pod("c"), compare=("kind",)), uses("q", {"pods": "2", "count/pods": "2"})),
    Case("quota: compute", *counted("q", {"cpu": "1", "requests.memory": "200Mi", "limits.cpu": "500m", "requests.ephemeral-storage": "1Gi"}), refused(pod("a")), refused(sized("b", requests={"cpu": "1"})),
         refused(sized("c", **SMALL)), uses("q", {"cpu": "100m", "requests.memory": "64Mi", "limits.cpu": "200m", "requests.ephemeral-storage": "0"}), refused(sized("d", requests={"cpu": "2", "memory": "1Gi"}, limits={"cpu": "2"})),
         refused(sized("e", requests={"cpu": "1", "memory": "1Mi", "ephemeral-storage": "2Gi"}, limits={"cpu": "300m"})), refused(pod("f", initContainers=[{"name": "i", "image": "localhost/none:1"}])),
         refused(pod("g", containers=[CONTAINER | {"resources": SMALL}], initContainers=[{**CONTAINER, "name": "i", "resources": {"requests": {"cpu": "200m", "memory": "64Mi"}, "limits": {"cpu": "300m"}}}])),
         uses("q", {"cpu": "300m", "requests.memory": "128Mi", "limits.cpu": "500m", "requests.ephemeral-storage": "0"})),
    Case("quota: extended resources", *counted("q", {"requests.example.dev/gpu": "2"}), refused(sized("a", requests={"example.dev/gpu": "2"}, limits={"example.dev/gpu": "2"})), refused(sized("b", requests={"example.dev/gpu": "1"}, limits={"example.dev/gpu": "1"})), refused(pod("c")),
         uses("q", {"requests.example.dev/gpu": "2"})),
    Case("quota: counts", *counted("q", {"configmaps": "3", "count/configmaps": "2", "secrets": "1", "services": "1", "services.nodeports": "1", "count/jobs.batch": "0", "persistentvolumeclaims": "1", "requests.storage": "3Gi"}, **{"configmaps": "1", "count/configmaps": "1"}),
         post(MAPS, config_map("a"), compare=("kind",)), post(MAPS, config_map("b"), compare=REFUSED), post(SECRETS, {"metadata": {"name": "a"}}, compare=("kind",)), post(SECRETS, {"metadata": {"name": "b"}}, compare=REFUSED),
         post(SERVICES, service("a"), compare=("kind",)), post(SERVICES, service("b"), compare=REFUSED), merge(f"{SERVICES}/a", {"spec": {"type": "NodePort"}}, compare=("kind", "spec.type", *REFUSED)),
         merge(f"{SERVICES}/a", {"spec": {"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]}}, compare=REFUSED),
         post("/apis/batch/v1/namespaces/{{ns}}/jobs", {"metadata": {"name": "j"}, "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}}}, compare=REFUSED),
         post(CLAIMS, claim("a", "2Gi"), compare=("kind",)), post(CLAIMS, claim("b", "2Gi"), compare=REFUSED),
         uses("q", {"configmaps": "2", "count/configmaps": "2", "secrets": "1", "services": "1", "services.nodeports": "1", "count/jobs.batch": "0", "persistentvolumeclaims": "1", "requests.storage": "2Gi"})),
    Case("quota: storage classes", *counted("q", {"fast.storageclass.storage.k8s.io/requests.storage": "3Gi", "fast.storageclass.storage.k8s.io/persistentvolumeclaims": "5"}), post(CLAIMS, claim("a", "4Gi", storageClassName="slow"), compare=("kind",)), post(CLAIMS, claim("b", "4Gi", storageClassName="fast"), compare=REFUSED),
         post(CLAIMS, claim("c", "2Gi", storageClassName="fast"), compare=("kind",)), uses("q", {"fast.storageclass.storage.k8s.io/requests.storage": "2Gi", "fast.storageclass.storage.k8s.io/persistentvolumeclaims": "1"})),
    *[Case(f"quota: scope {scope}", post(QUOTAS, quota("q", {"pods": "1"}, scopes=[scope]), compare=("spec", "status", *REFUSED)), Until(f"{QUOTAS}/q", {"status.used": {"pods": "0"}}, compare=("status",)), post(PODS, pod("a"), compare=("kind",)), post(PODS, sized("b", **SMALL), compare=("kind",)), post(PODS, pod("c", activeDeadlineSeconds=1000), compare=REFUSED), post(PODS, sized("d", **SMALL, activeDeadlineSeconds=1000), compare=REFUSED))
      for scope in ("Terminating", "NotTerminating", "BestEffort", "NotBestEffort")],
    Case("quota: priority classes", post(QUOTAS, quota("q", {"pods": "1"}, scopeSelector={"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical"]}]}), compare=("spec", *REFUSED)), Until(f"{QUOTAS}/q", {"status.used": {"pods": "0"}}, compare=("status",)),
         post(PODS, pod("a"), compare=("kind",)), post(PODS, pod("b", priorityClassName="system-node-critical"), compare=("kind",)), refused(pod("c", priorityClassName="system-node-critical")), post(PODS, pod("d", priorityClassName="system-cluster-critical"), compare=("kind",)), uses("q", {"pods": "1"})),
    Case("quota: changed", *counted("q", {"secrets": "1"}), post(SECRETS, {"metadata": {"name": "a"}}, compare=("kind",)), post(SECRETS, {"metadata": {"name": "b"}}, compare=REFUSED), merge(f"{QUOTAS}/q", {"spec": {"hard": {"secrets": "2", "pods": "5"}}}, compare=("spec", *REFUSED)), uses("q", {"secrets": "1", "pods": "0"}),
         post(SECRETS, {"metadata": {"name": "b"}}, compare=("kind",)), delete(f"{SECRETS}/a", compare=("kind",)), uses("q", {"secrets": "1", "pods": "0"}), delete(f"{QUOTAS}/q", compare=("kind",)), post(SECRETS, {"metadata": {"name": "d"}}, compare=("kind",))),
    Case("quota: an object beside one that exceeds", *counted("q", {"secrets": "1"}), post(QUOTAS, quota("r", {"secrets": "5"}), compare=("kind",)), uses("r", {"secrets": "0"}), post(SECRETS, {"metadata": {"name": "a"}}, compare=("kind",)), post(SECRETS, {"metadata": {"name": "b"}}, compare=REFUSED), uses("q", {"secrets": "1"}), uses("r", {"secrets": "1"}),
         post(SECRETS, {"metadata": {"name": "a"}}, compare=REFUSED)),
    Case("quota: limits give what is needed", post(RANGES, limit_range("l", limits(default={"cpu": "100m"})), compare=("kind",)), *counted("q", {"requests.cpu": "150m", "limits.cpu": "1"}), refused(pod("a")), refused(pod("b")), uses("q", {"requests.cpu": "100m", "limits.cpu": "100m"})),
    Case("places: a namespace that is not there", post("/api/v1/namespaces/nowhere-{{ns}}/pods", {"spec": {}}, compare=REFUSED), post("/api/v1/namespaces/nowhere-{{ns}}/configmaps", config_map("A_"), compare=REFUSED)),
]  # fmt: skip
