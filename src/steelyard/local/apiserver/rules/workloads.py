"""Jobs, Deployments and ReplicaSets."""

from steelyard.kube.objects import annotations_of, labels_of
from steelyard.local.apiserver.errors import Cause, forbidden_field, invalid, required, unsupported
from steelyard.local.apiserver.kinds import Rules, field_of
from steelyard.local.apiserver.names import annotations_causes, labels_causes
from steelyard.local.apiserver.rules.common import (
    defaults,
    immutable,
    labels_match,
    selector_causes,
)
from steelyard.local.apiserver.rules.fields import not_negative, one_of, percent, share
from steelyard.local.apiserver.rules.job_policies import default_policies, policy_causes
from steelyard.local.apiserver.rules.pods import complete_pod_spec, grace_warnings, pod_spec_causes
from steelyard.types import Json, mapping

_MOST_AT_ONCE = 100_000
_JOB_NUMBERS = (
    "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished",
    "backoffLimitPerIndex", "maxFailedIndexes",
)  # fmt: skip
_UNMATCHED = "`selector` does not match template `labels`"
_UID, _NAME = "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"


def complete_template(obj: Json) -> Json:
    template: Json = obj["spec"].setdefault("template", {})
    template.setdefault("metadata", {})
    complete_pod_spec(template.setdefault("spec", {}))
    return template


def template_causes(obj: Json, *, policies: list[str]) -> list[Cause]:
    template = obj["spec"]["template"]
    path = "spec.template"
    causes = labels_causes(labels_of(template), f"{path}.labels")
    causes += annotations_causes(annotations_of(template), f"{path}.annotations")
    causes += pod_spec_causes(template["spec"], f"{path}.spec")
    if template["spec"].get("ephemeralContainers"):
        text = "ephemeral containers not allowed in pod template"
        causes.append(forbidden_field(f"{path}.spec.ephemeralContainers", text))
    # A policy that does not exist at all has been named by the checks of the Pod already.
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
        name = metadata.get("name") or ""  # that it is required is said later, with all other faults
        own = {_UID: metadata["uid"], _NAME: name}
        # The same labels as they were called before they had a domain: programs still select by them.
        own |= {"controller-uid": metadata["uid"], "job-name": name}
        template["metadata"]["labels"] = {**labels_of(template), **own}
        spec.setdefault("selector", {}).setdefault("matchLabels", {})[_UID] = metadata["uid"]
    # Kubernetes' default: a Job without labels has those of its Pods.
    if not metadata.get("labels"):
        metadata["labels"] = dict(labels_of(template))


def _default_job(job: Json) -> None:
    spec = job.setdefault("spec", {})
    explicit = field_of(spec, "template", "spec", "restartPolicy")
    template = complete_template(job)
    if not explicit:
        template["spec"]["restartPolicy"] = ""  # has no default here: refused below
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec |= {"completions": 1, "parallelism": 1}
    if spec.get("parallelism") is None:
        spec["parallelism"] = 1
    defaults(
        spec,
        # With a limit for each index, the limit of the whole Job is out of the way.
        backoffLimit=6 if spec.get("backoffLimitPerIndex") is None else 2**31 - 1,
        manualSelector=False,
        completionMode="NonIndexed",
        suspend=False,
        podReplacementPolicy="Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed",
    )
    default_policies(spec)
    job.setdefault("status", {})


