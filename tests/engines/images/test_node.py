"""Our images on a real node: Pods that may do nothing but what their image needs, by name and by digest."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from steelyard_common.types import Json
from tests.engines.images.conftest import NAMES, Archives
from tests.engines.node.cluster import node_cluster
from tests.engines.node.configs import Addition
from tests.engines.node.pods import PODS, log, reaches
from tests.kubernetes_api.api import Api


@pytest.fixture(scope="module")
def kubeconfig(archives: Archives) -> Iterator[Path]:
    """Start a node into which the images are imported, as docs/container-images.md says."""
    bases = {name: archives.listed(name)["reference"].rpartition(":")[0] for name in NAMES}
    images = [f"--digests --base-name {base} {archives.path(name)}" for name, base in bases.items()]
    with node_cluster(Addition(images=images)) as path:
        yield path


@pytest.fixture
async def api(kubeconfig: Path) -> AsyncIterator[Api]:
    api = Api(kubeconfig)
    yield api
    await api.close()


def make_pod(name: str, image: str, *words: str) -> Json:
    """Make a Pod that Pod Security `restricted` allows, with a root that is read-only."""
    container = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "Never",
        "args": list(words),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }
    spec = {
        "restartPolicy": "Never",
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    }
    return {"metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize("name", NAMES)
async def test_an_image_runs_by_its_name(archives: Archives, api: Api, name: str) -> None:
    pod = make_pod(name, archives.listed(name)["reference"], "service", "--help")
    (await api.post(PODS, pod)).ok()
    await reaches(api, name, "Succeeded")
    assert "operator, platform, or one service" in await log(api, name)


async def test_an_image_is_found_by_its_digest(archives: Archives, api: Api) -> None:
    listed = archives.listed("operator")
    reference = f"{listed['reference'].rpartition(':')[0]}@{listed['digest']}"
    (await api.post(PODS, make_pod("digest", reference, "--version"))).ok()
    await reaches(api, "digest", "Succeeded")
    assert (await log(api, "digest")).startswith("steelyard ")
