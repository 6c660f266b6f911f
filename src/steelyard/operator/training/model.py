"""A training job as values: what every policy decides from, whatever its kind and framework.

`parse.py` makes them from a resource; nothing here knows an API's JSON but for the Pod templates, which are carried
through untouched.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from steelyard.operator.settings import TrainingSettings
from steelyard.types import Json

if TYPE_CHECKING:
    from steelyard.operator.training.frameworks.framework import Framework


RestartPolicy = Literal["Always", "OnFailure", "Never", "ExitCode"]
Scope = Literal["Pod", "ReplicaType", "Job"]
CleanPods = Literal["All", "Running", "None"]
Action = Literal["Restart", "Fail", "Ignore"]
Phase = Literal["Pending", "Running", "Succeeded", "Failed"]
Dependency = Literal["Running", "Ready", "Succeeded"]

SHELL_SIGNAL = 128
"""A program that signal N ended has the exit code 128 + N. v1's policy ExitCode restarts from 128 on."""
UNKNOWN_EXIT = 0xBEEF
"""The exit code of a replica whose container left none (evicted, lost): v1 takes it for one worth a restart."""


@dataclass(frozen=True, order=True)
class Place:
    """Which replica: its type and its index."""

    role: str
    index: int


@dataclass(frozen=True)
class Role:
    """One replica type of a job. `template` is the user's PodTemplateSpec."""

    name: str
    count: int
    template: Json
    restart: RestartPolicy
    scope: Scope
    """What starts again when one of its replicas failed: the Pod, all of its type, or the whole job."""
    depends_on: tuple[tuple[str, Dependency], ...] = ()
    """Its Pods are made when these types have come so far (DLJob only)."""


@dataclass(frozen=True)
class Rule:
    """What to do about a failed replica that matches everything given here; the first rule that matches wins."""

    action: Action
    exit_codes: tuple[int, ...] = ()
    signals: tuple[int, ...] = ()
    reasons: tuple[str, ...] = ()
    """Of the terminated container or of the Pod: OOMKilled, Evicted …"""
    pattern: str = ""
    """A regular expression searched in the message."""
    roles: tuple[str, ...] = ()
    scope: Scope | None = None
    """Instead of the role's, for this failure."""
    counted: bool = True
    """Whether a restart uses up the limit."""


@dataclass(frozen=True)
class RunPolicy:
    """`spec.runPolicy`. Times are in seconds."""

    clean_pods: CleanPods = "None"
    clean_pods_said: bool = False
    """Whether the job says so itself."""
    ttl: int | None = None
    deadline: int | None = None
    backoff_limit: int | None = None
    """Restarts allowed in all; one more failure fails the job."""
    suspend: bool = False
    managed_by: str = ""
    scheduling: Json = field(default_factory=dict)
    """`schedulingPolicy` as written: minAvailable, queue, minResources, priorityClass, scheduleTimeoutSeconds."""


@dataclass(frozen=True)
class Replica:
    """What is remembered of one replica, in `status.replicas`."""

    place: Place
    attempt: int = 0
    """The attempt that should be there; a Pod of an earlier one is ended. Its Pod carries it as a label."""
    pod: str = ""
    """Name of its Pod."""
    uid: str = ""
    """Of the Pod of this attempt, once it was seen."""
    phase: Phase = "Pending"
    restarts: int = 0
    """How often it started again, in place or by the operator, counted or not."""
    in_place: int = 0
    """Of these, the restarts by the kubelet of the Pod `uid`."""
    exit_code: int | None = None
    reason: str = ""
    node: str = ""
    started: datetime | None = None


@dataclass(frozen=True)
class Memory:
    """What the operator remembers in the status, and reads again. Everything else is seen anew each time."""

    replicas: Mapping[Place, Replica] = field(default_factory=dict)
    restarts: int = 0
    """Restarts that count against the limit: of the whole job, of a type, of a Pod, in place: each counts one."""
    disruptions: int = 0
    """Restarts that do not count: evictions, preemptions, Pods deleted by hand."""
    failures: tuple[Json, ...] = ()
    """The first failure and the newest: {pod, type, index, attempt, uid, exitCode, signal, reason, message, time,
    action}. `message` has the last log lines."""
    restart_at: datetime | None = None
    """No Pod is made before this time: back-off."""
    started: datetime | None = None
    completed: datetime | None = None
    ports: Mapping[Place, int] = field(default_factory=dict)
    """Main port of a replica on its host's network, where a range was asked for."""
    framework: Json | None = None
    """DLJob: the definition as it was at first sight."""
    results: Json | None = None
    conditions: tuple[Json, ...] = ()


@dataclass(frozen=True)
class TrainingJob:
    """One job of any kind."""

    resource: Json
    framework: "Framework"
    roles: Mapping[str, Role]
    """In the framework's order."""
    policy: RunPolicy
    rules: tuple[Rule, ...] = ()
    memory: Memory = Memory()
    settings: TrainingSettings = field(default_factory=TrainingSettings)

    @property
    def kind(self) -> str:
        return str(self.resource["kind"])

    @property
    def name(self) -> str:
        return str(self.resource["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.resource["metadata"]["namespace"])

    @property
    def uid(self) -> str:
        return str(self.resource["metadata"]["uid"])

    @property
    def spec(self) -> Json:
        spec: Json = self.resource["spec"]
        return spec

    @property
    def annotations(self) -> Mapping[str, str]:
        return self.resource["metadata"].get("annotations") or {}

    @property
    def labels(self) -> Mapping[str, str]:
        return self.resource["metadata"].get("labels") or {}

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """Every replica that should be, in the framework's order."""
        return tuple(Place(role.name, index) for role in self.roles.values() for index in range(role.count))

    @cached_property
    def total(self) -> int:
        return sum(role.count for role in self.roles.values())

    def replica_name(self, place: Place) -> str:
        """Of the Pod, and where there is one of the Service: `<job>-<type in lower case>-<index>`."""
        name = f"{self.name}-{place.role.lower()}"
        return name if place.role in self._single else f"{name}-{place.index}"

    @cached_property
    def hosts(self) -> Mapping[str, tuple[str, ...]]:
        """The stable names of all replicas, by type."""
        return {
            role.name: tuple(
                self.framework.host(self, Place(role.name, index)) for index in range(role.count)
            )
            for role in self.roles.values()
        }

    @cached_property
    def ports(self) -> Mapping[str, tuple[int, ...]]:
        """The main ports of all replicas, by type."""
        return {
            role.name: tuple(
                self.framework.port_of(self, Place(role.name, index)) for index in range(role.count)
            )
            for role in self.roles.values()
        }

    @cached_property
    def _single(self) -> frozenset[str]:
        """The types whose one replica has no index in its name."""
        return frozenset(each.name for each in self.framework.roles if not each.indexed)


@dataclass(frozen=True)
class Counts:
    """Replicas of one type by how far they have come."""

    active: int = 0
    succeeded: int = 0
    failed: int = 0


@dataclass(frozen=True)
class Tally:
    """How far the replicas have come: what a framework's success rule reads."""

    counts: Mapping[str, Counts]
    succeeded: frozenset[Place] = frozenset()

    def of(self, role: str) -> Counts:
        return self.counts.get(role, Counts())

    def any_active(self, roles: Sequence[str]) -> bool:
        return any(self.of(role).active for role in roles)


class Invalid(Exception):
    """The job cannot be run as it is written. The message names the field, the value and what is allowed."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
