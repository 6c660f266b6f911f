"""Quotas that requests set: two API servers and an orchestrator keep to them, and follow when they change."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

import httpx
import orjson
import pytest

from steelyard.accounts.quota_settings import ADMITTED, GLOBAL
from steelyard.accounts.quotas import QuotaSettings
from steelyard.services.orchestrator.rules import make_rules
from steelyard.services.simulation.platform import PlatformHarness
from steelyard_common.types import Json
from steelyard_kube.memory import MemoryCluster
from steelyard_schema.quota import quota_id
from tests.platform_api.memory_platform import MemoryPlatform, client_of, grant, make_platform, model

TOTAL = {"principal": "accounts/acme", "resource": ADMITTED, "flavor": "Total"}
RATE = {
    "principal": "accounts/acme",
    "resource": "models.dyff.io/created",
    "flavor": "Rate",
    "duration": "PT10M",
}


@asynccontextmanager
async def orchestrated(platform: MemoryPlatform, cluster: MemoryCluster) -> AsyncIterator[None]:
    """Run an orchestrator on the platform's engines."""
    engines = platform.engines
    settings = QuotaSettings.model_validate({"everything": {}, "account": {ADMITTED: "5"}})
    harness = PlatformHarness(
        engines.accounts_database.claims,
        make_rules(settings).limits,
        engines.log,
        cluster,
        rules=make_rules(settings),
    )
    harness.now = engines.clock.now
    task = harness.start()
    try:
        yield
    finally:
        task.cancel()
        with suppress(BaseException):
            await task


async def until(check: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await check():  # noqa: ASYNC110 (the orchestrator says nothing of its passes)
            await asyncio.sleep(0.02)


async def models(client: httpx.AsyncClient) -> list[Json]:
    listed: list[Json] = (await client.get("/models", params={"orderBy": "creationTime"})).json()
    return listed


async def put(client: httpx.AsyncClient, **fields: object) -> Json:
    answer = await client.post("/quotas", json=fields)
    assert answer.status_code == 200, answer.text
    made: Json = answer.json()
    return made


async def test_a_quota_is_the_one_that_the_published_client_expects(platform: MemoryPlatform) -> None:
    made = await put(platform.admin, **TOTAL, limit="2")
    assert made["id"] == quota_id("accounts/acme", ADMITTED, "Total")
    assert (made["account"], made["status"], made["limit"]) == ("__system__", "Ready", "2")
    again = await put(platform.admin, **TOTAL, limit="3")
    assert (again["id"], again["creationTime"], again["limit"]) == (made["id"], made["creationTime"], "3")
    assert (await platform.admin.get(f"/quotas/{made['id']}")).json() == again
    listed = await platform.admin.get("/quotas", params={"principal": "accounts/acme", "flavor": "Total"})
    assert listed.json() == [again]
    assert (await platform.admin.get("/quotas", params={"resource": "cpu"})).json() == []
    assert (await platform.admin.get(f"/quotas/{made['id']}/documentation")).status_code == 501
    label = await platform.admin.patch(
        f"/quotas/{made['id']}/labels", json={"labels": {"a": "b", "gone": None}}
    )
    assert label.json() == {"labels": {"a": "b"}}
    assert made["usage"] == "0"
    assert (await platform.admin.put(f"/quotas/{made['id']}/delete")).json()["status"] == "Deleted"
    assert "usage" not in (await platform.admin.get(f"/quotas/{made['id']}")).json()
    revived = await put(platform.admin, **TOTAL, limit="3")
    assert (revived["status"], revived["labels"]) == ("Ready", {"a": "b"})


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"principal": "acme"}, "principal"),
        ({"principal": "accounts/"}, "principal"),
        ({"limit": "100m"}, "body"),
        ({"limit": "-1"}, "limit"),
        ({"duration": "PT1M"}, "body"),
        ({"flavor": "Rate"}, "body"),
        ({"flavor": "Rate", "duration": "P400D"}, "duration"),
        ({"resource": "datasets.dyff.io/created"}, "resource"),
        ({"resource": "cpuu"}, "resource"),
        ({"resource": "gpu-t4"}, "resource"),
        ({"resource": "nvidia.com/"}, "resource"),
        ({"resource": "nvidia/gpu"}, "resource"),
        ({"resource": "workflows.dyff.io/admited"}, "resource"),
        ({"resource": "dyff.io/gpu"}, "resource"),
        ({"resource": "models.dyff.io/created"}, "duration"),
        ({"account": "acme"}, "account"),
    ],
)
async def test_a_quota_that_would_never_count_is_refused(
    platform: MemoryPlatform, fields: Json, field: str
) -> None:
    answer = await platform.admin.post("/quotas", json={**TOTAL, "limit": "2", **fields})
    assert (answer.status_code, answer.json()["field"]) == (422, field), answer.text


