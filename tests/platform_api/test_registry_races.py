"""Requests to an artifact's registry that are suspended before a write, while others finalize the artifact."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, cast

import httpx
import pytest

from steelyard_evaluation.storage.store import ObjectInfo, Store
from tests.platform_api.memory_platform import MemoryPlatform, make_engines, make_platform
from tests.platform_api.registry import MANIFEST, code, digest_of

CONFIG, LAYER = b"{}", b"layer"
OTHER_MEDIA = "application/vnd.example.other+json"


class SuspendedStore:
    """A store at which something else happens right before a write, as if the writer had been suspended."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._meanwhile: Callable[[], Awaitable[None]] | None = None
        self._writes = 0
        self._before_list: tuple[str, Callable[[], Awaitable[None]]] | None = None

    def suspend(self, meanwhile: Callable[[], Awaitable[None]], writes: int = 0) -> None:
        """Do something else after this number of writes, before the next one."""
        self._meanwhile, self._writes = meanwhile, writes

    def suspend_list(self, meanwhile: Callable[[], Awaitable[None]], folder: str) -> None:
        """Do something else before the next listing of a folder of this name."""
        self._before_list = f"/{folder}/", meanwhile

    async def list(self, prefix: str = "") -> AsyncIterator[ObjectInfo]:
        if self._before_list is not None and prefix.endswith(self._before_list[0]):
            (_, meanwhile), self._before_list = self._before_list, None
            await meanwhile()
        async for info in self._store.list(prefix):
            yield info

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if name not in {"put", "create", "put_file", "create_file", "copy", "delete"}:
            return method

        async def write(*arguments: Any) -> None:
            meanwhile, self._writes = self._meanwhile, self._writes - 1
            if meanwhile is not None and self._writes < 0:
                self._meanwhile = None
                await meanwhile()
            await method(*arguments)

        return write


@dataclass
class Artifact:
    """An artifact that waits for uploads, with one tag, and the store that suspends its writers."""

    platform: MemoryPlatform
    store: SuspendedStore
    id: str

    @property
    def path(self) -> str:
        return f"http://api/v2/artifacts/{self.id}"

    async def blob(self, content: bytes) -> httpx.Response:
        return await self.platform.admin.post(
            f"{self.path}/blobs/uploads/?digest={digest_of(content)}", content=content
        )

    async def push(self, reference: str, manifest: bytes, media: str = MANIFEST) -> httpx.Response:
        named = {"Content-Type": media}
        return await self.platform.admin.put(
            f"{self.path}/manifests/{reference}", content=manifest, headers=named
        )

    async def get(self, path: str) -> httpx.Response:
        return await self.platform.admin.get(f"{self.path}/{path}")

    async def delete(self, path: str) -> httpx.Response:
        return await self.platform.admin.delete(f"{self.path}/{path}")

    async def finalize(self) -> None:
        assert (await self.platform.admin.post(f"/artifacts/{self.id}/finalize")).status_code == 200

    async def check_sealed(self) -> None:
        """Check that the artifact is ready, and that a tag which is written late leads nowhere."""
        assert (await self.platform.admin.get(f"/artifacts/{self.id}")).json()["status"] == "Ready"
        tag = f"ociartifacts/{self.id}/tagging/latest/000009"
        await self.platform.engines.store.put(tag, f"{digest_of(b'late').removeprefix('sha256:')} 0".encode())
        assert (await self.get("manifests/latest")).content == manifest_of()
        assert (await self.get("tags/list")).json()["tags"] == ["latest"]


def manifest_of(*layers: bytes, name: str = "", media: str | None = MANIFEST) -> bytes:
    def descriptor(content: bytes) -> dict[str, Any]:
        return {"mediaType": "application/json", "digest": digest_of(content), "size": len(content)}

    fields = {
        "schemaVersion": 2,
        "config": descriptor(CONFIG),
        "layers": [descriptor(item) for item in layers],
    }
    return json.dumps({**fields, "name": name, **({"mediaType": media} if media else {})}).encode()


@asynccontextmanager
async def an_artifact() -> AsyncIterator[Artifact]:
    engines = await make_engines()
    store = SuspendedStore(engines.store)
    async with make_platform(replace(engines, store=cast(Store, store))) as platform:
        artifact = Artifact(platform, store, (await platform.created("artifacts"))["id"])
        for content in (CONFIG, LAYER):
            assert (await artifact.blob(content)).status_code == 201
        assert (await artifact.push("latest", manifest_of())).status_code == 201
        yield artifact
    await engines.accounts_database.close()


