"""TLS: the server's certificate is checked, a client's is sent, and a kubeconfig carries both.

The certificates have no key identifiers, as those of many clusters.
"""

import asyncio
import base64
import socket
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from steelyard_common import connections
from steelyard_common.connections import make_socket
from steelyard_common.types import Json
from steelyard_kube.client import RestCluster, connect
from steelyard_kube.errors import Unreachable
from steelyard_kube.resource import NODES

_NODES = {"kind": "NodeList", "metadata": {"resourceVersion": "1"}, "items": []}


@dataclass
class Authority:
    """A certificate authority and its files in one folder."""

    folder: Path

    def __post_init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
        self.ca = self._write("ca", self._certificate(self._name, self._key, authority=True), self._key)

    def issue(self, name: str) -> Path:
        """A certificate and `.key` for this machine."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        return self._write(name, self._certificate(subject, key, authority=False), key)

    def _certificate(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, authority: bool
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder(self._name, subject, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        )
        if not authority:
            alternative = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
            builder = builder.add_extension(alternative, critical=False)
        return builder.sign(self._key, hashes.SHA256())

    def _write(self, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Path:
        path = self.folder / f"{name}.pem"
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        path.with_suffix(".key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return path


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
async def url(authority: Authority) -> AsyncIterator[str]:
    """A server that wants a client certificate of the same authority for everything."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.ca)
    certificate = authority.issue("server")
    tls.load_cert_chain(certificate, certificate.with_suffix(".key"))
    tls.verify_mode = ssl.CERT_OPTIONAL
    tls.verify_flags &= ~ssl.VERIFY_X509_STRICT  # as the API servers of Kubernetes do

    async def nodes(request: web.Request) -> web.Response:
        assert request.transport is not None
        certificate = request.transport.get_extra_info("peercert")
        return web.json_response(_NODES, status=200 if certificate else 401)

    app = web.Application()
    app.router.add_get("/api/v1/nodes", nodes)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    yield f"https://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


async def test_an_unknown_authority_is_refused(url: str) -> None:
    cluster = RestCluster(url)
    with pytest.raises(Unreachable, match="CERTIFICATE_VERIFY_FAILED"):
        await cluster.list(NODES)
    await cluster.close()


@pytest.mark.parametrize("inline", [True, False], ids=["in the file", "in files beside it"])
async def test_a_kubeconfig_carries_certificates_and_a_client_sends_its_own(
    url: str, authority: Authority, tmp_path: Path, inline: bool
) -> None:
    client = authority.issue("client")

    def part(name: str, path: Path) -> Json:
        if inline:
            return {f"{name}-data": base64.b64encode(path.read_bytes()).decode()}
        return {name: path.name}

    user = part("client-certificate", client) | part("client-key", client.with_suffix(".key"))
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        "clusters": [
            {"name": "c", "cluster": {"server": url, **part("certificate-authority", authority.ca)}}
        ],
        "users": [{"name": "c", "user": user}],
    }
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(config))
    cluster = await connect(path)
    nodes = await asyncio.gather(*(cluster.list(NODES) for _ in range(3)))
    await cluster.close()
    assert {listing.resource_version for listing in nodes} == {"1"}


async def test_a_pod_logs_in_with_its_account_and_follows_a_token_that_is_replaced(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificate = authority.issue("server")
    tls.load_cert_chain(certificate, certificate.with_suffix(".key"))
    tokens: list[str | None] = []

    async def nodes(request: web.Request) -> web.Response:
        tokens.append(request.headers.get("Authorization"))
        return web.json_response(_NODES)

    app = web.Application()
    app.router.add_get("/api/v1/nodes", nodes)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    account = tmp_path / "account"
    account.mkdir()
    (account / "ca.crt").write_bytes(authority.ca.read_bytes())
    (account / "namespace").write_text("steelyard-system\n")
    (account / "token").write_text("first")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(runner.addresses[0][1]))

    cluster = await connect(in_cluster=True, account=account)
    await cluster.list(NODES)
    # As the kubelet does it: a new file takes the place of the old one.
    (account / "new").write_text("second")
    (account / "new").rename(account / "token")
    await cluster.list(NODES)
    (account / "token").unlink()
    await cluster.list(NODES)
    await cluster.close()
    await runner.cleanup()
    assert tokens == ["Bearer first", "Bearer second", "Bearer second"]


async def test_requests_cancelled_at_any_moment_leave_no_connection_open(
    url: str, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection whose TLS has just been set up ends in good order, which no task waited for."""
    opened: list[socket.socket] = []

    def record(info: tuple[Any, Any, int, str, tuple[Any, ...]]) -> socket.socket:
        opened.append(make_socket(info))
        return opened[-1]

    monkeypatch.setattr(connections, "make_socket", record)
    tls = ssl.create_default_context(cafile=authority.ca)
    tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
    count = 0
    for turns in range(40):
        cluster = RestCluster(url, tls=tls)
        request = asyncio.create_task(cluster.list(NODES))
        for _ in range(turns):
            await asyncio.sleep(0)
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)
        await cluster.close()
        count += len(opened)
        assert [sock for sock in opened if sock.fileno() >= 0] == [], turns
        opened.clear()
    assert count > 20


async def test_a_closed_client_opens_no_connection(url: str) -> None:
    cluster = RestCluster(url)
    await cluster.close()
    with pytest.raises(Unreachable, match="the client is closed"):
        await cluster.list(NODES)
