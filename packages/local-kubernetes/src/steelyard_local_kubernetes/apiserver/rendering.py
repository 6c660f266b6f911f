"""An object or a list in the form that the client asks for: as it is, as a Table, or its metadata alone."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, lru_cache, partial
from typing import Any

import orjson

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.cells import kind_cells
from steelyard_local_kubernetes.apiserver.columns import Column
from steelyard_local_kubernetes.apiserver.errors import Refusal, bad_request, invalid
from steelyard_local_kubernetes.apiserver.item import Item
from steelyard_local_kubernetes.apiserver.kinds import ResourceType
from steelyard_local_kubernetes.apiserver.messages import JSON, Request
from steelyard_local_kubernetes.apiserver.printer import custom_columns
from steelyard_local_kubernetes.apiserver.served import list_resources
from steelyard_local_kubernetes.apiserver.yaml_answers import YAML, wants_yaml

_INCLUDED = "must be 'Metadata', 'Object', 'None', or empty"
_AS = re.compile(r"\bas=(\w+)")
_VERSION = re.compile(r"\bv=(\w+)")
# As a real server says it: clients compare the text.
_MEDIA = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
_STREAMS = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
_ACCEPTED = (YAML, "application/json", "*/*", "")
_KINDS = 256  # whose renderers are kept; definitions come and go
_VERSIONS = (None, "v1", "v1beta1")  # of Tables and of metadata alone


@dataclass(frozen=True)
class Renderer:
    """Form in which one request sees objects."""

    kind: ResourceType
    one: Callable[[Item], bytes]
    event: Callable[[Item], bytes]
    many: Callable[[Iterable[Item], Json], bytes]

    def raw(self, raw: bytes) -> bytes:
        """Return the answer to a write; plain JSON whatever was requested, as kubectl reads both."""
        convert = self.kind.convert_out
        return orjson.dumps(convert(orjson.loads(raw))) if convert else raw


def renderer(kind: ResourceType, request: Request) -> Renderer:
    """Choose the renderer by the first media type of Accept that is served."""
    if request.headers.get("accept") == JSON:  # of nearly every request
        return _plain(kind)
    unknown_shape = False
    if request.flag("watch") and wants_yaml(request):
        raise Refusal(406, "NotAcceptable", f"only the following media types are accepted: {_STREAMS}")
    for part in request.headers.get("accept", "").split(","):
        media = part.partition(";")[0].strip().lower()
        # Clients in Go name protobuf first and JSON after it: what is not served here is passed over.
        if media not in _ACCEPTED:
            continue
        shape, said = _AS.search(part), _VERSION.search(part)
        version = said[1] if said else None
        if shape and version in _VERSIONS and shape[1] == "Table":
            return _table(kind, request, version or "v1")
        if shape and version in _VERSIONS and shape[1].startswith("PartialObjectMetadata"):
            return _partial(kind)
        if not shape:
            return _plain(kind)
        unknown_shape = True
    if unknown_shape:
        raise Refusal(406, "NotAcceptable", f"only the following media types are accepted: {_MEDIA}")
    is_collection = request.path.rstrip("/").endswith(f"/{kind.plural}")  # which can be watched
    served = f"{_MEDIA}, {_STREAMS}" if is_collection else _MEDIA
    text = f"406: Not Acceptable\n\nAvailable representations: {served}"
    raise Refusal(406, "NotAcceptable", text, {})


@lru_cache(_KINDS)
def _plain(kind: ResourceType) -> Renderer:
    def one(item: Item) -> bytes:
        # The stored bytes are the answer: most reads parse nothing.
        return orjson.dumps(kind.convert_out(item.parse())) if kind.convert_out else item.raw

    return Renderer(
        kind, one, one, partial(_list, kind, _list_item_renderer(kind) if not kind.custom else one)
    )


def render_list(kind: ResourceType, items: Iterable[Item], metadata: Json) -> bytes:
    """A plain list of these objects."""
    return _plain(kind).many(items, metadata)


def _list_item_renderer(kind: ResourceType) -> Callable[[Item], bytes]:
    """Items of a built-in kind as its lists have them: the list names their kind for all."""
    typed = kind.storage_version
    beginning = orjson.dumps({"apiVersion": typed.api_version, "kind": typed.kind})[:-1] + b","

    def one(item: Item) -> bytes:
        # Cut and not parsed: every object is stored with these two first.
        if kind.convert_out is None and item.raw.startswith(beginning):
            return b"{" + item.raw[len(beginning) :]
        obj = kind.convert_out(item.parse()) if kind.convert_out else item.parse()
        return orjson.dumps(
            {name: value for name, value in obj.items() if name not in ("apiVersion", "kind")}
        )

    return one


def _list(kind: ResourceType, one: Callable[[Item], bytes], items: Iterable[Item], metadata: Json) -> bytes:
    # Joined as bytes: a list of thousands of objects would else hold the
    # event loop, and with it leases and watches.
    head = orjson.dumps({"kind": kind.list_name, "apiVersion": kind.api_version, "metadata": metadata})
    return head[:-1] + b',"items":[' + b",".join(map(one, items)) + b"]}"


def _partial(kind: ResourceType) -> Renderer:
    own = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}

    def one(item: Item) -> bytes:
        return orjson.dumps({**own, "metadata": item.parse()["metadata"]})

    def many(items: Iterable[Item], metadata: Json) -> bytes:
        content = {**own, "kind": "PartialObjectMetadataList", "metadata": metadata}
        return orjson.dumps({**content, "items": [orjson.Fragment(one(item)) for item in items]})

    return Renderer(kind, one, one, many)


def _table(kind: ResourceType, request: Request, version: str) -> Renderer:
    include = request.query.get("includeObject", "") or "Metadata"
    if include not in ("None", "Metadata", "Object"):
        text = f"includeObject: {invalid('', include, _INCLUDED).message}"
        raise bad_request(f"Unable to convert to Table as requested: {text}")
    headed: list[bool] = []

    def render(items: Iterable[Item], metadata: Json, *, header: bool = True) -> bytes:
        table: dict[str, Any] = make_table(kind, list(items), metadata, include, datetime.now(UTC))
        table["apiVersion"] = f"meta.k8s.io/{version}"
        if not header:
            table["columnDefinitions"] = []
        return orjson.dumps(table)

    def one(item: Item) -> bytes:
        return render([item], {"resourceVersion": str(item.version)})

    def event(item: Item) -> bytes:
        """The columns are sent once per watch."""
        first = not headed
        headed.append(True)
        return render([item], {"resourceVersion": str(item.version)}, header=first)

    return Renderer(kind, one, event, render)


def make_table(
    kind: ResourceType, items: Sequence[Item], metadata: Json, include: str, now: datetime
) -> Json:
    """The kind's columns and a row per object; `include` is what of the object goes along."""
    columns = custom_columns(kind) if kind.custom else builtin_columns(kind)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": [_definition(column) for column in columns],
        "rows": [_row(columns, item.parse(), include, now) for item in items],
    }


@cache
def builtin_columns(kind: ResourceType) -> list[Column]:
    definitions = list_resources(kind.group, kind.version)[kind.plural]["columns"]
    return [
        Column(cell=cell, **definition)
        for definition, cell in zip(definitions, kind_cells(kind.bucket), strict=True)
    ]


def _definition(column: Column) -> Json:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }


def _row(columns: Sequence[Column], obj: Json, include: str, now: datetime) -> Json:
    row: Json = {"cells": [column.cell(obj, now) for column in columns]}
    # kubectl asks for the object where it needs more than the cells, for `--sort-by` for one.
    if include == "Object":
        row["object"] = obj
    elif include != "None":
        own = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
        row["object"] = {**own, "metadata": obj["metadata"]}
    return row
