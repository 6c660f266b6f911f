"""The server's own certificate authority, its certificate, and the kubeconfig that trusts them."""

import ipaddress
import logging
import os
import ssl
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from steelyard_common.durable import rename_durably
from steelyard_common.platform_identity import PlatformIdentity
from steelyard_common.types import Json

_log = logging.getLogger(__name__)
VALID = timedelta(days=3650)
"""Validity of certificates, also backwards: one that begins now would be refused by everybody once the clock
is set back.
"""
RENEW = timedelta(days=30)
_DAMAGED = (
    ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm, x509.InvalidVersion, x509.ExtensionNotFound,
    x509.DuplicateExtension, x509.UnsupportedGeneralNameType,
)  # fmt: skip
"""Errors of files that are not a certificate or key any more; what a certificate holds is read only when asked."""


def server_context(
    folder: Path,
    host: str,
    now: datetime,
    names: Sequence[str] = (),
    platform: PlatformIdentity | None = None,
) -> ssl.SSLContext:
    """Return TLS of the server, by the host and further names and addresses.

    Makes missing files, and replaces those that expire soon, lack one of the names or are another platform's:
    certificates of another authority would make administrators.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    authority = (folder / "ca.crt", folder / "ca.key")
    foreign = any(is_foreign(path.read_bytes(), platform) for path in authority if path.exists())
    if foreign or _is_due(folder / "ca.crt", now) or not (_belong(*authority) and _is_authority(folder)):
        _say_anew(*authority)
        _make_authority(folder, now, platform)
        # A certificate of the authority before is refused by everybody who trusts the new one alone.
        (folder / "server.crt").unlink(missing_ok=True)
    if platform is not None:
        for path in authority:
            platform.take_over(path)
    if not _serves(folder / "server.crt", (host, *names), now):
        _say_anew(folder / "server.crt", folder / "server.key")
        _make_server(folder, (host, *names), now)
    if not _serves(folder / "admin.crt", (), now):
        _make_client(folder, "steelyard-admin", "system:masters", now)
    return _context(folder)


def _context(folder: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    # A client may show a certificate of this authority; one that shows none is known by a token, or is anonymous.
    context.load_verify_locations(folder / "ca.crt")
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


def kubeconfig(url: str, ca: Path, token: str) -> Json:
    """The administrator's; with a certificate in addition to the token, since some clients read only one of them."""
    user: Json = {"token": token}
    if (certificate := ca.with_name("admin.crt")).exists():
        user |= {"client-certificate": str(certificate), "client-key": str(ca.with_name("admin.key"))}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "steelyard",
        "clusters": [{"name": "steelyard", "cluster": {"server": url, "certificate-authority": str(ca)}}],
        "users": [{"name": "steelyard", "user": user}],
        "contexts": [
            {
                "name": "steelyard",
                "context": {"cluster": "steelyard", "user": "steelyard", "namespace": "default"},
            }
        ],
    }


def _read(path: Path) -> x509.Certificate | None:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except (FileNotFoundError, *_DAMAGED):
        return None


def _belong(certificate: Path, key: Path) -> bool:
    """Return whether both can be read, and the key is the certificate's."""
    loaded = _read(certificate)
    try:
        private = serialization.load_pem_private_key(key.read_bytes(), None)
        # Read only now: a certificate with a wrong bit may be loaded and have no key.
        return loaded is not None and loaded.public_key() == private.public_key()
    except (FileNotFoundError, *_DAMAGED):
        return False


def _is_authority(folder: Path) -> bool:
    """Return whether the authority's certificate is whole: it has signed itself, and OpenSSL can read it."""
    loaded = _read(folder / "ca.crt")
    try:
        if loaded is not None:
            loaded.verify_directly_issued_by(loaded)
            ssl.create_default_context(cafile=folder / "ca.crt")
            return True
    except (ssl.SSLError, *_DAMAGED):
        pass
    return False


