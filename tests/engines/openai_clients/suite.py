"""OpenAI's client and LiteLLM, unmodified, on every server of OpenAI's API.

`python -m tests.engines.openai_clients.suite` runs the newest and the oldest that we name of each, in environments made
from their locks.
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

from steelyard_common.discovery import IDENTITY_PORT
from steelyard_evaluation.hosted.doubles import FakeProvider
from tests.engines.locked import environment
from tests.platform_api.memory_platform import service
from tests.platform_api.openai_doors import hosted_model, mock_server, replica
from tests.platform_api.test_served import served

HERE = Path(__file__).parent
CLIENTS = tuple((client, age) for client in ("openai", "litellm") for age in ("newest", "oldest"))
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


async def session(client: str, python: Path, name: str, door: Door) -> bool:
    command = [str(python), str(HERE / f"session_{client}.py"), *door, name]
    process = await asyncio.create_subprocess_exec(*command)
    return await process.wait() == 0


async def run_all(environments: list[tuple[str, Path]], folder: Path) -> bool:
    """Run the session of every client's environment on every server, and tell whether all passed."""
    passed = []
    for client, python in environments:
        async with AsyncExitStack() as stack:
            doors = {
                "mock": await stack.enter_async_context(mock_server()),
                "hosted": await stack.enter_async_context(hosted_model()),
                "limited": await stack.enter_async_context(
                    hosted_model(tokens_total=None, requests_per_minute=1, queue_seconds=0)
                ),
                "broken": await stack.enter_async_context(hosted_model(FakeProvider(breaks_off=True))),
            }
            addresses = {name: (str(door.base_url), "any") for name, door in doors.items()}
            state = Path(await asyncio.to_thread(tempfile.mkdtemp, dir=folder))
            addresses["session"] = await stack.enter_async_context(served_session(state))
            passed += [await session(client, python, name, address) for name, address in addresses.items()]
    return all(passed)


def run() -> int:
    """Return the exit status. Raises Missing where an environment cannot be made."""
    environments = [
        (client, environment(f"{client}-{age}", HERE / f"{client}-{age}.txt")) for client, age in CLIENTS
    ]
    with tempfile.TemporaryDirectory(prefix="steelyard-openai-") as folder:
        return 0 if asyncio.run(run_all(environments, Path(folder))) else 1


if __name__ == "__main__":
    sys.exit(run())
