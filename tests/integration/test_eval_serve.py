"""`steelyard eval run --serve`, with a fake runner: it is started, dies, is killed, and leaves workers behind."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from steelyard_common import processes
from tests.integration import fake_runner

ROWS = 6
SECONDS = 60.0


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model, prompts, and the fake runner installed."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("FAKE_FOLDER", str(tmp_path))
    fake_runner.install()
    fake_runner.make_model(tmp_path / "mine")
    rows = [json.dumps({"prompt": f"2 + {number}", "target": "4"}) for number in range(ROWS)]
    (tmp_path / "p.jsonl").write_text("\n".join(rows))
    return tmp_path


def started(place: Path, *more: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "steelyard.cli.main", "eval", "run", "p.jsonl", "--serve", "mine"]
    return subprocess.Popen(
        [*command, "--display", "plain", "--concurrency", "1", *more],
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(place: Path, *more: str) -> tuple[int, str]:
    with started(place, *more) as process:
        text = process.communicate(timeout=SECONDS)[0]
    return process.returncode, text


def starts(place: Path) -> list[dict[str, list[str]]]:
    path = place / "starts"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def nothing_is_left(place: Path) -> None:
    """Wait until neither a server nor a worker of this test runs."""
    until(lambda: not processes.with_environment(f"FAKE_FOLDER={place}") - {os.getpid()})


def test_a_run_starts_its_server_and_ends_it(place: Path) -> None:
    code, text = run(place)
    assert code == 0, text
    assert "vLLM 0.0 (cpu) serves mine: needs about" in text
    assert "GB are free" in text
    assert "loading weights" in text
    assert "ready after" in text
    assert f"{ROWS} answers" in text
    (start,) = starts(place)
    at = dict(zip(start["arguments"], start["arguments"][1:], strict=False))
    assert start["arguments"][:2] == ["serve", str(place / "mine")]
    assert (at["--served-model-name"], at["--dtype"]) == ("mine", "float32")
    assert int(at["--kv-cache-memory-bytes"]) >= 1 << 28
    nothing_is_left(place)
    # Every row is answered: the same command needs no server.
    code, text = run(place)
    assert code == 0, text
    assert len(starts(place)) == 1


def test_a_server_that_dies_is_started_again_and_the_run_goes_on(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_ANSWERS", "2")
    code, text = run(place)
    assert code == 0, text
    assert "warning: the server was killed by signal 9" in text
    assert f"{ROWS} answers" in text
    assert len(starts(place)) == 2
    nothing_is_left(place)


def test_a_server_that_cannot_start_says_why_with_its_last_lines(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_CRASH", "1")
    code, text = run(place)
    assert code == 1
    assert "vLLM ended with exit status 1 after" in text
    assert "before it was ready: ValueError: the cache is too small" in text
    assert "RuntimeError: Engine core initialization failed" in text
    assert "Traceback" not in text
    nothing_is_left(place)


def verified(place: Path, *more: str) -> tuple[int, str]:
    report = next((place / "runs").glob("*/report.html"))
    done = subprocess.run(
        [sys.executable, "-m", "steelyard.cli.main", "report", "verify", str(report), *more],
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def test_a_number_says_which_weights_and_which_server_gave_it(place: Path) -> None:
    code, text = run(place, "--rubric", "exact-match", "--server-arg=--enforce-eager")
    assert code == 0, text
    folder = next((place / "runs").glob("*/report.json")).parent
    numbers = json.loads((folder / "report.json").read_text())
    files = {entry["path"]: entry["sha256"] for entry in numbers["evidence"] if entry["what"] == "Model"}
    weights = (place / "mine" / "model.safetensors").read_bytes()
    assert files.keys() == {"config.json", "model.safetensors"}
    assert files["model.safetensors"] == sha256(weights).hexdigest()
    (server,) = numbers["servers"]
    assert (server["runner"], server["version"], server["variant"]) == ("vllm", "0.0", "cpu")
    assert (server["precision"], server["weights"], server["gpus"]) == ("float32", "float32", 0)
    assert server["arguments"] == [
        "mine", "--served-model-name", "mine", "--dtype", "float32", "--enforce-eager",
    ]  # fmt: skip
    statement = json.loads((folder / "attestation.json").read_text())
    vouched = {item["name"]: item["digest"]["sha256"] for item in statement["predicate"]["configuration"]}
    assert vouched["Model: model.safetensors"] == files["model.safetensors"]
    assert any(name.startswith("Record of the run: .steelyard/servers/") for name in vouched)
    assert "vllm 0.0, computing in float32, on processors" in (folder / "report.html").read_text()

    code, text = verified(place, "--model", "mine")
    assert (code, "Model: 2 of 2 files have the SHA-256 of what was served" in text) == (0, True), text
    assert "left out  not here: Model: 2 files" in verified(place)[1]
    (place / "mine" / "config.json").unlink()
    (place / "mine" / "model.safetensors").write_bytes(weights[::-1])
    (place / "mine" / "adapter.safetensors").touch()
    code, text = verified(place, "--model", "mine")
    assert code == 1, text
    for words in (
        "FAULT     Model: model.safetensors differs: SHA-256 ",
        "FAULT     Model: config.json is missing",
        "FAULT     Model: adapter.safetensors is extra",
    ):
        assert words in text
    server_file = next((folder / "outputs" / ".steelyard" / "servers").iterdir())
    server_file.write_text(server_file.read_text().replace('"0.0"', '"0.1"'))
    assert f"{server_file.name} has the SHA-256" in verified(place)[1]


def test_a_run_never_goes_on_with_other_weights(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_HANGS", "1")
    with started(place) as process:
        until((place / "asked").exists)
        process.kill()
        process.communicate(timeout=SECONDS)
    nothing_is_left(place)
    monkeypatch.delenv("FAKE_HANGS")
    weights = place / "mine" / "model.safetensors"
    weights.write_bytes(b"other")
    code, text = run(place)
    assert code == 2
    assert "has answers of another model: model.safetensors differs. Choose another folder (--output)" in text
    assert len(starts(place)) == 1
    weights.write_bytes(b"12345678")
    code, text = run(place)
    assert code == 0, text
    weights.write_bytes(b"other")
    code, text = run(place)  # every row is answered, by the other weights
    assert (code, len(starts(place))) == (2, 2), text
    code, text = run(place, "--fresh")
    assert (code, len(starts(place))) == (0, 3), text


@pytest.mark.parametrize("victim", ["command", "server", "watcher", "guard", "both", "interrupted"])
def test_no_process_stays_whichever_is_killed(
    place: Path, monkeypatch: pytest.MonkeyPatch, victim: str
) -> None:
    monkeypatch.setenv("FAKE_HANGS", "1")
    with started(place) as process:
        until((place / "asked").exists)
        worker = int((place / "worker").read_text())
        assert processes.start_time(worker) is not None
        match victim:
            case "command":
                process.kill()
            case "watcher" | "guard" | "both":
                server = int(str(starts(place)[0]["pid"]))
                watcher = processes.parents()[server]
                if victim == "guard":
                    watcher = processes.parents()[watcher]
                if victim == "both":
                    os.kill(watcher, signal.SIGSTOP)  # else it could end the server before it is killed
                    process.kill()
                    process.wait()
                os.kill(watcher, signal.SIGKILL)
                until(lambda: processes.start_time(server) is None)
                until(lambda: processes.start_time(worker) is None)
                if victim != "both":
                    until(lambda: len(starts(place)) == 2)
                    process.kill()
            case "server":
                os.kill(int(str(starts(place)[0]["pid"])), signal.SIGKILL)
                until(lambda: processes.start_time(worker) is None)
                until(lambda: len(starts(place)) == 2)
                process.kill()
            case _:
                process.send_signal(signal.SIGTERM)
                process.send_signal(signal.SIGINT)  # another number: two of the same may arrive as one
        process.communicate(timeout=SECONDS)
    nothing_is_left(place)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--url", "http://127.0.0.1:1/v1"), "--serve: starts a server itself; leave out --url"),
        (("--runner", "llama.cpp"), "holds no model that can be served: looked for *.gguf (llama.cpp)"),
        (("--runner", "transformers"), "which is not installed: steelyard runners install transformers"),
    ],
)
def test_what_cannot_be_served_is_one_line(place: Path, options: tuple[str, ...], words: str) -> None:
    code, text = run(place, *options)
    assert code == 2
    assert words in text
    assert starts(place) == []
