"""Tables: a list of objects as rows, below the columns that a real server names. `rendering.py` asks for them."""

from collections.abc import Sequence
from datetime import datetime
from functools import cache

from steelyard.local.apiserver.cells import kind_cells
from steelyard.local.apiserver.columns import Column
from steelyard.local.apiserver.item import Item
from steelyard.local.apiserver.kinds import ResourceType
from steelyard.local.apiserver.printer import custom_columns
from steelyard.local.apiserver.served import served_resources
from steelyard_common.types import Json


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
    definitions = served_resources(kind.group, kind.version)[kind.plural]["columns"]
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
