"""A server of its own process for attacks: an unbounded request ends it, and it alone.

Attackers are ServiceAccounts: one without a right, and others that may do something in their namespace.
"""

import asyncio
import io
import json
import os
import resource
import ssl
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import aiohttp
import pytest

ADMIN = "a token of tests"
MOST = 64 << 20  # bytes that the process may have grown by afterwards
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
ACCESS = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
SERVER = """
import asyncio, resource, sys
from pathlib import Path
from steelyard_local_kubernetes.apiserver.access.users import administrator
from steelyard_local_kubernetes.apiserver.direct import direct_cluster
from steelyard_local_kubernetes.apiserver.server import ApiServerConfig, serve
from steelyard_local_kubernetes.installation import install_definitions
from steelyard_schema.definitions import load_definitions

resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))

async def main():
    folder = Path(sys.argv[1])
    config = ApiServerConfig(folder / "kubernetes.db", folder / "pki", {sys.argv[2]: "tester"})
    async with serve(config) as server:
        if sys.argv[3] == "every kind":
            cluster = direct_cluster(server.core, administrator("tester"), server.url)
            await install_definitions(cluster, load_definitions())
        print(server.url, server.ca, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""
Kinds = Literal["built-in kinds", "every kind"]
Answer = tuple[int, bytes]


class Victim:
    """The server's process, and callers of it."""

    def __init__(self, process: "subprocess.Popen[str]", url: str, ca: str) -> None:
        self.process, self.url = process, url
        self.tls = ssl.create_default_context(cafile=ca)
        self.tokens: dict[str, str] = {}

    async def ask(self, method: str, path: str, token: str = "", **fields: Any) -> Answer:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        headers |= fields.pop("headers", {})
        timeout = aiohttp.ClientTimeout(total=60)
        async with (
            aiohttp.ClientSession(timeout=timeout, max_line_size=1 << 20, max_field_size=1 << 20) as session,
            session.request(method, self.url + path, ssl=self.tls, headers=headers, **fields) as answer,
        ):
            return answer.status, await answer.read()

    async def make_account(self, name: str, *verbs: str) -> None:
        """Make an account that may do this with all kinds of its namespace; `tokens` has its token."""
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        assert (await self.ask("POST", accounts, ADMIN, json={"metadata": {"name": name}}))[0] == 201
        rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": list(verbs)}]
        role = {"metadata": {"name": name}, "rules": rules if verbs else []}
        assert (await self.ask("POST", f"{ACCESS}/roles", ADMIN, json=role))[0] == 201
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
        binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
        assert (await self.ask("POST", f"{ACCESS}/rolebindings", ADMIN, json=binding))[0] == 201
        status, answer = await self.ask("POST", f"{accounts}/{name}/token", ADMIN, json={"spec": {}})
        assert status == 201
        self.tokens[name] = json.loads(answer)["status"]["token"]

    async def warm_up(self) -> None:
        """Let the server make what it makes once."""
        large = b'{"a": "' + b"x" * (2 << 20) + b'"}'
        for _ in range(2):
            await self.send("POST", REVIEWS, self.tokens["weak"], large)

    async def send(self, method: str, path: str, token: str, body: bytes, **headers: str) -> Answer:
        """Send a body, of JSON unless the headers say otherwise; return the answer."""
        # As a file: aiohttp warns of large bodies in memory.
        sent = {"content-type": "application/json", **headers}
        return await self.ask(method, path, token, data=io.BytesIO(body), headers=sent)

    async def answers_to(self, *attacks: Any) -> Sequence[Answer | BaseException]:
        """Let attacks go on side by side while others ask whether the server is there; return its answers."""
        attack = asyncio.gather(*attacks, return_exceptions=True)
        while True:
            status, _ = await self.ask("GET", "/readyz")
            assert status == 200
            if attack.done():
                return attack.result()
            await asyncio.sleep(0.02)

    def memory(self) -> int:
        """Bytes of the process in memory."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * resource.getpagesize()


@contextmanager
def victim_at(folder: Path, kinds: Kinds) -> Iterator[Victim]:
    """A server on this folder, which is killed at the end."""
    if os.environ.get("KUBECONFIG_REAL"):
        pytest.skip("about the embedded server alone")
    command = [sys.executable, "-c", SERVER, str(folder), ADMIN, kinds]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url, ca = process.stdout.readline().split()
            yield Victim(process, url, ca)
        finally:
            process.kill()  # a fault here would else be waited for as long as the server runs


def message_of(answer: Answer) -> str:
    """Return what an answer says of its refusal; empty for one without a message."""
    try:
        return str(json.loads(answer[1])["message"])
    except (ValueError, LookupError, TypeError):
        return ""
