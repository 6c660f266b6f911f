"""A schema that stands for far more than it weighs is refused, wherever one is read; others are read as they are."""

import base64
import struct
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from steelyard.api.croissant.writing import column_names
from steelyard.services.lineage.datasets import list_fields
from steelyard.services.simulation.entities import make_dataset
from steelyard_common.bounded_parquet import DEPTH, FOOTER_BYTES, Expands, open_parquet
from steelyard_common.bounded_schema import read_schema
from steelyard_evaluation.analysis.tables import parse_declared_schema
from steelyard_evaluation.engine.shape import output_schema
from steelyard_evaluation.engine.tables import open_table
from steelyard_evaluation.report.test_bounded_parquet import high_water

MOST_GROWTH = 64 << 20
TOO_MANY = (
    "stands for more than the [0-9]+ (fields|bytes of names) that are allowed|Invalid flatbuffers message"
)
"""The second is Arrow's own, whose limit is eight tables for each byte."""


class _Writer:
    """Writes schemas whose parts are named as often as one likes."""

    def __init__(self, name: bytes) -> None:
        flatbuffers: Any = import_module("flatbuffers")  # it comes with onnxruntime, and has no types
        self._builder = flatbuffers.Builder(1 << 16)
        self._name = self._builder.CreateString(name)

    def table(self, **slots: tuple[int, int]) -> int:
        """Write a table of offsets, and of bytes where the slot's name begins with `byte`."""
        builder = self._builder
        builder.StartObject(8)
        for kind, (slot, value) in slots.items():
            if kind.startswith("byte"):
                builder.PrependUint8Slot(slot, value, 0)
            else:
                builder.PrependUOffsetTRelativeSlot(slot, value, 0)
        return int(builder.EndObject())

    def vector(self, items: Sequence[int]) -> int:
        self._builder.StartVector(4, len(items), 4)
        for item in items:
            self._builder.PrependUOffsetTRelative(item)
        return int(self._builder.EndVector())

    def field(self, children: Sequence[int], pairs: Sequence[int] = ()) -> int:
        kind = 13 if children else 1  # a struct, or nothing but nulls
        return self.table(
            name=(0, self._name),
            byte_nullable=(1, 1),
            byte_kind=(2, kind),
            type=(3, self.table()),
            children=(5, self.vector(children)),
            metadata=(6, self.vector(pairs)),
        )

    def pair(self) -> int:
        return self.table(key=(0, self._name), value=(1, self._name))

    def message(self, fields: Sequence[int]) -> bytes:
        builder = self._builder
        schema = self.table(fields=(1, self.vector(fields)))
        builder.StartObject(5)
        builder.PrependInt16Slot(0, 4, 0)
        builder.PrependUint8Slot(1, 1, 0)
        builder.PrependUOffsetTRelativeSlot(2, schema, 0)
        builder.Finish(builder.EndObject())
        content = bytes(builder.Output())
        content += bytes(-len(content) % 8)
        return struct.pack("<Ii", 0xFFFFFFFF, len(content)) + content


def _wide(count: int = 90_000, name: bytes = b"x") -> bytes:
    writer = _Writer(name)
    return writer.message([writer.field(())] * count)


def _doubling(levels: int = 20, width: int = 2) -> bytes:
    writer = _Writer(b"x")
    field = writer.field(())
    for _ in range(levels):
        field = writer.field([field] * width)
    return writer.message([field])


def _described() -> bytes:
    writer = _Writer(b"x" * 1000)
    return writer.message([writer.field((), [writer.pair()] * 1000)] * 100)


BOMBS: dict[str, Callable[[], bytes]] = {
    "one field that is named very often": _wide,
    "one long name": lambda: _wide(800, b"x" * 300_000),
    "objects that double": _doubling,
    "objects of many levels": lambda: _doubling(60, 3),
    "metadata": _described,
}


def _parquet(text: str, folder: Path) -> None:
    path = folder / "rows.parquet"
    with pq.ParquetWriter(path, pa.schema({"a": pa.int8()}), store_schema=False) as writer:
        writer.add_key_value_metadata({"ARROW:schema": text})
    open_parquet(path)


def _arrow(text: str, folder: Path) -> None:
    path = folder / "rows.arrow"
    path.write_bytes(base64.b64decode(text) + bytes(8))
    open_table(path, "arrow")


def _columns(columns: Sequence[object]) -> None:
    """Take no column for a refusal: who names the schema of a dataset may name an invalid one."""
    if not columns:
        raise ValueError("stands for more than the 0 fields that are allowed")


