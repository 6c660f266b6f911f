"""The server of the storage folder alone, as `steelyard service storage` runs it: it needs no other engine."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from steelyard.local.state import StateDir, process_name, write_note

if TYPE_CHECKING:
    from steelyard.settings import Settings

_log = logging.getLogger(__name__)


async def run_storage_service(
    state: StateDir, loaded: "Settings", *, replica: int, stop: asyncio.Event, ready: Callable[[], None]
) -> None:
    """Serve the folder of the settings until `stop`; calls `ready` once requests are answered.

    Raises UsageError where the settings do not suffice, SteelyardError where it cannot listen.
    """
    from steelyard.services.storage_server.run import make_server, run_storage_server
    from steelyard.telemetry.monitoring import listen_address, serve_metrics
    from steelyard_common.figures import Figures

    figures = Figures()
    server = make_server(loaded.storage, loaded.storage_server, registry=figures.registry)
    listens = asyncio.Event()

    async def missing() -> Sequence[str]:
        return () if listens.is_set() else ("storage: is not served yet",)

    def listening(_: str) -> None:
        listens.set()
        ready()

    async with AsyncExitStack() as stack:
        where = listen_address(loaded.metrics, one_machine=state.runs(loaded.kubernetes))
        if where is not None:
            url = await stack.enter_async_context(serve_metrics(where, figures, missing))
            _log.info("metrics are served on %s", url)
            file = state.metrics(process_name("storage", replica))
            stack.callback(file.unlink, missing_ok=True)
            write_note(file, f"{url}\n")
        await run_storage_server(server, loaded.storage_server.listen, stop=stop, listening=listening)
