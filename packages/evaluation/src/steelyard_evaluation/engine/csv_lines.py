"""CSV as rows of text, and the types that its columns may have.

A value becomes a number, or true or false, only if writing it back gives the same text for every row of its column:
`007`, `3.10` and dates stay the texts that people wrote. An empty field is an empty text, and null in a column of
another type.
"""

import csv
import io
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from steelyard_evaluation.engine.rows import MARK, is_json
from steelyard_evaluation.engine.table_files import (
    DAMAGED,
    PIECE_CELLS,
    BadTable,
    bad_encoding,
    check_columns,
    damage_fault,
    longest_row,
    open_bytes,
)

ROWS, _PIECE_CHARACTERS = 4096, 16 << 20
_WHOLE, _FRACTION, _TRUTH, _TEXT = "whole", "fraction", "truth", "text"
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_LONGEST_NUMBER = 400


def csv_schema(path: Path) -> tuple[pa.Schema, int]:
    """Return the columns of a whole file, and the number of its rows. Raises BadTable.

    A column without any value has the type null.
    """
    names: list[str] = []
    kinds: list[set[str]] = []
    count = 0
    for number, rows in enumerate(_pieces(path)):
        if not number:
            names, rows = rows[0], rows[1:]  # noqa: PLW2901 - without the names
            kinds = [set() for _ in names]
            if len(names) == 1 and (other := _guess_separator(names[0], rows)):
                raise _separator_fault(other, _separator(path))
        if rows:
            for kind, values in zip(kinds, zip(*rows, strict=True), strict=True):
                if _TEXT not in kind:
                    kind.update(map(_value_kind, filter(None, values)))
        count += len(rows)
    return pa.schema([_field(name, kind) for name, kind in zip(names, kinds, strict=True)]), count


