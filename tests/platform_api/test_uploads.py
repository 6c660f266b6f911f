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
from steelyard_common.types import Json
from steelyard_evaluation.storage.objects import ObjectStore
from steelyard_evaluation.storage.store import SignedURL
from tests.platform_api.memory_platform import (
    MemoryPlatform,
    dataset,
    make_engines,
    make_platform,
    md5,
    model,
)
from tests.platform_api.test_evidence import a_report

FILES = {"a/data 1.parquet": b"rows" * 1000, "b.parquet": b""}


async def put(
    platform: MemoryPlatform, link: Json, data: bytes, headers: Mapping[str, str] | None = None
) -> httpx.Response:
    async with platform.client(None) as client:
        return await client.put(link["url"], content=data, headers=link["headers"] | dict(headers or {}))


async def link_of(platform: MemoryPlatform, entity: Json, path: str) -> Json:
    response = await platform.admin.get(f"/{entity['kind'].lower()}s/{entity['id']}/upload/{path}")
    assert response.status_code == 200, response.text
    link: Json = response.json()
    return link


async def uploaded(
    platform: MemoryPlatform, entity: Json, files: Mapping[str, bytes] = FILES
) -> dict[str, Json]:
    links = {path: await link_of(platform, entity, path) for path in files}
    for path, data in files.items():
        assert (await put(platform, links[path], data)).status_code == 200
    return links


def uploaded_model(files: Mapping[str, bytes] = FILES) -> Json:
    listed = [{"path": path, "size": len(data), "digest": {"md5": md5(data)}} for path, data in files.items()]
    artifact = {"kind": "Volume", "volume": {"files": listed}}
    return {**model(), "storage": None, "source": {"kind": "Upload"}, "artifact": artifact}


async def test_a_dataset_from_its_request_to_its_download(platform: MemoryPlatform) -> None:
    made = await platform.created("datasets", **dataset(FILES))
    path = f"/datasets/{made['id']}"
    early = await platform.admin.get(f"{path}/downlinks")
    assert (early.status_code, early.json()["reason"]) == (409, "Conflict")
    await uploaded(platform, made)
    for _ in range(2):
        done = await platform.admin.post(f"{path}/finalize")
        assert (done.status_code, done.content) == (200, b"null")
        assert done.headers["content-type"] == "application/json"
    assert (await platform.admin.get(path)).json()["status"] == "Ready"
    links = (await platform.admin.get(f"{path}/downlinks")).json()
    assert [link["artifact"]["digest"]["md5"] for link in links] == [md5(data) for data in FILES.values()]
    async with platform.client(None) as client:
        for link, (name, data) in zip(links, FILES.items(), strict=True):
            got = await client.get(link["signedURL"]["url"], headers={"Accept-Encoding": "gzip, deflate"})
            assert (link["artifact"]["path"], got.content) == (name, data)
            assert got.headers["content-length"] == str(len(data))
            assert "content-encoding" not in got.headers
            assert "sandbox" in got.headers["content-security-policy"]


async def test_a_signed_url_gives_the_part_of_a_file_that_a_reader_asks_for(platform: MemoryPlatform) -> None:
    files = {"a.parquet": bytes(range(200))}
    made = await platform.created("datasets", **dataset(files))
    await uploaded(platform, made, files)
    assert (await platform.admin.post(f"/datasets/{made['id']}/finalize")).status_code == 200
    (link,) = (await platform.admin.get(f"/datasets/{made['id']}/downlinks")).json()
    url = link["signedURL"]["url"]
    async with platform.client(None) as client:
        for asked, first, end in (("0-7", 0, 8), ("192-", 192, 200), ("-8", 192, 200), ("100-999", 100, 200)):
            part = await client.get(url, headers={"Range": f"bytes={asked}"})
            assert (part.status_code, part.content) == (206, files["a.parquet"][first:end])
            assert part.headers["content-range"] == f"bytes {first}-{end - 1}/200"
            assert part.headers["content-length"] == str(end - first)
        for asked in ("bytes=200-", "bytes=0-1,4-5", "lines=0-1", "bytes=7-0"):
            whole = await client.get(url, headers={"Range": asked})
            assert (whole.status_code, whole.content) == (200, files["a.parquet"])
            assert (whole.headers["accept-ranges"], "content-range" in whole.headers) == ("bytes", False)


