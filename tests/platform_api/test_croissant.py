"""Descriptions of datasets in Croissant: written, read by mlcroissant, and taken from files of others."""

import base64
import hashlib
import json
import warnings
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from steelyard_common.types import Json
from steelyard_schema.names import CROISSANT, SOURCE_CROISSANT
from tests.platform_api.memory_platform import MemoryPlatform, dataset, grant, md5

ROWS = pa.table(
    {
        "_index_": pa.array([0, 1], pa.int64()),
        "question": ["how?", "why?"],
        "weight": [0.5, 1.0],
        "right": [True, False],
        "choices": pa.array([["a", "b"], ["c"]]),
        "more": pa.array([{"source": "x", "year": 2020}, {"source": "y", "year": 2021}]),
        "asked": pa.array([0, 1], pa.date32()),
        "answered": pa.array([0, 1], pa.timestamp("us")),
        "objects": pa.array([[{"a": 1}], []]),
    }
)
FACTS: Json = {
    "@context": {"@vocab": "https://schema.org/", "sc": "https://schema.org/"},
    "@type": "sc:Dataset",
    "conformsTo": "http://mlcommons.org/croissant/1.0",
    "name": "Questions",
    "description": "Questions that people ask.",
    "license": ["https://spdx.org/licenses/CC-BY-4.0"],
    "citeAs": "@misc{questions, title={Questions}}",
    "url": "https://example.org/questions",
    "version": "2.1.0",
    "datePublished": "2024-05-06",
    "creator": [{"@type": "Person", "name": "A. Asker"}, {"@type": "Organization", "name": "The Askers"}],
    "keywords": ["questions", "people"],
    "isLiveDataset": False,
    "rai:dataCollection": "by hand",
    "recordSet": [
        {
            "@type": "cr:RecordSet",
            "@id": "r",
            "field": [
                {
                    "@type": "cr:Field",
                    "@id": "r/question",
                    "name": "r/question",
                    "description": "What was asked.",
                    "source": {"extract": {"column": "question"}},
                },
                {"@type": "cr:Field", "@id": "r/colour", "name": "colour", "description": "No column."},
            ],
        }
    ],
}


def parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return bytes(sink.getvalue())


async def uploaded(platform: MemoryPlatform, files: dict[str, bytes], table: pa.Table = ROWS) -> Json:
    schema = {"arrowSchema": base64.b64encode(table.schema.serialize().to_pybytes()).decode()}
    made = await platform.created("datasets", **{**dataset(files), "schema": schema})
    for path, content in files.items():
        link = (await platform.admin.get(f"/datasets/{made['id']}/upload/{path}")).json()
        headers = {**link["headers"], "content-md5": md5(content)}
        assert (await platform.admin.put(link["url"], content=content, headers=headers)).status_code == 200
    assert (await platform.admin.post(f"/datasets/{made['id']}/finalize")).status_code == 200
    return made


async def described(platform: MemoryPlatform, made: Json) -> Json:
    response = await platform.admin.get(f"/datasets/{made['id']}/croissant")
    assert response.status_code == 200, response.text
    answer: Json = response.json()
    return answer


async def take(platform: MemoryPlatform, made: Json, content: Json | None) -> httpx.Response:
    body = {} if content is None else {"croissant": content}
    return await platform.admin.put(f"/datasets/{made['id']}/croissant", json=body)


def records(folder: Path, files: dict[str, bytes], document: Json) -> tuple[list[Any], Any]:
    """Return what mlcroissant reads of a document that stands beside the files, and the metadata that it checked."""
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    (folder / "croissant.json").write_text(json.dumps(document))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import mlcroissant  # slow, also for a worker that collects this file and runs others

        read = mlcroissant.Dataset(jsonld=str(folder / "croissant.json"))
        return list(read.records("rows")), read.metadata


async def test_mlcroissant_reads_the_rows_of_what_is_written(
    platform: MemoryPlatform, tmp_path: Path
) -> None:
    files = {"data.parquet": parquet(ROWS)}
    document = await described(platform, await uploaded(platform, files))
    assert document["distribution"][0]["sha256"] == hashlib.sha256(files["data.parquet"]).hexdigest()
    rows, metadata = records(tmp_path, files, document)
    assert not metadata.ctx.issues.errors
    assert metadata.ctx.conforms_to.value == "http://mlcommons.org/croissant/1.0"
    first = rows[0]
    assert [first[f"rows/{name}"] for name in ("_index_", "question", "weight", "right")] == [
        0,
        b"how?",
        0.5,
        True,
    ]
    assert list(first["rows/choices"]) == [b"a", b"b"]
    assert first["rows/more"] == {"rows/more/source": b"x", "rows/more/year": 2020}
    assert (first["rows/asked"].isoformat(), len(rows)) == ("1970-01-01T00:00:00", 2)
    assert "rows/objects" not in first, "Croissant 1.0 has no word for lists of objects"
    left_out = document["recordSet"][0]["description"]
    assert left_out == "Not described, for want of a type: objects (list<item: struct<a: int64>>)."


