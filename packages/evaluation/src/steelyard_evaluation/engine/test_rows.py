"""Every type of Arrow, in every place: read right, or refused with the name of the column."""

import base64
import uuid
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pandas  # noqa: F401 - where it is loaded, pyarrow makes times of nanoseconds its own
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from steelyard_common.types import JsonValue
from steelyard_evaluation.engine.errors import EvaluationFailed
from steelyard_evaluation.engine.json_lines import Columns, to_batch
from steelyard_evaluation.engine.rows import BadColumn, plain_batch, plain_schema, row_numbers, to_rows
from steelyard_evaluation.engine.source import open_source
from steelyard_evaluation.storage.files import FileStore

ID = uuid.UUID(int=1)
NOON = datetime.fromisoformat("2024-05-01T12:00")
REFUSED = "refused"
KINDS: dict[str, tuple[Any, Any, Any]] = {
    "null": (pa.null(), None, None),
    "bool": (pa.bool_(), True, True),
    **{str(kind): (kind, 7, 7) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())},
    **{str(kind): (kind, 7, 7) for kind in (pa.uint8(), pa.uint16(), pa.uint32())},
    "uint64": (pa.uint64(), 2**64 - 1, 2**64 - 1),
    **{str(kind): (kind, np.float16(0.1), 0.1) for kind in (pa.float16(),)},
    **{str(kind): (kind, 0.1, 0.1) for kind in (pa.float32(), pa.float64())},
    **{
        str(kind): (kind, Decimal("1.50"), "1.50")
        for kind in (pa.decimal32(5, 2), pa.decimal64(5, 2), pa.decimal128(5, 2), pa.decimal256(5, 2))
    },
    **{str(kind): (kind, "a", "a") for kind in (pa.string(), pa.large_string(), pa.string_view())},
    **{
        str(kind): (kind, b"a", "YQ==")
        for kind in (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(1))
    },
    **{str(kind): (kind, date(2020, 1, 2), "2020-01-02") for kind in (pa.date32(), pa.date64())},
    **{
        str(kind): (kind, time(1, 2, 3), "01:02:03")
        for kind in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"))
    },
    **{
        f"timestamp {unit}": (pa.timestamp(unit), datetime(2020, 1, 2), "2020-01-02T00:00:00")  # noqa: DTZ001
        for unit in ("s", "ms", "us", "ns")
    },
    "timestamp with a zone": (
        pa.timestamp("us", "UTC"),
        datetime(2020, 1, 2, tzinfo=UTC),
        "2020-01-02T00:00:00+00:00",
    ),
    "timestamp of a nanosecond": (pa.timestamp("ns"), 1, "1970-01-01 00:00:00.000000001"),
    "timestamp of the year 10000": (pa.timestamp("ms"), 253402300800000, "10000-01-01 00:00:00.000"),
    **{f"duration {unit}": (pa.duration(unit), timedelta(1), REFUSED) for unit in ("s", "ms", "us", "ns")},
    "interval": (pa.month_day_nano_interval(), (1, 2, 3), REFUSED),
    "list": (pa.list_(pa.int64()), [1, None], [1, None]),
    "large list": (pa.large_list(pa.int64()), [1], [1]),
    "fixed-size list": (pa.list_(pa.int64(), 2), [1, 2], [1, 2]),
    "list of floats": (pa.list_(pa.float32()), [0.1, None], [0.1, None]),
    "fixed-size list of floats": (pa.list_(pa.float32(), 2), [0.1, 0.2], [0.1, 0.2]),
    "fixed-size list of half floats": (pa.list_(pa.float16(), 1), [np.float16(0.1)], [0.1]),
    "list view": (pa.list_view(pa.int64()), [1], [1]),
    "large list view": (pa.large_list_view(pa.int64()), [1], [1]),
    "struct": (pa.struct([("a", pa.int64())]), {"a": None}, {"a": None}),
    "struct of nothing": (pa.struct([]), {}, REFUSED),
    "map": (pa.map_(pa.string(), pa.int64()), [("a", 1)], {"a": 1}),
    "map of numbers": (pa.map_(pa.int64(), pa.int64()), [(1, 1)], REFUSED),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), "a", "a"),
    "run-end encoded": (pa.run_end_encoded(pa.int32(), pa.string()), "a", "a"),
    "uuid": (pa.uuid(), ID.bytes, str(ID)),
    "json": (pa.json_(), '{"b": [1, null]}', {"b": [1, None]}),
    "8-bit booleans": (pa.bool8(), 1, True),
    "tensor": (pa.fixed_shape_tensor(pa.int32(), [2]), None, REFUSED),
    "opaque": (pa.opaque(pa.int32(), "a", "b"), None, REFUSED),
}
UNIONS = {
    "dense union": pa.UnionArray.from_dense(
        pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1])]
    ),
    "sparse union": pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])]),
}
TYPES = {name for name in vars(pa.types) if name.startswith("is_") and not name.endswith("_value")}


