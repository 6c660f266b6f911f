"""Measurements and safety cases: both have an Analysis for their resource, and each its own entity's end."""

from collections.abc import AsyncIterator

import pytest

from steelyard.accounts.open import open_accounts_database
from steelyard.accounts.quotas import Quotas, QuotaSettings
from steelyard.kube.resource import ANALYSES
from steelyard.schema.base import DyffEntity
from steelyard.schema.names import namespace_of
from steelyard.services.simulation.entities import (
    ACCOUNT,
    make_dataset,
    make_measurement,
    make_method,
    make_method_fields,
    make_module,
    make_safety_case,
)
from steelyard.services.simulation.platform import Bench, until

MEASUREMENT = make_measurement("n1")
CASE = make_safety_case(
    "f1",
    inputs=[{"keyword": "data", "entity": "n1"}],
    method=make_method_fields(inputs=[{"keyword": "data", "kind": "Measurement"}]),
)
"""A safety case of the measurement."""


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    accounts_database = await open_accounts_database("memory:")
    bench = Bench(accounts_database.claims, Quotas(QuotaSettings()))
    bench.aggregate()
    bench.inform()
    yield bench
    await bench.close()
    await accounts_database.close()


async def has_status(bench: Bench, entity: DyffEntity, status: str, reason: str | None = None) -> None:
    async def holds() -> bool:
        if await bench.status(entity.id) != status:
            return False
        return (await bench.entity(entity.id)).reason == reason

    await until(holds)


async def test_they_wait_for_code_and_data_and_each_ends_by_its_own_analysis(bench: Bench) -> None:
    bench.start()
    module = make_module(status="WaitingForUpload")
    await bench.create(CASE, MEASUREMENT, make_method(), make_dataset(status="Ready"), module)

    async def waits() -> bool:
        return "waiting for Module counting, whose upload" in await bench.message("n1")

    await until(waits)
    await bench.update_status(module, "Ready")
    await has_status(bench, MEASUREMENT, "Admitted")
    namespace = namespace_of(ACCOUNT)
    assert bench.cluster.store.find(ANALYSES, "measurement-n1", namespace)
    assert bench.resource(CASE) is None
    assert await bench.status("f1") == "Created"
    bench.finish(MEASUREMENT)
    await has_status(bench, MEASUREMENT, "Complete")
    await has_status(bench, CASE, "Admitted")
    assert bench.cluster.store.find(ANALYSES, "safetycase-f1", namespace)
    bench.set_condition(CASE, "Failed", "MethodFailed", "ValueError: no rows")
    await has_status(bench, CASE, "Failed", "MethodFailed")
    assert await bench.message("f1") == "ValueError: no rows"
    assert (bench.creations(MEASUREMENT), bench.creations(CASE)) == (1, 1)


async def test_its_analysis_goes_with_it_and_comes_back_while_it_runs(bench: Bench) -> None:
    bench.start()
    await bench.create(MEASUREMENT, make_method(), make_dataset(status="Ready"), make_module(status="Ready"))
    await has_status(bench, MEASUREMENT, "Admitted")
    bench.remove(MEASUREMENT)
    await until(lambda: bench.resource(MEASUREMENT) is not None)
    await bench.update_status(MEASUREMENT, "Terminated", "TerminateCommand")

    async def gone() -> bool:
        claim = await bench.claim("n1")
        return claim is not None and claim.released_at is not None and bench.resource(MEASUREMENT) is None

    await until(gone)
    assert bench.creations(MEASUREMENT) == 2
