"""Jobs, Deployments and ReplicaSets."""

from dataclasses import replace

from steelyard_common.types import Json, mapping
from steelyard_kube.objects import read_annotations, read_labels
from steelyard_local_kubernetes.apiserver.errors import (
    Cause,
    forbidden_field,
    invalid,
    missing_value,
    not_supported,
)
from steelyard_local_kubernetes.apiserver.kinds import Rules, find_field
from steelyard_local_kubernetes.apiserver.names import annotations_causes, labels_causes
from steelyard_local_kubernetes.apiserver.rules.common import (
    defaults,
    immutable,
    labels_match,
    selector_causes,
    unreadable_causes,
)
from steelyard_local_kubernetes.apiserver.rules.fields import choice_causes, not_negative, percent, share
from steelyard_local_kubernetes.apiserver.rules.job_policies import default_policies, policy_causes
from steelyard_local_kubernetes.apiserver.rules.pod_warnings import (
    job_warnings,
    name_warnings,
    template_warnings,
)
from steelyard_local_kubernetes.apiserver.rules.pods import complete_pod_spec, pod_spec_causes
from steelyard_schema.object_names import name_faults

_JOB_NUMBERS = (
    "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished",
    "backoffLimitPerIndex", "maxFailedIndexes",
)  # fmt: skip
_STRATEGIES = ["Recreate", "RollingUpdate"]
_UNMATCHED = "`selector` does not match template `labels`"
_UID, _NAME = "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"


def complete_template(obj: Json) -> Json:
    template: Json = obj["spec"].setdefault("template", {})
    template.setdefault("metadata", {})
    complete_pod_spec(template.setdefault("spec", {}))
    return template


def trim_template(obj: Json) -> None:
    """Leave out the template's labels where they are empty."""
    trim_labels(obj["spec"]["template"])


def trim_labels(template: Json) -> None:
    if not read_labels(template):
        template["metadata"].pop("labels", None)


def metadata_of_template_causes(template: Json) -> list[Cause]:
    path = "spec.template"
    causes = labels_causes(read_labels(template), f"{path}.labels")
    return causes + annotations_causes(read_annotations(template), f"{path}.annotations")


def template_causes(obj: Json) -> list[Cause]:
    template = obj["spec"]["template"]
    path = "spec.template"
    causes = metadata_of_template_causes(template)
    causes += pod_spec_causes(template["spec"], f"{path}.spec")
    if template["spec"].get("ephemeralContainers"):
        text = "ephemeral containers not allowed in pod template"
        causes.append(forbidden_field(f"{path}.spec.ephemeralContainers", text))
    return causes


def running_causes(obj: Json, kind: str) -> list[Cause]:
    """Faults of a template whose Pods are to run for ever: a `kind` says when they end."""
    spec, path = obj["spec"]["template"]["spec"], "spec.template.spec"
    causes = []
    if spec["restartPolicy"] != "Always":
        causes.append(not_supported(f"{path}.restartPolicy", spec["restartPolicy"], ["Always"]))
    if spec.get("activeDeadlineSeconds") is not None:
        text = f"activeDeadlineSeconds in {kind} is not Supported"
        causes.append(forbidden_field(f"{path}.activeDeadlineSeconds", text))
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
        template["metadata"]["labels"] = {**read_labels(template), **own}
        spec.setdefault("selector", {}).setdefault("matchLabels", {})[_UID] = metadata["uid"]
    # Kubernetes' default: a Job without labels has those of its Pods.
    if not metadata.get("labels"):
        metadata["labels"] = dict(read_labels(template))


