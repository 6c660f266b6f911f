"""A server of a folder in a thread of its own, and a client that signs by itself, request by request.

A client that blocks its thread does not block the server.
"""

import asyncio
import hashlib
import hmac
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote, unquote

import httpx
from pydantic import SecretStr

from steelyard.services.storage_server.run import make_server, run_storage_server
from steelyard.services.storage_server.settings import StorageServerSettings

ACCESS, SECRET = "steps", "0123456789abcdef-secret"


@dataclass
class Serving:
    """A server that runs: its address, its folder, and by how much its clock is wrong."""

    root: Path
    url: str = ""
    ahead: timedelta = field(default=timedelta())

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    def environment(self) -> dict[str, str]:
        """Variables with which the library reaches the server."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": ACCESS,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }


@contextmanager
def serving_folder(root: Path) -> Iterator[Serving]:
    serving, started = Serving(root), threading.Event()
    loops: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
    failures: list[BaseException] = []

    async def serve() -> None:
        stop = asyncio.Event()
        loops.append((asyncio.get_running_loop(), stop))
        settings = StorageServerSettings(access_key=SecretStr(ACCESS), secret_key=SecretStr(SECRET))
        server = make_server(f"file://{root}", settings, clock=serving.now)

        def listening(url: str) -> None:
            serving.url = url
            started.set()

        await run_storage_server(server, "127.0.0.1:0", stop=stop, listening=listening)

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:  # noqa: BLE001 - the test raises it
            failures.append(error)
            started.set()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert started.wait(60)
        if not failures:
            yield serving
    finally:
        for loop, stop in loops:
            if not loop.is_closed():
                loop.call_soon_threadsafe(stop.set)
        thread.join()
    if failures:
        raise failures[0]


def sign_headers(
    serving: Serving, method: str, path: str, query: str, body: bytes, headers: Mapping[str, str]
) -> dict[str, str]:
    """Return headers with a signature of their own, computed as Amazon's reference says; `query` is sorted."""
    now = serving.now().strftime("%Y%m%dT%H%M%SZ")
    every = {
        "host": serving.url.removeprefix("http://"),
        "x-amz-date": now,
        "x-amz-content-sha256": hashlib.sha256(body).hexdigest(),
        **headers,
    }
    names = ";".join(sorted(every))
    lines = [method, path, query, *(f"{name}:{every[name]}" for name in sorted(every)), "", names]
    canonical = "\n".join([*lines, every["x-amz-content-sha256"]])
    scope = f"{now[:8]}/us-east-1/s3/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = f"AWS4{SECRET}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    credential = f"AWS4-HMAC-SHA256 Credential={ACCESS}/{scope}, SignedHeaders={names}, Signature={signature}"
    return {**every, "authorization": credential}


def ask(
    serving: Serving,
    method: str,
    target: str,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
    **unsigned: str,
) -> httpx.Response:
    """Send a signed request to a target such as `/steelyard/key?uploads=`, with headers that are not signed as well."""
    path, _, query = target.partition("?")
    signed = quote(unquote(path), safe="/-_.~")
    every = sign_headers(serving, method, signed, query, body, headers or {})
    every.update({name.replace("_", "-"): value for name, value in unsigned.items()})
    return httpx.request(method, f"{serving.url}{target}", content=body, headers=every, timeout=60)


def code(response: httpx.Response) -> str:
    """Return the code of an error."""
    name = response.text.partition("<Code>")[2].partition("</Code>")[0]
    return f"{response.status_code} {name}".strip()


def begin(serving: Serving, key: str, headers: Mapping[str, str] | None = None) -> str:
    """Begin an upload; return its id."""
    answer = ask(serving, "POST", f"/steelyard/{key}?uploads=", b"", headers)
    return answer.text.partition("<UploadId>")[2].partition("</UploadId>")[0]


def add(serving: Serving, key: str, id: str, number: int, body: bytes) -> str:
    """Upload a part; return its ETag."""
    return ask(serving, "PUT", f"/steelyard/{key}?partNumber={number}&uploadId={id}", body).headers["etag"]


def complete(
    serving: Serving, key: str, id: str, parts: Mapping[int, str], headers: Mapping[str, str] | None = None
) -> httpx.Response:
    """End an upload."""
    listed = "".join(
        f"<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>" for number, tag in parts.items()
    )
    body = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
    return ask(serving, "POST", f"/steelyard/{key}?uploadId={id}", body, headers)
