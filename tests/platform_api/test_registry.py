"""The registry of artifacts, over HTTP: a real client of registries pushes and pulls, and each rule by itself."""

import json
import shutil
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlsplit

import httpx
import oras.client
import oras.decorator
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.api.http.access import AnyPrincipal, Grant, Public
from steelyard.api.http.routing import Route
from steelyard.api.registry.discovery import INDEX
from steelyard.api.registry.repository import MOST_MANIFESTS
from steelyard.api.registry.routes import registry_routes
from steelyard.api.registry.tagging import MOST_CHANGES
from steelyard.client import Client
from steelyard_evaluation.storage.store import ObjectInfo, Store
from tests.platform_api.memory_platform import MemoryPlatform, grant, make_engines, make_platform
from tests.platform_api.published import ACCOUNT, Laboratory, laboratory
from tests.platform_api.registry import MANIFEST, Registry, code, digest_of

ROUTES = tuple(registry_routes())
WITH_GRANT = tuple(route for route in ROUTES if isinstance(route.check, Grant))


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    with laboratory(tmp_path_factory.mktemp("registry")) as made:
        yield made


@pytest.fixture
def registry(lab: Laboratory) -> Registry:
    return Registry(lab)


def test_a_client_of_registries_pushes_and_pulls(registry: Registry, tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(bytes(range(256)) * 40_000)
    host = registry.root.removeprefix("http://")
    client = oras.client.OrasClient(hostname=host, insecure=True, auth_backend="basic")
    client.auth.set_basic_auth("unused", registry.lab.platform.token)
    target = f"{host}/artifacts/{registry.id}:latest"
    pushed = client.push(target=target, files=[str(tmp_path / "weights.bin")], disable_path_validation=True)
    assert pushed.status_code == 201
    assert client.get_tags(target) == ["latest"]
    with Client(registry.lab.platform.url, registry.lab.platform.token) as ours:
        ours.artifacts.finalize(registry.id)
    assert registry.lab.api.artifacts.get(registry.id).status == "Ready"
    (pulled,) = client.pull(target=target, outdir=str(tmp_path / "pulled"))
    assert Path(pulled).read_bytes() == (tmp_path / "weights.bin").read_bytes()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the client of registries fail where it would pause before it asks again: that takes two minutes."""

    def pause(seconds: float) -> None:
        pytest.fail(f"the client takes the answer for a failure that may pass, and waits {seconds} s")

    monkeypatch.setattr(oras.decorator, "time", SimpleNamespace(sleep=pause))


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("backend", ["token", "basic"])
def test_a_client_with_a_token_works_however_it_is_set_up(registry: Registry, backend: str) -> None:
    host = registry.root.removeprefix("http://")
    client = oras.client.OrasClient(hostname=host, insecure=True, auth_backend=backend)
    client.auth.set_basic_auth("unused", registry.lab.platform.token)
    registry.push("latest", registry.manifest())
    assert client.get_tags(f"{host}/artifacts/{registry.id}") == ["latest"]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("password", [None, "wrong"])
def test_a_client_without_a_token_gets_an_error_at_once(registry: Registry, password: str | None) -> None:
    host = registry.root.removeprefix("http://")
    client = oras.client.OrasClient(hostname=host, insecure=True)
    if password is not None:
        client.auth.set_basic_auth("unused", password)
    with pytest.raises(ValueError, match=r"Unauthorized|token"):
        client.get_tags(f"{host}/artifacts/{registry.id}")


def test_a_token_that_is_given_counts_as_its_password_does(registry: Registry) -> None:
    url, token = f"{registry.root}/v2/token", registry.lab.platform.token
    given = httpx.get(url, auth=("unused", token), timeout=60)
    assert (given.json()["token"], given.headers["Cache-Control"]) == (token, "no-store")
    for headers in ({}, {"Authorization": "Basic !"}, {"Authorization": "Basic dTp3cm9uZw=="}):
        useless = httpx.get(url, headers=headers, timeout=60).json()["token"]
        refused = httpx.get(
            f"{registry.root}/v2/", headers={"Authorization": f"Bearer {useless}"}, timeout=60
        )
        assert code(refused) == (401, "UNAUTHORIZED")


def test_an_artifact_that_is_not_there_is_named(registry: Registry) -> None:
    refused = registry.ask("GET", f"/v2/artifacts/{'0' * 32}/manifests/latest")
    (error,) = refused.json()["errors"]
    assert (refused.status_code, error["message"]) == (404, f"artifact: there is no OCIArtifact {'0' * 32}")


def test_manifests_are_bounded_in_number(registry: Registry) -> None:
    manifest, other = registry.manifest(), registry.manifest(registry.blob(b"more"))
    assert registry.push("latest", manifest).status_code == 201
    for number in range(MOST_MANIFESTS - 1):
        (registry.folder / "manifests" / f"{number:064x}").touch()
    assert code(registry.push(digest_of(other), other)) == (429, "TOOMANYREQUESTS")
    # One that is there already is no further one.
    assert registry.push("again", manifest).status_code == 201


def test_the_changes_of_a_tag_are_bounded_in_number(registry: Registry) -> None:
    manifest, other = registry.manifest(), registry.manifest(registry.blob(b"more"))
    assert registry.push("latest", manifest).status_code == 201
    first, last = (registry.folder / "tagging" / "latest" / f"{number:06d}" for number in (1, MOST_CHANGES))
    first.rename(last)
    assert code(registry.push("latest", other)) == (429, "TOOMANYREQUESTS")
    # A push that changes nothing is repeated as often as a client likes.
    assert registry.push("latest", manifest).status_code == 201


def test_a_blob_that_storage_cannot_send_is_logged(
    registry: Registry, caplog: pytest.LogCaptureFixture
) -> None:
    digest = registry.blob(bytes(32 << 20))  # more than the buffers of a connection hold
    blob = registry.folder / "blobs" / digest.removeprefix("sha256:")
    with httpx.stream(
        "GET", f"{registry.root}{registry.path}/blobs/{digest}", auth=registry.auth, timeout=60
    ) as got:
        pieces = got.iter_raw(1 << 20)
        next(pieces)
        blob.unlink()
        with pytest.raises(httpx.RemoteProtocolError):
            for _ in pieces:
                pass
    assert "a file could not be sent whole: " in caplog.text


@settings(max_examples=25, deadline=None)
@given(st.lists(st.binary(max_size=50), max_size=6), st.binary(max_size=20))
def test_chunks_of_any_sizes_make_one_blob(lab: Laboratory, chunks: list[bytes], last: bytes) -> None:
    registry = _shared(lab)
    content, location, end = b"".join(chunks) + last, registry.begin(), 0
    for chunk in chunks:
        place = {"Content_Range": f"{end}-{end + len(chunk) - 1}"} if chunk else {}
        answer = registry.ask("PATCH", location, chunk, **place)
        end += len(chunk)
        assert (answer.status_code, answer.headers["Range"]) == (202, f"0-{max(end - 1, 0)}")
    assert registry.ask("GET", location).headers["Range"] == f"0-{max(end - 1, 0)}"
    digest = digest_of(content)
    assert registry.ask("PUT", f"{location}?digest={digest}", last).status_code == 201
    assert registry.ask("GET", f"blobs/{digest}").content == content
    assert registry.ask("HEAD", f"blobs/{digest}").headers["Content-Length"] == str(len(content))
    assert code(registry.ask("GET", location)) == (404, "BLOB_UPLOAD_UNKNOWN")


@settings(max_examples=25, deadline=None)
@given(st.binary(max_size=40), st.binary(max_size=40))
def test_content_of_another_digest_is_not_kept(lab: Laboratory, content: bytes, announced: bytes) -> None:
    registry, digest = _shared(lab), digest_of(announced + b"never pushed")
    answer = registry.ask("PUT", f"{registry.begin()}?digest={digest}", content)
    assert code(answer) == (400, "DIGEST_INVALID")
    assert registry.ask("HEAD", f"blobs/{digest}").status_code == 404


@cache
def _shared(lab: Laboratory) -> Registry:
    """Return one repository for all examples."""
    return Registry(lab)


def test_an_upload_goes_on_after_its_connection_broke(registry: Registry) -> None:
    location, content = registry.begin(), b"0123456789" * 1000
    assert registry.ask("PATCH", location, content[:4000]).status_code == 202
    address = urlsplit(registry.root)
    with socket.create_connection((str(address.hostname), int(address.port or 0))) as broken:
        head = (
            f"PATCH {location} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {registry.lab.platform.token}\r\n"
        )
        broken.sendall(f"{head}Content-Length: 6000\r\n\r\n".encode() + content[4000:5000])
    assert registry.ask("GET", location).headers["Range"] == "0-3999"
    misplaced = registry.ask("PATCH", location, b"x", Content_Range="5000-5000")
    assert code(misplaced) == (416, "BLOB_UPLOAD_INVALID")
    assert misplaced.headers["Range"] == "0-3999"
    assert registry.ask("PATCH", location, content[4000:], Content_Range="4000-9999").status_code == 202
    digest = digest_of(content)
    assert registry.ask("PUT", f"{location}?digest={digest}").status_code == 201
    assert registry.ask("GET", f"blobs/{digest}").content == content


def test_an_upload_goes_on_from_its_last_chunk_whatever_was_noted_of_it(registry: Registry) -> None:
    content = b"0123456789"
    location = registry.begin()
    assert registry.ask("PATCH", location, content[:2]).status_code == 202
    extents = registry.lab.folder / "storage" / "staging" / registry.id / "extents"
    note = extents / location.rpartition("/")[2]
    written = note.read_bytes()
    for number in (2, 4):
        assert registry.ask("PATCH", location, content[number : number + 2]).status_code == 202
    note.write_bytes(written)  # as a crash leaves it after a chunk, or a slower request
    assert registry.ask("GET", location).headers["Range"] == "0-5"
    note.unlink()
    assert registry.ask("PATCH", location, content[6:], Content_Range="6-9").status_code == 202
    digest = digest_of(content)
    assert registry.ask("PUT", f"{location}?digest={digest}").status_code == 201


class Counting:
    """A store that counts the objects that it lists and looks up."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def head(self, key: str) -> ObjectInfo:
        self.count += 1
        return await self._store.head(key)

    async def list(self, prefix: str = "") -> AsyncIterator[ObjectInfo]:
        async for info in self._store.list(prefix):
            self.count += 1
            yield info


async def test_each_chunk_of_an_upload_costs_the_same() -> None:
    engines = await make_engines()
    store = Counting(engines.store)
    async with make_platform(replace(engines, store=cast(Store, store))) as platform:
        made = await platform.created("artifacts")
        begun = await platform.admin.post(f"http://api/v2/artifacts/{made['id']}/blobs/uploads/")
        location, costs = f"http://api{begun.headers['Location']}", []
        for _ in range(30):
            before = store.count
            assert (await platform.admin.patch(location, content=b"x")).status_code == 202
            costs.append(store.count - before)
        assert (costs[0], set(costs)) == (costs[-1], {costs[0]})
        finished = await platform.admin.put(location, params={"digest": digest_of(b"x" * 30)})
        assert finished.status_code == 201


def test_a_cancelled_upload_is_gone(registry: Registry) -> None:
    location = registry.begin()
    registry.ask("PATCH", location, b"content")
    staged = registry.lab.folder / "storage" / "staging" / registry.id
    files = [path for path in staged.rglob("*") if path.is_file()]
    assert len(files) == 3, "its beginning, a chunk and how far it is"
    assert registry.ask("DELETE", location).status_code == 204
    assert code(registry.ask("PATCH", location, b"content")) == (404, "BLOB_UPLOAD_UNKNOWN")
    assert [path for path in staged.rglob("*") if path.is_file()] == []


def test_a_chunk_of_another_length_than_announced_is_refused(registry: Registry) -> None:
    assert code(registry.ask("PATCH", registry.begin(), b"abc", Content_Range="0-9")) == (400, "SIZE_INVALID")


def test_ranges_of_blobs(registry: Registry) -> None:
    digest = registry.blob(b"0123456789")
    part = registry.ask("GET", f"blobs/{digest}", Range="bytes=2-4")
    assert (part.status_code, part.content, part.headers["Content-Range"]) == (206, b"234", "bytes 2-4/10")
    assert code(registry.ask("GET", f"blobs/{digest}", Range="bytes=10-")) == (416, "UNSUPPORTED")
    assert code(registry.ask("GET", f"blobs/{digest_of(b'none')}")) == (404, "BLOB_UNKNOWN")
    invalid = registry.ask("GET", "blobs/sha256:1")
    assert code(invalid) == (400, "DIGEST_INVALID")
    assert "'sha256:1'" in invalid.json()["errors"][0]["message"]


def test_a_blob_is_mounted_from_an_artifact_that_the_caller_may_read(registry: Registry) -> None:
    source = Registry(registry.lab)
    digest = source.blob(b"shared")
    mount = f"blobs/uploads/?mount={digest}&from=artifacts/"
    assert registry.ask("POST", f"{mount}{source.id}").status_code == 201
    assert registry.ask("GET", f"blobs/{digest}").content == b"shared"
    assert registry.ask("POST", f"{mount}{'0' * 32}").status_code == 202, "it has to be uploaded"


async def test_a_blob_is_not_mounted_from_an_artifact_that_the_caller_may_not_read(
    platform: MemoryPlatform,
) -> None:
    source, target = await platform.created("artifacts"), await platform.created("artifacts")
    digest, root = digest_of(b"secret"), "http://api/v2/artifacts"
    upload = f"{root}/{source['id']}/blobs/uploads/?digest={digest}"
    assert (await platform.admin.post(upload, content=b"secret")).status_code == 201
    mount = f"{root}/{target['id']}/blobs/uploads/?mount={digest}&from=artifacts/{source['id']}"
    writer = await platform.holder(grant("artifacts", ["create", "get"], ["acme"]))
    assert (await writer.post(mount)).status_code == 202, "it has to be uploaded"
    assert (await platform.admin.head(f"{root}/{target['id']}/blobs/{digest}")).status_code == 404
    reader = await platform.holder(grant("artifacts", ["create", "data"], ["acme"]))
    assert (await reader.post(mount)).status_code == 201
    assert (await platform.admin.get(f"{root}/{target['id']}/blobs/{digest}")).content == b"secret"


def test_manifests_by_tag_and_digest(registry: Registry) -> None:
    manifest = registry.manifest(registry.blob(b"layer"))
    digest = digest_of(manifest)
    for reference in ("v1", "v2", digest):
        answer = registry.push(reference, manifest)
        assert (answer.status_code, answer.headers["Docker-Content-Digest"]) == (201, digest)
        got = registry.ask("GET", f"manifests/{reference}")
        assert (got.content, got.headers["Content-Type"]) == (manifest, MANIFEST)
        head = registry.ask("HEAD", f"manifests/{reference}")
        assert (head.status_code, head.headers["Content-Length"]) == (200, str(len(manifest)))
    assert registry.ask("DELETE", "manifests/v1").status_code == 202
    assert code(registry.ask("GET", "manifests/v1")) == (404, "MANIFEST_UNKNOWN")
    assert registry.ask("DELETE", f"manifests/{digest}").status_code == 202
    assert registry.ask("GET", "tags/list").json()["tags"] == []
    assert code(registry.ask("GET", f"manifests/{digest}")) == (404, "MANIFEST_UNKNOWN")


def test_a_browser_runs_nothing_of_a_manifest(registry: Registry) -> None:
    manifest = b'{"schemaVersion": 2, "page": "<script>alert(1)</script>"}'
    assert registry.ask("PUT", "manifests/page", manifest, Content_Type="text/html").status_code == 201
    got = registry.ask("GET", "manifests/page")
    assert got.headers["Content-Security-Policy"].startswith("sandbox;")
    assert got.headers["X-Content-Type-Options"] == "nosniff"


def test_manifests_that_are_refused(registry: Registry) -> None:
    missing = registry.manifest(digest_of(b"never pushed"))
    assert code(registry.push("latest", missing)) == (404, "MANIFEST_BLOB_UNKNOWN")
    assert code(registry.push("latest", b"{")) == (400, "MANIFEST_INVALID")
    assert code(registry.push("latest", b'{"schemaVersion": 2, "layers": [1]}')) == (400, "MANIFEST_INVALID")
    assert code(registry.push("-no", registry.manifest())) == (400, "TAG_INVALID")
    assert code(registry.push(digest_of(b"other"), registry.manifest())) == (400, "DIGEST_INVALID")
    assert code(registry.push("latest", b" " * (4 << 20) + b"{}")) == (413, "SIZE_INVALID")
    assert registry.ask("GET", "tags/list").json() == {"name": f"artifacts/{registry.id}", "tags": []}


def test_the_list_of_tags_in_pages(registry: Registry) -> None:
    manifest, names = registry.manifest(), ["a", "a-b", "b", "d", "e"]
    for name in reversed(names):
        registry.push(name, manifest)
    seen, path = [], "tags/list?n=2"
    while True:
        page = registry.ask("GET", path)
        seen.append(page.json()["tags"])
        if "Link" not in page.headers:
            break
        path = page.headers["Link"].partition(">")[0].removeprefix("<")
    assert seen == [["a", "a-b"], ["b", "d"], ["e"]]
    assert registry.ask("GET", "tags/list?last=c").json()["tags"] == ["d", "e"]
    assert code(registry.ask("GET", "tags/list?n=x")) == (400, "TAG_INVALID")


def listed(registry: Registry, path: str) -> list[dict[str, Any]]:
    """Return what a list of referrers names, over all of its pages."""
    named = []
    while path:
        page = registry.ask("GET", path)
        assert (page.status_code, page.headers["Content-Type"]) == (200, INDEX)
        named += page.json()["manifests"]
        path = page.headers.get("Link", "").partition(">")[0].removeprefix("<")
    return named


def test_the_referrers_of_a_manifest(registry: Registry) -> None:
    manifest = registry.manifest()
    subject = digest_of(manifest)
    signature = registry.referrer(subject, kind="application/vnd.example.signature")
    attestation = registry.referrer(subject, 1)
    for pushed in (signature, attestation):  # before their subject, as the specification allows
        answer = registry.push(digest_of(pushed), pushed)
        assert (answer.status_code, answer.headers["OCI-Subject"]) == (201, subject)
    assert "OCI-Subject" not in registry.push("latest", manifest).headers
    shown = {one["digest"]: one for one in listed(registry, f"referrers/{subject}")}
    assert shown.keys() == {digest_of(signature), digest_of(attestation)}
    assert shown[digest_of(signature)] == {
        "mediaType": MANIFEST,
        "digest": digest_of(signature),
        "size": len(signature),
        "artifactType": "application/vnd.example.signature",
        "annotations": {"number": "0"},
    }
    # An image without a type is known by that of its configuration.
    assert shown[digest_of(attestation)]["artifactType"] == "application/octet-stream"
    filtered = registry.ask("GET", f"referrers/{subject}?artifactType=application/vnd.example.signature")
    assert [one["digest"] for one in filtered.json()["manifests"]] == [digest_of(signature)]
    assert filtered.headers["OCI-Filters-Applied"] == "artifactType"
    assert listed(registry, f"referrers/{digest_of(b'never pushed')}") == []
    for path in ("referrers/sha256:1", f"referrers/{subject}?last=x"):
        assert code(registry.ask("GET", path)) == (400, "DIGEST_INVALID")
    assert registry.ask("DELETE", f"manifests/{digest_of(signature)}").status_code == 202
    assert [one["digest"] for one in listed(registry, f"referrers/{subject}")] == [digest_of(attestation)]
    assert registry.push("signature", signature).status_code == 201
    assert len(listed(registry, f"referrers/{subject}")) == 2
    for wrong in ({"digest": "sha256:1"}, {"size": 1}, "x"):
        assert registry.push("wrong", registry.manifest(subject=wrong)).status_code == 400


def test_the_referrers_of_a_manifest_in_pages(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    subject = digest_of(b"")
    pushed = [registry.referrer(subject, number, kind=f"a/{number % 2}") for number in range(5)]
    for manifest in pushed:
        registry.push(digest_of(manifest), manifest)
    for limit, value in (("PAGE_REFERRERS", 2), ("PAGE_BYTES", 1)):
        with monkeypatch.context() as patched:
            patched.setattr(f"steelyard.api.registry.referrers.{limit}", value)
            first = registry.ask("GET", f"referrers/{subject}").json()["manifests"]
            assert len(first) == value
            assert {one["digest"] for one in listed(registry, f"referrers/{subject}")} == {
                digest_of(manifest) for manifest in pushed
            }
            assert len(listed(registry, f"referrers/{subject}?artifactType=a/1")) == 2


@pytest.mark.parametrize("is_finalized", [False, True], ids=["open", "finalized"])
def test_the_referrers_that_an_earlier_version_took_are_listed(
    registry: Registry, *, is_finalized: bool
) -> None:
    manifest = registry.manifest()
    referrer = registry.referrer(digest_of(manifest))
    for pushed in (manifest, referrer):
        registry.push(digest_of(pushed), pushed)
    registry.push("latest", manifest)
    # That version kept no list.
    shutil.rmtree(registry.folder / "referrers")
    (registry.folder / "referrers-indexed").unlink()
    if is_finalized:
        assert registry.finalize().status_code == 200
    for _ in range(2):
        (shown,) = listed(registry, f"referrers/{digest_of(manifest)}")
        assert shown["digest"] == digest_of(referrer)
    sealed = registry.folder / "sealed"
    if is_finalized:  # and its seal says nothing about them
        content = json.loads(sealed.read_bytes())
        assert content.pop("referrers") == [f"{digest_of(manifest)[7:]}/{digest_of(referrer)[7:]}"]
        sealed.write_text(json.dumps(content))
        assert len(listed(registry, f"referrers/{digest_of(manifest)}")) == 1


def test_a_finalized_artifact_lists_the_referrers_that_it_had(registry: Registry) -> None:
    manifest = registry.manifest()
    subject = digest_of(manifest)
    kept, late = registry.referrer(subject), registry.referrer(subject, 1)
    for pushed in (manifest, kept):
        registry.push(digest_of(pushed), pushed)
    registry.push("latest", manifest)
    assert registry.finalize().status_code == 200
    # As a push leaves it that was suspended until now: its client has no answer yet, and will be refused.
    index = registry.folder / "referrers" / subject.removeprefix("sha256:")
    (index / digest_of(late).removeprefix("sha256:")).write_text(json.dumps({"digest": digest_of(late)}))
    assert [one["digest"] for one in listed(registry, f"referrers/{subject}")] == [digest_of(kept)]


def test_a_deleted_artifact_has_no_repository(registry: Registry) -> None:
    assert registry.push("latest", registry.manifest()).status_code == 201
    registry.lab.api.artifacts.delete(registry.id)
    assert code(registry.ask("GET", "manifests/latest")) == (404, "NAME_UNKNOWN")


def test_who_has_no_token_is_asked_for_it(registry: Registry) -> None:
    forms = "should be 'Bearer' and a token, or 'Basic' with a token as the password"
    for headers, message in (
        ({}, forms),
        ({"Authorization": "Basic !"}, forms),
        ({"Authorization": "Basic YTpi"}, "token"),
    ):
        answer = httpx.get(f"{registry.root}/v2/", headers=headers, timeout=60)
        assert code(answer) == (401, "UNAUTHORIZED")
        assert message in answer.json()["errors"][0]["message"]
        assert answer.headers["WWW-Authenticate"] == f'Basic realm="{registry.root}/v2/token"'
    assert registry.ask("GET", "/v2/").json() == {}
    # Only the registry takes a password.
    url, credentials = f"{registry.root}/v0/artifacts", ("unused", registry.lab.platform.token)
    assert httpx.get(url, auth=credentials, timeout=60).status_code == 401
    other = registry.ask("GET", "/v2/other/name/tags/list")
    assert code(other) == (404, "NAME_UNKNOWN")
    said = "a repository's name is artifacts/<id of an artifact>, without the name that `helm push` adds"
    assert said in other.json()["errors"][0]["message"]
    assert code(registry.ask("POST", "/v2/")) == (405, "UNSUPPORTED")


def test_every_route_of_the_registry_checks_its_caller() -> None:
    assert [route.path for route in ROUTES if isinstance(route.check, AnyPrincipal)] == ["/v2/"]
    assert [route.path for route in ROUTES if isinstance(route.check, Public)] == ["/v2/token"]
    assert len(WITH_GRANT) == len(ROUTES) - 2
    for route in WITH_GRANT:
        assert isinstance(route.check, Grant)
        reads = route.method in {"GET", "HEAD"} and "upload" not in route.path
        assert route.check == Grant("artifacts", "data" if reads else "create"), route


@pytest.mark.parametrize("route", WITH_GRANT, ids=lambda route: f"{route.method} {route.path}")
async def test_each_route_with_each_grant(platform: MemoryPlatform, route: Route) -> None:
    made = await platform.created("artifacts")
    assert isinstance(route.check, Grant)
    needed, lacking = route.check.function, "create" if route.check.function == "data" else "data"
    values = {"{id}": made["id"], "{digest}": digest_of(b""), "{reference}": "latest", "{upload}": "0" * 32}
    path = route.path
    for name, value in values.items():
        path = path.replace(name, value)

    async def asked(client: httpx.AsyncClient) -> int:
        return (await client.request(route.method, f"http://api{path}")).status_code

    assert await asked(platform.client(None)) == 401
    assert await asked(platform.client("not.a.token")) == 401
    assert await asked(await platform.holder(grant("artifacts", [lacking], ["*"]))) == 403
    assert await asked(await platform.holder(grant("models", ["*"], ["*"]))) == 403
    foreign = await platform.holder(grant("artifacts", [needed], ["other"]))
    response = await foreign.request(route.method, f"http://api{path}")
    assert response.status_code == 404
    if route.method != "HEAD":
        assert code(response) == (404, "NAME_UNKNOWN")
    allowed = await asked(await platform.holder(grant("artifacts", [needed], ["acme"])))
    assert allowed not in {401, 403, 500}


def test_the_account_of_the_artifact_is_its_creators(registry: Registry) -> None:
    assert registry.lab.api.artifacts.get(registry.id).account == ACCOUNT


def test_content_that_was_changed_in_storage_is_not_pulled(registry: Registry) -> None:
    digest = registry.blob(b"a" * 100)
    content = registry.manifest(digest)
    answer = registry.ask("PUT", "manifests/latest", content, Content_Type=MANIFEST)
    assert answer.status_code == 201, answer.text
    for path, folder in ((f"blobs/{digest}", "blobs"), ("manifests/latest", "manifests")):
        assert registry.ask("GET", path).status_code == 200
        for file in (registry.folder / folder).rglob("*"):
            if file.is_file():
                data = bytearray(file.read_bytes())
                data[-1] ^= 1
                file.write_bytes(data)
        refused = registry.ask("GET", path)
        assert (refused.status_code, refused.json()["errors"][0]["code"]) == (409, "DIGEST_INVALID")
    assert registry.ask("GET", f"blobs/{digest}", Range="bytes=0-9").status_code == 409
