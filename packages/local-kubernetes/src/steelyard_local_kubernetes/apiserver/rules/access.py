"""Roles and role bindings: what they may say. `apiserver/access` acts on them."""

from steelyard_common.types import Json, sequence
from steelyard_local_kubernetes.apiserver.errors import Cause, invalid, missing_value, not_supported
from steelyard_local_kubernetes.apiserver.kinds import Rules, find_field
from steelyard_local_kubernetes.apiserver.names import name_causes
from steelyard_local_kubernetes.apiserver.rules.common import defaults

GROUP = "rbac.authorization.k8s.io"
_SUBJECTS = ["ServiceAccount", "User", "Group"]


def _check_role(role: Json, old: Json | None) -> list[Cause]:
    return _rule_causes(role, cluster=False)


def _check_cluster_role(role: Json, old: Json | None) -> list[Cause]:
    return _rule_causes(role, cluster=True)


def _rule_causes(role: Json, *, cluster: bool) -> list[Cause]:
    causes = []
    for index, rule in enumerate(sequence(role, "rules")):
        path = f"rules[{index}]"
        if not rule.get("verbs"):
            causes.append(missing_value(f"{path}.verbs", "verbs must contain at least one value"))
        if rule.get("nonResourceURLs") and cluster:
            causes += _mixture_causes(rule, f"{path}.nonResourceURLs")
            continue
        if rule.get("nonResourceURLs"):
            text = "namespaced rules cannot apply to non-resource URLs"
            causes.append(invalid(f"{path}.nonResourceURLs", rule["nonResourceURLs"], text))
            causes += _mixture_causes(rule, f"{path}.nonResourceURLs")
            continue
        for field, word in (("apiGroups", "api group"), ("resources", "resource")):
            if not rule.get(field):
                causes.append(
                    missing_value(f"{path}.{field}", f"resource rules must supply at least one {word}")
                )
    return causes


def _mixture_causes(rule: Json, path: str) -> list[Cause]:
    if not any(rule.get(field) for field in ("apiGroups", "resources", "resourceNames")):
        return []
    text = "rules cannot apply to both regular resources and non-resource URLs"
    return [invalid(path, rule["nonResourceURLs"], text)]


def _default_binding(binding: Json) -> None:
    defaults(binding, roleRef={})
    binding["roleRef"]["apiGroup"] = binding["roleRef"].get("apiGroup") or GROUP
    for subject in sequence(binding, "subjects"):
        if subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = subject.get("apiGroup") or GROUP


def _check_binding(binding: Json, old: Json | None) -> list[Cause]:
    role = binding["roleRef"]
    # Who may edit a binding, to add a subject, must not thereby give away another role.
    if old is not None and role != old["roleRef"]:
        return [invalid("roleRef", role, "cannot change roleRef")]
    causes = []
    if role["apiGroup"] != GROUP:
        causes.append(not_supported("roleRef.apiGroup", role["apiGroup"], [GROUP]))
    kinds = ["Role", "ClusterRole"] if binding["metadata"].get("namespace") else ["ClusterRole"]
    if role.get("kind") not in kinds:
        causes.append(not_supported("roleRef.kind", role.get("kind", ""), kinds))
    if not role.get("name"):
        causes.append(missing_value("roleRef.name"))
    else:
        causes += name_causes(role["name"], "roleRef.name", "path")
    for index, subject in enumerate(sequence(binding, "subjects")):
        causes += _subject_causes(subject, f"subjects[{index}]")
    return causes


def _subject_causes(subject: Json, path: str) -> list[Cause]:
    causes = [] if subject.get("name") else [missing_value(f"{path}.name")]
    kind = subject.get("kind", "")
    if kind not in _SUBJECTS:
        causes.append(not_supported(f"{path}.kind", kind, _SUBJECTS))
    elif kind == "ServiceAccount" and not find_field(subject, "namespace"):
        causes.append(missing_value(f"{path}.namespace"))
    group, own = subject.get("apiGroup") or "", "" if kind == "ServiceAccount" else GROUP
    if kind in _SUBJECTS and group != own:
        causes.append(not_supported(f"{path}.apiGroup", group, [own]))
    return causes


ROLE = Rules(check=_check_role)
CLUSTER_ROLE = Rules(check=_check_cluster_role)
ROLE_BINDING = Rules(default=_default_binding, check=_check_binding)
CLUSTER_ROLE_BINDING = ROLE_BINDING
