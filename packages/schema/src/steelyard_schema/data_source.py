"""DataSource: a place outside the platform that data comes from, fetched once with its digests; or uploaded files."""

import json
from collections.abc import Mapping
from typing import Literal

from steelyard_schema.base import Annotation, DyffEntity, SchemaModel
from steelyard_schema.bounds import Line, Word

UPLOAD = "upload"
"""The `sourceKind` of files that a client uploads."""
UPLOADS = "steelyard/uploads"
"""Annotation of a DataSource whose files a client uploads: JSON object of their paths and MD5 digests in base64."""

FILES = "steelyard/files"
"""Annotation of a DataSource or a Dataset: JSON list of the patterns of the files that it takes of its source."""


class DataSourceFields(SchemaModel):
    """Fields of a DataSource besides those of every entity."""

    name: Word
    """Name for people."""
    sourceKind: Word
    """Kind of place: huggingface, upload or zenodo."""
    source: Line | None = None
    """Address of the data: OWNER/NAME@REVISION or a URL of the hub, a record's number, DOI or URL of Zenodo."""


class DataSource(DataSourceFields, DyffEntity):
    """A place outside the platform that data comes from, fetched once with its digests; or uploaded files."""

    kind: Literal["DataSource"] = "DataSource"
    """Kind of the entity: DataSource."""


def pattern_notes(files: list[str] | None) -> list[dict[str, str]]:
    """Return the annotation that keeps the patterns of files, in a list; an empty list without patterns."""
    return [Annotation(key=FILES, value=json.dumps(files)).dump()] if files else []


def file_patterns(entity: DyffEntity) -> list[str]:
    """Return the patterns of the files that a data source or a dataset takes of its source; none stands for all."""
    text = next((note.value for note in entity.annotations if note.key == FILES), "[]")
    return [str(pattern) for pattern in json.loads(text)]


def upload_note(digests: Mapping[str, str | None]) -> Annotation:
    """Return the annotation that keeps the paths and the MD5 digests of the files that a client will upload."""
    return Annotation(key=UPLOADS, value=json.dumps(digests))


def list_uploads(source: DataSource) -> dict[str, str | None]:
    """Return the paths and the MD5 digests of the files that a client uploads; none of a source that is fetched."""
    if source.sourceKind != UPLOAD:
        return {}
    text = next((note.value for note in source.annotations if note.key == UPLOADS), "{}")
    return dict(json.loads(text))
