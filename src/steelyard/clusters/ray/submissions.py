"""Jobs of Ray's own API, on a cluster that runs: `client.ray.jobs.on("demo")`.

It talks to the cluster's dashboard over HTTP. The login of the Kubernetes cluster is sent there only with `own_login`;
a dashboard behind a login of its own gets `token`.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from steelyard.clusters import errors
from steelyard.clusters.blocking import Sync, blocking, blocking_lines
from steelyard.clusters.ray.job_config import RuntimeEnv
from steelyard.clusters.ray.packing import UPLOAD_LIMIT, Package, pack
from steelyard.clusters.ray.scripts import ensure_script
from steelyard.clusters.waiting import POLL_SECONDS, wait_for
from steelyard_common.types import Json

if TYPE_CHECKING:
    import aiohttp

ENDED = frozenset({"SUCCEEDED", "FAILED", "STOPPED"})
CHUNK = 1 << 20


@dataclass(frozen=True)
class Submission:
    """A job of Ray's API; `details` has all fields of the answer."""

    id: str
    status: str
    """Ray's word: PENDING, RUNNING, SUCCEEDED, FAILED, STOPPED, or one of a later version."""
    entrypoint: str
    message: str
    details: Json

    @property
    def finished(self) -> bool:
        return self.status in ENDED

    def __str__(self) -> str:
        return f"{self.id}: {self.status}" + (f" ({self.message})" if self.message else "")


@dataclass(frozen=True)
class Dashboard:
    """Access to a dashboard: `address` finds out where it is, and the rest logs in there."""

    address: Callable[[], Any]
    token: str | Callable[[], str] | None = None
    login: Callable[[], Awaitable[str]] | None = None
    """Returns the token of the Kubernetes cluster, for a dashboard that asks for it."""
    own_headers: Mapping[str, str] = field(default_factory=dict)
    verify_tls: bool = True

    async def headers(self, address: str) -> dict[str, str]:
        token = self.token() if callable(self.token) else self.token
        if self.login is not None:
            if not _is_private(address):
                raise errors.Unauthenticated(
                    f"the login of the cluster is not sent to {address}: anybody on the way could read it",
                    401,
                )
            if not self.verify_tls and not _is_of_this_machine(address):
                raise errors.Unauthenticated(
                    f"the login of the cluster is not sent to {address} without verify_tls: anybody could answer "
                    "there. Name the authority of its certificate in SSL_CERT_FILE, or the address of a port-forward "
                    "to port 8265 of the head",
                    401,
                )
            token = await self.login()
        return {**({"Authorization": f"Bearer {token}"} if token else {}), **self.own_headers}


def _is_private(address: str) -> bool:
    """Return whether nobody on the way to an address can read the requests to it."""
    return urlsplit(address).scheme == "https" or _is_of_this_machine(address)


def _is_of_this_machine(address: str) -> bool:
    host = urlsplit(address).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:  # a name, perhaps one that begins like an address of this machine
        return False


