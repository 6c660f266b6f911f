"""Configuration of a Ray job: what runs, where, and in which environment. Checked before anything is sent."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import Field

from steelyard.clusters import rules
from steelyard.clusters.config import Config, DnsLabel, Environment, Image, LabelName, Labels, ObjectName
from steelyard.clusters.errors import Fault
from steelyard.clusters.ray.config import ClusterConfig, Count, QueuePolicy, queue_faults
from steelyard_common.types import Json

NAME_LIMIT = 47
"""Characters of a RayJob's name: KubeRay makes names of other objects from it."""
Seconds = Annotated[int, Field(ge=0, le=2**31 - 1, strict=True)]


class RuntimeEnv(Config):
    """Environment of a job's processes: all fields of Ray's own. `plugins` has those of Ray's plugins by their name."""

    working_dir: str | None = None
    """Address of a folder, such as s3://bucket/code.zip. A folder of this machine is JobConfig's `working_dir`."""
    py_modules: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    pip: tuple[str, ...] | Json | str | None = None
    uv: tuple[str, ...] | Json | None = None
    conda: Json | str | None = None
    env_vars: Environment = Field(default_factory=dict)
    image_uri: Image | None = None
    container: Json | None = None
    py_executable: str | None = None
    java_jars: tuple[str, ...] = ()
    nsight: Json | str | None = None
    mpi: Json | None = None
    worker_process_setup_hook: str | None = None
    config: Json | None = None
    plugins: Json = Field(default_factory=dict)

    def relations(self) -> Iterator[Fault]:
        installers = [name for name in ("pip", "uv", "conda") if getattr(self, name) is not None]
        if len(installers) > 1:
            yield Fault(installers[1], f"cannot be used together with {installers[0]}")
        if self.working_dir is not None and "://" not in self.working_dir:
            yield Fault(
                "working_dir", "must be an address; give a folder of this machine as the job's working_dir"
            )

    def document(self) -> Json:
        """Return the environment as Ray reads it: the fields that are given."""
        fields: Json = {
            name: list(value) if isinstance(value, tuple) else value
            for name in type(self).model_fields
            if name != "plugins" and (value := getattr(self, name)) not in (None, (), {})
        }
        return {**fields, **self.plugins}


class JobConfig(Config):
    """A Ray job: on a cluster of its own (`cluster_config`), or on one that runs (`cluster`)."""

    name: Annotated[str, Field(max_length=NAME_LIMIT)]
    entrypoint: Annotated[str, Field(min_length=1)]
    namespace: DnsLabel | None = None
    cluster: ObjectName | None = None
    cluster_config: ClusterConfig | None = None
    working_dir: Path | None = None
    """Folder of this machine that the job runs in."""
    runtime_env: RuntimeEnv = RuntimeEnv.model_construct()
    keep_cluster: bool = False
    """True if the job's own cluster stays when the job has ended."""
    ttl_seconds: Seconds | None = None
    """Time that the cluster stays after the job's end."""
    active_deadline_seconds: Annotated[int, Field(ge=1, le=2**31 - 1, strict=True)] | None = None
    retries: Count = 0
    """Number of further attempts after a failure."""
    queue: LabelName | None = None
    queue_policy: QueuePolicy = "strict"
    priority_class: LabelName | None = None
    labels: Labels = Field(default_factory=dict)
    metadata: dict[str, str] = Field(default_factory=dict)
    """Notes about the job that Ray's dashboard shows."""
    entrypoint_cpus: Annotated[float, Field(ge=0)] | None = None
    entrypoint_gpus: Annotated[float, Field(ge=0)] | None = None
    entrypoint_resources: dict[str, Annotated[float, Field(ge=0)]] = Field(default_factory=dict)
    """Amounts of Ray's custom resources, by name, that the entrypoint takes while it runs."""

    def relations(self) -> Iterator[Fault]:
        yield from rules.name(self.name, "name", "service")
        if (self.cluster is None) == (self.cluster_config is None):
            yield Fault("cluster", "give either cluster, or cluster_config")
        if self.cluster is not None:
            for field in ("queue", "priority_class", "ttl_seconds"):
                if getattr(self, field) is not None:
                    yield Fault(field, "belongs to a job with a cluster of its own")
        if self.cluster_config is not None and self.cluster_config.queue is not None:
            yield Fault("cluster_config.queue", "belongs to the job: the queue admits job and cluster as one")
        if self.keep_cluster and self.ttl_seconds is not None:
            yield Fault("ttl_seconds", "has no effect with keep_cluster")
        if self.working_dir is not None:
            yield from _folder(self.working_dir)
            if self.runtime_env.working_dir is not None:
                yield Fault("runtime_env.working_dir", "cannot be given together with working_dir")


def queue_job_faults(config: JobConfig) -> Iterator[Fault]:
    """Yield what Kueue refuses about a job in a queue, and takes where there is none."""
    if config.keep_cluster:
        yield Fault(
            "keep_cluster", "must be false in a queue: the cluster's quota is given back with the job's end"
        )
    if config.cluster_config is not None:
        for fault in queue_faults(config.cluster_config):
            yield Fault(f"cluster_config.{fault.field}", fault.message)


def _folder(folder: Path) -> Iterator[Fault]:
    if not folder.is_dir():
        yield Fault("working_dir", f"{folder}: there is no such folder")


def entrypoint_options(config: JobConfig) -> Json:
    """Return the options of the entrypoint that are given."""
    options = {"entrypointNumCpus": config.entrypoint_cpus, "entrypointNumGpus": config.entrypoint_gpus}
    given: Json = {name: value for name, value in options.items() if value is not None}
    if config.entrypoint_resources:
        given["entrypointResources"] = json.dumps(config.entrypoint_resources)  # KubeRay takes text
    return given
