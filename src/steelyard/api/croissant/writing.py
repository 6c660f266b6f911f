"""Writes a dataset as Croissant 1.0: its files with their digests, its columns with their types. Pure, but for pyarrow.

Paths of files are relative: with `croissant.json` in the folder of the downloaded files, mlcroissant can read the rows
without the platform.
"""

import glob
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from steelyard.api.croissant.facts import Facts
from steelyard.bounded_schema import read_schema
from steelyard_common.types import Json
from steelyard_schema.dataset import Dataset

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
_PLAIN_PART = re.compile(r"(?!(?:where|parent)$)[A-Za-z_][A-Za-z_0-9]*")
"""Names that JSONPath takes without quotes."""


@dataclass(frozen=True)
class DataFile:
    """A file of the dataset, as its manifest has it."""

    path: str
    size: int
    sha256: str


@dataclass
class _Ids:
    """Ids of the parts of one document: no two are alike, and none has a blank, which mlcroissant refuses, or is a
    keyword of JSON-LD.
    """

    _taken: set[str] = field(default_factory=set)

    def of(self, name: str) -> str:
        """Return an id for a part that is called `name`: the name itself where that can be."""
        plain = re.sub(r"^@|[\s\x00-\x1f\x7f-\x9f\ud800-\udfff]", "_", name)
        number, id = 1, plain
        while id in self._taken:
            number += 1
            id = f"{plain}-{number}"
        self._taken.add(id)
        return id


def croissant(dataset: Dataset, files: Sequence[DataFile], arrow_schema: str, facts: Facts) -> Json:
    """Return the JSON-LD of a dataset; `arrow_schema` is the base64 of the serialised schema of its rows."""
    text = dataset.metadata.documentation
    ids = _Ids()
    records, set_of_files = ids.of(RECORDS), ids.of(FILES)
    by_path = {file.path: ids.of(file.path) for file in files}
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
        "distribution": [_file(file, by_path[file.path]) for file in files],
    }
    tables = [file.path for file in files if file.path.endswith(".parquet")]
    source: Json = {"fileSet": {"@id": set_of_files}}
    if len(tables) == 1:
        source = {"fileObject": {"@id": by_path[tables[0]]}}
    if len(tables) > 1:
        document["distribution"].append(
            {
                "@type": "cr:FileSet",
                "@id": set_of_files,
                "name": FILES,
                "includes": [glob.escape(path) for path in tables],
                "encodingFormat": "application/x-parquet",
            }
        )
    columns = _Columns(source, ids, facts.fields)
    if tables and (fields := list(columns.fields(arrow_schema))):
        rows = {"@type": "cr:RecordSet", "@id": records, "name": RECORDS, "field": fields}
        if columns.left_out:
            rows["description"] = f"Not described, for want of a type: {'; '.join(columns.left_out)}."
        document["recordSet"] = [rows]
    return document


def columns_of(arrow_schema: str) -> list[str]:
    """Return the names of the columns of a schema; none where it cannot be read. Blocking: it loads pyarrow."""
    return [field.name for field in _schema(arrow_schema)]


def _file(file: DataFile, id: str) -> Json:
    table = file.path.endswith(".parquet")
    return {
        "@type": "cr:FileObject",
        "@id": id,
        "name": file.path,
        "contentUrl": file.path,
        "contentSize": f"{file.size} B",
        "encodingFormat": "application/x-parquet" if table else "application/octet-stream",
        "sha256": file.sha256,
    }


@dataclass(frozen=True)
class _Columns:
    """Fields of the columns of one source of records."""

    source: Json
    ids: _Ids
    texts: Mapping[str, str]
    left_out: list[str] = field(default_factory=list)
    """Columns and parts that Croissant has no word for, with their types in Arrow."""

    def fields(self, arrow_schema: str) -> Iterator[Json]:
        for column in _schema(arrow_schema):
            described = {"description": text} if (text := self.texts.get(column.name)) else {}
            parts = _parts(column.type) if column.name else None
            if parts is None:
                if self._has_word(column):
                    yield {**self._field(RECORDS, column.name, column), **described, **_kind(column.type)}
                continue
            id = self.ids.of(f"{RECORDS}/{column.name}")
            inner = [self._part(id, part, column) for part in parts if self._has_word(part, column.name)]
            if inner:
                yield {"@type": "cr:Field", "@id": id, "name": column.name, **described, "subField": inner}

    def _has_word(self, column: Any, parent: str | None = None) -> bool:
        # A source has to name its column, and to JSONPath a part called * is every part.
        if column.name and (parent is None or column.name != "*") and _has_word(column.type):
            return True
        name = column.name or "a column without a name"
        self.left_out.append(f"{name if parent is None else f'{parent}.{name}'} ({column.type})")
        return False

    def _part(self, parent: str, part: Any, column: Any) -> Json:
        field = self._field(parent, part.name, column)
        quoted = "'" + re.sub(r"(['\\])", r"\\\1", part.name) + "'"
        path = part.name if _PLAIN_PART.fullmatch(part.name) else quoted
        field["source"]["transform"] = {"jsonPath": path}
        return {**field, **_kind(part.type)}

    def _field(self, parent: str, name: str, column: Any) -> Json:
        source = {**self.source, "extract": {"column": column.name}}
        return {"@type": "cr:Field", "@id": self.ids.of(f"{parent}/{name}"), "name": name, "source": source}


def _parts(kind: Any) -> list[Any] | None:
    """Return the parts of an object; None for any other value."""
    import pyarrow as pa

    return [kind.field(number) for number in range(kind.num_fields)] if pa.types.is_struct(kind) else None


def _has_word(kind: Any) -> bool:
    """Return whether mlcroissant takes the values of a type: objects only at the first level."""
    import pyarrow as pa

    types = pa.types
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _has_word(kind.value_type)
    return not (types.is_nested(kind) or types.is_duration(kind) or types.is_interval(kind))


def _kind(kind: Any) -> Json:
    """Return the type of a column in the words of Croissant; text for what it has no word for."""
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(kind):
        return _kind(kind.value_type)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return {**_kind(kind.value_type), "repeated": True}
    words = (
        (types.is_boolean, "sc:Boolean"),
        (types.is_integer, "sc:Integer"),
        (types.is_floating, "sc:Float"),
        (types.is_decimal, "sc:Float"),
        (types.is_date, "sc:Date"),
        (types.is_timestamp, "sc:DateTime"),
        (types.is_time, "sc:Time"),
    )
    return {"dataType": next((word for holds, word in words if holds(kind)), "sc:Text")}


def _schema(arrow_schema: str) -> Any:
    import pyarrow as pa

    try:
        return read_schema(arrow_schema)
    # The uploader names the schema: an invalid one has no columns to describe.
    except pa.ArrowInvalid:
        return pa.schema([])
