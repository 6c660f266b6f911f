"""Logs: the steps' pieces, what runners of others say, and lines as they are written."""

from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import orjson
import pytest

from steelyard.api.workflows.logs import merge_streams, open_pods
from steelyard.api.workflows.pod_logs import MOST_LINES, FolderPodLogs, timestamp
from steelyard_common.types import Json
from steelyard_evaluation.storage.store import Store
from steelyard_schema.entities import parse_entity
from steelyard_schema.names import account_namespace
from tests.platform_api.memory_platform import MemoryPlatform
from tests.platform_api.test_collection import an_evaluation


def line(second: int, message: str) -> bytes:
    time = datetime(2030, 1, 1, 0, 0, second, tzinfo=UTC).isoformat(timespec="milliseconds")
    content = {"time": time, "level": "info", "step": "evaluation_client", "message": message}
    return orjson.dumps(content) + b"\n"


async def piece(platform: MemoryPlatform, made: Json, pod: str, number: int, *lines: bytes) -> None:
    key = f"evaluations/{made['id']}/.dyff/logs/{pod}/{number:06d}"
    await platform.engines.store.put(key, b"".join(lines))


async def said(platform: MemoryPlatform, made: Json, **params: str) -> list[str]:
    response = await platform.admin.get(f"/evaluations/{made['id']}/logs/workflow", params=params)
    assert response.status_code == 200, response.text
    content = response.json()
    assert content["workflow"] == {"id": made["id"], "kind": "Evaluation"}
    return [orjson.loads(entry["message"])["message"] for entry in content["logs"]]


async def test_lines_of_all_pods_come_in_order_of_time(platform: MemoryPlatform) -> None:
    made = await an_evaluation(platform)
    assert await said(platform, made) == []
    await piece(platform, made, "p1", 0, line(1, "a"), line(3, "c"))
    await piece(platform, made, "p1", 1, line(5, "e"))
    await piece(platform, made, "p2", 0, line(2, "b"), line(4, "d"))
    assert await said(platform, made) == ["a", "b", "c", "d", "e"]
    assert await said(platform, made, limit="2") == ["d", "e"]
    platform.engines.clock.now = datetime(2030, 1, 1, 0, 1, 3, tzinfo=UTC)
    response = await platform.admin.get(f"/evaluations/{made['id']}/logs/workflow", params={"limit": "1"})
    assert response.json()["totalLines"] == 5
    assert response.json()["logs"][0]["labels"]["pod_uid"] == "p1"


async def test_lines_of_a_runner_come_between_those_of_the_steps(platform: MemoryPlatform) -> None:
    """The informer keeps them on a cluster, with the times that Kubernetes gives."""
    made = await an_evaluation(platform)
    runner = {"time": "2030-01-01T00:00:02.500000000Z", "container": "runner", "message": "loading weights"}
    await piece(platform, made, "p1", 0, line(1, "a"), line(3, "c"))
    key = f"evaluations/{made['id']}/.dyff/logs/p2/runner-000001"
    await platform.engines.store.put(key, orjson.dumps(runner) + b"\n")
    response = await platform.admin.get(f"/evaluations/{made['id']}/logs/workflow")
    entry = response.json()["logs"][1]
    assert (entry["message"], entry["timestamp"]) == ("loading weights", "2030-01-01T00:00:02.500000Z")
    assert entry["labels"] == {"pod_uid": "p2", "container": "runner"}


