"""Files that get their name when they are whole: after a power loss, a name stands for the old content or for the new.

A power loss cannot be played here. The test checks the order that survives one: the content is on the disk before the
file has its name, and the folder is on the disk before the writer goes on.
"""

import ast
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from steelyard.accounts.secrets.keys import make_keys
from steelyard_common.durable import rename_durably, write_atomically
from steelyard_evaluation.storage.files import FileStore
from steelyard_evaluation.storage.store import open_store
from steelyard_local_kubernetes.apiserver.pki import write_private
from steelyard_local_kubernetes.kubelet import shim
from tests.source import modules, short_name

KEPT_ASIDE = "puts a file aside whose content was on the disk before"
SEEN_AT_ONCE = "a Pod's own folder, which ends with the machine"
PART = "a part of an upload, which ends with the machine's boot; its object is synced as a whole"
RENAMES = {
    "steelyard_common/durable.py rename_durably": "this is the durable way",
    "steelyard_evaluation/storage/files.py _link": "the content is that of another object, which is on the disk",
    "steelyard_evaluation/storage/files.py _name": "syncs the folder itself; its callers have synced the content",
    "client/transfer.py _check_and_rename": "syncs the content itself; a download whose name is lost is repeated",
    "accounts/secrets/keys.py make_keys": "syncs the content and the folder itself",
    "steelyard_local_kubernetes/kubelet/shim.py write_bytes": "syncs both itself: it has no `durable`",
    "steelyard_evaluation/storage/digest_cache.py save": "a cache: what cannot be read is computed again",
    "views/sqlite/view.py _put_aside": KEPT_ASIDE,
    "local/files.py new_kubernetes": KEPT_ASIDE,
    "services/storage_server/uploads.py add": PART,
    "services/storage_server/uploads.py keep_part": PART,
    "services/storage_server/uploads.py _write_record": PART,
    "steelyard_local_kubernetes/gpus/assignments.py free": KEPT_ASIDE,
    "steelyard_evaluation/runs/resolve.py set_aside": KEPT_ASIDE,
    "local/kept_process.py _open_log": KEPT_ASIDE,
    "steelyard_local_kubernetes/kubelet/volumes.py make": SEEN_AT_ONCE,
    "steelyard_local_kubernetes/kubelet/preparation.py write_profile": SEEN_AT_ONCE,
    "steelyard_local_kubernetes/kubelet/versions.py _link": SEEN_AT_ONCE,
    "steelyard_local_kubernetes/names/folder.py namespace_file": SEEN_AT_ONCE,
    "steps/fetch_volume.py copy": SEEN_AT_ONCE,
    "steelyard_evaluation/analysis/scores.py record": SEEN_AT_ONCE,
}
"""Functions that give a file its name, and why each may do so."""


@dataclass
class RecordedCalls:
    """Calls in the order in which they were made: paths that were synced, and names that were given."""

    calls: list[tuple[str, str]] = field(default_factory=list)

    def synced(self, descriptor: int) -> None:
        self.calls.append(("sync", os.readlink(f"/proc/self/fd/{descriptor}")))

    def named(self, source: object, target: object) -> None:
        self.calls.append((f"name {os.fspath(source)}", os.fspath(target)))  # type: ignore[call-overload]


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> RecordedCalls:
    result = RecordedCalls()
    fsync = os.fsync

    def sync(descriptor: int) -> None:
        fsync(descriptor)
        result.synced(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    for name in ("replace", "rename", "link"):
        monkeypatch.setattr(os, name, recording(getattr(os, name), result))
    return result


def recording(call: Callable[..., None], result: RecordedCalls) -> Callable[..., None]:
    def give(source: Any, target: Any, **options: Any) -> None:
        call(source, target, **options)
        result.named(source, target)

    return give


async def _rename(path: Path) -> None:
    scratch = path.with_name("scratch")
    scratch.write_bytes(b"content")
    rename_durably(scratch, path)


async def _keys(path: Path) -> None:
    make_keys(path)


async def _atomically(path: Path) -> None:
    write_atomically(path, "content")


async def _private(path: Path) -> None:
    write_private(path, b"content")


async def _shim(path: Path) -> None:
    shim.write_bytes(str(path), b"content")


async def _put(path: Path) -> None:
    await open_store(path.parent.as_uri()).put(path.name, b"content")


async def _place(path: Path) -> None:
    store, scratch = FileStore(path.parent), path.with_name("scratch")
    with scratch.open("wb") as file:
        os.fsync(file.fileno())
    await store.place(path.name, scratch, replace=False)


async def _create(path: Path) -> None:
    await open_store(path.parent.as_uri()).create(path.name, b"content")


@pytest.mark.parametrize("write", [_rename, _keys, _atomically, _private, _shim, _put, _create, _place])
async def test_a_file_is_on_the_disk_before_it_has_its_name(
    write: Callable[[Path], Awaitable[None]], recorded: RecordedCalls, tmp_path: Path
) -> None:
    path = tmp_path / "file.txt"
    await write(path)
    assert path.exists()
    (at,) = [number for number, (call, target) in enumerate(recorded.calls) if target == str(path)]
    scratch = recorded.calls[at][0].removeprefix("name ")
    assert ("sync", scratch) in recorded.calls[:at], "the content may come to the disk after the name"
    assert ("sync", str(tmp_path)) in recorded.calls[at:], "the name may be lost"


def gives_a_name(node: ast.AST) -> bool:
    """Return whether a call gives a file its name. A text's `replace` takes two arguments."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return False
    if ast.unparse(node.func.value) == "os":
        return node.func.attr in {"replace", "rename", "link"}
    single = len(node.args) == 1 and not node.keywords
    return single and node.func.attr in {"replace", "rename", "hardlink_to"}


def test_each_file_gets_its_name_in_the_durable_way_or_says_why_not() -> None:
    renaming = set()
    for path in modules():
        if path.name.startswith("test") or "testing" in path.parts:
            continue
        for function in ast.walk(ast.parse(path.read_text())):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if any(map(gives_a_name, ast.walk(function))):
                renaming.add(f"{short_name(path)} {function.name}")
    assert renaming == RENAMES.keys()
