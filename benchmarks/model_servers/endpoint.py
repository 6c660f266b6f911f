"""A session's endpoint beside its replica, where the replica is a double with a real server's latency.

The double waits and takes hardly any processor time, so that what the endpoint itself costs shows: in answered rows,
and in processor time of the platform's process for each request. Called by `__main__.py`.
"""

import asyncio
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.machine.__main__ import processor
from steelyard.client import AsyncClient, presets
from steelyard.local.detached import start_detached, stop
from steelyard.local.state import Ready, StateDir, read_record
from steelyard_kube.client import connect
from steelyard_kube.resource import PODS
from tests.integration.small import ACCOUNT

RATE = 310.0
"""Answers a second of the double, however many calls are in flight: those of the real vLLM on two cores."""
READY_SECONDS = 120.0
Loop = tuple[str, str, str, Mapping[str, str]]
"""Kind of loop, calls in flight, base URL, environment."""


async def begin_session(ready: Ready, state: StateDir, calls: int) -> tuple[str, str, str]:
    """Return the endpoint's URL, its token, and the replica's URL, of a double that answers so many calls at RATE."""
    latency = f"{1000 * calls / RATE:.0f}"
    async with AsyncClient(ready.api, ready.token) as client:
        service = await client.inferenceservices.create(
            account=ACCOUNT,
            name=f"double-{calls}",
            runner=presets.mock("--latency-ms", latency),
            interface=presets.chat(),
        )
        made = await client.inferencesessions.create(
            account=ACCOUNT, inferenceService=service.id, useSpotPods=False
        )
        id = made.inferencesession.id
        await client.inferencesessions.wait(id, timeout=READY_SECONDS)
    return f"{ready.api}/inferencesessions/{id}/infer/v1", made.token, await replica_url(state.path, id)


async def replica_url(state: Path, session: str = "") -> str:
    """Base URL of the one Pod that serves a model; of the one of a session, where there are several."""
    cluster = await connect(state / "kubeconfig")
    try:
        for pod in (await cluster.list(PODS)).items:
            for container in pod["spec"]["containers"]:
                for port in container.get("ports") or ():
                    if pod["status"].get("phase") == "Running" and session in pod["metadata"]["name"]:
                        return f"http://{pod['status']['podIP']}:{port['containerPort']}/v1"
    finally:
        await cluster.close()
    raise AssertionError("no Pod serves a port")


def measure(
    folder: Path,
    scratch: Path,
    rows: int,
    rounds: int,
    calls: Sequence[int],
    rate: Callable[[Loop, Path, int], float],
) -> dict[str, float]:
    """Rows a second at the double and through its session, and the platform's microseconds for each request."""
    state = StateDir(scratch / "state-double")
    figures: dict[str, float] = {}
    try:
        ready = start_detached(state.path)
        platform = [read_record(state).children["platform"][0]]
        for number in calls:
            url, token, replica = asyncio.run(begin_session(ready, state, number))
            loops: Mapping[str, Loop] = {
                "replica": ("bare", str(number), replica, {}),
                "session": ("bare", str(number), url, {"OPENAI_API_KEY": token}),
            }
            rate(loops["session"], folder, rows)
            rates: dict[str, list[float]] = {name: [] for name in loops}
            used: list[float] = []
            for _ in range(rounds):
                for name, loop in loops.items():
                    before = processor(platform)
                    rates[name].append(rate(loop, folder, rows))
                    if name == "session":
                        used.append((processor(platform) - before) / rows * 1e6)
            figures |= {f"{name}, {number}": max(measured) for name, measured in rates.items()}
            pairs = zip(rates["session"], rates["replica"], strict=True)
            figures[f"median share, {number}"] = statistics.median(ours / theirs for ours, theirs in pairs)
            figures[f"processor, {number}"] = min(used)
    finally:
        stop(state.path)
    return figures
