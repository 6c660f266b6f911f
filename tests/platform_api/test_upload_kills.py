"""A finalize that was killed at any of its writes: whoever repeats the upload, or finalize alone, finishes it.

`REQUESTS` has every kind whose files are uploaded: a further kind without a row fails.
"""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from steelyard.api.kinds import KINDS
from steelyard.api.settings import ApiSettings
from steelyard_common.types import Json
from steelyard_evaluation.storage.objects import ObjectStore
from steelyard_evaluation.storage.store import StorageError
from tests.platform_api.memory_platform import (
    MemoryPlatform,
    dataset,
    make_engines,
    make_platform,
    md5,
    uploaded_source,
)
from tests.platform_api.test_uploads import Signing, link_of, put, uploaded, uploaded_model

FILES = {"a.py": b"rows" * 10, "b.py": b""}


def module(files: Mapping[str, bytes]) -> Json:
    artifacts = [
        {"kind": "text/x-python", "path": path, "digest": {"md5": md5(data)}} for path, data in files.items()
    ]
    return {"name": "code", "artifacts": artifacts}


REQUESTS: Mapping[str, Callable[[Mapping[str, bytes]], Json]] = {
    "Dataset": dataset,
    "DataSource": uploaded_source,
    "Model": uploaded_model,
    "Module": module,
}
WRITES = 2 * len(FILES) + 2
"""Writes of a finalize: the closing, two copies of each file, the manifest."""


class KilledStore(ObjectStore):
    """A store that fails from the n-th write or removal on, as a killed process makes none."""

    left = 1000

    def _count(self) -> None:
        if self.left <= 0:
            raise StorageError("killed")
        self.left -= 1

    async def create(self, key: str, data: bytes) -> None:
        self._count()
        await super().create(key, data)

    async def copy(self, source: str, target: str) -> None:
        self._count()
        await super().copy(source, target)

    async def delete(self, key: str) -> None:
        self._count()
        await super().delete(key)


def test_every_kind_whose_files_are_uploaded_is_in_the_table() -> None:
    assert set(REQUESTS) == {kind.name for kind in KINDS if kind.uploads}


async def killed_in_finalize(
    platform: MemoryPlatform, store: KilledStore, kind: str, writes: int
) -> tuple[Json, dict[str, Json]]:
    """An entity whose finalize was killed after some writes, and the URLs of its upload."""
    made = await platform.created(f"{kind.lower()}s", **REQUESTS[kind](FILES))
    links = await uploaded(platform, made, FILES)
    store.left = writes
    assert (await platform.admin.post(f"/{kind.lower()}s/{made['id']}/finalize")).status_code >= 500
    store.left = 1000
    return made, links


async def check_ready(platform: MemoryPlatform, made: Json) -> None:
    path = f"/{made['kind'].lower()}s/{made['id']}"
    done = await platform.admin.post(f"{path}/finalize")
    assert done.status_code == 200, done.text
    status = (await platform.admin.get(path)).json()["status"]
    assert status == ("Created" if made["kind"] == "Model" else "Ready")


@pytest.mark.parametrize("writes", range(WRITES + 2))
@pytest.mark.parametrize("kind", REQUESTS)
async def test_a_repeat_of_the_upload_finishes_it(kind: str, writes: int) -> None:
    engines = await make_engines()
    engines.store = store = KilledStore(engines.store.url)
    async with make_platform(engines) as platform:
        made, links = await killed_in_finalize(platform, store, kind, writes)
        waits = (await platform.admin.get(f"/{kind.lower()}s/{made['id']}")).json()[
            "status"
        ] == "WaitingForUpload"
        if waits:
            for path, data in FILES.items():
                for link in (links[path], await link_of(platform, made, path)):
                    answer = await put(platform, link, data)
                    assert answer.status_code == 200, answer.text
        await check_ready(platform, made)
        assert (await put(platform, links["b.py"], b"")).status_code == (403 if waits else 200)


@pytest.mark.parametrize("kind", REQUESTS)
async def test_other_content_is_refused_with_what_to_do(kind: str) -> None:
    engines = await make_engines()
    engines.store = store = KilledStore(engines.store.url)
    async with make_platform(engines) as platform:
        files = {**FILES, "c.py": b"content"}
        request = REQUESTS[kind](files)
        if kind in ("Dataset", "Module", "DataSource"):
            for artifact in request["artifacts"]:
                artifact["digest"] = {}
        made = await platform.created(f"{kind.lower()}s", **request)
        links = {path: await link_of(platform, made, path) for path in files}
        for path, data in files.items():
            assert (await put(platform, links[path], data)).status_code == 200
        store.left = 1
        assert (await platform.admin.post(f"/{kind.lower()}s/{made['id']}/finalize")).status_code >= 500
        store.left = 1000
        other = await put(platform, links["c.py"], b"changed")
        if "content-md5" in links["c.py"]["headers"]:
            assert other.status_code == 422
        else:
            assert (other.status_code, other.json()["reason"]) == (409, "Conflict")
            assert "repeat it" in other.json()["detail"]
            assert "finalize" in other.json()["detail"]
            assert made["id"] in other.json()["detail"]
        await check_ready(platform, made)


async def test_a_closed_area_gets_no_url_of_the_store_itself() -> None:
    """The store would write, where the API only compares."""

    class Both(KilledStore, Signing):
        pass

    engines = await make_engines()
    engines.store = store = Both(engines.store.url)
    async with make_platform(engines, settings=ApiSettings(signed_urls="store")) as platform:
        made = await platform.created("datasets", **dataset(FILES))
        for path, data in FILES.items():
            url = (await link_of(platform, made, path))["url"]
            await store.put(url.removeprefix("https://bucket.example/").partition("?")[0], data)
        store.left = 2
        assert (await platform.admin.post(f"/datasets/{made['id']}/finalize")).status_code >= 500
        store.left = 1000
        for path, data in FILES.items():
            link: Any = await link_of(platform, made, path)
            assert link["url"].startswith("http://api/v0/objects/")
            assert (await put(platform, link, data)).status_code == 200
        await check_ready(platform, made)
