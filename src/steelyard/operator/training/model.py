"""Values that describe a training job of any kind and framework; every policy decides from them.

`parse.py` makes them from a resource. Only Pod templates remain JSON, and are carried through untouched.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from steelyard.operator.settings import TrainingSettings
from steelyard_common.types import Json
from steelyard_kube.objects import read_annotations, read_labels

if TYPE_CHECKING:
    from steelyard.operator.training.frameworks.framework import Framework


RestartPolicy = Literal["Always", "OnFailure", "Never", "ExitCode"]
IN_PLACE: frozenset[RestartPolicy] = frozenset({"Always", "OnFailure"})
"""Policies by which the kubelet restarts the containers of a Pod."""
Scope = Literal["Pod", "ReplicaType", "Job"]
CleanPods = Literal["All", "Running", "None"]
Action = Literal["Restart", "Fail", "Ignore"]
Phase = Literal["Pending", "Running", "Succeeded", "Failed"]
Dependency = Literal["Running", "Ready", "Succeeded"]

SHELL_SIGNAL = 128
"""Offset of exit codes: a program that signal N ended has the code 128 + N. Policy ExitCode restarts from 128 on."""
UNKNOWN_EXIT = 0xBEEF
"""Exit code for a container that left none (evicted, lost); v1 uses it too, and restarts the replica."""


@dataclass(frozen=True, order=True)
class ReplicaId:
    """Name of a replica within its job: its type and its index."""

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
    """Replicas that restart when one of this type has failed: its Pod, all of the type, or the whole job."""
    depends_on: tuple[tuple[str, Dependency], ...] = ()
    """Types that must have come so far before Pods of this type are created (DLJob only)."""


@dataclass(frozen=True)
class Rule:
    """Action for failed replicas that match all given criteria; the first rule that matches wins."""

    action: Action
    exit_codes: tuple[int, ...] = ()
    signals: tuple[int, ...] = ()
    reasons: tuple[str, ...] = ()
    """Reasons of the terminated container or of the Pod: OOMKilled, Evicted …"""
    pattern: str = ""
    """A regular expression searched in the message."""
    roles: tuple[str, ...] = ()
    scope: Scope | None = None
    """Restart scope for this failure; None for the scope of the role."""
    counted: bool = True
    """True if a restart uses up the limit."""


@dataclass(frozen=True)
class RunPolicy:
    """`spec.runPolicy`. Times are in seconds."""

    clean_pods: CleanPods = "None"
    clean_pods_given: bool = False
    """True if the job gives `clean_pods` itself."""
    ttl: int | None = None
    deadline: int | None = None
    backoff_limit: int | None = None
    """Number of restarts allowed in all; one more failure fails the job."""
    suspend: bool = False
    managed_by: str = ""
    scheduling: Json = field(default_factory=dict)
    """`schedulingPolicy` as written: minAvailable, queue, minResources, priorityClass, scheduleTimeoutSeconds."""


@dataclass(frozen=True)
class Replica:
    """State of one replica, as `status.replicas` keeps it."""

    replica_id: ReplicaId
    attempt: int = 0
    """Attempt that should run; Pods of earlier attempts are deleted. The Pod has the number as a label."""
    pod: str = ""
    """Name of the Pod."""
    uid: str = ""
    """Uid of this attempt's Pod, once it was observed."""
    phase: Phase = "Pending"
    restarts: int = 0
    """Number of restarts, in place or by the operator, counted or not."""
    in_place: int = 0
    """Number of these restarts that the kubelet made within the Pod `uid`."""
    exit_code: int | None = None
    reason: str = ""
    node: str = ""
    started: datetime | None = None


@dataclass(frozen=True)
class JobStatus:
    """Part of the status that the operator reads again. Everything else is observed again in each reconciliation."""

    replicas: Mapping[ReplicaId, Replica] = field(default_factory=dict)
    restarts: int = 0
    """Number of restarts that count against the limit; one for each, whatever its scope."""
    disruptions: int = 0
    """Number of restarts that do not count: evictions, preemptions, Pods deleted by hand."""
    failures: tuple[Json, ...] = ()
    """The first failure and the newest: {pod, type, index, attempt, uid, exitCode, signal, reason, message, time,
    action}. `message` has the last log lines."""
    restart_at: datetime | None = None
    """End of the back-off, before which no Pod is created."""
    started: datetime | None = None
    completed: datetime | None = None
    ports: Mapping[ReplicaId, int] = field(default_factory=dict)
    """Main ports of replicas on their hosts' network, where the job gives a range."""
    framework: Json | None = None
    """Definition of a DLJob's framework, as it was when the operator first read the job."""
    results: Json | None = None
    conditions: tuple[Json, ...] = ()


@dataclass(frozen=True)
class TrainingJob:
    """One training job of any kind."""

    resource: Json
    framework: "Framework"
    roles: Mapping[str, Role]
    """Replica types, in the framework's order."""
    policy: RunPolicy
    rules: tuple[Rule, ...] = ()
    status: JobStatus = JobStatus()
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
        return read_annotations(self.resource)

    @property
    def labels(self) -> Mapping[str, str]:
        return read_labels(self.resource)

    @cached_property
    def replica_ids(self) -> tuple[ReplicaId, ...]:
        """Every replica that should be, in the framework's order."""
        return tuple(
            ReplicaId(role.name, index) for role in self.roles.values() for index in range(role.count)
        )

    @cached_property
    def total(self) -> int:
        return sum(role.count for role in self.roles.values())

    def replica_name(self, replica_id: ReplicaId) -> str:
        """Name the Pod, and the Service if there is one: `<job>-<type in lower case>-<index>`."""
        name = f"{self.name}-{replica_id.role.lower()}"
        return name if replica_id.role in self._roles_without_index else f"{name}-{replica_id.index}"

    @cached_property
    def hosts(self) -> Mapping[str, tuple[str, ...]]:
        """Host names of all replicas, by type; they stay the same when a replica restarts."""
        return {
            role.name: tuple(
                self.framework.host(self, ReplicaId(role.name, index)) for index in range(role.count)
            )
            for role in self.roles.values()
        }

    @cached_property
    def ports(self) -> Mapping[str, tuple[int, ...]]:
        """Main ports of all replicas, by type."""
        return {
            role.name: tuple(
                self.framework.find_port(self, ReplicaId(role.name, index)) for index in range(role.count)
            )
            for role in self.roles.values()
        }

    @cached_property
    def _roles_without_index(self) -> frozenset[str]:
        """Types with a single replica, whose name has no index."""
        return frozenset(role.name for role in self.framework.roles if not role.indexed)


@dataclass(frozen=True)
class Counts:
    """Numbers of replicas of one type, by state."""

    active: int = 0
    succeeded: int = 0
    failed: int = 0


@dataclass(frozen=True)
class Tally:
    """Counts of replicas by type, from which a framework's success rule decides."""

    counts: Mapping[str, Counts]
    succeeded: frozenset[ReplicaId] = frozenset()

    def counts_for(self, role: str) -> Counts:
        return self.counts.get(role, Counts())

    def any_active(self, roles: Sequence[str]) -> bool:
        return any(self.counts_for(role).active for role in roles)


class Invalid(Exception):
    """The job cannot run as it is written. The message names the field, the value and what is allowed."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
