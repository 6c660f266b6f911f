"""`/metrics`, `/healthz` and `/readyz` of a process that serves nothing else: the operator, and a service run alone."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Annotated, NamedTuple

from pydantic import AfterValidator

from steelyard_common.errors import SteelyardError, system_words

if TYPE_CHECKING:
    from aiohttp import web

    from steelyard_common.figures import Figures

LOOPBACK = "127.0.0.1"
IN_A_CLUSTER = ":8080"
"""Address of v1's operator for its metrics, on every address of its Pod: Prometheus asks from outside."""


class Address(NamedTuple):
    """Address at which a socket listens: an empty host is every address, port 0 a free one."""

    host: str
    port: int


def address(text: str) -> Address | None:
    """`HOST:PORT`, `[HOST]:PORT` or `:PORT`; None for an empty text, which is nowhere. Raises ValueError."""
    if not text:
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdecimal()) or len(port) > 5 or int(port) > 65535:
        raise ValueError("should be HOST:PORT, :PORT for every address, or empty for nowhere")
    return Address(host.removeprefix("[").removesuffix("]"), int(port))


def _check_address(text: str) -> str:
    address(text)
    return text


Listen = Annotated[str, AfterValidator(_check_address)]
"""A setting that says where something is served."""


def listen_address(
    setting: str | None, *, one_machine: bool, environment: Mapping[str, str] = os.environ
) -> Address | None:
    """Address of the setting; without it every address in the Pod of a cluster, else a free port of loopback.

    `one_machine`: the process belongs to a state folder, and a Pod may have several.
    """
    if setting is not None:
        return address(setting)
    in_a_cluster = not one_machine and "KUBERNETES_SERVICE_HOST" in environment
    return address(IN_A_CLUSTER) if in_a_cluster else Address(LOOPBACK, 0)


Missing = Callable[[], Awaitable[Sequence[str]]]
"""Returns what a process needs and does not have at the moment: a line for each, with its name and why."""


async def no_needs() -> Sequence[str]:
    return ()


@asynccontextmanager
async def serve_metrics(
    where: Address, figures: "Figures", missing: Missing = no_needs
) -> AsyncIterator[str]:
    """Serve while the block runs; yields the address of the metrics. Raises SteelyardError where it cannot listen.

    `/readyz` is 200 while nothing is missing.
    """
    from steelyard_common.serving.aiohttp_server import serving_app

    async with AsyncExitStack() as running:
        try:
            server = serving_app(_app(figures, missing), where.host or None, where.port, shutdown_timeout=0.0)
            host, port = await running.enter_async_context(server)
        except OSError as error:
            text = f"metrics: cannot listen on {where.host}:{where.port}: {system_words(error)}"
            raise SteelyardError(text) from error
        yield f"http://{f'[{host}]' if ':' in host else host}:{port}/metrics"


def _app(figures: "Figures", missing: Missing) -> "web.Application":
    from aiohttp import web

    from steelyard_common.figures import CONTENT_TYPE
    from steelyard_common.serving.figures_access import REFUSAL, may_read

    async def metrics(request: web.Request) -> web.Response:
        if not may_read(request.remote, request.headers):
            return web.Response(text=f"{REFUSAL}\n", status=401, headers={"WWW-Authenticate": "Bearer"})
        return web.Response(body=await figures.text(), headers={"Content-Type": CONTENT_TYPE})

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        lines = await missing()
        if not lines:
            return web.Response(text="ok\n")
        return web.Response(text="".join(f"{line}\n" for line in ("not ready", *lines)), status=503)

    app = web.Application()
    for path, handler in (("/metrics", metrics), ("/healthz", healthz), ("/readyz", readyz)):
        app.router.add_get(path, handler)
    return app
