"""`pods/log`: the container's log files, as the kubelet writes them, in CRI lines.

`<pods>/<pod uid>/<container>/<restart count>.log`, each line `<time> <stdout|stderr> <F|P> <text>`.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO

from steelyard_common.line_files import lines_backwards
from steelyard_common.types import Json, sequence
from steelyard_kube.objects import read_status
from steelyard_local_kubernetes.apiserver import errors
from steelyard_local_kubernetes.apiserver.errors import Cause
from steelyard_local_kubernetes.apiserver.item import Item
from steelyard_local_kubernetes.apiserver.kinds import find_field
from steelyard_local_kubernetes.apiserver.messages import Request, Response
from steelyard_local_kubernetes.apiserver.parameters import integer

POLL_SECONDS = 0.1
LONGEST = 10**9  # seconds; before that there were no Pods
TEXT = "text/plain"
_BLOCK = 1 << 16


@dataclass(frozen=True)
class LogOptions:
    timestamps: bool
    tail: int | None
    limit: int
    since: str  # RFC 3339, empty for all


class PodLogs:
    """The logs below one folder; `current` gives the Pod as it is now, to know when a followed container has ended."""

    def __init__(
        self, pods: Path | None, current: Callable[[Item], Item | None], has_node: Callable[[str], bool]
    ) -> None:
        self._pods, self._current, self._has_node = pods, current, has_node

    def response(self, request: Request, item: Item) -> Response:
        if self._pods is None:
            raise errors.not_implemented("this server has no folder of Pods, and so no logs")
        pod = item.parse()
        if causes := _option_causes(request):
            raise errors.is_invalid("", "PodLogOptions", item.name, causes)
        container = choose_container(pod, request.query.get("container", ""))
        count = int((_status(pod, container) or {}).get("restartCount") or 0) - request.flag("previous")
        if {"sinceSeconds", "sinceTime"} <= set(request.query):
            cause = errors.forbidden_field(
                "[]", "at most one of `sinceTime` or `sinceSeconds` may be specified"
            )
            raise errors.is_invalid("", "PodLogOptions", pod["metadata"]["name"], [cause])
        options = _options(request)
        path = self._pods / item.uid / container / f"{count}.log"
        follow = request.flag("follow") and not request.flag("previous")
        name, node = pod["metadata"]["name"], find_field(pod, "spec", "nodeName") or ""
        if not node and not path.exists():
            # As on a real server, a Pod without a node has no log, also for a client that would follow it.
            return Response(b"", 204, content_type="")
        if not follow and not path.exists():
            if not self._has_node(node):
                raise errors.not_found("", "pods", node)
            if request.flag("previous"):
                raise errors.bad_request(
                    f'previous terminated container "{container}" in pod "{name}" not found'
                )
            waiting = (
                find_field(_status(pod, container) or {}, "state", "waiting", "reason") or "ContainerCreating"
            )
            raise errors.bad_request(
                f'container "{container}" in pod "{name}" is waiting to start: {waiting}'
            )
        pieces = self._follow(path, item, container, options) if follow else _read_blocks(path, options)
        return Response(_cut(pieces, options.limit), content_type=TEXT)

    async def _follow(
        self, path: Path, item: Item, container: str, options: LogOptions
    ) -> AsyncGenerator[bytes, None]:
        """Lines as they are written, until the container has ended and everything is read."""
        # `kubectl logs -f` right after a create: the container has not started, and its client waits for that.
        while not path.exists():  # noqa: ASYNC240 - a local file's name, asked for ten times a second
            if self._ended(item, container):
                return
            await asyncio.sleep(POLL_SECONDS)
        with path.open("rb") as file:
            file.seek(await asyncio.to_thread(_start, file, options.tail))
            rest = b""
            while True:
                ended = self._ended(item, container)  # asked before reading: what was written by then is read
                block = file.read(_BLOCK)
                # The kubelet's shim may be in the middle of a line: its rest comes with the next read.
                *lines, rest = (rest + block).split(b"\n")
                if text := _texts(lines, options):
                    yield text
                elif not block and ended:
                    return
                elif not block:
                    await asyncio.sleep(POLL_SECONDS)

    def _ended(self, item: Item, container: str) -> bool:
        now = self._current(item)
        # The Pod is gone, or another has its name: its log grows no more.
        if now is None or now.uid != item.uid:
            return True
        pod = now.parse()
        state = find_field(_status(pod, container) or {}, "state") or {}
        return "terminated" in state or find_field(pod, "status", "phase") in ("Succeeded", "Failed")


async def _cut(stream: AsyncGenerator[bytes, None], limit: int) -> AsyncGenerator[bytes, None]:
    """A stream cut at so many bytes; whole where the limit is 0."""
    left = limit
    # Closed with this one: a caller that goes in the middle must not leave the log's file open.
    async with aclosing(stream) as pieces:
        async for piece in pieces:
            yield piece[:left] if limit else piece
            left -= len(piece)
            if limit and left <= 0:
                return


def choose_container(pod: Json, name: str) -> str:
    spec = pod["spec"]
    names = [listed["name"] for listed in spec["containers"]]
    every = names + [listed["name"] for listed in sequence(spec, "initContainers")]
    if name and name not in every:
        raise errors.bad_request(f"container {name} is not valid for pod {pod['metadata']['name']}")
    if not name and len(names) > 1:
        choices = f"choose one of: [{' '.join(names)}]"
        text = f"a container name must be specified for pod {pod['metadata']['name']}, {choices}"
        raise errors.bad_request(text)
    return name or str(names[0])


def _status(pod: Json, container: str) -> Json | None:
    status = read_status(pod)
    every = sequence(status, "containerStatuses") + sequence(status, "initContainerStatuses")
    container_spec: Json | None = next(
        (candidate for candidate in every if candidate["name"] == container), None
    )
    return container_spec


def _option_causes(request: Request) -> list[Cause]:
    """Faults of the options that a real server finds."""
    causes: list[Cause] = []
    for name, least in (("tailLines", 0), ("limitBytes", 1)):
        causes += _number_causes(request, name, least)
    if request.query.get("sinceSeconds") and request.query.get("sinceTime"):
        text = "at most one of `sinceTime` or `sinceSeconds` may be specified"
        causes.append(errors.forbidden_field("[]", text))  # the path of no field, as Go shows it
    else:
        causes += _number_causes(request, "sinceSeconds", 1)
    return causes


def _number_causes(request: Request, name: str, least: int) -> list[Cause]:
    if not request.query.get(name) or (value := integer(request, name, signed=True)) >= least:
        return []
    text = "must be greater than 0" if least else "must be greater than or equal to 0"
    return [errors.invalid(name, value, text)]


def _options(request: Request) -> LogOptions:
    tail = integer(request, "tailLines") if "tailLines" in request.query else None
    since = request.query.get("sinceTime", "").replace("Z", "")
    if seconds := integer(request, "sinceSeconds"):
        since = (datetime.now(UTC) - timedelta(seconds=min(seconds, LONGEST))).strftime(
            "%Y-%m-%dT%H:%M:%S.%f"
        )
    return LogOptions(request.flag("timestamps"), tail, integer(request, "limitBytes"), since)


async def _read_blocks(path: Path, options: LogOptions) -> AsyncGenerator[bytes, None]:
    """Yield the log as it is now by blocks: a chatty container's has gigabytes, and others wait meanwhile."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(await asyncio.to_thread(_start, file, options.tail))
        rest = b""
        while block := file.read(min(_BLOCK, end - file.tell())):
            *lines, rest = (rest + block).split(b"\n")
            yield _texts(lines, options)
            await asyncio.sleep(0)
        if rest and _is_since(rest, options):
            yield _text(rest, options)


