"""The server of the storage folder as a process: it is killed at its work, and a platform works with it."""

import os
import random
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from steelyard.local.detached import UpOptions
from steelyard.local.machine import lasting_port
from steelyard.local.supervisor import start_detached
from steelyard.services.storage_server.simulation.client import (
    ACCESS,
    SECRET,
    Serving,
    add,
    ask,
    begin,
    code,
    complete,
    serving_folder,
    sign_headers,
)
from steelyard.services.storage_server.uploads import FOLDER
from steelyard_evaluation.storage.folder_walk import walk
from tests.disk import small_disk
from tests.integration.conftest import machine_at
from tests.integration.small import make
from tests.integration.test_platform_kills import SEED

MEBIBYTE = 1 << 20
SETTINGS = """
storage = "file://{root}"

[storage_server]
listen = "127.0.0.1:{port}"
access_key = "{access}"
secret_key = "{secret}"
"""


class Process:
    """`steelyard service storage`, which can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        port = lasting_port()
        self.serving = Serving(folder / "storage", f"http://127.0.0.1:{port}")
        self._settings, self._state = folder / "steelyard.toml", folder / "state"
        self._settings.write_text(
            SETTINGS.format(root=self.serving.root, port=port, access=ACCESS, secret=SECRET)
        )
        self._log = (folder / "log").open("ab")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "steelyard.cli.service", "storage"]
        command += ["--state-dir", str(self._state), "--settings", str(self._settings)]
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log)
        while True:
            assert self._process.poll() is None, Path(self._log.name).read_text()
            try:
                httpx.get(self.serving.url)
            except httpx.HTTPError:
                time.sleep(0.05)
            else:
                return

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def close(self) -> None:
        self.kill()
        self._log.close()

    @property
    def incoming(self) -> list[Path]:
        return list((self.serving.root / FOLDER).glob(".#*"))


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    """A server of an empty folder, in a process of its own."""
    process = Process(tmp_path)
    process.start()
    yield process
    process.close()


def keys(serving: Serving) -> list[str]:
    """Return what a listing of the folder shows."""
    return list(walk(serving.root))


def test_a_body_that_a_kill_cuts_off_leaves_what_was_there(process: Process) -> None:
    serving = process.serving
    assert ask(serving, "PUT", "/steelyard/old", b"old").status_code == 200
    for key in ("old", "new"):
        before = len(process.incoming)
        body = b"x" * (8 * MEBIBYTE)
        headers = sign_headers(serving, "PUT", f"/steelyard/{key}", "", body, {})
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        host, port = serving.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as connection:
            request = f"PUT /steelyard/{key} HTTP/1.1\r\nContent-Length: {len(body)}\r\n{head}\r\n"
            connection.sendall(request.encode() + body[: 5 * MEBIBYTE])
            while sum(path.stat().st_size for path in process.incoming) < 2 * MEBIBYTE * (before + 1):
                time.sleep(0.01)
            process.kill()
        process.start()
        assert len(process.incoming) == before + 1
    assert keys(serving) == ["old"]
    assert (serving.root / "old").read_bytes() == b"old"


def test_an_upload_goes_on_after_a_kill(process: Process) -> None:
    serving = process.serving
    id = begin(serving, "a")
    parts = {1: add(serving, "a", id, 1, b"1" * MEBIBYTE)}
    process.kill()
    process.start()
    parts[2] = add(serving, "a", id, 2, b"2")
    process.kill()
    process.start()
    assert keys(serving) == []
    assert complete(serving, "a", id, parts).status_code == 200
    assert (serving.root / "a").read_bytes() == b"1" * MEBIBYTE + b"2"


def test_an_object_of_parts_is_there_whole_or_not_at_all(process: Process) -> None:
    serving, chance = process.serving, random.Random(SEED)
    old, new = b"old", b"".join(bytes([number]) * (16 * MEBIBYTE) for number in range(3))
    cut = 0
    for number in range(12):
        key = f"object-{number % 2}"
        ask(serving, "PUT", f"/steelyard/{key}", old)
        id = begin(serving, key)
        parts = {
            part + 1: add(serving, key, id, part + 1, new[part * 16 * MEBIBYTE :][: 16 * MEBIBYTE])
            for part in range(3)
        }
        with ThreadPoolExecutor(1) as pool:
            ended = pool.submit(complete, serving, key, id, parts)
            time.sleep(chance.uniform(0, 0.1))
            process.kill()
            try:
                confirmed = ended.result().is_success
            except httpx.HTTPError:
                confirmed, cut = False, cut + 1
        content = (serving.root / key).read_bytes()
        assert content == new or (content == old and not confirmed)
        process.start()
        assert complete(serving, key, id, parts).is_success, "a client that had no answer asks again"
        assert (serving.root / key).read_bytes() == new
    assert cut, "no kill came before an answer"


@pytest.mark.root
def test_a_full_disk_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    """A client tries again after 503, and succeeds once there is room."""
    with small_disk(tmp_path / "storage", 16) as disk, serving_folder(disk.folder) as serving:
        ask(serving, "PUT", "/steelyard/old", b"old")
        id = begin(serving, "new")
        parts = {1: add(serving, "new", id, 1, b"x" * MEBIBYTE)}
        before = len(list((disk.folder / FOLDER).iterdir()))
        disk.fill()
        os.truncate(
            disk.ballast, disk.ballast.stat().st_size - 4096
        )  # room for a name, and not for its bytes
        for body in (b"x" * 5000, b"x" * (4 * MEBIBYTE)):  # one is buffered whole
            assert code(ask(serving, "PUT", "/steelyard/old", body)) == "503 ServiceUnavailable"
        assert code(complete(serving, "new", id, parts)) == "503 ServiceUnavailable"
        assert len(list((disk.folder / FOLDER).iterdir())) == before
        assert keys(serving) == ["ballast", "old"]
        assert (disk.folder / "old").read_bytes() == b"old"
        disk.empty()
        assert complete(serving, "new", id, parts).is_success
        assert ask(serving, "PUT", "/steelyard/old", b"new").is_success


def environment(port: int) -> Mapping[str, str]:
    """Return the variables with which steps reach the server."""
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": ACCESS,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }


@pytest.mark.e2e
@pytest.mark.timeout(1200)
def test_a_platform_on_a_folder_has_steps_on_its_server(tmp_path: Path) -> None:
    """The platform's process serves the folder that it uses itself; the steps know the server alone."""
    port, settings = lasting_port(), tmp_path / "steelyard.toml"
    lines = [f'{name} = "{value}"' for name, value in environment(port).items()]
    settings.write_text(
        SETTINGS.format(root=tmp_path / "storage", port=port, access=ACCESS, secret=SECRET)
        + '\n[operator]\nstorage = "s3://steelyard"\n\n[orchestrator.storage_credentials]\n'
        + "\n".join(lines)
    )
    with machine_at(tmp_path / "state") as machine:
        start_detached(machine.state.path, UpOptions(settings=settings))
        with machine.client() as client:
            small = make(client, tmp_path / "rows", rows=20)
            report = client.reports.wait(small.report, timeout=600)
            assert report.status == "Complete", (report.reason, report.message)
            client.reports.download(small.report, tmp_path / "report")
            assert client.evaluations.logs(small.evaluation).logs
        figures = httpx.get(machine.state.metrics("platform").read_text().strip()).text
    assert any((tmp_path / "storage" / "evaluations" / small.evaluation).iterdir())
    # Steps alone speak to the server, and nothing that they asked of it is missing there.
    counts = dict(
        re.findall(
            r'steelyard_storage_requests_total{code="(.*?)",operation="put_object"} ([0-9.]+)', figures
        )
    )
    assert float(counts[""]) > 5
    assert "NotImplemented" not in figures
    assert any((tmp_path / "report").iterdir())
