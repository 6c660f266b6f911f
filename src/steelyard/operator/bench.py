"""One state of the world as the exploration sees it, and the operator's step in it, with its interruptions.

`exploration.py` searches, `worlds.py` says what else may happen; together they are the model that
`test_exploration.py` checks.
"""

from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar, cast

import orjson

from steelyard.kube.errors import ApiError, Conflict, Unreachable
from steelyard.kube.memory import Crash, MemoryCluster
from steelyard.kube.resource import INFERENCE_SESSIONS, PODS, Resource
from steelyard.kube.store import Key as StoreKey
from steelyard.kube.store import Snapshot, Stored
from steelyard.operator.caches import CHILDREN, slim
from steelyard.operator.children import Children
from steelyard.operator.controller import Controller
from steelyard.operator.desired import Desired
from steelyard.operator.edge import Key, Stale
from steelyard.operator.names import ENTITY, OWNER
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.workflow import WORKFLOWS, Workflow

Json = dict[str, Any]
Interruption = tuple[str, int] | None
T = TypeVar("T")

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
SETTINGS = OperatorSettings(storage="file:///storage", max_attempts=2)
GROUPS = ("resource", "sessions", "children", "pods")
REMEMBERED = 100_000
WRITES = frozenset({"create", "delete", "patch/status"})


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


class RememberedDecisions:
    """A workflow that decides once for the same cached objects and time: it is pure, and asked again and again.

    Objects are compared by identity, which the entries themselves keep from being used again.
    """

    def __init__(self, workflow: Workflow) -> None:
        self._workflow = workflow
        self._observed: dict[tuple[int, ...], tuple[object, Children]] = {}
        self._decided: dict[tuple[int, int, datetime], tuple[object, Desired]] = {}

    def workflow(self) -> Workflow:
        return replace(self._workflow, observe=self._observe, reconcile=self._reconcile)

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
    ) -> Desired:
        key = (id(resource), id(children), now)
        if key not in self._decided:
            want = self._workflow.reconcile(resource, children, now, settings)
            self._decided[key] = (resource, children), want
        return self._decided[key][1]


class LaggingCaches:
    """The operator's caches, brought up to date only when told to."""

    remembers = False
    """Whether they show at once what the operator writes itself."""

    def __init__(self, key: Key) -> None:
        self.seen: dict[StoreKey, Stored] = {}
        self._key = key
        self._store_key = StoreKey(key.resource, key.namespace, key.name)

    def resource(self, resource: Resource, namespace: str, name: str) -> Json | None:
        stored = self.seen.get(StoreKey(resource, namespace, name))
        return _load(*stored, False) if stored else None

    def children(self, resource: Json) -> tuple[list[Json], list[Json]]:
        uid = resource["metadata"]["uid"]
        own = [
            (key.resource, _load(*stored, key.resource != INFERENCE_SESSIONS))
            for key, stored in sorted(self.seen.items(), key=lambda each: each[0][2])
            if (peek(stored.raw)["metadata"].get("labels") or {}).get(OWNER) == uid
        ]
        kinds = (*CHILDREN, INFERENCE_SESSIONS)
        return [obj for kind, obj in own if kind in kinds], [obj for kind, obj in own if kind == PODS]

    def settings(self) -> OperatorSettings:
        return SETTINGS

    def wrote(self, obj: Json) -> bool:
        return False

    def watched(self, obj: Json) -> bool:
        """Whether the watches of children show it: by its label."""
        return ENTITY in (obj["metadata"].get("labels") or {})

    def concerns(self, resource: Json, obj: Json) -> bool:
        """Whether a change of it makes the operator look at the resource."""
        return bool((obj["metadata"].get("labels") or {}).get(OWNER) == resource["metadata"]["uid"])

    def group(self, key: StoreKey) -> str | None:
        if key == self._store_key:
            return "resource"
        if key.resource == PODS:
            return "pods"
        if key.resource == INFERENCE_SESSIONS:
            return "sessions"
        return "children" if key.resource in CHILDREN else None


class Pause(BaseException):
    """The process is suspended before a call; what it decided it will still do when it goes on."""


@dataclass(frozen=True)
class Paused:
    """A reconciliation of a second operator, suspended before a write: what it saw, and the answers that it has."""

    cache: dict[StoreKey, Stored]
    now: datetime
    answers: tuple[object, ...]

    def key(self, objects: dict[StoreKey, Stored]) -> int:
        answers = tuple(_answer_key(answer, objects) for answer in self.answers)
        return hash((_cache_key(self.cache, objects), self.now, answers))


@dataclass(frozen=True)
class State:
    """Everything that decides what may happen next. `facts` say what has befallen the resource so far."""

    objects: Snapshot
    cache: dict[StoreKey, Stored]
    now: datetime
    dirty: bool
    look: datetime | None
    facts: frozenset[str]
    paused: Paused | None = None

    def key(self) -> int:
        """Equal for states that behave alike: of resourceVersions only their being current counts."""
        objects = self.objects.objects
        cache = _cache_key(self.cache, objects)
        paused = self.paused.key(objects) if self.paused else None
        return hash((self.objects.content, cache, self.now, self.dirty, self.look, self.facts, paused))