def _start(file: BinaryIO, count: int | None) -> int:
    """Return where the last lines begin, by default all; a line that came in parts is shown from its beginning."""
    if count is None:
        return 0
    start = end = file.seek(0, os.SEEK_END)
    for offset, line in lines_backwards(file):
        if start == end or not _part(line):
            if not count:
                break
            count -= 1
        start = offset
    return start


def _texts(lines: list[bytes], options: LogOptions) -> bytes:
    """Return the output of whole lines, given without their ends."""
    return b"".join(_text(line + b"\n", options) for line in lines if _is_since(line, options))


def _is_since(line: bytes, options: LogOptions) -> bool:
    return not options.since or line.partition(b" ")[0].rstrip(b"Z") >= options.since.encode()


def _part(line: bytes) -> bool:
    fields = line.split(b" ", 3)
    return len(fields) > 2 and fields[2] == b"P"


def _text(line: bytes, options: LogOptions) -> bytes:
    """Return the container's output of one line; a part of a line has no end."""
    fields = line.split(b" ", 3)
    # A line that a full disk has torn: shown as it is.
    if len(fields) < 4:
        return line
    moment, _, tag, text = fields
    if tag == b"P":
        text = text.rstrip(b"\n")
    return moment + b" " + text if options.timestamps else text
