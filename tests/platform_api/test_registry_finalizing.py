"""Finalizing an artifact: only complete content is taken, and from then on nothing changes it."""

import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from steelyard.api.registry import manifests
from steelyard.api.registry.repository import Repository
from steelyard.api.registry.sealing import Seal
from steelyard_evaluation.storage.store import Store, open_store
from tests.platform_api.memory_platform import MemoryPlatform
from tests.platform_api.published import Laboratory, laboratory
from tests.platform_api.registry import MANIFEST, Registry, code, digest_of


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
    write_earlier_tag(registry, "lost", b"deleted")
    refused = registry.finalize()
    assert refused.status_code == 422
    assert "tag lost leads to a manifest that is not there" in refused.json()["detail"]
    assert registry.push("lost", manifest).status_code == 201
    assert registry.finalize().status_code == 200


class CountedStore:
    """A store that counts what it is asked."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.asked: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        self.asked[name] += 1
        return getattr(self._store, name)


async def index_of(repository: Repository, indexes: int, layers: int) -> Seal:
    """Write manifests that all name the same layers, and return the content of the artifact."""
    named = [digest_of(bytes([number])) for number in range(layers)]
    for digest in named:
        await repository.store.put(repository.blob(digest), b"")
    for number in range(indexes):
        descriptors = [{"digest": digest} for digest in named]
        content = json.dumps({"schemaVersion": 2, "layers": descriptors, "number": number}).encode()
        await repository.store.put(repository.manifest(digest_of(content)), b"a/b\n" + content)
    return Seal({"latest": digest_of(content)})


async def test_the_store_is_asked_for_no_blob_of_a_manifest(monkeypatch: pytest.MonkeyPatch) -> None:
    """10,000 manifests of 10,000 layers would be as many questions as there are layers in them."""
    store = CountedStore(open_store("memory://counted"))
    repository = Repository("a" * 32, store)
    content = await index_of(repository, 20, 50)
    store.asked.clear()
    assert await manifests.missing(repository, content) is None
    # Each manifest is read, and whether it was deleted meanwhile is asked of two places.
    assert store.asked == {"get": 20, "head": 20, "list": 2 + 20}
    monkeypatch.setattr(manifests, "MOST_NAMED", 49)
    said = "its manifests name more than 49 blobs and manifests, which are allowed"
    assert await manifests.missing(repository, content) == said
    store.asked.clear()
    monkeypatch.setattr(manifests, "MANIFESTS_BYTES", 999)
    said = "its manifests have [0-9]+ bytes, of which 999 are allowed"
    assert re.fullmatch(said, str(await manifests.missing(repository, content)))
    assert store.asked == {"list": 1}


def write_earlier_tag(registry: Registry, tag: str, manifest: bytes) -> None:
    """Write a tag as an earlier version of the platform did."""
    (registry.folder / "tags").mkdir(exist_ok=True)
    (registry.folder / "tags" / tag).write_text(digest_of(manifest))


def test_the_tags_and_deletions_of_an_earlier_version_count(registry: Registry) -> None:
    """The artifact was open when the platform was updated."""
    manifest, other = registry.manifest(), registry.manifest(registry.blob(b"other"))
    for pushed in (manifest, other):
        assert registry.push(digest_of(pushed), pushed).status_code == 201
    for tag in ("kept", "moved", "deleted"):
        write_earlier_tag(registry, tag, manifest)
    write_earlier_tag(registry, "lost", other)
    mark = registry.folder / "deleted" / "manifests" / digest_of(other).removeprefix("sha256:")
    mark.parent.mkdir(parents=True)
    mark.touch()
    assert code(registry.ask("GET", "manifests/lost")) == (404, "MANIFEST_UNKNOWN")
    assert registry.push("moved", other).status_code == 201
    assert registry.ask("DELETE", "manifests/deleted").status_code == 202
    assert registry.ask("GET", "tags/list").json()["tags"] == ["kept", "moved"]
    assert registry.finalize().status_code == 200
    for tag, content in (("kept", manifest), ("moved", other)):
        assert registry.ask("GET", f"manifests/{tag}").content == content
    assert registry.ask("GET", "tags/list").json()["tags"] == ["kept", "moved"]


def test_tags_that_an_earlier_version_deleted_with_their_manifest_do_not_come_back(
    registry: Registry,
) -> None:
    """The manifest was pushed again since, by its digest or with another tag."""
    manifest = registry.manifest()
    assert registry.push(digest_of(manifest), manifest).status_code == 201
    for tag in ("kept", "gone", "restored"):
        write_earlier_tag(registry, tag, manifest)
    for tag in ("gone", "restored"):
        mark = registry.folder / "untagged" / tag / digest_of(manifest).removeprefix("sha256:")
        mark.parent.mkdir(parents=True)
        mark.touch()
    assert registry.ask("GET", "tags/list").json()["tags"] == ["kept"]
    assert code(registry.ask("GET", "manifests/gone")) == (404, "MANIFEST_UNKNOWN")
    assert registry.push("restored", manifest).status_code == 201
    assert registry.ask("GET", "tags/list").json()["tags"] == ["kept", "restored"]
    assert registry.finalize().status_code == 200
    assert registry.ask("GET", "tags/list").json()["tags"] == ["kept", "restored"]


@pytest.mark.parametrize("kind", ["manifest", "blob"])
async def test_a_push_that_began_before_finalize_changes_nothing_after_it(
    platform: MemoryPlatform, kind: str
) -> None:
    artifact = (await platform.created("artifacts"))["id"]
    path, content = f"http://api/v2/artifacts/{artifact}", b"slow"
    blobs, digest = f"{path}/blobs/uploads/", digest_of(content)
    config = {"mediaType": "application/json", "digest": digest_of(b"{}"), "size": 2}
    manifests = [
        json.dumps({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "name": name}).encode()
        for name in ("early", "late")
    ]
    named = {"Content-Type": MANIFEST}
    assert (await platform.admin.post(f"{blobs}?digest={config['digest']}", content=b"{}")).status_code == 201
    early = await platform.admin.put(f"{path}/manifests/latest", content=manifests[0], headers=named)
    assert early.status_code == 201
    answers = []

    async def body(content: bytes) -> AsyncIterator[bytes]:
        yield content[:1]
        # The request is past the check of the artifact's status: it has asked for the rest of its body.
        answers.append(await platform.admin.post(f"/artifacts/{artifact}/finalize"))
        yield content[1:]

    if kind == "manifest":
        late = platform.admin.put(f"{path}/manifests/latest", content=body(manifests[1]), headers=named)
    else:
        late = platform.admin.post(f"{blobs}?digest={digest}", content=body(content))
    assert code(await late) == (403, "DENIED")
    assert [answer.status_code for answer in answers] == [200]
    assert (await platform.admin.get(f"{path}/manifests/latest")).content == manifests[0]
    assert code(await platform.admin.get(f"{path}/blobs/{digest}")) == (404, "BLOB_UNKNOWN")


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
        change = registry.folder / "tagging" / tag / "000002"
        change.parent.mkdir(exist_ok=True)
        change.write_text(f"{digest_of(other).removeprefix('sha256:')} 0")
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
    assert f"POST /v0/artifacts/{registry.id}/finalize" in refused.json()["errors"][0]["message"]
    assert registry.finalize().status_code == 200
    assert registry.ask("GET", "tags/list").json()["tags"] == ["latest"]


def test_who_repeats_a_push_after_a_finalize_that_was_cut_short_finishes_it(registry: Registry) -> None:
    """All of the same push is accepted, as if it came before: blobs, the manifest by its digest and by its tag."""
    manifest = registry.manifest(registry.blob(b"layer"))
    assert registry.push("latest", manifest).status_code == 201
    (registry.folder / "sealed").write_text(
        json.dumps({"tags": {"latest": digest_of(manifest)}, "deleted": []})
    )
    again = registry.manifest(registry.blob(b"layer"))
    assert again == manifest
    mount = f"blobs/uploads/?mount={digest_of(b'layer')}&from=artifacts/{registry.id}"
    assert registry.ask("POST", mount).status_code == 201
    for reference in (digest_of(manifest), "latest"):
        assert registry.push(reference, manifest).status_code == 201
    other = registry.ask("PUT", f"{registry.begin()}?digest={digest_of(b'other')}", b"other")
    assert code(other) == (403, "DENIED")
    assert registry.finalize().status_code == 200
    assert registry.ask("GET", "manifests/latest").content == manifest


def test_an_artifact_that_was_finalized_by_an_earlier_version_keeps_its_tags(registry: Registry) -> None:
    manifest = registry.manifest()
    registry.push(digest_of(manifest), manifest)
    write_earlier_tag(registry, "latest", manifest)
    assert registry.finalize().status_code == 200
    (registry.folder / "sealed").unlink()
    assert registry.ask("GET", "manifests/latest").content == manifest
    assert registry.ask("GET", "tags/list").json()["tags"] == ["latest"]
