"""An S3 server: the Versity gateway on a folder, built from its Go module once per machine."""

import shutil
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.engines.build import go_program
from tests.engines.control_plane import free_ports
from tests.engines.services.location import HERE, Location
from tests.engines.services.service import Service

VERSION = "v1.8.0"
MODULE = "github.com/versity/versitygw/cmd/versitygw"
KEY, SECRET, BUCKET = "steelyard", "steelyard-secret", "steelyard"


def program() -> Path:
    """The server, built if need be (four minutes on two idle cores). Raises Missing without Go."""
    return go_program("versitygw", MODULE, VERSION)


def client_environment(service: Service) -> Mapping[str, str]:
    """Variables with which clients reach the server."""
    return {
        "AWS_ENDPOINT_URL": service.address,
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false",
    }


@contextmanager
def s3(place: Location = HERE) -> Iterator[Service]:
    """A server with an empty bucket `steelyard`; its address is an endpoint."""
    binary = program()
    (port,) = free_ports(1)
    folder = Path(tempfile.mkdtemp(prefix="steelyard-s3-"))
    try:
        for name in ("data", "versions", "meta"):
            (folder / name).mkdir()
        (folder / "data" / BUCKET).mkdir()
        address = f"http://{place.host}:{port}"

        def ready() -> None:
            urllib.request.urlopen(f"{address}/healthz", timeout=10).close()

        # Attributes of objects lie in files beside them: not every file system has extended attributes.
        command = [
            *(str(binary), "--port", f"{place.host}:{port}", "--region", "us-east-1", "--health", "/healthz"),
            *("--quiet", "posix", "--sidecar", str(folder / "meta"), str(folder / "data")),
        ]
        # By the environment: arguments are read by every user of the machine.
        credentials = {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
        service = Service(
            f"http://{place.reached(port)}",
            command,
            folder,
            ready,
            environment=credentials,
            enter=place.enter,
        )
        service.start()
        try:
            yield service
        finally:
            service.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