async def test_no_request_takes_the_seal_from_an_artifact_that_is_ready() -> None:
    """A late manifest that names a deleted blob is no reason to open what another request has finalized."""
    late_is_there, late_goes_on = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        late_is_there.set()
        await late_goes_on.wait()

    async with an_artifact() as artifact:
        manifest = manifest_of(LAYER)
        artifact.store.suspend(wait)
        late = asyncio.create_task(artifact.push(digest_of(manifest), manifest))
        await late_is_there.wait()
        assert (await artifact.delete(f"blobs/{digest_of(LAYER)}")).status_code == 202

        async def the_other_finalizes_and_the_push_ends() -> None:
            await artifact.finalize()
            late_goes_on.set()
            await late

        artifact.store.suspend(the_other_finalizes_and_the_push_ends)
        await artifact.finalize()
        assert code(late.result()) == (403, "DENIED")
        await artifact.check_sealed()


@pytest.mark.parametrize("writes", range(2))
async def test_a_push_of_a_tag_that_ends_after_finalize_is_refused(writes: int) -> None:
    async with an_artifact() as artifact:
        artifact.store.suspend(artifact.finalize, writes)
        assert code(await artifact.push("late", manifest_of(name="late"))) == (403, "DENIED")
        await artifact.check_sealed()


@pytest.mark.parametrize(
    ("kind", "writes"),
    # An upload has three writes before that of its blob.
    [("blob", 3), ("blob", 4), ("blob", 5), ("mount", 0), ("mount", 1), ("manifest", 0), ("manifest", 1)],
)
async def test_what_was_deleted_and_is_pushed_again_is_there_or_refused(kind: str, writes: int) -> None:
    """The seal may name it as deleted, and then it is removed."""
    async with an_artifact() as artifact:
        source = replace(artifact, id=(await artifact.platform.created("artifacts"))["id"])
        assert (await source.blob(LAYER)).status_code == 201
        manifest = manifest_of(name="again")
        content, path = LAYER, f"blobs/{digest_of(LAYER)}"
        if kind == "manifest":
            content, path = manifest, f"manifests/{digest_of(manifest)}"
            assert (await artifact.push(digest_of(manifest), manifest)).status_code == 201
        assert (await artifact.delete(path)).status_code == 202
        artifact.store.suspend(artifact.finalize, writes)
        if kind == "manifest":
            again = await artifact.push(digest_of(manifest), manifest)
        elif kind == "mount":
            mount = f"mount={digest_of(LAYER)}&from=artifacts/{source.id}"
            again = await artifact.platform.admin.post(f"{artifact.path}/blobs/uploads/?{mount}")
        else:
            again = await artifact.blob(LAYER)
        if again.status_code == 201:
            assert (await artifact.get(path)).content == content
        else:
            assert code(again) == (403, "DENIED")


async def test_a_blob_that_goes_while_it_is_mounted_has_to_be_uploaded() -> None:
    async with an_artifact() as artifact:
        target = replace(artifact, id=(await artifact.platform.created("artifacts"))["id"])

        async def delete_and_finalize() -> None:
            assert (await artifact.delete(f"blobs/{digest_of(LAYER)}")).status_code == 202
            await artifact.finalize()

        artifact.store.suspend(delete_and_finalize)
        mount = f"mount={digest_of(LAYER)}&from=artifacts/{artifact.id}"
        begun = await artifact.platform.admin.post(f"{target.path}/blobs/uploads/?{mount}")
        assert begun.status_code == 202
        assert (await target.blob(LAYER)).status_code == 201


async def test_a_manifest_keeps_the_media_type_of_its_first_push() -> None:
    async with an_artifact() as artifact:
        manifest = manifest_of(media=None)
        assert (await artifact.push("typed", manifest)).status_code == 201
        again = await artifact.push("typed", manifest, OTHER_MEDIA)
        assert code(again) == (400, "MANIFEST_INVALID")
        assert MANIFEST in again.json()["errors"][0]["message"]
        assert (await artifact.push("again", manifest)).status_code == 201
        assert (await artifact.get("manifests/typed")).headers["Content-Type"] == MANIFEST


