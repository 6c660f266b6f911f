"""A Kubernetes cluster in memory, for tests of programs that create, watch and delete its objects.

`MemoryCluster` has the methods of the cluster that `steelyard_kube.client.connect` returns. Tests change objects behind
the program's back by its `store`, and let calls fail, or the process die, by `before_call` and `after_call`.
"""

from steelyard_kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    NotFound,
    TooManyRequests,
    Unreachable,
)
from steelyard_kube.memory import Crash, MemoryCluster
from steelyard_kube.resource import Resource, find_resource

__all__ = [
    "AlreadyExists",
    "ApiError",
    "Conflict",
    "Crash",
    "Forbidden",
    "MemoryCluster",
    "NotFound",
    "Resource",
    "TooManyRequests",
    "Unreachable",
    "find_resource",
]