def array_of(kind: Any, value: Any) -> Any:
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, pa.array([value], kind.storage_type))
    if pa.types.is_run_end_encoded(kind):
        return pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), pa.array([value]))
    return pa.array([value], kind)


def as_sent(batch: pa.RecordBatch) -> JsonValue:
    return orjson.loads(orjson.dumps(to_rows(batch)[0]["a"], default=_text))


def _text(value: Any) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def cases() -> Iterator[Any]:
    for name, (kind, value, expected) in KINDS.items():
        yield pytest.param(array_of(kind, value), expected, id=name)
        if name != "null" and not isinstance(kind, pa.BaseExtensionType) and "run-end" not in name:
            inside = pa.struct([("b", pa.list_(kind))])
            nested = REFUSED if expected is REFUSED else {"b": [expected]}
            if "10000" not in name:
                yield pytest.param(
                    pa.array([{"b": [value]}], inside), nested, id=f"{name} in a list in a struct"
                )
    for name, array in UNIONS.items():
        yield pytest.param(array, REFUSED, id=name)


@pytest.mark.parametrize(("array", "expected"), list(cases()))
def test_a_type_is_read_right_or_refused_by_the_name_of_its_column(
    array: "pa.Array[Any]", expected: JsonValue, tmp_path: Path
) -> None:
    batch = pa.RecordBatch.from_arrays([array], ["a"])
    if expected is REFUSED:
        with pytest.raises(BadColumn, match="the column 'a'"):
            plain_schema(batch.schema)
        return
    schema = plain_schema(batch.schema)
    plain = plain_batch(batch, schema)
    assert as_sent(plain) == expected
    # It survives the file that a dataset is.
    pq.write_table(pa.Table.from_batches([plain]), tmp_path / "a.parquet")
    (again,) = pq.read_table(tmp_path / "a.parquet").to_batches()
    assert as_sent(again) == expected


@pytest.mark.parametrize("mark", ["steelyard.json", "steelyard.map"])
@pytest.mark.parametrize(("array", "expected"), [case for case in cases() if case.values[1] is not REFUSED])
def test_a_mark_says_nothing_about_other_values(
    array: "pa.Array[Any]", expected: JsonValue, mark: str
) -> None:
    if mark == "steelyard.json" and pa.types.is_string(array.type):
        return
    field: pa.Field[Any] = pa.field("a", array.type, metadata={mark: "1"})
    batch = pa.RecordBatch.from_arrays([array], schema=pa.schema([field]))
    assert as_sent(plain_batch(batch, plain_schema(batch.schema))) == expected


def test_a_mark_says_nothing_about_other_values_of_an_object() -> None:
    field: pa.Field[Any] = pa.field("a", pa.int64(), metadata={"steelyard.json": "1"})
    array = pa.array([{"a": 1}], pa.struct([field]))
    assert as_sent(pa.RecordBatch.from_arrays([array], ["a"])) == {"a": 1}


def test_every_type_that_arrow_has_is_in_the_table() -> None:
    kinds = [kind for kind, _, _ in KINDS.values()] + [array.type for array in UNIONS.values()]
    families = {
        name
        for name in TYPES
        for kind in kinds
        if not isinstance(kind, pa.BaseExtensionType) and getattr(pa.types, name)(kind)
    }
    assert families == TYPES


async def test_a_dataset_with_a_column_that_cannot_be_asked_is_refused_before_the_first_call(
    tmp_path: Path,
) -> None:
    columns: dict[str, Any] = {"_index_": pa.array([0]), "wait": pa.array([1], pa.duration("s"))}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    with pytest.raises(EvaluationFailed, match=r"a.parquet: the column 'wait' is of type duration"):
        await open_source(FileStore(tmp_path))
    twice = pa.Table.from_arrays([pa.array([0]), pa.array([1]), pa.array([2])], ["_index_", "q", "q"])
    pq.write_table(twice, tmp_path / "a.parquet")
    with pytest.raises(EvaluationFailed, match=r"a.parquet: the column 'q' is there twice"):
        await open_source(FileStore(tmp_path))


