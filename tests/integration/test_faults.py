"""Services that misbehave, on one machine: each Evaluation ends as its policy says, and says why."""

import json
from collections.abc import Iterator, Sequence

import pyarrow.parquet as pq
import pytest

from steelyard_common.types import Json
from steelyard_kube.resource import EVALUATIONS, JOBS, PODS
from tests.integration.conftest import Machine, is_true, machine_at
from tests.integration.manifests import check_output, make_evaluation, output_folder, write_dataset

ROWS = 300

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine that is up, with the dataset; the Evaluations are apart by their names."""
    with machine_at(tmp_path_factory.mktemp("running") / "state") as machine:
        machine.up("platform")
        write_dataset(machine.state.storage, ROWS)
        yield machine


async def run(
    machine: Machine, name: str, runner: Sequence[str], client: Json, *, replicas: int = 2
) -> tuple[Json, Json]:
    """The evaluation's manifest, and the resource once it has finished."""
    evaluation = make_evaluation(name, runner=list(runner), client=client, replicas=replicas)
    await machine.create(EVALUATIONS, evaluation)
    return evaluation, await machine.until(EVALUATIONS, name, is_true("Finished"), 60)


def condition(obj: Json, kind: str) -> Json:
    (matching,) = (condition for condition in obj["status"]["conditions"] if condition["type"] == kind)
    return dict(matching)


async def test_a_row_that_is_always_refused_aborts(running: Machine) -> None:
    evaluation, ended = await run(
        running, "aborts", ["--bad-text", '"label":123}'], {"badRequestPolicy": "Abort", "batchSize": 20}
    )
    failed = condition(ended, "Failed")
    assert (failed["status"], failed["reason"]) == ("True", "BadRequest")
    assert "123" in failed["message"]
    parts = output_folder(running.state.storage, evaluation) / ".steelyard" / "parts"
    assert list(parts.glob("*.parquet")), "what was finished before is kept"


async def test_a_row_that_is_always_refused_is_skipped_and_recorded(running: Machine) -> None:
    evaluation, ended = await run(
        running, "skips", ["--bad-text", '"label":123}'], {"badRequestPolicy": "Skip"}
    )
    assert condition(ended, "Complete")["status"] == "True"
    output = output_folder(running.state.storage, evaluation)
    rows = pq.read_table(sorted(output.glob("part-*.parquet"))).to_pylist()
    assert [row["_index_"] for row in rows if row["responses"] is None] == [123]
    assert len(rows) == ROWS
    manifest = json.loads((output / ".steelyard" / "manifest.json").read_bytes())
    assert "123" in json.dumps(manifest) or list((output / ".steelyard" / "errors").glob("*.parquet"))


async def test_five_per_cent_of_refusals_are_tried_again(running: Machine) -> None:
    arguments = ["--error-rate", "0.05", "--error-status", "503"]
    evaluation, ended = await run(running, "refusals", arguments, {})
    assert condition(ended, "Complete")["status"] == "True", ended["status"]
    check_output(running.state.storage, evaluation, ROWS)


async def test_a_replica_that_dies_costs_only_its_calls(running: Machine) -> None:
    evaluation, ended = await run(running, "dies", ["--die-after", "100", "--latency-ms", "5"], {})
    assert condition(ended, "Complete")["status"] == "True", ended["status"]
    check_output(running.state.storage, evaluation, ROWS)
    async with running.cluster() as cluster:
        names = {job["metadata"]["name"] for job in (await cluster.list(JOBS, "default")).items}
        pods = {
            pod["metadata"]["name"]: pod["status"].get("containerStatuses")
            for pod in (await cluster.list(PODS, "default")).items
            if pod["metadata"]["name"].startswith("dies-client-")
        }
    jobs = {name for name in names if name.startswith("dies-")}
    assert jobs == {"dies-client-a1", "dies-verify-a1"}, f"the client itself did not go on: {pods}"


async def test_a_replica_that_listens_on_all_addresses_fails_the_evaluation(running: Machine) -> None:
    # A port that is free on all addresses: Pods of other tests listen on the usual one at addresses of their own.
    _, ended = await run(running, "bound", ["--bind-all", "--port", "0"], {}, replicas=1)
    failed = condition(ended, "Failed")
    assert (failed["status"], failed["reason"]) == ("True", "SessionFailed")
    assert "BoundToAllAddresses" in failed["message"]