def _cache_key(
    cache: dict[StoreKey, Stored], objects: dict[StoreKey, Stored]
) -> frozenset[tuple[StoreKey, bytes, bool]]:
    return frozenset(
        (key, stored.raw, key in objects and objects[key].version == stored.version)
        for key, stored in cache.items()
    )


def _answer_key(answer: object, objects: dict[StoreKey, Stored]) -> tuple[bytes | str, bool]:
    """The content of an answer, and whether it is still current."""
    if not isinstance(answer, bytes) or answer == b"null":
        return repr(answer), False
    obj: Json = orjson.loads(answer)
    version = int(obj["metadata"].pop("resourceVersion"))
    current = any(stored.version == version for stored in objects.values())
    return orjson.dumps(obj, option=orjson.OPT_SORT_KEYS), current


class BenchCluster(MemoryCluster):
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


class Bench:
    """A cluster, the operator over lagging caches, and a clock; it can be put into any state."""

    def __init__(self, key: Key, caches: LaggingCaches | None = None) -> None:
        self.key = key
        self.now = BEGIN
        self.cluster = BenchCluster(lambda: self.now)
        self.store = self.cluster.store
        self.caches = caches or LaggingCaches(key)
        workflow = RememberedDecisions(WORKFLOWS[key.resource]).workflow()
        self.controller = Controller(self.cluster, self.caches, workflows={key.resource: workflow})
        self.dirty, self.look = False, None  # type: bool, datetime | None
        self.facts: frozenset[str] = frozenset()
        self.calls: list[Call] = []
        self.paused: Paused | None = None

    # ---- states

    def save(self) -> State:
        snapshot = replace(self.store.snapshot(), history=(), compacted=self.store.version)
        seen = dict(self.caches.seen)
        return State(snapshot, seen, self.now, self.dirty, self.look, self.facts, self.paused)

    def load(self, state: State) -> None:
        self.store.restore(state.objects)
        self.caches.seen = dict(state.cache)
        self.now, self.dirty, self.look, self.facts = state.now, state.dirty, state.look, state.facts
        self.paused = state.paused

    def fact(self, *facts: str) -> None:
        self.facts |= frozenset(facts)

    def resource(self) -> Json | None:
        return self.store.find(self.key.resource, self.key.name, self.key.namespace)

    # ---- the caches

    def behind(self) -> list[str]:
        """The groups of the cache that differ from what is."""
        live, seen = self._selected(), self.caches.seen
        differ = {self.caches.group(key) for key in {*live, *seen} if live.get(key) != seen.get(key)}
        return [group for group in GROUPS if group in differ]

    def catch_up(self, *groups: str) -> None:
        """Read all that happened in these groups; the operator looks again if it concerns the resource."""
        live, seen = self._selected(), self.caches.seen
        ours = self.caches.resource(self.key.resource, self.key.namespace, self.key.name)
        for key in {*live, *seen}:
            if self.caches.group(key) not in groups or live.get(key) == seen.get(key):
                continue
            changed = [peek(each.raw) for each in _both(live, seen, key)]
            concerned = ours is not None and any(self.caches.concerns(ours, each) for each in changed)
            self.dirty |= self.caches.group(key) == "resource" or concerned
            if key in live:
                seen[key] = live[key]
            else:
                del seen[key]

    def _selected(self) -> dict[StoreKey, Stored]:
        """What the watches show."""
        return {
            key: stored
            for key, stored in self.store.snapshot().objects.items()
            if (group := self.caches.group(key))
            and (group == "resource" or self.caches.watched(peek(stored.raw)))
        }

    def restart(self) -> None:
        """A new process: it lists everything and looks at everything."""
        self.caches.seen = {}
        self.catch_up(*GROUPS)
        self.dirty, self.look = True, None

    # ---- the operator

    def due(self) -> bool:
        return self.dirty or (self.look is not None and self.look <= self.now)

    def step(self, interruption: Interruption = None) -> None:
        """One look at the resource, as a worker does it, interrupted at the nth call or not at all."""
        self.calls = []
        self.cluster.before_call, self.cluster.after_call = self._hooks(interruption)
        try:
            synced = drive(self.controller.sync(self.key, self.now))
            self.dirty, self.look = synced.more and self.caches.remembers, synced.next_look
        except (Stale, ApiError):
            self.dirty = True  # tried again after a while
        except Crash:
            self.restart()
        finally:
            self.cluster.before_call = self.cluster.after_call = None

    def pause(self, number: int) -> None:
        """Let a second operator, with the same cache, begin this reconciliation, and suspend it before a call."""
        cache, self.cluster.recorded, self.calls = dict(self.caches.seen), [], []
        self.cluster.before_call, self.cluster.after_call = self._hooks(("pause before", number))
        try:
            drive(self.controller.sync(self.key, self.now))
        except Pause:
            self.paused = Paused(cache, self.now, tuple(self.cluster.recorded))
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


def _both(one: dict[StoreKey, Stored], other: dict[StoreKey, Stored], key: StoreKey) -> list[Stored]:
    return [each[key] for each in (one, other) if key in each]


def drive(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that never waits: nothing does in memory."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise RuntimeError("the operator waited for something")


def seconds(count: int) -> timedelta:
    return timedelta(seconds=count)
