"""A table that stands for far more than it weighs is refused in one line, or read in small memory."""

import gzip
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from steelyard.cli.transfer import check_tables
from steelyard_common.errors import UsageError
from steelyard_evaluation.engine import table_files
from steelyard_evaluation.engine.table_files import BadTable, find_form
from steelyard_evaluation.engine.tables import open_table, unite
from steelyard_evaluation.report.test_bounded_parquet import high_water
from steelyard_evaluation.runs.prompts.inputs import open_rows
from steelyard_evaluation.runs.request import SourceSpec

MOST_GROWTH = 64 << 20
_MEMBER = gzip.compress(b"x" * (1 << 20))


def _packed(begin: bytes, member: bytes, count: int, end: bytes) -> bytes:
    return gzip.compress(begin) + member * count + gzip.compress(end)


def _arrow(column: Any) -> bytes:
    file = io.BytesIO()
    table = pa.table({"t": column})
    with pa.ipc.new_file(file, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    return file.getvalue()


def _parquet(column: Any) -> bytes:
    file = io.BytesIO()
    table = pa.table({"_index_": pa.array(range(len(column)), pa.int64()), "t": column})
    pq.write_table(table, file, compression="zstd", use_dictionary=False)
    return file.getvalue()


def _deep(begin: bytes, end: bytes, levels: int = 900) -> bytes:
    return b'{"a":' + begin * levels + b"1" + end * levels + b"}\n"


BOMBS: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "another key in each line": (
        "rows.jsonl",
        lambda: b"".join(b'{"k%06d":1}\n' % number for number in range(12_000)),
        "has [0-9]+ different keys in [0-9]+ rows: [0-9]+ cells; 20000000 are allowed",
    ),
    "very many keys": (
        "rows.jsonl",
        lambda: b"{" + b",".join(b'"k%d":1' % number for number in range(20_000)) + b"}\n",
        "has 20000 columns; 10000 are allowed",
    ),
    "a key that is repeated after very many": (
        "rows.jsonl",
        lambda: b"{" + b"".join(b'"k%d":1,' % number for number in range(80_000)) + b'"k79999":2}\n',
        "line 1: the key 'k79999' is there twice",
    ),
    "deep lists": ("rows.jsonl", lambda: _deep(b"[", b"]"), "line 1 is nested deeper than 64 levels"),
    "deep objects behind shallow ones": (
        "rows.jsonl",
        lambda: b'{"a":{}}\n' + _deep(b'{"a":', b"}", 200),
        "line 2 is nested deeper than 64 levels",
    ),
    "deep objects with long keys": (
        "rows.jsonl",
        lambda: _deep(b'{"' + b"k" * 1000 + b'":', b"}"),
        "line 1 is nested deeper than 64 levels",
    ),
    "a deep array": (
        "rows.json",
        lambda: b"[" + _deep(b"[", b"]") + b"]",
        "it is nested deeper than 64 levels",
    ),
    "very many empty lists": ("rows.jsonl", lambda: b'{"a":[' + b"[]," * 250_000 + b"[]]}\n", ""),
    "very many columns": (
        "rows.csv",
        lambda: b"a" + b",a" * 300_000,
        "has 300001 columns; 10000 are allowed",
    ),
    "very many fields without a text": (
        "rows.csv",
        lambda: b",".join(b"%d" % number for number in range(9999)) + (b"\n" + b"," * 9998) * 90,
        "",
    ),
    "a packed cell": (
        "rows.csv.gz",
        lambda: _packed(b'a,b\n1,"', _MEMBER, 800, b'"\n'),
        "has a row that is longer than [0-9]+ characters",
    ),
    "a packed line": (
        "rows.jsonl.gz",
        lambda: _packed(b'{"a":"', _MEMBER, 800, b'"}\n'),
        "line 1 is longer than [0-9]+ bytes",
    ),
    "a packed array": (
        "rows.json.gz",
        lambda: _packed(b"[{}", gzip.compress(b",{}" * 100_000), 500, b"]"),
        "it is one array of more than [0-9]+ bytes",
    ),
    "a packed line of very many lists": (
        "rows.jsonl.gz",
        lambda: _packed(b'{"a":[[]', gzip.compress(b",[]" * 100_000), 20, b"]}\n"),
        "line 1 has [0-9]+ values; 1000000 are allowed",
    ),
    "a packed object over very many lines": (
        "rows.jsonl.gz",
        lambda: _packed(b'{\n"a":[[]', gzip.compress(b",[]\n" * 100_000), 20, b"]}\n"),
        "line 1 is not JSON: ",
    ),
    "packed lines of long texts": (
        "rows.jsonl.gz",
        lambda: gzip.compress(b'{"a":"' + b"x" * (4 << 20) + b'"}\n') * 5,
        "unpacks to more than 16777216 bytes, which are allowed",
    ),
    "packed blanks": (
        "rows.jsonl.gz",
        lambda: gzip.compress(b" " * (1 << 20)) * 20,
        "unpacks to more than 16777216 bytes, which are allowed",
    ),
    "packed texts of Arrow": (
        "rows.arrow",
        lambda: _arrow(pa.array(["x" * 500_000] * 200)),
        "a record batch of [0-9]+ bytes unpacks to [0-9]+; 67108864 are allowed, or 16 times",
    ),
    "packed texts of Arrow that are not long": (
        "rows.arrow",
        lambda: _arrow(pa.array(["x" * 100_000] * 300)),
        "",
    ),
    "a text of Arrow that all rows name": (
        "rows.arrow",
        lambda: _arrow(pa.DictionaryArray.from_arrays(pa.array([0] * 100_000, pa.int32()), ["x" * 100_000])),
        "its rows take more than 4294967296 bytes, written out",
    ),
    "a list of Arrow of very many nulls": (
        "rows.arrow",
        lambda: _arrow(pa.ListArray.from_arrays(pa.array([0, 1 << 30], pa.int32()), pa.nulls(1 << 30))),
        "it stands for [0-9]+ values; 4194304 are allowed",
    ),
    "a packed page of Parquet": (
        "rows.parquet",
        lambda: _parquet(pa.array(["x" * 70_000_000])),
        "column t: a page of [0-9]+ bytes unpacks to [0-9]+; 67108864 are allowed",
    ),
    "a packed page of Parquet of many rows": (
        "rows.parquet",
        lambda: _parquet(pa.array(["x" * 500_000] * 100)),
        "",
    ),
}
"""The name and the maker of each, and the message; nothing where it is read."""


