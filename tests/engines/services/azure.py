"""A server of Azure Blob Storage's protocol: Azurite on a folder, from the npm registry once per machine.

It writes down every five seconds what it holds, so that a kill loses what it has confirmed since: `wait_until_kept`.
"""

import base64
import contextlib
import hashlib
import hmac
import os
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path

from tests.engines.build import Missing
from tests.engines.control_plane import free_ports
from tests.engines.services.location import Through, direct
from tests.engines.services.service import Service

LOCK = Path(__file__).parent / "azurite"
ACCOUNT, CONTAINER = "steelyard", "steelyard"
KEY = base64.b64encode(b"a key of the tests alone, no secret").decode()
VERSION = "2021-08-06"
"""Version of the protocol by which the container is made."""
INDEX = "__azurite_db_blob__.json"
KEPT_SECONDS = 180.0


def program() -> list[str]:
    """Return the server's command, installed if need be (half a minute). Raises Missing without Node."""
    for name in ("node", "npm"):
        if not shutil.which(name):
            raise Missing(f"{name} is not installed")
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    digest = hashlib.sha256((LOCK / "package-lock.json").read_bytes()).hexdigest()[:12]
    folder = Path(base) / "steelyard" / "engines" / f"azurite-{digest}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        print("fetching Azurite ...", flush=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as target:
            installed = Path(target, "azurite")
            shutil.copytree(LOCK, installed)
            # Nothing of the packages runs while they are installed; what its queues and tables need is left out.
            install = ["npm", "ci", "--ignore-scripts", "--omit=optional", "--no-audit", "--no-fund"]
            done = subprocess.run(install, cwd=installed, capture_output=True, text=True, check=False)
            if done.returncode:
                raise Missing(f"Azurite cannot be installed: {done.stderr.strip().splitlines()[-1:]}")
            with contextlib.suppress(OSError):  # another run was faster
                installed.rename(folder)
    return ["node", str(folder / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js")]


def client_environment(service: Service) -> Mapping[str, str]:
    """Variables with which clients reach the server."""
    return {
        "AZURE_STORAGE_ENDPOINT": service.address,
        "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
        "AZURE_STORAGE_ACCOUNT_KEY": KEY,
        "AZURE_ALLOW_HTTP": "true",
    }


def wait_until_kept(service: Service, key: str) -> None:
    """Return once a kill of the server does not lose an object. Raises RuntimeError after three minutes."""
    index = service.folder / "data" / INDEX
    end = time.monotonic() + KEPT_SECONDS
    while not (index.exists() and f'"{key}"' in index.read_text(errors="replace")):
        if time.monotonic() > end:
            raise RuntimeError(f"the server has not written {key} down")
        time.sleep(0.05)


@contextmanager
def azure(through: Through = direct) -> Iterator[Service]:
    """A server with an empty container `steelyard`; its address is an endpoint, with the account."""
    command = program()
    (port,) = free_ports(1)
    folder = Path(tempfile.mkdtemp(prefix="steelyard-azure-"))

    def ready() -> None:
        with contextlib.suppress(urllib.error.HTTPError):  # any answer will do
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10).close()

    try:
        command += ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(folder / "data")]
        service = Service(
            f"http://127.0.0.1:{through(port)}/{ACCOUNT}",
            # The library may speak a newer version of the protocol than the server knows.
            [*command, "--silent", "--disableTelemetry", "--skipApiVersionCheck"],
            folder,
            ready,
            environment={"AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"},
        )
        service.start()
        try:
            _make_container(f"http://127.0.0.1:{port}/{ACCOUNT}/{CONTAINER}?restype=container")
            yield service
        finally:
            service.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _make_container(url: str) -> None:
    date = formatdate(usegmt=True)
    resource = f"/{ACCOUNT}/{ACCOUNT}/{CONTAINER}\nrestype:container"
    text = f"PUT{12 * chr(10)}x-ms-date:{date}\nx-ms-version:{VERSION}\n{resource}"
    signature = base64.b64encode(hmac.digest(base64.b64decode(KEY), text.encode(), hashlib.sha256)).decode()
    headers = {
        "x-ms-date": date,
        "x-ms-version": VERSION,
        "Authorization": f"SharedKey {ACCOUNT}:{signature}",
        "Content-Length": "0",
    }
    urllib.request.urlopen(urllib.request.Request(url, method="PUT", headers=headers), timeout=120).close()
