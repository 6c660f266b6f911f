"""Wakes the Pods of the node whose volumes show a ConfigMap or Secret when it changes.

It keeps only the version of each object: a Pod's worker that is woken reads the object from the API.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from steelyard_common.types import Json
from steelyard_kube.cluster import Cluster
from steelyard_kube.informer import Informer
from steelyard_kube.resource import CONFIG_MAPS, SECRETS, Resource
from steelyard_local_kubernetes.kubelet.env import references_of_volumes

Name = tuple[str, str, str]  # kind, namespace, name
_KEPT = ("name", "namespace", "uid", "resourceVersion")


class ShownObjects:
    def __init__(self, cluster: Cluster) -> None:
        self._informers = [self._informer(cluster, resource) for resource in (CONFIG_MAPS, SECRETS)]
        self._wakes: dict[Name, dict[str, Callable[[], None]]] = {}
        self._names: dict[str, set[Name]] = {}

    def add(self, pod: Json, wake: Callable[[], None]) -> None:
        """Wake a Pod from now on when an object that its volumes show changes."""
        metadata = pod["metadata"]
        names = {(kind, metadata["namespace"], name) for kind, name in references_of_volumes(pod["spec"])}
        if names:
            self._names[metadata["uid"]] = names
        for name in names:
            self._wakes.setdefault(name, {})[metadata["uid"]] = wake

    def remove(self, uid: str) -> None:
        for name in self._names.pop(uid, ()):
            wakes = self._wakes[name]
            del wakes[uid]
            if not wakes:
                del self._wakes[name]

    def parts(self) -> list[Coroutine[Any, Any, None]]:
        return [informer.run() for informer in self._informers]

    def _informer(self, cluster: Cluster, resource: Resource) -> Informer:
        def on_change(old: Json | None, new: Json | None) -> None:
            metadata = (new or old or {})["metadata"]
            for wake in [
                *self._wakes.get((resource.kind, metadata["namespace"], metadata["name"]), {}).values()
            ]:
                wake()

        return Informer(cluster, resource, transform=_version_alone, on_change=on_change, packed=True)


def _version_alone(obj: Json) -> Json:
    return {"metadata": {name: obj["metadata"].get(name, "") for name in _KEPT}}
