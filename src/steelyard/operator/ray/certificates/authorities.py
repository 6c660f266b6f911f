"""Certificate authorities, as pure functions of one secret key, a purpose and a time (ADR 25).

Nothing about an authority is kept, so its rotation needs no write that a crash could cut in half: time is divided
into eras of a fixed length, each purpose has an authority of its own in each era, and three of them are trusted at
any time: those of the era before, of this one, and of the next. A certificate ends with its authority, one era after
that which it was issued in. So two programs that started one era apart trust each other, until the older one's
certificate has ended.
"""

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Literal

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

Use = Literal["both", "server", "client"]
PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey
KEY_BYTES = 32
SKEW = timedelta(minutes=10)
"""Lag that the clock of another machine may have: a certificate is valid from this long before it was issued."""
_BEGIN = datetime(2020, 1, 1, tzinfo=UTC)  # of era 0
_CURVE = ec.SECP256R1()
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_SMALLEST_RSA = 2048
_USES: dict[Use, Sequence[ObjectIdentifier]] = {
    "server": (ExtendedKeyUsageOID.SERVER_AUTH,),
    "client": (ExtendedKeyUsageOID.CLIENT_AUTH,),
    "both": (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH),
}


@dataclass(frozen=True)
class Purpose:
    """Purpose of an authority; authorities of different purposes have nothing in common."""

    name: str
    """Words with a uid, at most 48 characters; with the era they are the authority's name."""
    use: Use = "both"
    """Use of the certificates that it signs. Where TLS checks the use of an authority, it refuses any other."""


def nodes(uid: str) -> Purpose:
    """Return the purpose of certificates of a Ray cluster's Pods."""
    return Purpose(f"ray nodes {uid}")


def clients(uid: str) -> Purpose:
    """Return the purpose of certificates with which programs connect to a Ray cluster."""
    return Purpose(f"ray clients {uid}", "client")


SERVICE = Purpose("steelyard ray service", "server")
"""The purpose of certificates that webhooks, and the address where Pods ask for theirs, are served with."""


@dataclass(frozen=True)
class Authority:
    """An authority: its certificate and its private key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> str:
        return to_pem(self.certificate)

    @property
    def key_pem(self) -> str:
        return key_pem(self.key)


@dataclass(frozen=True)
class PlatformKey:
    """The one secret of the platform, and the length of its eras."""

    secret: bytes
    days: int

    def era(self, now: datetime) -> int:
        return (now - _BEGIN) // timedelta(days=self.days)

    def era_end(self, era: int) -> datetime:
        """Return when certificates end that were issued in an era."""
        return _BEGIN + (era + 2) * timedelta(days=self.days)

    def next_era(self, now: datetime) -> datetime:
        return _BEGIN + (self.era(now) + 1) * timedelta(days=self.days)

    def authority(self, purpose: Purpose, now: datetime) -> Authority:
        """Return the authority that signs now."""
        return _authority(self, purpose, self.era(now))

    def bundle(self, now: datetime, *purposes: Purpose) -> str:
        """Return the certificates of all authorities that are trusted now, those that sign now first."""
        era = self.era(now)
        return "".join(
            _authority(self, purpose, era + step).pem for step in (0, 1, -1) for purpose in purposes
        )


@lru_cache(maxsize=512)
def _authority(key: PlatformKey, purpose: Purpose, era: int) -> Authority:
    name = f"{purpose.name} {era}"
    # 48 bytes for a number below the curve's order, so that its distribution is even.
    material = HKDF(hashes.SHA256(), 48 + 16, None, f"steelyard/{key.days}/{purpose.use}/{name}".encode())
    derived = material.derive(key.secret)
    number = int.from_bytes(derived[:48], "big") % (_ORDER - 1) + 1
    private = ec.derive_private_key(number, _CURVE)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    begin, end = _BEGIN + (era - 1) * timedelta(days=key.days), key.era_end(era)
    usage = x509.KeyUsage(
        digital_signature=False, key_cert_sign=True, crl_sign=True, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    builder = (
        x509.CertificateBuilder(subject, subject, private.public_key())
        .serial_number(int.from_bytes(derived[48:], "big") >> 1 or 1)
        .not_valid_before(begin)
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(private.public_key()), critical=False)
    )
    if purpose.use != "both":
        # OpenSSL and Go check the use of an authority for all that it signs; BoringSSL, and so gRPC, does not (ADR 25).
        builder = builder.add_extension(x509.ExtendedKeyUsage(_USES[purpose.use]), critical=True)
    # The same bytes in each process and at each time: what is written from them does not change without reason.
    return Authority(builder.sign(private, hashes.SHA256(), ecdsa_deterministic=True), private)


def issue(
    authority: Authority,
    key: PublicKey,
    name: str,
    hosts: Iterable[str],
    now: datetime,
    use: Use,
    *,
    end: datetime | None = None,
) -> str:
    """Return a certificate as PEM: for a key, with a common name and the hosts that may show it."""
    signer = authority.certificate
    last = min(end or signer.not_valid_after_utc, signer.not_valid_after_utc)
    alternatives = [_alternative(host) for host in dict.fromkeys(hosts)]
    usage = x509.KeyUsage(
        digital_signature=True, key_cert_sign=False, crl_sign=False, content_commitment=False,
        key_encipherment=True, data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    builder = (
        x509.CertificateBuilder(
            signer.subject, x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])]), key
        )
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(last)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage(_USES[use]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False
        )
    )
    if alternatives:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    return to_pem(builder.sign(authority.key, hashes.SHA256()))


def read_request_key(request: str) -> PublicKey:
    """Return the public key of a certificate request (PEM), whose names do not count. Raises ValueError."""
    try:
        parsed = x509.load_pem_x509_csr(request.encode())
        valid = parsed.is_signature_valid
        key = parsed.public_key()
    except Exception as error:  # the text is a stranger's, and the parser has several errors
        raise ValueError(f"not a certificate request in PEM: {error}") from error
    if not valid:
        raise ValueError("the certificate request is not signed with its key")
    if isinstance(key, ec.EllipticCurvePublicKey) and key.key_size >= _CURVE.key_size:
        return key
    if isinstance(key, rsa.RSAPublicKey) and key.key_size >= _SMALLEST_RSA:
        return key
    raise ValueError(
        "the key has to be one of an elliptic curve of 256 bits, or of RSA with 2048 bits, or larger"
    )


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(_CURVE)


def request_for(key: ec.EllipticCurvePrivateKey, name: str) -> str:
    """Return a certificate request as PEM."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])
    request = x509.CertificateSigningRequestBuilder(subject).sign(key, hashes.SHA256())
    return request.public_bytes(serialization.Encoding.PEM).decode()


def to_pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    kinds = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(*kinds, serialization.NoEncryption()).decode()


def read_issue_time(certificate: str) -> datetime:
    """Return when a certificate was issued here (PEM; of several the first). Raises ValueError."""
    return x509.load_pem_x509_certificate(certificate.encode()).not_valid_before_utc + SKEW


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