def _check_job(job: Json, old: Json | None) -> list[Cause]:
    spec = job["spec"]
    causes = not_negative(spec, "spec", *_JOB_NUMBERS) + policy_causes(spec) + _indexed_causes(spec)
    if spec.get("podFailurePolicy") is None:
        choices = ["Failed", "TerminatingOrFailed"]
        causes += one_of(spec.get("podReplacementPolicy"), "spec.podReplacementPolicy", choices)
    if spec.get("selector") is None:
        # A real server checks a changed Job twice, and says all of it again.
        labels = field_of(spec, "template", "metadata", "labels")
        unmatched = invalid("spec.template.metadata.labels", labels, _UNMATCHED)
        causes += [required("spec.selector"), unmatched] * (1 if old is None else 2)
    else:
        causes += selector_causes(spec["selector"], "spec.selector", empty=True)
        causes += match_causes(job) if spec.get("manualSelector") and not causes else []
        causes += _generated_causes(job) if not spec.get("manualSelector") else []
    policies = ["OnFailure", "Never"]
    policy = spec["template"]["spec"].get("restartPolicy")
    if not policy:
        text = 'valid values: "OnFailure", "Never"'
        causes.append(required("spec.template.spec.restartPolicy", text))
        spec["template"]["spec"]["restartPolicy"] = "Never"  # said once
    if spec["completionMode"] not in ("NonIndexed", "Indexed"):
        causes.append(unsupported("spec.completionMode", spec["completionMode"], ["NonIndexed", "Indexed"]))
    causes += template_causes(job, policies=policies)
    frozen = ["spec.completionMode", "spec.selector"]
    if spec["completionMode"] != "Indexed":
        # Kubernetes' rule: only an indexed Job may grow and shrink once it is there.
        frozen.append("spec.completions")
    # Pods have been judged and counted by them.
    frozen += ["spec.podFailurePolicy", "spec.backoffLimitPerIndex", "spec.managedBy", "spec.successPolicy"]
    causes += immutable(_placed(job, old), old, "spec.template")
    return causes + immutable(job, old, *frozen) + _tandem_causes(spec, old)


def _placed(job: Json, old: Json | None) -> Json:
    """The Job with what a queue may still say about the place of its Pods as it was: until a suspended Job starts,
    that may change.
    """
    suspended, started = field_of(old, "spec", "suspend"), field_of(old, "status", "startTime")
    if old is None or not suspended or started is not None:
        return job
    template, before = job["spec"]["template"], old["spec"]["template"]
    spec, metadata = dict(template["spec"]), dict(template["metadata"])
    for target, source, names in (
        (spec, before["spec"], ("nodeSelector", "tolerations", "schedulingGates")),
        (metadata, before["metadata"], ("labels", "annotations")),
    ):
        for name in names:
            _restore(target, source, name)
    affinity = dict(mapping(spec, "affinity"))
    _restore(affinity, mapping(before["spec"], "affinity"), "nodeAffinity")
    if affinity != mapping(spec, "affinity"):
        _restore(spec, {"affinity": affinity} if affinity else {}, "affinity")
    return {**job, "spec": {**job["spec"], "template": {**template, "spec": spec, "metadata": metadata}}}


def _restore(target: Json, source: Json, name: str) -> None:
    if name in source:
        target[name] = source[name]
    else:
        target.pop(name, None)


def _tandem_causes(spec: Json, old: Json | None) -> list[Cause]:
    """An indexed Job changes its completions only together with its parallelism."""
    wanted, before = spec.get("completions"), field_of(old, "spec", "completions")
    changed = old is not None and spec["completionMode"] == "Indexed" and wanted not in (None, before)
    if not changed or wanted == spec.get("parallelism"):
        return []
    text = "can only be modified in tandem with spec.parallelism"
    return [invalid("spec.completions", wanted, text)]


def _generated_causes(job: Json) -> list[Cause]:
    """A Job finds its Pods by its own uid, unless its author sees to the selector."""
    selector, uid = mapping(job["spec"], "selector"), job["metadata"].get("uid")
    if selector == {"matchLabels": {_UID: uid}} or mapping(selector, "matchLabels") == {
        "controller-uid": uid
    }:
        return []
    return [invalid("spec.selector", selector, "`selector` not auto-generated")] if selector else []


def _indexed_causes(spec: Json) -> list[Cause]:
    if spec["completionMode"] != "Indexed":
        text = "requires indexed completion mode"
        names = ("backoffLimitPerIndex", "maxFailedIndexes")
        return [invalid(f"spec.{name}", spec[name], text) for name in names if spec.get(name) is not None]
    causes = []
    if spec.get("completions") is None:
        causes.append(required("spec.completions", "when completion mode is Indexed"))
    if (spec.get("parallelism") or 0) > _MOST_AT_ONCE:
        text = f"must be less than or equal to {_MOST_AT_ONCE} when completion mode is Indexed"
        causes.append(invalid("spec.parallelism", spec["parallelism"], text))
    return causes


