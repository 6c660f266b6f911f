"""`run.json`: what was evaluated, how, and where; written by the first attempt, compared by every later one. The same
folder holds a file for each server that was asked.

An output belongs to one set of inputs, one interface and one number of replications: going on with anything else would
mix answers to different questions.
"""

import contextlib
import hashlib
import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version

import orjson

from steelyard.evaluation import layout
from steelyard.evaluation.errors import EvaluationFailed
from steelyard.evaluation.manifest import FileEntry
from steelyard.storage.store import ObjectExists, Store
from steelyard.types import JsonValue

_PACKAGES = ("steelyard", "aiohttp", "orjson", "pyarrow")


def describe(
    identity: Mapping[str, JsonValue],
    settings: Mapping[str, JsonValue],
    inputs: Sequence[FileEntry],
    now: str,
) -> dict[str, JsonValue]:
    """The content of run.json. `identity` may never change between attempts, `settings` may."""
    fixed = {**identity, "inputs": [entry.model_dump() for entry in inputs]}
    return {
        "schemaVersion": "0.1",
        "identity": fixed,
        "digest": hashlib.sha256(orjson.dumps(fixed, option=orjson.OPT_SORT_KEYS)).hexdigest(),
        "settings": dict(settings),
        # Outside the digest: an upgrade between two attempts changes no question.
        "environment": {
            "python": platform.python_version(),
            "platform": platform.platform(),
            "processors": os.cpu_count(),
            "packages": {name: version(name) for name in _PACKAGES},
        },
        "created": now,
    }


async def record(store: Store, run: Mapping[str, JsonValue]) -> None:
    """Write run.json, or check that this attempt asks the same as the one that did; says what differs."""
    try:
        await store.create(layout.RUN, orjson.dumps(run, option=orjson.OPT_INDENT_2))
    except ObjectExists:
        # Create-only, so also of two attempts that begin at once one is the first, and the other is compared with it.
        first = orjson.loads(await store.get(layout.RUN))
        if first["digest"] != run["digest"]:
            names = sorted({*first["identity"], *run["identity"]})
            changed = [name for name in names if first["identity"].get(name) != run["identity"].get(name)]
            raise EvaluationFailed(
                "InputsChanged",
                f"this output was begun with other {', '.join(changed)}: use another output",
                permanent=True,
            ) from None


async def record_server(store: Store, server: Mapping[str, JsonValue]) -> None:
    """Write the record of a server that is about to be asked; one that was recorded has its file already."""
    data = orjson.dumps(server, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS)
    # The name is the digest of the content: what is there is the same.
    with contextlib.suppress(ObjectExists):
        await store.create(f"{layout.SERVERS}{hashlib.sha256(data).hexdigest()[:16]}.json", data)


async def recorded_servers(store: Store) -> dict[str, bytes]:
    """Return the records of the servers that were asked, by their paths."""
    paths = sorted([info.key async for info in store.list(layout.SERVERS)])
    return {path: await store.get(path) for path in paths}
