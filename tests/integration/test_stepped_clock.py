"""The clock that the story's soak steps is what every process of a machine sees; else a soak of it proves nothing."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from steelyard.kube.resource import CONFIG_MAPS, LEASES, PODS, Json
from steelyard.local.controllers.decision import parse_time
from steelyard.local.kubelet.testing import make_container, make_pod
from steelyard.local.sleeps import read_sleeps
from tests.integration.conftest import Machine
from tests.stepped_clock import SteppedClock, stepped_clock

pytestmark = pytest.mark.e2e
AHEAD = timedelta(hours=3)
NEAR = timedelta(minutes=10)


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
        **await leaders(machine),
    }
    now = datetime.now(UTC)
    assert [who for who, time in seen.items() if abs(time - AHEAD - now) > NEAR] == [], seen
    before = await machine.until(CONFIG_MAPS, "before", bool)
    assert abs(parse_time(before["metadata"]["creationTimestamp"]) - now) < NEAR, "it stood where it should"


async def slept(machine: Machine) -> datetime:
    """The end of the sleep for which the supervisor takes a step ahead."""
    async with asyncio.timeout(60):
        while not (sleeps := read_sleeps(machine.state).known):  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.05)
    return sleeps[-1].until


async def leaders(machine: Machine) -> dict[str, datetime]:
    """When, by their own clocks, the operator and the platform's services have last renewed their leases."""
    async with asyncio.timeout(60), machine.cluster() as cluster:
        while True:
            leases = (await cluster.list(LEASES)).items
            renewed = {lease["metadata"]["name"]: renewal(lease) for lease in leases}
            if renewed and min(renewed.values()) - datetime.now(UTC) > NEAR:
                return renewed
            await asyncio.sleep(0.05)


def renewal(lease: Json) -> datetime:
    return parse_time(lease["spec"]["renewTime"])
