"""Logs of Pods, from files as the kubelet writes them. The embedded server's own: a real one asks its kubelets."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from steelyard_common.types import Json
from tests.kubernetes_api.api import Api, pod
from tests.kubernetes_api.conftest import Server

FIRST = "2026-01-01T00:00:01.000000001Z stdout F one\n"
SPLIT = "2026-01-01T00:00:02.000000000Z stdout P two, \n2026-01-01T00:00:03.000000000Z stdout F and more\n"
LAST = "2026-01-01T00:00:04.000000000Z stderr F three\n"


class PodLogs:
    """A Pod with log files."""

    def __init__(self, api: Api, path: str, folder: Path) -> None:
        self.api, self.path, self.folder = api, path, folder

    def write(self, text: str, container: str = "main", restarts: int = 0) -> None:
        file = self.folder / container / f"{restarts}.log"
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a") as opened:
            opened.write(text)

    async def state(self, content: Json, restarts: int = 0) -> None:
        status: Json = {"name": "main", "image": "x", "imageID": "", "ready": False, "restartCount": restarts}
        body = {"status": {"containerStatuses": [status | {"state": content}]}}
        (await self.api.merge(f"{self.path}/status", body)).ok(200)

    async def read(self, query: str = "") -> str:
        return (await self.api.get(f"{self.path}/log?{query}")).ok(200).raw.decode()


async def logged_pod(server: Server, api: Api, core: str, **spec: Any) -> PodLogs:
    made = (await api.post(f"{core}/pods", pod("p", **spec))).ok(201).json
    return PodLogs(api, f"{core}/pods/p", server.folder / "pods" / made["metadata"]["uid"])


@pytest.fixture
async def logged(embedded: Server, api: Api, core: str) -> PodLogs:
    return await logged_pod(embedded, api, core)


async def test_lines_are_what_the_container_wrote(logged: PodLogs) -> None:
    logged.write(FIRST + SPLIT + LAST)
    assert await logged.read() == "one\ntwo, and more\nthree\n"
    assert (await logged.read("timestamps=true")).splitlines()[0] == "2026-01-01T00:00:01.000000001Z one"


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("tailLines=1", "three\n"),
        ("tailLines=2", "two, and more\nthree\n"),
        ("tailLines=0", ""),
        ("limitBytes=5", "one\nt"),
        ("sinceTime=2026-01-01T00:00:04Z", "three\n"),
        ("sinceSeconds=1", ""),
    ],
)
async def test_a_part_of_a_log(logged: PodLogs, query: str, wanted: str) -> None:
    logged.write(FIRST + SPLIT + LAST)
    assert await logged.read(query) == wanted


async def test_the_log_before_the_restart(logged: PodLogs) -> None:
    logged.write(FIRST)
    logged.write(LAST, restarts=1)
    await logged.state({"running": {}}, restarts=1)
    assert await logged.read() == "three\n"
    assert await logged.read("previous=true") == "one\n"


async def test_following_ends_with_the_container(logged: PodLogs) -> None:
    logged.write(FIRST)
    await logged.state({"running": {}})
    following = asyncio.create_task(logged.read("follow=true"))
    await asyncio.sleep(0.2)
    logged.write(SPLIT)
    await asyncio.sleep(0.2)
    assert not following.done()
    logged.write(LAST)
    await logged.state({"terminated": {"exitCode": 0}})
    assert await asyncio.wait_for(following, 120) == "one\ntwo, and more\nthree\n"


async def test_following_ends_at_the_limit(logged: PodLogs) -> None:
    """A container that runs on must not hold a caller who has all the bytes that it wanted."""
    logged.write(FIRST)
    await logged.state({"running": {}})
    following = asyncio.create_task(logged.read("follow=true&limitBytes=6"))
    logged.write(SPLIT)
    assert await asyncio.wait_for(following, 120) == "one\ntw"


async def test_following_waits_for_the_container(embedded: Server, api: Api, core: str) -> None:
    logged = await logged_pod(embedded, api, core, nodeName="nowhere")
    following = asyncio.create_task(logged.read("follow=true"))
    await asyncio.sleep(0.2)
    logged.write(FIRST)
    await logged.state({"terminated": {"exitCode": 0}})
    assert await asyncio.wait_for(following, 120) == "one\n"


async def test_a_pod_without_a_node_has_nothing_to_follow(logged: PodLogs) -> None:
    answer = await logged.api.get(f"{logged.path}/log?follow=true")
    assert (answer.status, answer.raw) == (204, b"")


async def test_what_has_no_log_says_why(logged: PodLogs) -> None:
    assert (await logged.api.get(f"{logged.path}/log")).raw == b""
    target = {"kind": "Node", "name": "absent"}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": target}
    (await logged.api.post(f"{logged.path}/binding", binding)).ok(201)
    answer = await logged.api.get(f"{logged.path}/log")
    assert (answer.status, answer.message) == (404, 'pods "absent" not found')
    node = await logged.api.post("/api/v1/nodes", {"metadata": {"name": "absent"}})
    node.ok(201)
    answer = await logged.api.get(f"{logged.path}/log")
    assert answer.status == 400
    assert 'container "main" in pod "p" is waiting to start: ContainerCreating' in answer.message
    answer = await logged.api.get(f"{logged.path}/log?container=other")
    assert "container other is not valid for pod p" in answer.message
    answer = await logged.api.get(f"{logged.path}/log?previous=true")
    assert 'previous terminated container "main" in pod "p" not found' in answer.message
    answer = await logged.api.get(f"{logged.path}/log?sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z")
    text = "[]: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"
    assert (answer.status, answer.message) == (422, f'PodLogOptions "p" is invalid: {text}')


async def test_without_a_node_nothing_is_written_yet(api: Api, core: str) -> None:
    await api.post(
        f"{core}/pods", {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "image": "x"}]}}
    )
    answer = await api.get(f"{core}/pods/p/log")
    assert (answer.status, answer.raw) == (204, b"")


async def test_options_out_of_range_are_refused(logged: PodLogs) -> None:
    for query, fault in (
        ("tailLines=-1", "tailLines: Invalid value: -1: must be greater than or equal to 0"),
        ("limitBytes=0", "limitBytes: Invalid value: 0: must be greater than 0"),
        ("sinceSeconds=5&sinceTime=2026-01-01T00:00:00Z", "at most one of `sinceTime` or `sinceSeconds`"),
    ):
        answer = await logged.api.get(f"{logged.path}/log?{query}")
        assert (answer.status, fault in answer.message) == (422, True)


async def test_of_two_containers_one_must_be_named(embedded: Server, api: Api, core: str) -> None:
    containers = [{"name": name, "image": "x"} for name in ("a", "b")]
    logged = await logged_pod(embedded, api, core, containers=containers)
    logged.write(LAST, container="b")
    answer = await api.get(f"{logged.path}/log")
    assert "a container name must be specified for pod p, choose one of: [a b]" in answer.message
    assert await logged.read("container=b") == "three\n"


async def test_names_cannot_lead_out_of_the_folder(logged: PodLogs) -> None:
    for name in ("..", "../../pki", "%2e%2e%2fpki"):
        assert (await logged.api.get(f"{logged.path}/log?container={name}")).status == 400
