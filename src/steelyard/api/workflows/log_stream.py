"""Log lines over a WebSocket, as they are written: each one text frame. The stream ends when the workflow has."""

import asyncio
from datetime import datetime, timedelta

from starlette.responses import Response
from starlette.websockets import WebSocket, WebSocketDisconnect

from steelyard.api.entities.loading import load
from steelyard.api.http.access import authenticate
from steelyard.api.http.context import Call
from steelyard.api.http.errors import ApiError
from steelyard.api.workflows.logs import collect
from steelyard.awake import pause_lasts
from steelyard.schema.status import TERMINAL

POLL_SECONDS = 1.0
_LATE = timedelta(seconds=60)
"""A line may be seen so long after later ones: its piece came late."""


async def log_stream(call: Call) -> Response:
    """Answers on the socket alone; it is closed with 1008 where the token counts no more."""
    await load(call)  # refused before the socket is accepted
    socket = call.socket
    await socket.accept()
    gone = asyncio.create_task(_until_gone(socket))
    try:
        await _send_all(call, socket, gone)
        await socket.close(1000)
    except ApiError as error:
        await socket.close(1008, error.detail[:120])
    except WebSocketDisconnect:
        pass
    finally:
        gone.cancel()
    return Response()


async def _send_all(call: Call, socket: WebSocket, gone: "asyncio.Task[None]") -> None:
    sent: dict[tuple[str, str, str], datetime] = {}
    checked = call.now
    while not gone.done():
        call.now = call.api.platform.clock()
        if not pause_lasts(checked, call.api.platform.settings.recheck_seconds, call.now):
            call.access = await authenticate(call.api.tokens, call.connection.scope["headers"], call.now)
            checked = call.now
        entity = await load(call)
        since = max(sent.values()) - _LATE if sent else None
        for entry in await collect(call, entity, since):
            key = (entry.timestamp, entry.labels.get("pod_uid", ""), entry.message)
            if key not in sent:
                sent[key] = datetime.fromisoformat(entry.timestamp)
                await socket.send_text(entry.dump_json())
        sent = {key: time for key, time in sent.items() if since is None or time >= since}
        if entity.status in TERMINAL:
            return
        await asyncio.wait([gone], timeout=POLL_SECONDS)


async def _until_gone(socket: WebSocket) -> None:
    try:
        while (await socket.receive())["type"] != "websocket.disconnect":
            pass
    except (WebSocketDisconnect, RuntimeError):
        return
