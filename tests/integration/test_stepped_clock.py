"""A machine whose clock is set: that every process of it sees the step (else a soak of it proves nothing), and that an
evaluation ends well over it.
"""

import asyncio
import os
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from steelyard.local.sleeps import read_sleeps
from steelyard.local.state import read_record
from steelyard_common.types import Json
from steelyard_kube.resource import CONFIG_MAPS, LEASES, PODS
from steelyard_kube.times import parse_time
from steelyard_local_kubernetes.kubelet import heartbeat
from steelyard_local_kubernetes.kubelet.testing import make_container, make_pod
from tests.integration import small
from tests.integration.conftest import Machine
from tests.integration.test_full_disk import client_runs, complete
from tests.integration.test_platform_kills import jobs_of, strike
from tests.stepped_clock import SteppedClock, stepped_clock

pytestmark = pytest.mark.e2e
AHEAD = timedelta(hours=3)
NEAR = timedelta(minutes=10)
HOUR = 3600.0


@pytest.fixture
def clock(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> SteppedClock:
    machine.state.path.mkdir()
    clock = stepped_clock(machine.state.path, monkeypatch)
    if clock is None:
        pytest.skip("there is no C compiler (cc), so no clock that can be stepped")
    return clock


async def test_every_process_of_a_machine_sees_the_step(machine: Machine, clock: SteppedClock) -> None:
    machine.up()
    await machine.create(CONFIG_MAPS, {"metadata": {"name": "before", "namespace": "default"}})
    clock.step(AHEAD.total_seconds())
    container = make_container(command=["python", "-c", "import time; print(time.time(), end='')"])
    container["terminationMessagePolicy"] = "FallbackToLogsOnError"
    container["command"][-1] += "; raise SystemExit(1)"
    await machine.create(PODS, make_pod(container))
    pod = await machine.until(PODS, "pod", lambda pod: pod["status"].get("phase") == "Failed")
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    seen = {
        "the API server": parse_time(pod["metadata"]["creationTimestamp"]),
        "the kubelet": parse_time(pod["status"]["startTime"]),
        "the shim": parse_time(ended["startedAt"]),
        "the container": datetime.fromtimestamp(float(ended["message"]), UTC),
        "the supervisor": await slept(machine),
        **await leaders(machine, AHEAD),
    }
    now = datetime.now(UTC)
    assert [who for who, time in seen.items() if abs(time - AHEAD - now) > NEAR] == [], seen
    before = await machine.until(CONFIG_MAPS, "before", bool)
    assert abs(parse_time(before["metadata"]["creationTimestamp"]) - now) < NEAR, "it stood where it should"


@pytest.mark.timeout(1200)
async def test_an_evaluation_ends_well_though_the_clock_is_set(
    machine: Machine, clock: SteppedClock, tmp_path: Path
) -> None:
    """Ahead, when it is not written down before a kill; then back, before connections are made again."""
    machine.up()
    with machine.client(tries=60) as client:
        arguments = ("--latency-ms", "2000")
        making = asyncio.to_thread(small.make, client, tmp_path / "rows", rows=100, arguments=arguments)
        made, _ = await asyncio.gather(making, client_runs(machine))
        os.kill(read_record(machine.state).pid, signal.SIGSTOP)
        clock.step(20 * HOUR)
        await asyncio.to_thread(strike, machine, "supervisor")
        clock.step(-23 * HOUR)
        await asyncio.to_thread(strike, machine, "platform")
        await leaders(machine, timedelta(hours=-3))
        await complete(client, made)
    attempts = [job["metadata"]["name"].rpartition("-")[2] for job in await jobs_of(machine)]
    assert attempts == ["a1"] * 3


async def slept(machine: Machine) -> datetime:
    """The end of the sleep for which the supervisor takes a step ahead."""
    async with asyncio.timeout(60):
        while not (sleeps := read_sleeps(machine.state).known):  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.05)
    return sleeps[-1].until


async def leaders(machine: Machine, ahead: timedelta) -> dict[str, datetime]:
    """Return when, by their own clocks, the operator and the platform's services last renewed their leases.

    Returned once all have done so while their clocks were so far ahead.
    """
    async with asyncio.timeout(120), machine.cluster() as cluster:
        while True:
            leases = [lease for lease in (await cluster.list(LEASES)).items if leads(lease)]
            renewed = {lease["metadata"]["name"]: renewal(lease) for lease in leases}
            late = [abs(time - ahead - datetime.now(UTC)) > NEAR for time in renewed.values()]
            if renewed and not any(late):
                return renewed
            await asyncio.sleep(0.05)


def leads(lease: Json) -> bool:
    """Distinguish a leader's Lease from the Node's, which is renewed once in minutes."""
    return bool(lease["metadata"]["namespace"] != heartbeat.NAMESPACE)


def renewal(lease: Json) -> datetime:
    return parse_time(lease["spec"]["renewTime"])
