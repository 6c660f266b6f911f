"""Models in git repositories with large files (Git LFS), cloned by dulwich.

No git program has to be installed.

Only one commit is fetched, the newest of the default branch at the first attempt; large files are streamed to disk by
the addresses that the LFS server gives.
"""

import asyncio
import re
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from stat import S_ISLNK, S_ISREG
from typing import TypeVar

import urllib3
from dulwich.client import HttpGitClient, HTTPUnauthorized, get_transport_and_path
from dulwich.errors import GitProtocolError, NotGitRepository
from dulwich.lfs import HTTPLFSClient, LFSBatchObject, LFSError, LFSPointer
from dulwich.object_store import iter_tree_contents
from dulwich.objects import Blob, Commit, ObjectID
from dulwich.refs import HEADREF
from dulwich.repo import Repo

from steelyard.egress.policy import check_url
from steelyard.egress.urllib3_pools import GuardedPoolManager
from steelyard.steps.common import StepFailed
from steelyard.steps.model_sources import FETCH_FAILED, RemoteFile
from steelyard.steps.volume import SourceVersion
from steelyard_schema.egress import EgressPolicy, EgressRefused
from steelyard_schema.resources import ModelResourceSpec

T = TypeVar("T")
PIECE = 1 << 20
SECONDS = 60.0
"""Longest time for a connection, and without a byte of an answer."""
NOT_KEPT = frozenset({".gitattributes", ".gitignore"})
_CONNECTION = re.compile(r"^\w+\(host=[^)]*\): ")


class _LFSClient(HTTPLFSClient):
    """A client of LFS whose calls go through a given pool manager."""

    def __init__(self, url: str, pools: GuardedPoolManager) -> None:
        super().__init__(url)
        self.pools = pools

    def _get_pool_manager(self) -> GuardedPoolManager:
        return self.pools


async def git_files(
    spec: ModelResourceSpec, scratch: Path, policy: EgressPolicy, version: SourceVersion
) -> list[RemoteFile]:
    """Return the files of one commit; pointers stand for their large files. Raises StepFailed.

    The commit is the newest one that the first attempt found, however the branch has moved since.
    """
    source = spec.source.gitLFS
    if source is None:
        raise StepFailed("BadConfiguration", "spec.source.gitLFS: is missing", permanent=True)
    url = source.url
    try:
        check_url(policy, url, "spec.source.gitLFS.url")
    except EgressRefused as error:
        raise StepFailed(FETCH_FAILED, str(error), permanent=True) from error
    pools = GuardedPoolManager(policy, timeout=urllib3.Timeout(connect=SECONDS, read=SECONDS))
    kept = await version.find_version()
    commit, entries = await _in_thread(lambda: _check_out(url, scratch / "newest", pools, kept))
    first = await version.keep(commit)
    if first != commit:  # that of another attempt, which ran at the same time
        commit, entries = await _in_thread(lambda: _check_out(url, scratch / "first", pools, first))
    if not entries:
        raise StepFailed(FETCH_FAILED, f"{url} holds no files", permanent=True)
    # The address that Git LFS specifies for a repository without one of its own in `.lfsconfig`.
    lfs = _LFSClient(f"{url.rstrip('/').removesuffix('.git')}.git/info/lfs", pools)
    return [_file(lfs, path, local) for path, local in entries]


def _check_out(
    url: str, scratch: Path, pools: GuardedPoolManager, named: str | None
) -> tuple[str, list[tuple[str, Path]]]:
    """Return a commit, by default the newest one, and its files as git holds them, on disk under plain numbers."""
    folder, tree = scratch / "repository", scratch / "tree"
    folder.mkdir(parents=True)
    tree.mkdir()
    entries = []
    with closing(Repo.init_bare(str(folder))) as repo:
        id = _fetch(url, repo, pools, named)
        commit = repo[id]
        assert isinstance(commit, Commit)
        for number, entry in enumerate(iter_tree_contents(repo.object_store, commit.tree)):
            # Git's paths are bytes; the keys of a storage are text.
            try:
                path = entry.path.decode()
            except UnicodeDecodeError as error:
                text = f"the path {entry.path!r} is not UTF-8, and cannot be kept"
                raise StepFailed(FETCH_FAILED, text, permanent=True) from error
            # Files about the repository itself; the model's files are complete without them.
            if path.rpartition("/")[2] in NOT_KEPT:
                continue
            if not S_ISREG(entry.mode):
                kind = "a symbolic link" if S_ISLNK(entry.mode) else "a submodule"
                raise StepFailed(FETCH_FAILED, f"{path} is {kind}, which cannot be kept", permanent=True)
            blob = repo[entry.sha]
            assert isinstance(blob, Blob)
            # Under a number: a path of the repository could lead out of the folder.
            (tree / str(number)).write_bytes(blob.as_raw_string())
            entries.append((path, tree / str(number)))
    return id.decode(), entries