def _data_source(path: Path) -> int:
    form = find_form(path.name)
    assert form is not None
    _, (table,) = unite([open_table(path, form)])
    return sum(batch.num_rows for batch in table.batches())


def _prompts(path: Path) -> int:
    return sum(batch.num_rows for batch in open_rows(SourceSpec(location=str(path))).batches())


def _upload(path: Path) -> int:
    check_tables(path.parent, [path])
    return 1


DOORS: dict[str, Callable[[Path], int]] = {
    "the files of a data source": _data_source,
    "eval run": _prompts,
    "an upload of the command line": _upload,
}


@pytest.mark.parametrize(
    ("bomb", "door"),
    [
        (bomb, door)
        for bomb, (name, _, _) in BOMBS.items()
        for door, takes in DOORS.items()
        if takes is not _upload or name.endswith(".parquet")
    ],
)
def test_a_table_is_bounded_before_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bomb: str, door: str
) -> None:
    monkeypatch.setattr(table_files, "UNPACKED_BYTES", 16 << 20)  # less is to be unpacked here
    monkeypatch.setattr(table_files, "UNPACKED_RATIO", 1)
    name, make, said = BOMBS[bomb]
    path = tmp_path / name
    path.write_bytes(make())
    assert path.stat().st_size < 1 << 20
    before = high_water()
    if said:
        with pytest.raises((BadTable, UsageError), match=said) as refused:
            DOORS[door](path)
        assert "\n" not in str(refused.value)
    else:
        assert DOORS[door](path)
    assert high_water() - before < MOST_GROWTH


def test_packed_tables_are_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n") + gzip.compress(b"1,x\n" * 10_000) * 3)
    assert _data_source(path) == _prompts(path) == 30_000
