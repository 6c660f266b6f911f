"""Pods for tests of the cluster itself, by a plain client of its API."""

from steelyard_common.types import Json
from tests.engines.node.configs import BUSYBOX
from tests.kubernetes_api.api import Api

PODS = "/api/v1/namespaces/default/pods"


async def run_pod(api: Api, name: str, script: str) -> Json:
    """Start a Pod with a shell script."""
    container = {"name": "main", "image": BUSYBOX, "command": ["sh", "-c", script]}
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    return (await api.post(PODS, {"metadata": {"name": name}, "spec": spec})).ok().json


async def reaches(api: Api, name: str, phase: str) -> None:
    """Return once a Pod is in a phase."""

    async def probe() -> bool:
        return bool((await api.get(f"{PODS}/{name}")).ok().json["status"].get("phase") == phase)

    await api.eventually(probe, f"{name} {phase}")


async def log(api: Api, name: str) -> str:
    return (await api.get(f"{PODS}/{name}/log", accept="*/*")).ok().raw.decode()