async def test_a_signed_url_writes_no_more_once_the_upload_is_final(platform: MemoryPlatform) -> None:
    made = await platform.created("datasets", **dataset(FILES))
    links = await uploaded(platform, made)
    await platform.admin.post(f"/datasets/{made['id']}/finalize")
    late = await put(platform, links["b.parquet"], b"")
    assert (late.status_code, late.json()["reason"]) == (403, "Forbidden")
    again = await platform.admin.get(f"/datasets/{made['id']}/upload/b.parquet")
    assert again.status_code == 409
    assert "WaitingForUpload" not in again.text  # the published client would try for half a minute


async def test_what_was_not_uploaded_or_is_wrong_leaves_the_dataset_open(platform: MemoryPlatform) -> None:
    made = await platform.created("datasets", **dataset(FILES))
    path = f"/datasets/{made['id']}"
    await uploaded(platform, made, {"b.parquet": b""})
    missing = await platform.admin.post(f"{path}/finalize")
    assert (missing.status_code, missing.json()["field"]) == (422, "a/data 1.parquet")
    assert (await platform.admin.get(path)).json()["status"] == "WaitingForUpload"
    link = await link_of(platform, made, "a/data 1.parquet")
    wrong = await put(platform, link, b"other rows")
    assert (wrong.status_code, wrong.json()["field"]) == (422, "Content-MD5")
    await uploaded(platform, made, {"a/data 1.parquet": FILES["a/data 1.parquet"]})
    assert (await platform.admin.post(f"{path}/finalize")).status_code == 200


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
async def test_a_signed_url_is_good_for_one_thing(
    platform: MemoryPlatform, change: Json, status: int
) -> None:
    made = await platform.created("datasets", **dataset(FILES))
    link = await link_of(platform, made, "b.parquet")
    url = link["url"].replace(*change["swap"]) if "swap" in change else link["url"]
    if change.get("later"):
        platform.engines.clock.now = platform.engines.clock.now.replace(hour=2)
    async with platform.client(None) as client:
        headers = link["headers"] | change.get("headers", {})
        response = await client.request(change.get("method", "PUT"), url, content=b"", headers=headers)
    assert response.status_code == status, response.text
    assert [info.key async for info in platform.engines.store.list("")] == []


async def test_a_path_that_was_not_announced(platform: MemoryPlatform) -> None:
    made = await platform.created("datasets", **dataset(FILES))
    for path in ("c.parquet", "a", "../b.parquet", "a/..%2fb.parquet"):
        response = await platform.admin.get(f"/datasets/{made['id']}/upload/{path}")
        assert response.status_code in {404, 422}


async def test_a_file_that_is_too_large() -> None:
    async with make_platform(settings=ApiSettings(file_bytes=1000)) as platform:
        made = await platform.created("datasets", **dataset(FILES))
        response = await put(
            platform, await link_of(platform, made, "a/data 1.parquet"), FILES["a/data 1.parquet"]
        )
        assert (response.status_code, response.json()["reason"]) == (413, "TooLarge")


class Signing(ObjectStore):
    """A store that signs URLs of its own."""

    async def sign(self, method: Literal["GET", "PUT"], key: str, lifetime: timedelta) -> SignedURL | None:
        return SignedURL(f"https://bucket.example/{key}?s={lifetime.seconds}", method, {"x-kind": "block"})


@asynccontextmanager
async def signing_platform(**settings: Any) -> AsyncIterator[MemoryPlatform]:
    engines = await make_engines()
    engines.store = Signing(engines.store.url)
    async with make_platform(engines, settings=ApiSettings(**settings)) as platform:
        yield platform


async def test_urls_lead_to_the_store_where_the_settings_say_so() -> None:
    async with signing_platform(
        signed_urls="store", upload_url_seconds=60, download_url_seconds=70
    ) as platform:
        made = await platform.created("datasets", **dataset(FILES))
        for path, data in FILES.items():
            up = await link_of(platform, made, path)
            assert (up["url"][-5:], up["method"]) == ("?s=60", "PUT")
            assert up["headers"] == {"x-kind": "block", "content-md5": md5(data)}
            await platform.engines.store.put(up["url"][len("https://bucket.example/") : -5], data)
        assert (await platform.admin.post(f"/datasets/{made['id']}/finalize")).status_code == 200
        links = (await platform.admin.get(f"/datasets/{made['id']}/downlinks")).json()
        assert [link["signedURL"]["url"] for link in links] == [
            f"https://bucket.example/datasets/{made['id']}/{path}?s=70" for path in FILES
        ]


