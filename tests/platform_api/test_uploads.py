"""Files: uploaded through signed URLs, final once they are verified, and downloaded as they were."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Literal

import httpx
import pytest

from steelyard.api.datasets.uploads import LARGEST_PUT
from steelyard.api.settings import ApiSettings
from steelyard.storage.objects import ObjectStore
from steelyard.storage.store import SignedURL
from steelyard.types import Json
from tests.platform_api.world import World, dataset, make_engines, make_world, md5, model

FILES = {"a/data 1.parquet": b"rows" * 1000, "b.parquet": b""}


async def put(
    world: World, link: Json, data: bytes, headers: Mapping[str, str] | None = None
) -> httpx.Response:
    async with world.client(None) as client:
        return await client.put(link["url"], content=data, headers=link["headers"] | dict(headers or {}))


async def link_of(world: World, entity: Json, path: str) -> Json:
    response = await world.admin.get(f"/{entity['kind'].lower()}s/{entity['id']}/upload/{path}")
    assert response.status_code == 200, response.text
    link: Json = response.json()
    return link


async def uploaded(world: World, entity: Json, files: Mapping[str, bytes] = FILES) -> dict[str, Json]:
    links = {path: await link_of(world, entity, path) for path in files}
    for path, data in files.items():
        assert (await put(world, links[path], data)).status_code == 200
    return links


def uploaded_model(files: Mapping[str, bytes] = FILES) -> Json:
    listed = [{"path": path, "size": len(data), "digest": {"md5": md5(data)}} for path, data in files.items()]
    artifact = {"kind": "Volume", "volume": {"files": listed}}
    return {**model(), "storage": None, "source": {"kind": "Upload"}, "artifact": artifact}


async def test_a_dataset_from_its_request_to_its_download(world: World) -> None:
    made = await world.created("datasets", **dataset(FILES))
    path = f"/datasets/{made['id']}"
    early = await world.admin.get(f"{path}/downlinks")
    assert (early.status_code, early.json()["reason"]) == (409, "Conflict")
    await uploaded(world, made)
    for _ in range(2):
        done = await world.admin.post(f"{path}/finalize")
        assert (done.status_code, done.content) == (200, b"null")
        assert done.headers["content-type"] == "application/json"
    assert (await world.admin.get(path)).json()["status"] == "Ready"
    links = (await world.admin.get(f"{path}/downlinks")).json()
    assert [link["artifact"]["digest"]["md5"] for link in links] == [md5(data) for data in FILES.values()]
    async with world.client(None) as client:
        for link, (name, data) in zip(links, FILES.items(), strict=True):
            got = await client.get(link["signedURL"]["url"], headers={"Accept-Encoding": "gzip, deflate"})
            assert (link["artifact"]["path"], got.content) == (name, data)
            assert got.headers["content-length"] == str(len(data))
            assert "content-encoding" not in got.headers
            assert "sandbox" in got.headers["content-security-policy"]


async def test_a_signed_url_writes_no_more_once_the_upload_is_final(world: World) -> None:
    made = await world.created("datasets", **dataset(FILES))
    links = await uploaded(world, made)
    await world.admin.post(f"/datasets/{made['id']}/finalize")
    late = await put(world, links["b.parquet"], b"")
    assert (late.status_code, late.json()["reason"]) == (403, "Forbidden")
    again = await world.admin.get(f"/datasets/{made['id']}/upload/b.parquet")
    assert again.status_code == 409
    assert "WaitingForUpload" not in again.text  # the published client would try for half a minute


async def test_what_was_not_uploaded_or_is_wrong_leaves_the_dataset_open(world: World) -> None:
    made = await world.created("datasets", **dataset(FILES))
    path = f"/datasets/{made['id']}"
    await uploaded(world, made, {"b.parquet": b""})
    missing = await world.admin.post(f"{path}/finalize")
    assert (missing.status_code, missing.json()["field"]) == (422, "a/data 1.parquet")
    assert (await world.admin.get(path)).json()["status"] == "WaitingForUpload"
    link = await link_of(world, made, "a/data 1.parquet")
    wrong = await put(world, link, b"other rows")
    assert (wrong.status_code, wrong.json()["field"]) == (422, "Content-MD5")
    await uploaded(world, made, {"a/data 1.parquet": FILES["a/data 1.parquet"]})
    assert (await world.admin.post(f"{path}/finalize")).status_code == 200


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"method": "GET"}, 403),
        ({"headers": {"content-md5": "AAAAAAAAAAAAAAAAAAAAAA=="}}, 403),
        ({"headers": {"content-md5": ""}}, 403),
        ({"swap": ("b.parquet", "c.parquet")}, 403),
        ({"swap": ("/staging/", "/datasets/")}, 403),
        ({"swap": ("signature=", "signature=A")}, 403),
        ({"swap": ("b.parquet", "../b.parquet")}, 403),
        ({"later": True}, 403),
        ({"headers": {"content-encoding": "gzip"}}, 400),
    ],
)
async def test_a_signed_url_is_good_for_one_thing(world: World, change: Json, status: int) -> None:
    made = await world.created("datasets", **dataset(FILES))
    link = await link_of(world, made, "b.parquet")
    url = link["url"].replace(*change["swap"]) if "swap" in change else link["url"]
    if change.get("later"):
        world.engines.clock.now = world.engines.clock.now.replace(hour=2)
    async with world.client(None) as client:
        headers = link["headers"] | change.get("headers", {})
        response = await client.request(change.get("method", "PUT"), url, content=b"", headers=headers)
    assert response.status_code == status, response.text
    assert [info.key async for info in world.engines.store.list("")] == []


async def test_a_path_that_was_not_announced(world: World) -> None:
    made = await world.created("datasets", **dataset(FILES))
    for path in ("c.parquet", "a", "../b.parquet", "a/..%2fb.parquet"):
        response = await world.admin.get(f"/datasets/{made['id']}/upload/{path}")
        assert response.status_code in {404, 422}


async def test_a_file_that_is_too_large() -> None:
    async with make_world(settings=ApiSettings(file_bytes=1000)) as world:
        made = await world.created("datasets", **dataset(FILES))
        response = await put(world, await link_of(world, made, "a/data 1.parquet"), FILES["a/data 1.parquet"])
        assert (response.status_code, response.json()["reason"]) == (413, "TooLarge")


class Signing(ObjectStore):
    """A store that signs URLs of its own."""

    async def sign(self, method: Literal["GET", "PUT"], key: str, lifetime: timedelta) -> SignedURL | None:
        return SignedURL(f"https://bucket.example/{key}?s={lifetime.seconds}", method, {"x-kind": "block"})


@asynccontextmanager
async def signing_world(**settings: Any) -> AsyncIterator[World]:
    engines = await make_engines()
    engines.store = Signing(engines.store.url)
    async with make_world(engines, settings=ApiSettings(**settings)) as world:
        yield world


async def test_urls_lead_to_the_store_where_the_settings_say_so() -> None:
    async with signing_world(signed_urls="store", upload_url_seconds=60, download_url_seconds=70) as world:
        made = await world.created("datasets", **dataset(FILES))
        for path, data in FILES.items():
            up = await link_of(world, made, path)
            assert (up["url"][-5:], up["method"]) == ("?s=60", "PUT")
            assert up["headers"] == {"x-kind": "block", "content-md5": md5(data)}
            await world.engines.store.put(up["url"][len("https://bucket.example/") : -5], data)
        assert (await world.admin.post(f"/datasets/{made['id']}/finalize")).status_code == 200
        links = (await world.admin.get(f"/datasets/{made['id']}/downlinks")).json()
        assert [link["signedURL"]["url"] for link in links] == [
            f"https://bucket.example/datasets/{made['id']}/{path}?s=70" for path in FILES
        ]


async def test_urls_lead_to_the_api_where_nothing_else_is_said() -> None:
    async with signing_world() as world:
        made = await world.created("datasets", **dataset(FILES))
        assert (await link_of(world, made, "b.parquet"))["url"].startswith("http://api/v0/objects/staging/")


async def test_a_file_that_no_store_takes_at_once_goes_through_the_api() -> None:
    async with signing_world(signed_urls="store") as world:
        request = uploaded_model({"small": b"s"})
        large = {"path": "large", "size": LARGEST_PUT + 1, "digest": {"md5": md5(b"")}}
        request["artifact"]["volume"]["files"].append(large)
        made = await world.created("models", **request)
        urls = [(await link_of(world, made, path))["url"] for path in ("small", "large")]
        assert [url.startswith("https://bucket.example/") for url in urls] == [True, False]


async def test_a_file_that_came_past_the_api_may_not_be_too_large_either() -> None:
    async with signing_world(signed_urls="store", file_bytes=1000) as world:
        made = await world.created("datasets", **dataset(FILES))
        for path, data in FILES.items():
            url = (await link_of(world, made, path))["url"]
            await world.engines.store.put(url.removeprefix("https://bucket.example/").partition("?")[0], data)
        refused = await world.admin.post(f"/datasets/{made['id']}/finalize")
        assert refused.status_code == 422
        assert "4000 bytes, more than the 1000 that are allowed" in refused.json()["detail"]


async def test_a_model_goes_on_to_be_fetched(world: World) -> None:
    made = await world.created("models", **uploaded_model())
    assert made["status"] == "WaitingForUpload"
    await uploaded(world, made)
    assert (await world.admin.post(f"/models/{made['id']}/finalize")).status_code == 200
    assert (await world.admin.get(f"/models/{made['id']}")).json()["status"] == "Created"
    for path, data in FILES.items():
        assert await world.engines.store.get(f"uploads/{made['id']}/{path}") == data
    assert (await world.admin.post(f"/models/{made['id']}/finalize")).status_code == 200


@pytest.mark.parametrize("resource", ["datasets", "models"])
async def test_many_who_finalize_at_once_all_succeed(world: World, resource: str) -> None:
    fields = uploaded_model() if resource == "models" else dataset(FILES)
    made = await world.created(resource, **fields)
    await uploaded(world, made)
    path = f"/{resource}/{made['id']}/finalize"
    answers = await asyncio.gather(*(world.admin.post(path) for _ in range(5)))
    assert [answer.status_code for answer in answers] == [200] * 5


async def test_a_model_that_went_on_meanwhile_is_final_all_the_same(world: World) -> None:
    made = await world.created("models", **uploaded_model())
    await uploaded(world, made)
    commands = world.app.api.commands
    edit = commands.edit

    async def slow(*values: Any) -> bytes:
        """Another process finalizes, and the orchestrator admits, before this one's command."""
        commands.edit = edit  # type: ignore[method-assign]
        await world.admin.post(f"/models/{made['id']}/finalize")
        await world.says("Model", made["id"], "Admitted", source="orchestrator")
        return await edit(*values)

    commands.edit = slow  # type: ignore[assignment,method-assign]
    assert (await world.admin.post(f"/models/{made['id']}/finalize")).status_code == 200
    assert (await world.admin.get(f"/models/{made['id']}")).json()["status"] == "Admitted"