def _say_anew(*paths: Path) -> None:
    """Warns only where files were there: a first start makes everything."""
    if any(path.exists() for path in paths):
        names = " and ".join(str(path) for path in paths)
        why = "one is lost, damaged, another platform's, about to end, not yet valid or lacks a name"
        _log.warning("%s are created again: %s", names, why)


def _is_due(path: Path, now: datetime) -> bool:
    """Return whether the certificate is missing, ends soon, or was made while the clock was ahead."""
    loaded = _read(path)
    try:
        return loaded is None or loaded.not_valid_after_utc < now + RENEW or loaded.not_valid_before_utc > now
    except _DAMAGED:
        return True


def _serves(path: Path, hosts: Sequence[str], now: datetime) -> bool:
    loaded = _read(path)
    authority = _read(path.with_name("ca.crt"))
    if (
        loaded is None
        or authority is None
        or _is_due(path, now)
        or not _belong(path, path.with_suffix(".key"))
    ):
        return False
    try:
        loaded.verify_directly_issued_by(authority)
        # What one library reads as it was meant, the other may refuse.
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(path, path.with_suffix(".key"))
        if not hosts:  # a client's
            return True
        names = list(loaded.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except (ssl.SSLError, *_DAMAGED):
        return False
    return all(_alternative(host) in names for host in hosts)


def _make_authority(folder: Path, now: datetime, platform: PlatformIdentity | None) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("steelyard-ca")
    builder = _builder(name, name, key.public_key(), now)
    # OpenSSL 3 in its strict mode, Python's default since 3.13, takes no
    # authority without constraints, usage and key ids.
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    usage = x509.KeyUsage(
        digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    builder = builder.add_extension(usage, critical=True)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = builder.add_extension(identifier, critical=False).sign(key, hashes.SHA256())
    # After a crash between the two files they do not belong together, and both are made again.
    write_private(folder / "ca.key", private_pem(key), platform)
    write_private(folder / "ca.crt", certificate.public_bytes(serialization.Encoding.PEM), platform)


def _make_server(folder: Path, names: Sequence[str], now: datetime) -> None:
    authority = _read(folder / "ca.crt")
    assert authority is not None
    signer = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(_name("steelyard-kubernetes"), authority.subject, key.public_key(), now)
    # Clients compare the name that they called with these alone; they read no common name any more.
    hosts = dict.fromkeys(["localhost", "127.0.0.1", *names])
    alternative = x509.SubjectAlternativeName([_alternative(host) for host in hosts])
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    builder = builder.add_extension(alternative, critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    certificate = builder.add_extension(issuer, critical=False).sign(signer, hashes.SHA256())
    write_private(folder / "server.key", private_pem(key))
    write_private(folder / "server.crt", certificate.public_bytes(serialization.Encoding.PEM))


def _make_client(folder: Path, name: str, group: str, now: datetime) -> None:
    """A certificate by which the server knows a user; the common name is the user, the organization a group."""
    authority = _read(folder / "ca.crt")
    assert authority is not None
    signer = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, group),
            x509.NameAttribute(NameOID.COMMON_NAME, name),
        ]
    )
    builder = _builder(subject, authority.subject, key.public_key(), now)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    certificate = builder.add_extension(issuer, critical=False).sign(signer, hashes.SHA256())
    write_private(folder / "admin.key", private_pem(key))
    write_private(folder / "admin.crt", certificate.public_bytes(serialization.Encoding.PEM))


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - VALID).not_valid_after(now + VALID)


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a private key as PEM, not encrypted."""
    kinds = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(*kinds, serialization.NoEncryption())


def is_foreign(content: bytes, platform: PlatformIdentity | None) -> bool:
    """Return whether a PEM file has the mark of another platform."""
    return platform is not None and platform.is_foreign(content.decode(errors="replace"))


def write_private(path: Path, content: bytes, platform: PlatformIdentity | None = None) -> None:
    """Write a file that is there whole or not at all, and for its owner alone, with the platform's mark."""
    if platform is not None:  # readers of PEM leave out what stands after its end
        content = platform.add_mark(content.decode()).encode()
    new = path.with_suffix(".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(content)
    rename_durably(new, path)