async def test_what_a_client_cannot_compare_comes_from_the_api(monkeypatch: pytest.MonkeyPatch) -> None:
    async with signing_platform(signed_urls="store") as platform:
        made = await a_report(platform)
        path = f"/reports/{made['id']}/downlinks"
        urls = [link["signedURL"]["url"] for link in (await platform.admin.get(path)).json()]
        assert {url.startswith("http://api/v0/objects/reports/") for url in urls} == {True}
        monkeypatch.setattr("steelyard.api.datasets.downlinks.READ_BEFORE", 0)
        urls = [link["signedURL"]["url"] for link in (await platform.admin.get(path)).json()]
        assert {url.startswith("https://bucket.example/") for url in urls} == {True}


async def test_urls_lead_to_the_api_where_nothing_else_is_said() -> None:
    async with signing_platform() as platform:
        made = await platform.created("datasets", **dataset(FILES))
        assert (await link_of(platform, made, "b.parquet"))["url"].startswith(
            "http://api/v0/objects/staging/"
        )


async def test_a_file_that_no_store_takes_at_once_goes_through_the_api() -> None:
    async with signing_platform(signed_urls="store") as platform:
        request = uploaded_model({"small": b"s"})
        large = {"path": "large", "size": LARGEST_PUT + 1, "digest": {"md5": md5(b"")}}
        request["artifact"]["volume"]["files"].append(large)
        made = await platform.created("models", **request)
        urls = [(await link_of(platform, made, path))["url"] for path in ("small", "large")]
        assert [url.startswith("https://bucket.example/") for url in urls] == [True, False]


async def test_a_file_that_came_past_the_api_may_not_be_too_large_either() -> None:
    async with signing_platform(signed_urls="store", file_bytes=1000) as platform:
        made = await platform.created("datasets", **dataset(FILES))
        for path, data in FILES.items():
            url = (await link_of(platform, made, path))["url"]
            await platform.engines.store.put(
                url.removeprefix("https://bucket.example/").partition("?")[0], data
            )
        refused = await platform.admin.post(f"/datasets/{made['id']}/finalize")
        assert refused.status_code == 422
        assert "4000 bytes, more than the 1000 that are allowed" in refused.json()["detail"]


async def test_a_model_goes_on_to_be_fetched(platform: MemoryPlatform) -> None:
    made = await platform.created("models", **uploaded_model())
    assert made["status"] == "WaitingForUpload"
    await uploaded(platform, made)
    assert (await platform.admin.post(f"/models/{made['id']}/finalize")).status_code == 200
    assert (await platform.admin.get(f"/models/{made['id']}")).json()["status"] == "Created"
    for path, data in FILES.items():
        assert await platform.engines.store.get(f"uploads/{made['id']}/{path}") == data
    assert (await platform.admin.post(f"/models/{made['id']}/finalize")).status_code == 200


@pytest.mark.parametrize("resource", ["datasets", "models"])
async def test_many_who_finalize_at_once_all_succeed(platform: MemoryPlatform, resource: str) -> None:
    fields = uploaded_model() if resource == "models" else dataset(FILES)
    made = await platform.created(resource, **fields)
    await uploaded(platform, made)
    path = f"/{resource}/{made['id']}/finalize"
    answers = await asyncio.gather(*(platform.admin.post(path) for _ in range(5)))
    assert [answer.status_code for answer in answers] == [200] * 5


async def test_a_model_that_went_on_meanwhile_is_final_all_the_same(platform: MemoryPlatform) -> None:
    made = await platform.created("models", **uploaded_model())
    await uploaded(platform, made)
    commands = platform.app.api.commands
    edit = commands.edit

    async def slow(*values: Any) -> bytes:
        """Another process finalizes, and the orchestrator admits, before this one's command."""
        commands.edit = edit  # type: ignore[method-assign]
        await platform.admin.post(f"/models/{made['id']}/finalize")
        await platform.says("Model", made["id"], "Admitted", source="orchestrator")
        return await edit(*values)

    commands.edit = slow  # type: ignore[assignment,method-assign]
    assert (await platform.admin.post(f"/models/{made['id']}/finalize")).status_code == 200
    assert (await platform.admin.get(f"/models/{made['id']}")).json()["status"] == "Admitted"


async def test_a_model_of_another_source_takes_no_files(platform: MemoryPlatform) -> None:
    made = await platform.created("models", **model())
    assert (await platform.admin.get(f"/models/{made['id']}/upload/x")).status_code == 422
    assert (await platform.admin.post(f"/models/{made['id']}/finalize")).status_code == 409


async def test_a_deleted_dataset_takes_no_files(platform: MemoryPlatform) -> None:
    made = await platform.created("datasets", **dataset(FILES))
    await uploaded(platform, made)
    await platform.admin.put(f"/datasets/{made['id']}/delete")
    assert (await platform.admin.post(f"/datasets/{made['id']}/finalize")).status_code == 409
    assert (await platform.admin.get(f"/datasets/{made['id']}/upload/b.parquet")).status_code == 409