async def test_a_push_that_ends_after_finalize_changes_no_media_type() -> None:
    async with an_artifact() as artifact:
        artifact.store.suspend(artifact.finalize)
        late = await artifact.push("latest", manifest_of(), OTHER_MEDIA)
        assert late.status_code in {400, 403}
        for reference in ("latest", digest_of(manifest_of())):
            got = await artifact.get(f"manifests/{reference}")
            assert (got.content, got.headers["Content-Type"]) == (manifest_of(), MANIFEST)


@pytest.mark.parametrize("deleted", ["blob", "manifest", "tag", "upload"])
async def test_a_deletion_that_began_before_finalize_changes_nothing_after_it(deleted: str) -> None:
    async with an_artifact() as artifact:
        begun = (await artifact.platform.admin.post(f"{artifact.path}/blobs/uploads/")).headers["Location"]
        paths = {
            "blob": f"blobs/{digest_of(CONFIG)}",
            "manifest": f"manifests/{digest_of(manifest_of())}",
            "tag": "manifests/latest",
            "upload": begun.removeprefix(f"/v2/artifacts/{artifact.id}/"),
        }
        artifact.store.suspend(artifact.finalize)
        late = await artifact.delete(paths[deleted])
        if deleted == "upload":
            assert late.status_code == 204
        else:
            assert code(late) == (403, "DENIED")
        assert (await artifact.get(paths["tag"])).content == manifest_of()
        assert (await artifact.get(paths["manifest"])).content == manifest_of()
        assert (await artifact.get(paths["blob"])).content == CONFIG


FINALIZING = 3
"""Writes of a request that finalizes an artifact without deletions: a closing, a decision and the seal."""


@pytest.mark.parametrize("writes", range(FINALIZING))
@pytest.mark.parametrize("kind", ["tag", "manifest", "blob", "untag", "remove"])
async def test_what_is_acknowledged_while_finalize_is_suspended_counts(kind: str, writes: int) -> None:
    """A push or a deletion is in the seal, or it is refused."""
    manifest = manifest_of(name="meanwhile")
    reference, blob = digest_of(manifest), f"blobs/{digest_of(LAYER)}"
    answers: list[httpx.Response] = []
    async with an_artifact() as artifact:
        if kind == "remove":
            assert (await artifact.push("other", manifest)).status_code == 201
        if kind == "untag":
            assert (await artifact.push("other", manifest_of())).status_code == 201
        if kind in {"blob", "manifest"}:
            assert (await artifact.push(reference, manifest)).status_code == 201
            path = blob if kind == "blob" else f"manifests/{reference}"
            assert (await artifact.delete(path)).status_code == 202

        async def act() -> None:
            match kind:
                case "tag":
                    answers.append(await artifact.push("latest", manifest))
                case "manifest":
                    answers.append(await artifact.push(reference, manifest))
                case "blob":
                    answers.append(await artifact.blob(LAYER))
                case "untag":
                    answers.append(await artifact.delete("manifests/other"))
                case _:
                    answers.append(await artifact.delete(f"manifests/{reference}"))

        artifact.store.suspend(act, writes)
        await artifact.finalize()
        (answer,) = answers
        assert (answer.status_code in {201, 202}) is (writes < 2), "after the decision it is refused"
        is_there = {
            "tag": (await artifact.get("manifests/latest")).content == manifest,
            "manifest": (await artifact.get(f"manifests/{reference}")).status_code == 200,
            "blob": (await artifact.get(blob)).status_code == 200,
            "untag": (await artifact.get("tags/list")).json()["tags"] == ["latest"],
            "remove": (await artifact.get(f"manifests/{reference}")).status_code == 404,
        }
        if answer.is_success:
            assert is_there[kind]
        else:
            assert code(answer) == (403, "DENIED")
            assert not is_there[kind]


@pytest.mark.parametrize("writes", range(FINALIZING))
async def test_finalize_that_is_cut_short_keeps_no_client_waiting(writes: int) -> None:
    """The repository takes pushes until it has decided, and afterwards the next one goes on."""

    async def end() -> None:
        raise ConnectionAbortedError

    async with an_artifact() as artifact:
        artifact.store.suspend(end, writes)
        with suppress(ConnectionAbortedError):
            await artifact.platform.admin.post(f"/artifacts/{artifact.id}/finalize")
        assert (await artifact.platform.admin.get(f"/artifacts/{artifact.id}")).json()["status"] != "Ready"
        manifest = manifest_of(name="meanwhile")
        pushed = await artifact.push("latest", manifest)
        assert pushed.status_code == (201 if writes < 2 else 403)
        await artifact.finalize()
        expected = manifest if writes < 2 else manifest_of()
        assert (await artifact.get("manifests/latest")).content == expected