class CountingStore:
    """A store that counts the objects which are read."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.read = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def get(self, key: str) -> bytes:
        self.read += 1
        return await self._store.get(key)


async def test_one_piece_of_each_pod_is_in_memory(platform: MemoryPlatform) -> None:
    made = await an_evaluation(platform)
    seconds = count()
    for number in range(3):
        for pod in ("p1", "p2"):
            await piece(platform, made, pod, number, line(next(seconds), pod))
    store: Any = CountingStore(platform.engines.store)
    pods = await open_pods(store, parse_entity(made), None)
    lines = merge_streams(list(pods.values()))
    messages = [orjson.loads((await anext(lines)).message)["message"] for _ in range(2)]
    assert (messages, store.read) == (["p1", "p2"], 3), "the next piece of the first Pod"
    assert [orjson.loads(entry.message)["message"] async for entry in lines] == ["p1", "p2"] * 2


async def test_what_an_answer_leaves_out_is_counted_and_is_in_the_file(platform: MemoryPlatform) -> None:
    made = await an_evaluation(platform)
    count = MOST_LINES + 1
    await piece(platform, made, "p1", 0, b"first\n", b"x\n" * (count - 1))
    response = await platform.admin.get(f"/evaluations/{made['id']}/logs/workflow", params={"limit": "1"})
    assert (len(response.json()["logs"]), response.json()["totalLines"]) == (1, count)
    await platform.says("Evaluation", made["id"], "Failed", reason="ClientFailed")
    link = (await platform.admin.get(f"/evaluations/{made['id']}/logs")).json()
    async with platform.client(None) as client:
        got = await client.get(link["signedURL"]["url"])
    assert got.content.startswith(b"first\n")
    assert got.content.count(b"\n") == count


@pytest.mark.parametrize(
    "params",
    [
        {"limit": "0"},
        {"limit": "x"},
        {"limit": "9" * 5000},  # more digits than Python reads
        {"limit": "٣"},
        {"since": "yesterday"},
        {"since": "1w"},
    ],
)
async def test_a_wrong_parameter_is_named(platform: MemoryPlatform, params: dict[str, str]) -> None:
    made = await an_evaluation(platform)
    response = await platform.admin.get(f"/evaluations/{made['id']}/logs/workflow", params=params)
    assert (response.status_code, response.json()["field"]) == (422, next(iter(params)))


async def test_since_leaves_out_older_lines(platform: MemoryPlatform) -> None:
    made = await an_evaluation(platform)
    await piece(platform, made, "p1", 0, line(1, "a"), line(30, "b"))
    platform.engines.clock.now = datetime(2030, 1, 1, 0, 0, 40, tzinfo=UTC)
    # The pieces themselves were written today, by the store's own clock: after `since`, whatever it is.
    (info,) = [info async for info in platform.engines.store.list(f"evaluations/{made['id']}/.dyff")]
    platform.engines.clock.now = info.last_modified
    assert await said(platform, made, since="1h") == ["a", "b"]
    assert await said(platform, made, since="999999999d") == ["a", "b"], "longer ago than there are dates"


async def test_the_whole_log_is_a_file_once_the_workflow_has_ended(platform: MemoryPlatform) -> None:
    made = await an_evaluation(platform)
    path = f"/evaluations/{made['id']}/logs"
    await piece(platform, made, "p1", 0, line(1, "a"), b"no JSON\n")
    early = await platform.admin.get(path)
    assert (early.status_code, early.json()["reason"]) == (404, "NotFound")
    await platform.says("Evaluation", made["id"], "Failed", reason="ClientFailed")
    for _ in range(2):
        link = (await platform.admin.get(path)).json()
        async with platform.client(None) as client:
            got = await client.get(link["signedURL"]["url"])
        assert sorted(got.content.splitlines()) == sorted([line(1, "a").strip(), b"no JSON"])
        assert got.headers["content-length"] == str(len(got.content))
    await piece(platform, made, "p2", 0, line(2, "late"))
    link = (await platform.admin.get(path)).json()
    async with platform.client(None) as client:
        got = await client.get(link["signedURL"]["url"])
    assert line(2, "late").strip() in got.content.splitlines(), (
        "what came after the file was kept is in it, too"
    )


async def test_runners_of_others_are_read_where_their_logs_lie(
    platform: MemoryPlatform, tmp_path: Path
) -> None:
    made = await an_evaluation(platform)
    step = {
        "namespace": account_namespace("acme"),
        "name": f"evaluation-{made['id']}-client-a1-x",
        "uid": "p1",
    }
    runner = {**step, "name": f"evaluation-{made['id']}-session-x", "uid": "p2"}
    other = {**step, "name": "evaluation-another", "uid": "p3"}
    foreign = {**runner, "namespace": account_namespace("others"), "uid": "p4"}
    for pod in (step, runner, other, foreign):
        folder = tmp_path / pod["uid"] / "main"
        folder.mkdir(parents=True)
        (folder.parent / "pod.json").write_bytes(orjson.dumps(pod))
        (folder / "0.log").write_text(f"2030-01-01T00:00:02.5Z stderr F says {pod['uid']}\n")
    await piece(platform, made, "p1", 0, line(1, "step"))
    platform.app.api.pod_logs = FolderPodLogs(tmp_path)
    response = await platform.admin.get(f"/evaluations/{made['id']}/logs/workflow")
    entries = response.json()["logs"]
    assert [entry["message"] for entry in entries][1:] == ["says p2"]
    assert entries[1]["labels"] == {
        "pod": runner["name"], "pod_uid": "p2", "container": "main", "stream": "stderr",
    }  # fmt: skip
    later = datetime(2030, 1, 1, 0, 0, 3, tzinfo=UTC)
    assert not await FolderPodLogs(tmp_path).entries(parse_entity(made), later)
    assert await FolderPodLogs(tmp_path).entries(parse_entity(made), later - timedelta(seconds=1))


def test_times_are_comparable_as_text() -> None:
    assert timestamp(datetime(2030, 1, 1, 1, tzinfo=UTC)) == "2030-01-01T01:00:00.000000Z"
