"""Logins by a program, as the kubeconfigs of the large clouds have them: `users[].user.exec`.

Contract: client-go credential plugins, https://kubernetes.io/docs/reference/access-authn-authz/authentication/
(`client.authentication.k8s.io/v1` and `v1beta1`). `kubeconfig.py` reads the plugin, `client.py` asks for credentials.
What the program prints is secret: it is in no message.
"""

import asyncio
import json
import os
import ssl
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal, Protocol, get_args

from steelyard_common.types import Json, sequence
from steelyard_kube.errors import Unauthorized
from steelyard_kube.times import parse_time

Mode = Literal["Never", "IfAvailable", "Always"]
VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
VARIABLE = "KUBERNETES_EXEC_INFO"
SECONDS = 60.0
"""Longest run, in seconds, of a program that asks no person. One that asks a person waits for the answer."""
MARGIN = timedelta(seconds=10)
"""Seconds before its end at which a credential is renewed, because a request takes a while to arrive."""
SHOWN = 500


class BadPlugin(Exception):
    """A kubeconfig's description of its login program cannot be used; the message names the field."""


class LoginFailed(Unauthorized):
    """The program gave no credential; the next request asks it again."""


@dataclass(frozen=True)
class Plugin:
    """Description of the login program in a kubeconfig."""

    version: str
    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    hint: str = ""
    """Message for a user who has not installed it."""
    mode: Mode = "IfAvailable"
    """True if the program may ask a person at the terminal."""
    cluster: Json | None = None
    """Information about the cluster for the program, if the kubeconfig asks for that."""


@dataclass(frozen=True)
class Credential:
    """Output of the program: a token, a certificate with its key, or both."""

    token: str = field(default="", repr=False)
    certificate: tuple[str, str] | None = field(default=None, repr=False)
    expires: datetime | None = None
    tls: ssl.SSLContext | None = None


class Login(Protocol):
    """A way to log in with credentials that end."""

    async def current(self) -> Credential:
        """Return a credential that is good. Raises LoginFailed."""
        ...

    def note_refusal(self, credential: Credential) -> None:
        """Take note that the API did not accept it."""
        ...


def parse_plugin(entry: Json, cluster: Json, folder: Path) -> Plugin:
    """Reads a plugin from the `exec` of a user and its cluster, as they are written. Raises BadPlugin."""
    version, command, mode = entry.get("apiVersion"), entry.get("command"), entry.get("interactiveMode")
    if version not in VERSIONS:
        raise BadPlugin(
            f"exec.apiVersion {version!r}: should be {' or '.join(VERSIONS)}; newer tools write these"
        )
    if not isinstance(command, str) or not command:
        raise BadPlugin("exec.command: is required")
    if mode is None and version == VERSIONS[0]:
        raise BadPlugin(
            f"exec.interactiveMode: is required with {version}; should be {', '.join(get_args(Mode))}"
        )
    if mode not in (None, *get_args(Mode)):
        raise BadPlugin(f"exec.interactiveMode {mode!r}: should be {', '.join(get_args(Mode))}")
    if "/" in command:  # else it is looked up in PATH
        command = str(folder / command)
    try:
        env = {str(variable["name"]): str(variable["value"]) for variable in sequence(entry, "env")}
    except (KeyError, TypeError):
        raise BadPlugin("exec.env: should be a list of {name, value}") from None
    return Plugin(
        version,
        command,
        tuple(map(str, sequence(entry, "args"))),
        env,
        str(entry.get("installHint") or ""),
        mode or "IfAvailable",
        cluster if entry.get("provideClusterInfo") else None,
    )


def a_terminal() -> bool:
    """Return whether a person could be asked."""
    return sys.stdin is not None and sys.stdin.isatty()


def clock() -> datetime:
    return datetime.now(UTC)