@pytest.mark.parametrize(
    ("values", "kind", "any_type", "fault"),
    [
        ([0, 7], pa.int64(), False, None),
        ([0, 7], pa.uint8(), False, None),
        (["0", "7"], pa.string(), True, None),
        ([0.0, 7.0], pa.float64(), True, None),
        (["0", "7"], pa.string(), False, "not string"),
        ([0.0, 7.0], pa.float64(), False, "not double"),
        ([0, -1], pa.int64(), False, "not -1"),
        ([0, 2**63], pa.uint64(), False, f"not {2**63}"),
        ([0, None], pa.int64(), False, "one is empty"),
        ([0.0, 1.5], pa.float64(), True, "not 1.5"),
        ([0.0, float("nan")], pa.float64(), True, "not NaN"),
        (["0", "-1"], pa.string(), True, "not -1"),
        (["0", "x"], pa.string(), True, "not x"),
        (["0", ""], pa.string(), True, "not $"),
        ([True, False], pa.bool_(), True, "not true"),
        ([b"1"], pa.binary(), True, 'not "MQ=="'),
        ([[1]], pa.list_(pa.int64()), True, r"not \[1\]"),
        ([date(2024, 5, 1)], pa.date32(), True, 'not "2024-05-01"'),
        ([NOON], pa.timestamp("us"), True, 'not "2024-05-01T12:00:00"'),
        ([NOON.time()], pa.time64("us"), True, 'not "12:00:00"'),
    ],
)
def test_a_row_number_is_a_whole_number_from_0(
    values: list[Any], kind: Any, any_type: bool, fault: str | None
) -> None:
    column = pa.array(values, kind)
    if fault is None:
        assert row_numbers(column, of_any_type=any_type).to_pylist() == [0, 7]
        return
    with pytest.raises(BadColumn, match=f"must hold a whole number from 0 in every row[,;] {fault}"):
        row_numbers(column, of_any_type=any_type)


CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
MIXED: dict[str, list[JsonValue]] = {
    "a name in one message": [
        [{"role": "user", "content": "a"}],
        [{"role": "user", "content": "b", "name": "c"}],
    ],
    "tool calls in one message": [
        [{"role": "user", "content": "a"}],
        [{"role": "assistant", "content": None, "tool_calls": [CALL]}],
    ],
    "text and parts": ["a", [{"type": "text", "text": "b"}]],
    "text and parts inside": [[{"content": "a"}], [{"content": [{"type": "text", "text": "b"}]}]],
    "tools": [
        [{"type": "function", "function": {"name": "f", "parameters": {"a": {"type": "integer"}}}}],
        [{"type": "function", "function": {"name": "g", "parameters": {"b": {"enum": [1, "2"]}}}}],
        None,
    ],
    "a response format": [{"type": "text"}, {"type": "json_schema", "json_schema": {"strict": True}}],
    "nulls that the file holds": [{"a": None}, {"a": 1, "b": None}, {"a": {"c": None}}],
    "metadata": [{"a": 1}, {"b": "2"}, {}],
    "options": [["a", "b"], [{"text": "c"}], []],
    "whole numbers and fractions": [{"a": 1}, {"a": 1.5}],
    "lists of lists": [[[{"a": 1}]], [[{"b": [{}]}]]],
    "numbers beyond 64 bits": [{"a": 2**64 - 1}, {"a": -1}],
    "numbers": [1, 2.5, 1.0, None],
    "whole numbers that no float is": [2**53 + 1, 0.5],
    "whole numbers without a sign": [2**64 - 1, -1],
    "alike": [[{"role": "user", "content": "a"}], [{"role": "user", "content": "b"}]],
    "texts": ["a", None, ""],
    "lists of texts": [["a"], None, []],
}


@pytest.mark.parametrize("name", MIXED)
@pytest.mark.parametrize("apart", [False, True], ids=["in one batch", "in several"])
def test_objects_of_json_come_back_as_they_are(tmp_path: Path, name: str, apart: bool) -> None:
    rows = [{"a": value} for value in MIXED[name]]
    columns = Columns()
    for batch in [[row] for row in rows] if apart else [rows]:
        columns.add(batch)
    table = pa.Table.from_batches([to_batch(rows, columns.schema())])
    pq.write_table(table, tmp_path / "a.parquet")
    again = to_rows(pq.read_table(tmp_path / "a.parquet"))
    assert orjson.dumps(again) == orjson.dumps(rows)


def test_what_arrow_holds_as_it_is_stays_arrow() -> None:
    """A column that would not change is not kept as text."""
    columns = Columns()
    columns.add([{name: values[0] for name, values in MIXED.items()}])
    columns.add([{name: values[1] for name, values in MIXED.items()}])
    kept = {field.name for field in columns.schema() if not field.metadata}
    assert kept == {"alike", "texts", "lists of texts"}


def test_the_nulls_that_a_struct_adds_to_messages_are_left_out() -> None:
    """Arrow and Parquet files give all messages the keys of all; a column of other objects stays as it is."""
    messages: Any = [
        [{"role": "user", "content": "a"}],
        [{"role": "assistant", "content": None, "tool_calls": [CALL]}],
    ]
    other: Any = [{"x": None}, {"x": 1}]
    for name in ("messages", "prompt"):
        table = pa.table({name: pa.array(messages), "other": pa.array(other)})
        rows = to_rows(table)
        assert [row[name] for row in rows] == messages
        assert [row["other"] for row in rows] == other
