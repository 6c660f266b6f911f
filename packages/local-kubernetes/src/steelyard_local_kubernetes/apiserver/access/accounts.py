"""Contents of every namespace: the ServiceAccount `default`, and the certificate of the server's authority."""

from pathlib import Path

from steelyard_common.types import Json, mapping
from steelyard_local_kubernetes.apiserver.errors import Refusal
from steelyard_local_kubernetes.apiserver.objects import Objects
from steelyard_local_kubernetes.apiserver.options import Options
from steelyard_local_kubernetes.apiserver.registry import Registry
from steelyard_local_kubernetes.apiserver.ring import Change
from steelyard_local_kubernetes.apiserver.store import Store

ROOT_CA = "kube-root-ca.crt"
_WHY = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)


class Accounts:
    """Follows the store's commits, so that both are there before the namespace is answered."""

    def __init__(self, store: Store, objects: Objects, registry: Registry, pki: Path) -> None:
        self._store, self._objects, self._registry = store, objects, registry
        self._authority = pki / "ca.crt"
        store.listeners.append(self._on_commit)

    def complete(self) -> None:
        """Complete the namespaces that are there already."""
        for item in self._store.bucket("namespaces").items():
            if not item.deleting:
                self._complete(item.name)

    def _on_commit(self, changes: list[Change]) -> None:
        for change in changes:
            if change.kind == "namespaces" and not (change.removed or change.new.deleting):
                self._complete(change.new.name)
            # Both come back: programs in the namespace start with them.
            elif change.removed and (change.kind, change.new.name) in _NAMES:
                namespace = self._store.get("namespaces", ("", change.new.namespace))
                if namespace is not None and not namespace.deleting:
                    self._complete(namespace.name)

    def _complete(self, namespace: str) -> None:
        self._ensure("serviceaccounts", namespace, {"metadata": {"name": "default"}})
        if self._authority.exists():
            metadata = {"name": ROOT_CA, "annotations": {"kubernetes.io/description": _WHY}}
            content = {"metadata": metadata, "data": {"ca.crt": self._authority.read_text()}}
            self._ensure("configmaps", namespace, content)

    def _ensure(self, bucket: str, namespace: str, obj: Json) -> None:
        kind = self._registry.storage_kind(bucket)
        item = self._store.get(bucket, (namespace, obj["metadata"]["name"]))
        try:
            if item is None:
                self._objects.create(kind, namespace, obj, Options())
            elif "data" in obj and mapping(stored := item.parse(), "data") != obj["data"]:
                # The authority was made again, or a user changed it.
                self._objects.update(kind, item, {**stored, "data": obj["data"]}, Options())
        except Refusal:
            pass  # the namespace ends at this moment


_NAMES = {("serviceaccounts", "default"), ("configmaps", ROOT_CA)}