def _default_job(job: Json) -> None:
    spec = job.setdefault("spec", {})
    complete_template(job)
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
    own = _job_spec_causes(job)
    causes = _job_selector_causes(job) if not spec.get("manualSelector") else []
    causes += own + _name_causes(job)
    # A real server checks a changed Job twice, and says all of it again.
    causes += [] if old is None else own
    frozen = ["spec.completionMode", "spec.selector"]
    if spec["completionMode"] != "Indexed":
        # Kubernetes' rule: only an indexed Job may grow and shrink once it is there.
        frozen.append("spec.completions")
    # Pods have been judged and counted by them.
    frozen += ["spec.podFailurePolicy", "spec.backoffLimitPerIndex", "spec.managedBy", "spec.successPolicy"]
    causes += immutable(_with_old_place(job, old), old, "spec.template")
    return causes + immutable(job, old, *frozen) + _tandem_causes(spec, old)


def job_template_causes(template: Json, path: str) -> list[Cause]:
    """Faults of a template at this path; Jobs are made of it with a selector of the server's."""
    spec = template["spec"]
    causes = [replace(cause, field=f"{path}.{cause.field}") for cause in _work_causes(template)]
    if spec.get("selector") is not None:
        causes.append(invalid(f"{path}.spec.selector", spec["selector"], "`selector` will be auto-generated"))
    if spec.get("manualSelector"):
        causes.append(not_supported(f"{path}.spec.manualSelector", True, ["nil", "false"]))
    return causes


def _job_spec_causes(job: Json) -> list[Cause]:
    selector, path = job["spec"].get("selector"), "spec.selector"
    causes = selector_causes(selector, path, empty=True)
    unusable = unreadable_causes(selector, causes, path, "")
    return _work_causes(job) + causes + ([] if unusable else match_causes(job))


def _work_causes(job: Json) -> list[Cause]:
    """Faults of what a Job does, whichever selector it has."""
    spec = job["spec"]
    causes = not_negative(spec, "spec", *_JOB_NUMBERS) + policy_causes(spec)
    choices = ["Failed"] if spec.get("podFailurePolicy") is not None else ["Failed", "TerminatingOrFailed"]
    causes += choice_causes(spec.get("podReplacementPolicy"), "spec.podReplacementPolicy", choices)
    causes += template_causes(job)
    policy, path = spec["template"]["spec"]["restartPolicy"], "spec.template.spec.restartPolicy"
    if policy == "Always":
        causes.append(missing_value(path, 'valid values: "OnFailure", "Never"'))
    elif policy not in ("OnFailure", "Never"):
        causes.append(not_supported(path, policy, ["OnFailure", "Never"]))
    elif policy == "OnFailure" and spec.get("podFailurePolicy") is not None:
        causes.append(invalid(path, policy, 'only "Never" is supported when podFailurePolicy is specified'))
    return causes


def _name_causes(job: Json) -> list[Cause]:
    """The host name of an indexed Job's last Pod has to be one."""
    spec, name = job["spec"], job["metadata"].get("name") or ""
    count = spec.get("completions") or 0
    if spec["completionMode"] != "Indexed" or count <= 0:
        return []
    host = f"{name}-{count - 1}"
    text = f"will not able to create pod with invalid DNS label: {host}"
    return [invalid("metadata.name", name, text)] if any(name_faults(host, "label")) else []


def _with_old_place(job: Json, old: Json | None) -> Json:
    """The Job with what a queue may still say about the place of its Pods as it was: until a suspended Job starts,
    that may change.
    """
    suspended, started = find_field(old, "spec", "suspend"), find_field(old, "status", "startTime")
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
    wanted, before = spec.get("completions"), find_field(old, "spec", "completions")
    changed = old is not None and spec["completionMode"] == "Indexed" and wanted not in (None, before)
    if not changed or wanted == spec.get("parallelism"):
        return []
    text = "can only be modified in tandem with spec.parallelism"
    return [invalid("spec.completions", wanted, text)]


def _job_selector_causes(job: Json) -> list[Cause]:
    """A Job finds its Pods by its own uid, unless its author sees to the selector."""
    selector, uid = mapping(job["spec"], "selector"), job["metadata"].get("uid")
    if selector == {"matchLabels": {_UID: uid}} or mapping(selector, "matchLabels") == {
        "controller-uid": uid
    }:
        return []
    return [invalid("spec.selector", selector, "`selector` not auto-generated")] if selector else []


