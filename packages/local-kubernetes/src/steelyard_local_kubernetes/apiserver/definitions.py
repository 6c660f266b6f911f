"""Serves what CustomResourceDefinitions say, once they are committed, and says so in their status."""

import logging

import orjson

from steelyard_common.types import Json, sequence
from steelyard_kube.objects import read_status
from steelyard_kube.resource import CRDS
from steelyard_local_kubernetes.apiserver.admission.server import DEFINITIONS as BUCKET
from steelyard_local_kubernetes.apiserver.clock import Clock
from steelyard_local_kubernetes.apiserver.item import Item, Key
from steelyard_local_kubernetes.apiserver.kinds import ResourceType, find_field
from steelyard_local_kubernetes.apiserver.registry import Registry
from steelyard_local_kubernetes.apiserver.ring import Change
from steelyard_local_kubernetes.apiserver.schema import drop_unknown, fill_defaults
from steelyard_local_kubernetes.apiserver.store import Store
from steelyard_local_kubernetes.at_work import AtWork, SetAside
from steelyard_local_kubernetes.faults import Faults

log = logging.getLogger(__name__)


class StoredDefaults:
    """Fields of stored custom objects in a definition's new form: its defaults are there, and what it dropped is not.

    A real server sees to that whenever it reads an object. Here that is once for each new form of a definition; objects
    on the disk stay, so that a default which changes again changes in them, too.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._stored: dict[tuple[str, Key], Item] = {}  # objects that are shown in another form

    def show(self, bucket: str, kind: ResourceType) -> None:
        for item in self._store.bucket(bucket).items():
            node = kind.node()
            place = bucket, item.key
            stored = self._stored.pop(place, item)
            # Written since, it has its defaults.
            if (stored.uid, stored.version) != (item.uid, item.version):
                stored = item
            obj = stored.parse()
            if obj.get("apiVersion") == kind.api_version:
                drop_unknown(node, obj)
            fill_defaults(node, obj)
            if orjson.dumps(obj) == stored.raw:
                if stored is not item:
                    self._store.show_as(bucket, item.key, obj)
                continue
            self._store.show_as(bucket, item.key, obj)
            self._stored[place] = stored


class Definitions:
    """Follows the store's commits."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        clock: Clock,
        faults: Faults | None = None,
        at_work: AtWork | None = None,
    ) -> None:
        self._store, self._registry, self._clock = store, registry, clock
        self._faults, self._at_work = faults or Faults(), at_work or AtWork()
        self._defaults = StoredDefaults(store)
        # What was stored before this start is served from the first request on.
        for item in store.bucket(BUCKET).items():
            self._try_to_serve(item)
        store.listeners.append(self._on_commit)

    def _on_commit(self, changes: list[Change]) -> None:
        for change in changes:
            if change.kind != BUCKET:
                continue
            if change.removed:
                self._registry.forget(change.new.name)
                # Clients of the kind learn by the end of their watch that there is none any more.
                self._store.end_watches(change.new.name)
            elif (item := self._store.get(BUCKET, change.new.key)) is not None:
                self._try_to_serve(item)

    def _try_to_serve(self, item: Item) -> None:
        """One definition that cannot be served, stored by an older version for one, keeps no other from it."""
        try:
            with self._at_work.on(CRDS, item.parse()):
                self._serve(item)
        except SetAside as problem:
            log.warning("the definition %s is not served: %s", item.name, problem)
        except Exception:
            log.exception("the definition %s cannot be served", item.name)
            self._faults.count("definitions", "CustomResourceDefinition")

    def _serve(self, item: Item) -> None:
        """Register the kinds, unless another has their names, and write what came of it."""
        definition = item.parse()
        accepted, conflict = self._names(definition)
        # Our own write of the status comes back as a change: only another spec is compiled again.
        if not conflict and self._registry.definition(definition["metadata"]["name"]) != definition["spec"]:
            self._registry.define(definition)
            self._defaults.show(item.name, self._registry.storage_kind(item.name))
        status = self._status(definition, accepted, conflict)
        if status != definition.get("status"):
            self._store.put(BUCKET, {**definition, "status": status})

    def _names(self, definition: Json) -> tuple[Json, tuple[str, str] | None]:
        """Names that the definition gets of those that it asks for, and the last conflict: its reason and the name."""
        requested = definition["spec"]["names"]
        accepted = dict(read_status(definition).get("acceptedNames") or {})
        resources, kinds = self._registry.names_of_others(definition)
        conflict = None
        for name in ("plural", "singular", "shortNames", "kind", "listKind"):
            values = requested.get(name) or []
            taken = kinds if name in ("kind", "listKind") else resources
            rivals = sorted(taken.intersection([values] if isinstance(values, str) else values))
            if rivals:
                conflict = f"{name[0].upper()}{name[1:]}Conflict", rivals[0]
            elif values:
                accepted[name] = values
            else:
                accepted.pop(name, None)
        if requested.get("categories"):
            accepted["categories"] = requested["categories"]
        return accepted, conflict

    def _status(self, definition: Json, names: Json, conflict: tuple[str, str] | None) -> Json:
        status = dict(read_status(definition))
        accepted = self._condition(
            definition,
            "NamesAccepted",
            ("False", conflict[0], f'"{conflict[1]}" is already in use')
            if conflict
            else ("True", "NoConflicts", "no conflicts found"),
        )
        # A kind that was accepted once goes on being served, also where a later one claims its names.
        before = find_field(status, "acceptedNames", "kind")
        established = self._condition(
            definition,
            "Established",
            ("False", "NotAccepted", "not all names are accepted")
            if conflict and not before
            else ("True", "InitialNamesAccepted", "the initial names have been accepted"),
        )
        others = [
            condition
            for condition in sequence(status, "conditions")
            if condition.get("type") not in ("NamesAccepted", "Established")
        ]
        status["conditions"] = [accepted, established, *others]
        status["acceptedNames"] = names
        stored = [version["name"] for version in definition["spec"]["versions"] if version.get("storage")]
        # Never shorter: objects may still be stored in a version that is not the storage version any more.
        status["storedVersions"] = list(dict.fromkeys([*sequence(status, "storedVersions"), *stored]))
        return status

    def _condition(self, definition: Json, kind: str, value: tuple[str, str, str]) -> Json:
        status, reason, message = value
        for condition in find_field(definition, "status", "conditions") or ():
            # Unchanged, a condition keeps its time; and no status is written again at each start.
            if (condition.get("type"), condition.get("status"), condition.get("reason")) == (
                kind,
                status,
                reason,
            ):
                return dict(condition)
        return {
            "type": kind,
            "status": status,
            "lastTransitionTime": self._clock.stamp(),
            "reason": reason,
            "message": message,
        }