async def test_pages_and_manifests_of_workflows(platform: MemoryPlatform) -> None:
    from tests.platform_api.test_collection import an_evaluation

    made = await an_evaluation(platform)
    place = f"evaluations/{made['id']}"
    for name in ("part-00000.parquet", "stray.parquet", ".steelyard/run.json"):
        await platform.engines.store.put(f"{place}/{name}", b"x")
    manifest = b'{"files": [{"path": "part-00000.parquet", "size": 1, "sha256": "0", "rows": 1}]}'
    await platform.engines.store.put(f"{place}/.steelyard/manifest.json", manifest)
    await platform.says("Evaluation", made["id"], "Complete")
    links = (await platform.admin.get(f"/{place}/downlinks")).json()
    assert [link["artifact"]["path"] for link in links] == ["part-00000.parquet"]

    report = await platform.created("reports", rubric="r", evaluation=made["id"])
    await platform.engines.store.put(f"reports/{report['id']}/report.html", b"<html>")
    await platform.engines.store.put(f"reports/{report['id']}/.steelyard/progress.json", b"{}")
    await platform.says("Report", report["id"], "Complete")
    (link,) = (await platform.admin.get(f"/reports/{report['id']}/downlinks")).json()
    assert (link["artifact"]["path"], link["artifact"]["kind"]) == ("report.html", "html")
    async with platform.client(None) as client:
        page = await client.get(link["signedURL"]["url"])
    assert page.headers["content-type"].startswith("text/html")


SOMEWHERE = "https://steelyard.example/base/"


async def links(platform: MemoryPlatform, host: str, public: bool) -> list[httpx.Response]:
    """Every answer that holds a signed URL: of an upload, of a download, of a log."""
    data = await platform.created("datasets", **dataset(FILES))
    headers = {"Host": host}
    up = await platform.admin.get(f"/datasets/{data['id']}/upload/b.parquet", headers=headers)
    if public:
        return [up]
    await uploaded(platform, data)
    assert (await platform.admin.post(f"/datasets/{data['id']}/finalize", headers=headers)).status_code == 200
    fetched = await platform.created("models", **model())
    await platform.says("Model", fetched["id"], "Ready")
    down = await platform.admin.get(f"/datasets/{data['id']}/downlinks", headers=headers)
    await platform.engines.store.put(f"models/{fetched['id']}/.dyff/logs.txt", b"lines")
    log = await platform.admin.get(f"/models/{fetched['id']}/logs", headers=headers)
    return [up, down, log]


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "10.1.2.3", "api.evil.example", "api:port", "a b"]
)
async def test_a_host_that_is_not_known_makes_no_signed_url(platform: MemoryPlatform, host: str) -> None:
    for answer in await links(platform, host, public=False):
        assert (answer.status_code, answer.json()["field"]) == (400, "Host"), answer.text
        assert "api.public_url" in answer.json()["detail"]
        assert "signature=" not in answer.text


@pytest.mark.parametrize("host", ["api", "api:80", "localhost:8080", "127.0.0.1:1", "[::1]:9"])
async def test_a_signed_url_has_the_address_at_which_the_request_came_in(
    platform: MemoryPlatform, host: str
) -> None:
    up, down, _ = await links(platform, host, public=False)
    for url in (up.json()["url"], down.json()[0]["signedURL"]["url"]):
        assert url.startswith(f"http://{host}/v0/objects/"), url


@pytest.mark.parametrize("host", ["evil.example", "api", "a b"])
async def test_a_signed_url_has_the_public_address_where_there_is_one(host: str) -> None:
    async with make_platform(settings=ApiSettings(public_url=SOMEWHERE)) as platform:
        (up,) = await links(platform, host, public=True)
        assert up.json()["url"].startswith(f"{SOMEWHERE}v0/objects/")


@pytest.mark.parametrize("host", ["steelyard.team.svc:8000", "STEELYARD.team.svc"])
async def test_a_signed_url_has_a_name_that_the_settings_list(host: str) -> None:
    async with make_platform(settings=ApiSettings(hosts=["steelyard.team.svc"])) as platform:
        (up,) = await links(platform, host, public=True)
        assert up.json()["url"].lower().startswith(f"http://{host.lower()}/v0/objects/")
        (refused,) = await links(platform, "other.team.svc", public=True)
        assert refused.status_code == 400
