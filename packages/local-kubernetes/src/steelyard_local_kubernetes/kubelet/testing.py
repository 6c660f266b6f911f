"""A kubelet on an in-memory cluster, and Pods for it; for tests that need Pods that really run. Also the rights of this
user on this machine, which the markers of tests ask for.
"""

import asyncio
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from steelyard_common.types import Json
from steelyard_kube.errors import NotFound
from steelyard_kube.memory import MemoryCluster
from steelyard_kube.objects import read_conditions, read_status
from steelyard_kube.resource import CONFIG_MAPS, PODS
from steelyard_local_kubernetes.kubelet.abilities import abilities
from steelyard_local_kubernetes.kubelet.config import KubeletConfig
from steelyard_local_kubernetes.kubelet.images import ImageFile
from steelyard_local_kubernetes.kubelet.kubelet import SharedPods, run_kubelet
from steelyard_local_kubernetes.kubelet.records import PodFolder
from steelyard_local_kubernetes.names.shown import PublishedNames

IMAGE = "localhost/steelyard/steps"
ENDED = ("Succeeded", "Failed")


@cache
def missing_right(name: str) -> str | None:
    """Return why tests with the marker of this name cannot run here; None where they can."""
    if name == "root":
        return "this needs root" if os.geteuid() else None
    loop = asyncio.new_event_loop()  # not `asyncio.run`, which would take the thread's own loop away
    with tempfile.TemporaryDirectory() as folder, closing(loop):
        can = loop.run_until_complete(abilities(make_config(Path(folder))))
    rights = {"mounts": "mount namespaces", "pids": "process namespaces"}
    return (
        None if getattr(can, name) else f"this machine allows no {rights[name]}, also none in user namespaces"
    )


def make_container(script: str = "true", name: str = "main", **fields: Any) -> Json:
    """A container that runs a shell script."""
    return {"name": name, "image": IMAGE, "command": ["sh", "-c", script], **fields}


def make_pod(*containers: Json, name: str = "pod", **spec: Any) -> Json:
    """A Pod that runs once, in the namespace `default`."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name}},
        "spec": {
            "containers": list(containers) or [make_container()],
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 5,
            **spec,
        },
    }


def make_config(state: Path, **fields: Any) -> KubeletConfig:
    """A node whose images are this interpreter."""
    state.mkdir(parents=True, exist_ok=True)
    images, hosts = ImageFile(state / "images.toml"), state / "hosts"
    images.path.write_text(f'["{IMAGE}"]\npython = "{sys.executable}"\n')
    hosts.write_text("127.0.0.1 localhost\n127.9.9.9 service.default.svc\n")
    # Tests run side by side, and next to an `up`, whose network ends below 127.240.
    own = {"network": f"127.{240 + os.getpid() % 15}.{os.getpid() // 15 % 16 * 16}.0/20"}
    return KubeletConfig("this-machine", state / "pods", images, hosts, **{**own, **fields})


class Machine:
    """A cluster with one kubelet that can be stopped and started again."""

    def __init__(self, config: KubeletConfig, shown: PublishedNames | None = None) -> None:
        self.config, self.shown = config, shown
        self.cluster = MemoryCluster(now=lambda: datetime.now(UTC))
        self.pods: SharedPods | None = None  # a cache that another object keeps
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._stop = asyncio.Event()
        self._task = asyncio.create_task(
            run_kubelet(self.cluster, self.config, stop=self._stop, shown=self.shown, pods=self.pods)
        )

    async def stop(self) -> None:
        """The kubelet ends; its Pods go on."""
        self._stop.set()
        if self._task is not None:
            await self._task

    async def crash(self) -> None:
        """The kubelet ends wherever it is."""
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._task = None

    async def run(self, pod: Json) -> Json:
        """Create a Pod and wait for its end."""
        await self.cluster.create(PODS, pod)
        return await self.until(lambda pod: phase(pod) in ENDED, pod["metadata"]["name"])

    async def pod(self, name: str = "pod") -> Json:
        return await self.cluster.get(PODS, name, "default")

    async def until(self, holds: Callable[[Json], Any], name: str = "pod", seconds: float = 60) -> Json:
        """The Pod, once something holds for it."""
        pod = await self.pod(name)
        try:
            async with asyncio.timeout(seconds):
                while not holds(pod):
                    if self._task is not None and self._task.done():
                        self._task.result()
                    await asyncio.sleep(0.005)
                    pod = await self.pod(name)
        except TimeoutError:
            raise AssertionError(f"not within {seconds} s: {pod.get('status')}") from None
        return pod

    async def until_gone(self, name: str = "pod") -> None:
        """Wait until the API has no such Pod any more, and the node no folder of any."""
        async with asyncio.timeout(60):
            while True:
                try:
                    await self.pod(name)
                except NotFound:
                    if not any(path.is_dir() for path in self.config.pods.iterdir()):
                        return
                await asyncio.sleep(0.005)

    async def config_map(self, name: str, **data: str) -> None:
        metadata = {"name": name, "namespace": "default"}
        await self.cluster.create(CONFIG_MAPS, {"metadata": metadata, "data": data})

    def folder(self, pod: Json) -> PodFolder:
        return PodFolder(self.config.pods / pod["metadata"]["uid"])

    def log(self, pod: Json, container: str = "main", attempt: int = 0) -> list[str]:
        """Return the lines that a container wrote."""
        text = self.folder(pod).base(container, attempt).with_suffix(".log").read_text()
        return [line.split(" ", 3)[3] for line in text.splitlines()]


def phase(pod: Json) -> str:
    return str(read_status(pod).get("phase", ""))


def container_status(pod: Json, name: str = "main") -> Json:
    """The status of one container; empty before there is any."""
    status = read_status(pod)
    entries = (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ()))
    entry: Json = next((item for item in entries if item["name"] == name), {})
    return entry


def termination(pod: Json, name: str = "main") -> Json:
    """Return how the container's newest run ended."""
    state: Json = container_status(pod, name)["state"]["terminated"]
    return state


def is_running(pod: Json, name: str = "main") -> bool:
    return "running" in container_status(pod, name).get("state", {})


def condition(pod: Json, kind: str) -> Json:
    """One condition of a Pod; empty when it lacks one of that type."""
    conditions = read_conditions(pod)
    entry: Json = next((item for item in conditions if item["type"] == kind), {})
    return entry
