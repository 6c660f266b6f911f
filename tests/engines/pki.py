"""Certificates of a throw-away control plane: one authority, one server, one administrator; of a cluster, more."""

import ipaddress
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

Key = ec.EllipticCurvePrivateKey


SERVER = {"apiserver": ("localhost", "kubernetes.default.svc", "127.0.0.1", "10.96.0.1")}
ADMINISTRATOR = {"admin": ("admin", "system:masters")}


def make(
    folder: Path,
    servers: Mapping[str, Iterable[str]] = SERVER,
    clients: Mapping[str, tuple[str, str]] = ADMINISTRATOR,
) -> None:
    """Writes ca.{crt,key}, sa.{key,pub} and NAME.{crt,key} of each server and client into `folder`.

    Servers have their names and addresses, clients a common name and an organization or none.
    """
    folder.mkdir(parents=True, exist_ok=True)
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca_name = _name("kubernetes-ca")
    ca = (
        _builder(ca_name, ca_name, ca_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    _write(folder / "ca", ca, ca_key)
    for name, hosts in servers.items():
        _leaf(folder / name, _name(name), ca_name, ca_key, [_host(host) for host in hosts])
    for name, (common, organization) in clients.items():
        _leaf(folder / name, _name(common, organization), ca_name, ca_key, [])
    account_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    (folder / "sa.key").write_bytes(_pem(account_key))
    (folder / "sa.pub").write_bytes(
        account_key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _leaf(path: Path, name: x509.Name, issuer: x509.Name, ca_key: Key, hosts: list[x509.GeneralName]) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    usage = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
    builder = _builder(name, issuer, key).add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
    _write(path, builder.sign(ca_key, hashes.SHA256()), key)


def _name(common: str, organization: str = "") -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, common)]
    if organization:
        parts.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(parts)


def _builder(subject: x509.Name, issuer: x509.Name, key: Key) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=1))
    )


def _write(path: Path, certificate: x509.Certificate, key: Key) -> None:
    path.with_suffix(".crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    path.with_suffix(".key").write_bytes(_pem(key))


def _pem(key: Key | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
