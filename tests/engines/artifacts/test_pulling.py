"""A node pulls what a client of registries has pushed to an artifact, with the secret of an account, and runs it."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import oras.client
import pytest

from steelyard.client import Client
from steelyard_schema.inference_service import InferenceService
from tests.engines.artifacts.images import CONFIGURATION, LAYER, Image, make_server
from tests.engines.artifacts.platform import REGISTRY, Platform, platform
from tests.engines.node.cluster import NODE, ROOT
from tests.kubernetes_api.api import Api

pytestmark = pytest.mark.skipif(NODE in os.environ, reason=f"{NODE} names a cluster without our registry")
ACCOUNT = "team"
SECONDS = 180.0
T = TypeVar("T")


@pytest.fixture(scope="module")
def running() -> Iterator[Platform]:
    with platform() as made:
        command(made, "account", "create", ACCOUNT)
        yield made


@pytest.fixture
def client(running: Platform) -> Iterator[Client]:
    with Client(running.url, running.token) as made:
        yield made


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    return make_server(tmp_path_factory.mktemp("image"))


def command(running: Platform, *words: str, stdin: str = "") -> str:
    """Run `steelyard` as an administrator of the platform; return what it prints."""
    environment = {"STEELYARD_API_ENDPOINT": running.url, "STEELYARD_API_TOKEN": running.token}
    done = subprocess.run(
        [sys.executable, "-m", "steelyard.cli.main", *words],
        cwd=ROOT,
        env=os.environ | environment,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def until(read: Callable[[], T], done: Callable[[T], object]) -> T:
    """Return the first state that is `done`."""
    end = time.monotonic() + SECONDS
    while not done(state := read()):
        assert time.monotonic() < end, f"not within {SECONDS:g} s; last: {state}"
        time.sleep(0.2)
    return state


def push(running: Platform, image: Image, artifact: str) -> str:
    """Push an image to an artifact; return its digest."""
    registry = oras.client.OrasClient(hostname=running.host, insecure=True, auth_backend="basic")
    registry.auth.set_basic_auth("unused", running.token)
    pushed = registry.push(
        target=f"{running.host}/artifacts/{artifact}:latest",
        files=[f"{path}:{LAYER}" for path in image.layers],
        manifest_config=f"{image.configuration}:{CONFIGURATION}",
        disable_path_validation=True,
    )
    assert pushed.status_code == 201
    return str(pushed.headers["Docker-Content-Digest"])


def serve(client: Client, artifact: str, **fields: Any) -> InferenceService:
    runner = {
        "kind": "container",
        "imageRef": {"kind": "OCIArtifact", "id": artifact},
        "resources": {"cpu": "50m", "memory": "64Mi"},
    }
    interface = {"endpoint": "cgi-bin/answer", "outputSchema": {"arrowSchema": ""}}
    return client.inferenceservices.create(
        account=ACCOUNT, name="pushed", runner=runner, interface=interface, **fields
    )


@pytest.mark.timeout(900)
async def test_a_session_runs_a_pushed_image_which_its_node_pulls_with_the_secret_of_the_account(
    running: Platform, client: Client, image: Image
) -> None:
    artifact = client.artifacts.create(account=ACCOUNT).id
    digest = push(running, image, artifact)
    client.artifacts.finalize(artifact)
    token = command(running, "token", ACCOUNT, "--resources", "artifacts", "--functions", "get,data")
    names = ("--account", ACCOUNT, "--registry", REGISTRY, "--username", "unused", "--file", "-")
    command(running, "secret", "set", "images", *names, stdin=token)

    service = serve(client, artifact, secrets={"imagePull": "images"})
    session = client.inferencesessions.create(account=ACCOUNT, inferenceService=service.id)
    id = session.inferencesession.id
    until(lambda: client.inferencesessions.ready(id), bool)
    answer = client.inferencesessions.infer(id, service.interface.endpoint, {"question": 6})
    assert answer == {"asked": {"question": 6}}

    api = Api(running.kubeconfig)
    pods = (await api.get("/api/v1/pods")).ok().json["items"]
    await api.close()
    (pod,) = (pod for pod in pods if id in pod["metadata"]["name"])
    images = {row["name"]: row["imageID"] for row in pod["status"]["containerStatuses"]}
    assert images["runner"] == f"{REGISTRY}/artifacts/{artifact}@{digest}"


@pytest.mark.timeout(900)
async def test_a_node_without_the_secret_pulls_nothing_and_the_session_says_why(
    running: Platform, client: Client, image: Image
) -> None:
    artifact = client.artifacts.create(account=ACCOUNT).id
    push(running, image, artifact)
    client.artifacts.finalize(artifact)
    service = serve(client, artifact)
    session = client.inferencesessions.create(account=ACCOUNT, inferenceService=service.id).inferencesession
    waiting = until(
        lambda: client.inferencesessions.get(session.id), lambda session: "401" in (session.message or "")
    )
    assert waiting.status == "Admitted"
    assert "ImagePull" in (waiting.message or "")
