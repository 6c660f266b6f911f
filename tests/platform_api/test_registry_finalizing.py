"""Finalizing an artifact: only what is whole is taken, and from then on nothing changes it."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any, cast

import pytest

from steelyard.storage.store import Store
from tests.platform_api.published import Laboratory, laboratory
from tests.platform_api.registry import MANIFEST, Registry, code, digest_of
from tests.platform_api.world import World, make_engines, make_world


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    with laboratory(tmp_path_factory.mktemp("registry")) as made:
        yield made


@pytest.fixture
def registry(lab: Laboratory) -> Registry:
    return Registry(lab)


def test_a_finalized_artifact_stays_as_it_is(registry: Registry) -> None:
    manifest = registry.manifest(registry.blob(b"layer"))
    assert registry.push("latest", manifest).status_code == 201
    assert registry.finalize().status_code == 200
    assert registry.finalize().json() is None  # once more: the answer of the first may have been lost
    assert code(registry.push("other", manifest)) == (403, "DENIED")
    assert code(registry.ask("POST", "blobs/uploads/")) == (403, "DENIED")
    assert code(registry.ask("DELETE", "manifests/latest")) == (403, "DENIED")
    assert code(registry.ask("DELETE", f"blobs/{digest_of(b'layer')}")) == (403, "DENIED")
    assert registry.ask("GET", "manifests/latest").content == manifest


def test_only_what_is_whole_can_be_finalized(registry: Registry) -> None:
    assert registry.finalize().status_code == 422
    layer = registry.blob(b"layer")
    assert registry.push("latest", registry.manifest(layer)).status_code == 201
    assert registry.ask("DELETE", f"blobs/{layer}").status_code == 202
    refused = registry.finalize()
    assert refused.status_code == 422
    assert layer in refused.json()["detail"]
    registry.blob(b"layer")
    assert registry.finalize().status_code == 200


def test_an_upload_that_has_not_ended_is_named(registry: Registry) -> None:
    registry.begin()
    refused = registry.finalize()
    said = (
        "artifact: the push is not finished: the repository has no tag, and 1 upload has begun and not ended"
    )
    assert (refused.status_code, refused.json()["detail"]) == (422, said)
    registry.begin()
    assert registry.finalize().json()["detail"].endswith(", and 2 uploads have begun and not ended")


def test_a_tag_without_its_manifest_cannot_be_finalized(registry: Registry) -> None:
    manifest = registry.manifest()
    assert registry.push("latest", manifest).status_code == 201
    # As a push leaves it whose manifest was deleted before the tag was written.
    (registry.folder / "tags" / "lost").write_text(digest_of(b"deleted"))
    refused = registry.finalize()
    assert refused.status_code == 422
    assert "tag lost leads to a manifest that is not there" in refused.json()["detail"]
    assert registry.push("lost", manifest).status_code == 201
    assert registry.finalize().status_code == 200


@pytest.mark.parametrize("kind", ["manifest", "blob"])
async def test_a_push_that_began_before_finalize_changes_nothing_after_it(world: World, kind: str) -> None:
    artifact = (await world.created("artifacts"))["id"]
    path, content = f"http://api/v2/artifacts/{artifact}", b"slow"
    blobs, digest = f"{path}/blobs/uploads/", digest_of(content)
    config = {"mediaType": "application/json", "digest": digest_of(b"{}"), "size": 2}
    manifests = [
        json.dumps({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "name": name}).encode()
        for name in ("early", "late")
    ]
    named = {"Content-Type": MANIFEST}
    assert (await world.admin.post(f"{blobs}?digest={config['digest']}", content=b"{}")).status_code == 201
    early = await world.admin.put(f"{path}/manifests/latest", content=manifests[0], headers=named)
    assert early.status_code == 201
    answers = []

    async def body(content: bytes) -> AsyncIterator[bytes]:
        yield content[:1]
        # The request is past the check of the artifact's status: it has asked for the rest of its body.
        answers.append(await world.admin.post(f"/artifacts/{artifact}/finalize"))
        yield content[1:]

    if kind == "manifest":
        late = world.admin.put(f"{path}/manifests/latest", content=body(manifests[1]), headers=named)
    else:
        late = world.admin.post(f"{blobs}?digest={digest}", content=body(content))
    assert code(await late) == (403, "DENIED")
    assert [answer.status_code for answer in answers] == [200]
    assert (await world.admin.get(f"{path}/manifests/latest")).content == manifests[0]
    assert code(await world.admin.get(f"{path}/blobs/{digest}")) == (404, "BLOB_UNKNOWN")


class Suspended:
    """A store at which something else happens right before the next write, as if the writer had been suspended."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.meanwhile: Callable[[], Awaitable[None]] | None = None

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if name not in {"put", "create", "put_file", "create_file", "copy", "delete"}:
            return method

        async def write(*arguments: Any) -> None:
            if (meanwhile := self.meanwhile) is not None:
                self.meanwhile = None
                await meanwhile()
            await method(*arguments)

        return write


