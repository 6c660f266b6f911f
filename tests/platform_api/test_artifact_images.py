"""Images that were pushed as artifacts, in inference services: what runs is the digest of the day of creation."""

import hashlib
import json
from collections.abc import AsyncIterator

import pytest

from steelyard.api.settings import ApiSettings
from steelyard.services.orchestrator.manifest import manifest
from steelyard_common.types import Json
from steelyard_schema.entities import parse_entity
from tests.platform_api.memory_platform import MemoryPlatform, dataset, grant, make_platform, service

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
HOST = "registry.example.com:5000"


@pytest.fixture
async def platform() -> AsyncIterator[MemoryPlatform]:
    async with make_platform(settings=ApiSettings(image_registry=HOST)) as made:
        yield made


async def pushed(platform: MemoryPlatform, tag: str = "latest", *, final: bool = True) -> tuple[str, str]:
    """Push an image; return the artifact's id and the image's digest."""
    id = (await platform.created("artifacts"))["id"]
    path = f"http://api/v2/artifacts/{id}"
    config = {
        "mediaType": "application/json",
        "digest": f"sha256:{hashlib.sha256(b'{}').hexdigest()}",
        "size": 2,
    }
    content = json.dumps({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": []}).encode()
    await platform.admin.post(f"{path}/blobs/uploads/?digest={config['digest']}", content=b"{}")
    headers = {"Content-Type": MANIFEST}
    answer = await platform.admin.put(f"{path}/manifests/{tag}", content=content, headers=headers)
    assert answer.status_code == 201, answer.text
    if final:
        assert (await platform.admin.post(f"/artifacts/{id}/finalize")).status_code == 200
    return id, f"sha256:{hashlib.sha256(content).hexdigest()}"


def of_artifact(id: str, kind: str = "OCIArtifact") -> Json:
    fields = service()
    runner = {name: value for name, value in fields["runner"].items() if name != "image"}
    return {**fields, "runner": {**runner, "kind": "container", "imageRef": {"id": id, "kind": kind}}}


async def test_a_pushed_image_runs_in_sessions_and_evaluations(platform: MemoryPlatform) -> None:
    artifact, digest = await pushed(platform)
    made = await platform.created("inferenceservices", **of_artifact(artifact))
    assert made["runner"]["imageRef"] == {"id": artifact, "kind": "OCIArtifact"}
    session = (await platform.created("inferencesessions", inferenceService=made["id"]))["inferencesession"]
    data = await platform.created("datasets", **dataset())
    asked = {"dataset": data["id"], "inferenceSession": {"inferenceService": made["id"]}}
    evaluation = await platform.created("evaluations", **asked)
    image = {"host": HOST, "name": f"artifacts/{artifact}", "digest": digest}
    for entity, path in (
        (made, ()),
        (session, ("inferenceService",)),
        (evaluation, ("inferenceSession", "inferenceService")),
    ):
        spec = manifest(parse_entity(json.dumps(entity).encode()))["spec"]
        for name in path:
            spec = spec[name]
        assert spec["runner"]["image"] == image


async def test_an_artifact_without_an_image_to_run_is_refused(platform: MemoryPlatform) -> None:
    unfinished, _ = await pushed(platform, final=False)
    untagged, _ = await pushed(platform, "v1")
    model = (await platform.created("usecases"))["id"]
    for fields, field, named in (
        (of_artifact(unfinished), "runner.imageRef", "finalize it first"),
        (of_artifact(untagged), "runner.imageRef", "has no tag latest; it has v1"),
        (of_artifact("0" * 32), "runner.imageRef", "there is no OCIArtifact"),
        (of_artifact(model, "UseCase"), "runner.imageRef.kind", "only an OCIArtifact"),
    ):
        refused = await platform.admin.post("/inferenceservices", json={"account": "acme", **fields})
        assert (refused.status_code, refused.json()["field"]) == (422, field), refused.text
        assert named in refused.json()["detail"]


async def test_it_takes_the_right_to_use_the_artifact(platform: MemoryPlatform) -> None:
    artifact, _ = await pushed(platform)
    creator = await platform.holder(grant("inferenceservices", ["create"], ["acme"]))
    body = {"account": "acme", **of_artifact(artifact)}
    assert (await creator.post("/inferenceservices", json=body)).status_code == 422
    user = await platform.holder(
        grant("inferenceservices", ["create"], ["acme"]), grant("artifacts", ["consume"], ["acme"])
    )
    assert (await user.post("/inferenceservices", json=body)).status_code == 200


async def test_without_an_address_for_nodes_it_is_refused() -> None:
    async with make_platform() as platform:
        artifact, _ = await pushed(platform)
        body = {"account": "acme", **of_artifact(artifact)}
        refused = await platform.admin.post("/inferenceservices", json=body)
    assert (refused.status_code, refused.json()["field"]) == (422, "runner.imageRef")
    assert "api.image_registry" in refused.json()["detail"]
