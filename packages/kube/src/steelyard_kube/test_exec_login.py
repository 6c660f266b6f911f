"""Logins by a program: what it gets, what it may return, when it runs again, and the message when it fails."""

import asyncio
import json
import logging
import os
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from steelyard_common.types import Json
from steelyard_kube.client import RestCluster, connect
from steelyard_kube.conftest import Serve
from steelyard_kube.errors import Unauthorized
from steelyard_kube.exec_login import VERSIONS, ExecLogin, LoginFailed, Plugin, parse_plugin
from steelyard_kube.kubeconfig import KubeconfigError, load
from steelyard_kube.resource import NODES

V1, BETA = VERSIONS
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def answered(version: str, status: Json | None = None) -> str:
    """Make the output of a program."""
    return json.dumps({"kind": "ExecCredential", "apiVersion": version, "status": status})


class Program:
    """A login program: prints what `says` holds, and notes each run with its input."""

    def __init__(self, folder: Path) -> None:
        self.path, self.runs_file, self.answer = folder / "login", folder / "runs", folder / "answer"
        self.write('echo "$KUBERNETES_EXEC_INFO" >> "$RUNS"\ncat "$ANSWER"')
        self.says(token="one")

    def write(self, text: str) -> None:
        self.path.write_text(f"#!/bin/sh\n{text}\n")
        self.path.chmod(0o755)

    def says(self, version: str = V1, **status: str) -> None:
        self.answer.write_text(
            json.dumps({"kind": "ExecCredential", "apiVersion": version, "status": status})
        )

    @property
    def runs(self) -> list[Json]:
        return [json.loads(line) for line in self.runs_file.read_text().splitlines()]

    def plugin(self, **fields: Any) -> Plugin:
        env = {"RUNS": str(self.runs_file), "ANSWER": str(self.answer)}
        return Plugin(**{"version": V1, "command": str(self.path), "env": env, **fields})

    def config(self, url: str, cluster: Json | None = None, **fields: Any) -> Path:
        """A kubeconfig that names it."""
        env = [{"name": "RUNS", "value": str(self.runs_file)}, {"name": "ANSWER", "value": str(self.answer)}]
        given = {"apiVersion": V1, "command": "./login", "interactiveMode": "Never", "env": env, **fields}
        path = self.path.parent / "config"
        path.write_text(
            yaml.safe_dump(
                {
                    "current-context": "here",
                    "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
                    "clusters": [{"name": "c", "cluster": {"server": url, **(cluster or {})}}],
                    "users": [{"name": "u", "user": {"exec": given}}],
                }
            )
        )
        return path


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


def login(
    program: Program,
    *,
    now: Callable[[], datetime] = lambda: BEGIN,
    terminal: bool = False,
    tls: Callable[[str, str], ssl.SSLContext | None] = lambda certificate, key: None,
    **fields: Any,
) -> ExecLogin:
    return ExecLogin(program.plugin(**fields), tls, now=now, terminal=lambda: terminal)


class Api:
    """A server that takes one token and lists no nodes."""

    def __init__(self) -> None:
        self.takes, self.seen = "one", list[str]()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(request.headers.get("Authorization", ""))
        if self.seen[-1] != f"Bearer {self.takes}":
            return web.json_response({"kind": "Status", "code": 401, "reason": "Unauthorized"}, status=401)
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": []})


# ---- in the client


async def test_a_kubeconfig_with_a_program_logs_in(serve: Serve, program: Program) -> None:
    api = Api()
    cluster = await connect(program.config(await serve(api.answer)))
    await asyncio.gather(*(cluster.list(NODES) for _ in range(5)))
    await cluster.close()
    assert api.seen == ["Bearer one"] * 5
    assert program.runs == [{"apiVersion": V1, "kind": "ExecCredential", "spec": {"interactive": False}}]


async def test_it_is_asked_again_when_the_api_refuses(serve: Serve, program: Program) -> None:
    api = Api()
    cluster = await connect(program.config(await serve(api.answer)))
    await cluster.list(NODES)
    program.says(token="two")
    api.takes = "two"
    await cluster.list(NODES)
    assert api.seen == ["Bearer one", "Bearer one", "Bearer two"]
    api.takes = "three"
    with pytest.raises(Unauthorized):
        await cluster.list(NODES)
    assert api.seen[3:] == ["Bearer two", "Bearer two"], "once per request, not for ever"
    await cluster.close()


async def test_what_fails_is_an_error_of_the_api_and_the_next_request_asks_again(
    serve: Serve, program: Program
) -> None:
    api = Api()
    cluster = await connect(program.config(await serve(api.answer)))
    program.write("echo no network >&2; exit 7")
    with pytest.raises(Unauthorized, match="exit status 7: no network"):
        await cluster.list(NODES)
    program.write('cat "$ANSWER"')
    await cluster.list(NODES)
    await cluster.close()


async def test_a_token_that_is_written_down_goes_first(serve: Serve, program: Program) -> None:
    api = Api()
    path = program.config(await serve(api.answer))
    config = yaml.safe_load(path.read_text())
    config["users"][0]["user"]["token"] = "one"
    path.write_text(yaml.safe_dump(config))
    cluster: RestCluster = await connect(path)
    await cluster.list(NODES)
    await cluster.close()
    assert not program.runs_file.exists()