NAMES = [
    *("a b", " a", "a\tb", "a\nb", "a/b", "a.b", "a,b", "a:b", "a|b", "a\\b", "a%20b", "a#b", "a?b", "<a>"),
    *("{a}", "[a]"),
    *("'a'", '"a"', "'\"", "`a`", "ä", "日本", "😀", "\x07", "\x1b[2J", "\u202e", "@id"),
    *("@type", "name", "rows", "files", "_:b"),
    *("http://x/y", "cr:field", "data.parquet", "x" * 3000, "a_b", "$", "*", "more", "more/source", "where"),
]  # fmt: skip
FILES_OF_NAMES = [
    *(
        "a b.parquet",
        "a-b.parquet",
        "a.b (1).parquet",
        "a'b.parquet",
        "ä.parquet",
        "日本.parquet",
        "@id.parquet",
    ),
    *(
        "x/y z.parquet",
        "rows.parquet",
        "files.parquet",
        "rows/question.parquet",
        "a,b.parquet",
        "a+b.parquet",
    ),
]
VALUES: dict[str, Any] = {
    "decimal": pa.array([Decimal("1.10"), None]),
    "half": pa.array([1.5, None], pa.float16()),
    "long": pa.array([2**64 - 1, None], pa.uint64()),
    "time": pa.array([1_000_000, None], pa.time64("us")),
    "zone": pa.array([1, None], pa.timestamp("ms", "UTC")),
    "bytes": pa.array([b"\xff", None]),
    "fixed": pa.array([b"ab", None], pa.binary(2)),
    "lists": pa.array([[[1]], None]),
    "decimals": pa.array([[Decimal("1.1")], None]),
    "pair": pa.array([[1, 2], [3, 4]], pa.list_(pa.int32(), 2)),
    "named": pa.array(["a", None]).dictionary_encode(),
    "nothing": pa.nulls(2),
}
WORDLESS: dict[str, Any] = {
    "": pa.array([1, 2]),
    "spans": pa.array([1, 2], pa.duration("s")),
    "map": pa.array([[("a", 1.0)], None], pa.map_(pa.string(), pa.float64())),
    "objects": pa.array([[{"a": 1}], None]),
    "deep": pa.array([{"a": {"b": 1}, "c": 1}, None]),
}


async def test_columns_and_files_may_have_any_name(platform: MemoryPlatform, tmp_path: Path) -> None:
    parts = {name: number for number, name in enumerate(NAMES)}
    table = pa.table({"_index_": [0], **{name: [number] for name, number in parts.items()}, "parts": [parts]})
    files = {name: parquet(table) for name in FILES_OF_NAMES}
    document = await described(platform, await uploaded(platform, files, table))
    rows, metadata = records(tmp_path, files, document)
    assert not metadata.ctx.issues.errors
    assert len(rows) == len(files)
    columns = {field["name"]: field["@id"] for field in document["recordSet"][0]["field"]}
    assert [rows[0][columns[name]] for name in NAMES] == list(parts.values())
    assert sorted(rows[0]["rows/parts"].values()) == [n for name, n in parts.items() if name != "*"]
    assert document["recordSet"][0]["description"] == "Not described, for want of a type: parts.* (int64)."


async def test_no_column_is_left_out_in_silence(platform: MemoryPlatform, tmp_path: Path) -> None:
    table = pa.table({"_index_": [0, 1], **VALUES, **WORDLESS})
    files = {"data.parquet": parquet(table)}
    document = await described(platform, await uploaded(platform, files, table))
    rows, _ = records(tmp_path, files, document)
    assert set(rows[0]) == {f"rows/{name}" for name in ("_index_", *VALUES, "deep")}
    assert (rows[0]["rows/decimal"], rows[0]["rows/bytes"], rows[0]["rows/lists"]) == (1.1, b"\xff", [[1]])
    said = document["recordSet"][0]["description"]
    for name in ("a column without a name", "spans", "map", "objects", "deep.a"):
        assert f"{name} (" in said


async def test_the_description_of_a_column_with_a_slash_is_taken(platform: MemoryPlatform) -> None:
    table = pa.table({"_index_": [0], "a/b": [1], "c/d": [{"e": 1}]})
    made = await uploaded(platform, {"data.parquet": parquet(table)}, table)
    fields: list[Json] = [
        {"name": "a/b", "source": {"extract": {"column": "a/b"}}},
        {"name": "c/d"},
        {"name": "rows/a/b"},
    ]
    described_fields = [{**field, "description": "What it is."} for field in fields]
    answer = await take(platform, made, {**FACTS, "recordSet": [{"field": described_fields}]})
    assert "recordSet: b: the dataset has no such column" in answer.json()["leftOut"]
    written = (await described(platform, made))["recordSet"][0]["field"]
    assert [field.get("description") for field in written[1:]] == ["What it is."] * 2


