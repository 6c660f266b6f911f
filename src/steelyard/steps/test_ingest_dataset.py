"""Datasets that are made from the files of data sources."""

import base64
import gzip
import hashlib
import io
import json
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from steelyard.steps.common import Log, StepFailed
from steelyard.steps.ingest_dataset import ingest
from steelyard_evaluation.engine.csv_lines import ROWS
from steelyard_evaluation.engine.rows import to_rows
from steelyard_evaluation.engine.source import open_source
from steelyard_evaluation.storage.checked import DigestMismatch
from steelyard_evaluation.storage.staging import Area, ExpectedFile, finalise
from steelyard_evaluation.storage.store import open_store
from steelyard_schema.resources import DatasetResourceSpec
from steelyard_schema.steps import SourceLimits

LIMITS = SourceLimits()
CSV = b"question,answer,weight,code,right\nhow?,1,0.5,007,true\nwhy?,2,1.0,010,false\n"
Files = dict[str, bytes]


def _parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def _keep(root: Path, files: Files) -> None:
    """Put the files where a data source has them, with its manifest."""
    entries = []
    for name, content in files.items():
        path = root / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        entries.append({"path": name, "size": len(content), "sha256": hashlib.sha256(content).hexdigest()})
    manifest = {"source": {"kind": "zenodo", "record": "7"}, "files": entries}
    (root / "source/.steelyard").mkdir(exist_ok=True)
    (root / "source/.steelyard/manifest.json").write_text(json.dumps(manifest))


async def _ingest(
    root: Path, contents: Files, *, schema: str = "", limits: SourceLimits = LIMITS, **fields: Any
) -> list[dict[str, Any]]:
    """Make a dataset of files, and return its rows."""
    _keep(root, contents)
    await _again(root, schema=schema, limits=limits, **fields)
    return to_rows(pq.read_table(root / "out/data.parquet"))


async def _again(root: Path, *, schema: str = "", limits: SourceLimits = LIMITS, **fields: Any) -> None:
    spec = DatasetResourceSpec.parse(
        {
            "id": "a1",
            "account": "acme",
            "name": "rows",
            "dataSource": "b1",
            "artifacts": [{"kind": "parquet", "path": "data.parquet"}],
            "schema": {"arrowSchema": schema},
            "storage": {"inputs": {"source": f"file://{root}/source"}, "output": f"file://{root}/out"},
            **fields,
        }
    )
    await ingest(spec, Log("t", io.StringIO()), limits)


def _manifest(root: Path) -> Any:
    return json.loads((root / "out/.steelyard/manifest.json").read_bytes())


async def test_a_table_of_csv_has_the_types_that_lose_nothing(tmp_path: Path) -> None:
    rows = await _ingest(tmp_path, {"a.csv": CSV})
    assert rows == [
        {"_index_": 0, "question": "how?", "answer": 1, "weight": 0.5, "code": "007", "right": True},
        {"_index_": 1, "question": "why?", "answer": 2, "weight": 1.0, "code": "010", "right": False},
    ]


async def test_the_rows_of_uploaded_files(tmp_path: Path) -> None:
    files = {"a.csv": CSV, "data/b.jsonl": b'{"question": "who?"}', "croissant.json": b"{}"}
    store, area = open_store(f"file://{tmp_path}"), Area("b1", "0")
    for path, content in files.items():
        await store.put(area.key(path), content)
    await finalise(store, area, [ExpectedFile(path) for path in files], "source")
    await _again(tmp_path)
    rows = pq.read_table(tmp_path / "out/data.parquet").to_pylist()
    assert [row["question"] for row in rows] == ["how?", "why?", "who?"]
    manifest = _manifest(tmp_path)
    assert manifest["source"] == {"kind": "upload"}
    assert {file["path"]: file["sha256"] for file in manifest["inputs"]} == {
        path: hashlib.sha256(files[path]).hexdigest() for path in ("a.csv", "data/b.jsonl")
    }
    assert (tmp_path / "out/.steelyard/source-croissant.json").read_bytes() == b"{}"


