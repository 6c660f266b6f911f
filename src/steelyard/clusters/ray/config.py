"""Configuration of a Ray cluster: what a user says, checked before anything is sent."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from steelyard.clusters import rules, strategic
from steelyard.clusters.config import (
    Amount,
    Annotations,
    Config,
    DataKey,
    DnsLabel,
    Environment,
    Image,
    LabelName,
    Labels,
    ObjectName,
    check_by,
)
from steelyard.clusters.errors import Fault
from steelyard.clusters.ray.volumes import Volume
from steelyard_common.types import Json
from steelyard_schema.quantity import amount

DEFAULT_RAY = "2.52.1"
NAME_LIMIT = 50
"""Characters of a cluster's name: KubeRay cuts longer ones in the names of Pods and Services."""
MOST = 2**31 - 1
LEAST_MEMORY = 1 << 20
MOST_QUEUED_GROUPS = 7
"""Groups of workers of a cluster in a queue: a Workload of Kueue has eight sets of Pods, one of them for the head."""
Count = Annotated[int, Field(ge=0, le=MOST, strict=True)]
# YAML reads a bare `off` as false.
QueuePolicy = Annotated[
    Literal["strict", "warn", "off"], BeforeValidator(lambda value: "off" if value is False else value)
]


def _service_name(name: str, path: str) -> Iterator[Fault]:
    # The name becomes a Service's, which begins with a letter.
    return rules.name(name, path, "service")


class Resources(Config):
    """Resources of one Pod. A limit that is not given is as large as the request."""

    cpu: Amount = 1
    """Number of processors, such as 2 or 500m."""
    memory: Amount = "4Gi"
    """Amount with a unit, such as 4Gi: a number alone is bytes, and below 1 MiB it is refused."""
    cpu_limit: Amount | None = None
    memory_limit: Amount | None = None
    accelerators: dict[str, Count] = Field(default_factory=dict)
    """Devices by their resource, such as `{"nvidia.com/gpu": 1}`."""

    @property
    def requests(self) -> dict[str, str | int | float]:
        return {"cpu": self.cpu, "memory": self.memory, **self.accelerators}

    @property
    def limits(self) -> dict[str, str | int | float]:
        cpu, memory = self.cpu_limit, self.memory_limit
        return {
            "cpu": self.cpu if cpu is None else cpu,
            "memory": self.memory if memory is None else memory,
            **self.accelerators,
        }

    def relations(self) -> Iterator[Fault]:
        yield from rules.resources(self.requests, self.limits, "")
        for field in ("memory", "memory_limit"):
            value = getattr(self, field)
            if value is not None and amount(str(value)) < LEAST_MEMORY:
                yield Fault(field, f"{value} is less than 1 MiB: it is in bytes; do you mean {value}Gi?")


class Toleration(Config):
    """A toleration: the Pods may run on nodes with a taint that it matches."""

    key: str = ""
    operator: Literal["Equal", "Exists"] = "Equal"
    value: str = ""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""
    seconds: Annotated[int, Field(strict=True)] | None = None
    """Time that a Pod stays on a node that gets the taint; for NoExecute."""

    def relations(self) -> Iterator[Fault]:
        if self.key:
            yield from (Fault("key", fault.message) for fault in rules.labels({self.key: ""}, "key"))
        if self.value and self.operator == "Equal":
            yield from (Fault("value", fault.message) for fault in rules.labels({"a": self.value}, "value"))
        if not self.key and self.operator != "Exists":
            yield Fault("operator", "must be Exists where there is no key: it tolerates all taints")
        if self.operator == "Exists" and self.value:
            yield Fault("value", "must be empty with the operator Exists")
        if self.seconds is not None and self.effect != "NoExecute":
            yield Fault("seconds", "needs the effect NoExecute")


def _volume_faults(path: str, volumes: Sequence[Volume], others: Sequence[Volume]) -> Iterator[Fault]:
    """Yield the faults of volumes together, and with those that all groups have: one path, or one name, for two."""
    paths = {volume.mount_path for volume in others}
    sources = {volume.name: volume.source for volume in others}
    for number, volume in enumerate(volumes):
        where, mount_path = f"{path}.{number}", volume.mount_path
        if mount_path in paths:
            yield Fault(f"{where}.mount_path", f"{mount_path} is mounted by another volume too")
        if sources.setdefault(volume.name, volume.source) != volume.source:
            yield Fault(f"{where}.name", f"{volume.name} is the name of a volume with another source, too")
        paths.add(mount_path)


class PodSettings(Config):
    """Settings that Pods of every group may have."""

    resources: Resources = Resources.model_construct()
    image: Image | None = None
    """Image of the group's Pods. Default: the cluster's."""
    env: Environment = Field(default_factory=dict)
    volumes: tuple[Volume, ...] = ()
    node_selector: Labels = Field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    labels: Labels = Field(default_factory=dict)
    annotations: Annotations = Field(default_factory=dict)
    ray_params: dict[str, str] = Field(default_factory=dict)
    """Options of `ray start`, without their dashes."""
    pod_overrides: Json = Field(default_factory=dict)
    """Strategic merge patch of the Pod's template that these settings make."""

    def relations(self) -> Iterator[Fault]:
        yield from _volume_faults("volumes", self.volumes, ())
        yield from strategic.faults(self.pod_overrides, "pod_overrides")


class HeadGroup(PodSettings):
    """The head of a Ray cluster."""

    resources: Resources = Resources.model_construct(cpu=2, memory="8Gi")


