"""Tokens of ServiceAccounts in Pods, on the API server of this package."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from steelyard_common.types import Json
from steelyard_kube.client import connect
from steelyard_kube.cluster import Cluster
from steelyard_kube.resource import PODS
from steelyard_local_kubernetes.apiserver import pki
from steelyard_local_kubernetes.apiserver.server import ApiServerConfig, serve
from steelyard_local_kubernetes.kubelet import tokens
from steelyard_local_kubernetes.kubelet.config import KubeletConfig
from steelyard_local_kubernetes.kubelet.kubelet import run_kubelet
from steelyard_local_kubernetes.kubelet.records import PodFolder
from steelyard_local_kubernetes.kubelet.stopping import stop_all_pods
from steelyard_local_kubernetes.kubelet.testing import ENDED, make_config, make_container, make_pod, phase

TOKEN = "a token of tests"
ASK = """
import json, os, ssl, urllib.request
folder = "/var/run/secrets/kubernetes.io/serviceaccount"
base = "https://" + os.environ["KUBERNETES_SERVICE_HOST"] + ":" + os.environ["KUBERNETES_SERVICE_PORT"]
url = base + "/apis/authentication.k8s.io/v1/selfsubjectreviews"
headers = {"Authorization": "Bearer " + open(folder + "/token").read(), "Content-Type": "application/json"}
body = json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}).encode()
context = ssl.create_default_context(cafile=folder + "/ca.crt")
answer = urllib.request.urlopen(urllib.request.Request(url, body, headers), context=context)
print(json.load(answer)["status"]["userInfo"]["username"], open(folder + "/namespace").read())
"""


@asynccontextmanager
async def machine(folder: Path) -> AsyncIterator[tuple[Cluster, KubeletConfig]]:
    """An API server and a kubelet on it."""
    settings = ApiServerConfig(
        folder / "kubernetes.db", folder / "pki", {TOKEN: "tester"}, folder / "state" / "pods"
    )
    async with serve(settings) as server:
        kubeconfig, where = folder / "kubeconfig", urlsplit(server.url)
        kubeconfig.write_text(yaml.safe_dump(pki.kubeconfig(server.url, server.ca, TOKEN)))
        cluster, stop = await connect(kubeconfig), asyncio.Event()
        config = make_config(folder / "state", api=(where.hostname, where.port))
        kubelet = asyncio.create_task(run_kubelet(cluster, config, stop=stop))
        try:
            yield cluster, config
        finally:
            stop.set()
            await kubelet
            await stop_all_pods(config, grace=0.0)
            await cluster.close()


async def run(cluster: Cluster, pod: Json) -> Json:
    await cluster.create(PODS, pod)
    async with asyncio.timeout(60):
        while phase(pod := await cluster.get(PODS, pod["metadata"]["name"], "default")) not in ENDED:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return pod


def log(config: KubeletConfig, pod: Json) -> list[str]:
    text = PodFolder(config.pods / pod["metadata"]["uid"]).base("main", 0).with_suffix(".log").read_text()
    return [line.split(" ", 3)[3] for line in text.splitlines()]


def has_written(config: KubeletConfig, pod: Json) -> bool:
    """Return whether the program has written a line."""
    path = PodFolder(config.pods / pod["metadata"]["uid"]).base("main", 0).with_suffix(".log")
    return path.exists() and path.read_text().endswith("\n")


async def test_a_program_in_a_pod_asks_the_api_as_its_account(tmp_path: Path) -> None:
    async with machine(tmp_path) as (cluster, config):
        # It goes on: what an ended Pod's volumes held of Secrets is removed.
        program = f"{ASK}\nimport sys, time\nsys.stdout.flush()\ntime.sleep(600)"
        pod = await cluster.create(PODS, make_pod({**make_container(), "command": ["python", "-c", program]}))
        async with asyncio.timeout(60):
            while not has_written(config, pod):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        pod = await cluster.get(PODS, pod["metadata"]["name"], "default")
        assert log(config, pod) == ["system:serviceaccount:default:default default"]
        # A token whose time comes is replaced by another.
        with_volume = tokens.mount_token(pod)
        name = next(volume["name"] for volume in with_volume["spec"]["volumes"])
        assert name.startswith(tokens.VOLUME)
        path = PodFolder(config.pods / pod["metadata"]["uid"]).volume(with_volume, name) / "token"
        before = path.read_text()
        folder, due = PodFolder(config.pods / pod["metadata"]["uid"]), tokens.renewal_time(before)
        assert await tokens.renew(cluster, with_volume, folder, due - 100.0) == 100.0
        assert path.read_text() == before
        await tokens.renew(cluster, with_volume, folder, due)
        assert path.read_text() != before


async def test_a_pod_that_wants_no_token_finds_the_api_all_the_same(tmp_path: Path) -> None:
    async with machine(tmp_path) as (cluster, config):
        container = make_container(
            f"test -e {tokens.MOUNT} || echo none; echo $KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT"
        )
        pod = await run(cluster, make_pod(container, automountServiceAccountToken=False))
        assert config.api is not None
        assert log(config, pod) == ["none", "{}:{}".format(*config.api)]
