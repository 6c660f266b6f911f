"""huggingface_hub itself against a small server that speaks the hub's API."""

import hashlib
import io
import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import pytest

os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"

from steelyard.steps import hub_source
from steelyard.steps.common import Log, StepFailed
from steelyard.steps.example import LOOPBACK, make_config, make_model_spec
from steelyard.steps.fetch_model import main
from steelyard.steps.volume import SourceVersion
from steelyard_evaluation.storage.store import open_store
from steelyard_schema.egress import EgressPolicy

COMMIT = "c" * 40
FILES = {
    "config.json": b"{}",
    "model.safetensors": b"w" * 5000,
    "sub/vocab.txt": b"a\nb\n",
    "README.md": b"# hi",
}
LARGE = "model.safetensors"
LATER = "d" * 40
"""Commit to which the branch moves, and its files."""
LATER_FILES = {**FILES, "README.md": b"# hello", "more.txt": b"more"}


class Hub(BaseHTTPRequestHandler):
    served: ClassVar[dict[str, bytes]] = {}
    status = 200
    redirect = ""
    token: ClassVar[str | None] = None
    """Token without which the model is gated."""
    authorizations: ClassVar[set[str | None]] = set()
    branch = COMMIT
    """Commit to which the branch `main` leads."""
    broken: ClassVar[set[str]] = set()
    """Files at which an attempt ends."""

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        path = urlsplit(self.path).path
        self.authorizations.add(self.headers["Authorization"])
        if self.status != 200:
            self._send(self.status, b"{}")
        elif self.token is not None and self.headers["Authorization"] != f"Bearer {self.token}":
            message = f"Access to model org/small is restricted; {self.headers['Authorization']} may not"
            headers = {"X-Error-Code": "GatedRepo", "X-Error-Message": message}
            self._send(401 if self.headers["Authorization"] is None else 403, b"{}", headers)
        elif path in {f"/api/models/org/small/revision/{name}" for name in ("main", COMMIT, LATER)}:
            commit = path.rpartition("/")[2]
            self._send(200, json.dumps(self._info(self.branch if commit == "main" else commit)).encode())
        elif path.startswith("/api/models/org/small/revision/"):
            self._send(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        elif self.redirect and path.startswith("/org/small/resolve/") and self.command == "GET":
            self._send(302, b"", {"Location": self.redirect})
        elif path.rpartition("/")[2] in self.broken:
            self._send(403, b"{}")  # not tried again by the library
        elif path.startswith(prefix := f"/org/small/resolve/{COMMIT}/"):
            self._send_file(COMMIT, self.served[path.removeprefix(prefix)])
        elif path.startswith(prefix := f"/org/small/resolve/{LATER}/"):
            self._send_file(LATER, LATER_FILES[path.removeprefix(prefix)])
        else:
            self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"})

    def _send_file(self, commit: str, content: bytes) -> None:
        etag = f'"{hashlib.sha256(content).hexdigest()}"'
        self._send(200, content, {"ETag": etag, "X-Repo-Commit": commit})

    def _info(self, commit: str) -> Any:
        files = FILES if commit == COMMIT else LATER_FILES
        siblings: list[dict[str, Any]] = [
            {"rfilename": name, "size": len(data)} for name, data in files.items()
        ]
        for sibling in siblings:
            if sibling["rfilename"] == LARGE:
                digest = hashlib.sha256(FILES[LARGE]).hexdigest()
                sibling["lfs"] = {"sha256": digest, "size": len(FILES[LARGE]), "pointerSize": 130}
        return {"id": "org/small", "modelId": "org/small", "sha": commit, "siblings": siblings}

    def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Hub]]:
    handler = type("ThisHub", (Hub,), {"served": dict(FILES), "authorizations": set()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_address[1]}")
    yield handler
    server.shutdown()
    server.server_close()
    thread.join()


async def _fetch(
    root: Path,
    revision: str = "main",
    cached: bool = False,
    policy: EgressPolicy = LOOPBACK,
    **patterns: Any,
) -> dict[str, bytes]:
    place = {"repoID": "org/small", "revision": revision}
    source = {"kind": "HuggingFaceHub", "huggingFaceHub": {**place, **patterns}}
    changes = {"artifact": {"kind": "HuggingFaceCache", "huggingFaceCache": place}} if cached else {}
    config = make_config("fetch_model", "Model", make_model_spec(root, source, **changes), policy)
    await main(config, Log("t", io.StringIO()))
    kept = json.loads((root / "model/.steelyard/manifest.json").read_bytes())["files"]
    return {file["path"]: (root / "model" / file["path"]).read_bytes() for file in kept}


async def test_keeps_the_files_of_the_revision(hub: type[Hub], tmp_path: Path) -> None:
    assert await _fetch(tmp_path) == FILES


@pytest.mark.parametrize("cached", [False, True])
async def test_an_attempt_goes_on_with_the_commit_of_the_first_though_the_branch_has_moved(
    hub: type[Hub], tmp_path: Path, cached: bool
) -> None:
    hub.broken = {LARGE}
    with pytest.raises(StepFailed):
        await _fetch(tmp_path, cached=cached)
    hub.broken, hub.branch = set(), LATER
    kept = await _fetch(tmp_path, cached=cached)
    by_name = {path.rpartition("/")[2]: content for path, content in kept.items()}
    if cached:
        assert by_name.pop("main") == COMMIT.encode()
    assert by_name == {path.rpartition("/")[2]: content for path, content in FILES.items()}


async def test_of_two_attempts_at_once_the_first_chooses_the_commit(hub: type[Hub], tmp_path: Path) -> None:
    """The other one has listed the branch before it moved, was suspended, and went on."""
    store = open_store(f"file://{tmp_path / 'model'}")
    version = SourceVersion(store)
    assert await version.keep(LATER) == LATER
    assert await SourceVersion(store).keep(COMMIT) == LATER
    assert await _fetch(tmp_path) == LATER_FILES


async def test_patterns_choose(hub: type[Hub], tmp_path: Path) -> None:
    kept = await _fetch(tmp_path, allowPatterns=["*.json", "*.txt", "*.md"], ignorePatterns=["README*"])
    assert sorted(kept) == ["config.json", "sub/vocab.txt"]


async def test_patterns_that_choose_nothing_are_refused(hub: type[Hub], tmp_path: Path) -> None:
    with pytest.raises(StepFailed, match="no file of org/small matches the patterns"):
        await _fetch(tmp_path, allowPatterns=["*.bin"])


async def test_a_cache_is_one_that_libraries_find_offline(hub: type[Hub], tmp_path: Path) -> None:
    await _fetch(tmp_path, cached=True)
    from huggingface_hub import snapshot_download

    folder = snapshot_download(
        "org/small", revision="main", cache_dir=tmp_path / "model", local_files_only=True
    )
    assert {name: (Path(folder) / name).read_bytes() for name in FILES} == FILES


async def test_a_large_file_with_another_digest_is_refused(hub: type[Hub], tmp_path: Path) -> None:
    hub.served[LARGE] = b"x" * len(FILES[LARGE])
    with pytest.raises(StepFailed, match="its SHA-256 is") as failure:
        await _fetch(tmp_path)
    assert failure.value.permanent


@pytest.mark.parametrize(("status", "permanent"), [(500, False), (403, True)])
async def test_refusals_are_permanent_and_outages_are_not(
    hub: type[Hub], tmp_path: Path, status: int, permanent: bool
) -> None:
    hub.status = status
    with pytest.raises(StepFailed) as failure:
        await _fetch(tmp_path)
    assert (failure.value.code, failure.value.permanent) == ("FetchFailed", permanent)


async def test_an_unknown_revision_is_permanent(hub: type[Hub], tmp_path: Path) -> None:
    with pytest.raises(StepFailed) as failure:
        await _fetch(tmp_path, revision="nothing")
    assert (failure.value.code, failure.value.permanent) == ("FetchFailed", True)


async def test_no_hub_at_all_is_worth_a_retry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(StepFailed, match="cannot be reached") as failure:
        await _fetch(tmp_path)
    assert not failure.value.permanent


@pytest.mark.parametrize(
    ("policy", "fault"),
    [
        (EgressPolicy(hosts=("huggingface.co",), setting="egress.sources"), "egress.sources has no pattern"),
        (EgressPolicy(hosts=("http://127.0.0.1",)), "an address that is not public"),
    ],
)
async def test_a_hub_that_the_settings_do_not_allow_is_never_called(
    hub: type[Hub], tmp_path: Path, policy: EgressPolicy, fault: str
) -> None:
    hub.status = 500
    with pytest.raises(StepFailed, match=fault) as failure:
        await _fetch(tmp_path, policy=policy)
    assert (failure.value.code, failure.value.permanent) == ("FetchFailed", True)


async def test_a_file_that_the_hub_keeps_elsewhere_is_not_fetched_from_there(
    hub: type[Hub], tmp_path: Path
) -> None:
    hub.redirect = "http://localhost:9/elsewhere"
    with pytest.raises(StepFailed, match=r"'http://localhost:9/elsewhere' is not allowed") as failure:
        await _fetch(tmp_path)
    assert failure.value.permanent


TOKEN = "hf_a-distinctive-token"


def give_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, token: str = TOKEN) -> None:
    """Give the step its secret, as the operator does: as a file."""
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "source").write_text(f"{token}\n")
    monkeypatch.setenv("STEELYARD_SECRETS", str(tmp_path / "secrets"))


