"""Data sources, and the datasets that are made from them, as the API makes and refuses them."""

import json

import pytest

from steelyard_common.types import Json
from steelyard_schema.names import MANIFEST
from tests.platform_api.memory_platform import SCHEMA, MemoryPlatform, data_source, dataset, uploaded_source
from tests.platform_api.test_uploads import link_of, put, uploaded


def notes(entity: Json) -> dict[str, str]:
    return {note["key"]: note["value"] for note in entity.get("annotations", [])}


async def test_a_dataset_names_its_source_and_what_it_takes_of_it(platform: MemoryPlatform) -> None:
    source = await platform.created("datasources", **data_source(files=["data/*.csv"]))
    assert json.loads(notes(source)["steelyard/files"]) == ["data/*.csv"]
    made = await platform.created("datasets", name="rows", dataSource=source["id"], files=["data/test.csv"])
    assert made["status"] == "Created"
    assert notes(made)["steelyard/data-source"] == source["id"]
    assert notes(made)["steelyard/name-dataSource"] == "rows"
    assert json.loads(notes(made)["steelyard/files"]) == ["data/test.csv"]
    assert (made["artifacts"], made["schema"]) == (
        [{"kind": "parquet", "path": "data.parquet", "digest": {}}],
        {"arrowSchema": ""},
    )
    with_schema = await platform.created("datasets", name="rows", dataSource=source["id"], schema=SCHEMA)
    assert with_schema["schema"] == SCHEMA


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"sourceKind": "ftp"}, "sourceKind"),
        ({"sourceKind": "upload"}, "source: should not be there if sourceKind is upload"),
        ({"source": None}, "source: is missing"),
        ({"source": "../etc/passwd"}, "OWNER/NAME"),
        ({"source": "org/rows@../x"}, "OWNER/NAME"),
        ({"source": "https://user:word@huggingface.co/datasets/org/rows"}, "without a user"),
        ({"source": "https://huggingface.co/datasets/org/rows?x=1"}, "a query"),
        ({"sourceKind": "zenodo", "source": "org/rows"}, "number, the DOI or the URL"),
        ({"sourceKind": "zenodo", "source": "https://example.org/records/7"}, "egress.sources"),
        ({"sourceKind": "zenodo", "source": "http://zenodo.org/records/7"}, "egress.sources"),
        ({"sourceKind": "zenodo", "source": "https://127.0.0.1/records/7"}, "egress.sources"),
    ],
)
async def test_a_source_that_cannot_be_fetched_is_refused(
    platform: MemoryPlatform, fields: Json, word: str
) -> None:
    request = {key: value for key, value in data_source(**fields).items() if value is not None}
    response = await platform.admin.post("/datasources", json={"account": "acme", **request})
    assert response.status_code == 422, response.text
    assert word in response.json()["detail"]
    assert response.json()["field"] == ("sourceKind" if word == "sourceKind" else "source")


@pytest.mark.parametrize(
    "fields",
    [
        {"sourceKind": "huggingface", "source": "squad"},
        {"sourceKind": "huggingface", "source": "org/rows@refs/convert/parquet"},
        {"sourceKind": "huggingface", "source": "hf://datasets/org/rows"},
        {"sourceKind": "huggingface", "source": "https://huggingface.co/datasets/org/rows/tree/v1.0"},
        {"sourceKind": "zenodo", "source": "7002"},
        {"sourceKind": "zenodo", "source": "10.5281/zenodo.7002"},
        {"sourceKind": "zenodo", "source": "https://doi.org/10.5281/zenodo.7002"},
        {"sourceKind": "zenodo", "source": "https://zenodo.org/records/7002"},
    ],
)
async def test_the_forms_of_an_address(platform: MemoryPlatform, fields: Json) -> None:
    made = await platform.created("datasources", **data_source(**fields))
    assert made["source"] == fields["source"]


async def test_a_dataset_has_files_or_a_source(platform: MemoryPlatform) -> None:
    source = await platform.created("datasources", **data_source())
    refused = [
        ({"name": "d"}, "artifacts"),
        ({"name": "d", "artifacts": dataset()["artifacts"]}, "schema: is missing"),
        (
            {**dataset(), "dataSource": source["id"]},
            "artifacts: should list the files to upload, and be empty",
        ),
        ({**dataset(), "files": ["*.csv"]}, "files: should be given together with dataSource"),
        ({"name": "d", "dataSource": "0" * 32}, "dataSource: there is no DataSource"),
        ({"name": "d", "dataSource": "x"}, "dataSource"),
    ]
    for fields, word in refused:
        response = await platform.admin.post("/datasets", json={"account": "acme", **fields})
        assert response.status_code == 422, response.text
        assert word in response.json()["detail"]


async def test_a_source_that_failed_makes_no_dataset(platform: MemoryPlatform) -> None:
    source = await platform.created("datasources", **data_source())
    await platform.admin.put(f"/datasources/{source['id']}/terminate")
    request = {"account": "acme", "name": "d", "dataSource": source["id"]}
    response = await platform.admin.post("/datasets", json=request)
    assert response.status_code == 422
    assert "is Terminated" in response.json()["detail"]