@pytest.mark.parametrize(
    ("content", "values"),
    [
        ("x\n1.0\n2.5\n", [1.0, 2.5]),
        ("x\n1\n2.5\n", [1, 2.5]),
        ("x\n3.9\n3.10\n", ["3.9", "3.10"]),
        ("x\n1\nno\n", ["1", "no"]),
        ("x\n1\n\n3\n", [1, 3]),  # a line without anything is none
        ("x,y\n1,a\n,b\n3,c\n", [1, None, 3]),
        ('x\n""\n"a, b"\n', ["", "a, b"]),
        ('x\n"two\nlines"\n', ["two\nlines"]),
        ("x\n2024-01-02\n2024-01-03\n", ["2024-01-02", "2024-01-03"]),
        ("x\ntrue\n1\n", ["true", "1"]),
        ("x\n00\n01\n", ["00", "01"]),
        ("x\n0\n1\n", [0, 1]),
        ("x\n99999999999999999999\n1\n", ["99999999999999999999", "1"]),
        ("x,y\n,a\n,b\n", [None, None]),
        ("\ufeffx\nä\n", ["ä"]),
    ],
)
async def test_values_of_csv(tmp_path: Path, content: str, values: list[Any]) -> None:
    rows = await _ingest(tmp_path, {"a.csv": content.encode()})
    assert [row["x"] for row in rows] == values


async def test_a_type_that_only_the_last_rows_show_is_the_columns(tmp_path: Path) -> None:
    lines = "".join(f"{number},{'-' * 1000}\n" for number in range(6_000))
    assert lines.count("\n") > ROWS
    rows = await _ingest(tmp_path, {"a.csv": f"x,y\n{lines}end,-\n".encode()})
    assert (rows[0]["x"], rows[-1]["x"], len(rows)) == ("0", "end", 6_001)


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.json.gz", "a.csv"])
async def test_the_mark_of_utf_8_at_the_beginning_is_no_part_of_the_text(tmp_path: Path, name: str) -> None:
    text = {"jsonl": ' {"x": 1}\n', "json": ' [{"x": 1}]', "csv": "x\n1\n"}[name.split(".")[1]]
    content = ("\ufeff" + text).encode()
    files = {name: gzip.compress(content) if name.endswith(".gz") else content}
    assert await _ingest(tmp_path, files) == [{"_index_": 0, "x": 1}]


async def test_texts_of_another_file_stay_texts_beside_values_of_many_types(tmp_path: Path) -> None:
    files = {"a.jsonl": b'{"n": 1}\n{"n": [2.5]}\n', "b.parquet": _parquet(pa.table({"n": ["3", None]}))}
    assert [row["n"] for row in await _ingest(tmp_path, files)] == [1, [2.5], "3", None]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("1", "0.5", id="numbers"),
        pytest.param("[1, 2]", "[0.5]", id="lists"),
        pytest.param("[[1], []]", "[[0.5]]", id="lists of lists"),
        pytest.param("[18446744073709551615]", "[0.5]", id="lists of the longest numbers"),
        pytest.param('{"a": 1}', '{"a": 0.5}', id="objects"),
        pytest.param('[{"a": [1]}]', '[{"a": [0.5]}]', id="lists of objects"),
    ],
)
async def test_whole_numbers_stay_so_beside_fractions_of_another_file(
    tmp_path: Path, one: str, other: str
) -> None:
    files = {"a.jsonl": f'{{"n": {one}}}\n'.encode(), "b.jsonl": f'{{"n": {other}}}\n'.encode()}
    assert [json.dumps(row["n"]) for row in await _ingest(tmp_path, files)] == [one, other]


async def test_lists_of_one_type_of_numbers_stay_lists(tmp_path: Path) -> None:
    files = {"a.jsonl": b'{"n": [1]}\n', "b.jsonl": b'{"n": []}\n', "c.jsonl": b'{"n": [2]}\n'}
    assert [row["n"] for row in await _ingest(tmp_path, files)] == [[1], [], [2]]
    assert pq.read_schema(tmp_path / "out/data.parquet").field("n").type == pa.list_(pa.int64())


async def test_numbers_of_several_types_have_the_type_that_a_schema_names(tmp_path: Path) -> None:
    schema = base64.b64encode(pa.schema([("n", pa.float64())]).serialize()).decode()
    rows = await _ingest(tmp_path, {"a.jsonl": b'{"n": 1}\n{"n": 2.5}\n'}, schema=schema)
    assert orjson.dumps([row["n"] for row in rows]) == b"[1.0,2.5]"


async def test_lines_of_json_keep_their_objects_and_lists(tmp_path: Path) -> None:
    content = b'{"q": "a", "more": {"x": [1, 2]}}\n\n{"q": "b", "n": 2.5}\n{"n": 1}\n'
    assert await _ingest(tmp_path, {"a.jsonl": content}) == [
        {"_index_": 0, "q": "a", "more": {"x": [1, 2]}, "n": None},
        {"_index_": 1, "q": "b", "more": None, "n": 2.5},
        {"_index_": 2, "q": None, "more": None, "n": 1},
    ]


async def test_an_array_of_json_is_its_objects(tmp_path: Path) -> None:
    assert await _ingest(tmp_path, {"a.json": b'[{"q": 1}, {"q": 2}]'}) == [
        {"_index_": 0, "q": 1},
        {"_index_": 1, "q": 2},
    ]


