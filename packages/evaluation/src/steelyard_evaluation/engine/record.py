"""`run.json`: what an evaluation ran, how, and where; written by the first attempt, compared by every later one. The
same folder holds a file for each server that was asked.

An output belongs to one set of inputs, one interface and one number of replications: going on with anything else would
mix answers to different questions.
"""

import contextlib
import hashlib
import os
import platform
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from typing import Any

import orjson

from steelyard_common.types import JsonValue
from steelyard_evaluation.engine import layout
from steelyard_evaluation.engine.errors import EvaluationFailed
from steelyard_evaluation.engine.manifest import FileEntry
from steelyard_evaluation.storage.checked import DigestMismatch, add_digest, check_record
from steelyard_evaluation.storage.store import ObjectExists, Store

_PACKAGES = {"steelyard": "steelyard-evaluation", **{name: name for name in ("aiohttp", "orjson", "pyarrow")}}
"""Distributions by the names that records give them: all packages of ours have one version."""


def describe(
    identity: Mapping[str, JsonValue],
    settings: Mapping[str, JsonValue],
    inputs: Sequence[FileEntry],
    now: str,
) -> dict[str, JsonValue]:
    """The content of run.json. `identity` may never change between attempts, `settings` may."""
    fixed = {**identity, "inputs": [entry.model_dump() for entry in inputs]}
    return {
        "identity": fixed,
        "digest": hashlib.sha256(orjson.dumps(fixed, option=orjson.OPT_SORT_KEYS)).hexdigest(),
        "settings": dict(settings),
        # Outside the digest: an upgrade between two attempts changes no question.
        "environment": {
            "python": platform.python_version(),
            "platform": platform.platform(),
            "processors": os.cpu_count(),
            "packages": {name: _version(distribution) for name, distribution in _PACKAGES.items()},
        },
        "created": now,
    }


@cache  # the code that this process has loaded keeps its version, and reading one takes 5 ms
def _version(package: str) -> str:
    return version(package)


async def record(store: Store, run: Mapping[str, JsonValue], dataset: str) -> None:
    """Write run.json, or check that this attempt asks the same as the one that did.

    `dataset` is the address of the inputs, for messages. Raises DigestMismatch where only their bytes differ, and
    EvaluationFailed where anything else does; either says what differs.
    """
    try:
        await store.create(layout.RUN, orjson.dumps(add_digest(run), option=orjson.OPT_INDENT_2))
    except ObjectExists:
        # Create-only, so also of two attempts that begin at once one is the first, and the other is compared with it.
        first = check_record(await store.get(layout.RUN), store.url, layout.RUN)
        if first["digest"] != run["digest"]:
            names = sorted({*first["identity"], *run["identity"]})
            changed = [name for name in names if first["identity"].get(name) != run["identity"].get(name)]
            if changed == ["inputs"]:
                _refuse_edited(first["identity"]["inputs"], run["identity"]["inputs"], dataset)
            raise EvaluationFailed(
                "InputsChanged",
                f"this output was begun with other {', '.join(changed)}: use another output",
                permanent=True,
            ) from None


def _refuse_edited(before: Any, now: Any, dataset: str) -> None:
    """Raise DigestMismatch where the inputs have the files and rows of before, and other bytes: their answers stand."""
    if [(file["path"], file["rows"]) for file in before] != [(file["path"], file["rows"]) for file in now]:
        return
    path = next(new["path"] for old, new in zip(before, now, strict=True) if old != new)
    raise DigestMismatch(
        dataset, path, "is not the file that this output was begun with: put the file back"
    ) from None


async def record_server(store: Store, server: Mapping[str, JsonValue]) -> None:
    """Write the record of a server that is about to be asked; one that was recorded has its file already."""
    data = orjson.dumps(server, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS)
    # The name is the digest of the content: what is there is the same.
    with contextlib.suppress(ObjectExists):
        await store.create(_server_key(data), data)


async def read_servers(store: Store) -> dict[str, bytes]:
    """Return the records of the servers that were asked, by their paths. Raises DigestMismatch for a changed one."""
    paths = sorted([info.key async for info in store.list(layout.SERVERS)])
    records = {path: await store.get(path) for path in paths}
    for path, data in records.items():
        if path != _server_key(data):
            raise DigestMismatch(store.url, path, "is not what was kept: its name is of another digest")
    return records


def _server_key(data: bytes) -> str:
    return f"{layout.SERVERS}{hashlib.sha256(data).hexdigest()[:16]}.json"