def match_causes(obj: Json) -> list[Cause]:
    """The template's Pods are the selector's. No selector selects none."""
    labels, selector = find_field(obj, "spec", "template", "metadata", "labels"), obj["spec"].get("selector")
    if selector is not None and labels_match(selector, labels or {}):
        return []
    return [invalid("spec.template.metadata.labels", labels, _UNMATCHED)]


# ---- Deployments and ReplicaSets


def _default_replica_set(obj: Json) -> None:
    defaults(obj.setdefault("spec", {}), replicas=1)
    complete_template(obj)


def _prepare_replica_set(obj: Json) -> None:
    obj["status"] = {"replicas": 0}


def _check_replica_set(obj: Json, old: Json | None) -> list[Cause]:
    causes = not_negative(obj["spec"], "spec", "replicas", "minReadySeconds") + _selector_causes(obj)
    return causes + immutable(obj, old, "spec.selector")


def _selector_causes(obj: Json) -> list[Cause]:
    """Faults of the selector and the template, which is not looked at where the selector cannot be used."""
    selector, path = obj["spec"].get("selector"), "spec.selector"
    causes = selector_causes(selector, path)
    if unusable := unreadable_causes(selector, causes, path, "invalid label selector"):
        return causes + unusable
    return causes + match_causes(obj) + template_causes(obj) + running_causes(obj, "ReplicaSet")


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
    spec = obj["spec"]
    causes = not_negative(spec, "spec", "replicas") + _selector_causes(obj) + _strategy_causes(spec)
    causes += not_negative(spec, "spec", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
    if spec["progressDeadlineSeconds"] <= (spec.get("minReadySeconds") or 0):
        text = "must be greater than minReadySeconds"
        causes.append(invalid("spec.progressDeadlineSeconds", spec["progressDeadlineSeconds"], text))
    return causes + immutable(obj, old, "spec.selector")


def _strategy_causes(spec: Json) -> list[Cause]:
    strategy, path = spec["strategy"], "spec.strategy"
    kind, rolling = strategy["type"], strategy.get("rollingUpdate")
    causes = []
    if kind not in _STRATEGIES:
        # As the server's own program keeps it.
        shown = rolling and {f"M{name[1:]}": rolling.get(name, 0) for name in ("maxUnavailable", "maxSurge")}
        causes.append(not_supported(path, {"Type": kind, "RollingUpdate": shown}, _STRATEGIES))
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


def warn_of_template(obj: Json, old: Json | None) -> list[str]:
    """Warnings about the template of a new object, or of one whose spec changes."""
    changed = old is None or obj["spec"] != old["spec"]
    return template_warnings(obj["spec"]["template"], "spec.template") if changed else []


def warn_of_named_template(obj: Json, old: Json | None) -> list[str]:
    return (name_warnings(obj) if old is None else []) + warn_of_template(obj, old)


def _warn_of_job(job: Json, old: Json | None) -> list[str]:
    if old is None:
        return name_warnings(job) + job_warnings(job["spec"], "spec")
    return job_warnings(job["spec"], "spec") if job["spec"] != old["spec"] else []


def _keep_labels(obj: Json, old: Json) -> None:
    """Keep a Deployment's labels: only its annotations and finalizers may come with a status."""
    obj["metadata"].pop("labels", None)
    if labels := old["metadata"].get("labels"):
        obj["metadata"]["labels"] = labels


JOB = Rules(_prepare_job, _default_job, _check_job, trim=trim_template, warn=_warn_of_job)
REPLICA_SET = Rules(
    _prepare_replica_set,
    _default_replica_set,
    _check_replica_set,
    trim=trim_template,
    warn=warn_of_named_template,
)
DEPLOYMENT = Rules(
    _prepare_deployment,
    _default_deployment,
    _check_deployment,
    trim=trim_template,
    keep_status=_keep_labels,
    warn=warn_of_named_template,
)
