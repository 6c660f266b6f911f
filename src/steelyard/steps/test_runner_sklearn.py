"""The server of scikit-learn models."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, TypeAlias

import aiohttp
import numpy as np
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from skl2onnx import to_onnx
from sklearn.linear_model import LogisticRegression

from steelyard.steps.runner_sklearn import Model, make_app
from steelyard_evaluation.engine.doubles import free_host, free_port

Client: TypeAlias = TestClient[web.Request, web.Application]


def _folder(path: Path, *, zipmap: bool = False, names: list[str] | None = None) -> Path:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 4)).astype(np.float32)
    classifier = LogisticRegression().fit(rows, (rows[:, 0] > 0).astype(int) + (rows[:, 1] > 0.5))
    onnx = to_onnx(classifier, rows[:1], options={"zipmap": zipmap}, target_opset=18)
    (path / "model.onnx").write_bytes(onnx.SerializeToString())
    if names:
        (path / "labels.json").write_text(json.dumps(names))
    np.save(path / "rows.npy", rows)
    np.save(path / "expected.npy", classifier.predict_proba(rows))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _folder(tmp_path_factory.mktemp("model"))


@pytest.fixture
async def client(folder: Path) -> AsyncIterator[Client]:
    async with TestClient(TestServer(make_app(Model(folder)))) as client:
        yield client


async def test_many_at_once_are_each_their_own_answer(client: Client, folder: Path) -> None:
    rows, expected = np.load(folder / "rows.npy"), np.load(folder / "expected.npy")

    async def ask(row: Any) -> Any:
        async with client.post("/predict", json={"image": row.tolist()}) as answer:
            return await answer.json()

    answers = await asyncio.gather(*(ask(row) for row in rows))
    stated = [[answer["probabilities"][str(k)] for k in range(3)] for answer in answers]
    assert np.allclose(stated, expected, atol=1e-5)
    assert [answer["label"] for answer in answers] == expected.argmax(axis=1).tolist()


async def test_rows_together(client: Client, folder: Path) -> None:
    rows = np.load(folder / "rows.npy")[:5]
    async with client.post("/predict", json={"data": rows.tolist()}) as answer:
        assert len((await answer.json())["predictions"]) == 5


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (b"{", "not JSON"),
        (b"[1]", 'should be {"image"'),
        (b'{"text": "a"}', 'should be {"image"'),
        (b'{"image": [1, 2]}', "image: the model takes 4 numbers per row, got 2"),
        (b'{"image": ["a", "b", "c", "d"]}', "image: should be a list of numbers"),
        (b'{"image": [1, 2, 3, null]}', "image: every number has to be finite"),
        (b'{"data": [[1, 2, 3, 4], [1]]}', "data: should be a list of numbers"),
        (b'{"data": []}', "data: "),
        (b'{"image": 3}', "image: should be"),
    ],
)
async def test_bad_input_is_refused_by_name(client: Client, body: bytes, fault: str) -> None:
    async with client.post("/predict", data=body) as answer:
        assert answer.status == 400
        assert fault in (await answer.json())["error"]


@pytest.mark.parametrize("zipmap", [False, True])
def test_classes_have_the_names_of_labels_json(tmp_path: Path, zipmap: bool) -> None:
    folder = _folder(tmp_path, zipmap=zipmap, names=["low", "middle", "high"])
    answer = Model(folder).predict(np.load(folder / "rows.npy")[:1])[0]
    assert answer["probabilities"].keys() == {"low", "middle", "high"}
    assert answer["label"] == max(answer["probabilities"], key=answer["probabilities"].get)


def test_no_model_says_so(tmp_path: Path) -> None:
    words = tmp_path / "termination"
    command = [sys.executable, "-m", "steelyard.steps.runner_sklearn", "--model", str(tmp_path)]
    environment = {**os.environ, "HOST": "127.0.0.1", "STEELYARD_TERMINATION_LOG": str(words)}
    ended = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert ended.returncode == 65
    assert json.loads(words.read_text())["code"] == "ModelMissing"


async def test_serves_on_its_own_address_alone(folder: Path) -> None:
    host, other = free_host(), free_host()
    port = free_port(host)
    environment = {**os.environ, "HOST": host, "PORT": str(port)}
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "steelyard.steps.runner_sklearn", "--model", str(folder)),
        env=environment,
        stdout=asyncio.subprocess.PIPE,
    )
    assert child.stdout is not None
    assert b"listening" in await child.stdout.readline()
    async with aiohttp.ClientSession() as session:
        for _ in range(200):
            try:
                async with session.get(f"http://{host}:{port}/ready") as answer:
                    assert answer.status == 200
                    break
            except aiohttp.ClientConnectorError:
                await asyncio.sleep(0.02)
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.get(f"http://{other}:{port}/ready")
    child.send_signal(signal.SIGTERM)
    assert await child.wait() == 0
    child._transport.close()  # type: ignore[attr-defined]