async def test_several_files_are_one_set_of_records(platform: MemoryPlatform, tmp_path: Path) -> None:
    files = {"a.parquet": parquet(ROWS), "more/b.parquet": parquet(ROWS), "README.md": b"#"}
    rows, _ = records(tmp_path, files, await described(platform, await uploaded(platform, files)))
    assert len(rows) == 4


async def test_a_files_facts_become_the_documentation_and_come_back(
    platform: MemoryPlatform, tmp_path: Path
) -> None:
    files = {"data.parquet": parquet(ROWS)}
    made = await uploaded(platform, files)
    answer = (await take(platform, made, FACTS)).json()
    assert set(answer["taken"]) == {
        "name", "description", "license", "citeAs", "url", "version", "datePublished", "creator", "keywords", "fields",
    }  # fmt: skip
    assert answer["leftOut"] == [
        "recordSet: colour: the dataset has no such column",
        "isLiveDataset: is not a part that is kept",
        "rai:dataCollection: is not a part that is kept",
    ]
    text = (await platform.admin.get(f"/datasets/{made['id']}/documentation")).json()
    assert (text["title"], text["summary"]) == ("Questions", "Questions that people ask.")
    for word in ("CC-BY-4.0", "@misc{questions", "A. Asker, The Askers", "`question`: What was asked."):
        assert word in text["fullPage"]
    document = await described(platform, made)
    for name in ("name", "description", "license", "citeAs", "url", "version", "datePublished", "keywords"):
        assert document[name] == FACTS[name]
    (question,) = (field for field in document["recordSet"][0]["field"] if field["name"] == "question")
    assert question["description"] == "What was asked."
    rows, metadata = records(tmp_path, files, document)
    assert (len(rows), not metadata.ctx.issues.errors) == (2, True)


async def test_an_answer_names_few_of_the_parts_that_are_left_out(platform: MemoryPlatform) -> None:
    """A part of three bytes is said in forty."""
    made = await uploaded(platform, {"data.parquet": parquet(ROWS)})
    strange = {**FACTS, "recordSet": {"field": [{"name": "n" * 9000}, *[{}] * 100_000]}}
    left_out = (await take(platform, made, strange)).json()["leftOut"]
    assert (len(left_out), left_out[-1]) == (101, "99903 more parts")
    assert max(map(len, left_out)) == 300


async def test_what_is_written_is_taken_again(platform: MemoryPlatform) -> None:
    first, second = [await uploaded(platform, {"data.parquet": parquet(ROWS)}) for _ in range(2)]
    await take(platform, first, FACTS)
    answer = (await take(platform, second, await described(platform, first))).json()
    assert answer["leftOut"] == [
        f"{name}: is not a part that is kept" for name in ("identifier", "dateCreated")
    ]
    both = await described(platform, first), await described(platform, second)
    assert all(
        both[0][name] == both[1][name] for name in both[0] if name not in {"identifier", "dateCreated"}
    )


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"@type": "sc:Book"}, "croissant.@type"),
        ({"conformsTo": "http://mlcommons.org/croissant/0.8"}, "croissant.conformsTo"),
        ({"conformsTo": None}, "croissant.conformsTo"),
        ({"name": None}, "croissant.name"),
        ({"name": "n" * 1001}, "croissant.name"),
        ({"version": "1" * 201}, "croissant.version"),
        ({"license": ["x"] * 21}, "croissant.license"),
        (
            {"distribution": [{"@type": "cr:FileObject", "contentUrl": "data.parquet", "sha256": "0" * 64}]},
            "croissant.distribution",
        ),
    ],
)
async def test_a_file_that_is_none_or_another_datasets_is_refused(
    platform: MemoryPlatform, change: Json, field: str
) -> None:
    made = await uploaded(platform, {"data.parquet": parquet(ROWS)})
    content = {name: value for name, value in {**FACTS, **change}.items() if value is not None}
    response = await take(platform, made, content)
    assert (response.status_code, response.json()["field"]) == (422, field), response.text
    folder = f"datasets/{made['id']}"
    assert [
        info.key async for info in platform.engines.store.list(folder) if info.key.endswith(CROISSANT)
    ] == []


@pytest.mark.parametrize("content", ["text", [1], 5])
async def test_what_is_no_object_is_refused(platform: MemoryPlatform, content: object) -> None:
    made = await uploaded(platform, {"data.parquet": parquet(ROWS)})
    response = await platform.admin.put(f"/datasets/{made['id']}/croissant", json={"croissant": content})
    assert response.status_code == 422


