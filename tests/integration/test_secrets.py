"""A gated model, fetched with a token that an account keeps as a secret; and the search for the token afterwards."""

import asyncio
import base64
import gzip
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from steelyard.client import Client, WorkflowFailed
from steelyard.client.errors import Invalid
from steelyard.local.detached import UpOptions
from steelyard.local.supervisor import start_detached
from steelyard_kube.resource import DEPLOYMENTS, INFERENCE_SESSIONS, SECRETS
from steelyard_schema.model import Model
from steelyard_schema.names import account_namespace
from tests.integration.conftest import Machine
from tests.integration.contents import contents
from tests.integration.http_server import QuietHandler, http_server

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]

TOKEN = "hf_Qz7distinctiveTokenOfThisTest4Kx"
COMMIT = "c" * 40
FILES = {"config.json": b"{}", "model.safetensors": b"w" * 5000}
PLACE = {"repoID": "acme/gated", "revision": "main"}
ACCOUNT = "research"


@dataclass
class Hub:
    """A hub with one gated model, and a receiver of everything that the platform sends to other systems."""

    token: str = TOKEN
    url: str = ""
    received: list[bytes] = field(default_factory=list)
    """Bodies of traces and of lineage."""


@contextmanager
def running_hub() -> Iterator[Hub]:
    hub = Hub()

    class Handler(QuietHandler):
        def do_HEAD(self) -> None:
            self._answer()

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            hub.received.append(
                gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body
            )
            self._send(200, b"")

        def _answer(self) -> None:
            path = urlsplit(self.path).path
            given = self.headers["Authorization"]
            if given != f"Bearer {hub.token}":
                # It repeats what it was given, as a careless server may.
                text = {"X-Error-Code": "GatedRepo", "X-Error-Message": f"{given} may not see acme/gated"}
                self._send(401 if given is None else 403, b"{}", text)
            elif path == "/api/models/acme/gated/revision/main":
                siblings = [{"rfilename": name, "size": len(data)} for name, data in FILES.items()]
                info = {"id": "acme/gated", "modelId": "acme/gated", "sha": COMMIT, "siblings": siblings}
                self._send(200, json.dumps(info).encode())
            else:
                data = FILES[path.removeprefix(f"/acme/gated/resolve/{COMMIT}/")]
                self._send(200, data, {"ETag": '"etag"', "X-Repo-Commit": COMMIT})

        def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    with http_server(Handler) as url:
        hub.url = url
        yield hub


@pytest.fixture
def hub() -> Iterator[Hub]:
    with running_hub() as made:
        yield made


def up(machine: Machine, hub: Hub, tmp_path: Path, *without: str) -> None:
    """Start the machine with the hub as its mirror, and send traces and lineage to it."""
    settings = tmp_path / "steelyard.toml"
    settings.write_text(
        f'[operator]\nhub = "{hub.url}"\n'
        '[egress]\nsources = ["http://127.0.0.1"]\nnetworks = ["127.0.0.0/8"]\n'
        f'[telemetry]\nopenlineage_url = "{hub.url}"\notlp_endpoint = "{hub.url}"\n'
        "[api]\naccess_log = true\n"
    )
    start_detached(machine.state.path, UpOptions(settings=settings, without=without))


def create_model(client: Client, name: str = "gated") -> Model:
    return client.models.create(
        account=ACCOUNT,
        name=name,
        source={"kind": "HuggingFaceHub", "huggingFaceHub": PLACE},
        artifact={"kind": "HuggingFaceCache", "huggingFaceCache": PLACE},
        storage={"medium": "ObjectStorage"},
        resources={"storage": "1Mi"},
        secrets={"source": "hub-token"},
    )


