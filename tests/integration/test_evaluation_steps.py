"""The evaluation's two steps as processes of their own, killed at random moments."""

import asyncio
import json
import os
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from steelyard.steps.common import StepFailed
from steelyard.steps.evaluation_spec import evaluation_spec
from steelyard_common.types import JsonValue
from steelyard_evaluation.engine.doubles import (
    Replica,
    cut_short,
    free_host,
    good_answer,
    json_answer,
    make_expected_rows,
    make_spec,
    read_rows,
    replica,
    until,
    write_dataset,
)
from steelyard_evaluation.engine.manifest import read_manifest
from steelyard_evaluation.storage.checked import compute_sha256
from steelyard_evaluation.storage.store import open_store
from steelyard_schema.names import MANIFEST
from steelyard_schema.steps import EXIT_OK, EXIT_PERMANENT, EXIT_RETRY, epoch

NAME = "evaluation-test.default.svc"
IN_FLIGHT, BATCH = 8, 50


class StepSandbox:
    """A folder with a dataset, an output, a hosts file, and steps to run in it."""

    def __init__(self, folder: Path, **changes: JsonValue) -> None:
        self.folder = folder
        self.dataset = open_store(f"file://{folder}/dataset")
        self.output = open_store(f"file://{folder}/output")
        storage = {"inputs": {"dataset": self.dataset.url}, "output": self.output.url}
        client = {"batchSize": BATCH, "duplicateOutputPolicy": "Error", **changes.pop("client", {})}
        self.spec = make_spec(storage=storage, workersPerReplica=IN_FLIGHT, client=client, **changes)

    async def start(self, step: str, attempt: int = 1) -> asyncio.subprocess.Process:
        config = {
            "step": step,
            "attempt": attempt,
            "epoch": f"1700000000-abcdef12-{attempt:04d}",
            "resource": {"kind": "Evaluation", "namespace": "default", "name": "test", "uid": "abcdef12"},
            "spec": self.spec.model_dump(mode="json", by_alias=True, exclude_none=True),
            "replicas": f"dns:{NAME}:8000",
        }
        path = self.folder / f"{step}-{attempt}.json"
        await asyncio.to_thread(path.write_text, json.dumps(config))
        environment = os.environ | {
            "STEELYARD_HOSTS": str(self.folder / "hosts"),
            "STEELYARD_TERMINATION_LOG": str(self.folder / "termination"),
        }
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            f"steelyard.steps.{step}",
            "--config",
            str(path),
            env=environment,
            stdout=asyncio.subprocess.PIPE,
        )

    async def run(self, step: str, attempt: int = 1) -> tuple[int, JsonValue, list[JsonValue]]:
        """Exit status, termination message, log lines."""
        process = await self.start(step, attempt)
        out, _ = await process.communicate()
        assert process.returncode is not None
        termination = json.loads((self.folder / "termination").read_text())
        return process.returncode, termination, [json.loads(line) for line in out.splitlines()]

    @asynccontextmanager
    async def replicas(self, *answers: Any) -> AsyncIterator[list[Replica]]:
        hosts = [free_host() for _ in answers]
        servers = [
            replica(answer, session=self.spec.id, host=host, ports=(8000, 8001))
            for answer, host in zip(answers, hosts, strict=True)
        ]
        lines = "".join(f"{host} {NAME}\n" for host in hosts)
        await asyncio.to_thread((self.folder / "hosts").write_text, lines)
        async with servers[0] as one, servers[1] as two:
            yield [one, two]


async def slow_answer(row: Mapping[str, JsonValue]) -> web.StreamResponse:
    await asyncio.sleep(0.01)
    return await good_answer(row)


