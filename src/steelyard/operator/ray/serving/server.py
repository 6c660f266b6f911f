"""The operator's servers for Ray clusters: one over TLS, for the API and for Pods, and one that shows dashboards.

Every operator serves, whether it leads or not: none of it writes anything, and the certificate that it serves with is
made in memory from the platform's key.
"""

import asyncio
import logging
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web

from steelyard.operator.ray.admission.configurations import MUTATE, VALIDATE
from steelyard.operator.ray.admission.review import NotAReview, mutate, validate
from steelyard.operator.ray.certificates.authorities import SERVICE, PlatformKey, issue, key_pem, new_key
from steelyard.operator.ray.certificates.templates import PATH
from steelyard.operator.ray.key import BadKey, platform_key
from steelyard.operator.ray.serving.login import login_app
from steelyard.operator.ray.serving.pods import Refused, certificate_for
from steelyard.operator.ray.serving.reviews import Reviews
from steelyard.operator.ray.settings import RaySettings
from steelyard.telemetry.monitoring import LOOPBACK, address
from steelyard_common.errors import SteelyardError
from steelyard_common.serving.aiohttp_server import serving_app
from steelyard_common.serving.hosts import EVERY_HOST, Hosts
from steelyard_common.types import Json
from steelyard_kube.cluster import Cluster
from steelyard_kube.errors import ApiError

_log = logging.getLogger(__name__)
_LIFE, _RENEW = timedelta(days=7), timedelta(hours=12)
_RETRY_SECONDS = 2.0
_BODY = 8 << 20  # bytes of a review: an object of 3 MiB, before and after
_NO_KEY = "the platform's key cannot be read yet"


@dataclass(frozen=True)
class ServedAddresses:
    """Addresses of this process; empty where something is not served, or is called by its Service."""

    url: str = ""
    login_url: str = ""


NOWHERE = ServedAddresses()


def utc_now() -> datetime:
    return datetime.now(UTC)


@asynccontextmanager
async def serving(
    cluster: Cluster, settings: RaySettings, *, now: Callable[[], datetime] = utc_now
) -> AsyncIterator[ServedAddresses]:
    """Serve while the block runs. Raises SteelyardError where it cannot listen."""
    with ExitStack() as stack:
        servers: list[Coroutine[None, None, None]] = []
        url = login_url = ""
        if settings.certificates or settings.admission:
            listening = stack.enter_context(_bind(settings.listen, "operator.ray.listen"))
            url = f"https://{_format_address(listening)}"
        if settings.login:
            entrance = stack.enter_context(_bind(settings.login, "operator.ray.login"))
            login_url = f"http://{_format_address(entrance)}"
        if url:
            servers.append(_Server(cluster, settings, url, now).run(listening))
        if login_url:
            reviews = Reviews(cluster, asyncio.get_running_loop().time)
            servers.append(_run_login(cluster, settings, reviews, entrance))
        async with _beside(servers):
            yield ServedAddresses(url, login_url)


@asynccontextmanager
async def _beside(servers: Iterable[Coroutine[None, None, None]]) -> AsyncIterator[None]:
    """Run servers while the block runs. One that fails ends the block: its process is started again, and no webhook
    stays unanswered. What the block raises comes out as it is, and in no group.
    """
    failure: Exception | None = None
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(server) for server in servers]
        try:
            yield
        except Exception as error:  # noqa: BLE001 - raised again below
            failure = error
        finally:
            for task in tasks:
                task.cancel()
    if failure is not None:
        raise failure


def _bind(where: str, setting: str) -> socket.socket:
    place = address(where)
    if place is None:
        raise SteelyardError(f"{setting}: an address is needed")
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((place.host, place.port))
    except OSError as error:
        listening.close()
        raise SteelyardError(f"{setting}: cannot listen on {where}: {error.strerror}") from error
    return listening


def _format_address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    if ip_address(host).is_unspecified:
        host = LOOPBACK
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def _run_login(
    cluster: Cluster, settings: RaySettings, reviews: Reviews, listening: socket.socket
) -> None:
    async with login_app(cluster, settings, reviews) as app:
        # Routes make names of their own. Whoever asks needs a token, and a browser sends its cookie to one name only.
        options: dict[str, Any] = {"shutdown_timeout": 0.5, "handler_cancellation": True}
        async with serving_app(app, listening=listening, hosts=EVERY_HOST, **options):
            await asyncio.Event().wait()