def steelyard(*arguments: str, folder: Path, text: str = "") -> str:
    command = [sys.executable, "-m", "steelyard.cli.main", *arguments, "--state-dir", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, input=text)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def forms(value: str) -> set[bytes]:
    """The value in clear, and its form within base64, wherever it begins there."""
    data = value.encode()
    # The first and the last digits depend on the neighbours.
    within = [base64.b64encode(b"x" * shift + data)[4 if shift else 0 : -4] for shift in range(3)]
    return {data, data[::-1], data.hex().encode(), *within}


def places(folder: Path, value: str) -> list[str]:
    """The files below a folder that hold the value, compressed ones included."""
    holding = []
    for path, content in sorted(contents(folder)):
        text = gzip.decompress(content) if path.suffix == ".gz" else content
        if any(form in text for form in forms(value)):
            holding.append(str(path.relative_to(folder)))
    return holding


def test_the_search_finds_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "clear").write_text(f"a {TOKEN} b")
    for shift in range(3):
        text = json.dumps({"auth": base64.b64encode(b"x" * shift + TOKEN.encode() + b"yz").decode()})
        (tmp_path / f"base64-{shift}").write_text(text)
    (tmp_path / "packed.gz").write_bytes(gzip.compress(TOKEN.encode()))
    (tmp_path / "other").write_text(TOKEN[:-1])
    assert places(tmp_path, TOKEN) == ["base64-0", "base64-1", "base64-2", "clear", "packed.gz"]


async def until_no_secrets(machine: Machine) -> None:
    """Wait until the account's namespace holds no Secret: the workflows have stopped."""
    async with asyncio.timeout(600), machine.cluster() as cluster:
        while True:
            if not (await cluster.list(SECRETS, account_namespace(ACCOUNT))).items:
                return
            await asyncio.sleep(0.1)


async def test_a_gated_model_is_fetched_and_its_token_is_found_nowhere(
    machine: Machine, hub: Hub, tmp_path: Path
) -> None:
    up(machine, hub, tmp_path)
    state = machine.state.path
    tokens = [TOKEN, f"{TOKEN}-rotated", f"{TOKEN}-wrong"]
    with machine.client() as client:
        with pytest.raises(Invalid, match="account research has no secret hub-token"):
            create_model(client)
        said = steelyard("secret", "set", "hub-token", "--account", ACCOUNT, folder=state, text=f"{TOKEN}\n")
        said += steelyard("secret", "list", "--account", ACCOUNT, "-o", "json", folder=state)
        first = create_model(client)
        client.models.wait(first.id, timeout=600)
        # The next workflow uses the new value; the hub takes no other.
        hub.token = tokens[1]
        client.secrets.set(ACCOUNT, "hub-token", tokens[1])
        second = create_model(client, "again")
        client.models.wait(second.id, timeout=600)
        client.secrets.set(ACCOUNT, "hub-token", tokens[2])
        third = create_model(client, "refused")
        with pytest.raises(WorkflowFailed, match="the hub refuses the token") as failure:
            client.models.wait(third.id, timeout=600)
        said += str(failure.value)
        for model in (first, second, third):
            said += steelyard("describe", "model", model.id, folder=state)
            said += steelyard("logs", "model", model.id, folder=state)
        assert not any(token in said for token in tokens)
        await until_no_secrets(machine)
        # While everything runs: in no log, no database with its write-ahead log, no backup, no folder of a Pod.
        for token in tokens:
            assert places(state, token) == []
        steelyard("secret", "delete", "hub-token", "--account", ACCOUNT, folder=state)
        with pytest.raises(Invalid):
            create_model(client)
    machine.down()
    steelyard("export", str(tmp_path / "export"), folder=state, text="")
    assert (tmp_path / "export").is_dir()
    for token in tokens:
        assert places(tmp_path, token) == []
    # Traces and lineage were sent, and not the token.
    assert any(b"fetch_model" in body for body in hub.received)
    assert not any(form in body for body in hub.received for token in tokens for form in forms(token))
    assert (state / "pki" / "secret-keys").stat().st_mode & 0o777 == 0o600


