"""A service that says it will answer nothing more ends the evaluation at once, with its reason."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from aiohttp import web

from steelyard_evaluation.engine.call import Failure, Fault
from steelyard_evaluation.engine.doubles import (
    FixedDiscovery,
    epoch,
    good_answer,
    make_environment,
    make_spec,
    make_stores,
    replica,
    write_dataset,
)
from steelyard_evaluation.engine.engine import evaluate
from steelyard_evaluation.engine.errors import EvaluationFailed
from steelyard_evaluation.engine.plan import compile_plan
from steelyard_evaluation.engine.settle import stop_in

STOP = b'{"error":{"type":"service_stopped","code":"SpendCapReached","message":"the cap is reached"}}'


@pytest.mark.parametrize(
    ("status", "body", "stops"),
    [
        (402, STOP, True),
        (424, STOP, True),
        (400, STOP, False),
        (429, STOP, False),
        (402, b'{"error":{"type":"other","code":"A","message":"b"}}', False),
        (402, b'{"error":{"type":"service_stopped","code":"two words","message":"b"}}', False),
        (402, b'{"error":{"type":"service_stopped","code":5,"message":"b"}}', False),
        (402, b'{"error":"service_stopped"}', False),
        (402, b"[]", False),
        (402, b"{", False),
    ],
)
def test_only_the_services_own_words_are_a_stop(status: int, body: bytes, stops: bool) -> None:
    assert (stop_in(Failure(Fault.REFUSED, "refused", status, body)) is not None) == stops


@pytest.mark.parametrize("policy", ["Abort", "Skip"])
async def test_an_evaluation_ends_where_its_service_stops(policy: str) -> None:
    stores, answered = make_stores(), 0
    await write_dataset(stores.dataset, 100)

    async def answer(row: Mapping[str, Any]) -> web.StreamResponse:
        nonlocal answered
        if answered >= 30:
            return web.Response(body=STOP, status=402, content_type="application/json")
        answered += 1
        return await good_answer(row)

    spec = make_spec(workersPerReplica=4, client={"badRequestPolicy": policy})
    async with replica(answer) as server, asyncio.timeout(60):
        with pytest.raises(EvaluationFailed) as error:
            await evaluate(
                compile_plan(spec), stores, FixedDiscovery({server.address}), epoch(1), make_environment()
            )
    assert (error.value.code, error.value.permanent) == ("SpendCapReached", True)
    assert error.value.message == "the cap is reached; 30 of 100 rows are done"