class AsyncSubmissions:
    """Jobs of Ray's API on one cluster."""

    def __init__(self, dashboard: Dashboard) -> None:
        self._dashboard = dashboard
        self._known = ""

    async def submit(  # noqa: PLR0913  # the fields of Ray's own request
        self,
        entrypoint: str,
        *,
        runtime_env: RuntimeEnv | None = None,
        working_dir: Path | str | None = None,
        submission_id: str | None = None,
        metadata: Mapping[str, str] | None = None,
        entrypoint_cpus: float | None = None,
        entrypoint_gpus: float | None = None,
        entrypoint_memory: int | None = None,
        entrypoint_resources: Mapping[str, float] | None = None,
    ) -> Submission:
        """Start a job. A working directory is measured first, and uploaded in pieces. Raises BadConfig.

        `entrypoint_…` are what the entrypoint itself takes of the cluster while it runs: processors, GPUs, bytes of
        memory, and amounts of Ray's custom resources. It then waits for a node that has them.
        """
        given = runtime_env or RuntimeEnv()
        environment = given.document()
        if working_dir is not None:
            folder = Path(working_dir)
            package = await asyncio.to_thread(pack, folder, given.excludes, limit=UPLOAD_LIMIT)
            ensure_script(entrypoint, package, folder)
            await self._upload(package)
            environment["working_dir"] = package.uri
        optional: Json = {
            "submission_id": submission_id,
            "entrypoint_num_cpus": entrypoint_cpus,
            "entrypoint_num_gpus": entrypoint_gpus,
            "entrypoint_memory": entrypoint_memory,
            "entrypoint_resources": dict(entrypoint_resources) if entrypoint_resources else None,
        }
        body: Json = {"entrypoint": entrypoint, "runtime_env": environment, "metadata": dict(metadata or {})}
        body |= {name: value for name, value in optional.items() if value is not None}
        answer = await self._json("POST", "/api/jobs/", body)
        return await self.get(str(answer.get("submission_id") or answer.get("job_id")))

    async def list(self) -> Sequence[Submission]:
        """Return the jobs that the cluster remembers, the oldest first."""
        answer = await self._json("GET", "/api/jobs/")
        jobs = [_submission(item) for item in answer if item.get("submission_id")]
        return sorted(jobs, key=lambda job: (job.details.get("start_time") or 0, job.id))

    async def get(self, id: str) -> Submission:
        """Return a job. Raises NotFound."""
        return _submission(await self._json("GET", f"/api/jobs/{id}"))

    async def wait(
        self,
        id: str,
        *,
        timeout: float | None = None,
        poll: float = POLL_SECONDS,
        on_change: Callable[[Submission], None] | None = None,
    ) -> Submission:
        """Return the job when it has succeeded; `timeout` and `poll` are seconds.

        `on_change` is called with each new state before that. Raises Failed, WaitTimeout, NotFound.
        """
        return await wait_for(
            lambda: self.get(id),
            done=lambda job: job.status == "SUCCEEDED",
            stuck=lambda job: False,
            failed=lambda job: job.finished,
            timeout=timeout,
            poll=poll,
            on_change=on_change,
        )

    async def logs(self, id: str, *, follow: bool = False, poll: float = POLL_SECONDS) -> AsyncIterator[str]:
        """Yield the lines of the job's output; with `follow` until its end. No line comes twice."""
        seen, rest = 0, ""
        while follow:
            ended = (await self.get(id)).finished
            if ended:
                break
            skip = seen  # a new connection begins with the first character again
            async for text in self._tail(id):
                new, skip = text[skip:], max(skip - len(text), 0)
                seen += len(new)
                *lines, rest = (rest + new).split("\n")
                for line in lines:
                    yield line
            await asyncio.sleep(poll)
        answer = await self._json("GET", f"/api/jobs/{id}/logs")
        for line in (rest + str(answer.get("logs") or "")[seen:]).splitlines():
            yield line

    async def stop(self, id: str) -> bool:
        """End a job; False where it had ended already."""
        return bool((await self._json("POST", f"/api/jobs/{id}/stop")).get("stopped"))

    async def delete(self, id: str) -> bool:
        """Forget a job that has ended. Raises Refused while it runs."""
        return bool((await self._json("DELETE", f"/api/jobs/{id}")).get("deleted"))

    async def _upload(self, package: Package) -> None:
        path = f"/api/packages/gcs/{package.uri.removeprefix('gcs://')}"
        try:
            await self._json("GET", path)
        except errors.NotFound:
            await self._json("PUT", path, package)

    async def _tail(self, id: str) -> AsyncIterator[str]:
        import aiohttp

        from steelyard_common.connections import TrackingConnector

        address = await self._address()
        try:
            async with (
                aiohttp.ClientSession(connector=TrackingConnector()) as session,
                session.ws_connect(
                    f"{address}/api/jobs/{id}/logs/tail",
                    headers=await self._dashboard.headers(address),
                    heartbeat=30,
                    ssl=self._dashboard.verify_tls,
                ) as socket,
            ):
                async for message in socket:
                    if message.type is aiohttp.WSMsgType.TEXT:
                        yield message.data
        except (aiohttp.ClientError, TimeoutError, OSError):
            return  # broken: the caller connects again

    async def _json(self, method: str, path: str, body: Json | Package | None = None) -> Any:
        async with self._answer(method, path, body) as answer:
            if 300 <= answer.status < 400:
                raise errors.Unauthenticated(
                    f"the dashboard at {await self._address()} leads to {answer.headers.get('Location', '')[:200]!r}, "
                    "where what logs in here is not sent; give that address where you trust it",
                    answer.status,
                )
            text = await answer.text()
            if answer.status == 404:
                raise errors.NotFound(f"{path}: {_last_line(text)}", 404, "NotFound")
            is_page = answer.content_type == "text/html"
            if is_page and answer.status >= 500:
                raise errors.Unreachable(
                    f"the dashboard at {await self._address()} does not answer: a proxy before it says status "
                    f"{answer.status}"
                )
            # Logins for browsers show a page, perhaps with status 200 after a redirection.
            if answer.status == 401 or is_page:
                said = "" if is_page else f": {_last_line(text)}"
                raise errors.Unauthenticated(
                    f"the dashboard at {await self._address()} asks for a login{said}; give jobs.on token=…, or "
                    "own_login=True where it is Steelyard's login, which asks for a token of Kubernetes",
                    answer.status,
                )
            if answer.status == 403:
                raise errors.Forbidden(f"the dashboard does not allow it: {_last_line(text)}", None)
            if answer.status >= 400:
                raise errors.Refused(f"Ray refuses {method} {path}: {_last_line(text)}", answer.status)
            try:
                return json.loads(text) if text else {}
            except ValueError:
                return {}

    @asynccontextmanager
    async def _answer(
        self, method: str, path: str, body: Json | Package | None
    ) -> "AsyncIterator[aiohttp.ClientResponse]":
        import aiohttp

        from steelyard_common.connections import TrackingConnector

        address = await self._address()
        headers = await self._dashboard.headers(address)
        content: dict[str, Any] = {"json": body} if isinstance(body, dict) else {}
        if isinstance(body, Package):
            content = {"data": _pieces(body)}
        try:
            async with (
                aiohttp.ClientSession(
                    connector=TrackingConnector(), timeout=aiohttp.ClientTimeout(total=300, sock_connect=10)
                ) as session,
                session.request(
                    method,
                    f"{address}{path}",
                    headers=headers,
                    ssl=self._dashboard.verify_tls,
                    allow_redirects=not headers,  # a login is for this address alone
                    **content,
                ) as answer,
            ):
                yield answer
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise errors.Unreachable(
                f"the dashboard at {address} does not answer: {str(error) or type(error).__name__}; "
                "name another address, such as that of a port-forward to port 8265 of the head"
            ) from error

    async def _address(self) -> str:
        if not self._known:
            self._known = str(await self._dashboard.address()).rstrip("/")
        return self._known


class Submissions(Sync):
    """Jobs of Ray's API on one cluster."""

    submit = blocking(AsyncSubmissions.submit)
    list = blocking(AsyncSubmissions.list)
    get = blocking(AsyncSubmissions.get)
    wait = blocking(AsyncSubmissions.wait)
    logs = blocking_lines(AsyncSubmissions.logs)
    stop = blocking(AsyncSubmissions.stop)
    delete = blocking(AsyncSubmissions.delete)


async def _pieces(package: Package) -> AsyncIterator[bytes]:
    for piece in package.pieces(CHUNK):
        yield piece


def _submission(details: Json) -> Submission:
    id = details.get("submission_id") or details.get("job_id")
    status, entrypoint, message = (
        str(details.get(field) or "") for field in ("status", "entrypoint", "message")
    )
    return Submission(str(id), status, entrypoint, message, details)


def _last_line(text: str) -> str:
    """Return the last line of an answer: of a traceback, that is the error."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no reason given"
