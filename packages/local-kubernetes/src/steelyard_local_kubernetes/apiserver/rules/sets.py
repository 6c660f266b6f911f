"""StatefulSets, DaemonSets, ReplicationControllers, their revisions, and templates of Pods."""

from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.objects import read_labels
from steelyard_local_kubernetes.apiserver.errors import (
    Cause,
    forbidden_field,
    invalid,
    missing_value,
    not_supported,
)
from steelyard_local_kubernetes.apiserver.kinds import Rules, find_field
from steelyard_local_kubernetes.apiserver.names import name_causes
from steelyard_local_kubernetes.apiserver.rules.common import (
    defaults,
    immutable,
    selector_causes,
    unreadable_causes,
)
from steelyard_local_kubernetes.apiserver.rules.fields import choice_causes, not_negative, percent, share
from steelyard_local_kubernetes.apiserver.rules.pod_warnings import claim_warnings, template_warnings
from steelyard_local_kubernetes.apiserver.rules.pods import complete_pod_spec, pod_spec_causes
from steelyard_local_kubernetes.apiserver.rules.storage import claim_causes, complete_claim
from steelyard_local_kubernetes.apiserver.rules.workloads import (
    complete_template,
    match_causes,
    metadata_of_template_causes,
    running_causes,
    template_causes,
    trim_labels,
    trim_template,
    warn_of_named_template,
    warn_of_template,
)

