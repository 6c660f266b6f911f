"""The embedded API server's entry: `serve` for whoever runs one (`local/service.py`, tests)."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ApiServerConfig:
    """What a server needs to know; without a database it forgets everything at its end."""

    database: Path | None
    pki: Path
    tokens: Mapping[str, str]  # token -> user name
    pods: Path | None = None
    service_network: str = "127.200.128.0/17"
    host: str = "127.0.0.1"
    port: int = 0


@dataclass(frozen=True)
class RunningServer:
    """Where a server answers, and which certificate authority vouches for it."""

    url: str
    ca: Path
    port: int


@asynccontextmanager
async def serve(config: ApiServerConfig) -> AsyncIterator[RunningServer]:
    """A server that answers until the block is left."""
    raise NotImplementedError("the API server is not written yet")
    yield RunningServer("", config.pki / "ca.crt", config.port)