class WorkerGroup(PodSettings):
    """Workers of a Ray cluster with one Pod template."""

    name: DnsLabel = "workers"
    replicas: Count | None = None
    """Number of workers. Default: 1; with autoscaling, the autoscaler decides."""
    min_replicas: Count | None = None
    max_replicas: Count | None = None
    hosts: Annotated[int, Field(ge=1, le=MOST, strict=True)] = 1
    """Pods of one replica, for accelerators that span several hosts."""

    @property
    def least(self) -> int:
        return self.min_replicas if self.min_replicas is not None else (self.replicas or 0)

    def relations(self) -> Iterator[Fault]:
        yield from super().relations()
        least, most, replicas = self.min_replicas, self.max_replicas, self.replicas
        if least is not None and most is not None and least > most:
            yield Fault(
                "min_replicas", f"{least} must be less than or equal to max_replicas, which is {most}"
            )
        if replicas is not None and least is not None and replicas < least:
            yield Fault("replicas", f"{replicas} must not be less than min_replicas, which is {least}")
        if replicas is not None and most is not None and replicas > most:
            yield Fault("replicas", f"{replicas} must not be more than max_replicas, which is {most}")


class Autoscaling(Config):
    """Ray's autoscaler, which adds and removes workers between a group's min_replicas and max_replicas."""

    idle_seconds: Count = 60
    """Time after which a worker without work is removed."""
    mode: Literal["Default", "Aggressive", "Conservative"] = "Default"
    cpu: Amount = "500m"
    """Processors of the autoscaler's container."""
    memory: Amount = "512Mi"
    """Memory of the autoscaler's container."""


class SecretKey(Config):
    """A value in a Secret of the cluster's namespace."""

    name: ObjectName
    key: DataKey


class GcsFaultTolerance(Config):
    """A Redis in which the head keeps its state, so that the cluster outlives a restart of the head."""

    redis_address: Annotated[str, Field(min_length=1)]
    """Host and port, such as redis:6379."""
    redis_password: SecretKey | None = None
    storage_namespace: str | None = None
    """Prefix of the keys in Redis. Default: the cluster's uid."""


class ClusterConfig(Config):
    """A Ray cluster as a user describes it."""

    name: Annotated[str, Field(max_length=NAME_LIMIT), check_by(_service_name)]
    namespace: DnsLabel | None = None
    image: Image = ""
    """Image of all Pods. Default: rayproject/ray of `ray_version`."""
    ray_version: Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+[-+.a-zA-Z0-9]*$")] = DEFAULT_RAY
    head: HeadGroup = HeadGroup.model_construct()
    workers: tuple[WorkerGroup, ...] = (WorkerGroup.model_construct(),)
    autoscaling: Autoscaling | None = None
    gcs_fault_tolerance: GcsFaultTolerance | None = None
    queue: LabelName | None = None
    """LocalQueue of Kueue. Default: the namespace's default queue, if it has one."""
    queue_policy: QueuePolicy = "strict"
    """`strict` refuses a queue that is not there or is stopped, `warn` says so, `off` uses no queue."""
    priority_class: LabelName | None = None
    """WorkloadPriorityClass of Kueue."""
    labels: Labels = Field(default_factory=dict)
    annotations: Annotations = Field(default_factory=dict)
    env: Environment = Field(default_factory=dict)
    """Variables of all groups."""
    volumes: tuple[Volume, ...] = ()
    image_pull_secrets: tuple[ObjectName, ...] = ()
    service_account: ObjectName | None = None
    usage_stats: bool = False
    """True if Ray may send usage statistics to its makers."""

    @property
    def full_image(self) -> str:
        return self.image or f"rayproject/ray:{self.ray_version}"

    def relations(self) -> Iterator[Fault]:
        yield from _groups(self)
        yield from _volume_faults("volumes", self.volumes, ())
        for path, group in [("head", self.head), *_number_fields(self)]:
            yield from _volume_faults(f"{path}.volumes", group.volumes, self.volumes)
        if self.queue_policy == "off" and (self.queue or self.priority_class):
            field = "queue" if self.queue else "priority_class"
            yield Fault(field, 'has no effect with queue_policy="off"')


def queue_faults(config: ClusterConfig) -> Iterator[Fault]:
    """Yield what Kueue refuses about a cluster in a queue, and takes where there is none."""
    if len(config.workers) > MOST_QUEUED_GROUPS:
        yield Fault(
            "workers",
            f"are {len(config.workers)} groups; in a queue a cluster has {MOST_QUEUED_GROUPS} at most",
        )
    for path, group in _number_fields(config):
        if group.name == "head":
            yield Fault(f"{path}.name", "must not be head in a queue: Kueue gives the head's Pods this name")


def _number_fields(config: ClusterConfig) -> list[tuple[str, Any]]:
    return [(f"workers.{number}", group) for number, group in enumerate(config.workers)]


def _groups(config: ClusterConfig) -> Iterator[Fault]:
    names: set[str] = set()
    for path, group in _number_fields(config):
        if group.name in names:
            yield Fault(f"{path}.name", f"{group.name} is the name of another group too")
        names.add(group.name)
        if config.autoscaling is not None and group.max_replicas is None:
            yield Fault(f"{path}.max_replicas", "is required with autoscaling")
        if config.autoscaling is None and (group.min_replicas is not None or group.max_replicas is not None):
            field = "min_replicas" if group.min_replicas is not None else "max_replicas"
            yield Fault(f"{path}.{field}", "has no effect without autoscaling")
