"""The model that a run asks, where it is known: the digests of its files, and the server that computes with them.

The files belong to the identity of a run: answers of other weights are never mixed with its own. Servers are recorded
beside its answers, one file for each, since another version may go on with a run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from steelyard.errors import UsageError
from steelyard.runs.resolve import ResolvedRequest, changed_files, record_of
from steelyard.types import JsonValue

VOLUMES = "volumes"


@dataclass(frozen=True)
class Served:
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


def with_model(resolved: ResolvedRequest, served: Served) -> ResolvedRequest:
    """Return the request with the model's files in its identity.

    A run that was begun without them goes on without: nobody knows what gave its first answers.
    """
    before = record_of(resolved.folder).get("identity")
    if before is not None and VOLUMES not in before:
        return resolved
    identity = {**resolved.identity, VOLUMES: [dict(volume) for volume in served.volumes]}
    return replace(resolved, identity=identity, servers=tuple(served.servers))


def check_model(resolved: ResolvedRequest, volumes: Sequence[Mapping[str, JsonValue]]) -> None:
    """Raise UsageError where a begun run has answers of other files; one that does not say is left alone."""
    before = record_of(resolved.folder).get("identity", {}).get(VOLUMES)
    if before is not None and (changed := changed_files(before, volumes)):
        raise UsageError(
            f"{resolved.folder.path}: has answers of another model: {', '.join(changed[:5])} "
            f"{'differs' if len(changed) == 1 else 'differ'}. Choose another folder (--output), or ask every row "
            "again (--fresh)"
        )