@pytest.mark.parametrize("deleted", ["blob", "manifest", "tag", "upload"])
async def test_a_deletion_that_began_before_finalize_changes_nothing_after_it(deleted: str) -> None:
    engines = await make_engines()
    store = Suspended(engines.store)
    async with make_world(replace(engines, store=cast(Store, store))) as world:
        artifact = (await world.created("artifacts"))["id"]
        path, digest = f"http://api/v2/artifacts/{artifact}", digest_of(b"{}")
        assert (
            await world.admin.post(f"{path}/blobs/uploads/?digest={digest}", content=b"{}")
        ).status_code == 201
        config = {"mediaType": "application/json", "digest": digest, "size": 2}
        manifest = json.dumps({"schemaVersion": 2, "mediaType": MANIFEST, "config": config}).encode()
        named = {"Content-Type": MANIFEST}
        pushed = await world.admin.put(f"{path}/manifests/latest", content=manifest, headers=named)
        assert pushed.status_code == 201
        begun = (await world.admin.post(f"{path}/blobs/uploads/")).headers["Location"]
        addresses = {
            "blob": f"{path}/blobs/{digest}",
            "manifest": f"{path}/manifests/{digest_of(manifest)}",
            "tag": f"{path}/manifests/latest",
            "upload": f"http://api{begun}",
        }
        answers = []

        async def finalize() -> None:
            answers.append(await world.admin.post(f"/artifacts/{artifact}/finalize"))

        store.meanwhile = finalize
        late = await world.admin.delete(addresses[deleted])
        assert [answer.status_code for answer in answers] == [200]
        if deleted == "upload":
            assert late.status_code == 204
        else:
            assert code(late) == (403, "DENIED")
        assert (await world.admin.get(addresses["tag"])).content == manifest
        assert (await world.admin.get(addresses["manifest"])).content == manifest
        assert (await world.admin.get(addresses["blob"])).content == b"{}"
    await engines.accounts_database.close()


def test_what_was_deleted_before_finalize_is_gone_and_may_be_pushed_again(registry: Registry) -> None:
    layers = {name: registry.blob(name) for name in (b"kept", b"gone", b"again")}
    other = registry.manifest(layers[b"gone"])
    assert registry.push(digest_of(other), other).status_code == 201
    for path in (f"manifests/{digest_of(other)}", *(f"blobs/{layers[name]}" for name in (b"gone", b"again"))):
        assert registry.ask("DELETE", path).status_code == 202
        assert registry.ask("GET", path).status_code == 404
        assert registry.ask("DELETE", path).status_code == 404
    manifest = registry.manifest(layers[b"kept"], layers[b"again"])
    assert code(registry.push("latest", manifest)) == (404, "MANIFEST_BLOB_UNKNOWN")
    copy = Registry(registry.lab)
    mount = f"blobs/uploads/?mount={layers[b'again']}&from=artifacts/{registry.id}"
    assert copy.ask("POST", mount).status_code == 202, "a deleted blob is not mounted"
    registry.blob(b"again")
    assert copy.ask("POST", mount).status_code == 201
    assert registry.push("latest", manifest).status_code == 201
    assert registry.finalize().status_code == 200
    for path in (f"manifests/{digest_of(other)}", f"blobs/{layers[b'gone']}"):
        assert registry.ask("GET", path).status_code == 404
    assert registry.ask("GET", f"blobs/{layers[b'again']}").content == b"again"
    kept = sorted(path.name for path in (registry.folder / "blobs").iterdir())
    wanted = [digest_of(content) for content in (b"kept", b"again", b"{}")]
    assert kept == sorted(digest.removeprefix("sha256:") for digest in wanted)


def test_a_finalize_that_removed_nothing_yet_is_ended_by_its_repeat(registry: Registry) -> None:
    registry.push("latest", registry.manifest())
    gone = registry.blob(b"gone")
    registry.ask("DELETE", f"blobs/{gone}")
    assert registry.finalize().status_code == 200
    left = registry.folder / "blobs" / gone.removeprefix("sha256:")
    assert not left.exists()
    left.write_bytes(b"gone")  # as it is found where the first request was cut short
    assert registry.finalize().status_code == 200
    assert not left.exists()


def test_what_is_written_after_the_seal_leads_nowhere(registry: Registry) -> None:
    """A process may be suspended between its last check and its write."""
    manifest, other = registry.manifest(), registry.manifest(registry.blob(b"late"))
    registry.push("latest", manifest)
    registry.push(digest_of(other), other)
    assert registry.finalize().status_code == 200
    for tag in ("latest", "more"):
        (registry.folder / "tags" / tag).write_text(digest_of(other))
    assert registry.ask("GET", "manifests/latest").content == manifest
    assert code(registry.ask("GET", "manifests/more")) == (404, "MANIFEST_UNKNOWN")
    assert registry.ask("GET", "tags/list").json()["tags"] == ["latest"]


def test_a_finalize_that_was_cut_short_is_ended_by_its_repeat(registry: Registry) -> None:
    manifest = registry.manifest()
    registry.push("latest", manifest)
    (registry.folder / "sealed").write_text(json.dumps({"latest": digest_of(manifest)}))
    refused = registry.push("other", manifest)
    assert code(refused) == (403, "DENIED")
    assert "is being finalized" in refused.json()["errors"][0]["message"]
    assert registry.finalize().status_code == 200
    assert registry.ask("GET", "tags/list").json()["tags"] == ["latest"]


def test_a_seal_on_what_is_not_whole_is_broken_again(registry: Registry) -> None:
    manifest = registry.manifest()
    registry.push("latest", manifest)
    (registry.folder / "sealed").write_text(json.dumps({"gone": digest_of(b"deleted")}))
    refused = registry.finalize()
    assert (refused.status_code, refused.json()["field"]) == (422, "artifact")
    assert registry.push("other", manifest).status_code == 201
    assert registry.finalize().status_code == 200


def test_an_artifact_that_was_finalized_by_an_earlier_version_keeps_its_tags(registry: Registry) -> None:
    manifest = registry.manifest()
    registry.push("latest", manifest)
    assert registry.finalize().status_code == 200
    (registry.folder / "sealed").unlink()
    assert registry.ask("GET", "manifests/latest").content == manifest
    assert registry.ask("GET", "tags/list").json()["tags"] == ["latest"]
