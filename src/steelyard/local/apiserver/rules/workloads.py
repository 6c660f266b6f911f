"""Jobs, Deployments and ReplicaSets."""

from steelyard.local.apiserver.errors import Cause, invalid, required, unsupported
from steelyard.local.apiserver.kinds import Rules, field_of
from steelyard.local.apiserver.messages import Json
from steelyard.local.apiserver.names import labels_causes
from steelyard.local.apiserver.rules.common import (
    defaults,
    immutable,
    labels_match,
    non_negative,
    selector_causes,
)
from steelyard.local.apiserver.rules.pods import complete_pod_spec, pod_spec_causes

_UID, _NAME = "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"


def _template(obj: Json) -> Json:
    template: Json = obj["spec"].setdefault("template", {})
    template.setdefault("metadata", {})
    complete_pod_spec(template.setdefault("spec", {}))
    return template


def _template_causes(obj: Json, *, policies: list[str]) -> list[Cause]:
    template = obj["spec"]["template"]
    path = "spec.template"
    causes = labels_causes(field_of(template, "metadata", "labels") or {}, f"{path}.labels")
    causes += pod_spec_causes(template["spec"], f"{path}.spec")
    if not causes and template["spec"]["restartPolicy"] not in policies:
        causes.append(unsupported(f"{path}.spec.restartPolicy", template["spec"]["restartPolicy"], policies))
    return causes


# ---- Jobs


def _prepare_job(job: Json) -> None:
    """The server's own selector and labels, so that a Job finds its Pods and no other's."""
    metadata, spec = job["metadata"], job.setdefault("spec", {})
    job["status"] = {}
    spec.setdefault("template", {})
    template = spec["template"]
    if not isinstance(template.get("metadata"), dict):
        template["metadata"] = {}
    if not spec.get("manualSelector"):
        own = {_UID: metadata["uid"], _NAME: metadata["name"]}
        own |= {"controller-uid": metadata["uid"], "job-name": metadata["name"]}
        template["metadata"]["labels"] = {**(template["metadata"].get("labels") or {}), **own}
        spec.setdefault("selector", {}).setdefault("matchLabels", {})[_UID] = metadata["uid"]
    if not metadata.get("labels"):
        metadata["labels"] = dict(template["metadata"].get("labels") or {})


def _default_job(job: Json) -> None:
    spec = job.setdefault("spec", {})
    explicit = field_of(spec, "template", "spec", "restartPolicy")
    template = _template(job)
    if not explicit:
        template["spec"]["restartPolicy"] = ""  # has no default here: refused below
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec |= {"completions": 1, "parallelism": 1}
    if spec.get("parallelism") is None:
        spec["parallelism"] = 1
    defaults(
        spec,
        backoffLimit=6,
        manualSelector=False,
        completionMode="NonIndexed",
        suspend=False,
        podReplacementPolicy="TerminatingOrFailed",
    )
    job.setdefault("status", {})


def _check_job(job: Json, old: Json | None) -> list[Cause]:
    spec = job["spec"]
    causes = non_negative(
        job,
        *(f"spec.{name}" for name in ("parallelism", "completions", "backoffLimit", "activeDeadlineSeconds")),
        "spec.ttlSecondsAfterFinished",
    )
    policies = ["OnFailure", "Never"]
    policy = spec["template"]["spec"].get("restartPolicy")
    if not policy:
        text = 'valid values: "OnFailure", "Never"'
        causes.append(required("spec.template.spec.restartPolicy", text))
        spec["template"]["spec"]["restartPolicy"] = "Never"  # said once
    if spec["completionMode"] not in ("NonIndexed", "Indexed"):
        causes.append(unsupported("spec.completionMode", spec["completionMode"], ["NonIndexed", "Indexed"]))
    causes += _template_causes(job, policies=policies)
    frozen = ["spec.completionMode", "spec.selector"]
    if not (spec.get("suspend") and field_of(old, "spec", "suspend")):
        frozen.append("spec.template")
    if spec["completionMode"] != "Indexed":
        frozen.append("spec.completions")
    return causes + immutable(job, old, *frozen)


# ---- Deployments and ReplicaSets


def _default_replica_set(obj: Json) -> None:
    defaults(obj.setdefault("spec", {}), replicas=1)
    _template(obj)


def _prepare_replica_set(obj: Json) -> None:
    obj["status"] = {"replicas": 0}


def _check_replica_set(obj: Json, old: Json | None) -> list[Cause]:
    causes = non_negative(obj, "spec.replicas", "spec.minReadySeconds", "spec.revisionHistoryLimit")
    selector = obj["spec"].get("selector")
    causes += selector_causes(selector, "spec.selector")
    labels = field_of(obj, "spec", "template", "metadata", "labels")
    if not causes and not labels_match(selector or {}, labels or {}):
        text = "`selector` does not match template `labels`"
        causes.append(invalid("spec.template.metadata.labels", labels, text))
    causes += _template_causes(obj, policies=["Always"])
    return causes + immutable(obj, old, "spec.selector")


def _prepare_deployment(obj: Json) -> None:
    obj["status"] = {}


def _default_deployment(obj: Json) -> None:
    _default_replica_set(obj)
    spec = obj["spec"]
    defaults(spec, strategy={}, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    defaults(spec["strategy"], type="RollingUpdate")
    if spec["strategy"]["type"] == "RollingUpdate":
        defaults(spec["strategy"], rollingUpdate={})
        defaults(spec["strategy"]["rollingUpdate"], maxUnavailable="25%", maxSurge="25%")


def _check_deployment(obj: Json, old: Json | None) -> list[Cause]:
    causes = _check_replica_set(obj, old) + non_negative(obj, "spec.progressDeadlineSeconds")
    kind = obj["spec"]["strategy"]["type"]
    if kind not in ("Recreate", "RollingUpdate"):
        causes.append(unsupported("spec.strategy.type", kind, ["Recreate", "RollingUpdate"]))
    return causes


JOB = Rules(prepare=_prepare_job, default=_default_job, check=_check_job)
REPLICA_SET = Rules(prepare=_prepare_replica_set, default=_default_replica_set, check=_check_replica_set)
DEPLOYMENT = Rules(prepare=_prepare_deployment, default=_default_deployment, check=_check_deployment)
