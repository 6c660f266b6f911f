"""The authority and the certificate: kept while they serve, made again when they do not."""

import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from steelyard_common.platform_identity import PlatformIdentity
from steelyard_local_kubernetes.apiserver import pki

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_they_are_made_once(tmp_path: Path) -> None:
    pki.server_context(tmp_path / "pki", "127.0.0.1", NOW)
    before = {path.name: path.read_bytes() for path in (tmp_path / "pki").iterdir()}
    pki.server_context(tmp_path / "pki", "127.0.0.1", NOW)
    assert {path.name: path.read_bytes() for path in (tmp_path / "pki").iterdir()} == before
    assert set(before) == {"ca.crt", "ca.key", "server.crt", "server.key", "admin.crt", "admin.key"}
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "pki").iterdir())


def test_the_certificate_is_the_authoritys(tmp_path: Path) -> None:
    pki.server_context(tmp_path, "127.0.0.1", NOW)
    authority, own = certificate(tmp_path / "ca.crt"), certificate(tmp_path / "server.crt")
    own.verify_directly_issued_by(authority)
    assert own.not_valid_before_utc < NOW < own.not_valid_after_utc
    ssl.create_default_context(cafile=tmp_path / "ca.crt")


def test_another_host_gets_another_certificate_of_the_same_authority(tmp_path: Path) -> None:
    pki.server_context(tmp_path, "127.0.0.1", NOW)
    authority = (tmp_path / "ca.crt").read_bytes()
    pki.server_context(tmp_path, "box.example.dev", NOW)
    assert (tmp_path / "ca.crt").read_bytes() == authority
    names = certificate(tmp_path / "server.crt").extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    assert x509.DNSName("box.example.dev") in list(names.value)


def test_a_clock_that_is_set_back_makes_no_certificate_invalid(tmp_path: Path) -> None:
    """Neither for a client of the running server, nor at its next start."""
    pki.server_context(tmp_path, "127.0.0.1", NOW)
    before = (tmp_path / "server.crt").read_bytes()
    for name in ("ca.crt", "server.crt"):
        assert certificate(tmp_path / name).not_valid_before_utc < NOW - timedelta(days=365)
    pki.server_context(tmp_path, "127.0.0.1", NOW - timedelta(days=365))
    assert (tmp_path / "server.crt").read_bytes() == before


def test_certificates_that_are_not_valid_yet_are_made_again(tmp_path: Path) -> None:
    pki.server_context(tmp_path, "127.0.0.1", NOW + timedelta(days=20 * 365))
    pki.server_context(tmp_path, "127.0.0.1", NOW)
    authority, own = certificate(tmp_path / "ca.crt"), certificate(tmp_path / "server.crt")
    own.verify_directly_issued_by(authority)
    for pair in (authority, own):
        assert pair.not_valid_before_utc < NOW < pair.not_valid_after_utc


def test_a_broken_certificate_is_replaced(tmp_path: Path) -> None:
    pki.server_context(tmp_path, "127.0.0.1", NOW)
    (tmp_path / "server.crt").write_text("half a file")
    pki.server_context(tmp_path, "127.0.0.1", NOW)
    certificate(tmp_path / "server.crt")


NAMES = ("ca.crt", "ca.key", "server.crt", "server.key")


@pytest.mark.parametrize("damage", ["taken away", "cut off", "empty", "of another", "swapped"])
@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_file_is_made_again_and_the_rest_fits(tmp_path: Path, name: str, damage: str) -> None:
    pki.server_context(tmp_path / "pki", "127.0.0.1", NOW)
    path = tmp_path / "pki" / name
    match damage:
        case "taken away":
            path.unlink()
        case "cut off":
            path.write_bytes(path.read_bytes()[:90])
        case "empty":
            path.write_bytes(b"")
        case "of another":
            pki.server_context(tmp_path / "other", "127.0.0.1", NOW)
            path.write_bytes((tmp_path / "other" / name).read_bytes())
        case _:
            path.write_bytes((tmp_path / "pki" / NAMES[NAMES.index(name) - 1]).read_bytes())
    pki.server_context(tmp_path / "pki", "127.0.0.1", NOW)
    authority, server = (
        x509.load_pem_x509_certificate((tmp_path / "pki" / name).read_bytes()) for name in NAMES[::2]
    )
    server.verify_directly_issued_by(authority)


def test_a_certificate_that_lacks_a_name_is_made_again(tmp_path: Path) -> None:
    pki.server_context(tmp_path, "127.0.0.1", NOW)
    authority = (tmp_path / "ca.crt").read_bytes()
    pki.server_context(tmp_path, "127.0.0.1", NOW, ["kubernetes.default.svc"])
    assert (tmp_path / "ca.crt").read_bytes() == authority
    names = certificate(tmp_path / "server.crt").extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    assert x509.DNSName("kubernetes.default.svc") in list(names.value)
    before = (tmp_path / "server.crt").read_bytes()
    pki.server_context(tmp_path, "127.0.0.1", NOW, ["kubernetes.default.svc"])
    assert (tmp_path / "server.crt").read_bytes() == before


@pytest.mark.parametrize("name", ["ca.crt", "ca.key", "server.crt", "server.key", "admin.crt", "admin.key"])
def test_a_wrong_bit_anywhere_is_healed(tmp_path: Path, name: str) -> None:
    """Some are seen when the file is loaded, others only when a part of it is read."""
    pki.server_context(tmp_path, "127.0.0.1", NOW)
    whole = {path: path.read_bytes() for path in tmp_path.iterdir()}
    content = whole[tmp_path / name]
    for position in range(0, len(content), 5):
        for path, right in whole.items():
            path.write_bytes(right)
        damaged = bytearray(content)
        damaged[position] ^= 4
        (tmp_path / name).write_bytes(damaged)
        pki.server_context(tmp_path, "127.0.0.1", NOW)


@pytest.mark.parametrize("names", [("ca.crt", "ca.key"), ("ca.crt", "ca.key", "server.crt", "server.key")])
def test_an_authority_of_another_platform_is_replaced(tmp_path: Path, names: Sequence[str]) -> None:
    """A certificate that it has signed would make an administrator here."""
    folders = {id: tmp_path / id for id in ("a" * 32, "b" * 32)}
    for id, folder in folders.items():
        pki.server_context(folder, "127.0.0.1", NOW, (), PlatformIdentity(id))
    own, other = folders.values()
    kept = (own / "ca.crt").read_bytes()
    pki.server_context(own, "127.0.0.1", NOW, (), PlatformIdentity("a" * 32))
    assert (own / "ca.crt").read_bytes() == kept
    for name in names:
        (own / name).write_bytes((other / name).read_bytes())
    pki.server_context(own, "127.0.0.1", NOW, (), PlatformIdentity("a" * 32))
    assert (own / "ca.crt").read_bytes() not in (kept, (other / "ca.crt").read_bytes())
