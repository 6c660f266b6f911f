"""A bare repository and its large files, served on loopback."""

import gc
import hashlib
import io
import json
import threading
import warnings
from collections.abc import Iterable, Iterator
from itertools import repeat
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import pytest
from dulwich.lfs import LFSPointer
from dulwich.objects import Blob, Commit, Tree
from dulwich.repo import Repo
from dulwich.server import BackendRepo, DictBackend
from dulwich.web import make_wsgi_chain

from steelyard.steps.common import Log, StepFailed
from steelyard.steps.example import LOOPBACK, make_config, make_model_spec
from steelyard.steps.fetch_model import main
from steelyard.steps.git_source import git_files
from steelyard.steps.volume import SourceVersion, read_spec
from steelyard_evaluation.storage.files import FileStore
from steelyard_schema.egress import EgressPolicy
from steelyard_schema.resources import ModelResourceSpec

WEIGHTS = b"weights" * 100_000
OID = hashlib.sha256(WEIGHTS).hexdigest()


class Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


def make_repository(path: Path, link: bool = False, name: bytes = b"a.json") -> Repo:
    """README, config/a.json, and model.bin as a pointer; an older commit held something else."""
    path.mkdir()
    repo = Repo.init_bare(str(path))
    pointer = LFSPointer(OID, len(WEIGHTS)).to_bytes()
    inner = Tree()
    inner.add(name, 0o100644, _blob(repo, b"{}"))
    repo.object_store.add_object(inner)
    tree = Tree()
    tree.add(b".gitattributes", 0o100644, _blob(repo, b"*.bin filter=lfs diff=lfs merge=lfs -text\n"))
    tree.add(b"README.md", 0o100644, _blob(repo, b"# model"))
    tree.add(b"config", 0o040000, inner.id)
    tree.add(b"model.bin", 0o100644, _blob(repo, pointer))
    if link:
        tree.add(b"link", 0o120000, _blob(repo, b"/etc/passwd"))
    repo.object_store.add_object(tree)
    parents: list[Any] = []
    for message in (b"first", b"second"):
        commit = Commit()
        commit.tree, commit.parents, commit.message = tree.id, parents, message
        commit.author = commit.committer = b"A <a@example.org>"
        commit.author_time = commit.commit_time = 1_700_000_000
        commit.author_timezone = commit.commit_timezone = 0
        repo.object_store.add_object(commit)
        parents = [commit.id]
    repo.refs[b"refs/heads/main"] = parents[0]  # type: ignore[index]
    repo.refs.set_symbolic_ref(b"HEAD", b"refs/heads/main")  # type: ignore[arg-type]
    return repo


def _blob(repo: Repo, content: bytes) -> Any:
    blob = Blob.from_string(content)
    repo.object_store.add_object(blob)
    return blob.id


class Server:
    """`/model.git` and its LFS objects at `url`."""

    def __init__(self, repo: Repo) -> None:
        self.large = {OID: WEIGHTS}
        self.large_at = ""
        self.repeats = 1
        """Number of times that a large file is sent in one answer."""
        self.requests: list[str] = []
        served: dict[str, BackendRepo] = {"/model.git": repo}
        self._git = make_wsgi_chain(DictBackend(served))
        self._server: WSGIServer = make_server("127.0.0.1", 0, self, handler_class=Quiet)
        self.base = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __call__(self, environ: Any, start: Any) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        self.requests.append(path)
        if path == "/model.git/info/lfs/objects/batch":
            request = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
            start("200 OK", [("Content-Type", "application/vnd.git-lfs+json")])
            return [json.dumps({"objects": [self._offer(obj) for obj in request["objects"]]}).encode()]
        if path.startswith("/large/"):
            assert environ["HTTP_X_LARGE"] == "yes"
            start("200 OK", [("Content-Type", "application/octet-stream")])
            return repeat(self.large[path.removeprefix("/large/")], self.repeats)
        return self._git(environ, start)

    def _offer(self, request: Any) -> Any:
        if request["oid"] not in self.large:
            return {**request, "error": {"code": 404, "message": "Object does not exist"}}
        action = {
            "href": f"{self.large_at or self.base}/large/{request['oid']}",
            "header": {"X-Large": "yes"},
        }
        return {**request, "actions": {"download": action}}


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """The git library leaves answers of refused calls open; here, not in another test, they are collected. What a test
    made a moment ago is young: the whole heap takes half a second.
    """
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect(1)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with make_repository(tmp_path / "repository") as repo:
        server = Server(repo)
        yield server
        server.close()


