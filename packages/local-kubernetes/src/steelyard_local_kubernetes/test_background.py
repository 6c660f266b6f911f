"""A Kubernetes in a process of its own, as tests of other projects have it: it runs Pods, and ends with them."""

import asyncio
import re
import sys
from pathlib import Path

import pytest

from steelyard_common.errors import SteelyardError
from steelyard_common.types import Json
from steelyard_kube.client import connect
from steelyard_kube.resource import PODS
from steelyard_local_kubernetes.background import running_kubernetes


def make_pod(script: str) -> Json:
    container = {"name": "main", "image": "docker.io/library/python:3", "command": ["python", "-c", script]}
    return {
        "metadata": {"name": "pod", "namespace": "default"},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }


async def run_pod(kubeconfig: Path, pod: Json, *phases: str) -> str:
    """Create a Pod and return the first of the phases that it reaches."""
    cluster = await connect(kubeconfig)
    try:
        created = await cluster.create(PODS, pod)
        version = created["metadata"]["resourceVersion"]
        async with asyncio.timeout(120):
            async for event in cluster.watch(PODS, "default", resource_version=version):
                if event.object["status"].get("phase") in phases:
                    return str(event.object["status"]["phase"])
        raise AssertionError("the watch ended")
    finally:
        await cluster.close()


async def test_a_pod_runs_in_the_python_that_runs_kubernetes(tmp_path: Path) -> None:
    written = tmp_path / "written"
    script = f"import sys; open({str(written)!r}, 'w').write(sys.executable)"
    with running_kubernetes(tmp_path / "cluster") as kubernetes:
        assert await run_pod(kubernetes.kubeconfig, make_pod(script), "Succeeded", "Failed") == "Succeeded"
    assert written.read_text() == sys.executable


async def test_pods_end_with_it_and_its_objects_stay(tmp_path: Path) -> None:
    with running_kubernetes(tmp_path) as kubernetes:
        await run_pod(kubernetes.kubeconfig, make_pod("import time; time.sleep(600)"), "Running")
    assert list(kubernetes.folder.glob("pods/*/main/0.exited")), "its shim has recorded the end"
    with running_kubernetes(tmp_path) as kubernetes:
        cluster = await connect(kubernetes.kubeconfig)
        assert [pod["metadata"]["name"] for pod in (await cluster.list(PODS, "default")).items] == ["pod"]
        await cluster.close()


def test_a_second_one_on_the_folder_is_refused_and_says_why(tmp_path: Path) -> None:
    with running_kubernetes(tmp_path), pytest.raises(SteelyardError, match="another Kubernetes runs on"):  # noqa: SIM117
        with running_kubernetes(tmp_path):
            pass
    assert re.search("another Kubernetes runs on", (tmp_path / "log").read_text())
