"""Datasets of a workflow: the files that it reads and writes, under the names that OpenLineage gives to files.

OpenLineage names files by the store (`s3://BUCKET`, `file`) and the path in it, so that other programs that read or
write the same files name them alike.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from steelyard.services.orchestrator.manifest import KUBE, Unresolvable, manifest
from steelyard_common.arrow_schema import BadArrowSchema, read_fields
from steelyard_schema.base import DyffEntity
from steelyard_schema.dataset import Dataset
from steelyard_schema.dependencies import find_data_source
from steelyard_schema.entities import PLURALS
from steelyard_schema.evaluation import Evaluation
from steelyard_schema.hosted_model import SPENDING
from steelyard_schema.measurement import Measurement

_KINDS = {plural: kind for kind, plural in PLURALS.items()}


@dataclass(frozen=True)
class Files:
    """One dataset: where its files lie, as OpenLineage names it, and the entity that they belong to, if any."""

    namespace: str
    name: str
    entity: str | None = None


def list_files(entity: DyffEntity, storage: str) -> tuple[list[Files], list[Files]]:
    """Return what the entity's workflow reads, and what it writes, below the URL of the storage."""
    if entity.dump()["kind"] not in KUBE:
        return [], []
    try:
        spec = manifest(entity)["spec"]["storage"]
    except Unresolvable:
        return [], []  # it fails for that, and nothing is read or written
    places: Mapping[str, str] = spec["inputs"]
    # The ledger of what a service has spent is no data of its evaluations.
    read = {place for name, place in places.items() if name != SPENDING}
    inputs = [_files(place, storage) for place in sorted(read)]
    # A service has no files of its own; its model's are what an evaluation of it reads.
    if isinstance(entity, Evaluation) and (model := entity.inferenceSession.inferenceService.model):
        used = _files(f"{PLURALS['Model']}/{model.id}", storage)
        inputs += [used] if used not in inputs else []
    return inputs, [_files(spec["output"], storage)] if "output" in spec else []


def _files(place: str, storage: str) -> Files:
    url = urlsplit(storage)
    plural, _, id = place.partition("/")
    entity = id if plural in _KINDS else None
    if url.scheme == "file":
        return Files("file", f"{url.path.rstrip('/')}/{place}", entity)
    path = url.path.strip("/")
    return Files(f"{url.scheme}://{url.netloc}", f"{path}/{place}" if path else place, entity)


def files_version(entity: DyffEntity) -> str:
    """Return the version of an entity's files. They never change once they are there, so one entity has one."""
    if not isinstance(entity, Dataset) or find_data_source(entity):
        return entity.id
    lines = sorted(f"{artifact.path} {artifact.digest.md5 or ''}\n" for artifact in entity.artifacts)
    return f"sha256:{hashlib.sha256(''.join(lines).encode()).hexdigest()}"


def list_fields(entity: DyffEntity) -> list[tuple[str, str]]:
    """Return the names and types of the rows' fields; nothing for an entity without readable rows."""
    match entity:
        case Dataset() | Measurement():
            schema = entity.schema_.arrowSchema
        case Evaluation():
            schema = entity.inferenceSession.inferenceService.interface.outputSchema.arrowSchema
        case _:
            return []
    try:
        return [(field.name, field.type.text) for field in read_fields(schema)]
    # The uploader of a dataset names its schema: an invalid one is no reason to report nothing.
    except BadArrowSchema:
        return []
