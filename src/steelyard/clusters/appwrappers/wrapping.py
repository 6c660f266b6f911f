"""Configuration of an AppWrapper and of its fault tolerance, and its manifest."""

from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import Field

from steelyard.clusters.config import Annotations, Config, DnsLabel, LabelName, Labels, ObjectName
from steelyard.clusters.errors import Fault
from steelyard.clusters.ray import names
from steelyard.clusters.ray.config import ClusterConfig, QueuePolicy
from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.objects import read_spec
from steelyard_schema.unknown_fields import unknown_pod_fields

PREFIX = "workload.codeflare.dev.appwrapper/"
Seconds = Annotated[int, Field(ge=0, strict=True)]
ExitCode = Annotated[int, Field(ge=1, le=255, strict=True)]
KNOWN_PARTS = frozenset({
    ("v1", "Pod"), ("v1", "Service"), ("v1", "Secret"), ("v1", "ConfigMap"), ("v1", "PersistentVolumeClaim"),
    ("v1", "ServiceAccount"), ("batch/v1", "Job"), ("apps/v1", "Deployment"), ("apps/v1", "StatefulSet"),
    ("ray.io/v1", "RayCluster"), ("ray.io/v1", "RayJob"), ("kubeflow.org/v1", "PyTorchJob"),
    ("kubeflow.org/v1", "TFJob"), ("kubeflow.org/v1", "MPIJob"), ("kubeflow.org/v1", "XGBoostJob"),
    ("kubeflow.org/v1", "JAXJob"), ("kubeflow.org/v1", "PaddleJob"), ("jobset.x-k8s.io/v1alpha2", "JobSet"),
    ("networking.k8s.io/v1", "Ingress"), ("networking.k8s.io/v1", "NetworkPolicy"),
})  # fmt: skip
"""Kinds that a part may have."""
MOST_SETS = 8
"""Sets of Pods of an AppWrapper: as many as a Workload of Kueue has."""


class FaultTolerance(Config):
    """Reaction of the AppWrapper's controller to Pods that fail. None means the controller's own default."""

    admission_grace_seconds: Seconds | None = None
    """Longest time from admission until all Pods exist."""
    warmup_grace_seconds: Seconds | None = None
    """Longest time until all Pods are ready."""
    failure_grace_seconds: Seconds | None = None
    """Time for which failed Pods may be replaced by others before all is reset."""
    retry_pause_seconds: Seconds | None = None
    """Pause before the parts are made again."""
    retry_limit: Annotated[int, Field(ge=0, strict=True)] | None = None
    """Number of times that the parts are made again."""
    forceful_deletion_grace_seconds: Seconds | None = None
    """Time that the parts have to go before their Pods are ended by force."""
    deletion_on_failure_grace_seconds: Seconds | None = None
    """Time that the parts stay after the AppWrapper has failed, so that they can be inspected."""
    success_ttl_seconds: Seconds | None = None
    """Time from the start until the parts of an AppWrapper that has succeeded are removed; it stays itself."""
    terminal_exit_codes: tuple[ExitCode, ...] = ()
    """Exit codes that end the AppWrapper: no retry would help."""
    retryable_exit_codes: tuple[ExitCode, ...] = ()
    """Exit codes that are retried; all others end the AppWrapper."""

    def relations(self) -> Iterator[Fault]:
        if self.terminal_exit_codes and self.retryable_exit_codes:
            yield Fault(
                "retryable_exit_codes", "has no effect together with terminal_exit_codes: give one of them"
            )

    def annotations(self) -> dict[str, str]:
        durations = {
            "admissionGracePeriodDuration": self.admission_grace_seconds,
            "warmupGracePeriodDuration": self.warmup_grace_seconds,
            "failureGracePeriodDuration": self.failure_grace_seconds,
            "retryPausePeriodDuration": self.retry_pause_seconds,
            "forcefulDeletionGracePeriodDuration": self.forceful_deletion_grace_seconds,
            "deletionOnFailureGracePeriodDuration": self.deletion_on_failure_grace_seconds,
            "successTTLDuration": self.success_ttl_seconds,
        }
        texts = {name: f"{seconds}s" for name, seconds in durations.items() if seconds is not None}
        if self.retry_limit is not None:
            texts["retryLimit"] = str(self.retry_limit)
        for name, codes in (
            ("terminalExitCodes", self.terminal_exit_codes),
            ("retryableExitCodes", self.retryable_exit_codes),
        ):
            if codes:
                texts[name] = ",".join(map(str, codes))
        return {f"{PREFIX}{name}": text for name, text in texts.items()}