async def _fetch(root: Path, url: str, policy: EgressPolicy = LOOPBACK) -> dict[str, bytes]:
    source = {"kind": "GitLFS", "gitLFS": {"url": url}}
    await main(
        make_config("fetch_model", "Model", make_model_spec(root, source), policy), Log("t", io.StringIO())
    )
    kept = json.loads((root / "model/.steelyard/manifest.json").read_bytes())["files"]
    return {file["path"]: (root / "model" / file["path"]).read_bytes() for file in kept}


@pytest.mark.parametrize("suffix", ["", "/"])
async def test_pointers_become_their_large_files(server: Server, tmp_path: Path, suffix: str) -> None:
    kept = await _fetch(tmp_path, f"{server.base}/model.git{suffix}")
    assert kept == {"README.md": b"# model", "config/a.json": b"{}", "model.bin": WEIGHTS}


async def test_a_large_file_with_another_digest_is_refused(server: Server, tmp_path: Path) -> None:
    server.large[OID] = b"x" * len(WEIGHTS)
    with pytest.raises(StepFailed, match=r"model\.bin is not the file .*its SHA-256 is") as failure:
        await _fetch(tmp_path, f"{server.base}/model.git")
    assert failure.value.permanent


async def test_a_missing_large_file_is_named(server: Server, tmp_path: Path) -> None:
    server.large.clear()
    with pytest.raises(StepFailed, match=f"the LFS server has no {OID}: Object does not exist") as failure:
        await _fetch(tmp_path, f"{server.base}/model.git")
    assert failure.value.permanent


async def test_no_such_repository_is_permanent(server: Server, tmp_path: Path) -> None:
    with pytest.raises(StepFailed) as failure:
        await _fetch(tmp_path, f"{server.base}/other.git")
    assert (failure.value.code, failure.value.permanent) == ("FetchFailed", True)


async def test_no_server_is_worth_a_retry(tmp_path: Path) -> None:
    with pytest.raises(
        StepFailed, match=r"the repository cannot be reached: no connection to 127\.0\.0\.1: "
    ) as failure:
        await _fetch(tmp_path, "http://127.0.0.1:9/model.git")
    assert not failure.value.permanent


async def test_symbolic_links_are_refused(tmp_path: Path) -> None:
    with make_repository(tmp_path / "repository", link=True) as repo:
        server = Server(repo)
        try:
            with pytest.raises(StepFailed, match="link is a symbolic link"):
                await _fetch(tmp_path, f"{server.base}/model.git")
        finally:
            server.close()


async def test_a_path_that_is_no_text_is_refused(tmp_path: Path) -> None:
    with make_repository(tmp_path / "repository", name="é.json".encode("latin-1")) as repo:
        server = Server(repo)
        try:
            with pytest.raises(StepFailed, match="is not UTF-8") as failure:
                await _fetch(tmp_path, f"{server.base}/model.git")
            assert failure.value.permanent
        finally:
            server.close()


async def test_a_repository_that_the_settings_do_not_allow_is_never_called(
    server: Server, tmp_path: Path
) -> None:
    policy = EgressPolicy(hosts=("github.com",), networks=("127.0.0.0/8",), setting="egress.sources")
    with pytest.raises(
        StepFailed, match=r"spec\.source\.gitLFS\.url: .* egress\.sources .* github\.com"
    ) as failure:
        await _fetch(tmp_path, f"{server.base}/model.git", policy)
    assert (failure.value.permanent, server.requests) == (True, [])


