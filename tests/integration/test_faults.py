"""Services that misbehave, on one machine: each Evaluation ends as its policy says, and says why."""

import json
from collections.abc import Sequence

import pyarrow.parquet as pq
import pytest

from steelyard.kube.resource import EVALUATIONS, JOBS
from steelyard.types import Json
from tests.integration.conftest import Machine, is_true
from tests.integration.manifests import check_output, make_evaluation, output_folder, write_dataset

ROWS = 300

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]


async def run(
    machine: Machine, runner: Sequence[str], client: Json, *, replicas: int = 2
) -> tuple[Json, Json]:
    """The evaluation's manifest, and the resource once it has finished."""
    machine.up()
    write_dataset(machine.state.storage, ROWS)
    evaluation = make_evaluation("faults", runner=list(runner), client=client, replicas=replicas)
    await machine.create(EVALUATIONS, evaluation)
    return evaluation, await machine.until(EVALUATIONS, "faults", is_true("Finished"), 60)


def condition(obj: Json, kind: str) -> Json:
    (matching,) = (condition for condition in obj["status"]["conditions"] if condition["type"] == kind)
    return dict(matching)


async def test_a_row_that_is_always_refused_aborts(machine: Machine) -> None:
    evaluation, ended = await run(
        machine, ["--bad-text", '"label":123}'], {"badRequestPolicy": "Abort", "batchSize": 20}
    )
    failed = condition(ended, "Failed")
    assert (failed["status"], failed["reason"]) == ("True", "BadRequest")
    assert "123" in failed["message"]
    parts = output_folder(machine.state.storage, evaluation) / ".steelyard" / "parts"
    assert list(parts.glob("*.parquet")), "what was finished before is kept"


async def test_a_row_that_is_always_refused_is_skipped_and_recorded(machine: Machine) -> None:
    evaluation, ended = await run(machine, ["--bad-text", '"label":123}'], {"badRequestPolicy": "Skip"})
    assert condition(ended, "Complete")["status"] == "True"
    output = output_folder(machine.state.storage, evaluation)
    rows = pq.read_table(sorted(output.glob("part-*.parquet"))).to_pylist()
    assert [row["_index_"] for row in rows if row["responses"] is None] == [123]
    assert len(rows) == ROWS
    manifest = json.loads((output / ".steelyard" / "manifest.json").read_bytes())
    assert "123" in json.dumps(manifest) or list((output / ".steelyard" / "errors").glob("*.parquet"))


async def test_five_per_cent_of_refusals_are_tried_again(machine: Machine) -> None:
    arguments = ["--error-rate", "0.05", "--error-status", "503"]
    evaluation, ended = await run(machine, arguments, {})
    assert condition(ended, "Complete")["status"] == "True", ended["status"]
    check_output(machine.state.storage, evaluation, ROWS)


async def test_a_replica_that_dies_costs_only_its_calls(machine: Machine) -> None:
    evaluation, ended = await run(machine, ["--die-after", "100", "--latency-ms", "5"], {})
    assert condition(ended, "Complete")["status"] == "True", ended["status"]
    check_output(machine.state.storage, evaluation, ROWS)
    async with machine.cluster() as cluster:
        jobs = {job["metadata"]["name"] for job in (await cluster.list(JOBS, "default")).items}
    assert jobs == {"faults-client-a1", "faults-verify-a1"}, "the client itself went on"


async def test_a_replica_that_listens_on_all_addresses_fails_the_evaluation(machine: Machine) -> None:
    _, ended = await run(machine, ["--bind-all"], {}, replicas=1)
    failed = condition(ended, "Failed")
    assert (failed["status"], failed["reason"]) == ("True", "SessionFailed")
    assert "BoundToAllAddresses" in failed["message"]
