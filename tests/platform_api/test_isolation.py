"""Secrets, webhooks, data sources and bills of one account, which another one neither finds nor uses."""

from collections.abc import AsyncIterator
from decimal import Decimal

import httpx
import pytest

from steelyard.api.settings import ApiSettings
from steelyard_common.types import Json
from steelyard_evaluation.hosted.ledger import CallTotals, Tokens
from steelyard_schema.egress import EgressSettings
from tests.platform_api.memory_platform import HOOKS, MemoryPlatform, data_source, grant, make_platform
from tests.platform_api.test_hosted_models import PRICES, hosted, spend

EGRESS = EgressSettings(webhooks=HOOKS.webhooks, networks=HOOKS.networks, services=("models.example",))
VALUE = "a-distinctive-value"
URL = "https://hooks.example.org/a-distinctive-path"


@pytest.fixture
async def platform() -> AsyncIterator[MemoryPlatform]:
    async with make_platform(settings=ApiSettings(access_log=True), egress=EGRESS) as made:
        yield made


async def furnished(platform: MemoryPlatform) -> Json:
    """The account acme with one of everything; ids by what they are of."""
    account = (await platform.admin.post("/accounts", json={"name": "acme"})).json()["id"]
    assert (await platform.admin.put("/accounts/acme/secrets/token", json={"value": VALUE})).is_success
    webhook = (await platform.admin.post(f"/accounts/{account}/webhooks", json={"url": URL})).json()
    source = await platform.created("datasources", **data_source(), secrets={"source": "token"})
    service = await platform.created(
        "inferenceservices", **hosted(tokens_total=1000, **PRICES), secrets={"provider": "token"}
    )
    await spend(platform.engines.store, service["id"], ("w", CallTotals(1, Tokens(10, 5)), None))
    return {
        "account": account,
        "webhook": webhook["webhook"]["id"],
        "source": source["id"],
        "service": service["id"],
    }


async def test_another_account_finds_nothing_of_it(
    platform: MemoryPlatform, caplog: pytest.LogCaptureFixture
) -> None:
    made = await furnished(platform)
    stranger = await platform.holder(grant("*", ["*"], ["other"]), account="other")
    caplog.set_level("DEBUG")
    caplog.clear()
    account, service = f"/accounts/{made['account']}", f"/inferenceservices/{made['service']}"
    for path in (
        *(account, f"{account}/webhooks", f"{account}/webhooks/{made['webhook']}"),
        *("/accounts/acme/secrets", f"/datasources/{made['source']}", service),
        *(f"/datasources/{made['source']}/{part}" for part in ("downlinks", "logs", "progress")),
        f"{service}/spending",
    ):
        assert (await platform.admin.get(path)).status_code != 404 or path.endswith("/logs"), path
        response = await stranger.get(path)
        assert response.status_code == 404, path
        assert URL not in response.text
    for plural, id in (("datasources", made["source"]), ("inferenceservices", made["service"])):
        for params in ({}, {"id": id}, {"account": "acme"}, {"query": '[{"account": "acme"}]'}):
            assert (await stranger.get(f"/{plural}", params=params)).json() == []
    assert VALUE not in caplog.text
    assert URL not in caplog.text


async def test_another_account_uses_nothing_of_it(platform: MemoryPlatform) -> None:
    made = await furnished(platform)
    stranger = await platform.holder(grant("*", ["*"], ["other"]), account="other")
    session = {"inferenceService": made["service"]}
    rows = await created(stranger, "datasets", name="rows", dataSource=await own_source(stranger))
    await refused(stranger, "datasets", 422, name="rows", dataSource=made["source"])
    await refused(stranger, "evaluations", 422, dataset=rows, inferenceSession=session)
    await refused(stranger, "inferencesessions", 422, inferenceService=made["service"])
    await refused(stranger, "datasources", 422, **data_source(), secrets={"source": "token"})
    response = await stranger.post(
        "/datasources", json={"account": "acme", **data_source(), "secrets": {"source": "token"}}
    )
    assert response.status_code == 403
    total = (await platform.admin.get(f"/inferenceservices/{made['service']}/spending")).json()["total"]
    assert (total["calls"], Decimal(total["cost"])) == (1, Decimal("0.00006"))


async def own_source(client: httpx.AsyncClient) -> str:
    return await created(client, "datasources", **data_source())


async def created(client: httpx.AsyncClient, plural: str, **fields: object) -> str:
    response = await client.post(f"/{plural}", json={"account": "other", **fields})
    assert response.status_code == 200, response.text
    return str(response.json()["id"])


async def refused(client: httpx.AsyncClient, plural: str, status: int, **fields: object) -> None:
    response = await client.post(f"/{plural}", json={"account": "other", **fields})
    assert response.status_code == status, f"{plural}: {response.text}"
    assert "acme" not in response.text