async def test_large_files_at_an_address_that_is_not_allowed_are_not_fetched(
    server: Server, tmp_path: Path
) -> None:
    server.large_at = server.base.replace("127.0.0.1", "localhost")
    with pytest.raises(StepFailed, match=r"'http://localhost:\d+/large/.*' is not allowed") as failure:
        await _fetch(tmp_path, f"{server.base}/model.git")
    assert failure.value.permanent
    assert not [path for path in server.requests if path.startswith("/large/")]


async def test_more_of_a_large_file_than_its_pointer_states_is_not_kept_on_the_disk(
    server: Server, tmp_path: Path
) -> None:
    server.repeats = 10
    with pytest.raises(StepFailed, match=f"sends more than {len(WEIGHTS)} bytes of {OID}") as failure:
        await _fetch(tmp_path, f"{server.base}/model.git")
    assert failure.value.permanent


def move_branch(repo: Repo, *parents: Any) -> None:
    """Give the branch a commit with another README."""
    head: Any = repo[repo.head()]
    tree: Any = repo[head.tree]
    tree.add(b"README.md", 0o100644, _blob(repo, b"# another model"))
    repo.object_store.add_object(tree)
    commit = head.copy()
    commit.tree, commit.parents = tree.id, list(parents)
    repo.object_store.add_object(commit)
    repo.refs[b"refs/heads/main"] = commit.id  # type: ignore[index]


@pytest.mark.parametrize("named", [False, True], ids=["not-given-by-itself", "of-a-tag"])
async def test_a_further_attempt_goes_on_with_the_commit_of_the_first(
    server: Server, tmp_path: Path, named: bool
) -> None:
    server.large.clear()
    with pytest.raises(StepFailed, match="Object does not exist"):
        await _fetch(tmp_path, f"{server.base}/model.git")
    server.large[OID] = WEIGHTS
    with Repo(str(tmp_path / "repository")) as repo:
        if named:
            repo.refs[b"refs/tags/v1"] = repo.head()  # type: ignore[index]
        move_branch(repo, repo.head())
    kept = await _fetch(tmp_path, f"{server.base}/model.git")
    assert kept == {"README.md": b"# model", "config/a.json": b"{}", "model.bin": WEIGHTS}


async def test_a_commit_that_the_repository_has_lost_is_named(server: Server, tmp_path: Path) -> None:
    server.large.clear()
    with pytest.raises(StepFailed, match="Object does not exist"):
        await _fetch(tmp_path, f"{server.base}/model.git")
    with Repo(str(tmp_path / "repository")) as repo:
        lost = repo.head().decode()
        move_branch(repo)
    with pytest.raises(StepFailed, match=f"does not have the commit {lost} any more") as failure:
        await _fetch(tmp_path, f"{server.base}/model.git")
    assert failure.value.permanent


async def test_of_two_first_attempts_one_decides_which_commit_it_is(server: Server, tmp_path: Path) -> None:
    """The other one has begun before the branch moved, and says so after this one has fetched."""
    with Repo(str(tmp_path / "repository")) as repo:
        first = repo.head()
        move_branch(repo, first)

    class Second(SourceVersion):
        async def find_version(self) -> str | None:
            return None

        async def keep(self, version: str) -> str:
            assert version != first.decode()
            return first.decode()

    source = {"kind": "GitLFS", "gitLFS": {"url": f"{server.base}/model.git"}}
    config = make_config("fetch_model", "Model", make_model_spec(tmp_path, source), LOOPBACK)
    spec = read_spec(config, ModelResourceSpec)
    (tmp_path / "scratch").mkdir()
    files = await git_files(spec, tmp_path / "scratch", LOOPBACK, Second(FileStore(tmp_path / "model")))
    (readme,) = [file for file in files if file.path == "README.md"]
    await readme.fetch(tmp_path / "README.md")
    assert (tmp_path / "README.md").read_bytes() == b"# model"
