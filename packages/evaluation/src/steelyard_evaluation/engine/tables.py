"""Tables of all forms, opened for prompt files, data sources and uploads alike: CSV, JSON lines, Parquet, Arrow.

A file is read in batches of Arrow, in constant memory, as often as its reader wants. Every way in has the same rows,
and the same refusals: one line that says what is wrong and what to do.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from steelyard_common import bounded_arrow, bounded_parquet
from steelyard_common.bounded_parquet import Expands, check, open_parquet
from steelyard_evaluation.engine.csv_lines import csv_batches, csv_schema, unify_types
from steelyard_evaluation.engine.json_lines import check_texts, json_batches, json_schema
from steelyard_evaluation.engine.rows import MARK, BadColumn, holds_json, is_json, plain_batch, plain_schema
from steelyard_evaluation.engine.table_files import TITLES, BadTable, Format, check_columns, check_content

Batches = Iterator[pa.RecordBatch]
_ROWS = 4096


@dataclass(frozen=True)
class Table:
    """One file, which can be read several times."""

    form: Format
    schema: pa.Schema
    """Types that JSON and Parquet have a form for; null for a column without any value."""
    count: int
    read: Callable[[pa.Schema], Batches]

    def batches(self) -> Batches:
        """Yield the rows in the table's schema. Raises BadTable."""
        try:
            for batch in self.read(self.schema):
                yield plain_batch(batch, self.schema)
        except BadColumn as error:
            raise BadTable(str(error)) from error
        except (pa.ArrowException, OSError) as error:
            raise BadTable(f"cannot be read: {error}") from error


def open_table(path: Path, form: Format) -> Table:
    """Open a file, and read it once where its form does not say its columns. Raises BadTable."""
    check_content(path, form)
    try:
        schema, count = _SCHEMAS[form](path)
        check_columns(len(schema.names))
        if count and not schema.names:
            raise BadTable("has no columns")
        return Table(form, plain_schema(schema), count, lambda schema: _BATCHES[form](path, schema))
    except (Expands, BadColumn) as error:
        raise BadTable(str(error)) from error
    except (pa.ArrowException, OSError) as error:
        raise BadTable(f"is not {TITLES[form]}: it is damaged or cut short: {error}") from error


def unite(tables: Sequence[Table]) -> tuple[pa.Schema, list[Table]]:
    """Return a schema that holds the rows of all, and the tables as they are read for it.

    Raises BadTable, which names the column.
    """
    texts = iter(unify_types([table.schema for table in tables if table.form == "csv"]))
    tables = [replace(table, schema=next(texts)) if table.form == "csv" else table for table in tables]
    schemas = [table.schema for table in tables]
    as_json = {field.name for schema in schemas for field in schema if is_json(field)}
    as_json |= _different_objects(schemas) | _different_numbers(tables)
    marked = [
        pa.schema([pa.field(f.name, pa.string(), metadata=MARK) if f.name in as_json else f for f in schema])
        for schema in schemas
    ]
    columns: dict[str, list[pa.Field[Any]]] = {}
    for field in (field for schema in marked for field in schema):
        columns.setdefault(field.name, []).append(field)
    fields = [_common(column) for column in columns.values()]
    return pa.schema([field if is_json(field) else _storable(field) for field in fields]), list(tables)


def _common(fields: Sequence["pa.Field[Any]"]) -> "pa.Field[Any]":
    """Return the field that holds the values of all."""
    try:
        schemas = [pa.schema([field]) for field in fields]
        return pa.unify_schemas(schemas, promote_options="permissive").field(0)
    except (pa.ArrowException, ValueError) as error:
        kinds = " and ".join(dict.fromkeys(str(field.type) for field in fields))
        raise BadTable(
            f"the column {fields[0].name!r} has the types {kinds} in different files: give it one type, or "
            "make a dataset of each"
        ) from error


def _different_objects(schemas: Sequence[pa.Schema]) -> set[str]:
    """Return the columns whose objects have other keys in one file than in another: as structs all would get all."""
    kinds: dict[str, set[str]] = {}
    for schema in schemas:
        for field in schema:
            if _holds_objects(field.type):
                kinds.setdefault(field.name, set()).add(str(field.type))
    return {name for name, different in kinds.items() if len(different) > 1}


def _different_numbers(tables: Sequence[Table]) -> set[str]:
    """Return the columns of files of text with whole numbers in one and fractions in another: 1 is not 1.0.

    The numbers may stand in lists. In objects, `_different_objects` finds them.
    """
    fields = [field for table in tables if table.form in ("csv", "jsonl") for field in table.schema]
    items = [(field.name, *_item(field.type)) for field in fields]
    whole = {(name, depth) for name, depth, kind in items if pa.types.is_integer(kind)}
    fractions = {(name, depth) for name, depth, kind in items if pa.types.is_floating(kind)}
    return {name for name, _ in whole & fractions}


def _item(kind: Any) -> tuple[int, Any]:
    """Return the number of lists around the values of a column, and the type of these."""
    depth = 0
    while pa.types.is_list(kind):
        depth, kind = depth + 1, kind.value_type
    return depth, kind


def _holds_objects(kind: Any) -> bool:
    inner = [kind.field(number).type for number in range(kind.num_fields)]
    return pa.types.is_struct(kind) or any(map(_holds_objects, inner))


def _storable(field: "pa.Field[Any]") -> "pa.Field[Any]":
    """A column without any value is one of texts: Parquet and most readers know no type of nothing."""
    return pa.field(field.name, _storable_type(field.type))


def _storable_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_null(kind):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(_storable_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([_storable(kind.field(number)) for number in range(kind.num_fields)])
    return kind


def _parquet_schema(path: Path) -> tuple[pa.Schema, int]:
    with open_parquet(path) as file:
        check(path, file, _ROWS)
        schema, count = file.schema_arrow.remove_metadata(), file.metadata.num_rows
    if any(map(holds_json, schema)):
        for batch in bounded_parquet.batches(path, _ROWS):
            check_texts(batch)
    return schema, count


def _arrow_schema(path: Path) -> tuple[pa.Schema, int]:
    """An Arrow file, or a stream in a file, which does not say how many rows it has."""
    schema, count = pa.schema([]), 0
    for piece in bounded_arrow.batches(path, _ROWS):
        check_texts(piece)
        schema, count = piece.schema.remove_metadata(), count + piece.num_rows
    return schema, count


_SCHEMAS: dict[Format, Callable[[Path], tuple[pa.Schema, int]]] = {
    "csv": csv_schema,
    "jsonl": json_schema,
    "parquet": _parquet_schema,
    "arrow": _arrow_schema,
}
_BATCHES: dict[Format, Callable[[Path, pa.Schema], Batches]] = {
    "csv": csv_batches,
    "jsonl": json_batches,
    "parquet": lambda path, _: bounded_parquet.batches(path, _ROWS),
    "arrow": lambda path, _: bounded_arrow.batches(path, _ROWS),
}
