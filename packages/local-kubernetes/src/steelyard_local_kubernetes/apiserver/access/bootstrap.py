"""The roles that every cluster has (`bootstrap.json.gz`), and roles that are aggregated of others."""

import gzip
from pathlib import Path

import orjson

from steelyard_common.types import Json, mapping, sequence
from steelyard_local_kubernetes.apiserver.access.rbac import CLUSTER_ROLES
from steelyard_local_kubernetes.apiserver.clock import Clock
from steelyard_local_kubernetes.apiserver.ring import Change
from steelyard_local_kubernetes.apiserver.rules.common import labels_match
from steelyard_local_kubernetes.apiserver.store import Store

_FILE = Path(__file__).with_name("bootstrap.json.gz")
_UPDATED = "rbac.authorization.kubernetes.io/autoupdate"


def add_bootstrap_roles(store: Store, clock: Clock) -> None:
    """Add what is missing; rules and subjects that were taken away come back, where the object says so."""
    objects: list[Json] = orjson.loads(gzip.decompress(_FILE.read_bytes()))
    for obj in objects:
        metadata = obj["metadata"]
        namespace = metadata.get("namespace", "")
        bucket = f"{obj['kind'].lower()}s.rbac.authorization.k8s.io"
        if namespace and store.get("namespaces", ("", namespace)) is None:
            continue
        stored = store.get(bucket, (namespace, metadata["name"]))
        if stored is None:
            metadata |= {"uid": clock.uid(), "creationTimestamp": clock.stamp()}
            store.put(bucket, obj)
            continue
        current = stored.parse()
        if mapping(current["metadata"], "annotations").get(_UPDATED) != "true" or current.get(
            "aggregationRule"
        ):
            continue
        changed = False
        for field in ("rules", "subjects"):
            missing = [entry for entry in sequence(obj, field) if entry not in sequence(current, field)]
            if missing:
                current[field] = [*sequence(current, field), *missing]
                changed = True
        if changed:
            store.put(bucket, current)


class Aggregation:
    """Writes the rules of ClusterRoles that select others; follows the store's commits."""

    def __init__(self, store: Store) -> None:
        self._store = store
        store.listeners.append(self._on_commit)

    def _on_commit(self, changes: list[Change]) -> None:
        if any(change.kind == CLUSTER_ROLES for change in changes):
            self.aggregate()

    def aggregate(self) -> None:
        items = self._store.bucket(CLUSTER_ROLES).items()
        for item in items:
            # Most roles select nothing: their JSON need not be read to know it.
            if b'"aggregationRule"' not in item.raw:
                continue
            role = item.parse()
            selectors = sequence(mapping(role, "aggregationRule"), "clusterRoleSelectors")
            rules: list[Json] = []
            for other in items:
                if other.name != item.name and any(labels_match(s, dict(other.labels)) for s in selectors):
                    rules += [rule for rule in sequence(other.parse(), "rules") if rule not in rules]
            if selectors and rules != sequence(role, "rules"):
                role["rules"] = rules
                self._store.put(CLUSTER_ROLES, role)
