"""The operator's caches in the exploration: they lag behind the API until they are made to catch up."""

from functools import lru_cache

import orjson

from steelyard.operator.caches import CHILDREN, slim
from steelyard.operator.edge import Key
from steelyard.operator.names import ENTITY, OWNER
from steelyard.operator.settings import OperatorSettings
from steelyard_common.types import Json
from steelyard_kube.objects import read_labels
from steelyard_kube.resource import INFERENCE_SESSIONS, PODS, Resource
from steelyard_kube.store import Key as StoreKey
from steelyard_kube.store import StoredObject

SETTINGS = OperatorSettings(storage="file:///storage", max_attempts=2, retry_seconds=0, step_pod_seconds=0)


@lru_cache(maxsize=200_000)
def _load(raw: bytes, version: int, slimmed: bool) -> Json:
    obj: Json = orjson.loads(raw)
    obj["metadata"]["resourceVersion"] = str(version)
    return slim(obj) if slimmed else obj


@lru_cache(maxsize=200_000)
def peek(raw: bytes) -> Json:
    """An object as it is stored. Shared: not to be changed."""
    obj: Json = orjson.loads(raw)
    return obj


class LaggingCaches:
    """The operator's caches, brought up to date only by a call."""

    remembers = False
    """True if the caches show the operator's own writes at once."""

    def __init__(self, key: Key) -> None:
        self.seen: dict[StoreKey, StoredObject] = {}
        self.chosen = SETTINGS
        self._key = key
        self._store_key = StoreKey(key.resource, key.namespace, key.name)
        self._concerned: dict[tuple[str, bytes], bool] = {}
        self._shown: dict[tuple[StoreKey, bytes], bool] = {}

    def resource(self, resource: Resource, namespace: str, name: str) -> Json | None:
        stored = self.seen.get(StoreKey(resource, namespace, name))
        return _load(*stored, False) if stored else None

    def children(self, resource: Json) -> tuple[list[Json], list[Json]]:
        uid = resource["metadata"]["uid"]
        own = [
            (key.resource, _load(*stored, key.resource != INFERENCE_SESSIONS))
            for key, stored in sorted(self.seen.items(), key=lambda entry: entry[0][2])
            if read_labels(peek(stored.raw)).get(OWNER) == uid
        ]
        kinds = (*CHILDREN, INFERENCE_SESSIONS)
        return [obj for kind, obj in own if kind in kinds], [obj for kind, obj in own if kind == PODS]

    def settings(self) -> OperatorSettings:
        return self.chosen

    def apply_write(self, obj: Json) -> bool:
        return False

    def watched(self, obj: Json) -> bool:
        """Return whether the watches of children show it: by its label."""
        return ENTITY in read_labels(obj)

    def concerns(self, resource: Json, obj: Json) -> bool:
        """Return whether a change of it makes the operator reconcile the resource."""
        return bool(read_labels(obj).get(OWNER) == resource["metadata"]["uid"])

    def concerned(self, resource: Json | None, stored: StoredObject) -> bool:
        """Remembered `concerns`; nothing concerns a resource that is not there."""
        if resource is None:
            return False
        known = (resource["metadata"]["uid"], stored.raw)
        if known not in self._concerned:
            self._concerned[known] = self.concerns(resource, peek(stored.raw))
        return self._concerned[known]

    def shown(self, key: StoreKey, stored: StoredObject) -> bool:
        """Return whether the watches show an object."""
        if (shown := self._shown.get((key, stored.raw))) is None:
            group = self.group(key)
            shown = bool(group) and (group == "resource" or self.watched(peek(stored.raw)))
            self._shown[key, stored.raw] = shown
        return shown

    def group(self, key: StoreKey) -> str | None:
        if key == self._store_key:
            return "resource"
        if key.resource == PODS:
            return "pods"
        if key.resource == INFERENCE_SESSIONS:
            return "sessions"
        return "children" if key.resource in CHILDREN else None
