"""Sends the steps of a case to one server and takes down what it answers, as it comes."""

import asyncio
import re
import ssl
import uuid
from pathlib import Path
from types import TracebackType
from typing import Any

import aiohttp
import orjson
import yaml

from steelyard_common.types import Json, JsonValue
from tests.kubernetes_api.api import tls_context
from tests.kubernetes_differential.case import Case, Events, Repeat, Request, Step, Until, Watch

PLACE = re.compile(r"\{\{([^{}]+)\}\}")
HEADERS = ("Content-Type", "Warning", "Retry-After", "WWW-Authenticate", "Allow", "Location")
"""Headers that clients act on."""
EVENT_SECONDS = 15.0
"""Time in which a further event of a watch comes, if any does."""
SECONDS = 120.0
AGENT = "differential/1.0"
ENVELOPE = b"k8s\0"
Answer = Json
"""Answer to a step: `status`, `headers` and `body`, or `events`, or `failure` where nothing came."""


class Client:
    """Requests to one server."""

    def __init__(
        self,
        kubeconfig: Path,
        *,
        accounts: bool,
        tidy: bool,
        places: dict[str, str] | None = None,
    ) -> None:
        """`accounts` waits for the default account of a namespace; `tidy` deletes namespaces afterwards."""
        content = yaml.safe_load(kubeconfig.read_text())
        cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
        self.url: str = cluster["server"]
        self._headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
        self._tls, self._anonymous = tls_context(cluster, user), tls_context(cluster, {})
        self._accounts, self._tidy = accounts, tidy
        self._places = places or {}

    async def __aenter__(self) -> "Client":
        self.session, self._plain = _session(self._tls), _session(self._anonymous)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.session.close()
        await self._plain.close()

    async def send(
        self,
        method: str,
        path: str,
        body: JsonValue | bytes = None,
        headers: dict[str, str] | None = None,
        token: str | None = None,
    ) -> Answer:
        sent = {"Accept": "application/json", "User-Agent": AGENT, **(headers or {})}
        session = self.session
        if token is None:
            sent = self._headers | sent
        else:
            session = self._plain
            sent |= {"Authorization": f"Bearer {token}"} if token else {}
        data = body if isinstance(body, bytes) or body is None else orjson.dumps(body)
        if data is not None:
            sent.setdefault("Content-Type", "application/json")
        async with session.request(
            method,
            self.url + path,
            data=data,
            headers=sent,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=SECONDS),
        ) as answer:
            raw = await answer.read()
            kept = {name: answer.headers.getall(name) for name in HEADERS if name in answer.headers}
            return {"status": answer.status, "headers": kept, "body": _body(raw)}

    async def run(self, case: Case) -> tuple[list[Answer], dict[str, str]]:
        """All answers to a case, and what stood for its names."""
        names = {"ns": f"d-{uuid.uuid4().hex[:10]}", **self._places}
        names["group"] = f"{names['ns']}.example.dev"
        if case.namespaced:
            await self._namespace(names["ns"])
        run = _Run(self, names)
        try:
            for index, step in enumerate(case.steps):
                run.answers.append(await run.step(step))
                run.named[getattr(step, "name", "") or str(index)] = run.answers[-1]
        finally:
            for reader in run.watches.values():
                reader.close()
            await self._clean(case, names)
        return run.answers, names

    async def _namespace(self, name: str) -> None:
        made = await self.send("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        assert made["status"] == 201, made
        path = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        async with asyncio.timeout(60):
            # Pods are refused until the account is there.
            while self._accounts and (await self.send("GET", path))["status"] != 200:  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    async def _clean(self, case: Case, names: dict[str, str]) -> None:
        """Remove the definitions of a case, which slow every server down, and its namespace where that counts."""
        if any("customresourcedefinitions" in getattr(step, "path", "") for step in case.steps):
            path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            for item in (await self.send("GET", path))["body"]["items"]:
                if item["spec"]["group"] == names["group"]:
                    await self.send("DELETE", f"{path}/{item['metadata']['name']}")
        if self._tidy and case.namespaced:
            await self.send("DELETE", f"/api/v1/namespaces/{names['ns']}")


class _Run:
    """The answers so far, and the watches that are open."""

    def __init__(self, client: Client, names: dict[str, str]) -> None:
        self._client, self._names = client, names
        self.answers: list[Answer] = []
        self.named: dict[str, Answer] = {}
        self.watches: dict[str, aiohttp.ClientResponse] = {}

    async def step(self, step: Step) -> Answer:
        try:
            match step:
                case Request():
                    return await self._request(step)
                case Until():
                    return await self._until(step)
                case Repeat():
                    return await self._repeat(step)
                case Watch():
                    return await self._watch(step)
                case Events():
                    return await self._events(step)
        except (TimeoutError, aiohttp.ClientError, KeyError, IndexError, TypeError) as error:
            return {"failure": type(error).__name__}

    async def _request(self, step: Request) -> Answer:
        headers = {"Accept": step.accept, "Content-Type": step.type, **step.headers}
        if step.body is None:
            del headers["Content-Type"]
        return await self._client.send(
            step.method,
            self._filled(step.path),
            self._filled(step.body),
            self._filled(headers),
            None if step.token is None else self._filled(step.token),
        )

    async def _until(self, step: Until) -> Answer:
        path, fields = self._filled(step.path), self._filled(step.fields)
        async with asyncio.timeout(step.seconds):
            while True:
                answer = await self._client.send("GET", path)
                if answer["status"] == step.status and all(
                    _at(answer["body"], where) == value for where, value in fields.items()
                ):
                    return answer
                await asyncio.sleep(0.05)

    async def _repeat(self, step: Repeat) -> Answer:
        path, body = self._filled(step.path), self._filled(step.body)
        async with asyncio.timeout(step.seconds):
            while True:
                answer = await self._client.send(step.method, path, body)
                if answer["status"] == step.status:
                    return answer
                await asyncio.sleep(0.05)

    async def _watch(self, step: Watch) -> Answer:
        headers = self._client._headers | {"Accept": step.accept, "User-Agent": AGENT}
        path = self._client.url + self._filled(step.path)
        answer = await self._client.session.get(path, headers=headers)
        if answer.status != 200:
            return {"status": answer.status, "headers": {}, "body": _body(await answer.read())}
        self.watches[step.name] = answer
        return {"status": 200, "headers": {"Content-Type": [answer.headers.get("Content-Type", "")]}}

    async def _events(self, step: Events) -> Answer:
        events: list[JsonValue] = []
        stream = self.watches[step.watch].content
        try:
            async with asyncio.timeout(EVENT_SECONDS):
                while not step.count or len(events) < step.count:
                    line = await stream.readline()
                    if not line:
                        break
                    events.append(event := _body(line))
                    if step.last and _at(event, "object.metadata.name") == step.last:
                        break
        except TimeoutError:
            events.append("no further event came")
        return {"events": events}

    def _filled(self, value: Any) -> Any:
        """The value with what stands for its places."""
        match value:
            case str():
                whole = PLACE.fullmatch(value)
                if whole:
                    return self._place(whole[1])
                return PLACE.sub(lambda match: str(self._place(match[1])), value)
            case dict():
                return {self._filled(key): self._filled(below) for key, below in value.items()}
            case list():
                return [self._filled(below) for below in value]
            case bytes():
                return PLACE.sub(lambda m: str(self._place(m[1])), value.decode("latin-1")).encode("latin-1")
        return value

    def _place(self, name: str) -> Any:
        if name in self._names:
            return self._names[name]
        step, _, path = name.partition(":")
        answer = self.named[step]
        value = _at(answer["body"] if "body" in answer else answer["events"], path)
        if value is None:
            raise KeyError(name)
        return value


def _at(value: JsonValue, path: str) -> JsonValue:
    """The value at a path, None where there is none. `conditions[type=Ready]` chooses from a list."""
    for part in re.findall(r"[^.\[\]]+\[[^\]]+\]|[^.]+", path) if path else []:
        name, _, chosen = part.partition("[")
        if isinstance(value, list):
            value = value[int(name)] if name.isdigit() and int(name) < len(value) else None
        else:
            value = value.get(name) if isinstance(value, dict) else None
        if chosen:
            key, _, wanted = chosen.rstrip("]").partition("=")
            value = next((item for item in value or [] if item.get(key) == wanted), None)
    return value


at = _at


def _body(raw: bytes) -> JsonValue:
    if raw.startswith(ENVELOPE):
        return "protobuf"
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return raw.decode(errors="replace")


def _session(tls: ssl.SSLContext) -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(ssl=tls, limit=0)
    # A case that asks for an endless watch as if it ended is a fault of the case, and must not hang the run.
    limit = aiohttp.ClientTimeout(total=SECONDS)
    return aiohttp.ClientSession(connector=connector, read_bufsize=1 << 22, timeout=limit)
