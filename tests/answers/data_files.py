"""A corpus of data files, as people have them: by separator, encoding, type and damage.

Each has its rows, or its refusal. `test_data_files` sends each of them three ways: as an upload, as a fetched data
source, and to `eval run`.
"""

import gzip
import io
import zipfile
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

Rows = list[dict[str, Any]]
TABLE = {"q": ["how?", "why?"], "n": [1, 2]}
ROWS: Rows = [{"q": "how?", "n": 1}, {"q": "why?", "n": 2}]
CSV = b"q,n\nhow?,1\nwhy?,2\n"
NOON = datetime.fromisoformat("2024-01-02T12:00")
JSONL = b'{"q": "how?", "n": 1}\n{"q": "why?", "n": 2}\n'


def _parquet(table: dict[str, Any] | pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(table), sink, **options)
    return sink.getvalue()


def _arrow(table: dict[str, Any] | pa.Table, *, stream: bool = False, **options: Any) -> bytes:
    sink, made = io.BytesIO(), pa.table(table)
    opened: Any = pa.ipc.new_stream if stream else pa.ipc.new_file
    with opened(sink, made.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(made)
    return sink.getvalue()


def _zip(*names: str) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        for name in names:
            archive.writestr(name, "x" * 100)
    return sink.getvalue()


def _flipped(content: bytes) -> bytes:
    half = len(content) // 2
    return content[:half] + bytes(255 - byte for byte in content[half : half + 8]) + content[half + 8 :]


def _column(values: Sequence[str]) -> bytes:
    """Return a CSV file with one column."""
    return "\n".join(["x", *values, ""]).encode()


def _read(values: Sequence[Any]) -> Rows:
    return [{"x": value} for value in values]


_TYPES = {
    "x": pa.array([Decimal("1.10"), None]),
    "d": pa.array([date(2024, 1, 2), None]),
    "t": pa.array([NOON, None], pa.timestamp("us")),
    "b": pa.array([b"\xff", None]),
    "l": pa.array([[1, 2], None]),
    "s": pa.array([{"a": 1}, None]),
    "k": pa.array(["u", None]).dictionary_encode(),
    "m": pa.array([[("a", 1.5)], None], pa.map_(pa.string(), pa.float64())),
}
_TYPED: Rows = [
    {
        "x": Decimal("1.10"), "d": date(2024, 1, 2), "t": NOON, "b": b"\xff", "l": [1, 2],
        "s": {"a": 1}, "k": "u", "m": {"a": 1.5},
    },
    dict.fromkeys(_TYPES),
]  # fmt: skip
_NO_NAMES = pa.array([None, None], pa.string()).dictionary_encode()
"""Column of nulls; its dictionary is empty."""
_TWICE = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"])
_MARKED: pa.Schema = pa.schema([pa.field("x", pa.string(), metadata={"steelyard.json": "1"})])
_DEEP = "[" * 65 + "]" * 65
_TYPE = r"the column 'x' is of type duration\[s\], which JSON has no form for; cast it, or leave it out"

GOOD: dict[str, tuple[str, bytes, Rows]] = {
    # Values of CSV
    "versions of a program": ("a.csv", b"q,x\nAfter 3.9?,3.10\n", [{"q": "After 3.9?", "x": "3.10"}]),
    "whole numbers": ("a.csv", _column(["1", "-2", "0"]), _read([1, -2, 0])),
    "the longest whole numbers": (
        "a.csv",
        _column([str(2**63 - 1), str(-(2**63))]),
        _read([2**63 - 1, -(2**63)]),
    ),
    "longer whole numbers": ("a.csv", _column([str(2**63), "1"]), _read([str(2**63), "1"])),
    "fractions": ("a.csv", _column(["0.5", "-1.25", "1.0"]), _read([0.5, -1.25, 1.0])),
    "a fraction of many digits": (
        "a.csv",
        _column(["0.5", "0.12345678901234567890"]),
        _read(["0.5", "0.12345678901234567890"]),
    ),
    "fractions with a zero behind": ("a.csv", _column(["0.5", "0.50"]), _read(["0.5", "0.50"])),
    "whole numbers among fractions": ("a.csv", _column(["0.5", "1"]), _read([0.5, 1])),
    "zeros before": ("a.csv", _column(["007", "010"]), _read(["007", "010"])),
    "a sign before": ("a.csv", _column(["+1", "2"]), _read(["+1", "2"])),
    "a negative zero": ("a.csv", _column(["-0", "2"]), _read(["-0", "2"])),
    "exponents": ("a.csv", _column(["1e5", "2E-3"]), _read(["1e5", "2E-3"])),
    "words of numbers": ("a.csv", _column(["nan", "inf"]), _read(["nan", "inf"])),
    "digits of other scripts": ("a.csv", _column(["١", "２"]), _read(["١", "２"])),
    "underscores and blanks": ("a.csv", _column(["1_0", " 1"]), _read(["1_0", " 1"])),
    "thousands": ("a.csv", _column(['"1,000"', '"2,000"']), _read(["1,000", "2,000"])),
    "true and false": ("a.csv", _column(["true", "false"]), _read([True, False])),
    "true of Python": ("a.csv", _column(["True", "False"]), _read(["True", "False"])),
    "true and numbers": ("a.csv", _column(["true", "1"]), _read(["true", "1"])),
    "dates": ("a.csv", _column(["2024-01-02", "2024-1-2"]), _read(["2024-01-02", "2024-1-2"])),
    "empty fields": (
        "a.csv",
        b'x,y\n1,a\n,\n3,""\n',
        [{"x": 1, "y": "a"}, {"x": None, "y": ""}, {"x": 3, "y": ""}],
    ),
    "an empty column": ("a.csv", b"x,y\n,a\n,b\n", [{"x": None, "y": "a"}, {"x": None, "y": "b"}]),
    "words for nothing": ("a.csv", _column(["NA", "null"]), _read(["NA", "null"])),
    "a type that the last row shows": (
        "a.csv",
        _column([*map(str, range(5000)), "end"]),
        _read([*map(str, range(5000)), "end"]),
    ),
    # Forms of CSV
    "quotes and line ends in values": (
        "a.csv",
        b'q,n\n"say ""hi"",\r\nyou",1\n',
        [{"q": 'say "hi",\r\nyou', "n": 1}],
    ),
    "a quote within a word": ("a.csv", _column(['5" pipe', "it's"]), _read(['5" pipe', "it's"])),
    "line ends of Windows": ("a.csv", CSV.replace(b"\n", b"\r\n"), ROWS),
    "line ends of old Macs": ("a.csv", CSV.replace(b"\n", b"\r"), ROWS),
    "no line end at the end": ("a.csv", CSV[:-1], ROWS),
    "empty lines": ("a.csv", b"\n" + CSV.replace(b"why", b"\nwhy") + b"\n\n", ROWS),
    "a mark at the beginning": ("a.csv", b"\xef\xbb\xbf" + CSV, ROWS),
    "other scripts": (
        "a.csv",
        _column(["Größe", "日本", "😀", "e\u0301"]),
        _read(["Größe", "日本", "😀", "e\u0301"]),
    ),
    "control characters": ("a.csv", _column(["\x1b[2J", "\u202e"]), _read(["\x1b[2J", "\u202e"])),
    "tabs": ("a.tsv", CSV.replace(b",", b"\t"), ROWS),
    "capital letters at the end": ("A.CSV", CSV, ROWS),
    "CSV in gzip": ("a.csv.gz", gzip.compress(CSV), ROWS),
    "a semicolon in the only column": ("a.csv", b"a;b\nx\ny;z;w\n", [{"a;b": "x"}, {"a;b": "y;z;w"}]),
    "columns of any name": (
        "a.csv",
        b'"a b","a/b","a""b",,\xc3\xa4\n1,2,3,4,5\n',
        [{"a b": 1, "a/b": 2, 'a"b': 3, "": 4, "ä": 5}],
    ),
    "a name that is a mark of another form": ("a.csv", b"ORC\n1\n", [{"ORC": 1}]),
    # JSON
    "lines of JSON": ("a.jsonl", JSONL, ROWS),
    "lines of JSON with a mark": ("a.ndjson", b"\xef\xbb\xbf" + JSONL, ROWS),
    "lines of JSON in gzip": ("a.jsonl.gz", gzip.compress(JSONL), ROWS),
    "empty lines among JSON": ("a.jsonl", JSONL.replace(b"\n", b"\r\n\r\n"), ROWS),
    "an array": ("a.json", orjson.dumps(ROWS, option=orjson.OPT_INDENT_2), ROWS),
    "an array with a mark": ("a.json", b"\xef\xbb\xbf" + orjson.dumps(ROWS), ROWS),
    "one object": ("a.json", b'{"x": 1}', _read([1])),
    "keys that lines lack": (
        "a.jsonl",
        b'{"x": 1}\n{}\n{"y": "b"}\n',
        [{"x": 1, "y": None}, {"x": None, "y": None}, {"x": None, "y": "b"}],
    ),
    "objects that differ": (
        "a.jsonl",
        b'{"x": {"a": 1}}\n{"x": {"b": null}}\n',
        _read([{"a": 1}, {"b": None}]),
    ),
    "lists and texts": ("a.jsonl", b'{"x": [1]}\n{"x": "a"}\n', _read([[1], "a"])),
    "only nulls": ("a.jsonl", b'{"x": null}\n', _read([None])),
    "escapes": ("a.jsonl", b'{"x": "\\u001b[2J \\ud83d\\ude00"}\n', _read(["\x1b[2J 😀"])),
    # Parquet and Arrow
    "Parquet": ("a.parquet", _parquet(TABLE), ROWS),
    "Parquet by its short name": ("a.pq", _parquet(TABLE, compression="gzip", data_page_version="2.0"), ROWS),
    "types of Parquet": ("a.parquet", _parquet(_TYPES), _TYPED),
    "Arrow": ("a.arrow", _arrow(TABLE), ROWS),
    "a stream of Arrow": ("a.ipc", _arrow(TABLE, stream=True), ROWS),
    "Feather": ("a.feather", _arrow(TABLE, compression="lz4"), ROWS),
    "types of Arrow": ("a.arrow", _arrow(_TYPES), _TYPED),
    "a dictionary without texts": ("a.arrow", _arrow({"x": _NO_NAMES}), _read([None, None])),
    "a dictionary without texts in lists": (
        "a.arrow",
        _arrow({"x": pa.ListArray.from_arrays([0, 2, 2], _NO_NAMES)}),
        _read([[None, None], []]),
    ),
    "a dictionary without texts in objects": (
        "a.arrow",
        _arrow({"x": pa.StructArray.from_arrays([_NO_NAMES], ["a"])}),
        _read([{"a": None}, {"a": None}]),
    ),
}
"""Name of the file, content, rows."""

BAD: dict[str, tuple[str, bytes, str]] = {
    # Something else
    "a zip archive": ("a.csv", _zip("a.csv"), "is not CSV: it is a zip archive: unpack it first"),
    "a workbook": (
        "a.csv",
        _zip("[Content_Types].xml", "xl/workbook.xml"),
        r"is not CSV: it is an Excel workbook \(.xlsx\): save",
    ),
    "an old workbook": (
        "a.csv",
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500),
        r"is not CSV: it is an old Office document",
    ),
    "gzip without its name": (
        "a.csv",
        gzip.compress(CSV),
        "is not CSV: it is compressed by gzip: end its name in .gz",
    ),
    "the name of gzip without it": ("a.csv.gz", CSV, "is not compressed by gzip: take .gz from its name"),
    "gzip in gzip": ("a.csv.gz", gzip.compress(gzip.compress(CSV)), "is not CSV: it is compressed by gzip"),
    "gzip that was cut short": (
        "a.csv.gz",
        gzip.compress(CSV * 9)[:-9],
        "is cut short: its compressed content ends early",
    ),
    "gzip with a flipped byte": (
        "a.jsonl.gz",
        _flipped(gzip.compress(JSONL)),
        "is damaged: its compressed content",
    ),
    "Zstandard": ("a.csv", b"\x28\xb5\x2f\xfd" + bytes(40), "it is compressed by Zstandard: unpack it first"),
    "a PDF document": (
        "a.csv",
        b"%PDF-1.7\n%abc\n",
        "is not CSV: it is a PDF document: save the table as CSV in UTF-8",
    ),
    "a page": (
        "a.csv",
        b"<!DOCTYPE html>\n<html><body>Log in</body></html>\n",
        "it is an HTML page, perhaps of a login or an error",
    ),
    "a page for lines": ("a.jsonl", b"\n<html>\n", "is not JSON lines: it is an HTML page"),
    "a page for Parquet": ("a.parquet", b"<html></html>" * 9, "is not Parquet: it is an HTML page"),
    "XML": ("a.csv", b"<?xml version='1.0'?>\n<a/>", "is not CSV: it is XML"),
    "a pointer of Git LFS": (
        "a.csv",
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
        "it is a pointer of Git LFS and not the file: fetch the file with git lfs pull",
    ),
    "a pointer for Parquet": (
        "a.parquet",
        b"version https://git-lfs.github.com/spec/v1\n",
        "is not Parquet: it is a pointer of Git LFS",
    ),
    "a picture": ("a.csv", b"\x89PNG\r\n\x1a\n" + bytes(20), r"is not CSV: it is a picture \(PNG\)"),
    "binary content": ("a.csv", b"a,b\n\x00\x01\x02,\x03\n", "is not CSV: it is binary, not text"),
    "binary content far behind": (
        "a.csv",
        _column(["x" * 70_000, "\0"]),
        "holds the character NUL: it is binary, or damaged",
    ),
    "Parquet for CSV": ("a.csv", _parquet(TABLE), "is not CSV: it is Parquet: end its name in .parquet"),
    "CSV for Parquet": ("a.parquet", CSV, "is not Parquet: it looks like text"),
    "Arrow for Parquet": ("a.parquet", _arrow(TABLE), "is not Parquet: it is Arrow: end its name in .arrow"),
    "JSON for CSV": ("a.csv", JSONL, "is not CSV: it is JSON: end its name in .jsonl"),
    "CSV for JSON": ("a.jsonl", CSV, "is not JSON lines: it looks like CSV: end its name in .csv"),
    "nothing": ("a.csv", b"", "is not CSV: it is empty"),
    "only empty lines": ("a.csv", b"\n\n", "is not CSV: its first line names no columns"),
    # Encodings
    "UTF-16": ("a.csv", CSV.decode().encode("utf-16"), "is not CSV: its text is UTF-16: save it in UTF-8"),
    "UTF-16 without a mark": (
        "a.csv",
        CSV.decode().encode("utf-16-le"),
        "its text is UTF-16: save it in UTF-8",
    ),
    "UTF-32": ("a.jsonl", JSONL.decode().encode("utf-32"), "is not JSON lines: its text is UTF-32"),
    "Latin-1": (
        "a.csv",
        _column(["Größe", "naïve"]).decode().encode("latin-1"),
        r"its text is not UTF-8; it looks like Latin-1 \(Windows-1252\): save it in UTF-8",
    ),
    "Latin-1 in JSON": (
        "a.jsonl",
        '{"x": "Größe"}\n'.encode("latin-1"),
        r"line 1: its text is not UTF-8; it looks like Latin-1",
    ),
    "Windows-1251": ("a.csv", "x\nКак дела\n".encode("cp1251"), "it looks like Windows-1251"),
    "Shift JIS": ("a.csv", "x\nこれはテストです\n".encode("shift_jis"), "it looks like Shift JIS"),
    "GB 18030": ("a.csv", "x\n这是一个测试\n".encode("gb18030"), "it looks like GB 18030"),
    # Damage of CSV
    "semicolons": (
        "a.csv",
        CSV.replace(b",", b";"),
        "its values are separated by semicolons, not by commas: save it with commas",
    ),
    "semicolons and decimal commas": (
        "a.csv",
        b"q;n\na;1,5\nb;2,5\n",
        "its values are separated by semicolons, not by commas",
    ),
    "tabs in CSV": (
        "a.csv",
        CSV.replace(b",", b"\t"),
        "its values are separated by tabs, not by commas: end its name in .tsv",
    ),
    "bars": ("a.csv", CSV.replace(b",", b"|"), "its values are separated by vertical bars, not by commas"),
    "commas in TSV": ("a.tsv", CSV, "its values are separated by commas, not by tabs"),
    "too few values": (
        "a.csv",
        CSV + b"x\n",
        "line 4 has 1 value, but the first line names 2 columns: a value is missing, or the file is cut short",
    ),
    "too many values": (
        "a.csv",
        b"q,n\na, b,1\n",
        "line 2 has 3 values, but the first line names 2 columns: put a value",
    ),
    "a quote that is not closed": (
        "a.csv",
        b'q,n\n"a,1\nb,2\n',
        "the quote that begins in line 2 is never closed",
    ),
    "text behind a quote": (
        "a.csv",
        b'q,n\n"Big" Bob,1\n',
        "line 2: text follows a closing quote: write a quote inside",
    ),
    "two columns of one name": ("a.csv", b"x,y,x\n1,2,3\n", "the column 'x' is there twice"),
    "a row that is too long": (
        "a.csv.gz",
        gzip.compress(b"x\n" + b"y" * (60 << 20) + b"y"),
        "has a row that is longer than [0-9]+ characters",
    ),
    "control characters in a name": (
        "a.csv",
        b"\x1b[2J,\x1b[2J\n1,2\n",
        r"the column '\\\\?x1b\[2J' is there twice",
    ),
    # Damage of JSON
    "JSON that was cut short": ("a.jsonl", JSONL[:-9], "line 2 is not JSON: unexpected end of data"),
    "a list to a line": ("a.jsonl", b'{"x": 1}\n[1]\n', "line 2 is not a JSON object"),
    "an array of numbers": ("a.json", b"[1, 2]", "element 1 is not a JSON object"),
    "one object over several lines": (
        "a.json",
        b'{\n "version": 1,\n "data": [{"x": 1}]\n}',
        "it is one object over several lines: write the list under 'data' alone",
    ),
    "a dict of Python": (
        "a.jsonl",
        b"{'x': 1}\n",
        "its values are written as Python shows them: write them as JSON",
    ),
    "NaN in JSON": (
        "a.jsonl",
        b'{"x": NaN}\n',
        "line 1 is not JSON: NaN is not a number in JSON: write null",
    ),
    "a key twice": ("a.jsonl", b'{"x": 1, "x": 2}\n', "line 1: the key 'x' is there twice"),
    "numbers and texts": (
        "a.jsonl",
        b'{"x": 1}\n{"x": "a"}\n',
        "from line 1 on: the column 'x' holds .*; it should hold one type",
    ),
    "a number of 20 digits": (
        "a.jsonl",
        b'{"x": 18446744073709551616}\n',
        "line 1: the number 18446744073709551616 does not fit",
    ),
    "half a character": ("a.jsonl", b'{"x": "\\ud800"}\n', "line 1 is not JSON"),
    "objects without keys": ("a.jsonl", b"{}\n{}\n", "is not JSON lines: its objects have no keys"),
    # Damage of Parquet and Arrow
    "Parquet that was cut short": (
        "a.parquet",
        _parquet(TABLE)[:-20],
        "is not Parquet: it is damaged or cut short",
    ),
    "only the beginning of Parquet": ("a.parquet", b"PAR1", "is not Parquet: it is damaged or cut short"),
    "Arrow that was cut short": ("a.arrow", _arrow(TABLE)[:200], "is not Arrow: it is damaged or cut short"),
    "a span of time": ("a.parquet", _parquet({"x": pa.array([1], pa.duration("s"))}), _TYPE),
    "a span of time in Arrow": ("a.arrow", _arrow({"x": pa.array([1], pa.duration("s"))}), _TYPE),
    "texts that are marked as JSON": (
        "a.parquet",
        _parquet(pa.table({"x": ["{}", "{bad"]}, _MARKED)),
        "the column 'x' is marked as JSON: a text is not JSON: .* at character 2",
    ),
    "texts of the type JSON": (
        "a.arrow",
        _arrow({"x": pa.ExtensionArray.from_storage(pa.json_(), pa.array(["[NaN]"]))}),
        "the column 'x' is marked as JSON: a text is not JSON: NaN is not a number in JSON",
    ),
    "deep texts that are marked as JSON": (
        "a.parquet",
        _parquet(pa.table({"x": [None, _DEEP]}, _MARKED)),
        "the column 'x' is marked as JSON: a text is nested deeper than 64 levels",
    ),
    "Parquet of another encoding": (
        "a.pq",
        _parquet({"x": pa.array(["Größe".encode("latin-1")]).view(pa.string())}),
        "the column 'x': Invalid UTF8 sequence at string index 0",
    ),
    "texts of another encoding that are marked as JSON": (
        "a.pq",
        _parquet(pa.table({"x": pa.array(['"ö"'.encode("latin-1")]).view(pa.string())}, _MARKED)),
        "the column 'x': Invalid UTF8 sequence at string index 0",
    ),
    "two columns of one name that are marked as JSON": (
        "a.arrow",
        _arrow(pa.Table.from_arrays([pa.array(["1"])] * 2, schema=pa.schema([*_MARKED, *_MARKED]))),
        "the column 'x' is there twice",
    ),
    "two columns of one name in Parquet": ("a.parquet", _parquet(_TWICE), "the column 'x' is there twice"),
}
"""Name of the file, content, and a pattern of the line that says what is wrong."""
