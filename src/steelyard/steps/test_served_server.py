"""Tests of the records of an evaluation's servers."""

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web

from steelyard.steps import served_server
from steelyard.steps.served_server import servers_recorded
from steelyard_evaluation.engine.doubles import make_spec
from steelyard_evaluation.engine.record import read_servers
from steelyard_evaluation.hosted.snapshots import Snapshots
from steelyard_evaluation.report.page.document import server_text
from steelyard_evaluation.storage.files import FileStore
from steelyard_schema.hosted_model import IMAGE_HOST, IMAGE_NAME, HostedModel
from steelyard_schema.resources import EvaluationResourceSpec


def serving(folder: Path, **runner: Any) -> EvaluationResourceSpec:
    spec: dict[str, Any] = make_spec().dump()
    image = {"host": "localhost", "name": "steelyard/runner-vllm", "digest": "sha256:" + "0" * 64}
    spec["inferenceSession"]["inferenceService"] |= {
        "name": "mine",
        "runner": {
            "kind": "vllm",
            "image": image,
            "args": ["--dtype", "float32"],
            "resources": {},
            "volumeMounts": [
                {
                    "kind": "Data",
                    "name": "model",
                    "mountPath": "/m",
                    "data": {"source": {"id": "a" * 32, "kind": "Model"}},
                }
            ],
            **runner,
        },
    }
    spec["storage"] = {"inputs": {"model": f"file://{folder}/model"}}
    return EvaluationResourceSpec.parse(spec)


class Replicas:
    """Replicas that a test starts one after the other."""

    def __init__(self) -> None:
        self.here: set[str] = set()
        self.looks = 0

    async def addresses(self) -> frozenset[str]:
        self.looks += 1
        return frozenset(self.here)


async def replica(version: str) -> tuple[web.AppRunner, str]:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"version": version})

    app = web.Application()
    app.router.add_get("/version", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return runner, f"http://127.0.0.1:{runner.addresses[0][1]}"


async def recorded(output: FileStore) -> list[dict[str, Any]]:
    return [orjson.loads(record) for record in (await read_servers(output)).values()]


async def test_each_version_that_answers_is_recorded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served_server, "PAUSE_SECONDS", 0.01)
    await FileStore(tmp_path / "model").put("config.json", b'{"dtype": "float32"}')
    output, replicas = FileStore(tmp_path / "out"), Replicas()
    servers = [await replica(version) for version in ("0.32.0", "0.32.0", "0.33.0")]
    async with servers_recorded(serving(tmp_path), replicas, output):
        for _, address in servers:
            replicas.here.add(address)
            before = replicas.looks
            while replicas.looks < before + 2:  # noqa: ASYNC110 - a look has no event
                await asyncio.sleep(0.01)
    for runner, _ in servers:
        await runner.cleanup()
    records = await recorded(output)
    assert sorted(record["version"] for record in records) == ["0.32.0", "0.33.0"]
    assert {(record["precision"], record["weights"], record["gpus"]) for record in records} == {
        ("float32", "float32", 0)
    }


async def test_a_server_that_does_not_tell_is_recorded_without_a_version(tmp_path: Path) -> None:
    output = FileStore(tmp_path / "out")
    async with servers_recorded(serving(tmp_path), Replicas(), output):
        pass
    assert [record["version"] for record in await recorded(output)] == [""]


async def test_a_program_of_its_own_has_no_record(tmp_path: Path) -> None:
    output = FileStore(tmp_path / "out")
    image = {"host": "localhost", "name": "other", "digest": "sha256:" + "0" * 64}
    spec = serving(tmp_path, kind="container", image=image, command=["serve"])
    async with servers_recorded(spec, Replicas(), output):
        pass
    assert await recorded(output) == []


def hosted(folder: Path) -> EvaluationResourceSpec:
    model = HostedModel(base_url="https://models.example.org/v1", model="large")
    image = {"host": IMAGE_HOST, "name": IMAGE_NAME, "digest": "sha256:" + "0" * 64}
    return serving(folder, kind="container", image=image, args=model.arguments(), volumeMounts=[])


async def test_each_snapshot_of_a_hosted_model_is_recorded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served_server, "PAUSE_SECONDS", 0.01)
    output, replicas, snapshots = FileStore(tmp_path / "out"), Replicas(), Snapshots()

    async def seen(_: web.Request) -> web.Response:
        return web.json_response(snapshots.json())

    app = web.Application()
    app.router.add_get("/snapshots", seen)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    replicas.here.add(f"http://127.0.0.1:{runner.addresses[0][1]}")
    async with servers_recorded(hosted(tmp_path), replicas, output):
        snapshots.note(b'{"model": "large-1", "system_fingerprint": "fp_1"}')
        async with asyncio.timeout(30):
            while not await recorded(output):  # noqa: ASYNC110 - a file that is there has no event
                await asyncio.sleep(0.01)
        snapshots.note(b'{"model": "large-1", "system_fingerprint": "fp_1"}')
        # What the very last answer names is recorded, too.
        snapshots.note(b'{"model": "large-2"}')
    await runner.cleanup()
    records = await recorded(output)
    assert sorted((record["runner"], record["version"]) for record in records) == [
        ("models.example.org", "large-1 (fp_1)"),
        ("models.example.org", "large-2"),
    ]
    assert {server_text(record) for record in records} == {
        "models.example.org large-1 (fp_1)",
        "models.example.org large-2",
    }


async def test_a_hosted_model_whose_server_is_away_is_recorded_without_a_version(tmp_path: Path) -> None:
    output, replicas = FileStore(tmp_path / "out"), Replicas()
    replicas.here.add("http://127.0.0.1:9")
    async with servers_recorded(hosted(tmp_path), replicas, output):
        pass
    (record,) = await recorded(output)
    assert (record["runner"], record["version"]) == ("models.example.org", "")