def csv_batches(path: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows in types that `csv_schema` or `agreed` has found. Raises BadTable."""
    for number, rows in enumerate(_pieces(path)):
        rows = rows if number else rows[1:]  # noqa: PLW2901 - without the names
        if rows:
            columns = [
                _column(values, field) for values, field in zip(zip(*rows, strict=True), schema, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def unify_types(schemas: Sequence[pa.Schema]) -> list[pa.Schema]:
    """Return the schemas of several CSV files with the types that the columns have over all of their rows."""
    kinds: dict[str, set[str]] = {}
    for field in (field for schema in schemas for field in schema):
        kinds.setdefault(field.name, set()).update(_field_kinds(field))
    return [pa.schema([_field(name, kinds[name]) for name in schema.names]) for schema in schemas]


def fraction_text(value: float) -> str:
    """Return the shortest text of a number that is read back as the same fraction: without an exponent."""
    text = repr(value)
    if "e" not in text:
        return text
    digits = f"{Decimal(text):f}"
    return digits if "." in digits else f"{digits}.0"


def _value_kind(text: str) -> str:
    """Return the kind of a value that is written in the only way in which a program would write it."""
    if text in ("true", "false"):
        return _TRUTH
    if len(text) > _LONGEST_NUMBER:
        return _TEXT
    try:
        if "." not in text:
            return _WHOLE if str(int(text)) == text and -(2**63) <= int(text) < 2**63 else _TEXT
        return _FRACTION if fraction_text(float(text)) == text else _TEXT
    except ValueError:
        return _TEXT


def _field(name: str, kinds: set[str]) -> "pa.Field[Any]":
    if kinds == {_WHOLE, _FRACTION}:
        # Arrow has one type for all: 1 would become 1.0. The texts are JSON already.
        return pa.field(name, pa.string(), metadata=MARK)
    types = {_WHOLE: pa.int64(), _FRACTION: pa.float64(), _TRUTH: pa.bool_(), _TEXT: pa.string()}
    if len(kinds) > 1:
        return pa.field(name, pa.string())
    return pa.field(name, types[next(iter(kinds))] if kinds else pa.null())


def _field_kinds(field: "pa.Field[Any]") -> set[str]:
    """Return the kinds for which `_field` makes a field like this one."""
    every = ({_WHOLE}, {_FRACTION}, {_TRUTH}, {_TEXT}, {_WHOLE, _FRACTION})
    return next(
        (kinds for kinds in every if _field(field.name, kinds).equals(field, check_metadata=True)), set()
    )


def _column(values: Sequence[str], field: "pa.Field[Any]") -> "pa.Array[Any]":
    kind = field.type
    if pa.types.is_null(kind):
        return pa.nulls(len(values))
    if pa.types.is_string(kind) and not is_json(field):
        return pa.array(values, pa.string())
    return pa.array([value or None for value in values], pa.string()).cast(kind)


def _guess_separator(name: str, rows: Sequence[list[str]]) -> str | None:
    """Return the character that the only column of a file seems to be separated by, in its name and first rows."""
    for character in _SEPARATORS:
        if (many := name.count(character)) and all(row[0].count(character) == many for row in rows[:20]):
            return character
    return None


def _separator_fault(other: str, separator: str) -> BadTable:
    advice = "end its name in .tsv" if other == "\t" else f"save it with {_SEPARATORS[separator]}"
    return BadTable(
        f"its values are separated by {_SEPARATORS[other]}, not by {_SEPARATORS[separator]}: {advice}"
    )


def _separator(path: Path) -> str:
    return "\t" if path.name.lower().removesuffix(".gz").endswith(".tsv") else ","


class _Lines:
    """Lines of a text file, with a limit for those of one row."""

    def __init__(self, file: io.TextIOWrapper, longest: int) -> None:
        self._file, self._longest = file, longest
        self.characters = 0
        """Characters since the beginning of the row."""

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._file.readline(self._longest + 1)
        if not line:
            raise StopIteration
        self.characters += len(line)
        if self.characters > self._longest:
            raise BadTable(
                f"has a row that is longer than {self._longest} characters; is a quote not closed?"
            )
        if "\0" in line:
            raise BadTable("holds the character NUL: it is binary, or damaged")
        return line


def _pieces(path: Path) -> Iterator[list[list[str]]]:
    """Yield the rows in lists of at most `ROWS`; the first one begins with the names. Raises BadTable."""
    separator = _separator(path)
    longest = longest_row(path)
    csv.field_size_limit(longest)
    # The module splits the lines itself: with translation, line breaks inside a value would change.
    with open_bytes(path) as file, io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
        lines = _Lines(text, longest)
        reader = csv.reader(lines, delimiter=separator, strict=True)
        names: list[str] | None = None
        rows: list[list[str]] = []
        characters, start = 0, 1
        try:
            for row in reader:
                characters += lines.characters
                lines.characters = 0
                if row:  # an empty line is no row
                    names = names or _check_names(row)
                    if len(row) != len(names):
                        raise _length_fault(names, row, start, separator)
                    rows.append(row)
                start = reader.line_num + 1
                cells = len(rows) * len(names or ())
                if len(rows) >= ROWS or characters > _PIECE_CHARACTERS or cells > PIECE_CELLS:
                    yield rows
                    rows, characters = [], 0
        except csv.Error as error:
            raise _badly_quoted(error, start, separator, names) from error
        except UnicodeDecodeError as error:
            raise bad_encoding(error.object) from error
        except DAMAGED as error:
            raise damage_fault(error) from error
    if names is None:
        raise BadTable("is not CSV: its first line names no columns")
    if rows:
        yield rows


def _check_names(names: list[str]) -> list[str]:
    check_columns(len(names))
    return names


def _length_fault(names: Sequence[str], row: Sequence[str], line: int, separator: str) -> BadTable:
    first, here = separator.join(names), separator.join(row)
    for other in _SEPARATORS:
        if (
            other != separator
            and first.count(other) >= len(names)
            and first.count(other) == here.count(other)
        ):
            return _separator_fault(other, separator)
    advice = (
        "a value is missing, or the file is cut short"
        if len(row) < len(names)
        else f"put a value that holds {_SEPARATORS[separator]} or line ends in double quotes"
    )
    return BadTable(
        f"line {line} has {_many(len(row), 'value')}, but the first line names {_many(len(names), 'column')}: "
        f"{advice}"
    )


def _badly_quoted(error: csv.Error, line: int, separator: str, names: Sequence[str] | None) -> BadTable:
    if "unexpected end" in str(error):
        return BadTable(f"the quote that begins in line {line} is never closed: is the file cut short?")
    if "expected after" in str(error):
        if names is not None and len(names) == 1 and (other := _guess_separator(names[0], ())):
            return _separator_fault(other, separator)
        return BadTable(
            f"line {line}: text follows a closing quote: write a quote inside a quoted value twice"
        )
    return BadTable(f"line {line}: {error}")


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
