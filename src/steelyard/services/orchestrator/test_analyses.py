"""Measurements and safety cases: both have an Analysis for their resource, and each its own entity's end."""

from collections.abc import AsyncIterator

import pytest

from steelyard.accounts.quotas import Quotas, QuotaSettings
from steelyard.services.simulation.entities import (
    ACCOUNT,
    make_dataset,
    make_measurement,
    make_method,
    make_method_fields,
    make_module,
    make_safety_case,
)
from steelyard.services.simulation.platform import PlatformHarness, open_harness, until
from steelyard_kube.resource import ANALYSES
from steelyard_schema.base import DyffEntity
from steelyard_schema.names import account_namespace

MEASUREMENT = make_measurement("n1")
CASE = make_safety_case(
    "f1",
    inputs=[{"keyword": "data", "entity": "n1"}],
    method=make_method_fields(inputs=[{"keyword": "data", "kind": "Measurement"}]),
)
"""A safety case of the measurement."""


@pytest.fixture
async def harness() -> AsyncIterator[PlatformHarness]:
    async with open_harness(Quotas(QuotaSettings())) as harness:
        harness.inform()
        yield harness


async def has_status(
    harness: PlatformHarness, entity: DyffEntity, status: str, reason: str | None = None
) -> None:
    async def holds() -> bool:
        if await harness.status(entity.id) != status:
            return False
        return (await harness.entity(entity.id)).reason == reason

    await until(holds)


async def test_they_wait_for_code_and_data_and_each_ends_by_its_own_analysis(
    harness: PlatformHarness,
) -> None:
    harness.start()
    module = make_module(status="WaitingForUpload")
    await harness.create(CASE, MEASUREMENT, make_method(), make_dataset(status="Ready"), module)

    async def waits() -> bool:
        return "waiting for Module counting, whose upload" in await harness.message("n1")

    await until(waits)
    await harness.update_status(module, "Ready")
    await has_status(harness, MEASUREMENT, "Admitted")
    namespace = account_namespace(ACCOUNT)
    assert harness.cluster.store.find(ANALYSES, "measurement-n1", namespace)
    assert harness.resource(CASE) is None
    assert await harness.status("f1") == "Created"
    harness.finish(MEASUREMENT)
    await has_status(harness, MEASUREMENT, "Complete")
    await has_status(harness, CASE, "Admitted")
    assert harness.cluster.store.find(ANALYSES, "safetycase-f1", namespace)
    harness.set_condition(CASE, "Failed", "MethodFailed", "ValueError: no rows")
    await has_status(harness, CASE, "Failed", "MethodFailed")
    assert await harness.message("f1") == "ValueError: no rows"
    assert (harness.creations(MEASUREMENT), harness.creations(CASE)) == (1, 1)


async def test_its_analysis_goes_with_it_and_comes_back_while_it_runs(harness: PlatformHarness) -> None:
    harness.start()
    await harness.create(
        MEASUREMENT, make_method(), make_dataset(status="Ready"), make_module(status="Ready")
    )
    await has_status(harness, MEASUREMENT, "Admitted")
    harness.remove(MEASUREMENT)
    await until(lambda: harness.resource(MEASUREMENT) is not None)
    await harness.update_status(MEASUREMENT, "Terminated", "TerminateCommand")

    async def gone() -> bool:
        claim = await harness.claim("n1")
        return claim is not None and claim.released_at is not None and harness.resource(MEASUREMENT) is None

    await until(gone)
    assert harness.creations(MEASUREMENT) == 2
