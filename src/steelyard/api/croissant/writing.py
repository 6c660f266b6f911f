"""Writes a dataset as Croissant 1.0: its files with their digests, its columns with their types. Pure.

Paths of files are relative: with `croissant.json` in the folder of the downloaded files, mlcroissant can read the rows
without the platform.
"""

import glob
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from steelyard.api.croissant.facts import Facts
from steelyard_common import arrow_schema
from steelyard_common.arrow_schema import ArrowField, ArrowType
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
_LISTS = frozenset({arrow_schema.LIST, arrow_schema.LARGE_LIST, arrow_schema.FIXED_LIST})
_WORDLESS = frozenset(
    {
        arrow_schema.DURATION,
        arrow_schema.INTERVAL,
        arrow_schema.LARGE_LIST_VIEW,
        arrow_schema.LIST_VIEW,
        arrow_schema.MAP,
        arrow_schema.STRUCT,
        arrow_schema.UNION,
    }
)
"""Types whose values mlcroissant does not take."""
_WORDS = {
    arrow_schema.BOOL: "sc:Boolean",
    arrow_schema.INT: "sc:Integer",
    arrow_schema.FLOATING: "sc:Float",
    arrow_schema.DECIMAL: "sc:Float",
    arrow_schema.DATE: "sc:Date",
    arrow_schema.TIMESTAMP: "sc:DateTime",
    arrow_schema.TIME: "sc:Time",
}
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

    def id_for(self, name: str) -> str:
        """Return an id for a part that is called `name`: the name itself where that can be."""
        plain = re.sub(r"^@|[\s\x00-\x1f\x7f-\x9f\ud800-\udfff]", "_", name)
        number, id = 1, plain
        while id in self._taken:
            number += 1
            id = f"{plain}-{number}"
        self._taken.add(id)
        return id


def croissant(dataset: Dataset, files: Sequence[DataFile], schema: str, facts: Facts) -> Json:
    """Return the JSON-LD of a dataset; `schema` is the base64 of the serialised schema of its rows."""
    text = dataset.metadata.documentation
    ids = _Ids()
    records, set_of_files = ids.id_for(RECORDS), ids.id_for(FILES)
    by_path = {file.path: ids.id_for(file.path) for file in files}
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
    if tables and (fields := list(columns.fields(schema))):
        rows = {"@type": "cr:RecordSet", "@id": records, "name": RECORDS, "field": fields}
        if columns.left_out:
            rows["description"] = f"Not described, for want of a type: {'; '.join(columns.left_out)}."
        document["recordSet"] = [rows]
    return document


def column_names(schema: str) -> list[str]:
    """Return the names of the columns of a schema; none where it cannot be read."""
    return [field.name for field in _schema(schema)]


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

    def fields(self, schema: str) -> Iterator[Json]:
        for column in _schema(schema):
            described = {"description": text} if (text := self.texts.get(column.name)) else {}
            parts = _parts(column.type) if column.name else None
            if parts is None:
                if self._has_word(column):
                    yield {**self._field(RECORDS, column.name, column), **described, **_kind(column.type)}
                continue
            id = self.ids.id_for(f"{RECORDS}/{column.name}")
            inner = [self._part(id, part, column) for part in parts if self._has_word(part, column.name)]
            if inner:
                yield {"@type": "cr:Field", "@id": id, "name": column.name, **described, "subField": inner}

    def _has_word(self, column: ArrowField, parent: str | None = None) -> bool:
        # A source has to name its column, and to JSONPath a part called * is every part.
        if column.name and (parent is None or column.name != "*") and _has_word(column.type):
            return True
        name = column.name or "a column without a name"
        self.left_out.append(f"{name if parent is None else f'{parent}.{name}'} ({column.type.text})")
        return False

    def _part(self, parent: str, part: ArrowField, column: ArrowField) -> Json:
        field = self._field(parent, part.name, column)
        quoted = "'" + re.sub(r"(['\\])", r"\\\1", part.name) + "'"
        path = part.name if _PLAIN_PART.fullmatch(part.name) else quoted
        field["source"]["transform"] = {"jsonPath": path}
        return {**field, **_kind(part.type)}

    def _field(self, parent: str, name: str, column: ArrowField) -> Json:
        source = {**self.source, "extract": {"column": column.name}}
        return {
            "@type": "cr:Field",
            "@id": self.ids.id_for(f"{parent}/{name}"),
            "name": name,
            "source": source,
        }


def _parts(kind: ArrowType) -> Sequence[ArrowField] | None:
    """Return the parts of an object; None for any other value."""
    return kind.children if kind.number == arrow_schema.STRUCT else None


def _has_word(kind: ArrowType) -> bool:
    """Return whether mlcroissant takes the values of a type: objects only at the first level."""
    if kind.number in _LISTS:
        return _has_word(kind.children[0].type)
    return kind.number not in _WORDLESS


def _kind(kind: ArrowType) -> Json:
    """Return the type of a column in the words of Croissant; text for what it has no word for."""
    if kind.number == arrow_schema.DICTIONARY:
        return _kind(kind.children[0].type)
    if kind.number in _LISTS:
        return {**_kind(kind.children[0].type), "repeated": True}
    return {"dataType": _WORDS.get(kind.number, "sc:Text")}


def _schema(text: str) -> list[ArrowField]:
    try:
        return arrow_schema.read_fields(text)
    # The uploader names the schema: an invalid one has no columns to describe.
    except arrow_schema.BadArrowSchema:
        return []
