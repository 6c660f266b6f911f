"""Log files of `steelyard up` after a story: none holds a token, a key or a signature, wherever one was sent."""

import base64
import re
import socket
import ssl
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
import yaml

from tests.integration.conftest import machine_at

pytestmark = pytest.mark.e2e

JWT = re.compile(rb"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}")
SIGNED = re.compile(rb"signature=[0-9A-Za-z_-]{16,}", re.IGNORECASE)


def _secrets(kubeconfig: Path) -> list[str]:
    """Return the tokens and keys of a kubeconfig, as they stand there and decoded."""
    texts = []
    for entry in yaml.safe_load(kubeconfig.read_text())["users"]:
        for name, value in entry["user"].items():
            if name == "token":
                texts.append(value)
            if name.endswith("key-data"):
                texts += [value, base64.b64decode(value).decode().splitlines()[1]]
    return texts


def _misplaced(api: str, token: str, other: str) -> None:
    """Send tokens where they do not belong, and requests that fail in many ways."""
    root = api.removesuffix("/v0")
    bearer = {"Authorization": f"Bearer {token}"}
    with httpx.Client(timeout=60) as client:
        for text in (token, other):
            client.get(f"{api}/reports", params={"token": text, "access_token": text})
            client.get(f"{api}/reports/{text}", headers=bearer)
            client.get(f"{root}/{text}")
            client.get(f"{api}/reports", headers={"Authorization": f"Token {text}"})
            client.get(f"{api}/reports", headers={"Authorization": f"Bearer {text}x"})
            client.get(f"{api}/reports", headers={"Cookie": f"token={text}", "X-Request-Id": text})
            client.get(f"{api}/reports", params={"query": text}, headers=bearer)
            client.get(f"{root}/v2/artifacts/{'0' * 32}/tags/list", auth=("user", text))
            client.post(f"{api}/reports", headers=bearer, json={"account": text, "rubric": text})
            client.post(f"{api}/reports", headers=bearer, content=f'{{"a": "{text}"')
            client.post(f"{api}/datasets", headers={**bearer, "Idempotency-Key": text}, json={})
            client.get(f"{api}/reports", headers={"Host": f"{text[:60]}.example.com"})
    address = urlsplit(api)
    for text in (
        f"GET /{token} HTTP/9.9\r\n\r\n",
        f"{token}\r\n\r\n",
        f"GET /x?{token} HTTP/1.1\r\nA\x00: {token}\r\n\r\n",
    ):
        with socket.create_connection((address.hostname or "", address.port or 0), timeout=60) as connection:
            connection.sendall(f"{text}\r\n\r\n".encode())
            connection.recv(4096)


def test_no_log_holds_a_token(tmp_path: Path) -> None:
    with machine_at(tmp_path / "state") as machine:
        ready = machine.up()
        token, administrator = ready.token or "", machine.state.token.read_text().strip()
        secrets = [token, administrator, *_secrets(machine.state.kubeconfig)]
        made = subprocess.run(
            [sys.executable, "-m", "steelyard.cli.main", "token", "--state-dir", str(machine.state.path)],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        secrets += [line for line in made.stdout.split() if len(line) > 30]
        _misplaced(ready.api or "", token, administrator)
        server = yaml.safe_load(machine.state.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
        tls = ssl.create_default_context(cafile=machine.state.pki / "ca.crt")
        with httpx.Client(verify=tls, timeout=60) as client:
            for text in (token, administrator):
                client.get(
                    f"{server}/api/v1/namespaces/{text}", headers={"Authorization": f"Bearer {administrator}"}
                )
                client.get(
                    f"{server}/{text}", params={"token": text}, headers={"Authorization": f"Bearer {text}x"}
                )
        machine.down()
        logs = [path for path in machine.state.path.rglob("*") if path.is_file() and ".log" in path.name]
        assert {path.name for path in logs} >= {"platform.log", "kubernetes.log", "operator.log"}
        for path in logs:
            content = path.read_bytes()
            assert [text[:12] for text in secrets if text.encode() in content] == [], path.name
            assert JWT.search(content) is None, path.name
            assert SIGNED.search(content) is None, path.name