class _Server:
    """Webhooks and Pods' certificates, over TLS."""

    def __init__(
        self, cluster: Cluster, settings: RaySettings, url: str, now: Callable[[], datetime]
    ) -> None:
        self._cluster, self._settings, self._now = cluster, settings, now
        self._url = url
        self._reviews = Reviews(cluster, asyncio.get_running_loop().time)
        self._key: PlatformKey | None = None

    async def run(self, listening: socket.socket) -> None:
        self._key = key = await self._wait_for_key()
        app = web.Application(client_max_size=_BODY)
        app.router.add_post(VALIDATE, self._validate)
        app.router.add_post(MUTATE, self._mutate)
        app.router.add_post(PATH, self._certificate)
        app.router.add_get("/healthz", self._healthz)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        with tempfile.TemporaryDirectory(prefix="steelyard-ray-") as folder:
            _renew(context, key, self._names(), self._now(), Path(folder))
            names = Hosts(self._names())
            async with serving_app(app, listening=listening, tls=context, hosts=names, shutdown_timeout=0.5):
                _log.info("webhooks and certificates of Ray clusters are served on %s", self._url)
                while True:
                    await asyncio.sleep(_RENEW.total_seconds())
                    # Connections that come from now on see the new one.
                    _renew(context, key, self._names(), self._now(), Path(folder))

    def _names(self) -> list[str]:
        service, namespace = self._settings.service_name, self._settings.namespace
        names = [f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.cluster.local", "localhost"]
        urls = [urlsplit(url).hostname for url in (self._url, self._settings.url) if url]
        return [*names, "127.0.0.1", *(name for name in urls if name)]

    async def _wait_for_key(self) -> PlatformKey:
        while True:
            try:
                return await platform_key(self._cluster, self._settings)
            except (ApiError, BadKey) as error:
                _log.warning("%s: %s", _NO_KEY, error)
                await asyncio.sleep(_RETRY_SECONDS)

    async def _healthz(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _validate(self, request: web.Request) -> web.Response:
        return await _make_response(request, validate)

    async def _mutate(self, request: web.Request) -> web.Response:
        # The Service's name, unless this process is called by its own address.
        return await _make_response(
            request, lambda review: mutate(review, self._settings, self._service_url())
        )

    def _service_url(self) -> str:
        return self._url if is_called_directly(self._settings) else ""

    async def _certificate(self, request: web.Request) -> web.Response:
        assert self._key is not None
        token = request.headers.get("Authorization", "").removeprefix("Bearer ").strip()
        try:
            body = await request.json()
            text = body["request"] if isinstance(body, dict) else None
            if not isinstance(text, str):
                raise Refused(400, "request: a certificate request in PEM is needed")
            answer = await certificate_for(
                self._cluster, self._reviews, self._key, self._now(), token=token, request=text
            )
        except Refused as refused:
            return web.Response(text=f"{refused}\n", status=refused.status)
        except (ValueError, KeyError) as error:
            return web.Response(
                text=f"the body should be JSON with the field request: {error!r}\n", status=400
            )
        except ApiError as error:
            _log.warning("a Pod's certificate: %s", error)
            return web.Response(text="the API did not answer\n", status=503)
        return web.json_response(answer)


def is_called_directly(settings: RaySettings) -> bool:
    """Return whether the API and Pods call the operator's own address, as on one machine: loopback, or any port."""
    place = address(settings.listen)
    return not settings.url and place is not None and (place.host == LOOPBACK or place.port == 0)


async def _make_response(request: web.Request, answer: Callable[[Json], Json]) -> web.Response:
    try:
        review = await request.json()
        return web.json_response(answer(review if isinstance(review, dict) else {}))
    except (NotAReview, ValueError) as error:
        return web.Response(text=f"{error}\n", status=400)


def _renew(context: ssl.SSLContext, key: PlatformKey, names: list[str], now: datetime, folder: Path) -> None:
    """Put a new certificate into the context. A context reads files alone; they are for their owner, and go at once."""
    private = new_key()
    authority = key.authority(SERVICE, now)
    certificate = issue(authority, private.public_key(), names[0], names, now, "server", end=now + _LIFE)
    file = folder / "pair.pem"
    file.touch(mode=0o600)
    file.write_text(certificate + key_pem(private))
    context.load_cert_chain(file)
    file.unlink()
