"""`steelyard eval run` against servers that misbehave, by http and by https: a fault costs tries, and no other row."""

import asyncio
import datetime
import ipaddress
import random
import ssl
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.integration.eval_command import Endpoint, RunFolder, ended, endpoint, good_body


class Bad(web.Response):
    """An answer by hand: bytes as they are, and then the end of the connection, or a reset."""

    def __init__(self, raw: bytes, *, reset: bool = False) -> None:
        super().__init__()
        self._raw = raw
        self._reset = reset

    async def prepare(self, request: web.BaseRequest) -> Any:
        transport = request.transport
        if transport is not None:
            transport.write(self._raw)
            transport.abort() if self._reset else transport.close()
        raise ConnectionResetError


def raw(body: bytes, length: int) -> Bad:
    return Bad(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (length, body)
    )


def fault(name: str, row: int) -> web.StreamResponse:
    return FAULTS[name](row, good_body(row))


FAULTS: dict[str, Callable[[int, bytes], web.StreamResponse]] = {
    "429": lambda _, __: web.json_response({"error": "slow"}, status=429, headers={"Retry-After": "0"}),
    "503": lambda _, __: web.json_response({"error": "overloaded"}, status=503),
    "half a body": lambda _, body: raw(body[: len(body) // 2], len(body)),
    "a wrong length": lambda _, body: raw(body, len(body) - 7),
    "not JSON": lambda _, __: web.Response(text="<html>busy</html>"),
    "another shape": lambda _, __: web.json_response({"object": "error", "message": "no worker"}),
    "10 MB": lambda row, _: web.Response(body=good_body(row, 10 << 20), content_type="application/json"),
    "reset": lambda _, __: Bad(b"", reset=True),
    "closed": lambda _, __: Bad(b""),
}


class Faults:
    """Some rows meet a fault at their first try, by a seed; `occurred` counts them."""

    def __init__(self, rows: int, seed: int) -> None:
        rng = random.Random(seed)
        names = [*FAULTS, *rng.choices(sorted(FAULTS), k=2 * len(FAULTS))]
        self.planned = dict(zip(rng.sample(range(rows), len(names)), names, strict=True))
        self.occurred: Counter[str] = Counter()

    def __call__(self, _request: web.Request, row: int, times: int) -> web.StreamResponse | None:
        if row not in self.planned or times > 1:
            return None
        self.occurred[self.planned[row]] += 1
        return fault(self.planned[row], row)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of its own authority for 127.0.0.1, with its key, in one PEM file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    path.write_bytes(made.public_bytes(pem) + key.private_bytes(pem, form, serialization.NoEncryption()))
    return path


@pytest.fixture
def tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    return context


def check_faults(faults: Faults, server: Endpoint, place: RunFolder) -> None:
    assert set(faults.occurred) == set(FAULTS), "each fault occurred"
    assert faults.occurred.total() == len(faults.planned)
    again = sum(name != "10 MB" for name in faults.planned.values())
    assert place.rows + again <= server.calls <= place.rows + again + 40, "other calls on a lost connection"
    place.check()


@pytest.mark.parametrize("secure", [False, True], ids=["http", "https"])
async def test_faults_that_pass_cost_tries_and_no_row(
    tmp_path: Path, certificate: Path, tls: ssl.SSLContext, secure: bool
) -> None:
    place, faults = RunFolder(tmp_path / "place", 400).write(), Faults(400, seed=5)
    async with endpoint(tls if secure else None, misbehaves=faults, seconds=0.002) as server:
        done = await place.go(server, SSL_CERT_FILE=str(certificate))
    assert (done.status, done.said) == (0, ""), done
    check_faults(faults, server, place)


async def test_an_untrusted_certificate_gets_no_call(tmp_path: Path, tls: ssl.SSLContext) -> None:
    place = RunFolder(tmp_path / "place", 20).write()
    async with endpoint(tls) as server:
        refused = await place.go(server, "--retries", "1")
    assert (refused.status, server.calls) == (1, 0)
    assert server.url in refused.said
    assert "every replica failed" in refused.said
    assert "certificate verify failed" in refused.said


async def test_what_stays_wrong_is_an_error_of_its_row_alone(tmp_path: Path) -> None:
    wrong = {7: "503", 8: "half a body", 9: "not JSON", 10: "another shape", 11: "reset"}

    def misbehaves(_request: web.Request, row: int, _asked: int) -> web.StreamResponse | None:
        if row == 12:
            raise web.HTTPTemporaryRedirect("http://127.0.0.1:1/v1/chat/completions")
        return fault(wrong[row], row) if row in wrong else None

    place = RunFolder(tmp_path / "place", 200).write()
    async with endpoint(misbehaves=misbehaves) as server:
        done = await place.go(server, "--retries", "2")
    assert done.status == 3
    place.check(but=[*wrong, 12])
    assert server.asked[12] == 1, "a redirect is followed nowhere"
    shown = await ended(await place.start_any("eval", "show", str(place.run), "--errors"))
    for row in (*wrong, 12):
        assert f"row {row}: " in shown.out
    assert "redirects are not followed" in shown.out


async def test_a_replica_that_hangs_or_dies_costs_its_calls_alone(tmp_path: Path) -> None:
    place = RunFolder(tmp_path / "place", 1500).write()
    hanging = asyncio.Event()

    def hangs(_request: web.Request, _row: int, _asked: int) -> web.StreamResponse | None:
        if one.calls > 200:
            hanging.set()
            one.seconds = 60
        return None

    async with endpoint(misbehaves=hangs) as one, endpoint() as two:
        done = await place.go(one, "--url", two.url, "--timeout", "1s")
    assert done.status == 0
    assert hanging.is_set()
    twice = one.calls + two.calls - place.rows
    assert 0 < twice <= 3 * 32 + 8, "what hung, and single calls that look whether it is back"
    place.check()
