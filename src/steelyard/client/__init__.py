"""The Python client: `from steelyard.client import Client`."""

from steelyard.client import presets
from steelyard.client.async_client import AsyncClient
from steelyard.client.client import Client
from steelyard.client.errors import (
    ApiError,
    ClientError,
    Conflict,
    Forbidden,
    Invalid,
    NotConfigured,
    NotFound,
    TransferFailed,
    Unauthenticated,
    Unavailable,
    Unreachable,
    WaitTimeout,
    WorkflowFailed,
)

__all__ = [
    "ApiError",
    "AsyncClient",
    "Client",
    "ClientError",
    "Conflict",
    "Forbidden",
    "Invalid",
    "NotConfigured",
    "NotFound",
    "TransferFailed",
    "Unauthenticated",
    "Unavailable",
    "Unreachable",
    "WaitTimeout",
    "WorkflowFailed",
    "presets",
]
