"""An Arrow file that unpacks to far more than it weighs is refused; others are read as pyarrow reads them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from steelyard_common import bounded_arrow
from steelyard_common.bounded_arrow import PIECE_BYTES, batches
from steelyard_evaluation.engine.table_files import BadTable
from steelyard_evaluation.engine.tables import open_table
from steelyard_evaluation.report.test_bounded_parquet import high_water


def _written(path: Path, column: Any, form: str, compression: Any) -> pa.Table:
    table = pa.table({"t": column})
    options = pa.ipc.IpcWriteOptions(compression=compression)
    opened: Any = pa.ipc.new_file if form == "file" else pa.ipc.new_stream
    with opened(path, table.schema, options=options) as writer:
        writer.write_table(table)
    return table


@pytest.mark.parametrize("form", ["file", "stream"])
@pytest.mark.parametrize("compression", ["zstd", "lz4"])
@pytest.mark.parametrize("named", [False, True])
def test_zeros_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, compression: str, named: bool
) -> None:
    monkeypatch.setattr(bounded_arrow, "BATCH_BYTES", 1 << 20)
    path = tmp_path / "rows.arrow"
    texts = pa.array(["\0" * 4_000_000])
    _written(path, texts.dictionary_encode() if named else texts, form, compression)
    with pytest.raises(BadTable, match=r"^a .* unpacks to 40000[0-9]+; 1048576 are allowed"):
        open_table(path, "arrow")


_KINDS: dict[str, Any] = {
    "texts": pa.array(["a", None, "bc"]),
    "views": pa.array(["a", None, "b" * 99], pa.string_view()),
    "names": pa.array(["a", "b", None]).dictionary_encode(),
    "runs": pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["a", "b"])),
    "lists": pa.array([["a"], [], None]),
    "views of lists": pa.array([["a"], [], None], pa.list_view(pa.string())),
    "lists of one length": pa.array([["a", "b"], None, ["c", "d"]], pa.list_(pa.string(), 2)),
    "objects": pa.array([{"a": 1, "b": ["x"]}, None, {"a": None, "b": None}]),
    "maps": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int8())),
    "nulls": pa.nulls(3),
    "numbers": pa.array([b"ab", None, b"cd"], pa.binary(2)),
    "unions": pa.UnionArray.from_sparse(pa.array([0, 0, 0], pa.int8()), [pa.array([1, 2, 3])]),
    "extensions": pa.ExtensionArray.from_storage(
        pa.uuid(), pa.array([bytes(16), None, bytes(16)], pa.binary(16))
    ),
}


@pytest.mark.parametrize("form", ["file", "stream"])
@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
@pytest.mark.parametrize("kind", _KINDS)
def test_honest_files_are_read(tmp_path: Path, kind: str, form: str, compression: str | None) -> None:
    path = tmp_path / "rows.arrow"
    column = pa.concat_arrays([_KINDS[kind]] * 3) if kind != "unions" else _KINDS[kind]
    for values in (column, column.slice(1), column.slice(4, 2)):
        table = _written(path, values, form, compression)
        for rows in (1, 2, 4096):
            pieces = list(batches(path, rows))
            assert all(piece.num_rows <= rows for piece in pieces)
            assert pa.Table.from_batches(pieces, table.schema).to_pylist() == table.to_pylist()


def _of(kind: Any, length: int, *buffers: Any) -> Any:
    return pa.Array.from_buffers(
        kind, length, [None if data is None else pa.py_buffer(data) for data in buffers]
    )


LONG = "x" * 400_000
_MANY = 200_000
_NAMED = pa.DictionaryArray.from_arrays(np.zeros(_MANY, np.int8), pa.array([LONG]))
_VIEWS: Any = pa.array([LONG], pa.string_view()).buffers()


def _lists(count: int, kind: str) -> Any:
    starts: Any = pa.array(np.zeros(count, np.int32))
    sizes: Any = pa.array(np.full(count, 300_000, np.int32))
    if kind == "views":
        values: Any = pa.array(np.zeros(300_000, np.int8))
        views: Any = pa.ListViewArray
        return views.from_arrays(starts, sizes, values)
    return pa.ListArray.from_arrays(pa.array([0, _MANY], pa.int32()), _NAMED)


_WRITTEN_OUT = "its rows take more than 4294967296 bytes, written out"
_LONG_ROW = "a row takes [0-9]+ bytes, written out; 67108864 are allowed"
_VALUES = "it stands for [0-9]+ values; 4194304 are allowed, or 8 for each of its bytes"
BOMBS: dict[str, tuple[Callable[[], Any], str]] = {
    "a long text that all rows name": (lambda: _NAMED, _WRITTEN_OUT),
    "a long text that one row names often": (lambda: _lists(1, "names"), _LONG_ROW),
    "views of one text": (
        lambda: _of(pa.string_view(), 30_000, None, _VIEWS[1].to_pybytes() * 30_000, _VIEWS[2]),
        _WRITTEN_OUT,
    ),
    "lists that overlap": (lambda: _lists(60_000, "views"), _WRITTEN_OUT),
    "a run of equal values": (
        lambda: pa.RunEndEncodedArray.from_arrays(pa.array([10**9], pa.int32()), pa.array([LONG])),
        _VALUES,
    ),
    "a shorter run of long values": (
        lambda: pa.RunEndEncodedArray.from_arrays(pa.array([10**6], pa.int32()), pa.array([LONG])),
        _WRITTEN_OUT,
    ),
    "a list of nulls": (
        lambda: pa.ListArray.from_arrays(pa.array([0, 1 << 30], pa.int32()), pa.nulls(1 << 30)),
        _VALUES,
    ),
    "values without a width": (lambda: _of(pa.binary(0), 1 << 30, None, b""), _VALUES),
    "an end before its start": (
        lambda: _of(pa.string(), 3, None, np.array([0, 20, 5, 30], np.int32).tobytes(), b"x" * 30),
        "is not Arrow: it is damaged or cut short: In column 0: .*[Oo]ffset",
    ),
    "a text that leads out": (
        lambda: _of(pa.string(), 3, None, np.array([0, 1 << 30, -5, 3], np.int32).tobytes(), b"x" * 30),
        _LONG_ROW,
    ),
    "a name that leads out": (
        lambda: pa.DictionaryArray.from_arrays(pa.array([0, 99], pa.int32()), pa.array(["a"]), safe=False),
        "is not Arrow: .*(a list or a name leads out of its values|Index 99 out of bounds)",
    ),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_values_are_counted_as_if_they_were_written_out(tmp_path: Path, bomb: str) -> None:
    path = tmp_path / "rows.arrow"
    make, said = BOMBS[bomb]
    batch = pa.RecordBatch.from_arrays([make()], ["t"])
    with pa.ipc.new_stream(str(path), batch.schema) as writer:
        writer.write_batch(batch)
    assert path.stat().st_size < 1 << 20
    del batch
    before = high_water()
    with pytest.raises(BadTable, match=f"^(?:{said})") as refused:
        open_table(path, "arrow")
    assert "\n" not in str(refused.value)
    assert high_water() - before < 64 << 20


def test_a_piece_has_as_many_rows_as_fit(tmp_path: Path) -> None:
    path = tmp_path / "rows.arrow"
    named = pa.DictionaryArray.from_arrays(np.zeros(1000, np.int8), pa.array([LONG]))
    _written(path, named, "file", None)
    rows = [piece.num_rows for piece in open_table(path, "arrow").batches()]
    assert sum(rows) == 1000
    assert set(rows[:-1]) == {PIECE_BYTES // (len(LONG) + 8)}
