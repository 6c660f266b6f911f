"""`steelyard serve` on the platform, with a fake runner: missing, crashing, then serving."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from steelyard.client import Client, presets
from steelyard.local.runners.environments import data_folder
from steelyard.local.state import StateDir, read_ready
from tests.integration import fake_runner

SECONDS = 90.0


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a model, and a platform in `state` that ends with the test."""
    for name in [name for name in os.environ if name.startswith("STEELYARD_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    fake_runner.make_model(tmp_path / "mine")
    yield tmp_path
    steelyard(tmp_path, "down", "--state-dir", "state")


def steelyard(place: Path, *words: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "steelyard.cli.main", *words],
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return done.returncode, done.stdout


def until_it_says(client: Client, id: str, words: str) -> tuple[str | None, str]:
    """Return reason and message of a session once its message has these words."""
    end = time.monotonic() + SECONDS
    while words not in ((session := client.inferencesessions.get(id)).message or ""):
        assert time.monotonic() < end, (session.reason, session.message)
        time.sleep(0.1)
    return session.reason, session.message or ""


@pytest.mark.e2e
def test_a_folder_is_served_once_its_runner_is_there(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, text = steelyard(place, "serve", "mine", "--state-dir", "state", "--detach")
    assert (code, "which is not installed: steelyard runners install vllm" in text) == (2, True), text
    code, text = steelyard(place, "up", "--detach", "--state-dir", "state")
    assert code == 0, text
    ready = read_ready(StateDir(place / "state"))
    assert ready is not None
    with Client(endpoint=ready.api, token=ready.token) as client:
        model = client.models.create_from_folder(place / "mine", account="me", name="mine")
        runner, interface = presets.vllm(model.id, cpu="100m", memory="1Gi"), presets.chat()
        service = client.inferenceservices.create(
            account="me", name="mine", model=model.id, runner=runner, interface=interface
        )
        session = client.inferencesessions.create(account="me", inferenceService=service.id).inferencesession
        command = f"steelyard runners install vllm --state-dir {place / 'state'}"
        until_it_says(client, session.id, command)

        fake_runner.install()
        (data_folder() / "vllm" / "fake" / "bin" / "crash").touch()
        # The real command would find nothing to install, and enter the runner all the same.
        from steelyard.local.runners.images import enter_installed

        enter_installed(StateDir(place / "state"))
        reason, message = until_it_says(client, session.id, "ValueError")
        assert reason == "RunnerCrashed"
        assert re.search(
            r"runner exited 1, started (once|\d times): ValueError: the cache is too small", message
        )
        client.inferencesessions.terminate(session.id)

    (data_folder() / "vllm" / "fake" / "bin" / "crash").unlink()
    code, text = steelyard(place, "serve", "mine", "--state-dir", "state", "--detach")
    assert code == 0, text
    assert "loading weights" in text
    assert f"model {model.id} has the same files: nothing is uploaded" in text
    url, token = (re.search(rf"{name}: +(\S+)", text) for name in ("URL", "token"))
    assert url is not None
    assert token is not None
    body = {"model": "mine", "messages": [{"role": "user", "content": "2 + 2"}]}
    headers = {"Authorization": f"Bearer {token[1]}"}
    answer = httpx.post(f"{url[1]}/chat/completions", json=body, headers=headers, timeout=SECONDS)
    assert answer.status_code == 200
    assert answer.json()["choices"][0]["message"]["content"] == "4"
    models = httpx.get(f"{url[1]}/models", headers=headers, timeout=SECONDS)
    assert (models.status_code, models.json()["data"][0]["id"]) == (200, "mine")

    # From weights to number: an evaluation through the session knows which files and which server gave it.
    (place / "p.jsonl").write_text('{"prompt": "2 + 2", "target": "4"}\n')
    monkeypatch.setenv("OPENAI_API_KEY", token[1])
    options = ("--url", url[1], "--model", "mine", "--rubric", "exact-match", "--output", "run")
    code, said = steelyard(place, "eval", "run", "p.jsonl", *options)
    assert code == 0, said
    (server,) = json.loads((place / "run" / "report.json").read_text())["servers"]
    assert (server["runner"], server["version"], server["weights"]) == ("vllm", "0.0", "float32")
    assert (server["precision"], server["arguments"][:2]) == ("float32", ["mine", "--served-model-name"])
    code, said = steelyard(place, "report", "verify", "run/report.html", "--model", "mine")
    assert (code, "Model: 2 of 2 files have the SHA-256 of what was served" in said) == (0, True), said
    (place / "mine" / "model.safetensors").write_bytes(b"87654321")
    code, said = steelyard(place, "report", "verify", "run/report.html", "--model", "mine")
    assert (code, "Model: model.safetensors differs" in said) == (1, True), said

    for printed in re.findall(r"with: +steelyard (.+)", text):
        code, said = steelyard(place, *printed.split())
        assert code == 0, said
    assert steelyard(place, "status", "--state-dir", "state")[0] == 1, "nothing runs any more"
