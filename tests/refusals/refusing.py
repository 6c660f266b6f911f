"""A cluster that refuses writes in every way in which an API server does, and counts all that is tried."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from random import Random

from steelyard.operator.simulation.simulator import BEGIN
from steelyard_common.types import Json, JsonValue
from steelyard_kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    ServerTimeout,
    TooManyRequests,
    Unreachable,
)
from steelyard_kube.memory import MemoryCluster
from steelyard_kube.resource import LEASES, Resource
from steelyard_kube.store import make_key
from tests.exploration.live import LoopClock

NAMESPACE = "default"
FLOOD = 1000
"""Number of writes after which a run is given up."""
WRITES = ("create", "patch", "replace", "delete")


@dataclass(frozen=True)
class Attempt:
    """One write that was tried, at a time in seconds."""

    at: float
    verb: str
    resource: Resource
    name: str


CREATE, UPDATE, DELETE = frozenset({"create"}), frozenset({"patch", "replace"}), frozenset({"delete"})
ANY = CREATE | UPDATE | DELETE


@dataclass(frozen=True)
class Way:
    """A way of refusing: the error with its message, and the verbs that can meet it."""

    error: type[ApiError]
    text: str
    """Message, in which `named` is the object with its kind, and `random` and `time` differ at each try."""
    verbs: frozenset[str] = ANY
    details: Mapping[str, JsonValue] | None = None

    def refuse(self, attempt: Attempt, rng: Random) -> ApiError:
        resource = attempt.resource
        text = self.text.format(
            named=f'{resource.plural} "{attempt.name}"',
            of_kind=f'{resource.kind} "{attempt.name}"',
            name=attempt.name,
            verb=attempt.verb.partition("/")[0],
            resource=f'resource "{resource.plural}" in API group "{resource.group}"',
            random=f"{rng.getrandbits(64):x}",
            time=BEGIN + timedelta(seconds=attempt.at),
        )
        return self.error(text) if self.details is None else self.error(text, details=dict(self.details))


TAKEN = "a name that is taken"
WAYS: dict[str, Way] = {
    # A quota counts what is created. None of our controllers makes an object larger that is there.
    "a quota": Way(
        Forbidden,
        "{named} is forbidden: exceeded quota: small, requested: pods=1, used: pods=3, limited: pods=3",
        CREATE,
    ),
    # What is deleted is not compared with its schema.
    "a rule of the kind": Way(
        Invalid,
        '{of_kind} is invalid: spec.containers[0].image: Invalid value: " ": must not have leading or trailing '
        "whitespace",
        CREATE | UPDATE,
    ),
    # A name never changes after its creation.
    "a name too long": Way(
        Invalid,
        '{of_kind} is invalid: metadata.name: Invalid value: "{name}": must be no more than 63 characters',
        CREATE,
    ),
    TAKEN: Way(AlreadyExists, "{named} already exists", CREATE),
    # Only what is there has a version, or can have gone.
    "a version that has passed": Way(
        Conflict, "Operation cannot be fulfilled on {named}: the object has been modified", UPDATE | DELETE
    ),
    "an object that has gone": Way(NotFound, "{named} not found", UPDATE | DELETE),
    # Webhooks name the request and the time: no two of their messages are equal.
    "a webhook": Way(
        Forbidden,
        'admission webhook "deny.example.com" denied the request: request {random} at {time}: no more today',
    ),
    "a policy": Way(
        Invalid,
        "{named} is forbidden: ValidatingAdmissionPolicy 'labels' with binding 'labels' denied request: a team is "
        "required",
    ),
    "a missing right": Way(Forbidden, '{named} is forbidden: User "nobody" cannot {verb} {resource}'),
    # A namespace that ends takes nothing new; what is in it is changed and deleted as before.
    "a namespace that ends": Way(
        Forbidden,
        "{named} is forbidden: unable to create new content in namespace default because it is being terminated",
        CREATE,
        {"causes": [{"reason": "NamespaceTerminating", "message": "it is being terminated"}]},
    ),
    # To a change, a missing namespace, or a missing kind, is an object that has gone.
    "a namespace that is missing": Way(
        NotFound, 'namespaces "default" not found', CREATE, {"name": "default", "kind": "namespaces"}
    ),
    "a kind that is missing": Way(NotFound, "the server could not find the requested resource", CREATE),
    "too many requests": Way(
        TooManyRequests, "the server has received too many requests", ANY, {"retryAfterSeconds": 1}
    ),
    "a broken server": Way(ApiError, "Internal error occurred: failed calling webhook: {random}"),
    "a server without an answer": Way(Unreachable, "connection refused"),
    "a server that gives up": Way(ServerTimeout, "the request was not done in time"),
}
PASSING = frozenset({"a version that has passed", "an object that has gone"})
"""Ways that last as long as a cache lags behind: here `LAG` seconds."""
LAG = 10.0
BUSY = PASSING | {"too many requests", "a server without an answer", "a server that gives up"}
"""Failures that say nothing about the request, and are not reported with it."""


def ways_of(verb: str) -> list[str]:
    """Return the ways in which a write can be refused; `verb` may name a subresource, as `patch/status`."""
    return [name for name, way in WAYS.items() if verb.partition("/")[0] in way.verbs]


def lasting_ways(verb: str) -> list[str]:
    """Return those that do not pass by themselves."""
    return [name for name in ways_of(verb) if name not in PASSING]


class RefusingCluster(MemoryCluster):
    """A cluster that refuses those writes that `refuses` picks, always in the same way."""

    def __init__(self, way: str, refuses: Callable[[Attempt], bool], namespace: str = NAMESPACE) -> None:
        self.clock = LoopClock()
        super().__init__(now=self.clock.now)
        self.refused: list[Attempt] = []
        self.tried: list[Attempt] = []
        self.stop = asyncio.Event()
        """Set where so much was tried that the clock may never come to pass."""
        self.messages: set[str] = set()
        self.way, self._refuses, self._namespace = way, refuses, namespace
        self._rng = Random(1)
        self.done: list[Attempt] = []
        self.before_call, self.after_call = self._count, self._note

    def _count(self, verb: str, resource: Resource, name: str) -> None:
        if verb.partition("/")[0] not in WRITES or resource == LEASES:
            return
        attempt = Attempt(self.clock.monotonic(), verb, resource, name)
        self.tried.append(attempt)
        if len(self.tried) > FLOOD:
            self.stop.set()
        if self.way in PASSING and attempt.at >= LAG:
            return
        if self._refuses(attempt):
            self.refused.append(attempt)
            if self.way == TAKEN and verb == "create":
                self._take(resource, name)
            error = WAYS[self.way].refuse(attempt, self._rng)
            self.messages.add(error.message)
            raise error

    def _note(self, verb: str, resource: Resource, name: str) -> None:
        self.done.append(Attempt(self.clock.monotonic(), verb, resource, name))

    def _take(self, resource: Resource, name: str) -> None:
        """Store another's object of the name."""
        key = make_key(resource, self._namespace if resource.namespaced else None, name)
        if self.store.find(resource, name, key.namespace) is None:
            metadata: Json = {"name": name, **({"namespace": self._namespace} if resource.namespaced else {})}
            other = {"apiVersion": "example.com/v1", "kind": "Other", "name": "other", "uid": "uid-other"}
            metadata["ownerReferences"] = [{**other, "controller": True}]
            spec = {"replicas": 0, "suspend": True, "selector": {"matchLabels": {"a": "b"}}, "template": {}}
            self.store.create(resource, {"metadata": metadata, "spec": spec})

    def between(self, begin: float, end: float) -> Counter[str]:
        """Return the writes of a span of time, by verb and resource."""
        return Counter(
            f"{attempt.verb} {attempt.resource.plural}" for attempt in self.tried if begin <= attempt.at < end
        )