async def test_parquet_keeps_its_types_and_its_row_numbers(tmp_path: Path) -> None:
    table = pa.table({"_index_": pa.array([7, 3], pa.int32()), "x": pa.array([b"\0", b"\1"])})
    assert await _ingest(tmp_path, {"a.parquet": _parquet(table)}) == [
        {"_index_": 7, "x": b"\0"},
        {"_index_": 3, "x": b"\1"},
    ]


async def test_files_follow_each_other_in_the_order_of_their_names(tmp_path: Path) -> None:
    files = {
        "b.jsonl.gz": gzip.compress(b'{"x": 3, "y": "new"}\n'),
        "a.csv": b"x\n1\n2\n",
        "c.tsv": b"x\ty\n4\tz\n",
        "README.md": b"no table",
    }
    rows = await _ingest(tmp_path, files)
    assert rows == [
        {"_index_": 0, "x": 1, "y": None},
        {"_index_": 1, "x": 2, "y": None},
        {"_index_": 2, "x": 3, "y": "new"},
        {"_index_": 3, "x": 4, "y": "z"},
    ]


async def test_an_evaluation_reads_what_was_made(tmp_path: Path) -> None:
    await _ingest(tmp_path, {"a.csv": CSV})
    source = await open_source(open_store(f"file://{tmp_path}/out"))
    assert (source.rows, [batch.tolist() for batch in source.indexes()]) == (2, [[0, 1]])


async def test_the_manifest_names_origin_inputs_and_digests(tmp_path: Path) -> None:
    await _ingest(tmp_path, {"a.csv": CSV, "README.md": b"#"})
    manifest, content = _manifest(tmp_path), (tmp_path / "out/data.parquet").read_bytes()
    assert (manifest["dataSource"], manifest["rows"]) == ("b1", 2)
    assert manifest["source"] == {"kind": "zenodo", "record": "7"}
    assert manifest["inputs"] == [
        {"path": "a.csv", "size": len(CSV), "sha256": hashlib.sha256(CSV).hexdigest()}
    ]
    (file,) = manifest["files"]
    assert file == {
        "path": "data.parquet",
        "size": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "md5": hashlib.md5(content).hexdigest(),
    }
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(manifest["arrowSchema"])))
    assert schema.names == ["_index_", "question", "answer", "weight", "code", "right"]


async def test_a_description_that_the_source_holds_is_kept_as_it_is(tmp_path: Path) -> None:
    files = {"a.csv": CSV, "deep/croissant.json": b"deep", "croissant.json": b'{"name": "rows"}'}
    await _ingest(tmp_path, files, files=["*.csv"])
    assert (tmp_path / "out/.steelyard/source-croissant.json").read_bytes() == b'{"name": "rows"}'


async def test_without_one_the_description_of_the_hub_is_kept(tmp_path: Path) -> None:
    _keep(tmp_path, {"a.csv": CSV})
    (tmp_path / "source/.steelyard/source-croissant.json").write_bytes(b'{"name": "hub"}')
    await _again(tmp_path)
    assert (tmp_path / "out/.steelyard/source-croissant.json").read_bytes() == b'{"name": "hub"}'


async def test_a_croissant_file_is_no_table(tmp_path: Path) -> None:
    assert (
        len(await _ingest(tmp_path, {"a.jsonl": b'{"x": 1}\n', "croissant.json": b'{"name": "rows"}'})) == 1
    )


async def test_another_attempt_continues_and_a_third_changes_nothing(tmp_path: Path) -> None:
    await _ingest(tmp_path, {"a.csv": CSV})
    manifest = tmp_path / "out/.steelyard/manifest.json"
    first = manifest.read_bytes()
    manifest.unlink()  # the first attempt was killed between the rows and the manifest
    await _again(tmp_path)
    assert manifest.read_bytes() == first
    (tmp_path / "source/a.csv").unlink()
    await _again(tmp_path)
    assert manifest.read_bytes() == first


async def test_a_schema_that_is_given_is_the_rows_own(tmp_path: Path) -> None:
    schema = _of(("answer", pa.float64()), ("question", pa.string()))
    assert await _ingest(tmp_path, {"a.csv": CSV}, schema=schema) == [
        {"_index_": 0, "answer": 1.0, "question": "how?"},
        {"_index_": 1, "answer": 2.0, "question": "why?"},
    ]


def _of(*fields: tuple[str, Any]) -> str:
    schema = pa.schema([pa.field(name, kind) for name, kind in fields])
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


