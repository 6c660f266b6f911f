"""AppWrappers by the client: their life, and each reaction to failures."""

from functools import partial
from typing import Any

import pytest

from steelyard.clusters import AppWrapperConfig, AsyncClient, FaultTolerance, errors
from steelyard.clusters.queues.view import QueuePosition
from tests.engines.operators.making import SECONDS, Queues, cluster, job_part, until
from tests.kubernetes_api.api import Api

QUICK: dict[str, Any] = {
    "failure_grace_seconds": 0,
    "retry_pause_seconds": 0,
    "deletion_on_failure_grace_seconds": 0,
}


def wrapper(
    program: str, name: str = "demo", *, queue: str | None = None, **values: object
) -> AppWrapperConfig:
    tolerance = FaultTolerance(**{**QUICK, **values})
    return AppWrapperConfig(
        name=name, parts=(job_part(f"{name}-part", program),), queue=queue, fault_tolerance=tolerance
    )


async def test_it_succeeds_with_its_parts_which_go_after_its_time(
    client: AsyncClient, api: Api, namespace: str
) -> None:
    await client.appwrappers.create(wrapper("print(1)", success_ttl_seconds=5))
    done = await client.appwrappers.wait("demo", until="Succeeded", timeout=SECONDS, poll=0.2)
    assert (done.phase, done.retries, done.reason) == ("Succeeded", 0, "")
    await api.gone(f"/apis/batch/v1/namespaces/{namespace}/jobs/demo-part")
    assert (await client.appwrappers.get("demo")).phase == "Succeeded"


async def test_a_part_that_fails_is_made_again_as_often_as_is_allowed(client: AsyncClient) -> None:
    await client.appwrappers.create(wrapper("raise SystemExit(3)", retry_limit=1))
    with pytest.raises(errors.Failed) as raised:
        await client.appwrappers.wait("demo", until="Succeeded", timeout=SECONDS, poll=0.1)
    assert (raised.value.status.phase, raised.value.status.retries) == ("Failed", 1)
    assert raised.value.status.reason


@pytest.mark.parametrize(
    ("code", "codes", "retries"),
    [
        (3, {"terminal_exit_codes": (3,)}, 0),
        (4, {"terminal_exit_codes": (3,)}, 1),
        (3, {"retryable_exit_codes": (4,)}, 0),
        (4, {"retryable_exit_codes": (4,)}, 1),
    ],
)
async def test_exit_codes_decide_whether_it_is_tried_again(
    client: AsyncClient, code: int, codes: dict[str, Any], retries: int
) -> None:
    await client.appwrappers.create(wrapper(f"raise SystemExit({code})", retry_limit=1, **codes))
    with pytest.raises(errors.Failed) as raised:
        await client.appwrappers.wait("demo", until="Succeeded", timeout=SECONDS, poll=0.1)
    assert raised.value.status.retries == retries


async def test_it_waits_for_the_quota_of_all_its_parts(client: AsyncClient, queues: Queues) -> None:
    await queues.make()
    sleep = "import time; time.sleep(1000)"
    await client.appwrappers.create(wrapper(sleep, "first", queue="team"))
    running = await client.appwrappers.wait("first", timeout=SECONDS, poll=0.2)
    assert running.queue == "team"
    both = (job_part("a", sleep), job_part("b", sleep))
    await client.appwrappers.create(AppWrapperConfig(name="second", parts=both, queue="team"))
    place = await until(partial(_place, client, "second"), lambda place: "cpu" in place.message)
    assert (place.position, place.queue) == (1, "team")
    assert (await client.appwrappers.get("second")).phase == "Suspended"
    await client.appwrappers.suspend("first")
    await until(lambda: client.appwrappers.get("first"), lambda status: status.phase == "Suspended")
    assert (await client.appwrappers.wait("second", timeout=SECONDS, poll=0.2)).phase == "Running"
    await client.appwrappers.resume("first")
    await until(partial(_place, client, "first"), lambda place: "cpu" in place.message)
    await client.appwrappers.delete("second")
    await client.appwrappers.wait("first", timeout=SECONDS, poll=0.2)


async def test_its_parts_come_and_go_with_it(client: AsyncClient, api: Api, namespace: str) -> None:
    config = AppWrapperConfig(name="demo", parts=(cluster("inside"), job_part("beside", "1")))
    await client.appwrappers.apply(config)
    await until(client.ray.clusters.list, lambda clusters: [status.name for status in clusters] == ["inside"])
    await api.eventually(lambda: _there(api, namespace, "beside"), "the Job")
    await client.appwrappers.suspend("demo")
    await until(client.ray.clusters.list, lambda clusters: not clusters)
    await client.appwrappers.resume("demo")
    await until(client.ray.clusters.list, lambda clusters: len(clusters) == 1)
    await client.appwrappers.delete("demo")
    await until(client.ray.clusters.list, lambda clusters: not clusters)
    await api.gone(f"/apis/batch/v1/namespaces/{namespace}/jobs/beside")


async def _place(client: AsyncClient, name: str) -> QueuePosition:
    """The place of an AppWrapper; none of any queue while Kueue has not seen it."""
    try:
        return await client.queues.place(name, kind="AppWrapper")
    except errors.NotFound:
        return QueuePosition("", "", 0, 0, "")


async def _there(api: Api, namespace: str, name: str) -> bool:
    return (await api.get(f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}")).status == 200