_POLICIES = ["OrderedReady", "Parallel"]
_UPDATES = ["RollingUpdate", "OnDelete"]
_RETENTIONS = ["Retain", "Delete"]


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
    if not strategy.get("type"):
        defaults(strategy, rollingUpdate={})
        strategy["type"] = "RollingUpdate"
    if isinstance(rolling := strategy.get("rollingUpdate"), dict):
        if strategy["type"] == "RollingUpdate":
            defaults(rolling, partition=0)
        # A feature that a real server has switched off: it forgets the field.
        rolling.pop("maxUnavailable", None)
    defaults(spec["persistentVolumeClaimRetentionPolicy"], whenDeleted="Retain", whenScaled="Retain")
    complete_template(obj)
    for claim in sequence(spec, "volumeClaimTemplates"):
        claim |= {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
        claim["status"] = {"phase": "Pending"}
        claim.setdefault("metadata", {})
        complete_claim(claim)


def _check_stateful_set(obj: Json, old: Json | None) -> list[Cause]:
    spec = obj["spec"]
    causes = _management_causes(spec) + _update_causes(spec["updateStrategy"])
    path = "spec.persistentVolumeClaimRetentionPolicy"
    for name in ("whenDeleted", "whenScaled"):
        causes += choice_causes(
            spec["persistentVolumeClaimRetentionPolicy"][name], f"{path}.{name}", _RETENTIONS
        )
    for index, claim in enumerate(sequence(spec, "volumeClaimTemplates") if old is None else ()):
        causes += claim_causes(claim["spec"], f"spec.volumeClaimTemplates[{index}].spec")
    causes += not_negative(spec, "spec", "replicas", "minReadySeconds")
    causes += not_negative(mapping(spec, "ordinals"), "spec.ordinals", "start")
    if old is None and spec.get("serviceName"):
        causes += name_causes(spec["serviceName"], "spec.serviceName", "label")
    selector, path = spec.get("selector"), "spec.selector"
    faults = selector_causes(selector, path, kind="statefulset")
    causes += faults + (unreadable_causes(selector, faults, path, "") or _template_causes(obj))
    causes += running_causes(obj, "StatefulSet")
    if old is None:
        return causes
    text = (
        "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
        "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
    )
    if any(
        _immutable_part(spec).get(name) != _immutable_part(old["spec"]).get(name)
        for name in _immutable_part(spec)
    ):
        causes.append(forbidden_field("spec", text))
    return causes


def _management_causes(spec: Json) -> list[Cause]:
    policy, path = spec["podManagementPolicy"], "spec.podManagementPolicy"
    if not policy:
        return [missing_value(path)]
    return [] if policy in _POLICIES else [invalid(path, policy, _either(_POLICIES))]


def _update_causes(strategy: Json) -> list[Cause]:
    kind, rolling, path = strategy["type"], strategy.get("rollingUpdate"), "spec.updateStrategy"
    # As the server's own program keeps it.
    shown = None if rolling is None else {"Partition": rolling.get("partition") or 0, "MaxUnavailable": None}
    if kind not in _UPDATES:
        return [invalid(path, {"Type": kind, "RollingUpdate": shown}, _either(_UPDATES))]
    if rolling is None:
        return []
    if kind == "OnDelete":
        text = "only allowed for updateStrategy 'RollingUpdate'"
        return [invalid(f"{path}.rollingUpdate", shown, text)]
    return not_negative(rolling, f"{path}.rollingUpdate", "partition")


def _either(choices: list[str]) -> str:
    return "must be " + " or ".join(f"'{choice}'" for choice in choices)


def _template_causes(obj: Json) -> list[Cause]:
    template, selector = obj["spec"]["template"], obj["spec"].get("selector")
    selects_all = selector is not None and not any(selector.values())
    causes = [] if selects_all else match_causes(obj)
    # The set gives its Pods their host names, so that those of the template are not looked at.
    spec = {name: value for name, value in template["spec"].items() if name not in ("hostname", "subdomain")}
    whole = {**obj, "spec": {**obj["spec"], "template": {**template, "spec": spec}}}
    # A real server says twice what is wrong with labels and annotations.
    return causes + template_causes(_with_claims(whole)) + metadata_of_template_causes(template)


def _warn_of_stateful_set(obj: Json, old: Json | None) -> list[str]:
    spec, warnings = obj["spec"], warn_of_template(obj, old)
    # The last word as a real server writes it in a changed one.
    place = "" if old is None else ".Spec"
    for index, claim in enumerate(sequence(spec, "volumeClaimTemplates")):
        warnings += claim_warnings(claim["spec"], f"spec.volumeClaimTemplates[{index}]{place}")
    if spec["revisionHistoryLimit"] < 0:
        text = "a negative value retains all historical revisions; a value >= 0 is recommended"
        warnings.append(f"spec.revisionHistoryLimit: {text}")
    return warnings


def _with_claims(obj: Json) -> Json:
    """Return the set as its Pods will be: each has a volume for each claim, in place of another of that name."""
    spec = obj["spec"]
    claims = [
        str(find_field(claim, "metadata", "name") or "") for claim in sequence(spec, "volumeClaimTemplates")
    ]
    if not claims:
        return obj
    template = spec["template"]
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in dict.fromkeys(claims)]
    volumes += [
        volume for volume in sequence(template["spec"], "volumes") if volume.get("name") not in claims
    ]
    template = {**template, "spec": {**template["spec"], "volumes": volumes}}
    return {**obj, "spec": {**spec, "template": template}}


def _immutable_part(spec: Json) -> Json:
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
    elif isinstance(rolling := strategy.get("rollingUpdate"), dict):
        # Numbers that a real server keeps as such, and not as absent.
        defaults(rolling, maxUnavailable=0, maxSurge=0)
    complete_template(obj)


def _check_daemon_set(obj: Json, old: Json | None) -> list[Cause]:
    spec = obj["spec"]
    selector, path = spec.get("selector"), "spec.selector"
    faults = selector_causes({} if selector is None else selector, path, empty=True)
    causes = faults + ([] if unreadable_causes(selector, faults, path, "") else match_causes(obj))
    causes += selector_causes(selector, path, kind="daemonset") if selector == {} else []
    causes += template_causes(obj) + running_causes(obj, "DaemonSet")
    causes += not_negative(spec, "spec", "minReadySeconds") + _daemon_update_causes(spec["updateStrategy"])
    causes += not_negative(spec, "spec", "revisionHistoryLimit")
    return causes + immutable(obj, old, "spec.selector")


