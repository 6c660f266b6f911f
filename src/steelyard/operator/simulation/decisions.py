"""Decisions of a workflow in the exploration: made once for the same cached objects, and compared by what they do.

The exploration asks for the same decisions again and again, and most of what a cache shows makes no difference to
them: two caches that are behind the API have the same future if they lead to the same decision.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

import orjson

from steelyard.operator.children import Children
from steelyard.operator.desired import DesiredState
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.workflow import Workflow
from steelyard.operator.writes import missing
from steelyard_common.types import Json
from steelyard_kube.resource import find_resource
from steelyard_kube.store import Key, StoredObject

Objects = Mapping[Key, StoredObject]

REMEMBERED = 100_000


def is_current(objects: Objects, key: Key, version: int) -> bool:
    """Return whether an object is still as it was in this version. Once it is not, it never will be again."""
    stored = objects.get(key)
    return stored is not None and stored.version == version


class Decision(NamedTuple):
    """The writes that one reconciliation of a resource leads to, whatever the API answers."""

    content: bytes
    guards: tuple[tuple[Key, int], ...] = ()
    """The versions on which the writes are conditional."""

    def key(self, objects: Objects) -> tuple[bytes, tuple[bool, ...]]:
        """Equal for decisions that have the same effect, now and after whatever may happen."""
        return self.content, tuple(is_current(objects, *guard) for guard in self.guards)


NO_DECISION = Decision(b"")


class RememberedDecisions:
    """A workflow that decides once for the same cached objects and time: it is pure, and asked again and again.

    Objects are compared by identity, which the entries themselves keep from being used again.
    """

    def __init__(self, workflow: Workflow) -> None:
        self._workflow = workflow
        self._observed: dict[tuple[int, ...], tuple[object, Children]] = {}
        self._decided: dict[tuple[int, int, datetime], tuple[object, DesiredState]] = {}

    def workflow(self) -> Workflow:
        return replace(self._workflow, observe=self._observe, reconcile=self._reconcile)

    def decision(
        self,
        resource: Json,
        cached: tuple[Iterable[Json], Iterable[Json]],
        now: datetime,
        settings: OperatorSettings,
    ) -> Decision:
        """The decision that these cached objects and Pods lead to."""
        children = self._observe(resource, *cached)
        return _decision(resource, children, self._reconcile(resource, children, now, settings))

    def _observe(self, resource: Json, objects: Iterable[Json], pods: Iterable[Json]) -> Children:
        if len(self._observed) > REMEMBERED:
            self._observed, self._decided = {}, {}
        objects, pods = tuple(objects), tuple(pods)
        key = (id(resource), *map(id, objects), 0, *map(id, pods))
        if key not in self._observed:
            observed = self._workflow.observe(resource, objects, pods)
            self._observed[key] = (resource, objects, pods), observed
        return self._observed[key][1]

    def _reconcile(
        self, resource: Json, children: Children, now: datetime, settings: OperatorSettings
    ) -> DesiredState:
        key = (id(resource), id(children), now)
        if key not in self._decided:
            want = self._workflow.reconcile(resource, children, now, settings)
            self._decided[key] = (resource, children), want
        return self._decided[key][1]


def _decision(resource: Json, children: Children, want: DesiredState) -> Decision:
    """All of a decision that the edge acts upon. Events are left out: no later decision reads them."""
    metadata = resource["metadata"]
    namespace = metadata["namespace"]
    content = (
        {**resource, "metadata": {**metadata, "resourceVersion": ""}},
        want.status,
        missing(want, children),
        [[_identity(patch.child), patch.patch] for patch in want.patch],
        [_identity(child) for child in want.delete],
        [_identity(child) for child in want.force_delete],
        [
            (precondition.api_version, precondition.kind, precondition.name, bool(precondition.version))
            for precondition in want.preconditions
        ],
        want.delete_resource,
        want.requeue_at,
        bool(want.create),
    )
    guards = [_guard(resource), *(_guard(patch.child) for patch in want.patch)]
    for precondition in want.preconditions:
        if precondition.version:
            kind = find_resource({"apiVersion": precondition.api_version, "kind": precondition.kind})
            guards.append((Key(kind, namespace, precondition.name), int(precondition.version)))
    return Decision(orjson.dumps(content, option=orjson.OPT_SORT_KEYS), tuple(guards))


def _identity(child: Json) -> tuple[str, str, str]:
    return child["kind"], child["metadata"]["name"], child["metadata"]["uid"]


def _guard(obj: Json) -> tuple[Key, int]:
    metadata = obj["metadata"]
    return Key(find_resource(obj), metadata["namespace"], metadata["name"]), int(metadata["resourceVersion"])
