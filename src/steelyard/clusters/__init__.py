"""Work of people and programs on a cluster: Ray clusters and jobs, queues, AppWrappers, training jobs.

    from steelyard.clusters import Client, ClusterConfig, WorkerGroup

    with Client() as client:
        client.ray.clusters.create(ClusterConfig(name="demo", workers=[WorkerGroup(replicas=2)]))
        print(client.ray.clusters.wait("demo"))

Names are imported when they are first used: the package itself costs nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from steelyard.clusters.admin.config import (
        ClusterQueueConfig,
        CohortConfig,
        FlavorConfig,
        FlavorQuota,
        LocalQueueConfig,
        PriorityClassConfig,
        Quota,
        QuotaGroup,
    )
    from steelyard.clusters.appwrappers.wrapping import AppWrapperConfig, FaultTolerance
    from steelyard.clusters.client import AsyncClient, Client
    from steelyard.clusters.device_login import DeviceLogin
    from steelyard.clusters.errors import (
        AlreadyExists,
        BadConfig,
        ClusterError,
        Conflict,
        Failed,
        Fault,
        Forbidden,
        Invalid,
        NotConfigured,
        NotFound,
        Refused,
        Right,
        TooManyRequests,
        Unauthenticated,
        Unavailable,
        Unreachable,
        Unsupported,
        WaitTimeout,
    )
    from steelyard.clusters.ray.config import (
        Autoscaling,
        ClusterConfig,
        GcsFaultTolerance,
        HeadGroup,
        Resources,
        SecretKey,
        Toleration,
        WorkerGroup,
    )
    from steelyard.clusters.ray.job_config import JobConfig, RuntimeEnv
    from steelyard.clusters.ray.volumes import NewClaim, NewSecret, Volume, claim, config_map, scratch, secret

_ERRORS = (
    "AlreadyExists",
    "BadConfig",
    "ClusterError",
    "Conflict",
    "Failed",
    "Fault",
    "Forbidden",
    "Invalid",
    "NotConfigured",
    "NotFound",
    "Refused",
    "Right",
    "TooManyRequests",
    "Unauthenticated",
    "Unavailable",
    "Unreachable",
    "Unsupported",
    "WaitTimeout",
)
_CONFIGS = (
    "Autoscaling",
    "ClusterConfig",
    "GcsFaultTolerance",
    "HeadGroup",
    "Resources",
    "SecretKey",
    "Toleration",
    "WorkerGroup",
)
_ADMIN = (
    "ClusterQueueConfig",
    "CohortConfig",
    "FlavorConfig",
    "FlavorQuota",
    "LocalQueueConfig",
    "PriorityClassConfig",
    "Quota",
    "QuotaGroup",
)
_HOMES = {
    "AsyncClient": "client",
    "Client": "client",
    "DeviceLogin": "device_login",
    **dict.fromkeys(_ERRORS, "errors"),
    **dict.fromkeys(_CONFIGS, "ray.config"),
    **dict.fromkeys(("JobConfig", "RuntimeEnv"), "ray.job_config"),
    **dict.fromkeys(("AppWrapperConfig", "FaultTolerance"), "appwrappers.wrapping"),
    **dict.fromkeys(_ADMIN, "admin.config"),
    **dict.fromkeys(
        ("NewClaim", "NewSecret", "Volume", "claim", "config_map", "scratch", "secret"), "ray.volumes"
    ),
}

__all__ = [
    "AlreadyExists",
    "AppWrapperConfig",
    "AsyncClient",
    "Autoscaling",
    "BadConfig",
    "Client",
    "ClusterConfig",
    "ClusterError",
    "ClusterQueueConfig",
    "CohortConfig",
    "Conflict",
    "DeviceLogin",
    "Failed",
    "Fault",
    "FaultTolerance",
    "FlavorConfig",
    "FlavorQuota",
    "Forbidden",
    "GcsFaultTolerance",
    "HeadGroup",
    "Invalid",
    "JobConfig",
    "LocalQueueConfig",
    "NewClaim",
    "NewSecret",
    "NotConfigured",
    "NotFound",
    "PriorityClassConfig",
    "Quota",
    "QuotaGroup",
    "Refused",
    "Resources",
    "Right",
    "RuntimeEnv",
    "SecretKey",
    "Toleration",
    "TooManyRequests",
    "Unauthenticated",
    "Unavailable",
    "Unreachable",
    "Unsupported",
    "Volume",
    "WaitTimeout",
    "WorkerGroup",
    "claim",
    "config_map",
    "scratch",
    "secret",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
