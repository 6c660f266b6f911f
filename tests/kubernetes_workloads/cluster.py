"""One server that runs Pods, as the cases see it: objects in a namespace of the case's own, logs, and kubectl."""

import asyncio
import re
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from steelyard_common.types import Json
from tests.kubernetes_api.api import Answer, Api

SECONDS = 300.0
GROUPS = {
    "pods": "/api/v1",
    "services": "/api/v1",
    "configmaps": "/api/v1",
    "secrets": "/api/v1",
    "events": "/api/v1",
    "persistentvolumeclaims": "/api/v1",
    "jobs": "/apis/batch/v1",
    "deployments": "/apis/apps/v1",
    "replicasets": "/apis/apps/v1",
    "statefulsets": "/apis/apps/v1",
}


class Cluster:
    """A namespace on one server."""

    def __init__(self, api: Api, kubeconfig: Path, kubectl: str) -> None:
        self.api, self.namespace = api, f"w-{uuid.uuid4().hex[:10]}"
        self._kubectl = [kubectl, "--kubeconfig", str(kubeconfig), "--namespace", self.namespace]

    def path(self, kind: str, name: str = "", query: str = "") -> str:
        rest = f"/{name}" if name else ""
        return f"{GROUPS[kind]}/namespaces/{self.namespace}/{kind}{rest}{query}"

    async def open(self) -> None:
        (await self.api.post("/api/v1/namespaces", {"metadata": {"name": self.namespace}})).ok()
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/default"

        async def there() -> bool:
            return (await self.api.get(path)).status == 200

        await self.api.eventually(there, "the default account", SECONDS)

    async def close(self) -> None:
        await self.api.delete(f"/api/v1/namespaces/{self.namespace}")

    async def create(self, kind: str, body: Json) -> Json:
        return (await self.api.post(self.path(kind), body)).ok().json

    async def get(self, kind: str, name: str) -> Json:
        return (await self.api.get(self.path(kind, name))).ok().json

    async def items(self, kind: str, selector: str = "") -> list[Json]:
        answer = await self.api.get(self.path(kind, query=f"?labelSelector={selector}"))
        items: list[Json] = answer.ok().json["items"]
        return sorted(items, key=lambda item: str(item["metadata"]["creationTimestamp"]))

    async def merge(self, kind: str, name: str, patch: Json) -> Json:
        return (await self.api.merge(self.path(kind, name), patch)).ok().json

    async def delete(self, kind: str, name: str) -> None:
        (await self.api.delete(self.path(kind, name))).ok(200, 202)

    async def gone(self, kind: str, name: str) -> None:
        async def probe() -> bool:
            return (await self.api.get(self.path(kind, name))).status == 404

        await self.api.eventually(probe, f"{kind} {name} gone", SECONDS)

    async def until(self, kind: str, name: str, holds: Callable[[Json], Any]) -> Json:
        """The object, once something holds for it. Raises TimeoutError with its status."""
        end = asyncio.get_running_loop().time() + SECONDS
        while not holds(item := await self.get(kind, name)):
            if asyncio.get_running_loop().time() > end:
                raise TimeoutError(f"{kind} {name}: {item.get('status')}")
            await asyncio.sleep(0.1)
        return item

    async def ended(self, name: str = "pod") -> Json:
        return await self.until(
            "pods", name, lambda pod: pod["status"].get("phase") in ("Succeeded", "Failed")
        )

    async def ready(self, name: str = "pod") -> Json:
        return await self.until("pods", name, lambda pod: condition(pod, "Ready").get("status") == "True")

    async def run(self, body: Json) -> tuple[Json, list[str]]:
        """A Pod's end, and the lines of its only or first container."""
        await self.create("pods", body)
        pod = await self.ended(body["metadata"]["name"])
        return pod, await self.log(body["metadata"]["name"], container=body["spec"]["containers"][0]["name"])

    async def raw_log(self, name: str, **query: str) -> Answer:
        text = "&".join(f"{key}={value}" for key, value in query.items())
        return await self.api.get(f"{self.path('pods', name)}/log?{text}", accept="*/*")

    async def log(self, name: str = "pod", **query: str) -> list[str]:
        return (await self.raw_log(name, **query)).ok().raw.decode().splitlines()

    async def logged(self, line: str, name: str = "pod", **query: str) -> None:
        async def probe() -> bool:
            answer = await self.raw_log(name, **query)
            return answer.status == 200 and line in answer.raw.decode().splitlines()

        await self.api.eventually(probe, f"{line!r} in the log of {name}", SECONDS)

    async def first_line(self, name: str = "pod") -> str:
        """Return the first line that a running Pod writes."""
        lines: list[str] = []

        async def probe() -> bool:
            answer = await self.raw_log(name)
            lines[:] = answer.raw.decode().splitlines() if answer.status == 200 else []
            return bool(lines)

        await self.api.eventually(probe, f"a line in the log of {name}", SECONDS)
        return lines[0]

    @asynccontextmanager
    async def forwarded(self, name: str, port: str) -> AsyncIterator[int]:
        """The local port of `kubectl port-forward`."""
        process = await asyncio.create_subprocess_exec(
            *self._kubectl,
            *("port-forward", name, f":{port}"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            assert process.stdout is not None
            line = (await asyncio.wait_for(process.stdout.readline(), SECONDS)).decode()
            match = re.search(r"127.0.0.1:(\d+) ->", line)
            assert match, line
            yield int(match[1])
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()

    async def kubectl(self, *arguments: str, stdin: str = "") -> Json:
        """The exit status and the outputs of one command."""
        process = await asyncio.create_subprocess_exec(
            *self._kubectl,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await asyncio.wait_for(process.communicate(stdin.encode()), SECONDS)
        return {"status": process.returncode, "stdout": out.decode(), "stderr": err.decode()}


def condition(item: Json, kind: str) -> Json:
    rows = item.get("status", {}).get("conditions") or []
    row: Json = next((row for row in rows if row["type"] == kind), {})
    return row


def container(script: str = "true", name: str = "main", **fields: Any) -> Json:
    """A container that runs a shell script."""
    return {"name": name, "image": "localhost/busybox:1", "command": ["sh", "-c", script], **fields}


def python(script: str, name: str = "main", **fields: Any) -> Json:
    """A container that runs a Python script."""
    return {"name": name, "image": "localhost/python:3", "command": ["python3", "-u", "-c", script], **fields}


def pod(*containers: Json, name: str = "pod", labels: dict[str, str] | None = None, **spec: Any) -> Json:
    """A Pod that runs once."""
    own = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": list(containers)}
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": {**own, **spec}}


def template(*containers: Json, labels: dict[str, str] | None = None, **spec: Any) -> Json:
    """A Pod's form in a Job or a Deployment."""
    whole = pod(*containers, labels=labels, **spec)
    return {"metadata": {"labels": labels or {}}, "spec": whole["spec"]}


def shape(item: Json) -> Json:
    """Status of a Pod, without times, names and addresses, and without what a node drops at any time after its end."""
    status = item["status"]
    ended = status.get("phase") in ("Succeeded", "Failed")
    seen: Json = {name: status[name] for name in ("phase", "reason", "message") if name in status}
    seen["conditions"] = {
        row["type"]: [row["status"], row.get("reason"), row.get("message")]
        for row in status.get("conditions", [])
        if not (ended and row["type"] == "PodReadyToStartContainers")
    }
    for name in ("initContainerStatuses", "containerStatuses"):
        for entry in status.get(name, []):
            seen[f"{name}.{entry['name']}"] = container_shape(entry, ended=ended)
    return seen


def container_shape(entry: Json, *, ended: bool) -> Json:
    return {
        "state": state_shape(entry.get("state", {})),
        "last": {} if ended else state_shape(entry.get("lastState", {})),
        "restarts": entry["restartCount"],
        "ready": entry["ready"],
        "started": entry.get("started"),
    }


def state_shape(state: Json) -> Json:
    kept = ("exitCode", "signal", "reason", "message")
    return {kind: {name: value[name] for name in kept if name in value} for kind, value in state.items()}