async def test_a_deletion_of_a_source_names_its_datasets(platform: MemoryPlatform) -> None:
    source = await platform.created("datasources", **data_source())
    made = await platform.created("datasets", name="d", dataSource=source["id"])
    answer = (await platform.admin.put(f"/datasources/{source['id']}/delete")).json()
    assert "used by 1 dataset" in answer["message"]
    assert made["id"] in answer["message"]


async def test_nothing_is_uploaded_to_a_dataset_of_a_source(platform: MemoryPlatform) -> None:
    source = await platform.created("datasources", **data_source())
    made = await platform.created("datasets", name="d", dataSource=source["id"])
    uplink = await platform.admin.get(f"/datasets/{made['id']}/upload/data.parquet")
    finalized = await platform.admin.post(f"/datasets/{made['id']}/finalize")
    assert (uplink.status_code, finalized.status_code) == (422, 409)
    assert (await platform.admin.get(f"/datasets/{made['id']}")).json()["status"] == "Created"


async def test_a_source_is_uploaded_and_a_dataset_waits_for_it(platform: MemoryPlatform) -> None:
    files = {"data/test.csv": b"x\n1\n", "README.md": b"# rows"}
    made = await platform.created("datasources", **uploaded_source(files))
    assert (made["status"], made["sourceKind"], "source" in made) == ("WaitingForUpload", "upload", False)
    rows = await platform.created("datasets", name="rows", dataSource=made["id"], files=["*.csv"])
    assert rows["status"] == "Created"
    early = await platform.admin.post(f"/datasources/{made['id']}/finalize")
    assert (early.status_code, early.json()["field"]) == (422, "data/test.csv")
    await uploaded(platform, made, files)
    for _ in range(2):
        done = await platform.admin.post(f"/datasources/{made['id']}/finalize")
        assert (done.status_code, done.content) == (200, b"null")
    assert (await platform.admin.get(f"/datasources/{made['id']}")).json()["status"] == "Ready"
    late = await platform.admin.get(f"/datasources/{made['id']}/upload/README.md")
    assert late.status_code == 409
    links = (await platform.admin.get(f"/datasources/{made['id']}/downlinks")).json()
    async with platform.client(None) as client:
        got = {
            link["artifact"]["path"]: (await client.get(link["signedURL"]["url"])).content for link in links
        }
    assert got == files


async def test_another_file_than_the_announced_one_makes_no_source(platform: MemoryPlatform) -> None:
    made = await platform.created("datasources", **uploaded_source({"a.csv": b"x\n1\n"}))
    link = await link_of(platform, made, "a.csv")
    assert (await put(platform, link, b"x\n2\n")).status_code == 422
    unknown = await platform.admin.get(f"/datasources/{made['id']}/upload/b.csv")
    assert (unknown.status_code, unknown.json()["field"]) == (422, "path")
    assert (await platform.admin.post(f"/datasources/{made['id']}/finalize")).status_code == 422
    assert (await platform.admin.get(f"/datasources/{made['id']}")).json()["status"] == "WaitingForUpload"


async def test_what_is_fetched_is_not_uploaded_and_the_other_way_round(platform: MemoryPlatform) -> None:
    some = uploaded_source({"a.csv": b"x\n"})
    for fields, field in (
        ({**some, "artifacts": []}, "artifacts"),
        ({**some, "files": ["*.csv"]}, "files"),
        ({**some, "secrets": {"source": "hub-token"}}, "secrets"),
        ({**data_source(), "artifacts": some["artifacts"]}, "artifacts"),
    ):
        refused = await platform.admin.post("/datasources", json={"account": "acme", **fields})
        assert (refused.status_code, refused.json()["field"]) == (422, field), refused.text
    fetched = await platform.created("datasources", **data_source())
    assert (await platform.admin.get(f"/datasources/{fetched['id']}/upload/a.csv")).status_code == 422
    assert (await platform.admin.post(f"/datasources/{fetched['id']}/finalize")).status_code == 409


async def test_what_is_not_ready_is_not_handed_out(platform: MemoryPlatform) -> None:
    source = await platform.created("datasources", **data_source())
    folder = f"datasources/{source['id']}"
    await platform.engines.store.put(f"{folder}/a.csv", b"x\n1\n")
    await platform.engines.store.put(f"{folder}/{MANIFEST}", b'{"files": [{"path": "a.csv", "sha256": "0"}]}')
    assert (await platform.admin.get(f"/{folder}/downlinks")).status_code == 409


async def test_a_token_is_named_and_is_for_the_place_itself(platform: MemoryPlatform) -> None:
    await platform.admin.put("/accounts/acme/secrets/hub-token", json={"value": "hf_0123456789"})
    made = await platform.created("datasources", **data_source(secrets={"source": "hub-token"}))
    assert notes(made)["steelyard/secret-source"] == "hub-token"
    elsewhere = data_source(
        source="https://other.huggingface.co/datasets/org/rows", secrets={"source": "hub-token"}
    )
    response = await platform.admin.post("/datasources", json={"account": "acme", **elsewhere})
    assert (response.status_code, response.json()["field"]) == (422, "secrets.source")
    unknown = data_source(secrets={"source": "nothing"})
    response = await platform.admin.post("/datasources", json={"account": "acme", **unknown})
    assert (response.status_code, response.json()["field"]) == (422, "secrets.source")
