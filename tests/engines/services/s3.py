"""An S3 server: the Versity gateway on a folder, built from its Go module once per machine."""

import os
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.engines.build import Missing
from tests.engines.control_plane import free_ports
from tests.engines.services.proxy import Through, direct
from tests.engines.services.service import Service

VERSION = "v1.8.0"
MODULE = "github.com/versity/versitygw/cmd/versitygw"
KEY, SECRET, BUCKET = "steelyard", "steelyard-secret", "steelyard"


def program() -> Path:
    """The server, built if need be (four minutes on two idle cores). Raises Missing without Go."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    folder = Path(base) / "steelyard" / "engines" / f"versitygw-{VERSION}"
    if (folder / "versitygw").exists():
        return folder / "versitygw"
    if not shutil.which("go"):
        raise Missing("Go is not installed")
    folder.mkdir(parents=True, exist_ok=True)
    print(f"building versitygw {VERSION} ...", flush=True)
    with tempfile.TemporaryDirectory(dir=folder) as target:
        flags = {"GOBIN": target, "CGO_ENABLED": "0", "GOFLAGS": "-trimpath -buildvcs=false"}
        command = ["go", "install", "-ldflags=-s -w", f"{MODULE}@{VERSION}"]
        subprocess.run(command, env=os.environ | flags, check=True)
        Path(target, "versitygw").rename(folder / "versitygw")
    return folder / "versitygw"


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
def s3(through: Through = direct) -> Iterator[Service]:
    """A server with an empty bucket `steelyard`; its address is an endpoint."""
    binary = program()
    (port,) = free_ports(1)
    folder = Path(tempfile.mkdtemp(prefix="steelyard-s3-"))
    try:
        for name in ("data", "versions", "meta"):
            (folder / name).mkdir()
        (folder / "data" / BUCKET).mkdir()
        address = f"http://127.0.0.1:{port}"

        def ready() -> None:
            urllib.request.urlopen(f"{address}/healthz", timeout=2).close()

        # Attributes of objects lie in files beside them: not every file system has extended attributes.
        command = [
            *(str(binary), "--port", f"127.0.0.1:{port}", "--region", "us-east-1", "--health", "/healthz"),
            *("--quiet", "posix", "--sidecar", str(folder / "meta"), str(folder / "data")),
        ]
        # By the environment: arguments are read by every user of the machine.
        credentials = {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
        service = Service(
            f"http://127.0.0.1:{through(port)}", command, folder, ready, environment=credentials
        )
        service.start()
        try:
            yield service
        finally:
            service.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
