"""Columns of custom kinds: the JSON paths of `additionalPrinterColumns`."""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.columns import Column, age, at, object_age
from steelyard_local_kubernetes.apiserver.kinds import ResourceType
from steelyard_local_kubernetes.apiserver.served import list_resources

_STEP = re.compile(
    r"""\.(?P<name>[\w-]+(?:\\.[\w-]+)*)   # .name, with escaped dots
    |\[\?\(@\.(?P<key>[\w.-]+)\s*==\s*["'](?P<value>[^"']*)["']\)\]   # [?(@.type=="Ready")]
    |\[(?P<index>-?\d+|\*)\]
    |\[(?P<from>-?\d*):(?P<to>-?\d*)\]   # [-1:], the last
    |\[['"](?P<quoted>[^'"]+)['"]\]""",
    re.VERBOSE,
)


def custom_columns(kind: ResourceType) -> list[Column]:
    if not kind.columns:
        return [_name(), Column("Age", object_age, "date", description=_column_description("Age"))]
    return [_name(), *(_column(column) for column in kind.columns)]


def _name() -> Column:
    return Column("Name", at("metadata", "name"), format="name", description=_column_description("Name"))


def _column_description(column: str) -> str:
    """The words that every kind's table has for a column."""
    columns = list_resources("", "v1")["configmaps"]["columns"]
    return next(str(entry["description"]) for entry in columns if entry["name"] == column)


def _column(spec: Json) -> Column:
    path, kind = spec["jsonPath"], spec["type"]

    def cell(obj: Json, now: datetime) -> Any:
        values = list(json_path(path, obj))
        if not values:
            return None
        return age(str(values[0]), now) if kind == "date" else _cell_value(values, kind)

    return Column(
        spec["name"],
        cell,
        kind,
        spec.get("priority") or 0,
        spec.get("format") or "",
        spec.get("description")
        or f"Custom resource definition column (in JSONPath format): {spec['jsonPath']}",
    )


def _cell_value(values: list[Any], kind: str) -> Any:
    first = values[0]
    # A value of another type than the column's leaves the cell empty, as on a real server.
    if kind in ("integer", "number"):
        return first if isinstance(first, int | float) else None
    if len(values) == 1:
        return first if isinstance(first, str | bool) and kind in ("string", "boolean") else str(first)
    return ",".join(str(value) for value in values)


def json_path(path: str, obj: Any) -> Iterator[Any]:
    """The values at a path of names, indexes and simple filters; nothing for a path of other parts."""
    values, position = [obj], 0
    while position < len(path):
        step = _STEP.match(path, position)
        # kubectl's paths can do more; a column that this server cannot read
        # stays empty instead of failing the list.
        if step is None:
            return
        values = [value for one in values for value in _step(one, step.groupdict())]
        position = step.end()
    yield from (value for value in values if value is not None)


def _step(value: Any, step: dict[str, str | None]) -> Iterator[Any]:
    name = step["name"] or step["quoted"]
    if name is not None:
        if isinstance(value, dict):
            yield value.get(name.replace("\\.", "."))
    elif not isinstance(value, list):
        return
    elif key := step["key"]:
        for child in value:
            if next(json_path(f".{key}", child), None) == step["value"]:
                yield child
    elif step["from"] is not None:
        yield from value[slice(_number(step["from"]), _number(step["to"]))]
    elif step["index"] == "*":
        yield from value
    elif -len(value) <= int(step["index"] or 0) < len(value):
        yield value[int(step["index"] or 0)]


def _number(text: str | None) -> int | None:
    return int(text) if text else None
