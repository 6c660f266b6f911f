"""The interface of a framework: its replica types, its container and port, its environment, its success rule.

A built-in framework is a file next to this one with one `Framework`; a team's own is a resource of kind
`Framework`, from which `definition.py` makes one.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from steelyard.operator.training.model import ReplicaId, RestartPolicy, Role, Rule, Scope, Tally, TrainingJob
from steelyard_common.types import Json, sequence

Value = str | Json
"""Value of an environment variable: text, or the content of `valueFrom`."""


@dataclass(frozen=True)
class RoleKind:
    """A replica type that a framework knows. `minimum` and `maximum` bound its replicas, where a job has the type."""

    name: str
    minimum: int = 0
    maximum: int | None = None
    required: bool = False
    """True if a job must have the type."""
    scope: Scope = "Job"
    """Replicas that restart when one of this type has failed, unless the job says otherwise."""
    default_replicas: int = 1
    indexed: bool = True
    """True if names of Pods have an index; else the type has one replica, named `<job>-<type>` (Launcher)."""


@dataclass(frozen=True)
class RuleResult:
    """Answer of a success rule about a job at this moment."""

    running: bool
    succeeded: bool


@dataclass(frozen=True)
class Messages:
    """The messages of a kind's conditions, with {kind}, {name}, {namespace}; {count} and {role} of failed replicas."""

    created: str = "{kind} {name} is created."
    running: str = "{kind} {name} is running."
    succeeded: str = "{kind} {name} is successfully completed."
    failed: str = "{kind} {name} is failed because {count} {role} replica(s) failed."
    restarting: str = "{kind} {name} is restarting because {count} {role} replica(s) failed."
    suspended: str = "{kind} {name} is suspended."
    resumed: str = "{kind} {name} is resumed."


@dataclass(frozen=True)
class Placement:
    """One replica of a job, and how it reaches the others."""

    job: TrainingJob
    replica_id: ReplicaId

    @property
    def role(self) -> Role:
        return self.job.roles[self.replica_id.role]

    def count(self, role: str) -> int:
        """Replicas of a type; 0 where the job has no replica of it."""
        return self.job.roles[role].count if role in self.job.roles else 0

    def host(self, role: str, index: int) -> str:
        """The stable name of a replica, within its namespace; also of one that the job could have."""
        hosts = self.hosts(role)
        return (
            hosts[index] if index < len(hosts) else self.job.framework.host(self.job, ReplicaId(role, index))
        )

    def port(self, role: str, index: int) -> int:
        """The main port of a replica; also of one that the job could have."""
        ports = self.job.ports[role]
        return (
            ports[index]
            if index < len(ports)
            else self.job.framework.find_port(self.job, ReplicaId(role, index))
        )

    def hosts(self, role: str) -> tuple[str, ...]:
        """The names of every replica of a type; empty if the job has no replica."""
        return self.job.hosts.get(role, ())

    def addresses(self, role: str) -> list[str]:
        """`host:port` of every replica of a type."""
        return [
            f"{host}:{port}"
            for host, port in zip(self.hosts(role), self.job.ports.get(role, ()), strict=True)
        ]


def service_name(job: TrainingJob, replica_id: ReplicaId) -> str:
    """v1: each replica has a headless Service of its Pod's name."""
    return job.replica_name(replica_id)


@dataclass(frozen=True)
class Framework:
    """Description of one framework for the operator. The functions are pure."""

    kind: str
    """Kind of the resource: PyTorchJob."""
    label: str
    """Value of the label `training.kubeflow.org/operator-name`: pytorchjob-controller."""
    specs: str
    """The field below `spec` with the replica types: pytorchReplicaSpecs."""
    roles: tuple[RoleKind, ...]
    container: str
    """Name of the container whose end decides, and whose ports count; see `container_name`."""
    port_name: str
    port: int
    environment: Callable[[Placement], Mapping[str, Value]]
    """Variables of one replica, in order. What the user's container sets itself is left as it is."""
    success_rule: Callable[[TrainingJob, Tally], RuleResult]
    """Rule that says whether the job runs or has succeeded. The operator decides about failure, by policy and
    rules.
    """
    requires_container: bool = True
    """True if every template must have a container of that name; else the first container stands in for it."""
    every_container: bool = True
    """True if all containers get the environment; else only the named one does."""
    restart: RestartPolicy = "Never"
    """Restart policy of replica types that give none."""
    masters: tuple[str, ...] = ()
    """The types whose replica 0 has the label job-role=master, the first that the job has; else Worker 0."""
    scalable: str = ""
    """The type that the scale subresource scales."""
    services: bool = True
    """True if each replica has a Service of its own."""
    subdomain: bool = False
    """Instead: one headless Service of the job's name, and names <replica>.<job> (DLJob)."""
    messages: Messages = field(default_factory=Messages)
    messages_without_master: Messages | None = None
    """Instead, where the job lacks all of `masters`; see `words_of`."""
    scope: Callable[[RoleKind, Collection[str], Json], Scope] = lambda role, present, spec: role.scope
    """Default restart scope of a type, from the types that the job has and its spec."""
    rules: Callable[[TrainingJob], tuple[Rule, ...]] = lambda job: ()
    """Failure rules that come after the job's own."""
    check: Callable[[TrainingJob], None] = lambda job: None
    """Raises Invalid for what the schema cannot say."""
    extras: Callable[[TrainingJob], tuple[Json, ...]] = lambda job: ()
    """Further children, without owner (ConfigMap, Role …), made before the Pods."""
    decorate: Callable[[Placement, Json], Json] = lambda placement, pod: pod
    """Adds what else a Pod of the framework needs, such as volumes or an account; the Pod is complete
    otherwise.
    """
    definition: Json | None = None
    """Definition from which the framework was read, to be kept in the job's status; None for a built-in one."""

    def make_messages(self, job: TrainingJob) -> Messages:
        """The messages of this job's conditions."""
        led = any(name in job.roles for name in self.masters)
        return self.messages if led or self.messages_without_master is None else self.messages_without_master

    def role(self, name: str) -> RoleKind | None:
        return next((role for role in self.roles if role.name == name), None)

    def container_name(self, pod_spec: Json) -> str:
        """The name of the container that decides, of a Pod or a template."""
        names = [str(container["name"]) for container in pod_spec["containers"]]
        return self.container if self.requires_container or self.container in names else names[0]

    def host(self, job: TrainingJob, replica_id: ReplicaId) -> str:
        name = job.replica_name(replica_id)
        return f"{name}.{job.name}" if self.subdomain else name

    def find_port(self, job: TrainingJob, replica_id: ReplicaId) -> int:
        """The container's port of the framework's name, the framework's own where there is none; on a host's network
        the one that was chosen for the replica."""
        if replica_id in job.status.ports:
            return job.status.ports[replica_id]
        template = job.roles[replica_id.role].template
        for container in template["spec"]["containers"]:
            if container["name"] != self.container_name(template["spec"]):
                continue
            for port in sequence(container, "ports"):
                if port.get("name") == self.port_name:
                    return int(port["containerPort"])
        return self.port