def match_causes(obj: Json) -> list[Cause]:
    """The template's Pods are the selector's."""
    labels = field_of(obj, "spec", "template", "metadata", "labels")
    if labels_match(mapping(obj["spec"], "selector"), labels or {}):
        return []
    return [invalid("spec.template.metadata.labels", labels, _UNMATCHED)]


# ---- Deployments and ReplicaSets


def _default_replica_set(obj: Json) -> None:
    defaults(obj.setdefault("spec", {}), replicas=1)
    complete_template(obj)


def _prepare_replica_set(obj: Json) -> None:
    obj["status"] = {"replicas": 0}


def _check_replica_set(obj: Json, old: Json | None) -> list[Cause]:
    spec = obj["spec"]
    causes = not_negative(spec, "spec", "replicas", "minReadySeconds", "revisionHistoryLimit")
    selector = selector_causes(spec.get("selector"), "spec.selector")
    causes += selector
    if selector and spec.get("selector"):
        # A template is no Pod of a selector that selects nothing: it is not looked at.
        text = "invalid label selector"
        unreadable = any(cause.field != "spec.selector" for cause in selector)
        return [*causes, invalid("spec.selector", spec["selector"], text)] if unreadable else causes
    causes += [] if causes else match_causes(obj)
    causes += template_causes(obj, policies=["Always"])
    if field_of(spec, "template", "spec", "activeDeadlineSeconds") is not None:
        where = "spec.template.spec.activeDeadlineSeconds"
        causes.append(forbidden_field(where, "activeDeadlineSeconds in ReplicaSet is not Supported"))
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
    spec, path = obj["spec"], "spec.progressDeadlineSeconds"
    causes = _check_replica_set(obj, old) + not_negative(spec, "spec", "progressDeadlineSeconds")
    if spec["progressDeadlineSeconds"] <= (spec.get("minReadySeconds") or 0):
        causes.append(invalid(path, spec["progressDeadlineSeconds"], "must be greater than minReadySeconds"))
    strategy, path = spec["strategy"], "spec.strategy"
    kind, rolling = strategy["type"], strategy.get("rollingUpdate")
    causes += one_of(kind, f"{path}.type", ["Recreate", "RollingUpdate"])
    if kind == "Recreate" and rolling is not None:
        text = "may not be specified when strategy `type` is 'Recreate'"
        causes.append(forbidden_field(f"{path}.rollingUpdate", text))
    if kind == "RollingUpdate":
        causes += _rolling_causes(rolling or {}, f"{path}.rollingUpdate")
    return causes


def _rolling_causes(rolling: Json, path: str) -> list[Cause]:
    unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    where = f"{path}.maxUnavailable"
    causes = share(unavailable, where) + share(surge, f"{path}.maxSurge")
    # With neither, no Pod may go before a new one is there, and no new one be made before one goes.
    if not causes and not any(
        (percent(limit) or 0) if isinstance(limit, str) else limit for limit in (unavailable, surge)
    ):
        causes.append(invalid(where, unavailable, "may not be 0 when `maxSurge` is 0"))
    if (percent(unavailable) or 0) > 100:
        causes.append(invalid(where, unavailable, "must not be greater than 100%"))
    return causes


JOB = Rules(prepare=_prepare_job, default=_default_job, check=_check_job)


def _warn(obj: Json) -> list[str]:
    return grace_warnings(mapping(obj["spec"]["template"], "spec"), "spec.template.spec")


def _keep_labels(obj: Json, old: Json) -> None:
    """Keep a Deployment's labels: only its annotations and finalizers may come with a status."""
    obj["metadata"].pop("labels", None)
    if labels := old["metadata"].get("labels"):
        obj["metadata"]["labels"] = labels


REPLICA_SET = Rules(_prepare_replica_set, _default_replica_set, _check_replica_set, warn=_warn)
DEPLOYMENT = Rules(
    _prepare_deployment, _default_deployment, _check_deployment, keep_status=_keep_labels, warn=_warn
)