def _fetch(url: str, repo: Repo, pools: GuardedPoolManager, named: str | None) -> ObjectID:
    client, path = get_transport_and_path(url, pool_manager=pools)
    assert isinstance(client, HttpGitClient)  # the schema lets only http and https through
    with closing(client):
        if named is not None:
            return _fetch_by_name(client, path, repo, ObjectID(named.encode()))
        fetched = client.fetch(path, repo, depth=1, determine_wants=lambda refs, depth=None: [refs[HEADREF]])
    head = fetched.refs.get(HEADREF)
    if head is None:
        raise NotGitRepository(f"{url} has no commit")
    return head


def _fetch_by_name(client: HttpGitClient, path: str, repo: Repo, commit: ObjectID) -> ObjectID:
    try:
        client.fetch(path, repo, depth=1, determine_wants=lambda refs, depth=None: [commit])
    except GitProtocolError:
        # Some servers give by itself only the commit of a branch or a tag; the others come with the branch's history.
        client.fetch(path, repo, determine_wants=lambda refs, depth=None: [refs[HEADREF]])
    if commit not in repo.object_store:
        text = f"it does not have the commit {commit.decode()} any more, of which an earlier attempt has kept files"
        raise NotGitRepository(text)
    return commit


def _file(lfs: _LFSClient, path: str, path_in_tree: Path) -> RemoteFile:
    size = path_in_tree.stat().st_size
    # The specification of LFS: a pointer has less than 1,024 bytes. Larger files need not be read for this.
    pointer = LFSPointer.from_bytes(path_in_tree.read_bytes()) if size < 1024 else None
    if pointer is None or not pointer.is_valid_oid():

        async def move(local: Path) -> None:
            await asyncio.to_thread(shutil.move, path_in_tree, local)

        return RemoteFile(path, move, size)

    async def fetch(local: Path) -> None:
        await _in_thread(lambda: _large(lfs, pointer, local))

    return RemoteFile(path, fetch, pointer.size, pointer.oid)


def _large(lfs: _LFSClient, pointer: LFSPointer, local: Path) -> None:
    """Stream one large file to disk; `RemoteFile.check` compares size and digest. Raises StepFailed, LFSError."""
    answer = lfs.batch("download", [{"oid": pointer.oid, "size": pointer.size}])
    action = _download(answer.objects, pointer.oid)
    # The LFS server names the address and its headers; the repository's own credentials must not go there.
    with lfs.pools.request("GET", action[0], headers=action[1], preload_content=False) as response:
        if response.status >= 400:
            raise LFSError(f"{action[0]}: HTTP {response.status}")
        left = pointer.size
        with local.open("wb") as file:
            while piece := response.read(PIECE):
                left -= len(piece)
                if left < 0:  # the disk has room for the file, not for what a server may send without end
                    text = f"the LFS server sends more than {pointer.size} bytes of {pointer.oid}"
                    raise StepFailed(FETCH_FAILED, text, permanent=True)
                file.write(piece)


def _download(objects: list[LFSBatchObject], oid: str) -> tuple[str, dict[str, str]]:
    for obj in objects:
        if obj.oid == oid and obj.error is not None:
            raise StepFailed(
                FETCH_FAILED,
                f"the LFS server has no {oid}: {obj.error.message}",
                permanent=400 <= obj.error.code < 500,
            )
        if obj.oid == oid and obj.actions and "download" in obj.actions:
            action = obj.actions["download"]
            return action.href, dict(action.header or {})
    raise LFSError(f"the LFS server offers no download of {oid}")


async def _in_thread(work: Callable[[], T]) -> T:
    """Run blocking work in a thread. Raises the library's failures as StepFailed."""
    try:
        return await asyncio.to_thread(work)
    except (NotGitRepository, HTTPUnauthorized, KeyError) as error:
        raise StepFailed(
            FETCH_FAILED, f"this repository cannot be cloned: {error}", permanent=True
        ) from error
    except EgressRefused as error:
        raise StepFailed(FETCH_FAILED, str(error), permanent=True) from error
    except (GitProtocolError, LFSError, urllib3.exceptions.HTTPError, OSError) as error:
        raise StepFailed(
            FETCH_FAILED, f"the repository cannot be reached: {_cause(error)}", permanent=False
        ) from error


def _cause(error: Exception) -> str:
    """Return the failure, without the library's name of the connection and the count of its attempts."""
    # dulwich raises an error of its own with the text of the first one.
    for failure in (error, error.__cause__):
        if isinstance(failure, urllib3.exceptions.MaxRetryError) and failure.reason:
            return _CONNECTION.sub("", str(failure.reason))
    return str(error)
