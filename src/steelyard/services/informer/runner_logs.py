"""Keeps the logs of runners in storage, from which the API shows them while their Pods run and once they are gone.

On a cluster nobody else has them: a runner is a program of others, and its log goes with its Pod. The informer's leader
runs this. A step keeps its own log (`steps/kept_log.py`).
"""

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

import orjson

from steelyard.broker.log import STATE, Log
from steelyard.services.aggregator.messages import read_state
from steelyard_common.errors import EngineError
from steelyard_common.types import Json
from steelyard_evaluation.storage.store import ObjectExists, Store
from steelyard_kube.cluster import Cluster, LogLine, PodLogs
from steelyard_kube.errors import ApiError, NotFound
from steelyard_kube.informer import Informer
from steelyard_kube.pods import is_terminal
from steelyard_kube.resource import PODS
from steelyard_schema.names import LOG_PIECES, account_namespace, place, resource_name

ENTITY = "steelyard/entity"
RUNNERS = f"{ENTITY},app.kubernetes.io/component=session"
CONTAINER = "runner"
KINDS = ("Evaluation", "InferenceSession")
"""Kinds whose workflows have runners; the names of their Pods begin with those of their resources."""
PIECE_SECONDS = 5.0
PIECE_BYTES = 1 << 20
"""Bytes of lines that are written before the next few seconds are over."""
MOST_BYTES = 64 << 20
"""Bytes that are kept of the log of one Pod: the first ones."""
RETRY_SECONDS = 2.0
_PIECE = re.compile(r"runner-([0-9]{6})$")
_log = logging.getLogger(__name__)


class LoggingCluster(Cluster, PodLogs, Protocol):
    """A cluster whose containers' logs can be read."""


def find_place(pod: Json, entity: Json) -> str | None:
    """Return where the log of a runner's Pod is kept; None for a Pod that is not of the entity that its label names.

    Who may write in another namespace can make a Pod there with the label and the name of any entity's.
    """
    metadata, kind, id = pod["metadata"], entity["kind"], entity["id"]
    is_own = (
        kind in KINDS
        and metadata["labels"][ENTITY] == id
        and metadata["namespace"] == account_namespace(entity["account"])
        and metadata["name"].startswith(f"{resource_name(kind, id)}-")
    )
    return f"{place(kind, id)}/{LOG_PIECES}{metadata['uid']}/" if is_own else None


class RunnerLogs:
    """Follows the runners of all sessions, each in a task of its own."""

    def __init__(
        self, cluster: LoggingCluster, store: Store, log: Log, piece_seconds: float = PIECE_SECONDS
    ) -> None:
        self._cluster, self._store, self._log = cluster, store, log
        self._piece_seconds = piece_seconds
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._pods = Informer(cluster, PODS, label_selector=RUNNERS, on_change=self._on_change, optional=True)

    async def work(self) -> None:
        """Follow until cancelled."""
        try:
            await self._pods.run()
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _on_change(self, old: Json | None, new: Json | None) -> None:
        if new is None or (uid := new["metadata"]["uid"]) in self._tasks:
            return

        def end(task: asyncio.Task[None]) -> None:
            self._tasks.pop(uid, None)
            if not task.cancelled() and (error := task.exception()) is not None:
                _log.error("the log of Pod %s is not kept until the Pod changes", uid, exc_info=error)

        self._tasks[uid] = asyncio.create_task(self._keep(new))
        self._tasks[uid].add_done_callback(end)

    async def _keep(self, pod: Json) -> None:
        """Keep the log of one Pod, over restarts of its runner, until the Pod has gone."""
        metadata = pod["metadata"]
        kept: PodLog | None = None
        while True:
            try:
                if kept is None:
                    # The entity's state is older than the Pod, and says whose it is; a Pod may say what it likes.
                    state = read_state(await self._log.latest(STATE, metadata["labels"][ENTITY]))
                    folder = find_place(pod, state.content) if state and state.content else None
                    if folder is None:
                        return
                    kept = PodLog(self._store, folder)
                await kept.begin()
                lines = self._cluster.logs(
                    metadata["name"],
                    metadata["namespace"],
                    container=CONTAINER,
                    follow=True,
                    since=kept.newest,
                )
                await kept.take(lines, self._piece_seconds)
                pod = await self._cluster.get(PODS, metadata["name"], metadata["namespace"])
                if pod["metadata"]["uid"] != metadata["uid"] or is_terminal(pod):
                    return
            except NotFound:
                return
            except (ApiError, EngineError) as error:
                _log.debug("the log of %s is read again: %s", metadata["name"], error)
            await asyncio.sleep(RETRY_SECONDS)


@dataclass
class PodLog:
    """The log of one Pod as storage has it, and how far it goes."""

    store: Store
    folder: str
    newest: str = ""
    """Time of the newest line that is kept: what the API gives again of its second is left out."""
    _number: int = 0
    _stored: int = 0
    """Bytes of the pieces in storage."""
    _begun: bool = False
    _lines: list[tuple[str, bytes]] = field(default_factory=list)
    """Lines that storage lacks, each with its time."""
    _waiting: int = 0
    """Bytes of these lines."""
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def begin(self) -> None:
        """Read how far an earlier leader has come. Raises StorageError."""
        if not self._begun:
            self.newest = await self._read_pieces()
            self._begun = True

    async def _read_pieces(self) -> str:
        """Read what storage has, and return the time of its newest line; empty if it has none."""
        number = stored = 0
        async for info in self.store.list(self.folder):
            if match := _PIECE.search(info.key):
                number = max(number, int(match[1]))
                stored += info.size
        lines = (await self.store.get(f"{self.folder}runner-{number:06}")).splitlines() if number else []
        self._number, self._stored = number, stored
        return str(orjson.loads(lines[-1])["time"]) if lines else ""

    async def take(self, lines: AsyncIterator[LogLine], seconds: float) -> None:
        """Take lines until they end, and write those of each few seconds. Raises StorageError, ApiError."""
        writing = asyncio.create_task(self._write_often(seconds))
        try:
            async for line in lines:
                # Texts of one length in UTC sort as the times do.
                if line.time > self.newest and self._stored + self._waiting < MOST_BYTES:
                    self._add(line)
                if self._waiting >= PIECE_BYTES:
                    await self.write()
                if writing.done():
                    break
        finally:
            writing.cancel()
            with suppress(asyncio.CancelledError):
                await writing
            await self.write()

    def _add(self, line: LogLine) -> None:
        content = {"time": line.time, "container": CONTAINER, "message": line.text}
        text = orjson.dumps(content) + b"\n"
        self._lines.append((line.time, text))
        self._waiting += len(text)
        self.newest = line.time

    async def _write_often(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            # A runner may be silent for hours: its last lines must not wait for the next one.
            with suppress(EngineError):
                await self.write()

    async def write(self) -> None:
        """Write the lines that storage lacks as one piece. Raises StorageError."""
        async with self._writing:
            while self._lines:
                count, piece = len(self._lines), b"".join(text for _, text in self._lines)
                try:
                    await self.store.create(f"{self.folder}runner-{self._number + 1:06}", piece)
                except ObjectExists:
                    # Another leader has written it, or this one, which was interrupted before it learned of it.
                    newest = await self._read_pieces()
                    self._lines = [(time, text) for time, text in self._lines if time > newest]
                    self.newest = max(self.newest, newest)
                else:
                    del self._lines[:count]
                    self._number += 1
                    self._stored += len(piece)
                self._waiting = sum(len(text) for _, text in self._lines)