class AppWrapperConfig(Config):
    """An AppWrapper as a user describes it: Ray clusters by their configuration, other objects as manifests."""

    name: ObjectName
    parts: Annotated[tuple[ClusterConfig | Json, ...], Field(min_length=1, max_length=8)]
    namespace: DnsLabel | None = None
    queue: LabelName | None = None
    queue_policy: QueuePolicy = "strict"
    priority_class: LabelName | None = None
    fault_tolerance: FaultTolerance = FaultTolerance.model_construct()
    labels: Labels = Field(default_factory=dict)
    annotations: Annotations = Field(default_factory=dict)

    def relations(self) -> Iterator[Fault]:
        for number, part in enumerate(self.parts):
            if isinstance(part, ClusterConfig):
                if part.queue:
                    yield Fault(
                        f"parts.{number}.queue", "belongs to the AppWrapper, which waits for all parts"
                    )
                continue
            kind = part.get("apiVersion"), part.get("kind")
            if kind not in KNOWN_PARTS:
                yield Fault(
                    f"parts.{number}.kind", f"{kind[1]} ({kind[0]}) is not a kind that an AppWrapper may hold"
                )
            metadata = part.get("metadata")
            if not isinstance(metadata, dict) or not metadata.get("name"):
                yield Fault(f"parts.{number}.metadata.name", "is required")
            elif names.QUEUE in (metadata.get("labels") or {}):
                yield Fault(f"parts.{number}.metadata.labels", "must not name a queue: the AppWrapper does")
            yield from (Fault(*unknown) for unknown in unknown_pod_fields(part, f"parts.{number}"))
        count = sum(map(_set_count, self.parts))
        if not 0 < count <= MOST_SETS:
            yield Fault("parts", f"have {count} sets of Pods: an AppWrapper has 1 to {MOST_SETS}")


def _set_count(part: ClusterConfig | Json) -> int:
    """Return how many sets of Pods a part has: groups of Pods with one template each."""
    if isinstance(part, ClusterConfig):
        return 1 + len(part.workers)
    spec = read_spec(part)
    match part.get("kind"):
        case "Job" | "Pod" | "Deployment" | "StatefulSet":
            return 1
        case "RayCluster":
            return 1 + len(sequence(spec, "workerGroupSpecs"))
        case "RayJob":
            return 1 + len(sequence(mapping(spec, "rayClusterSpec"), "workerGroupSpecs"))
        case "JobSet":
            return len(sequence(spec, "replicatedJobs"))
        case "PyTorchJob":
            return len(mapping(spec, "pytorchReplicaSpecs"))
    return len(pod_sets(part))


def pod_sets(part: Json) -> list[Json]:
    """Return where the Pods of a part are described, for kinds that the controller does not know to read.

    Without it the queue's quota would not count their Pods.
    """
    if part.get("kind") == "PyTorchJob":
        return []
    return [
        {"replicas": _count(role), "path": f"template.spec.{field}.{name}.template"}
        for field, roles in read_spec(part).items()
        if field.endswith("ReplicaSpecs")
        for name, role in (roles.items() if isinstance(roles, dict) else ())
        if isinstance(role, dict)
    ]


def _count(spec: Json) -> int:
    replicas = spec.get("replicas")
    return replicas if isinstance(replicas, int) else 1


def app_wrapper(config: AppWrapperConfig, parts: Sequence[Json], namespace: str, queue: str | None) -> Json:
    """Return the resource."""
    labels = names.queue_labels(config.labels, queue, config.priority_class)
    metadata: Json = {"name": config.name, "namespace": namespace}
    if labels:
        metadata["labels"] = labels
    if annotations := {**config.annotations, **config.fault_tolerance.annotations()}:
        metadata["annotations"] = annotations
    return {
        "apiVersion": "workload.codeflare.dev/v1beta2",
        "kind": "AppWrapper",
        "metadata": metadata,
        "spec": {"components": [_component(part) for part in parts]},
    }


def _component(part: Json) -> Json:
    sets = pod_sets(part)
    return {"template": part, "podSets": sets} if sets else {"template": part}