async def test_a_gated_model_is_fetched_with_the_token_of_the_secret(
    hub: type[Hub], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.token = TOKEN
    give_token(tmp_path, monkeypatch)
    assert await _fetch(tmp_path) == FILES
    assert hub.authorizations == {f"Bearer {TOKEN}"}


async def test_the_token_goes_into_no_file_of_the_model(
    hub: type[Hub], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.token = TOKEN
    give_token(tmp_path, monkeypatch)
    await _fetch(tmp_path)
    files = [path for path in (tmp_path / "model").rglob("*") if path.is_file()]
    assert len(files) > len(FILES)
    assert not any(TOKEN.encode() in path.read_bytes() for path in files)


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        (None, "secrets.source: none is given, and the model may be gated or private"),
        ("hf_a-token-that-does-not-count", "secrets.source: the hub refuses the token"),
    ],
)
async def test_a_gated_model_says_what_it_needs_without_the_token(
    hub: type[Hub], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str | None, advice: str
) -> None:
    hub.token = TOKEN
    if given is not None:
        give_token(tmp_path, monkeypatch, given)
    with pytest.raises(StepFailed) as failure:
        await _fetch(tmp_path)
    assert (failure.value.code, failure.value.permanent) == ("FetchFailed", True)
    assert advice in failure.value.message
    assert "hf_a-token" not in failure.value.message


