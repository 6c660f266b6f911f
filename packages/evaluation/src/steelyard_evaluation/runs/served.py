"""The model that a run asks, where it is known: the digests of its files, and the server that computes with them.

The files belong to the identity of a run: answers of other weights are never mixed with its own. Servers are recorded
with its answers, one file for each, since another version may go on with a run.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import aiohttp
import orjson

from steelyard_common.connections import TrackingConnector
from steelyard_common.errors import UsageError
from steelyard_common.types import JsonValue
from steelyard_evaluation.runs.plan import api_key
from steelyard_evaluation.runs.request import RunRequest
from steelyard_evaluation.runs.resolve import ResolvedRequest, find_changed_files, load_record

VOLUMES = "volumes"
SECONDS = 10.0
_SESSION = re.compile(r"(https?://.+/inferencesessions/[0-9a-f]{32})/infer(/|$)")


@dataclass(frozen=True)
class ServedModel:
    """Files and servers of a model, in the form in which the record of a run has them."""

    volumes: Sequence[Mapping[str, JsonValue]]
    servers: Sequence[Mapping[str, JsonValue]]


def model_volume(name: str, files: Sequence[Mapping[str, JsonValue]]) -> dict[str, JsonValue]:
    """Return a model's files (path, size, sha256) in the form in which evaluations on a platform record them."""
    return {
        "name": "model",
        "source": {"kind": "Model", "name": name},
        "files": [dict(file) for file in files],
    }


def with_model(resolved: ResolvedRequest, served: ServedModel | None) -> ResolvedRequest:
    """Return the request with the model's files in its identity.

    A run that was begun without them goes on without: it is not known what gave its first answers. One that was begun
    with them keeps them where nothing says which there are now: a session's never change, and who names another address
    says that the same model answers there.
    """
    before = load_record(resolved.folder).get("identity")
    volumes = before.get(VOLUMES) if before is not None else None
    if served is not None and (before is None or volumes is not None):
        volumes = [dict(volume) for volume in served.volumes]
    if volumes is None:
        return resolved
    identity = {**resolved.identity, VOLUMES: volumes}
    return replace(resolved, identity=identity, servers=tuple(served.servers) if served else ())


async def ask_session(request: RunRequest, environment: Mapping[str, str]) -> ServedModel | None:
    """Return what a session of a platform says that it serves; None for a URL of another server, or one that does not
    answer."""
    sessions = [match[1] for url in request.base_urls if (match := _SESSION.match(url))]
    # One URL of unknown weights among several: nothing can be said of the run as a whole.
    if len(sessions) < len(request.base_urls):
        return None
    key = api_key(request, environment)
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    volumes: list[JsonValue] = []
    servers: list[JsonValue] = []
    async with aiohttp.ClientSession(
        connector=TrackingConnector(), headers=headers, timeout=aiohttp.ClientTimeout(SECONDS)
    ) as session:
        for url in dict.fromkeys(sessions):
            try:
                async with session.get(f"{url}/served", allow_redirects=False) as response:
                    answer = orjson.loads(await response.read()) if response.status == 200 else {}
            except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
                return None
            # Whatever answers there need not be a platform of ours.
            said = answer if isinstance(answer, dict) else {}
            if not isinstance(said.get("volumes"), list) or not isinstance(said.get("servers"), list):
                return None
            if not said["volumes"]:
                return None
            volumes += [volume for volume in said["volumes"] if volume not in volumes]
            servers += [server for server in said["servers"] if server not in servers]
    return ServedModel(volumes, servers)


def check_model(resolved: ResolvedRequest, volumes: Sequence[Mapping[str, JsonValue]]) -> None:
    """Raise UsageError where a begun run has answers of other files; one that does not say is left alone."""
    before = load_record(resolved.folder).get("identity", {}).get(VOLUMES)
    if before is not None and (changed := find_changed_files(before, volumes)):
        raise UsageError(
            f"{resolved.folder.path}: has answers of another model: {', '.join(changed[:5])} "
            f"{'differs' if len(changed) == 1 else 'differ'}. Choose another folder (--output), or ask every row "
            "again (--fresh)"
        )