DOORS: dict[str, Callable[[str, Path], object]] = {
    "the output of a service": lambda text, _: output_schema(text),
    "the measurement of a method": lambda text, _: parse_declared_schema(text),
    "the columns in Croissant": lambda text, _: _columns(column_names(text)),
    "lineage": lambda text, _: _columns(list_fields(make_dataset(schema={"arrowSchema": text}))),
    "a Parquet file": _parquet,
    "an Arrow file": _arrow,
    "any other": lambda text, _: read_schema(text),
}


@pytest.fixture(scope="module", params=BOMBS)
def bomb(request: pytest.FixtureRequest) -> str:
    content = BOMBS[request.param]()
    assert len(content) < 1 << 20
    return base64.b64encode(content).decode()


@pytest.mark.parametrize("door", DOORS)
def test_a_schema_that_stands_for_too_much_is_refused(tmp_path: Path, bomb: str, door: str) -> None:
    before = high_water()
    with pytest.raises(Exception, match=TOO_MANY) as refused:
        DOORS[door](bomb, tmp_path)
    assert "\n" not in str(refused.value)
    assert high_water() - before < MOST_GROWTH


_KINDS: Sequence[pa.DataType] = (
    pa.null(),
    pa.int64(),
    pa.timestamp("us", "Europe/Berlin"),
    pa.list_(pa.struct([("a", pa.int8()), ("b", pa.large_string())])),
    pa.dictionary(pa.int32(), pa.string()),
    pa.dense_union([pa.field("a", pa.int8()), pa.field("b", pa.string())]),
    pa.map_(pa.string(), pa.int8()),
    pa.run_end_encoded(pa.int32(), pa.int8()),
    pa.decimal128(10, 2),
)


@pytest.mark.parametrize("kind", _KINDS, ids=str)
@pytest.mark.parametrize("count", [0, 1, 50, 3000])
def test_honest_schemas_are_read(kind: Any, count: int) -> None:
    short = pa.schema([pa.field("", kind, metadata={"": ""}) for _ in range(count)])
    named = pa.schema([pa.field(f"column {number}", kind) for number in range(count)], {"about": "x" * 9999})
    for schema in (short, named):
        text = base64.b64encode(schema.serialize().to_pybytes()).decode()
        assert read_schema(text).equals(schema, check_metadata=True)


@pytest.mark.parametrize("text", ["", "AAAA", "é", "a", "/////w==", base64.b64encode(b"\xff" * 99).decode()])
def test_what_is_no_schema_is_one_kind_of_error(text: str) -> None:
    with pytest.raises(pa.ArrowInvalid) as refused:
        read_schema(text)
    assert "\n" not in str(refused.value)


def _footer(levels: int, own: bytes = b"a", leaves: int = 1) -> bytes:
    """Return a Parquet file of nothing but a footer, in Thrift's compact protocol."""

    def number(value: int) -> bytes:
        return bytes([value & 127 | 128]) + number(value >> 7) if value > 127 else bytes([value])

    def column(children: int) -> bytes:
        name = own if children else b"a"
        kind = b"\x35\x02" if children else b"\x15\x02\x25\x02"
        return (
            kind
            + b"\x18"
            + number(len(name))
            + name
            + (b"\x15" + number(2 * children) if children else b"")
            + b"\0"
        )

    columns = [column(1)] * levels + [column(leaves)] + [column(0)] * leaves
    footer = b"\x15\x02\x19\xfc" + number(len(columns)) + b"".join(columns) + b"\x16\0\x19\x0c\0"
    return b"PAR1" + footer + struct.pack("<I", len(footer)) + b"PAR1"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (_footer(90_000), f"its columns are nested deeper than {DEPTH} levels"),
        (_footer(50, b"a" * 10_000, 2000), f"the names of its columns take more than {FOOTER_BYTES} bytes"),
    ],
    ids=["deep columns", "long paths"],
)
def test_columns_are_counted_before_pyarrow_follows_them(tmp_path: Path, content: bytes, said: str) -> None:
    # It follows them by recursion, and ends the process where the stack does; and it keeps the path of each.
    path = tmp_path / "rows.parquet"
    path.write_bytes(content)
    before = high_water()
    with pytest.raises(Expands, match=said):
        open_parquet(path)
    assert high_water() - before < MOST_GROWTH
    path.write_bytes(_footer(20, b"a" * 100, 300))
    with open_parquet(path) as file:
        assert len(file.schema) == 300
