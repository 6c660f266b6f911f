"""Certificates of clients: the key is made here and stays here; the platform signs a request that the cluster carries.

The request is an annotation of the RayCluster, so that the API's own rules about who may change the cluster decide.
"""

import asyncio
import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.clusters.connection import Connection
from steelyard.clusters.errors import Failed, Unsupported, WaitTimeout
from steelyard.clusters.kinds import RAY_CLUSTER
from steelyard.clusters.reading import text
from steelyard_common.durable import rename_durably
from steelyard_common.types import Json
from steelyard_kube.objects import read_annotations
from steelyard_schema.ray_annotations import ANSWER, CERTIFICATES, REFUSED, REQUEST

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

CERTIFICATE_SECONDS = 60.0
_POLL_SECONDS = 0.5
_END = "-----END CERTIFICATE-----\n"


@dataclass(frozen=True)
class ClientCertificate:
    """Files with which Ray's client connects to a cluster."""

    folder: Path

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables for a program that connects: `os.environ.update(…)` before `import ray`."""
        return {
            "RAY_USE_TLS": "1",
            "RAY_TLS_SERVER_CERT": str(self.folder / "tls.crt"),
            "RAY_TLS_SERVER_KEY": str(self.folder / "tls.key"),
            "RAY_TLS_CA_CERT": str(self.folder / "ca.crt"),
        }


async def certificate(
    connection: Connection, name: str, namespace: str | None, folder: Path | None, timeout: float
) -> ClientCertificate:
    from cryptography.hazmat.primitives.asymmetric import ec

    cluster = await connection.get(RAY_CLUSTER, name, namespace)
    where = text(cluster, "metadata", "namespace")
    if CERTIFICATES not in read_annotations(cluster):
        raise Unsupported(
            f"{where}/{name} has no certificates: the platform has not given it any; "
            "an administrator turns them on for new clusters (certificates in [operator.ray])"
        )
    key = ec.generate_private_key(ec.SECP256R1())
    identifier = uuid.uuid4().hex
    annotations: Json = {REQUEST + identifier: _request(key)}
    await connection.patch(RAY_CLUSTER, name, {"metadata": {"annotations": annotations}}, where)
    try:
        answer = await _answer(connection, name, where, identifier, timeout)
    finally:
        # An answer that is written later goes too: the operator removes answers without a request.
        gone: Json = {REQUEST + identifier: None, ANSWER + identifier: None}
        await connection.patch(RAY_CLUSTER, name, {"metadata": {"annotations": gone}}, where)
    own, end, authorities = answer.partition(_END)
    target = (folder or _data_folder()) / where / name
    _write(target, {"tls.key": _key_text(key), "tls.crt": own + end, "ca.crt": authorities})
    return ClientCertificate(target)


async def _answer(connection: Connection, name: str, namespace: str, identifier: str, timeout: float) -> str:
    loop = asyncio.get_running_loop()
    until = loop.time() + timeout
    while True:
        cluster = await connection.get(RAY_CLUSTER, name, namespace)
        answer = read_annotations(cluster).get(ANSWER + identifier)
        if answer is not None and answer.startswith(REFUSED):
            raise Failed(f"{namespace}/{name}: {answer}", None)
        if answer is not None:
            return answer
        if loop.time() > until:
            fault = f"the platform has not answered the request for a certificate within {timeout:g} s"
            raise WaitTimeout(f"{namespace}/{name}: {fault}", None)
        await asyncio.sleep(_POLL_SECONDS)


def _request(key: "EllipticCurvePrivateKey") -> str:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509.oid import NameOID

    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "steelyard client")])
    request = x509.CertificateSigningRequestBuilder(subject).sign(key, hashes.SHA256())
    return request.public_bytes(Encoding.PEM).decode()


def _key_text(key: "EllipticCurvePrivateKey") -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def _data_folder() -> Path:
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "steelyard" / "ray"


def _write(folder: Path, texts: Mapping[str, str]) -> None:
    """Write files that no other user can read at any moment, each whole or not at all."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, content in texts.items():
        new = folder / f".{name}.{uuid.uuid4().hex}"
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w") as file:
            file.write(content)
        rename_durably(new, folder / name)
