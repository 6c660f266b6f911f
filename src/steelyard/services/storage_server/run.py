"""Runs the server of the storage folder until it is asked to stop, in the platform's process or in one of its own."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote

from prometheus_client import CollectorRegistry

from steelyard.services.storage_server.server import StorageServer
from steelyard.services.storage_server.settings import StorageServerSettings
from steelyard.services.storage_server.signatures import Keys
from steelyard.telemetry.monitoring import address
from steelyard_common.errors import SteelyardError, UsageError, system_words
from steelyard_common.serving.aiohttp_server import serving_app
from steelyard_common.serving.hosts import EVERY_HOST
from steelyard_evaluation.storage.files import FileStore

_log = logging.getLogger(__name__)
LEAST_SECRET = 16
CLEAN_SECONDS = 3600.0


def make_server(
    storage: str,
    settings: StorageServerSettings,
    *,
    registry: CollectorRegistry | None = None,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> StorageServer:
    """Return the server of a storage URL. Raises UsageError where the settings do not suffice for one."""
    if not storage.startswith("file:///"):
        raise UsageError(
            f"storage_server: serves a folder, and storage is {storage}, which its clients reach"
        )
    access, secret = settings.access_key.get_secret_value(), settings.secret_key.get_secret_value()
    if not access or "/" in access or len(secret) < LEAST_SECRET:
        raise UsageError(
            f"storage_server: access_key should be a name, and secret_key should have at least {LEAST_SECRET} "
            "characters: without them, everybody could read and write"
        )
    store = FileStore(Path(unquote(storage.removeprefix("file://"))))
    return StorageServer(store, settings.bucket, Keys(access, secret), clock=clock, registry=registry)


async def run_storage_server(
    server: StorageServer,
    listen: str,
    *,
    stop: asyncio.Event,
    listening: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve until `stop`; calls `listening` with the URL once requests are answered.

    Raises UsageError where the settings name no address, SteelyardError where it cannot listen.
    """
    where = address(listen)
    if where is None:
        raise UsageError(
            "storage_server: set storage_server.listen, the HOST:PORT where the storage is served"
        )
    # A page of a browser has no key, so that no name needs to be refused.
    async with AsyncExitStack() as running:
        try:
            serving = serving_app(server.app(), where.host or None, where.port, hosts=EVERY_HOST)
            host, port = await running.enter_async_context(serving)
        except OSError as error:
            words = system_words(error)
            raise SteelyardError(f"storage_server: cannot listen on {listen}: {words}") from error
        url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        _log.info("the storage is served on %s", url)
        listening(url)
        while not stop.is_set():
            try:
                removed = await asyncio.to_thread(server.uploads.remove_leftovers, datetime.now(UTC))
            except OSError as error:
                _log.warning("leftovers of uploads are not removed: %s", error)
            else:
                if removed:
                    _log.info("%d files of uploads that were cut short are removed", removed)
            with suppress(TimeoutError):
                async with asyncio.timeout(CLEAN_SECONDS):
                    await stop.wait()