async def test_values_that_are_strange_are_left_out_and_hurt_nothing(platform: MemoryPlatform) -> None:
    made = await uploaded(platform, {"data.parquet": parquet(ROWS)})
    strange = {
        "description": {"@value": "In English.", "@language": "en"},
        "license": {"@type": "CreativeWork", "name": "MIT"},
        "creator": 7,
        "citeAs": {"deep": [{}]},
        "recordSet": {"field": ["x", {"name": 5}]},
        "distribution": "files",
        "keywords": [None, {"name": "a"}],
    }
    answer = (await take(platform, made, {**FACTS, **strange})).json()
    assert "citeAs: is not text" in answer["leftOut"]
    document = await described(platform, made)
    assert (document["description"], document["license"]) == ("In English.", ["MIT"])
    assert (document["creator"], document["keywords"]) == ([{"@type": "Person", "name": "7"}], ["a"])


async def test_the_file_of_a_data_source_is_taken_when_it_is_asked_for(platform: MemoryPlatform) -> None:
    made = await uploaded(platform, {"data.parquet": parquet(ROWS)})
    response = await take(platform, made, None)
    assert (response.status_code, response.json()["field"]) == (409, "croissant")
    key = f"datasets/{made['id']}/{SOURCE_CROISSANT}"
    await platform.engines.store.put(key, json.dumps(FACTS).encode())
    assert "license" in (await take(platform, made, None)).json()["taken"]
    await platform.engines.store.put(key, b"no json")
    assert (await take(platform, made, None)).status_code == 422


@pytest.mark.parametrize(
    "license",
    ["[" * 1000 + "]" * 1000, r'"a\u0000b"', r'"\ud800"'],
    ids=["nested deeply", "a NUL", "half a surrogate pair"],
)
async def test_a_data_sources_file_that_no_request_can_hold_is_refused(
    platform: MemoryPlatform, license: str
) -> None:
    made = await uploaded(platform, {"data.parquet": parquet(ROWS)})
    content = (
        f'{{"@type": "Dataset", "conformsTo": "{FACTS["conformsTo"]}", "name": "x", "license": {license}}}'
    )
    await platform.engines.store.put(f"datasets/{made['id']}/{SOURCE_CROISSANT}", content.encode())
    response = await take(platform, made, None)
    assert (response.status_code, response.json()["field"]) == (422, "croissant"), response.text
    text = (await platform.admin.get(f"/datasets/{made['id']}/documentation")).json()
    assert text.get("fullPage") is None


async def test_an_edit_that_is_refused_keeps_nothing_of_the_file(platform: MemoryPlatform) -> None:
    made = await uploaded(platform, {"data.parquet": parquet(ROWS)})
    stale = {"If-Match": made["metadata"]["revision"]}
    path = f"/datasets/{made['id']}/croissant"
    refused = await platform.admin.put(path, json={"croissant": FACTS}, headers=stale)
    assert refused.status_code == 409, refused.text
    assert (await described(platform, made))["name"] == "digits"


async def test_what_is_not_ready_is_not_described(platform: MemoryPlatform) -> None:
    made = await platform.created("datasets", **dataset())
    path = f"/datasets/{made['id']}/croissant"
    early = await platform.admin.get(path)
    assert (early.status_code, early.json()["detail"].rpartition(": ")[2]) == (
        409,
        "its files are not final before it is Ready",
    )
    await platform.says("Dataset", made["id"], "Error", "reaper", reason="Expired")
    for late in (
        await platform.admin.get(path),
        await platform.admin.get(f"/datasets/{made['id']}/downlinks"),
    ):
        assert late.json()["detail"].endswith("is Error (Expired): it has no files to download")
    uploading = await platform.admin.get(f"/datasets/{made['id']}/upload/data.parquet")
    assert uploading.json()["detail"].endswith("is Error (Expired) and takes no more files")


async def test_a_schema_that_is_none_gives_no_records(platform: MemoryPlatform) -> None:
    made = await platform.created("datasets", **dataset({"data.parquet": b"rows"}))
    link = (await platform.admin.get(f"/datasets/{made['id']}/upload/data.parquet")).json()
    await platform.admin.put(link["url"], content=b"rows", headers=link["headers"])
    await platform.admin.post(f"/datasets/{made['id']}/finalize")
    document = await described(platform, made)
    assert "recordSet" not in document
    assert len(document["distribution"]) == 1


async def test_a_description_is_changed_by_who_may_edit(platform: MemoryPlatform) -> None:
    made = await uploaded(platform, {"data.parquet": parquet(ROWS)})
    reader = await platform.holder(grant("datasets", ["get", "data"], ["acme"]))
    assert (await reader.get(f"/datasets/{made['id']}/croissant")).status_code == 200
    response = await reader.put(f"/datasets/{made['id']}/croissant", json={"croissant": FACTS})
    assert response.status_code == 403
