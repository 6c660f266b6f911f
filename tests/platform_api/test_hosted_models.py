"""Hosted models in the API: which may be made, what they have spent, and how the command line shows it."""

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from steelyard.client import Client, presets
from steelyard_common.types import Json
from steelyard_evaluation.hosted.book import Book
from steelyard_evaluation.hosted.ledger import CallTotals, Ledger, Tokens
from steelyard_evaluation.storage.store import Store
from steelyard_schema.egress import EgressSettings
from tests.platform_api.memory_platform import NOW, MemoryPlatform, make_platform, service
from tests.platform_api.test_command_line import said, steelyard
from tests.platform_api.test_served import served

EGRESS = EgressSettings(services=("models.example",))
PRICES = {"input_price": "1", "output_price": "10"}


def hosted(url: str = "https://models.example/v1", **limits: Any) -> Json:
    return {**service(), "runner": presets.hosted(url, "large", **limits).dump()}


@pytest.fixture
async def platform() -> AsyncIterator[MemoryPlatform]:
    async with make_platform(egress=EGRESS) as made:
        yield made


async def spend(store: Store, id: str, *entries: tuple[str, CallTotals, Tokens | None]) -> None:
    """Write entries of a service's ledger."""
    book = Book(store, f"inferenceservices/{id}")
    for writer, spent, held in entries:
        last = book.last or Ledger(NOW.date())
        assert await book.add(last.after(writer, spent, held, NOW))


async def test_a_hosted_model_is_a_service_that_the_published_schema_knows(platform: MemoryPlatform) -> None:
    from dyff.schema.v0.r1 import platform as published

    made = await platform.created("inferenceservices", **hosted(tokens_total=500))
    parsed = published.InferenceService.model_validate(made)
    assert parsed.runner
    assert parsed.runner.args == [
        *("--base-url", "https://models.example/v1", "--model", "large"),
        *("--tokens-total", "500"),
    ]


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"args": ["--model", "m"]}, "runner.args", "--base-url: is missing"),
        ({"args": ["--api-key", "k"]}, "runner.args", "--api-key: there is no such option"),
        ({"command": ["sh"]}, "runner.command", "a hosted model has none"),
        (hosted("https://elsewhere.example/v1")["runner"], "runner.args", "egress.services"),
        (hosted("http://models.example/v1")["runner"], "runner.args", "is not allowed"),
        (hosted("https://me:pw@models.example/v1")["runner"], "runner.args", "no user or password"),
    ],
    ids=["no address", "a key", "a command", "another host", "without TLS", "a password"],
)
async def test_a_wrong_one_is_refused(
    platform: MemoryPlatform, changes: Json, field: str, words: str
) -> None:
    request = {"account": "acme", **hosted()}
    request["runner"] = request["runner"] | changes
    refused = await platform.admin.post("/inferenceservices", json=request)
    assert (refused.status_code, refused.json()["field"]) == (422, field)
    assert words in refused.json()["detail"]
    assert "pw" not in refused.text


async def test_spending_is_what_the_ledger_says(platform: MemoryPlatform) -> None:
    limits: dict[str, Any] = {**PRICES, "cost_per_day": "2", "tokens_total": 10_000}
    made = await platform.created("inferenceservices", **hosted(**limits))
    path = f"/inferenceservices/{made['id']}/spending"
    nothing = {"calls": 0, "estimatedCalls": 0, "inputTokens": 0, "outputTokens": 0, "cost": "0.00"}
    before = (await platform.admin.get(path)).json()
    assert (before["today"], before["total"], before["heldTokens"]) == (nothing, nothing, 0)
    await spend(
        platform.engines.store,
        made["id"],
        ("one", CallTotals(2, Tokens(100, 40), estimated=1), Tokens(0, 0)),
        ("killed", CallTotals(1, Tokens(10, 5)), Tokens(20, 30)),
    )
    after = (await platform.admin.get(path)).json()
    assert after["total"] == after["today"] == {
        "calls": 3, "estimatedCalls": 1, "inputTokens": 110, "outputTokens": 45, "cost": "0.00056",
    }  # fmt: skip
    assert (after["heldTokens"], after["heldCost"]) == (50, "0.00032")
    assert after["caps"] == {"tokensTotal": 10_000, "costPerDay": "2.00"}
    assert (after["service"], after["currency"], after["day"]) == (made["id"], "USD", "2030-01-01")


async def test_a_new_day_begins_without_an_entry(platform: MemoryPlatform) -> None:
    made = await platform.created("inferenceservices", **hosted())
    await spend(platform.engines.store, made["id"], ("one", CallTotals(1, Tokens(1, 1)), None))
    platform.engines.clock.now += timedelta(days=1)
    after = (await platform.admin.get(f"/inferenceservices/{made['id']}/spending")).json()
    assert (after["day"], after["today"]["calls"], after["total"]["calls"]) == ("2030-01-02", 0, 1)
    assert "cost" not in after["total"]


async def test_another_runner_spends_nothing(platform: MemoryPlatform) -> None:
    made = await platform.created("inferenceservices", **service())
    refused = await platform.admin.get(f"/inferenceservices/{made['id']}/spending")
    assert (refused.status_code, refused.json()["reason"]) == (409, "Conflict")
    assert "is not a hosted model" in refused.json()["detail"]


async def test_the_command_line_shows_what_was_spent(tmp_path: Path) -> None:
    async with served(tmp_path, egress=EGRESS) as to:
        assert await said(to, "spend") == "no inference service is a hosted model"
        file = tmp_path / "services.json"
        kinds: list[Json] = [
            {**hosted(**PRICES, cost_total="5"), "name": "priced"},
            {**hosted(tokens_per_day=9000), "name": "counted"},
            {**service(), "name": "own"},
        ]
        items = [{"kind": "InferenceService", "account": "acme", **fields} for fields in kinds]
        file.write_text(json.dumps({"kind": "List", "items": items}))
        ids = [line.split("/")[1] for line in (await said(to, "create", "-f", str(file))).splitlines()]
        await spend(to.engines.store, ids[0], ("one", CallTotals(2, Tokens(100, 40)), None))
        shown = [line.split() for line in (await said(to, "spend")).splitlines()]
        rows = {row[1]: row for row in shown[1:]}
        assert " ".join(rows["priced"][1:]) == "priced 2 140 0 0.0005 USD 0.0005 USD - 5.00 USD"
        assert " ".join(rows["counted"][1:]) == "counted 0 0 0 0 tokens 0 tokens 9000 tokens -"
        assert {row[0] for row in rows.values()} == {id[:8] for id in ids[:2]}
        one = json.loads(await said(to, "spend", "priced", "-o", "json"))
        assert (one["id"], one["total"]["cost"]) == (ids[0], "0.0005")
        refused: Result = await steelyard(to, "spend", "own")
        assert refused.exit_code == 1
        assert "is not a hosted model" in str(refused.exception)


async def test_the_client_returns_it(tmp_path: Path) -> None:
    import asyncio

    def asked(url: str, token: str) -> int:
        with Client(url, token) as client:
            made = client.inferenceservices.create(account="acme", **hosted())
            return client.inferenceservices.spending(made.id).total.calls

    async with served(tmp_path, egress=EGRESS) as to:
        assert await asyncio.to_thread(asked, to.url, to.token) == 0