class ExecLogin:
    """The program's newest credential. `tls` makes a context with its certificate."""

    def __init__(
        self,
        plugin: Plugin,
        tls: Callable[[str, str], ssl.SSLContext | None],
        *,
        now: Callable[[], datetime] = clock,
        terminal: Callable[[], bool] = a_terminal,
    ) -> None:
        self._plugin = plugin
        self._tls = tls
        self._now = now
        self._terminal = terminal
        self._newest: Credential | None = None
        self._asking = asyncio.Lock()

    async def current(self) -> Credential:
        """A credential that is good; the program runs once, however many requests wait. Raises LoginFailed."""
        # One program at a time: many requests wait at a start, and each would open a browser of its own.
        async with self._asking:
            if self._newest is None or (
                self._newest.expires is not None and self._now() >= self._newest.expires - MARGIN
            ):
                self._newest = None
                self._newest = await self._ask()
            return self._newest

    def note_refusal(self, credential: Credential) -> None:
        """The API did not take it: the next request needs another, unless there is one already."""
        # Several requests may have failed with the same credential: the new one of the first must not be thrown away.
        if self._newest is credential:
            self._newest = None

    async def _ask(self) -> Credential:
        interactive = self._plugin.mode != "Never" and self._terminal()
        if self._plugin.mode == "Always" and not interactive:
            raise self._fail("it has to ask at a terminal (interactiveMode: Always), and there is none")
        credential = self._read(await self._output(interactive))
        if credential.certificate is None:
            return credential
        try:
            tls = self._tls(*credential.certificate)
        except (ssl.SSLError, OSError) as error:
            raise self._fail(f"its certificate cannot be used: {error}") from None
        return Credential(credential.token, credential.certificate, credential.expires, tls)

    async def _output(self, interactive: bool) -> bytes:
        plugin = self._plugin
        try:
            spec: Json = {"interactive": interactive}
            if plugin.cluster is not None:
                spec["cluster"] = plugin.cluster
            info = {"apiVersion": plugin.version, "kind": "ExecCredential", "spec": spec}
            process = await asyncio.create_subprocess_exec(
                plugin.command,
                *plugin.args,
                env={**os.environ, **plugin.env, VARIABLE: json.dumps(info)},
                # A program that asks although no person is there reads the end of the file, and fails instead of
                # waiting.
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=None if interactive else asyncio.subprocess.PIPE,
            )
        except FileNotFoundError:
            hint = f"\n{plugin.hint.strip()}" if plugin.hint else "; install it, or correct exec.command"
            raise self._fail(f"there is no such program{hint}") from None
        except OSError as error:
            raise self._fail(f"it cannot be run: {error.strerror}") from None
        try:
            async with asyncio.timeout(None if interactive else SECONDS):
                output, said = await process.communicate()
        except TimeoutError:
            raise self._fail(f"it did not end within {SECONDS:.0f} s") from None
        finally:
            # Also after a cancellation: no login program is left behind.
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            words = (said or b"").decode(errors="replace").strip()[-SHOWN:]
            raise self._fail(f"it ended with exit status {process.returncode}{': ' * bool(words)}{words}")
        return output

    def _read(self, output: bytes) -> Credential:
        try:
            said = json.loads(output)
        except ValueError:
            raise self._fail("it printed no JSON") from None
        if not isinstance(said, dict) or said.get("kind") != "ExecCredential":
            raise self._fail("it printed no ExecCredential")
        if said.get("apiVersion") != self._plugin.version:
            raise self._fail(
                f"it speaks apiVersion {said.get('apiVersion')!r}, and the kubeconfig {self._plugin.version}"
            )
        status = said.get("status")
        if not isinstance(status, dict):
            raise self._fail("its ExecCredential has no status")
        token, certificate, key = (
            str(status.get(name) or "") for name in ("token", "clientCertificateData", "clientKeyData")
        )
        # client-go's contract: a token, or a certificate together with its key, or both.
        if bool(certificate) != bool(key) or not (token or certificate):
            raise self._fail("its status has neither a token nor clientCertificateData with clientKeyData")
        if not token.isprintable():
            raise self._fail("its token has characters that no header takes")
        return Credential(token, (certificate, key) if certificate else None, self._time(status))

    def _time(self, status: Json) -> datetime | None:
        text = status.get("expirationTimestamp")
        if not text:
            return None
        try:
            return parse_time(str(text))
        except ValueError:
            raise self._fail(
                f"its expirationTimestamp {str(text)[:40]!r} is not a time such as 2030-01-31T12:00:00Z"
            ) from None

    def _fail(self, why: str) -> LoginFailed:
        return LoginFailed(f"the login program {self._plugin.command} of the kubeconfig: {why}")


def with_certificate(context: ssl.SSLContext | None, certificate: str, key: str) -> ssl.SSLContext | None:
    """The context, which now shows the certificate. OpenSSL reads files alone: they are ours, and gone at once."""
    if context is None:
        return None
    with tempfile.TemporaryDirectory(prefix="steelyard-") as folder:  # 0700
        files = [Path(folder) / name for name in ("certificate", "key")]
        for file, text in zip(files, (certificate, key), strict=True):
            file.write_text(text)
        context.load_cert_chain(str(files[0]), str(files[1]))
    return context
