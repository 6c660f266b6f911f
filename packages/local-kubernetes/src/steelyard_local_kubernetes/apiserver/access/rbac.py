"""Decisions by roles and bindings, cached until one of them changes."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from steelyard_common.types import Json, sequence
from steelyard_local_kubernetes.apiserver.access.attributes import Attributes
from steelyard_local_kubernetes.apiserver.access.users import ACCOUNT_PREFIX, User
from steelyard_local_kubernetes.apiserver.ring import Change
from steelyard_local_kubernetes.apiserver.store import Store

GROUP = "rbac.authorization.k8s.io"
ROLES, CLUSTER_ROLES = f"roles.{GROUP}", f"clusterroles.{GROUP}"
BINDINGS, CLUSTER_BINDINGS = f"rolebindings.{GROUP}", f"clusterrolebindings.{GROUP}"
BUCKETS = frozenset([ROLES, CLUSTER_ROLES, BINDINGS, CLUSTER_BINDINGS])
_CACHED = 20_000
Reference = tuple[str, str]  # kind and name of a role
Grant = tuple[Reference, str]  # with a description of the binding


@dataclass(frozen=True)
class Decision:
    """Answer to a wish; where it is no, maybe with the reason."""

    allowed: bool
    reason: str = ""


ALLOWED = Decision(True)


class Rbac:
    """Roles as the authorizer reads them. Every decision but the first of its kind is one look-up in a dictionary."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._decisions: dict[tuple[User, Attributes], Decision] = {}
        self._bindings: dict[str, dict[str, list[Grant]]] | None = None
        store.listeners.append(self._on_commit)

    def _on_commit(self, changes: list[Change]) -> None:
        if any(change.kind in BUCKETS for change in changes):
            self._decisions.clear()
            self._bindings = None

    def decide(self, user: User, attributes: Attributes) -> Decision:
        # Before everything else: our own programs ask thousands of times a second.
        if user.is_master:
            return ALLOWED
        key = user, attributes
        decision = self._decisions.get(key)
        if decision is None:
            if len(self._decisions) >= _CACHED:
                self._decisions.clear()
            decision = self._decisions[key] = self._decide(user, attributes)
        return decision

    def _decide(self, user: User, attributes: Attributes) -> Decision:
        missing: list[str] = []
        for rule, description in self._rules_with_bindings(user, attributes.namespace, missing):
            if allows(rule, attributes):
                return Decision(True, f"RBAC: allowed by {description}")
        if not missing:
            return Decision(False)
        text = missing[0] if len(missing) == 1 else "[" + ", ".join(missing) + "]"
        return Decision(False, f"RBAC: {text}")

    def rules(self, user: User, namespace: str) -> list[Json]:
        """The rules that hold for a user in a namespace; an empty one means the whole cluster."""
        return [rule for rule, _ in self._rules_with_bindings(user, namespace, [])]

    def _rules_with_bindings(
        self, user: User, namespace: str, missing: list[str]
    ) -> Iterator[tuple[Json, str]]:
        """Rules with the binding that gives them; names of roles that are not there go to `missing`."""
        subjects = {f"User:{user.name}", *(f"Group:{group}" for group in user.groups)}
        for scope in ("", namespace) if namespace else ("",):
            bound = self._index().get(scope, {})
            grants = {grant for subject in subjects for grant in bound.get(subject, ())}
            for (kind, name), description in sorted(grants, key=lambda grant: grant[1]):
                rules = self.role_rules((kind, name), scope)
                if rules is None:
                    missing.append(f'{kind.lower()}.{GROUP} "{name}" not found')
                for rule in rules or ():
                    yield rule, description

    def role_rules(self, reference: Reference, namespace: str) -> list[Json] | None:
        """The rules of a role; None where there is none."""
        kind, name = reference
        bucket, key = (CLUSTER_ROLES, ("", name)) if kind == "ClusterRole" else (ROLES, (namespace, name))
        role = self._store.get(bucket, key)
        return sequence(role.parse(), "rules") if role else None

    def _index(self) -> dict[str, dict[str, list[Grant]]]:
        """Roles by namespace and subject; the empty namespace is the cluster."""
        if self._bindings is None:
            index: dict[str, dict[str, list[Grant]]] = defaultdict(lambda: defaultdict(list))
            for bucket in (CLUSTER_BINDINGS, BINDINGS):
                for item in self._store.bucket(bucket).items():
                    binding = item.parse()
                    reference = binding["roleRef"]["kind"], binding["roleRef"]["name"]
                    for subject in sequence(binding, "subjects"):
                        key, shown = _subject(subject, item.namespace)
                        where = f'RoleBinding "{item.name}/{item.namespace}"'
                        if not item.namespace:
                            where = f'ClusterRoleBinding "{item.name}"'
                        description = f'{where} of {reference[0]} "{reference[1]}" to {shown}'
                        index[item.namespace][key].append((reference, description))
            self._bindings = index
        return self._bindings


def _subject(subject: Json, namespace: str) -> tuple[str, str]:
    """A subject as a key of the index, and as decisions show it."""
    kind, name = subject["kind"], subject["name"]
    if kind != "ServiceAccount":
        return f"{kind}:{name}", f'{kind} "{name}"'
    namespace = subject.get("namespace") or namespace
    return f"User:{ACCOUNT_PREFIX}{namespace}:{name}", f'ServiceAccount "{name}/{namespace}"'


def allows(rule: Json, attributes: Attributes) -> bool:
    """Return whether one rule allows a wish."""
    if not _has(rule, "verbs", attributes.verb):
        return False
    if not attributes.resource:
        return any(_path_matches(url, attributes.path) for url in sequence(rule, "nonResourceURLs"))
    names = sequence(rule, "resourceNames")
    return (
        _has(rule, "apiGroups", attributes.group)
        and _covers_resource(sequence(rule, "resources"), attributes)
        and (not names or attributes.name in names)
    )


def _has(rule: Json, field: str, value: str) -> bool:
    values = sequence(rule, field)
    return "*" in values or value in values


def _covers_resource(resources: Iterable[str], attributes: Attributes) -> bool:
    full, below = attributes.full_resource, attributes.subresource
    return any(
        resource in ("*", full) or (below != "" and resource == f"*/{below}") for resource in resources
    )


def _path_matches(pattern: str, path: str) -> bool:
    return pattern in ("*", path) or (pattern.endswith("*") and path.startswith(pattern.rstrip("*")))
