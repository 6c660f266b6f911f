"""Datasets of the hub by name: the real library against a small server that speaks the hub's routes."""

import hashlib
import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from steelyard_evaluation.runs.doubles import endpoint
from steelyard_evaluation.runs.folder import RunFolder

FIRST, SECOND = "a" * 40, "b" * 40
README = b"""---
configs:
- config_name: easy
  data_files: [{split: train, path: easy/train.parquet}, {split: test, path: easy/test.parquet}]
- config_name: hard
  data_files: [{split: test, path: hard/test.parquet}]
---
"""


def parquet(rows: list[dict[str, Any]]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), sink, row_group_size=500)
    return sink.getvalue()


def lines(count: int, word: str) -> list[dict[str, Any]]:
    return [{"prompt": f"{word} {number}", "target": str(number)} for number in range(count)]


def files(word: str) -> dict[str, bytes]:
    return {
        "README.md": README,
        "easy/train.parquet": parquet(lines(30, word)),
        "easy/test.parquet": parquet(lines(3000, word)),
        "hard/test.parquet": parquet(lines(30, word)),
    }


class Hub(BaseHTTPRequestHandler):
    """Two commits of org/small; `head` is what main is."""

    protocol_version = "HTTP/1.1"
    commits: ClassVar[dict[str, dict[str, bytes]]] = {}
    head: ClassVar[str] = FIRST
    requested: ClassVar[list[str]] = []

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        paths = parse_qs(body).get("paths") or json.loads(body or "{}").get("paths", [])
        self._answer(paths)

    def _answer(self, paths: list[str] | None = None) -> None:
        path = urlsplit(self.path).path
        self.requested.append(path)
        kind, _, rest = path.removeprefix("/api/").partition("/org/small")
        if kind == "datasets" and (rest in {"", "/"} or rest.startswith("/revision/")):
            self._info(rest.removeprefix("/revision/") if rest else "main")
        elif kind == "datasets" and rest.startswith(("/tree/", "/paths-info/")):
            revision, _, folder = rest.split("/", 2)[2].partition("/")
            self._tree(revision, folder, paths)
        elif path.startswith("/datasets/org/small/resolve/"):
            revision, _, name = path.removeprefix("/datasets/org/small/resolve/").partition("/")
            self._file(self._commit(revision), name)
        else:
            self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"})

    def _commit(self, revision: str) -> str:
        return self.head if revision == "main" else revision

    def _info(self, revision: str) -> None:
        commit = self._commit(revision)
        if commit not in self.commits:
            return self._send(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        siblings = [{"rfilename": name} for name in self.commits[commit]]
        info = {
            "id": "org/small",
            "sha": commit,
            "siblings": siblings,
            "tags": [],
            "private": False,
            "gated": False,
        }
        return self._send(200, json.dumps({**info, "downloads": 0, "likes": 0}).encode())

    def _tree(self, revision: str, folder: str, paths: list[str] | None) -> None:
        held = self.commits[self._commit(revision)]
        requests: list[dict[str, Any]] = []
        for name, data in held.items():
            inside = not folder or name.startswith(f"{folder}/")
            if (name in paths) if paths is not None else inside:
                oid = hashlib.sha1(data).hexdigest()
                requests.append({"type": "file", "path": name, "size": len(data), "oid": oid})
        for name in sorted({name.partition("/")[0] for name in held if "/" in name}):
            if (name in paths) if paths is not None else not folder:
                requests.append({"type": "directory", "path": name, "size": 0, "oid": "0" * 40})
        self._send(200, json.dumps(requests).encode())

    def _file(self, commit: str, name: str) -> None:
        data = self.commits.get(commit, {}).get(name)
        if data is None:
            return self._send(404, b"", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit})
        headers = {
            "ETag": f'"{hashlib.sha1(data).hexdigest()}"',
            "X-Repo-Commit": commit,
            "Accept-Ranges": "bytes",
        }
        if wanted := self.headers.get("Range"):
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            start, stop = int(first), min(int(last or len(data) - 1), len(data) - 1)
            headers["Content-Range"] = f"bytes {start}-{stop}/{len(data)}"
            return self._send(206, data[start : stop + 1], headers)
        return self._send(200, data, headers)

    def _send(self, status: int, data: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        return None


@pytest.fixture
def hub() -> Iterator[str]:
    Hub.commits, Hub.head, Hub.requested = {FIRST: files("say"), SECOND: files("tell")}, FIRST, []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def steelyard(folder: Path, hub: str, url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command, in a process of its own: the library reads HF_ENDPOINT when it is imported."""
    environment = os.environ | {
        "HF_ENDPOINT": hub,
        "HF_HOME": str(folder / "hf"),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "OPENAI_API_KEY": "",
    }
    command = [sys.executable, "-c", "from steelyard.cli.main import main; main()", "eval", "run", *arguments]
    options = ["--url", url, "--model", "m", "--display", "none"]
    return subprocess.run(
        [*command, *options], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def asked_of(body: dict[str, Any]) -> str:
    return str(body["messages"][-1]["content"])


async def test_a_dataset_is_streamed_once_and_its_commit_is_part_of_the_identity(
    tmp_path: Path, hub: str
) -> None:
    import asyncio

    async with endpoint() as server:

        async def go(*arguments: str) -> subprocess.CompletedProcess[str]:
            return await asyncio.to_thread(steelyard, tmp_path, hub, server.url, *arguments)

        options = "--rubric", "exact-match", "--output", "run"
        done = await go("hf:org/small/easy@test", "--limit", "1200", *options)
        assert done.returncode == 0, done.stderr
        assert len(server.bodies) == 1200
        assert {asked_of(body) for body in server.bodies} == {f"say {number}" for number in range(1200)}
        run = RunFolder(tmp_path / "run")
        identity = orjson.loads(run.run_json.read_bytes())["identity"]
        assert identity["revision"] == [f"hf:org/small/easy@test#{FIRST}"]
        fetched = sum("resolve" in path and path.endswith("test.parquet") for path in Hub.requested)

        again = await go("hf:org/small/easy@test", "--limit", "1200", *options)
        assert again.returncode == 0, again.stderr
        assert len(server.bodies) == 1200
        assert sum("resolve" in path and path.endswith("test.parquet") for path in Hub.requested) == fetched

        Hub.head = SECOND
        refused = await go("hf:org/small/easy@test", "--limit", "1200", *options)
        assert refused.returncode == 2
        assert SECOND in refused.stderr or "revision" in refused.stderr, refused.stderr
        pinned = await go(f"hf:org/small/easy@test#{FIRST}", "--limit", "1200", *options)
        assert pinned.returncode == 0, pinned.stderr
        assert len(server.bodies) == 1200


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("hf:org/small", "has several configs; there are easy, hard"),
        ("hf:org/small/odd", "has no config 'odd'; there are easy, hard"),
        ("hf:org/small/hard@train", "has no split 'train'; there are test"),
        ("hf:org/none", "cannot be had from the hub: "),
        ("hf:a b", "should be hf:ORG/NAME[/CONFIG][@SPLIT][#REVISION]"),
    ],
)
def test_what_there_is_not_is_reported_in_one_line(tmp_path: Path, hub: str, name: str, message: str) -> None:
    done = steelyard(tmp_path, hub, "http://127.0.0.1:9/v1", name, "--dry-run")
    assert done.returncode == 2
    assert f"{name}: {message}" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_without_the_extra_one_line_says_how_to_have_it(tmp_path: Path, hub: str) -> None:
    (tmp_path / "datasets.py").write_text("raise ImportError('not here')\n")
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    script = (
        "from steelyard_evaluation.runs.prompts.hub import open_hub_rows\n"
        "from steelyard_evaluation.runs.request import SourceSpec\n"
        "open_hub_rows(SourceSpec('hf:org/small'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stderr.strip().endswith("pip install 'steelyard[hub]'")
