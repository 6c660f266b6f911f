"""One state of a simulated system, and the operator's step in it, with its interruptions.

`search.py` searches the states, `scenarios.py` says what else may happen; together they are the model that
`test_exploration.py` checks.
"""

from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar, cast

import orjson

from steelyard.operator.controller import Controller
from steelyard.operator.edge import Key, Stale
from steelyard.operator.simulation.decisions import (
    NO_DECISION,
    REMEMBERED,
    Decision,
    Objects,
    RememberedDecisions,
    is_current,
)
from steelyard.operator.simulation.lagging_caches import LaggingCaches, peek
from steelyard.operator.workflow import WORKFLOWS
from steelyard_common.types import Json
from steelyard_kube.errors import ApiError, Conflict, Unreachable
from steelyard_kube.memory import Crash, MemoryCluster
from steelyard_kube.resource import Resource
from steelyard_kube.store import Key as StoreKey
from steelyard_kube.store import Snapshot, StoredObject

Interruption = tuple[str, int] | None
T = TypeVar("T")

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
GROUPS = ("resource", "sessions", "children", "pods")
WRITES = frozenset({"create", "delete", "patch/status"})
_BY_NAME = attrgetter("resource.plural", "namespace", "name")


class Pause(BaseException):
    """The process is suspended before a call; what it decided it will still do when it goes on."""


class PausedReconciliation(NamedTuple):
    """A reconciliation of a second operator, suspended before a write: what it saw, and the answers that it has."""

    cache: dict[StoreKey, StoredObject]
    now: datetime
    answers: tuple[object, ...]
    decision: Decision
    verb: str

    def in_vain(self, objects: Objects) -> bool:
        """Return whether all that is left to do is a write of the status that will be refused."""
        return self.verb == "patch/status" and not is_current(objects, *self.decision.guards[0])

    def key(self, objects: Objects) -> object:
        """Equal for those that will do the same when they go on."""
        answers = tuple(_answer_key(answer, objects) for answer in self.answers)
        return self.decision.key(objects), self.now, answers


class State(NamedTuple):
    """State of the system: all that decides what may happen next. `facts` name past events of the resource."""

    objects: Snapshot
    cache: dict[StoreKey, StoredObject]
    now: datetime
    dirty: bool
    look: datetime | None
    facts: frozenset[str]
    paused: PausedReconciliation | None = None


def _answer_key(answer: object, objects: Objects) -> tuple[bytes | str, bool]:
    """The content of an answer, and whether it is still current."""
    if not isinstance(answer, bytes) or answer == b"null":
        return repr(answer), False
    obj: Json = orjson.loads(answer)
    version = int(obj["metadata"].pop("resourceVersion"))
    current = any(stored.version == version for stored in objects.values())
    return orjson.dumps(obj, option=orjson.OPT_SORT_KEYS), current


