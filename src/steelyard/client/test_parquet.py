"""Datasets of Parquet files: their schema is read from them, and what cannot be evaluated is refused at once."""

import base64
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from steelyard.client import presets
from steelyard.client.conftest import Ask
from steelyard.client.errors import BadFiles, MissingPackage
from steelyard.client.test_files import write
from steelyard.testing.platform import FakePlatform


def parquet(path: Path, *columns: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({name: [1, 2] for name in columns}), path)
    return path


def _twice(path: Path) -> Path:
    path.parent.mkdir(parents=True)
    columns = [pa.array([1, 2])] * 4
    pq.write_table(pa.Table.from_arrays(columns, names=["_index_", "x", "y", "y"]), path)
    return path


def test_a_datasets_schema_is_read_from_its_files(ask: Ask, fake: FakePlatform, tmp_path: Path) -> None:
    one, other = (parquet(tmp_path / name, "_index_", "x") for name in ("a.parquet", "b/c.parquet"))
    write(tmp_path, {"README.md": b"not data"})
    made = ask(fake, lambda client: client.datasets.create_from_folder(tmp_path, account="acme", name="d"))
    assert [artifact.path for artifact in made.artifacts] == ["a.parquet", "b/c.parquet"]
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(made.schema_.arrowSchema)))
    assert schema.names == ["_index_", "x"]
    made = ask(
        fake, lambda client: client.datasets.create_from_parquet(one, str(other), account="acme", name="d")
    )
    assert [artifact.path for artifact in made.artifacts] == ["a.parquet", "c.parquet"]


def test_a_folders_croissant_file_describes_the_dataset(ask: Ask, fake: FakePlatform, tmp_path: Path) -> None:
    parquet(tmp_path / "a.parquet", "_index_", "x")
    write(tmp_path, {"croissant.json": b'{"name": "Rows", "license": "MIT"}'})
    made = ask(fake, lambda client: client.datasets.create_from_folder(tmp_path, account="acme", name="d"))
    assert (made.status, made.metadata.documentation.title) == ("Ready", "Rows")
    assert [artifact.path for artifact in made.artifacts] == ["a.parquet"]
    assert ask(fake, lambda client: client.datasets.croissant(made.id)) == {"name": "Rows", "license": "MIT"}
    answer = ask(fake, lambda client: client.datasets.take_croissant(made.id, {"name": "Others"}))
    assert (answer.taken, answer.leftOut) == (["name"], [])
    for content in (b"{", b"[1]"):
        write(tmp_path, {"croissant.json": content})
        with pytest.raises(BadFiles, match=r"croissant\.json: is not (a )?JSON"):
            ask(fake, lambda client: client.datasets.create_from_folder(tmp_path, account="acme", name="d"))
    for depth in (100, 2_000, 100_000):
        write(tmp_path, {"croissant.json": b'{"a": ' + b"[" * depth + b"]" * depth + b"}"})
        with pytest.raises(BadFiles, match=r"croissant\.json: .*is nested"):
            ask(fake, lambda client: client.datasets.create_from_folder(tmp_path, account="acme", name="d"))


def test_a_schema_that_is_given_is_taken(ask: Ask, fake: FakePlatform, tmp_path: Path) -> None:
    write(tmp_path, {"a.parquet": b"no parquet at all"})
    made = ask(
        fake,
        lambda client: client.datasets.create_from_folder(
            tmp_path, account="acme", name="d", schema={"arrowSchema": "AAAA"}
        ),
    )
    assert made.schema_.arrowSchema == "AAAA"


def test_data_that_cannot_be_evaluated_is_refused(ask: Ask, fake: FakePlatform, tmp_path: Path) -> None:
    folders = {
        "is not a Parquet file": write(tmp_path / "1", {"a.parquet": b"rows"}),
        "there is no .parquet file": write(tmp_path / "2", {"a.csv": b"rows"}),
        "has no column _index_": parquet(tmp_path / "3/a.parquet", "x").parent,
        r"a.parquet: the column 'y' is there twice": _twice(tmp_path / "5/a.parquet").parent,
        r"b.parquet: has other columns \(_index_: int64, y: int64\)": parquet(
            parquet(tmp_path / "4/a.parquet", "_index_", "x").with_name("b.parquet"), "_index_", "y"
        ).parent,
    }
    for said, folder in folders.items():
        with pytest.raises(BadFiles, match=said):
            ask(fake, lambda client: client.datasets.create_from_folder(folder, account="acme", name="d"))  # noqa: B023
    with pytest.raises(BadFiles, match="has the same name"):
        ask(fake, lambda client: client.datasets.create_from_parquet("1/a", "2/a", account="acme", name="d"))
    assert fake.requests == []


@pytest.mark.parametrize("form", ["plain", "list", "dictionary"])
def test_text_that_is_not_utf_8_is_refused(form: str, ask: Ask, fake: FakePlatform, tmp_path: Path) -> None:
    latin = pa.array([b"tea", "café".encode("latin-1")])
    texts: Any = pa.Array.from_buffers(pa.string(), 2, latin.buffers())
    column = {
        "plain": texts,
        "list": pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), texts),
        "dictionary": texts.dictionary_encode(),
    }[form]
    pq.write_table(pa.table({"_index_": [1, 2], "drink": column}), tmp_path / "a.parquet")
    with pytest.raises(BadFiles, match=r"a\.parquet: the column 'drink': .*Invalid UTF8"):
        ask(fake, lambda client: client.datasets.create_from_folder(tmp_path, account="acme", name="d"))


def test_a_schema_goes_as_requests_have_it() -> None:
    schema = pa.schema({"_index_": pa.int64(), "right": pa.int64()})
    sent = base64.b64decode(presets.data_schema(schema).arrowSchema)
    assert pa.ipc.read_schema(pa.py_buffer(sent)).equals(schema)


def test_without_arrow_it_is_said_what_is_missing(
    ask: Ask, fake: FakePlatform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    write(tmp_path, {"a.parquet": b"rows"})
    with pytest.raises(MissingPackage, match=r"pip install 'steelyard\[eval\]'"):
        ask(fake, lambda client: client.datasets.create_from_folder(tmp_path, account="acme", name="d"))
