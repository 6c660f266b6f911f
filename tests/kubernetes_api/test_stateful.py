"""Random writes against the server's core: what a watch sent is what a list says, at every step and from every start.

Driven without a transport, so that hypothesis may take thousands of steps.
"""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import orjson
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.access.users import administrator
from steelyard_local_kubernetes.apiserver.clock import Clock
from steelyard_local_kubernetes.apiserver.messages import Request, Response
from steelyard_local_kubernetes.apiserver.server import ApiServerConfig, Parts, make_parts

NAMES = st.sampled_from("abcd")
CORE = "/api/v1/namespaces/default/configmaps"
MERGE = "application/merge-patch+json"


class Machine(RuleBasedStateMachine):
    """A few objects, all kinds of writes, watches begun at different times."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory(prefix="steelyard-stateful-")
        self.parts: Parts
        self.starts: list[tuple[str, int, list[Json]]] = []  # selector, version and items of a list

    def run(self, what: Any) -> Any:
        return self.loop.run_until_complete(what)

    @initialize()
    def begin(self) -> None:
        config = ApiServerConfig(None, Path(self.folder.name), {})
        self.parts = self.run(make_parts(config, Clock()))
        self.lifecycle = self.loop.create_task(self.parts.lifecycle.run())
        self.watch("")
        self.watch("on=yes")

    def teardown(self) -> None:
        if hasattr(self, "lifecycle"):
            self.watches_and_lists_agree()
            self.lifecycle.cancel()
            self.run(asyncio.gather(self.lifecycle, return_exceptions=True))
        self.loop.close()
        self.folder.cleanup()

    def request(
        self, method: str, path: str, body: object = None, media: str = "application/json"
    ) -> tuple[int, Json]:
        path, _, query = path.partition("?")
        parsed = dict(pair.split("=", 1) for pair in query.split("&") if pair)
        parsed = {key: value.replace("%3D", "=") for key, value in parsed.items()}
        data = b"" if body is None else orjson.dumps(body)
        request = Request(method, path, parsed, {"content-type": media}, data, administrator("tester"))
        response: Response = self.run(self.parts.core.handle(request))
        assert isinstance(response.body, bytes)
        assert response.status < 500, response.body
        content: Json = orjson.loads(response.body)
        return response.status, content

    # ---- writes

    @rule(name=NAMES, owner=st.none() | NAMES, on=st.booleans(), finalizer=st.booleans())
    def create(self, name: str, owner: str | None, on: bool, finalizer: bool) -> None:
        metadata: Json = {"name": name, "labels": {"on": "yes" if on else "no"}}
        status, owner_object = (
            self.request("GET", f"{CORE}/{owner}") if owner and owner != name else (404, {})
        )
        if status == 200:
            reference = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "name": owner,
                "uid": owner_object["metadata"]["uid"],
            }
            metadata["ownerReferences"] = [reference | {"blockOwnerDeletion": True}]
        if finalizer:
            metadata["finalizers"] = ["example.dev/keep"]
        self.request("POST", CORE, {"metadata": metadata})

    @rule(name=NAMES, value=st.integers(0, 2))
    def replace(self, name: str, value: int) -> None:
        status, obj = self.request("GET", f"{CORE}/{name}")
        if status == 200:
            obj["data"] = {"v": str(value)}
            assert self.request("PUT", f"{CORE}/{name}", obj)[0] == 200

    @rule(name=NAMES, value=st.integers(0, 2))
    def replace_what_is_old(self, name: str, value: int) -> None:
        status, obj = self.request("GET", f"{CORE}/{name}")
        if status == 200:
            stale = int(obj["metadata"]["resourceVersion"]) - 1
            obj["metadata"]["resourceVersion"] = str(stale)
            assert self.request("PUT", f"{CORE}/{name}", obj)[0] == 409

    @rule(name=NAMES, on=st.booleans())
    def label(self, name: str, on: bool) -> None:
        labels = {"labels": {"on": "yes" if on else "no"}}
        if self.request("PATCH", f"{CORE}/{name}", {"metadata": labels}, MERGE)[0] == 404:
            assert self.request("POST", CORE, {"metadata": {"name": name, **labels}})[0] == 201

    @rule(name=NAMES)
    def release(self, name: str) -> None:
        status, obj = self.request("GET", f"{CORE}/{name}")
        if status == 200:
            kept = [finalizer for finalizer in obj["metadata"].get("finalizers", []) if "/" not in finalizer]
            self.request("PATCH", f"{CORE}/{name}", {"metadata": {"finalizers": kept}}, MERGE)

    @rule(name=NAMES, policy=st.sampled_from(["Background", "Foreground", "Orphan"]))
    def delete(self, name: str, policy: str) -> None:
        self.request("DELETE", f"{CORE}/{name}", {"propagationPolicy": policy})

    @rule()
    def collect(self) -> None:
        """Let the garbage collector run until it has nothing to do."""
        for _ in range(20):
            self.run(asyncio.sleep(0))

    @rule(selector=st.sampled_from(["", "on=yes"]))
    def watch(self, selector: str) -> None:
        """Begin a watch where a list is."""
        listed = self.request("GET", f"{CORE}?labelSelector={selector}")[1]
        known = {item["metadata"]["name"]: item for item in listed["items"]}
        self.starts.append((selector, int(listed["metadata"]["resourceVersion"]), list(known.values())))

    # ---- what always holds

    @rule()
    def watches_and_lists_agree(self) -> None:
        """Check at some steps, and at the end, that every watch sends all changes since it began."""
        for selector, start, items in self.starts:
            watched = {item["metadata"]["name"]: item for item in items}
            last = start
            for event in self.run(self.events(selector, start)):
                metadata = event["object"]["metadata"]
                assert int(metadata["resourceVersion"]) > last
                last = int(metadata["resourceVersion"])
                self.apply(watched, event)
            listed = self.request("GET", f"{CORE}?labelSelector={selector}")[1]["items"]
            expected = {
                item["metadata"]["name"]: {"kind": "ConfigMap", "apiVersion": "v1", **item} for item in listed
            }
            assert {name: item["metadata"] for name, item in watched.items()} == {
                name: item["metadata"] for name, item in expected.items()
            }

    def apply(self, known: dict[str, Json], event: Json) -> None:
        name = event["object"]["metadata"]["name"]
        match event["type"]:
            case "ADDED":
                assert name not in known
                known[name] = event["object"]
            case "MODIFIED":
                assert known[name]["metadata"]["uid"] == event["object"]["metadata"]["uid"]
                known[name] = event["object"]
            case "DELETED":
                assert known.pop(name)["metadata"]["uid"] == event["object"]["metadata"]["uid"]

    async def events(self, selector: str, start: int) -> list[Json]:
        """Return the events of a watch from `start` until now."""
        query = {"watch": "1", "resourceVersion": str(start), "labelSelector": selector}
        response = await self.parts.core.handle(Request("GET", CORE, query, {}, b"", administrator("tester")))
        assert not isinstance(response.body, bytes)
        actions: list[Json] = []
        stream = response.body
        try:
            # Whatever is due comes without a wait; then the watch waits.
            while True:
                chunk = await asyncio.wait_for(anext(stream), 0.001)
                actions += [orjson.loads(line) for line in chunk.splitlines()]
        except TimeoutError:
            pass
        return actions

    @rule()
    def dependents_have_an_owner_in_the_end(self) -> None:
        self.collect()
        items = self.request("GET", CORE)[1]["items"]
        living = {item["metadata"]["uid"] for item in items}
        for item in items:
            owners = {owner["uid"] for owner in item["metadata"].get("ownerReferences", [])}
            assert not owners or owners & living or "deletionTimestamp" in item["metadata"]


TestMachine = Machine.TestCase
TestMachine.settings = settings(
    max_examples=60,
    stateful_step_count=50,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