@pytest.mark.parametrize("kind", ["tag", "manifest", "blob"])
async def test_a_deletion_that_is_refused_keeps_no_later_request_from_finalizing(kind: str) -> None:
    """A request that finalizes is cut short after its decision, and what the deletion wrote is there all the same."""
    paths = {
        "tag": "manifests/latest",
        "manifest": f"manifests/{digest_of(manifest_of())}",
        "blob": f"blobs/{digest_of(CONFIG)}",
    }

    async def end() -> None:
        raise ConnectionAbortedError

    async with an_artifact() as artifact:
        artifact.store.suspend(end, writes=FINALIZING - 1)
        with suppress(ConnectionAbortedError):
            await artifact.platform.admin.post(f"/artifacts/{artifact.id}/finalize")
        assert code(await artifact.delete(paths[kind])) == (403, "DENIED")
        await artifact.finalize()
        await artifact.check_sealed()
        assert (await artifact.get(f"blobs/{digest_of(CONFIG)}")).content == CONFIG


async def test_a_check_of_content_that_another_has_sealed_meanwhile_does_not_count() -> None:
    """One that is suspended before its check meets another's decision, and then a deletion that was refused."""

    async def end() -> None:
        raise ConnectionAbortedError

    async def decide_and_delete() -> None:
        artifact.store.suspend(end, writes=FINALIZING - 1)
        with suppress(ConnectionAbortedError):
            await artifact.platform.admin.post(f"/artifacts/{artifact.id}/finalize")
        assert code(await artifact.delete("manifests/latest")) == (403, "DENIED")

    async with an_artifact() as artifact:
        artifact.store.suspend_list(decide_and_delete, "deleted")
        await artifact.finalize()
        await artifact.check_sealed()


@pytest.mark.parametrize("writes", range(FINALIZING))
async def test_of_two_that_finalize_one_decides(writes: int) -> None:
    """One that is suspended meets a push and another one that finalizes."""
    manifest = manifest_of(name="meanwhile")
    pushed: list[httpx.Response] = []

    async def push_and_finalize() -> None:
        pushed.append(await artifact.push("latest", manifest))
        await artifact.finalize()

    async with an_artifact() as artifact:
        artifact.store.suspend(push_and_finalize, writes)
        await artifact.finalize()
        expected = manifest if pushed[0].is_success else manifest_of()
        assert (await artifact.get("manifests/latest")).content == expected


async def test_a_manifest_takes_no_tag_with_it_that_was_pushed_to_another_since() -> None:
    other = manifest_of(name="other")
    pushed: list[httpx.Response] = []
    async with an_artifact() as artifact:

        async def push() -> None:
            pushed.append(await artifact.push("latest", other))

        artifact.store.suspend(push)
        assert (await artifact.delete(f"manifests/{digest_of(manifest_of())}")).status_code == 202
        assert pushed[0].status_code == 201
        assert (await artifact.get("manifests/latest")).content == other
        assert (await artifact.get(f"manifests/{digest_of(manifest_of())}")).status_code == 404
        assert (await artifact.get("tags/list")).json()["tags"] == ["latest"]
        await artifact.finalize()
        assert (await artifact.get("manifests/latest")).content == other


async def test_a_tag_that_went_with_its_manifest_comes_back_by_a_push_alone() -> None:
    async with an_artifact() as artifact:
        reference = digest_of(manifest_of())
        assert (await artifact.delete(f"manifests/{reference}")).status_code == 202
        assert (await artifact.push(reference, manifest_of())).status_code == 201
        assert code(await artifact.get("manifests/latest")) == (404, "MANIFEST_UNKNOWN")
        assert (await artifact.get("tags/list")).json()["tags"] == []
        assert (await artifact.push("latest", manifest_of())).status_code == 201
        await artifact.finalize()
        await artifact.check_sealed()


@pytest.mark.parametrize("writes", range(3))
async def test_a_push_of_a_manifest_that_had_the_tag_before_loses_no_tag(writes: int) -> None:
    """The tag leads to the manifest that was pushed last and acknowledged, wherever the push meets finalize."""
    first, second = manifest_of(name="first"), manifest_of(name="second")
    async with an_artifact() as artifact:
        assert (await artifact.push("v1", first)).status_code == 201
        assert (await artifact.delete(f"manifests/{digest_of(first)}")).status_code == 202
        assert (await artifact.push("v1", second)).status_code == 201
        artifact.store.suspend(artifact.finalize, writes)
        assert code(await artifact.push("v1", first)) == (403, "DENIED")
        assert (await artifact.get("manifests/v1")).content == second