def _daemon_update_causes(strategy: Json) -> list[Cause]:
    kind, path = strategy["type"], "spec.updateStrategy"
    names = ("maxUnavailable", "maxSurge")
    if kind not in _UPDATES:
        # As the server's own program keeps it.
        rolling = strategy.get("rollingUpdate")
        shown = rolling and {f"M{name[1:]}": rolling[name] for name in names}
        return [not_supported(path, {"Type": kind, "RollingUpdate": shown}, _UPDATES)]
    if kind == "OnDelete":
        return []
    path, rolling = f"{path}.rollingUpdate", mapping(strategy, "rollingUpdate")
    causes = [cause for name in names for cause in share(rolling[name], f"{path}.{name}")]
    for name in names:
        if (percent(rolling[name]) or 0) > 100:
            causes.append(invalid(f"{path}.{name}", rolling[name], "must not be greater than 100%"))
    unavailable, surge = (_is_some(rolling[name]) for name in names)
    if unavailable and surge:
        text = "may not be set when maxUnavailable is non-zero"
        causes.append(invalid(f"{path}.maxSurge", rolling["maxSurge"], text))
    elif not unavailable and not surge:
        causes.append(missing_value(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return causes


def _is_some(amount: int | str) -> bool:
    """Return whether a number or a percentage of Pods is not zero; one that cannot be read is zero."""
    if not isinstance(amount, str):
        return bool(amount)
    return bool(percent(amount)) or (amount.isascii() and amount.isdecimal() and bool(amount.strip("0")))


# ---- ReplicationControllers


def _prepare_controller(obj: Json) -> None:
    obj["status"] = {"replicas": 0}


def _default_controller(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    defaults(spec, replicas=1)
    template = complete_template(obj)
    if labels := read_labels(template):
        if not spec.get("selector"):
            spec["selector"] = dict(labels)
        if not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)


def _check_controller(obj: Json, old: Json | None) -> list[Cause]:
    spec = obj["spec"]
    causes = not_negative(spec, "spec", "minReadySeconds", "replicas")
    selector = mapping(spec, "selector")
    if not selector:
        causes.append(missing_value("spec.selector"))
    labels = find_field(spec, "template", "metadata", "labels") or {}
    if any(labels.get(key) != value for key, value in selector.items()):
        text = "`selector` does not match template `labels`"
        causes.append(invalid("spec.template.metadata.labels", labels, text))
    return causes + template_causes(obj) + running_causes(obj, "ReplicationController")


# ---- what these are made of


def _default_pod_template(obj: Json) -> None:
    template = obj.setdefault("template", {})
    template.setdefault("metadata", {})
    complete_pod_spec(template.setdefault("spec", {}))


def _check_pod_template(obj: Json, old: Json | None) -> list[Cause]:
    return pod_spec_causes(obj["template"]["spec"], "template.spec")


def _trim_pod_template(obj: Json) -> None:
    trim_labels(obj["template"])


def _warn_of_pod_template(obj: Json, old: Json | None) -> list[str]:
    changed = old is None or obj["template"] != old["template"]
    return template_warnings(obj["template"], "template") if changed else []


def _check_revision(obj: Json, old: Json | None) -> list[Cause]:
    causes = not_negative(obj, "", "revision")
    if obj.get("data") is None:
        causes.append(missing_value("data", "data is mandatory"))
    return causes + immutable(obj, old, "data")


STATEFUL_SET = Rules(
    _prepare_stateful_set,
    _default_stateful_set,
    _check_stateful_set,
    trim=trim_template,
    warn=_warn_of_stateful_set,
)
DAEMON_SET = Rules(
    _prepare_daemon_set, _default_daemon_set, _check_daemon_set, trim=trim_template, warn=warn_of_template
)
CONTROLLER = Rules(
    _prepare_controller,
    _default_controller,
    _check_controller,
    trim=trim_template,
    warn=warn_of_named_template,
)
POD_TEMPLATE = Rules(
    default=_default_pod_template,
    check=_check_pod_template,
    trim=_trim_pod_template,
    warn=_warn_of_pod_template,
)
REVISION = Rules(default=lambda obj: defaults(obj, revision=0), check=_check_revision)
