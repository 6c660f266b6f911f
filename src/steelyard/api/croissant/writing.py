"""Writes a dataset as Croissant 1.0: its files with their digests, its columns with their types. Pure, but for pyarrow.

Paths of files are relative: with `croissant.json` in the folder of the downloaded files, mlcroissant can read the rows
without the platform.
"""

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from steelyard.api.croissant.facts import Facts
from steelyard.schema.dataset import Dataset
from steelyard.types import Json

VERSION = "http://mlcommons.org/croissant/1.0"
RECORDS, FILES = "rows", "files"
CONTEXT: Json = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
"""The context that the specification prints."""


@dataclass(frozen=True)
class DataFile:
    """A file of the dataset, as its manifest has it."""

    path: str
    size: int
    sha256: str


def croissant(dataset: Dataset, files: Sequence[DataFile], arrow_schema: str, facts: Facts) -> Json:
    """Return the JSON-LD of a dataset; `arrow_schema` is the base64 of the serialised schema of its rows."""
    text = dataset.metadata.documentation
    document: Json = {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": VERSION,
        "name": facts.name or dataset.name,
        "description": facts.description or text.summary or text.title or dataset.name,
        "identifier": dataset.id,
        "dateCreated": dataset.creationTime.date().isoformat(),
        "datePublished": facts.datePublished or dataset.creationTime.date().isoformat(),
        "version": facts.version or "1.0.0",
        **{
            name: value
            for name, value in facts.dump().items()
            if name in ("citeAs", "url", "keywords") and value
        },
        **({"license": facts.license} if facts.license else {}),
        **(
            {"creator": [{"@type": "Person", "name": name} for name in facts.creator]}
            if facts.creator
            else {}
        ),
        "distribution": [_file(file) for file in files],
    }
    tables = [file.path for file in files if file.path.endswith(".parquet")]
    source: Json = {"fileObject": {"@id": tables[0]}} if len(tables) == 1 else {"fileSet": {"@id": FILES}}
    if len(tables) > 1:
        document["distribution"].append(
            {
                "@type": "cr:FileSet",
                "@id": FILES,
                "name": FILES,
                "includes": tables,
                "encodingFormat": "application/x-parquet",
            }
        )
    if tables and (columns := list(_fields(arrow_schema, source, facts.fields))):
        document["recordSet"] = [{"@type": "cr:RecordSet", "@id": RECORDS, "name": RECORDS, "field": columns}]
    return document


def columns_of(arrow_schema: str) -> list[str]:
    """Return the names of the columns of a schema; none where it cannot be read. Blocking: it loads pyarrow."""
    return [field.name for field in _schema(arrow_schema)]


def _file(file: DataFile) -> Json:
    table = file.path.endswith(".parquet")
    return {
        "@type": "cr:FileObject",
        "@id": file.path,
        "name": file.path,
        "contentUrl": file.path,
        "contentSize": f"{file.size} B",
        "encodingFormat": "application/x-parquet" if table else "application/octet-stream",
        "sha256": file.sha256,
    }


def _fields(arrow_schema: str, source: Json, texts: Mapping[str, str]) -> Iterator[Json]:
    for column in _schema(arrow_schema):
        described = {"description": text} if (text := texts.get(column.name)) else {}
        if (kind := _kind(column.type)) is not None:
            yield {**_field(RECORDS, column.name, source, column.name), **described, **kind}
        elif parts := list(_parts(column, source)):
            name = f"{RECORDS}/{column.name}"
            yield {"@type": "cr:Field", "@id": name, "name": column.name, **described, "subField": parts}


def _parts(column: Any, source: Json) -> Iterator[Json]:
    """Yield the fields of an object's parts; none for what Croissant has no word for, such as lists of objects."""
    import pyarrow as pa

    if not pa.types.is_struct(column.type):
        return
    for number in range(column.type.num_fields):
        part = column.type.field(number)
        if (kind := _kind(part.type)) is not None:
            field = _field(f"{RECORDS}/{column.name}", part.name, source, column.name)
            field["source"]["transform"] = {"jsonPath": part.name}
            yield {**field, **kind}


def _field(parent: str, name: str, source: Json, column: str) -> Json:
    own = {**source, "extract": {"column": column}}
    return {"@type": "cr:Field", "@id": f"{parent}/{name}", "name": name, "source": own}


def _kind(kind: Any) -> Json | None:
    """Return the type of a column in the words of Croissant; None for objects and whatever it has no word for."""
    import pyarrow as pa

    types = pa.types
    if types.is_list(kind) or types.is_large_list(kind):
        inner = _kind(kind.value_type)
        return None if inner is None or "repeated" in inner else {**inner, "repeated": True}
    words = (
        (types.is_boolean, "sc:Boolean"),
        (types.is_integer, "sc:Integer"),
        (types.is_floating, "sc:Float"),
        (types.is_string, "sc:Text"),
        (types.is_large_string, "sc:Text"),
        (types.is_date, "sc:Date"),
        (types.is_timestamp, "sc:DateTime"),
    )
    return next(({"dataType": word} for holds, word in words if holds(kind)), None)


def _schema(arrow_schema: str) -> Any:
    import pyarrow as pa

    try:
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(arrow_schema, validate=True)))
    # The uploader names the schema: an invalid one has no columns to describe.
    except (ValueError, OSError, pa.ArrowException):
        return pa.schema([])
