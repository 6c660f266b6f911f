"""The server of a storage folder, which the platform has itself: it answers as the object stores of others do."""

import shutil
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.engines.control_plane import free_ports
from tests.engines.services.location import HERE, Location
from tests.engines.services.service import Service

KEY, SECRET = "steelyard", "steelyard-secret-key"


def client_environment(service: Service) -> Mapping[str, str]:
    """Variables with which clients reach the server."""
    return {
        "AWS_ENDPOINT_URL": service.address,
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }


@contextmanager
def folder(place: Location = HERE) -> Iterator[Service]:
    """A server of an empty folder; its address is an endpoint."""
    (port,) = free_ports(1)
    root = Path(tempfile.mkdtemp(prefix="steelyard-folder-"))
    try:
        settings = root / "steelyard.toml"
        settings.write_text(
            f'storage = "file://{root}/storage"\n[storage_server]\nlisten = "{place.host}:{port}"\n'
            f'access_key = "{KEY}"\nsecret_key = "{SECRET}"\n'
        )
        address = f"http://{place.host}:{port}"

        def ready() -> None:
            try:
                urllib.request.urlopen(address, timeout=10).close()
            except urllib.error.HTTPError as error:
                error.close()  # it is not signed, and so refused

        command = [sys.executable, "-m", "steelyard.cli.service", "storage"]
        command += ["--state-dir", str(root / "state"), "--settings", str(settings)]
        service = Service(f"http://{place.reached(port)}", command, root, ready, enter=place.enter)
        service.start()
        try:
            yield service
        finally:
            service.stop()
    finally:
        shutil.rmtree(root, ignore_errors=True)