async def test_a_tag_that_is_sealed_before_its_push_has_ended_is_acknowledged() -> None:
    async with an_artifact() as artifact:
        manifest = manifest_of(name="sealed")

        async def end() -> None:
            raise ConnectionAbortedError

        # The repository is closed and nothing is decided, so that the push ends with a write of the decision.
        artifact.store.suspend(end, writes=1)
        with suppress(ConnectionAbortedError):
            await artifact.platform.admin.post(f"/artifacts/{artifact.id}/finalize")
        artifact.store.suspend(artifact.finalize, writes=2)
        assert (await artifact.push("latest", manifest)).status_code == 201
        assert (await artifact.platform.admin.get(f"/artifacts/{artifact.id}")).json()["status"] == "Ready"
        assert (await artifact.get("manifests/latest")).content == manifest


async def test_a_tag_that_is_pushed_while_its_manifest_is_deleted_goes_with_it_or_brings_it_back() -> None:
    """The deletion is suspended right before it counts."""
    manifest = manifest_of(name="meanwhile")
    pushed: list[httpx.Response] = []
    async with an_artifact() as artifact:
        assert (await artifact.push("other", manifest)).status_code == 201

        async def push() -> None:
            pushed.append(await artifact.push("new", manifest))

        artifact.store.suspend(push)
        assert (await artifact.delete(f"manifests/{digest_of(manifest)}")).status_code == 202
        assert pushed[0].status_code == 201
        await check_whole(artifact, "new", manifest)


@pytest.mark.parametrize("writes", range(2))
async def test_a_manifest_that_is_deleted_while_its_tag_is_pushed_takes_it_along_or_comes_back(
    writes: int,
) -> None:
    """The push is suspended before the write of the manifest, or before that of the tag."""
    manifest = manifest_of(name="meanwhile")
    deleted: list[httpx.Response] = []
    async with an_artifact() as artifact:
        assert (await artifact.push("other", manifest)).status_code == 201

        async def delete() -> None:
            deleted.append(await artifact.delete(f"manifests/{digest_of(manifest)}"))

        artifact.store.suspend(delete, writes)
        assert (await artifact.push("new", manifest)).status_code == 201
        assert deleted[0].status_code == 202
        await check_whole(artifact, "new", manifest)


@pytest.mark.parametrize("later", range(3))
@pytest.mark.parametrize("writes", range(2))
async def test_a_push_that_is_suspended_and_cut_short_hides_no_later_one(writes: int, later: int) -> None:
    """Meanwhile its manifest is deleted, and the tag is pushed to another one; the push ends some writes later."""
    first, second = manifest_of(name="first"), manifest_of(name="second")
    pushed: list[httpx.Response] = []

    async def end() -> None:
        raise ConnectionAbortedError

    async with an_artifact() as artifact:
        assert (await artifact.push("other", first)).status_code == 201

        async def act() -> None:
            assert (await artifact.delete(f"manifests/{digest_of(first)}")).status_code == 202
            pushed.append(await artifact.push("new", second))
            artifact.store.suspend(end, later)

        artifact.store.suspend(act, writes)
        with suppress(ConnectionAbortedError):
            await artifact.push("new", first)
        artifact.store.suspend(end, 1_000)
        assert pushed[0].status_code == 201
        assert (await artifact.get("manifests/new")).content in {first, second}
        await check_whole(artifact, "new", first, second)


async def check_whole(artifact: Artifact, tag: str, *manifests: bytes) -> None:
    """Check that a tag leads to one of these manifests or is gone with them, and is sealed like this."""
    got, tags = await artifact.get(f"manifests/{tag}"), (await artifact.get("tags/list")).json()["tags"]
    held = [(await artifact.get(f"manifests/{digest_of(manifest)}")).status_code for manifest in manifests]
    if got.status_code == 200:
        assert got.content in manifests
        assert tag in tags
    else:
        assert tag not in tags
        assert held == [404] * len(manifests)
    await artifact.finalize()
    sealed = await artifact.get(f"manifests/{tag}")
    assert (sealed.status_code, sealed.content) == (got.status_code, got.content)
    assert (await artifact.get("tags/list")).json()["tags"] == tags