async def test_a_model_of_another_source_takes_no_files(world: World) -> None:
    made = await world.created("models", **model())
    assert (await world.admin.get(f"/models/{made['id']}/upload/x")).status_code == 422
    assert (await world.admin.post(f"/models/{made['id']}/finalize")).status_code == 409


async def test_a_deleted_dataset_takes_no_files(world: World) -> None:
    made = await world.created("datasets", **dataset(FILES))
    await uploaded(world, made)
    await world.admin.put(f"/datasets/{made['id']}/delete")
    assert (await world.admin.post(f"/datasets/{made['id']}/finalize")).status_code == 409
    assert (await world.admin.get(f"/datasets/{made['id']}/upload/b.parquet")).status_code == 409


async def test_pages_and_manifests_of_workflows(world: World) -> None:
    from tests.platform_api.test_collection import an_evaluation

    made = await an_evaluation(world)
    place = f"evaluations/{made['id']}"
    for name in ("part-00000.parquet", "stray.parquet", ".steelyard/run.json"):
        await world.engines.store.put(f"{place}/{name}", b"x")
    manifest = b'{"files": [{"path": "part-00000.parquet", "size": 1, "sha256": "0", "rows": 1}]}'
    await world.engines.store.put(f"{place}/.steelyard/manifest.json", manifest)
    await world.says("Evaluation", made["id"], "Complete")
    links = (await world.admin.get(f"/{place}/downlinks")).json()
    assert [link["artifact"]["path"] for link in links] == ["part-00000.parquet"]

    report = await world.created("reports", rubric="r", evaluation=made["id"])
    await world.engines.store.put(f"reports/{report['id']}/report.html", b"<html>")
    await world.engines.store.put(f"reports/{report['id']}/.steelyard/progress.json", b"{}")
    await world.says("Report", report["id"], "Complete")
    (link,) = (await world.admin.get(f"/reports/{report['id']}/downlinks")).json()
    assert (link["artifact"]["path"], link["artifact"]["kind"]) == ("report.html", "html")
    async with world.client(None) as client:
        page = await client.get(link["signedURL"]["url"])
    assert page.headers["content-type"].startswith("text/html")