def until_waiting(client: Client, id: str) -> Model:
    """The model, once it says what it waits for."""
    until = time.monotonic() + 600
    while (model := client.models.get(id)).reason is None:
        assert time.monotonic() < until, model
        time.sleep(0.1)
    return model


def test_a_deleted_secret_is_waited_for_and_read_again_with_a_rotated_key(
    machine: Machine, hub: Hub, tmp_path: Path
) -> None:
    # Nothing is admitted yet.
    up(machine, hub, tmp_path, "orchestrator")
    with machine.client() as client:
        client.secrets.set(ACCOUNT, "hub-token", TOKEN)
        client.secrets.set(ACCOUNT, "other", TOKEN)
        before = {secret.name: secret for secret in client.secrets.list(ACCOUNT)}
        model = create_model(client)
        client.secrets.delete(ACCOUNT, "hub-token")
    machine.down()
    keys = machine.state.secret_keys
    old = keys.read_text()
    keys.write_text(f"{base64.b64encode(os.urandom(32)).decode()}\n{old}")
    up(machine, hub, tmp_path)
    with machine.client() as client:
        waiting = until_waiting(client, model.id)
        assert (waiting.status, waiting.reason) == ("Created", "WaitingForSecret")
        assert waiting.message == "secrets.source: account research has no secret hub-token; it is waited for"
        # Everything is encrypted with the new key by now, so the old one may go.
        (other,) = client.secrets.list(ACCOUNT)
        assert other.created == before["other"].created
        assert other.fingerprint != before["other"].fingerprint
        machine.down()
        keys.write_text(keys.read_text().splitlines()[0])
    up(machine, hub, tmp_path)
    with machine.client() as client:
        assert client.secrets.set(ACCOUNT, "other", TOKEN).fingerprint == other.fingerprint
        client.secrets.set(ACCOUNT, "hub-token", TOKEN)
        client.models.wait(model.id, timeout=600)


async def test_the_image_of_a_private_registry_is_pulled_with_a_secret(machine: Machine) -> None:
    machine.up()
    state, password = machine.state.path, "p-Qz7distinctivePassword4Kx"
    options = ("--account", ACCOUNT, "--registry", "registry.example.com", "--username", "robot")
    steelyard("secret", "set", "registry", *options, folder=state, text=password)
    image = {"host": "registry.example.com", "name": "private/mock", "digest": "sha256:" + "0" * 64}
    with machine.client() as client:
        service = client.inferenceservices.create(
            account=ACCOUNT,
            name="private",
            runner={"kind": "mock", "image": image, "resources": {"cpu": "100m"}},
            interface={"endpoint": "predict", "outputSchema": {"arrowSchema": "AAAA"}},
            secrets={"imagePull": "registry"},
        )
        client.inferenceservices.wait(service.id, timeout=600)
        made = client.inferencesessions.create(account=ACCOUNT, inferenceService=service.id)
        session = made.inferencesession.id
        client.inferencesessions.wait(session, timeout=600)
        async with machine.cluster() as cluster:
            (secret,) = (await cluster.list(SECRETS, account_namespace(ACCOUNT))).items
            (deployment,) = (await cluster.list(DEPLOYMENTS, account_namespace(ACCOUNT))).items
            (resource,) = (await cluster.list(INFERENCE_SESSIONS, account_namespace(ACCOUNT))).items
        assert secret["type"] == "kubernetes.io/dockerconfigjson"
        content = json.loads(base64.b64decode(secret["data"][".dockerconfigjson"]))
        assert content["auths"]["registry.example.com"]["password"] == password
        owner = secret["metadata"]["ownerReferences"][0]
        assert (owner["kind"], owner["uid"]) == ("InferenceSession", resource["metadata"]["uid"])
        pod = deployment["spec"]["template"]["spec"]
        assert pod["imagePullSecrets"] == [{"name": secret["metadata"]["name"]}]
        client.inferencesessions.terminate(session)
    await until_no_secrets(machine)
    assert places(state, password) == []
