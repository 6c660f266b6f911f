"""A server of Google Cloud Storage's protocol: fake-gcs-server on a folder, built from its Go module once per machine.

It understands the JSON form of requests; `gcs_front.py` stands before it for the XML form.
"""

import json
import shutil
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.engines.build import go_program
from tests.engines.control_plane import free_ports
from tests.engines.services.gcs_front import front
from tests.engines.services.location import Through, direct
from tests.engines.services.service import Service

VERSION = "v1.56.1"
MODULE = "github.com/fsouza/fake-gcs-server"
BUCKET = "steelyard"


def program() -> Path:
    """The server, built if need be (two minutes on two idle cores). Raises Missing without Go."""
    return go_program("fake-gcs-server", MODULE, VERSION)


@cache
def _key() -> RSAPrivateKey:
    """Return the key of the tests' service account."""
    return generate_private_key(65537, 2048)


def client_environment(service: Service) -> Mapping[str, str]:
    """Variables with which clients reach the server."""
    return {"GOOGLE_SERVICE_ACCOUNT_KEY": account(service.address, _key()), "GOOGLE_ALLOW_HTTP": "true"}


def another_account(service: Service) -> str:
    """Return the key file of an account that may do nothing."""
    return account(service.address, generate_private_key(65537, 2048))


def account(address: str, key: RSAPrivateKey) -> str:
    """Return the key file of a service account."""
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    email = "tests@steelyard.example"
    return json.dumps(
        {"gcs_base_url": address, "client_email": email, "private_key_id": "1", "private_key": pem}
    )


@contextmanager
def gcs(through: Through = direct) -> Iterator[Service]:
    """A server with an empty bucket `steelyard`; its address is a base URL."""
    binary = program()
    (port,) = free_ports(1)
    folder = Path(tempfile.mkdtemp(prefix="steelyard-gcs-"))
    backend = f"http://127.0.0.1:{port}"
    try:
        (folder / "data" / BUCKET).mkdir(parents=True)

        def ready() -> None:
            urllib.request.urlopen(f"{backend}/_internal/healthcheck", timeout=10).close()

        command = [str(binary), "-scheme", "http", "-host", "127.0.0.1", "-port", str(port)]
        command += ["-public-host", f"127.0.0.1:{port}", "-log-level", "warn"]
        command += ["-backend", "filesystem", "-filesystem-root", str(folder / "data")]
        with front(backend, _key()) as front_port:
            service = Service(f"http://127.0.0.1:{through(front_port)}", command, folder, ready)
            service.start()
            try:
                yield service
            finally:
                service.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
