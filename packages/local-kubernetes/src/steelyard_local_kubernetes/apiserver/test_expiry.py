"""Events live for an hour after their last write; Pods that no kubelet will end do not stay."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver import expiry
from steelyard_local_kubernetes.apiserver.access.users import administrator
from steelyard_local_kubernetes.apiserver.clock import Clock
from steelyard_local_kubernetes.apiserver.messages import Request
from steelyard_local_kubernetes.apiserver.server import ApiServerConfig, Parts, make_parts

TESTER = administrator("tester")

CORE = "/api/v1/namespaces/default"


class Simulation:
    def __init__(self, folder: Path) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)
        self.folder = folder
        self.parts: Parts | None = None

    async def start(self) -> None:
        if self.parts is not None:
            self.parts.store.close()
        config = ApiServerConfig(self.folder / "db", self.folder / "pki", {})
        self.parts = await make_parts(config, Clock(lambda: self.time))

    async def ask(self, method: str, path: str, body: Json | None = None, **query: str) -> Json:
        assert self.parts is not None
        data = orjson.dumps(body) if body is not None else b""
        media = "application/merge-patch+json" if method == "PATCH" else "application/json"
        request = Request(method, path, query, {"content-type": media}, data, TESTER)
        response = await self.parts.core.handle(request)
        assert isinstance(response.body, bytes)
        content: Json = orjson.loads(response.body)
        assert response.status < 300, content
        return content

    async def event(self, name: str) -> None:
        about = {"namespace": "default"}
        await self.ask("POST", f"{CORE}/events", {"metadata": {"name": name}, "involvedObject": about})

    async def after(self, **span: float) -> list[str]:
        """Return the events that are left when so much time has gone by."""
        self.time += timedelta(**span)
        assert self.parts is not None
        await self.parts.expiry.expire()
        await self.parts.expiry.collect()
        return await self._names("events")

    async def pods(self) -> list[str]:
        return await self._names("pods")

    async def _names(self, plural: str) -> list[str]:
        return [obj["metadata"]["name"] for obj in (await self.ask("GET", f"{CORE}/{plural}"))["items"]]


@pytest.fixture
async def simulation(tmp_path: Path) -> AsyncIterator[Simulation]:
    simulation = Simulation(tmp_path)
    await simulation.start()
    yield simulation
    assert simulation.parts is not None
    simulation.parts.store.close()


async def test_an_event_goes_an_hour_after_it_was_last_written(simulation: Simulation) -> None:
    for name in ("a", "b"):
        await simulation.event(name)
    assert await simulation.after(minutes=30) == ["a", "b"]
    await simulation.ask("PATCH", f"{CORE}/events/a", {"count": 2})
    assert await simulation.after(minutes=31) == ["a"]
    assert await simulation.after(minutes=30) == []


async def test_watchers_are_notified(simulation: Simulation) -> None:
    await simulation.event("a")
    assert simulation.parts is not None
    request = Request("GET", f"{CORE}/events", {"watch": "1", "timeoutSeconds": "5"}, {}, b"", TESTER)
    answer = await simulation.parts.core.handle(request)
    assert not isinstance(answer.body, bytes)
    stream = aiter(answer.body)
    assert orjson.loads(await anext(stream))["type"] == "ADDED"
    assert await simulation.after(hours=2) == []
    assert orjson.loads(await asyncio.wait_for(anext(stream), 60))["type"] == "DELETED"


@pytest.mark.parametrize(
    ("span", "left"), [({"minutes": 50}, ["a"]), ({"minutes": 70}, []), ({"days": -40}, [])]
)
async def test_a_new_process_knows_how_old_events_are(
    simulation: Simulation, span: dict[str, float], left: list[str]
) -> None:
    """Events do not stay because a clock that is set back makes them young again."""
    await simulation.event("a")
    if span.get("days"):
        assert await simulation.after(**span) == left
        return
    simulation.time += timedelta(**span)
    await simulation.start()
    assert await simulation.after() == left


async def test_a_flood_of_events_is_bounded(simulation: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "MOST_EVENTS", 3)
    for number in range(5):
        await simulation.event(f"e{number}")
    assert await simulation.after() == ["e2", "e3", "e4"]


async def test_removals_that_were_not_kept_come_again(
    simulation: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    await simulation.event("a")
    assert simulation.parts is not None

    def fail(*args: object) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(simulation.parts.store._database, "commit", fail)
        assert await simulation.after(hours=2) == ["a"]
    assert await simulation.after() == []


async def test_a_deleted_pod_that_no_kubelet_will_end_goes(simulation: Simulation) -> None:
    node = {"metadata": {"name": "here"}}
    await simulation.ask("POST", "/api/v1/nodes", node)
    nodes = {"gone": {"nodeName": "absent"}, "kept": {"nodeName": "here"}, "unbound": {}}
    for name, bound in nodes.items():
        spec: Json = {"containers": [{"name": "m", "image": "x"}], "terminationGracePeriodSeconds": 2**63 - 1}
        pod = {"metadata": {"name": name}, "spec": spec | bound}
        await simulation.ask("POST", f"{CORE}/pods", pod)
        await simulation.ask("DELETE", f"{CORE}/pods/{name}")
    listed = (await simulation.ask("GET", f"{CORE}/pods"))["items"]
    assert [pod["metadata"]["name"] for pod in listed] == ["gone", "kept"], "one without a node goes at once"
    assert listed[1]["metadata"]["deletionGracePeriodSeconds"] == 2**31 - 1
    await simulation.after(seconds=0)
    assert await simulation.pods() == ["gone", "kept"], "its node may be registered again"
    await simulation.ask("DELETE", f"{CORE}/pods/gone", {"gracePeriodSeconds": 30})
    await simulation.after(seconds=39)
    assert await simulation.pods() == ["gone", "kept"]
    await simulation.after(seconds=1)
    assert await simulation.pods() == ["kept"]


async def test_a_node_that_comes_back_ends_the_quarantine(simulation: Simulation) -> None:
    spec: Json = {"containers": [{"name": "m", "image": "x"}], "nodeName": "late"}
    await simulation.ask("POST", f"{CORE}/pods", {"metadata": {"name": "p"}, "spec": spec})
    await simulation.ask("DELETE", f"{CORE}/pods/p")
    await simulation.after(seconds=0)
    await simulation.ask("POST", "/api/v1/nodes", {"metadata": {"name": "late"}})
    await simulation.after(seconds=60)
    await simulation.ask("DELETE", "/api/v1/nodes/late")
    await simulation.after(seconds=20)
    assert await simulation.pods() == ["p"]
    await simulation.after(days=-1)
    assert await simulation.pods() == [], "a clock that is set back keeps nothing"


@pytest.mark.parametrize(
    ("forgotten", "written", "expected"),
    [(10, 0, False), (5000, 4, True), (300, 300, False), (900, 300, True)],
    ids=["heartbeats", "a crowd is over", "a crowd", "busy for long"],
)
def test_memory_is_given_back_when_it_is_worth_a_pause(forgotten: int, written: int, expected: bool) -> None:
    assert expiry.is_worth_a_pause(forgotten, written) == expected
