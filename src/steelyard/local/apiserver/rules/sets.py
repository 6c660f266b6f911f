"""StatefulSets, DaemonSets, ReplicationControllers, their revisions, and templates of Pods."""

from steelyard.kube.objects import labels_of
from steelyard.local.apiserver.errors import Cause, invalid, required
from steelyard.local.apiserver.kinds import Rules, field_of
from steelyard.local.apiserver.rules.common import defaults, immutable, selector_causes
from steelyard.local.apiserver.rules.fields import not_negative, one_of
from steelyard.local.apiserver.rules.pods import complete_pod_spec, pod_spec_causes
from steelyard.local.apiserver.rules.storage import complete_claim
from steelyard.local.apiserver.rules.workloads import complete_template, match_causes, template_causes
from steelyard.types import Json, mapping, sequence

_POLICIES = ["OrderedReady", "Parallel"]
_UPDATES = ["RollingUpdate", "OnDelete"]


# ---- StatefulSets


def _prepare_stateful_set(obj: Json) -> None:
    obj["status"] = {"replicas": 0, "availableReplicas": 0}


def _default_stateful_set(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    defaults(
        spec,
        replicas=1,
        podManagementPolicy="OrderedReady",
        revisionHistoryLimit=10,
        updateStrategy={},
        persistentVolumeClaimRetentionPolicy={},
    )
    strategy = spec["updateStrategy"]
    defaults(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        defaults(strategy, rollingUpdate={})
        defaults(strategy["rollingUpdate"], partition=0)
    defaults(spec["persistentVolumeClaimRetentionPolicy"], whenDeleted="Retain", whenScaled="Retain")
    complete_template(obj)
    for claim in sequence(spec, "volumeClaimTemplates"):
        claim |= {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
        claim["status"] = {"phase": "Pending"}
        claim.setdefault("metadata", {})
        complete_claim(claim)


def _check_stateful_set(obj: Json, old: Json | None) -> list[Cause]:
    spec = obj["spec"]
    causes = one_of(spec["podManagementPolicy"], "spec.podManagementPolicy", _POLICIES)
    causes += one_of(spec["updateStrategy"]["type"], "spec.updateStrategy.type", _UPDATES)
    causes += not_negative(spec, "spec", "replicas", "minReadySeconds", "revisionHistoryLimit")
    causes += not_negative(mapping(spec, "ordinals"), "spec.ordinals", "start")
    causes += selector_causes(spec.get("selector"), "spec.selector")
    causes += [] if causes else match_causes(obj)
    causes += template_causes(obj, policies=["Always"])
    if old is None:
        return causes
    text = (
        "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
        "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
    )
    if any(_frozen(spec).get(name) != _frozen(old["spec"]).get(name) for name in _frozen(spec)):
        causes.append(Cause("spec", f"Forbidden: {text}", "FieldValueForbidden"))
    return causes


def _frozen(spec: Json) -> Json:
    names = ("selector", "serviceName", "podManagementPolicy", "volumeClaimTemplates")
    return {name: spec.get(name) for name in names}


# ---- DaemonSets


def _prepare_daemon_set(obj: Json) -> None:
    obj["status"] = {
        "currentNumberScheduled": 0,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 0,
        "numberReady": 0,
    }
    generation = {"deprecated.daemonset.template.generation": "1"}
    obj["metadata"]["annotations"] = mapping(obj["metadata"], "annotations") | generation


def _default_daemon_set(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    defaults(spec, revisionHistoryLimit=10, updateStrategy={})
    strategy = spec["updateStrategy"]
    defaults(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        defaults(strategy, rollingUpdate={})
        defaults(strategy["rollingUpdate"], maxUnavailable=1, maxSurge=0)
    complete_template(obj)


def _check_daemon_set(obj: Json, old: Json | None) -> list[Cause]:
    spec = obj["spec"]
    causes = selector_causes(spec.get("selector"), "spec.selector")
    causes += [] if causes else match_causes(obj)
    causes += template_causes(obj, policies=["Always"])
    causes += not_negative(spec, "spec", "minReadySeconds", "revisionHistoryLimit")
    causes += one_of(spec["updateStrategy"]["type"], "spec.updateStrategy.type", _UPDATES)
    return causes + immutable(obj, old, "spec.selector")


# ---- ReplicationControllers


def _prepare_controller(obj: Json) -> None:
    obj["status"] = {"replicas": 0}


def _default_controller(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    defaults(spec, replicas=1)
    template = complete_template(obj)
    if labels := labels_of(template):
        if not spec.get("selector"):
            spec["selector"] = dict(labels)
        if not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)


def _check_controller(obj: Json, old: Json | None) -> list[Cause]:
    spec = obj["spec"]
    causes = not_negative(spec, "spec", "minReadySeconds", "replicas")
    selector = mapping(spec, "selector")
    if not selector:
        causes.append(required("spec.selector"))
    labels = field_of(spec, "template", "metadata", "labels") or {}
    if any(labels.get(key) != value for key, value in selector.items()):
        text = "`selector` does not match template `labels`"
        causes.append(invalid("spec.template.metadata.labels", labels, text))
    return causes + template_causes(obj, policies=["Always"])


# ---- what these are made of


def _default_pod_template(obj: Json) -> None:
    template = obj.setdefault("template", {})
    template.setdefault("metadata", {})
    complete_pod_spec(template.setdefault("spec", {}))


def _check_pod_template(obj: Json, old: Json | None) -> list[Cause]:
    return pod_spec_causes(obj["template"]["spec"], "template.spec")


def _check_revision(obj: Json, old: Json | None) -> list[Cause]:
    causes = not_negative(obj, "", "revision")
    if obj.get("data") is None:
        causes.append(required("data", "data is mandatory"))
    return causes + immutable(obj, old, "data")


STATEFUL_SET = Rules(_prepare_stateful_set, _default_stateful_set, _check_stateful_set)
DAEMON_SET = Rules(_prepare_daemon_set, _default_daemon_set, _check_daemon_set)
CONTROLLER = Rules(_prepare_controller, _default_controller, _check_controller)
POD_TEMPLATE = Rules(default=_default_pod_template, check=_check_pod_template)
REVISION = Rules(default=lambda obj: defaults(obj, revision=0), check=_check_revision)
