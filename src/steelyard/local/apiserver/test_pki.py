"""The authority and the certificate: kept while they serve, made anew when they do not."""

import ssl
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from steelyard.local.apiserver import pki


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_they_are_made_once(tmp_path: Path) -> None:
    pki.server_context(tmp_path / "pki", "127.0.0.1")
    before = {path.name: path.read_bytes() for path in (tmp_path / "pki").iterdir()}
    pki.server_context(tmp_path / "pki", "127.0.0.1")
    assert {path.name: path.read_bytes() for path in (tmp_path / "pki").iterdir()} == before
    assert set(before) == {"ca.crt", "ca.key", "server.crt", "server.key"}
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "pki").iterdir())


def test_the_certificate_is_the_authoritys(tmp_path: Path) -> None:
    pki.server_context(tmp_path, "127.0.0.1")
    authority, own = certificate(tmp_path / "ca.crt"), certificate(tmp_path / "server.crt")
    own.verify_directly_issued_by(authority)
    assert own.not_valid_before_utc < datetime.now(UTC) < own.not_valid_after_utc
    ssl.create_default_context(cafile=tmp_path / "ca.crt")


def test_another_host_gets_another_certificate_of_the_same_authority(tmp_path: Path) -> None:
    pki.server_context(tmp_path, "127.0.0.1")
    authority = (tmp_path / "ca.crt").read_bytes()
    pki.server_context(tmp_path, "box.example.dev")
    assert (tmp_path / "ca.crt").read_bytes() == authority
    names = certificate(tmp_path / "server.crt").extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    assert x509.DNSName("box.example.dev") in list(names.value)


def test_a_broken_certificate_is_replaced(tmp_path: Path) -> None:
    pki.server_context(tmp_path, "127.0.0.1")
    (tmp_path / "server.crt").write_text("half a file")
    pki.server_context(tmp_path, "127.0.0.1")
    certificate(tmp_path / "server.crt")
