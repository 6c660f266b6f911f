"""Benchmark of the API's requests per second on one core, beside a bare handler with the same bytes in the
same run.

The view is filled directly, and the API runs alone: nobody else is on its core. Creates are also measured with the
aggregator and the view's sink at work, on the load's core. Called by `__main__.py`.
"""

import asyncio
import hashlib
import socket
import urllib.parse
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson

from benchmarks.platform.load import Latencies, Load
from benchmarks.platform.pinned import Server, api_server, bare_server, measured, service
from benchmarks.views.__main__ import changes, hexadecimal
from steelyard.accounts.open import open_accounts_database
from steelyard.accounts.tokens import Tokens
from steelyard.broker.log import STATE, Message
from steelyard.broker.open import open_log
from steelyard.local.files import prepare
from steelyard.local.state import StateDir
from steelyard.settings import load as load_settings
from steelyard.views.open import open_view
from steelyard.views.view import Change
from steelyard_schema.account import AccessGrant, Identity

ACCOUNTS = 100  # that the view's entities belong to
BESIDE = ("api", "orchestrator", "informer", "backup-sink", "reaper")
CONNECTIONS = 32


@dataclass(frozen=True)
class Row:
    """One case: the API, the API asked by one connection, and the bare handler, all of this run."""

    what: str
    api: Latencies
    alone: Latencies
    bare: Latencies

    @property
    def share(self) -> float:
        return self.api.requests_per_second / self.bare.requests_per_second


@dataclass(frozen=True)
class Case:
    """Prepared requests, sent in turn."""

    what: str
    requests: list[str]


def request(method: str, path: str, token: str, body: bytes = b"") -> str:
    """A whole request, as the client would send it: a create has a key."""
    head = [
        f"{method} {path} HTTP/1.1",
        "Host: 127.0.0.1",
        "Accept: */*",
        "Accept-Encoding: gzip, deflate",
        "Connection: keep-alive",
        "User-Agent: benchmark",
        f"Authorization: Bearer {token}",
    ]
    if body:
        head += [f"Content-Length: {len(body)}", "Content-Type: application/json"]
        head += [f"Idempotency-Key: {hashlib.md5(body, usedforsecurity=False).hexdigest()}"]
    return "\r\n".join(head) + "\r\n\r\n" + body.decode()


def reads(count: int, administrator: str, member: str) -> Iterator[Case]:
    ids = [hexadecimal("e", number * 7907 % count) for number in range(min(count, 20_000))]
    yield Case("get by id", [request("GET", f"/v0/evaluations/{id}", administrator) for id in ids])
    yield Case(
        "get by id, one account's token", [request("GET", f"/v0/evaluations/{id}", member) for id in ids]
    )
    paths = [
        "/v0/evaluations?" + urllib.parse.urlencode({
            "account": hexadecimal("a", number), "limit": 100, "orderBy": "creationTime", "order": "descending",
        })
        for number in range(ACCOUNTS)
    ]  # fmt: skip
    yield Case("query, 100 of an account", [request("GET", path, administrator) for path in paths])


def creates(token: str, seed: str) -> Case:
    """Mock models: a create without a reference, each of another name."""
    bodies = [
        orjson.dumps({"account": "bench", "name": f"model-{seed}-{number}", "artifact": {"kind": "Mock"},
                      "source": {"kind": "Mock"}, "storage": {"medium": "Mock"}, "resources": {"memory": "1Gi"}})
        for number in range(40_000)
    ]  # fmt: skip
    return Case("create", [request("POST", "/v0/models", token, body) for body in bodies])


def state(change: Change) -> Message:
    """Return the state record that describes a change, as the aggregator writes it."""
    at = change.position
    position = {"epoch": str(at.epoch), "partition": "0", "offset": str(at.offset)}
    return Message(STATE, change.id, change.json, position)


async def fill(folder: StateDir, count: int, file: Path | None) -> str:
    """Write entities into the log and the view; return a token of somebody who may see them by their accounts.

    The API has been started before: it enters into log, view and accounts that they belong together.
    """
    settings = load_settings(file, folder.path)
    view = await open_view(settings.view)
    log = await open_log(settings.log)
    accounts_database = await open_accounts_database(settings.accounts)
    try:
        for batch in changes(count):
            records = await log.publish([state(change) for change in batch])
            positions = {record.partition: record.offset + 1 for record in records}
            await view.apply(batch, log.epoch, positions)
        names = [hexadecimal("a", number) for number in range(ACCOUNTS)]
        grants = [AccessGrant(resources=["evaluations"], functions=["get", "query"], accounts=names)]
        now = datetime.now(UTC)
        account = await accounts_database.accounts.create("member", Identity(), now, grants)
        expires = now + timedelta(days=1)
        return await Tokens(accounts_database.accounts).mint(
            account, f"accounts/{account.id}", grants, expires, now
        )
    finally:
        await view.close()
        await log.close()
        await accounts_database.close()


def answer_to(port: int, request: str) -> bytes:
    """The body of the API's answer, for the bare handler to repeat."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(request.replace("keep-alive", "close").encode())
        head, _, body = b"".join(iter(lambda: connection.recv(1 << 20), b"")).partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise SystemExit(f"{request.splitlines()[0]}: {head.splitlines()[0].decode()}: {body[:300].decode()}")
    return body


def compared(what: str, case: Case, server: Server, folder: Path, seconds: float) -> Row:
    body = answer_to(server.port, case.requests[0])
    api = measured(Load(server.port, server.pid, case.requests, CONNECTIONS, seconds), folder)
    alone = measured(Load(server.port, server.pid, case.requests[::-1], 1, seconds / 2), folder)
    with bare_server(body, folder) as bare:
        limit = measured(Load(bare.port, bare.pid, case.requests, CONNECTIONS, seconds), folder)
    return Row(what, api, alone, limit)


def measure(folder: Path, count: int, seconds: float, settings: Path | None = None) -> list[Row]:
    """Measure the API on files, or on the servers that a settings file names."""
    state = StateDir(folder / (f"api-{count}" if settings is None else f"api-{count}-servers"))
    prepare(state)
    size = f"{count:,} entities"
    with api_server(state, settings) as (server, token):
        member = asyncio.run(fill(state, count, settings))
        measured = [
            compared(f"{case.what} ({size})", case, server, folder, seconds)
            for case in reads(count, token, member)
        ]
        for beside in (False, True):
            what = "create, judged and shown meanwhile" if beside else "create, the API alone"
            running = (
                service("platform", state, core=1, without=BESIDE, settings=settings)
                if beside
                else nullcontext()
            )
            with running:
                case = creates(token, what)
                measured.append(compared(f"{what} ({size})", case, server, folder, seconds))
    return measured
