"""`pods/portforward`: connections to a Pod's ports over one WebSocket, in the two protocols that clients speak.

kubectl tunnels SPDY, with two streams for each connection: its bytes, and what went wrong. The Python clients name the
ports in the query and have two channels for each port, whose numbers begin each message.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from steelyard_local_kubernetes.apiserver import errors
from steelyard_local_kubernetes.apiserver.item import Item
from steelyard_local_kubernetes.apiserver.kinds import find_field
from steelyard_local_kubernetes.apiserver.messages import Request
from steelyard_local_kubernetes.apiserver.streams.ports import (
    connect,
    connection_error_text,
    is_port,
    say_no_more,
    without_delay,
)
from steelyard_local_kubernetes.apiserver.streams.session import Send
from steelyard_local_kubernetes.apiserver.streams.spdy import (
    CANCELLED,
    GOAWAY,
    PING,
    REFUSED,
    RST_STREAM,
    SYN_STREAM,
    Frame,
    Spdy,
    SpdyError,
)
from steelyard_local_kubernetes.kubelet.records import PodFolder

TUNNEL, CHANNELS = "SPDY/3.1+portforward.k8s.io", "v4.channel.k8s.io"
MAX_STREAMS = 2000  # of one client at a time
_BLOCK = 1 << 15
_WAITING = 16  # blocks for a program that does not read; then the client waits, too

Incoming = asyncio.Queue[bytes | None]


@dataclass(frozen=True)
class PortForward:
    """The Pod whose ports are forwarded, and, of clients with channels, which."""

    folder: PodFolder
    ip: str
    name: str
    uid: str
    ports: tuple[int, ...]

    @property
    def protocols(self) -> tuple[str, ...]:
        return (TUNNEL, CHANNELS) if self.ports else (TUNNEL,)

    async def run(self, protocol: str | None, messages: AsyncIterator[bytes], send: Send) -> None:
        if protocol == TUNNEL:
            await Tunnel(self, send).run(messages)
        else:
            await _channels(self, messages, send)

    async def carry(self, port: int, incoming: Incoming, send: Send) -> str:
        """Carry one connection until the Pod ends it; return why there was none, or nothing."""
        try:
            reader, writer = await connect(self.folder, self.ip, port)
        except OSError as error:
            reason = connection_error_text(error, self.ip, port)
            return f"error forwarding port {port} to pod {self.name}, uid {self.uid}: {reason}"
        without_delay(writer)
        feeding = asyncio.create_task(_feed(incoming, writer))
        try:
            with suppress(ConnectionError):  # it ends as a connection ends
                while block := await reader.read(_BLOCK):
                    await send(block)
        finally:
            feeding.cancel()
            writer.transport.abort() if feeding.cancelled() else writer.close()
        return ""


def prepare_forwarding(pods: Path | None, request: Request, item: Item) -> PortForward:
    if pods is None:
        raise errors.not_implemented("this server has no folder of Pods, and so no ports to forward")
    texts = [text for value in request.all_values("ports") for text in value.split(",")]
    for text in texts:
        if not is_port(text):
            raise errors.bad_request(f'unable to parse "{text}" as a port')
    pod = item.parse()
    ip = find_field(pod, "status", "podIP")
    if find_field(pod, "status", "phase") != "Running" or not ip:
        raise errors.bad_request(f"pod {item.name} is not running")
    return PortForward(PodFolder(pods / item.uid), ip, item.name, item.uid, tuple(map(int, texts)))


async def _feed(incoming: Incoming, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while (block := await incoming.get()) is not None:
            writer.write(block)
            await writer.drain()
        say_no_more(writer)


class Tunnel:
    """SPDY within a WebSocket: kubectl opens a pair of streams for each connection."""

    def __init__(self, forwarding: PortForward, send: Send) -> None:
        self._forwarding, self._send = forwarding, send
        self._spdy = Spdy()
        self._pairs: dict[str, dict[str, int]] = {}
        self._incoming: dict[int, Incoming] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}

    async def run(self, messages: AsyncIterator[bytes]) -> None:
        try:
            async for message in messages:
                for frame in self._spdy.read(message):
                    if frame.kind == GOAWAY:
                        return
                    await self._take(frame)
        except SpdyError:
            return  # a client that sends this understands no answer: the connection ends
        finally:
            tasks = list(self._tasks.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _take(self, frame: Frame) -> None:
        match frame.kind:
            case 0:
                await self._add(frame)
            case _ if frame.kind == SYN_STREAM:
                await self._open(frame)
            case _ if frame.kind == RST_STREAM:
                # The client wants no more of it: nothing that is on its way may hold up the others.
                if task := self._tasks.get(frame.stream):
                    task.cancel()
            case _ if frame.kind == PING and frame.stream % 2:
                await self._send(self._spdy.ping(frame.stream))

    async def _add(self, frame: Frame) -> None:
        incoming = self._incoming.get(frame.stream)
        if incoming is None:
            return
        # A connection that has ended takes nothing more, and must not be waited for.
        if frame.data:
            await self._put(frame.stream, incoming, frame.data)
        if frame.fin:
            await self._put(frame.stream, incoming, None)

    async def _put(self, stream: int, incoming: Incoming, block: bytes | None) -> None:
        task = self._tasks[stream]
        put = asyncio.create_task(incoming.put(block))
        await asyncio.wait([put, task], return_when=asyncio.FIRST_COMPLETED)
        put.cancel()

    async def _open(self, frame: Frame) -> None:
        port, kind = frame.headers.get("port", ""), frame.headers.get("streamtype", "")
        request = frame.headers.get("requestid", port)
        pair = self._pairs.setdefault(request, {})
        known = len(self._pairs) + len(self._tasks)
        if not is_port(port) or kind not in ("data", "error") or kind in pair or known > MAX_STREAMS:
            if not pair:
                del self._pairs[request]
            await self._send(self._spdy.reset(frame.stream, REFUSED))
            return
        pair[kind] = frame.stream
        await self._send(self._spdy.reply(frame.stream))
        if len(pair) == 2:
            del self._pairs[request]
            data = pair["data"]
            self._incoming[data] = asyncio.Queue(_WAITING)
            task = asyncio.create_task(self._carry(int(port), data, pair["error"]))
            self._tasks[data] = task
            task.add_done_callback(lambda _: self._forget(data))

    def _forget(self, data: int) -> None:
        del self._tasks[data], self._incoming[data]

    async def _carry(self, port: int, data: int, error: int) -> None:
        async def send(block: bytes) -> None:
            await self._send(self._spdy.data(data, block))

        reason = ""
        try:
            reason = await self._forwarding.carry(port, self._incoming[data], send)
            await self._send(self._spdy.data(data, b"", fin=True))
        except asyncio.CancelledError:
            await self._send(self._spdy.reset(data, CANCELLED))
        # kubectl waits for its end before it forgets the connection.
        await self._send(self._spdy.data(error, reason.encode(), fin=True))


async def _channels(forwarding: PortForward, messages: AsyncIterator[bytes], send: Send) -> None:
    """Channels 2n and 2n + 1 are those of the n-th port; each begins with the port's number."""
    queues: list[Incoming] = [asyncio.Queue(_WAITING) for _ in forwarding.ports]

    async def carry(index: int, port: int) -> None:
        data, error = bytes([2 * index]), bytes([2 * index + 1])
        for channel in (data, error):
            await send(channel + port.to_bytes(2, "little"))
        if reason := await forwarding.carry(port, queues[index], lambda block: send(data + block)):
            await send(error + reason.encode())

    async def receive() -> None:
        async for message in messages:
            if message and not message[0] % 2 and message[0] // 2 < len(queues):
                await queues[message[0] // 2].put(message[1:])

    tasks = [asyncio.create_task(carry(index, port)) for index, port in enumerate(forwarding.ports)]
    await _until_one_ends([asyncio.create_task(receive()), *tasks])


async def _until_one_ends(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Wait for the caller's end or a connection's: on this protocol the first one ends them all."""
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