SOMEWHERE = "https://steelyard.example/base/"


async def links(world: World, host: str, public: bool) -> list[httpx.Response]:
    """Every answer that holds a signed URL: of an upload, of a download, of a log."""
    data = await world.created("datasets", **dataset(FILES))
    headers = {"Host": host}
    up = await world.admin.get(f"/datasets/{data['id']}/upload/b.parquet", headers=headers)
    if public:
        return [up]
    await uploaded(world, data)
    assert (await world.admin.post(f"/datasets/{data['id']}/finalize", headers=headers)).status_code == 200
    fetched = await world.created("models", **model())
    await world.says("Model", fetched["id"], "Ready")
    down = await world.admin.get(f"/datasets/{data['id']}/downlinks", headers=headers)
    await world.engines.store.put(f"models/{fetched['id']}/.dyff/logs.txt", b"lines")
    log = await world.admin.get(f"/models/{fetched['id']}/logs", headers=headers)
    return [up, down, log]


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "10.1.2.3", "api.evil.example", "api:port", "a b"]
)
async def test_a_host_that_is_not_known_makes_no_signed_url(world: World, host: str) -> None:
    for answer in await links(world, host, public=False):
        assert (answer.status_code, answer.json()["field"]) == (400, "Host"), answer.text
        assert "api.public_url" in answer.json()["detail"]
        assert "signature=" not in answer.text


@pytest.mark.parametrize("host", ["api", "api:80", "localhost:8080", "127.0.0.1:1", "[::1]:9"])
async def test_a_signed_url_has_the_address_at_which_the_request_came_in(world: World, host: str) -> None:
    up, down, _ = await links(world, host, public=False)
    for url in (up.json()["url"], down.json()[0]["signedURL"]["url"]):
        assert url.startswith(f"http://{host}/v0/objects/"), url


@pytest.mark.parametrize("host", ["evil.example", "api", "a b"])
async def test_a_signed_url_has_the_public_address_where_there_is_one(host: str) -> None:
    async with make_world(settings=ApiSettings(public_url=SOMEWHERE)) as world:
        (up,) = await links(world, host, public=True)
        assert up.json()["url"].startswith(f"{SOMEWHERE}v0/objects/")
