"""OpenAI's client, unmodified, on every server of its API: `python -m tests.engines.openai_clients.suite`.

The newest one and the oldest that we name, each in an environment made from its lock.
"""

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from unittest import mock

import httpx

from steelyard.discovery import IDENTITY_PORT
from steelyard.hosted.doubles import FakeProvider
from tests.engines.locked import environment
from tests.platform_api.memory_platform import service
from tests.platform_api.openai_doors import hosted_model, mock_server, replica
from tests.platform_api.test_served import served

HERE = Path(__file__).parent
Door = tuple[str, str]
"""Address and key."""


@asynccontextmanager
async def served_session(folder: Path) -> AsyncIterator[Door]:
    """The API on a port, in front of a session whose replica is the mock."""
    hosts = folder / "hosts"
    with mock.patch.dict(os.environ, {"STEELYARD_HOSTS": str(hosts)}):
        async with served(folder) as api, httpx.AsyncClient(base_url=api.url, headers=api.headers) as client:
            made = (await client.post("/inferenceservices", json={"account": "acme", **service()})).json()
            body = {"account": "acme", "inferenceService": made["id"]}
            made = (await client.post("/inferencesessions", json=body)).json()
            id = made["inferencesession"]["id"]
            async with replica(hosts, id, IDENTITY_PORT):
                yield f"{api.url}/inferencesessions/{id}/infer/v1", made["token"]


async def session(python: Path, name: str, door: Door) -> bool:
    command = [str(python), str(HERE / "session.py"), *door, name]
    process = await asyncio.create_subprocess_exec(*command)
    return await process.wait() == 0


async def run_all(environments: list[Path], folder: Path) -> bool:
    """Run the session of every environment on every server, and tell whether all passed."""
    passed = []
    for python in environments:
        async with AsyncExitStack() as stack:
            doors = {
                "mock": await stack.enter_async_context(mock_server()),
                "hosted": await stack.enter_async_context(hosted_model()),
                "limited": await stack.enter_async_context(
                    hosted_model(tokens_total=None, requests_per_minute=1, queue_seconds=0)
                ),
                "broken": await stack.enter_async_context(hosted_model(FakeProvider(breaks_off=True))),
            }
            addresses = {name: (str(client.base_url), "any") for name, client in doors.items()}
            state = Path(await asyncio.to_thread(tempfile.mkdtemp, dir=folder))
            addresses["session"] = await stack.enter_async_context(served_session(state))
            passed += [await session(python, name, address) for name, address in addresses.items()]
    return all(passed)


def run() -> int:
    """Return the exit status. Raises Missing where an environment cannot be made."""
    environments = [environment(f"openai-{name}", HERE / f"{name}.txt") for name in ("newest", "oldest")]
    with tempfile.TemporaryDirectory(prefix="steelyard-openai-") as folder:
        return 0 if asyncio.run(run_all(environments, Path(folder))) else 1


if __name__ == "__main__":
    sys.exit(run())