async def test_a_client_and_a_verification_make_a_verified_output(tmp_path: Path) -> None:
    place = StepSandbox(tmp_path, replications=2)
    await write_dataset(place.dataset, 200)
    async with place.replicas(good_answer, good_answer):
        status, termination, lines = await place.run("evaluation_client")
    assert (status, termination["code"], lines[-1]["level"]) == (EXIT_OK, "Complete", "info")
    status, termination, lines = await place.run("verify_evaluation_output")
    assert (status, termination["code"]) == (EXIT_OK, "Complete")
    assert read_rows(place.output, await read_manifest(place.output)) == make_expected_rows(place.spec, 200)


@pytest.mark.parametrize(
    ("kills", "rows"),
    [(4, 1000), pytest.param(50, 12_000, marks=pytest.mark.soak)],
    ids=["4 kills", "50 kills"],
)
async def test_killed_at_random_moments_every_row_is_there_once(
    tmp_path: Path, kills: int, rows: int
) -> None:
    seed = int(os.environ.get("STEELYARD_SEED", "0")) or random.randrange(1 << 30)
    rng = random.Random(seed)
    place = StepSandbox(tmp_path)
    await write_dataset(place.dataset, rows)
    shares: list[int] = []
    async with place.replicas(slow_answer, slow_answer) as (one, two):
        for attempt in range(1, kills + 1):
            process = await place.start("evaluation_client", attempt)
            goal = rows * attempt // (kills + 1) + rng.randrange(rows // (kills + 1) // 2)
            await until(lambda goal=goal: len(one.asked) + len(two.asked) >= goal)  # type: ignore[misc]
            await asyncio.sleep(rng.random() / 50)
            process.kill()
            await process.communicate()
            shares.append(100 * len(set(one.asked + two.asked)) // rows)
        status, termination, _ = await place.run("evaluation_client", kills + 1)
        calls = Counter(one.asked + two.asked)
    print(f"seed {seed}: killed at {shares} % of the rows")
    assert (status, termination["code"]) == (EXIT_OK, "Complete")
    assert sum(0 < share < 100 for share in shares) >= kills * 3 // 4
    assert calls.total() - rows <= kills * (2 * IN_FLIGHT + 2 * BATCH)
    assert (await place.run("verify_evaluation_output"))[0] == EXIT_OK
    assert read_rows(place.output, await read_manifest(place.output)) == make_expected_rows(place.spec, rows)


async def test_sigterm_keeps_what_was_answered(tmp_path: Path) -> None:
    place = StepSandbox(tmp_path)
    await write_dataset(place.dataset, 500)
    async with place.replicas(slow_answer, slow_answer) as (one, two):
        process = await place.start("evaluation_client")
        await until(lambda: len(one.asked) + len(two.asked) >= 120)
        process.terminate()
        await process.communicate()
        assert process.returncode == EXIT_RETRY
        assert json.loads((tmp_path / "termination").read_text())["code"] == "Terminated"
        calls = len(one.asked) + len(two.asked)
        _, _, lines = await place.run("evaluation_client", 2)
    (done,) = [line for line in lines if line["message"] == "all rows are durable"]
    assert done["resumed"] >= calls - 2 * IN_FLIGHT


async def test_a_replica_that_is_deleted_in_the_middle_costs_no_answer(tmp_path: Path) -> None:
    """Told to end, it cuts its calls in flight short with status 200, as vLLM does, and is gone."""
    place = StepSandbox(tmp_path)
    await write_dataset(place.dataset, 300)
    ending, cut = asyncio.Event(), list[int]()

    async def answer(row: Mapping[str, JsonValue]) -> web.StreamResponse:
        if len(cut) < IN_FLIGHT and await _set_within(ending, 0.02):
            cut.append(row["number"])
            return cut_short(row)
        return await good_answer(row)

    async with place.replicas(answer, slow_answer) as (one, two):
        process = await place.start("evaluation_client")
        await until(lambda: len(one.asked) >= 50)
        ending.set()
        await until(lambda: len(cut) >= IN_FLIGHT or process.returncode is not None)
        left = (tmp_path / "hosts").read_text().splitlines()[1:]
        await asyncio.to_thread((tmp_path / "hosts").write_text, left[0] + "\n")
        await one.die()
        await process.communicate()
        assert process.returncode == EXIT_OK
        assert len(two.asked) > 50
    assert cut, "calls were in flight when it was told to end"
    assert (await place.run("verify_evaluation_output"))[0] == EXIT_OK
    assert read_rows(place.output, await read_manifest(place.output)) == make_expected_rows(place.spec, 300)


async def _set_within(event: asyncio.Event, seconds: float) -> bool:
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
    return event.is_set()


async def test_a_bad_row_ends_the_step_for_good_and_names_the_row(tmp_path: Path) -> None:
    async def refuses(row: Mapping[str, JsonValue]) -> web.StreamResponse:
        return json_answer({}, status=400) if row["number"] == 17 else await good_answer(row)

    place = StepSandbox(tmp_path)
    await write_dataset(place.dataset, 30)
    async with place.replicas(refuses, refuses):
        status, termination, _ = await place.run("evaluation_client")
    assert (status, termination["code"], termination["row"]) == (EXIT_PERMANENT, "BadRequest", "17")
    status, termination, _ = await place.run("verify_evaluation_output")
    assert (status, termination["code"]) == (EXIT_PERMANENT, "OutputInvalid")
    assert int(termination["row"]) <= 17  # calls of earlier rows may have been in flight when it stopped


async def test_an_absent_dataset_is_worth_a_retry(tmp_path: Path) -> None:
    status, termination, _ = await StepSandbox(tmp_path).run("evaluation_client")
    assert (status, termination["code"]) == (EXIT_RETRY, "InputMissing")


def test_a_wrong_spec_names_the_field() -> None:
    from steelyard_schema.steps import ResourceRef, StepConfig

    resource = ResourceRef(kind="Evaluation", namespace="n", name="n", uid="u")
    config = StepConfig(step="s", attempt=1, epoch="e", resource=resource, spec={"replications": 0})
    with pytest.raises(StepFailed, match=r"spec\.replications") as error:
        evaluation_spec(config)
    assert error.value.permanent


def test_epochs_are_ordered_as_text() -> None:
    from datetime import UTC, datetime

    early, late = datetime(2030, 1, 1, tzinfo=UTC), datetime(2030, 1, 2, tzinfo=UTC)
    assert epoch(early, "ffffffff", 2) < epoch(early, "ffffffff", 10) < epoch(late, "00000000", 1)


async def test_a_dataset_that_was_changed_in_storage_is_refused_before_the_first_call(tmp_path: Path) -> None:
    sandbox = StepSandbox(tmp_path)
    await write_dataset(sandbox.dataset, 20)
    files = [
        {"path": info.key, "sha256": await compute_sha256(sandbox.dataset, info.key)}
        async for info in sandbox.dataset.list()
    ]
    await sandbox.dataset.put(MANIFEST, json.dumps({"files": files}).encode())
    async with sandbox.replicas(good_answer, good_answer) as servers:
        status, termination, _ = await sandbox.run("evaluation_client")
        assert status == EXIT_OK, termination
        asked = sum(len(server.asked) for server in servers)
        await sandbox.output.delete(".steelyard/run.json")
        path = tmp_path / "dataset" / str(files[0]["path"])
        data = bytearray(await asyncio.to_thread(path.read_bytes))
        data[len(data) // 2] ^= 1
        await asyncio.to_thread(path.write_bytes, data)
        for attempt, step in enumerate(("evaluation_client", "verify_evaluation_output"), 2):
            status, termination, _ = await sandbox.run(step, attempt)
            assert (status, termination["code"]) == (EXIT_PERMANENT, "DigestMismatch")
            assert f"{files[0]['path']} is not what was kept" in termination["message"]
        assert sum(len(server.asked) for server in servers) == asked
