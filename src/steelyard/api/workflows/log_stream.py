"""Handler that streams log lines over a WebSocket, one text frame each, until the workflow ends."""

import asyncio
from datetime import datetime, timedelta

from starlette.responses import Response
from starlette.websockets import WebSocket, WebSocketDisconnect

from steelyard.api.entities.loading import load
from steelyard.api.http.access import authenticate
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import ApiError
from steelyard.api.workflows.logs import read_lines
from steelyard_common.awake import pause_lasts
from steelyard_schema.status import TERMINAL

POLL_SECONDS = 1.0
SERVICE_RESTART = 1012
"""Code with which a WebSocket is closed whose server ends: the client may connect to another one."""
_LATE = timedelta(seconds=60)
"""Longest time by which a line may arrive after later lines: another Pod's piece may come late."""


async def log_stream(context: RequestContext) -> Response:
    """Lines on the socket, which is closed with 1008 once the token counts no more, with 1012 if this server ends."""
    await load(context)  # a refusal is an HTTP answer only before the socket is accepted
    socket = context.socket
    await socket.accept()
    gone = asyncio.create_task(_until_gone(socket, context.api.ending))
    try:
        await _send_all(context, socket, gone)
        if context.api.ending.is_set():
            await socket.close(SERVICE_RESTART, "this API server ends; connect again")
        else:
            await socket.close(1000)
    except ApiError as error:
        await socket.close(1008, error.detail[:120])
    except WebSocketDisconnect:
        pass
    finally:
        gone.cancel()
    return Response()


async def _send_all(context: RequestContext, socket: WebSocket, gone: "asyncio.Task[None]") -> None:
    sent: dict[tuple[str, str, str], datetime] = {}
    checked = context.now
    while not gone.done():
        context.now = context.api.platform.clock()
        if not pause_lasts(checked, context.api.platform.settings.recheck_seconds, context.now):
            context.access = await authenticate(
                context.api.tokens, context.connection.scope["headers"], context.now
            )
            checked = context.now
        entity = await load(context)
        since = max(sent.values()) - _LATE if sent else None
        async for entry in read_lines(context, entity, since):
            key = (entry.timestamp, entry.labels.get("pod_uid", ""), entry.message)
            if key not in sent:
                sent[key] = datetime.fromisoformat(entry.timestamp)
                await socket.send_text(entry.dump_json())
                # Lines come by their times: the next look is for none that is older.
                while (oldest := next(iter(sent))) != key and sent[oldest] < sent[key] - _LATE:
                    del sent[oldest]
        sent = {key: time for key, time in sent.items() if since is None or time >= since}
        if entity.status in TERMINAL:
            return
        await asyncio.wait([gone], timeout=POLL_SECONDS)


async def _until_gone(socket: WebSocket, ending: asyncio.Event) -> None:
    """Wait until the client is gone, or this server ends."""
    leaving, closing = asyncio.create_task(until_left(socket)), asyncio.create_task(ending.wait())
    try:
        await asyncio.wait([leaving, closing], return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
        closing.cancel()


async def until_left(socket: WebSocket) -> None:
    try:
        while (await socket.receive())["type"] != "websocket.disconnect":
            pass
    except (WebSocketDisconnect, RuntimeError):
        return