async def test_it_is_told_of_the_cluster_where_it_wants(program: Program, tmp_path: Path) -> None:
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}
    (tmp_path / "ca").write_text("pem")
    cluster = {"extensions": [extension], "tls-server-name": "n", "certificate-authority": "ca"}
    access = load(program.config("http://127.0.0.1:1", cluster, provideClusterInfo=True))
    assert access.login is not None
    await access.login.current()
    assert program.runs[0]["spec"]["cluster"] == {
        "server": "http://127.0.0.1:1",
        "tls-server-name": "n",
        "certificate-authority-data": "cGVt",
        "config": {"audience": "a"},
    }


# ---- what it gives


async def test_it_runs_again_before_its_credential_ends(program: Program) -> None:
    time = [BEGIN]
    program.says(token="one", expirationTimestamp="2026-01-01T00:10:00Z")
    credentials = login(program, now=lambda: time[0])
    assert (await credentials.current()).token == "one"
    time[0] += timedelta(minutes=9)
    await credentials.current()
    assert len(program.runs) == 1
    time[0] += timedelta(seconds=55)
    program.says(token="two")
    assert (await credentials.current()).token == "two"
    time[0] += timedelta(days=1)
    await credentials.current()
    assert len(program.runs) == 2, "without an expirationTimestamp it is good until it is refused"


async def test_a_refusal_of_an_old_credential_does_not_end_the_new_one(program: Program) -> None:
    credentials = login(program)
    old = await credentials.current()
    credentials.note_refusal(old)
    new = await credentials.current()
    credentials.note_refusal(old)
    assert await credentials.current() is new


async def test_a_certificate_is_used_with_its_key(program: Program) -> None:
    context, pairs = ssl.create_default_context(), list[tuple[str, str]]()

    def tls(certificate: str, key: str) -> ssl.SSLContext:
        pairs.append((certificate, key))
        return context

    program.says(clientCertificateData="certificate", clientKeyData="key")
    credential = await login(program, tls=tls).current()
    assert (credential.tls, credential.token, pairs) == (context, "", [("certificate", "key")])


async def test_a_certificate_that_is_none_is_said(program: Program) -> None:
    program.says(clientCertificateData="certificate", clientKeyData="key")
    access = load(program.config("https://127.0.0.1:1"))
    assert access.login is not None
    with pytest.raises(LoginFailed, match="its certificate cannot be used"):
        await access.login.current()


async def test_the_older_version_is_spoken_too(program: Program) -> None:
    program.says(BETA, token="old")
    assert (await login(program, version=BETA).current()).token == "old"
    assert program.runs[0]["apiVersion"] == BETA


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("secret", "printed no JSON"),
        ("[]", "no ExecCredential"),
        (answered(BETA), "speaks apiVersion"),
        (answered(V1), "has no status"),
        (answered(V1, {}), "neither a token nor"),
        (answered(V1, {"clientKeyData": "secret"}), "neither a token nor"),
        (answered(V1, {"token": "secret\n"}), "characters that no header takes"),
        (answered(V1, {"token": "secret", "expirationTimestamp": "soon"}), "'soon' is not a time"),
    ],
)
async def test_an_answer_that_is_none_is_said_without_it(program: Program, answer: str, words: str) -> None:
    program.answer.write_text(answer)
    with pytest.raises(LoginFailed, match=words) as failed:
        await login(program).current()
    assert "secret" not in str(failed.value)


async def test_its_words_stay_secret(program: Program, caplog: pytest.LogCaptureFixture) -> None:
    program.says(token="secret")
    with caplog.at_level(logging.DEBUG):
        assert "secret" not in repr(await login(program).current())
    assert "secret" not in caplog.text


# ---- what keeps it from running


async def test_who_has_not_installed_it_reads_how(program: Program) -> None:
    with pytest.raises(LoginFailed, match="no such program\nbrew install it"):
        await login(program, command="/nowhere/login", hint="brew install it\n").current()


async def test_who_has_to_be_asked_needs_a_terminal(program: Program) -> None:
    with pytest.raises(LoginFailed, match="has to ask at a terminal"):
        await login(program, mode="Always").current()
    await login(program, mode="Always", terminal=True).current()
    assert program.runs == [{"apiVersion": V1, "kind": "ExecCredential", "spec": {"interactive": True}}]


async def test_a_request_that_is_given_up_ends_the_program(program: Program, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    program.write(f"echo $$ > {pid}; exec sleep 100")
    task = asyncio.create_task(login(program).current())
    async with asyncio.timeout(60):
        while not (pid.exists() and pid.read_text().strip()):  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"apiVersion": "client.authentication.k8s.io/v1alpha1"}, "exec.apiVersion"),
        ({"command": ""}, "exec.command: is required"),
        ({"interactiveMode": None}, "exec.interactiveMode: is required"),
        ({"interactiveMode": "Sometimes"}, "'Sometimes': should be Never"),
    ],
)
def test_a_plugin_that_cannot_be_used_is_named(program: Program, given: Json, words: str) -> None:
    with pytest.raises(KubeconfigError, match=words):
        load(program.config("http://127.0.0.1:1", **given))


def test_a_plain_name_is_looked_up_and_a_path_begins_at_the_file(tmp_path: Path) -> None:
    given = {"apiVersion": BETA, "command": "aws"}
    assert parse_plugin(given, {}, tmp_path).command == "aws"
    assert parse_plugin({**given, "command": "bin/aws"}, {}, tmp_path).command == str(tmp_path / "bin/aws")
    assert parse_plugin({**given, "command": "/bin/aws"}, {}, tmp_path).command == "/bin/aws"