class Elsewhere(BaseHTTPRequestHandler):
    """A server of files to which a hub sends its clients, as the real one does for large files."""

    authorizations: ClassVar[list[str | None]] = []

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        self.authorizations.append(self.headers["Authorization"])
        self.send_response(200)
        self.send_header("Content-Length", "5000")
        self.send_header("ETag", '"elsewhere"')
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(FILES[LARGE])

    def log_message(self, format: str, *args: object) -> None:
        pass


async def test_another_server_to_which_the_hub_sends_us_is_not_shown_the_token(
    hub: type[Hub], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str | None] = []
    handler = type("ThisElsewhere", (Elsewhere,), {"authorizations": shown})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        hub.token = TOKEN
        hub.redirect = f"http://127.0.0.1:{server.server_address[1]}/large"
        give_token(tmp_path, monkeypatch)
        kept = await _fetch(tmp_path, allowPatterns=[LARGE])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert kept == {LARGE: FILES[LARGE]}
    assert set(shown) == {None}
    assert hub.authorizations == {f"Bearer {TOKEN}"}


async def test_a_library_that_quotes_the_token_does_not_bring_it_into_the_status() -> None:
    def fail() -> None:
        raise OSError(f"Header value b'Bearer {TOKEN}' is illegal\nAuthorization: {TOKEN}")

    with pytest.raises(StepFailed) as failure:
        await hub_source._in_thread(fail, TOKEN)
    assert failure.value.message == "the hub cannot be reached: Header value b'Bearer ***' is illegal"