@pytest.mark.parametrize(
    ("files", "fields", "message"),
    [
        ({"a.txt": b"x"}, {}, "no file of the data source is a table"),
        ({"a.csv": CSV}, {"files": ["*.jsonl"]}, r"no file of the data source matches \*\.jsonl"),
        ({"a.txt": b"x"}, {"files": ["*"]}, "a.txt: is not a table"),
        ({"a.csv": b"x\n"}, {}, "the files hold no rows"),
        ({"a.csv": b""}, {}, "a.csv: is not CSV: it is empty"),
        ({"a.csv": b"x,x\n1,2\n"}, {}, "the column 'x' is there twice"),
        ({"a.csv": b"x\n1,2\n"}, {}, "a.csv: line 2 has 2 values, but the first line names 1 column"),
        ({"a.csv": b"x\n\xff\n"}, {}, "a.csv: its text is not UTF-8; it looks like Latin-1"),
        ({"a.csv.gz": b"x\n1\n"}, {}, "a.csv.gz: is not compressed by gzip"),
        ({"a.jsonl": b'{"x": 1}\n{"x": \n'}, {}, "line 2 is not JSON"),
        ({"a.jsonl": b"[1]\n"}, {}, "element 1 is not a JSON object"),
        ({"a.jsonl": b'{"x": 1}\n\n2\n'}, {}, "line 3 is not a JSON object"),
        ({"a.csv": b"x\nt\n", "b.jsonl": b'{"x": [1]}\n'}, {}, "the column 'x' has the types"),
        ({"a.jsonl": b'{"x": 1}\n{"x": "a"}\n'}, {}, "from line 1 on"),
        ({"a.jsonl": b'{"x": 1, "x": 2}\n'}, {}, "line 1: the key 'x' is there twice"),
        ({"a.json": b'[{"x": 1}, {"x": 1, "x": 2}]'}, {}, "it: the key 'x' is there twice"),
        (
            {"a.jsonl": b'{"x": 18446744073709551616}\n'},
            {},
            "line 1: the number 18446744073709551616 does not fit",
        ),
        (
            {"a.json": b'[{"x": {"y": 18446744073709551616}}]'},
            {},
            "it: the number 18446744073709551616 does not",
        ),
        ({"a.parquet": b"PAR1"}, {}, "it is damaged or cut short"),
        ({"a.csv": b"x\n1\n", "b.jsonl": b'{"x": "a"}\n'}, {}, "the column 'x' has the types"),
        ({"a.csv": b"_index_,x\n1,a\n1,b\n"}, {}, "two rows have the number 1"),
        ({"a.csv": b"_index_,x\n1,a\n,b\n"}, {}, "_index_ must hold a whole number"),
        ({"a.csv": b"_index_,x\n1,a\n-1,b\n"}, {}, "from 0 in every row, not -1"),
        ({"a.csv": b"_index_,x\n1,a\n1.5,b\n"}, {}, "from 0 in every row, not 1.5"),
        ({"a.csv": b"_index_,x\n1,a\ntwo,b\n"}, {}, "from 0 in every row, not two"),
        ({"a.jsonl": b'{"_index_": 1}\n{"_index_": 2.5}\n'}, {}, "from 0 in every row, not 2.5"),
        ({"a.csv": CSV}, {"schema": "AAAA"}, "is not an Arrow schema"),
        ({"a.csv": CSV}, {"schema": _of(("z", pa.string()))}, "the files have no column z"),
        ({"a.csv": CSV}, {"schema": _of(("question", pa.int64()))}, "column question cannot become int64"),
        ({"a.csv": CSV}, {"limits": SourceLimits(bytes=10)}, "more than the 10 bytes"),
    ],
)
async def test_what_is_no_dataset_is_reported(
    tmp_path: Path, files: Files, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(StepFailed, match=message) as failure:
        await _ingest(tmp_path, files, **fields)
    assert (failure.value.code, failure.value.permanent) == ("IngestFailed", True)
    assert not (tmp_path / "out/.steelyard/manifest.json").exists()


async def test_a_file_that_changed_since_it_was_fetched_is_refused(tmp_path: Path) -> None:
    _keep(tmp_path, {"a.csv": CSV})
    (tmp_path / "source/a.csv").write_bytes(CSV + b"more,3,1,1,true\n")
    with pytest.raises(DigestMismatch, match="is not what was kept: its SHA-256"):
        await _again(tmp_path)


@pytest.mark.parametrize("gone", ["a.csv", ".steelyard/manifest.json"])
async def test_files_that_are_not_there_any_more_are_reported(tmp_path: Path, gone: str) -> None:
    _keep(tmp_path, {"a.csv": CSV})
    (tmp_path / "source" / gone).unlink()
    with pytest.raises(StepFailed) as failure:
        await _again(tmp_path)
    assert (failure.value.code, failure.value.permanent) == ("DataSourceMissing", True)
