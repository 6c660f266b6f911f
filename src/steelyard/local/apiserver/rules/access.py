"""Roles and role bindings: kept for whoever makes and reads them. Nothing here acts on them."""

from steelyard.local.apiserver.errors import Cause, invalid, required, unsupported
from steelyard.local.apiserver.kinds import Rules, field_of
from steelyard.local.apiserver.rules.common import defaults
from steelyard.types import Json

GROUP = "rbac.authorization.k8s.io"
_SUBJECTS = ["ServiceAccount", "User", "Group"]


def _check_role(role: Json, old: Json | None) -> list[Cause]:
    causes = []
    for index, rule in enumerate(role.get("rules") or ()):
        path = f"rules[{index}]"
        if not rule.get("verbs"):
            causes.append(required(f"{path}.verbs", "verbs must contain at least one value"))
        if rule.get("nonResourceURLs"):
            text = "namespaced rules cannot apply to non-resource URLs"
            causes.append(invalid(f"{path}.nonResourceURLs", rule["nonResourceURLs"], text))
            continue
        for field, word in (("apiGroups", "api group"), ("resources", "resource")):
            if not rule.get(field):
                causes.append(required(f"{path}.{field}", f"resource rules must supply at least one {word}"))
    return causes


def _default_binding(binding: Json) -> None:
    defaults(binding, roleRef={})
    defaults(binding["roleRef"], apiGroup=GROUP)
    for subject in binding.get("subjects") or ():
        if subject.get("kind") in ("User", "Group"):
            defaults(subject, apiGroup=GROUP)


def _check_binding(binding: Json, old: Json | None) -> list[Cause]:
    role = binding["roleRef"]
    # Who may edit a binding, to add a subject, must not thereby give away another role.
    if old is not None and role != old["roleRef"]:
        return [invalid("roleRef", role, "cannot change roleRef")]
    causes = []
    if role.get("kind") not in ("Role", "ClusterRole"):
        causes.append(unsupported("roleRef.kind", role.get("kind", ""), ["Role", "ClusterRole"]))
    if not role.get("name"):
        causes.append(required("roleRef.name"))
    for index, subject in enumerate(binding.get("subjects") or ()):
        causes += _subject_causes(subject, f"subjects[{index}]")
    return causes


def _subject_causes(subject: Json, path: str) -> list[Cause]:
    causes = [] if subject.get("name") else [required(f"{path}.name")]
    kind = subject.get("kind", "")
    if kind not in _SUBJECTS:
        causes.append(unsupported(f"{path}.kind", kind, _SUBJECTS))
    elif kind == "ServiceAccount" and not field_of(subject, "namespace"):
        causes.append(required(f"{path}.namespace"))
    return causes


ROLE = Rules(check=_check_role)
ROLE_BINDING = Rules(default=_default_binding, check=_check_binding)
