"""Checks of roles and bindings as they are written: a user may not grant rights that they do not have."""

from collections.abc import Iterator
from itertools import product

from steelyard_common.types import Json, sequence
from steelyard_local_kubernetes.apiserver import errors
from steelyard_local_kubernetes.apiserver.access.attributes import Attributes
from steelyard_local_kubernetes.apiserver.access.rbac import (
    BINDINGS,
    BUCKETS,
    CLUSTER_BINDINGS,
    CLUSTER_ROLES,
    GROUP,
    Rbac,
)
from steelyard_local_kubernetes.apiserver.access.users import User
from steelyard_local_kubernetes.apiserver.kinds import ResourceType

_FIELDS = ("apiGroups", "resources", "resourceNames", "nonResourceURLs", "verbs")
_SHOWN = {"apiGroups": "APIGroups"}
_EVERYTHING = (
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
    {"nonResourceURLs": ["*"], "verbs": ["*"]},
)


def check_escalation(rbac: Rbac, kind: ResourceType, obj: Json, old: Json | None, user: User) -> None:
    """Raise Refusal where the user would hand on more than their own rights."""
    if kind.bucket not in BUCKETS or user.is_master or (old is not None and _same(obj, old)):
        return
    metadata = obj["metadata"]
    namespace, name = metadata.get("namespace") or "", metadata["name"]
    if kind.bucket in (BINDINGS, CLUSTER_BINDINGS):
        role = obj["roleRef"]
        plural = "clusterroles" if role["kind"] == "ClusterRole" else "roles"
        wish = Attributes("bind", GROUP, "v1", plural, "", namespace, role["name"])
        granted = (
            []
            if rbac.decide(user, wish).allowed
            else rbac.role_rules((role["kind"], role["name"]), namespace)
        )
        if granted is None:
            raise errors.not_found(GROUP, plural, role["name"])
    else:
        wish = Attributes("escalate", GROUP, "v1", kind.plural, "", namespace, name)
        if rbac.decide(user, wish).allowed:
            return
        granted = sequence(obj, "rules")
        if kind.bucket == CLUSTER_ROLES and obj.get("aggregationRule"):
            if not _missing_rights(rbac.rules(user, ""), list(_EVERYTHING)):
                return
            text = "must have cluster-admin privileges to use the aggregationRule"
            raise errors.forbidden(GROUP, kind.plural, name, text)
    uncovered = _missing_rights(rbac.rules(user, namespace), granted)
    if uncovered:
        groups = " ".join(f'"{group}"' for group in user.groups)
        text = f'user "{user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions not currently held:\n'
        lines = sorted({_rule_text(rule) for rule in _compact(uncovered)})
        raise errors.forbidden(GROUP, kind.plural, name, text + "\n".join(lines))


def _same(obj: Json, old: Json) -> bool:
    """Return whether only owners and finalizers differ, which the garbage collector writes."""
    return all(obj.get(field) == old.get(field) for field in (obj.keys() | old.keys()) - {"metadata"})


def _missing_rights(held: list[Json], granted: list[Json]) -> list[Json]:
    """The single rights that are granted and not held."""
    return [
        right for rule in granted for right in _rights(rule) if not any(_covers(own, right) for own in held)
    ]


def _rights(rule: Json) -> Iterator[Json]:
    verbs = sequence(rule, "verbs")
    for group, resource, verb in product(sequence(rule, "apiGroups"), sequence(rule, "resources"), verbs):
        right = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
        names = sequence(rule, "resourceNames")
        yield from ({**right, "resourceNames": [name]} for name in names) if names else (right,)
    for url, verb in product(sequence(rule, "nonResourceURLs"), verbs):
        yield {"nonResourceURLs": [url], "verbs": [verb]}


def _covers(own: Json, right: Json) -> bool:
    if not _has_all(own, right, "verbs"):
        return False
    if "nonResourceURLs" in right:
        (path,) = right["nonResourceURLs"]
        return any(
            url in ("*", path) or (url.endswith("*") and path.startswith(url.rstrip("*")))
            for url in sequence(own, "nonResourceURLs")
        )
    resources, (resource,) = sequence(own, "resources"), right["resources"]
    below = "*/" + resource.partition("/")[2] if "/" in resource else ""
    names = sequence(own, "resourceNames")
    return (
        _has_all(own, right, "apiGroups")
        and any(held in ("*", resource) or (below and held == below) for held in resources)
        and (not names or (bool(right.get("resourceNames")) and set(right["resourceNames"]) <= set(names)))
    )


def _has_all(own: Json, right: Json, field: str) -> bool:
    held = sequence(own, field)
    return "*" in held or set(right[field]) <= set(held)


def _compact(rights: list[Json]) -> list[Json]:
    """Rights that differ in their verb alone, as one rule."""
    merged: dict[str, Json] = {}
    for right in rights:
        key = repr([right.get(field) for field in _FIELDS[:-1]])
        known = merged.setdefault(key, {**right, "verbs": []})
        known["verbs"] += [verb for verb in right["verbs"] if verb not in known["verbs"]]
    return list(merged.values())


def _rule_text(rule: Json) -> str:
    """A rule as Go prints it in these messages."""
    parts = []
    for field in _FIELDS:
        if values := rule.get(field):
            listed = " ".join(f'"{value}"' for value in values)
            parts.append(f"{_SHOWN.get(field) or field[0].upper() + field[1:]}:[{listed}]")
    return "{" + ", ".join(parts) + "}"