class SimulatedCluster(MemoryCluster):
    """The cluster in memory. Answers can be recorded, and given again without the effect of their calls."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        super().__init__(now)
        self.recorded: list[object] | None = None
        self.replayed: list[object] = []

    def _call(self, verb: str, resource: Resource, name: str, effect: Callable[[], T]) -> T:
        if self.replayed:
            return cast("T", self._replay())
        try:
            answer = super()._call(verb, resource, name, effect)
        except ApiError as error:
            if self.recorded is not None:
                self.recorded.append(error)
            raise
        if self.recorded is not None:
            self.recorded.append(orjson.dumps(answer))
        return answer

    def _replay(self) -> object:
        answer = self.replayed.pop(0)
        if isinstance(answer, bytes):
            replayed: object = orjson.loads(answer)
            return replayed
        assert isinstance(answer, ApiError)
        raise answer


class Call(NamedTuple):
    verb: str
    kind: str


class Simulator:
    """A cluster, the operator over lagging caches, and a clock; it can be put into any state."""

    def __init__(self, key: Key, caches: LaggingCaches | None = None) -> None:
        self.key = key
        self.now = BEGIN
        self.cluster = SimulatedCluster(lambda: self.now)
        self.store = self.cluster.store
        self.caches = caches or LaggingCaches(key)
        self._decisions = RememberedDecisions(WORKFLOWS[key.resource])
        workflows = {key.resource: self._decisions.workflow()}
        self.controller = Controller(self.cluster, self.caches, workflows=workflows)
        self.dirty, self.look = False, None  # type: bool, datetime | None
        self.facts: frozenset[str] = frozenset()
        self.calls: list[Call] = []
        self.paused: PausedReconciliation | None = None
        self._numbers: dict[tuple[StoreKey, bytes, int], int] = {}
        self._numbered_from = 0
        self._mappings: dict[frozenset[object], dict[StoreKey, Any]] = {}
        self._decided: dict[tuple[frozenset[StoredObject], datetime], Decision] = {}
        self._entries: dict[frozenset[StoredObject], tuple[str, list[tuple[StoreKey, int, bool]]]] = {}

    # ---- states

    def number_by_content(self) -> None:
        """Give equal objects equal resourceVersions, so that equal states share their reads and decisions.

        What a cache or a suspended reconciliation still refers to keeps its version to itself: an object that
        becomes again what it was is not the one that they have seen.
        """
        self.store.number, self._numbered_from = self._number, self.store.version + 1

    def _number(self, key: StoreKey, raw: bytes) -> int:
        caches = (self.caches.seen, self.paused.cache if self.paused else {})
        taken = {cache[key].version for cache in caches if key in cache}
        for time in range(len(taken) + 1):
            number = self._numbers.setdefault((key, raw, time), self._numbered_from + len(self._numbers))
            if number not in taken:
                break
        return number

    def save(self) -> State:
        store, shared = self.store, self._share
        snapshot = Snapshot(
            shared(store.all_objects), shared(store.creations), store.version, store.version, ()
        )
        return State(
            snapshot, shared(self.caches.seen), self.now, self.dirty, self.look, self.facts, self.paused
        )

    def _share(self, mapping: Mapping[StoreKey, T]) -> dict[StoreKey, T]:
        """A copy that equal mappings share: states are many, and what they are made of is little."""
        content = frozenset(mapping.items())
        if content not in self._mappings:
            self._mappings[content] = dict(mapping)
        return self._mappings[content]

    def load(self, state: State) -> None:
        self.store.restore(state.objects)
        self.caches.seen = dict(state.cache)
        self.now, self.dirty, self.look, self.facts = state.now, state.dirty, state.look, state.facts
        self.paused = state.paused

    def state_key(self, last: bool = False) -> int:
        """Equal for states that behave alike: of resourceVersions only their being current counts.

        With `last`, for states that behave alike as long as no further fault happens. The cache then catches up as
        a whole or not at all. Until it does, nothing but the decision that it leads to makes a difference; when it
        does, nothing but which entries are behind, and whether they concern the resource. A cache that shows the
        operator's own writes is compared in full: its next decision follows without any catching up.
        """
        objects = self.store.all_objects
        if self.paused and self.paused.in_vain(objects):
            self.paused = None  # going on, it would end without an effect
        content = frozenset((key, stored.raw) for key, stored in objects.items())
        paused = self.paused.key(objects) if self.paused else None
        whole = not last or self.caches.remembers
        cache = self._cache_key(objects) if whole else self._cache_key_without_faults(objects)
        return hash((content, cache, self.now, self.dirty, self.look, self.facts, paused))

    def _cache_key(self, objects: Objects) -> object:
        return frozenset(
            (key, stored.raw, is_current(objects, key, stored.version))
            for key, stored in self.caches.seen.items()
        )

    def _cache_key_without_faults(self, objects: Objects) -> object:
        """The decision that the cache leads to, and what catching up will say.

        An entry that is behind stays so until then. If one of these concerns the resource, the operator will reconcile
        again, and all that the cache shows is replaced: the entries make no further difference.
        """
        seen = frozenset(self.caches.seen.values())
        decision = self._decision(seen).key(objects) if self.due() else None
        if seen not in self._entries:
            self._entries[seen] = self._find_concerns()
        uid, entries = self._entries[seen]
        shown = []
        for key, version, concerns in entries:
            current = is_current(objects, key, version)
            if concerns and not current:
                return decision
            shown.append((key, current, concerns))
        return frozenset(shown), uid, decision

    def _find_concerns(self) -> tuple[str, list[tuple[StoreKey, int, bool]]]:
        """The uid of the cached resource; each entry's version, and whether its change concerns the resource."""
        caches = self.caches
        ours = caches.resource(self.key.resource, self.key.namespace, self.key.name)
        entries = [
            (key, stored.version, caches.group(key) == "resource" or caches.concerned(ours, stored))
            for key, stored in caches.seen.items()
        ]
        return ours["metadata"]["uid"] if ours else "", entries

    def _decision(self, seen: frozenset[StoredObject]) -> Decision:
        """The decision that the cache leads to now; `seen` is what it shows."""
        if len(self._decided) > REMEMBERED:
            self._decided, self._entries = {}, {}
        if (seen, self.now) not in self._decided:
            caches = self.caches
            resource = caches.resource(self.key.resource, self.key.namespace, self.key.name)
            if resource is None or resource["metadata"].get("deletionTimestamp"):
                return NO_DECISION
            cached = caches.children(resource)
            decision = self._decisions.decision(resource, cached, self.now, caches.settings())
            self._decided[seen, self.now] = decision
        return self._decided[seen, self.now]

    def fact(self, *facts: str) -> None:
        self.facts |= frozenset(facts)

    # ---- the cluster's objects, shared: not to be changed

    def resource(self) -> Json | None:
        return self.find(self.key.resource, self.key.name, self.key.namespace)

    def find(self, resource: Resource, name: str, namespace: str) -> Json | None:
        stored = self.store.all_objects.get(StoreKey(resource, namespace, name))
        return peek(stored.raw) if stored else None

    def objects(self, resource: Resource | None = None) -> list[Json]:
        """Stored objects of one resource, or of all, in the order of resource and name."""
        keys = [key for key in self.store.all_objects if resource is None or key.resource == resource]
        keys.sort(key=_BY_NAME)
        return [peek(self.store.all_objects[key].raw) for key in keys]

    # ---- the caches

    def behind(self) -> list[str]:
        """The groups of the cache that differ from the cluster."""
        differ = {self.caches.group(key) for key in self._behind()}
        return [group for group in GROUPS if group in differ]

    def _behind(self) -> list[StoreKey]:
        live, seen, shown = self.store.all_objects, self.caches.seen, self.caches.shown
        newer = [key for key, stored in live.items() if seen.get(key) != stored and shown(key, stored)]
        gone = [key for key in seen if (stored := live.get(key)) is None or not shown(key, stored)]
        return newer + gone

    def catch_up(self, *groups: str) -> None:
        """Read all that happened in these groups; the operator reconciles again if it concerns the resource."""
        live, caches = self.store.all_objects, self.caches
        seen = caches.seen
        ours = caches.resource(self.key.resource, self.key.namespace, self.key.name)
        for key in self._behind():
            if (group := caches.group(key)) not in groups:
                continue
            old, new = seen.pop(key, None), live.get(key)
            new = new if new is not None and caches.shown(key, new) else None
            changed = [stored for stored in (new, old) if stored is not None]
            concerned = any(caches.concerned(ours, stored) for stored in changed)
            self.dirty |= group == "resource" or concerned
            if new is not None:
                seen[key] = new

    def restart(self) -> None:
        """A new process: it lists everything and reconciles everything."""
        self.caches.seen = {}
        self.catch_up(*GROUPS)
        self.dirty, self.look = True, None

    # ---- the operator

    def due(self) -> bool:
        return self.dirty or (self.look is not None and self.look <= self.now)

    def step(self, interruption: Interruption = None) -> None:
        """One reconciliation of the resource, as a worker does it, interrupted at the nth call or not at all."""
        self.calls = []
        self.cluster.before_call, self.cluster.after_call = self._hooks(interruption)
        try:
            synced = drive(self.controller.sync(self.key, self.now))
            self.dirty, self.look = synced.more and self.caches.remembers, synced.requeue_at
        except (Stale, ApiError):
            self.dirty = True  # tried again after a while
        except Crash:
            self.restart()
        finally:
            self.cluster.before_call = self.cluster.after_call = None

    def pause(self, number: int) -> None:
        """Let a second operator, with the same cache, begin this reconciliation, and suspend it before a call."""
        cache = dict(self.caches.seen)
        decision = self._decision(frozenset(cache.values()))
        self.cluster.recorded, self.calls = [], []
        self.cluster.before_call, self.cluster.after_call = self._hooks(("pause before", number))
        try:
            drive(self.controller.sync(self.key, self.now))
        except Pause as pause:
            self.paused = PausedReconciliation(
                cache, self.now, tuple(self.cluster.recorded), decision, str(pause)
            )
        finally:
            self.cluster.before_call = self.cluster.after_call = self.cluster.recorded = None
            self.caches.seen = cache

    def resume(self) -> None:
        """Let the second operator go on where it was suspended; it ends with this reconciliation."""
        assert self.paused is not None
        paused, seen, self.paused = self.paused, self.caches.seen, None
        self.caches.seen, self.cluster.replayed = dict(paused.cache), list(paused.answers)
        try:
            drive(self.controller.sync(self.key, paused.now))
        except (Stale, ApiError):
            pass
        finally:
            assert not self.cluster.replayed, "the same cache and the same answers led to another decision"
            self.caches.seen = seen

    def _hooks(self, interruption: Interruption) -> tuple[Callable[..., None], Callable[..., None]]:
        what, number = interruption or ("", -1)

        def before(verb: str, resource: Resource, name: str) -> None:
            if len(self.calls) == number:
                match what:
                    case "crash before":
                        raise Crash(verb)
                    case "conflict":
                        raise Conflict("somebody wrote it")
                    case "refused":
                        raise Unreachable("no answer")
                    case "pause before":
                        raise Pause(verb)
            self.calls.append(Call(verb, resource.kind))

        def after(verb: str, resource: Resource, name: str) -> None:
            if len(self.calls) - 1 == number:
                match what:
                    case "crash after":
                        raise Crash(verb)
                    case "answer lost":
                        raise Unreachable("the answer was lost")

        return before, after


def differing(old: Objects, new: Objects) -> set[StoreKey]:
    """The keys of the objects that are not the same in both."""
    changed = {key for key, stored in new.items() if old.get(key) != stored}
    return changed.union(key for key in old if key not in new)


def drive(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that never waits: nothing does in memory."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise RuntimeError("the operator waited for something")


def seconds(count: int) -> timedelta:
    return timedelta(seconds=count)