@pytest.mark.parametrize(
    "resource", ["cpu", "memory", ADMITTED, "evaluations.dyff.io/created", "nvidia.com/gpu-t4", "amd.com/gpu"]
)
async def test_what_workflows_hold_may_have_a_quota(platform: MemoryPlatform, resource: str) -> None:
    within = {"flavor": "Rate", "duration": "PT1M"} if resource.endswith("created") else {}
    made = await put(platform.admin, **{**TOTAL, **within, "resource": resource, "limit": "2"})
    assert made["resource"] == resource


async def test_grants_for_an_account_give_no_right_to_set_quotas(platform: MemoryPlatform) -> None:
    owner = await platform.holder(grant("quotas", ["*"], ["acme"]))
    assert (await owner.post("/quotas", json={**TOTAL, "limit": "100"})).status_code == 403
    steward = await platform.holder(grant("quotas", ["create", "get"], ["__system__"]))
    made = await put(steward, **TOTAL, limit="1")
    assert (await steward.get(f"/quotas/{made['id']}")).status_code == 200
    assert (await owner.get(f"/quotas/{made['id']}")).status_code == 404


async def put_known(platform: MemoryPlatform, client: httpx.AsyncClient, **fields: object) -> None:
    """Set a quota, and wait until the orchestrator, which follows the log, has it."""
    made = await put(client, **fields)

    async def known() -> bool:
        claim = await platform.engines.accounts_database.claims.get(made["id"])
        return claim is not None and orjson.loads(claim.json)["limit"] == made["limit"]

    await until(known)


async def test_two_servers_at_once_do_not_exceed_a_quota_which_is_then_raised(
    platform: MemoryPlatform,
) -> None:
    cluster = MemoryCluster()
    owner = await platform.holder(grant("*", ["*"], ["*"], ["*"]))
    token = owner.headers["authorization"].removeprefix("Bearer ")
    async with (
        orchestrated(platform, cluster),
        make_platform(platform.engines, services=False) as other,
        client_of(other.app, token) as second,
    ):
        await put_known(platform, owner, **TOTAL, limit="2")
        clients = (owner, second)
        body = {"account": "acme", **model()}
        answers = await asyncio.gather(*(clients[n % 2].post("/models", json=body) for n in range(8)))
        assert {answer.status_code for answer in answers} == {200}

        async def settled(admitted: int) -> bool:
            listed = await models(second)
            waiting = [entity for entity in listed if entity.get("reason") == "QuotaLimit"]
            done = [entity for entity in listed if entity["status"] == "Admitted"]
            assert len(done) <= admitted
            return (len(done), len(waiting)) == (admitted, 8 - admitted)

        await until(lambda: settled(2))
        for entity in await models(owner):
            if entity["status"] == "Created":
                assert entity["message"].startswith("Account quota exceeded: admitted workflows: 2/2")
        await put_known(platform, second, **TOTAL, limit="4")
        await until(lambda: settled(4))
        admitted = [entity for entity in await models(owner) if entity["status"] == "Admitted"]
        assert all("reason" not in entity and "message" not in entity for entity in admitted)
        await put_known(platform, owner, principal=GLOBAL, resource=ADMITTED, flavor="Total", limit="6")
        await put_known(platform, owner, **TOTAL, limit="Unlimited")
        await until(lambda: settled(6))
        usage = {quota["principal"]: quota["usage"] for quota in (await owner.get("/quotas")).json()}
        assert usage == {"accounts/acme": "6", GLOBAL: "6"}
        held = await platform.engines.accounts_database.claims.list_unfinished()
        assert len([claim for claim in held if claim.admitted_at]) == 6


async def test_what_is_created_beyond_a_rate_fails_holds_nothing_and_does_not_count(
    platform: MemoryPlatform,
) -> None:
    cluster = MemoryCluster()
    async with orchestrated(platform, cluster):
        await platform.created("models", **model())
        await put_known(platform, platform.admin, **RATE, limit="2")
        clients = [platform.admin] * 4
        body = {"account": "acme", **model()}
        await asyncio.gather(*(client.post("/models", json=body) for client in clients))

        async def count(admitted: int, failed: int) -> bool:
            listed = await models(platform.admin)
            over = [entity for entity in listed if entity.get("reason") == "RateLimitExceeded"]
            for entity in over:
                assert entity["status"] == "Error"
                assert entity["message"] == "Account quota exceeded: models created: 2/2 within 0:10:00"
                claim = await platform.engines.accounts_database.claims.get(entity["id"])
                assert claim is None or claim.admitted_at is None
            done = [entity for entity in listed if entity["status"] == "Admitted"]
            return (len(done), len(over)) == (admitted, failed)

        # The one from before the quota counts, and is not measured by it.
        await until(lambda: count(2, 3))

        async def counts(usage: str) -> bool:
            (rate,) = (await platform.admin.get("/quotas")).json()
            return (rate["usage"], rate["limit"]) == (usage, "2")

        # A refusal is shown a moment before the orchestrator, which reads it as well, has it among the claims.
        await until(lambda: counts("2"))
        platform.engines.clock.now += timedelta(minutes=11)
        await platform.created("models", **model())
        await until(lambda: count(3, 3))
        await until(lambda: counts("1"))
