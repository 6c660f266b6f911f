"""The flows of a collection: waiting, uploads, downloads, sessions' tokens."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from steelyard.client.call import Call
from steelyard.client.calls import Calls, Fields, Request
from steelyard.client.errors import (
    BadFiles,
    LinkExpired,
    TransferBroken,
    Unauthenticated,
    Unavailable,
    Unreachable,
)
from steelyard.client.files import Paths, json_object, list_artifacts, list_volume, locate_files, name_files
from steelyard.client.flow import Flow, ask, pause, work
from steelyard.client.parquet import read_arrow_schema
from steelyard.client.retries import Retries
from steelyard.client.transfer import Progress, fetch, find_target, put
from steelyard.client.waiting import Waiting, is_session
from steelyard_schema.answers import ArtifactURL, InferenceSessionAndToken
from steelyard_schema.base import DyffEntity
from steelyard_schema.data_source import UPLOAD, DataSource, list_uploads
from steelyard_schema.dataset import Dataset
from steelyard_schema.model import Model
from steelyard_schema.module import Module

CROISSANT = "croissant.json"
"""File of a dataset's folder that describes it."""
E = TypeVar("E", bound=DyffEntity)
OnChange = Callable[[E], None] | None
Links = Callable[[], Flow[list[ArtifactURL]]]


@dataclass(frozen=True)
class Evidence:
    """Files that were downloaded so that a report or an audit can be checked."""

    files: tuple[Path, ...]
    not_included: Mapping[str, str]
    """Reasons by folder, for folders that are not included."""


@dataclass(frozen=True)
class UploadOptions:
    """Options of an upload: the progress callback, and whether and how long to wait for the entity in the end."""

    progress: Progress
    wait: bool = False
    timeout: float = 3600.0


@dataclass
class Flows(Generic[E]):
    """The flows of one collection."""

    calls: Calls[E]
    retries: Retries
    clock: Callable[[], float] = time.monotonic
    tokens: dict[str, str] = field(default_factory=dict)
    """Tokens of inference sessions, by id."""

    def wait(self, id: str, timeout: float, on_change: OnChange[E]) -> Flow[E]:
        waiting = Waiting[E](self.clock() + timeout, on_change)
        while True:
            try:
                entity = yield from ask(self.calls.get(id))
                running = is_session(entity) and entity.status == "Admitted"
                ready = (yield from self.ready(id)) if running else None
            except (Unreachable, Unavailable) as error:
                yield from pause(waiting.away(error, self.clock()))
                continue
            seconds = waiting.observe(entity, self.clock(), ready=ready)
            if seconds is None:
                return entity
            yield from pause(seconds)

    # ---- files

    def upload(self, id: str, files: Paths, options: UploadOptions) -> Flow[E]:
        entity = yield from ask(self.calls.get(id))
        names = list(_names(entity))
        if not names:
            raise BadFiles(f"{type(entity).__name__} {id} takes no files")
        # All files are looked for before the first is sent: a missing one is reported at once.
        paths = yield from work(lambda _: locate_files(files, names))
        for name, path in paths.items():
            yield from self._put(id, name, path, options.progress)
        yield from ask(self.calls.finalize(id))
        if options.wait:
            return (yield from self.wait(id, options.timeout, None))
        return (yield from ask(self.calls.get(id)))

    def _put(self, id: str, name: str, path: Path, progress: Progress) -> Flow[None]:
        number = 1
        while True:
            # A URL of its own for each try: the earlier one may have expired during the upload.
            link = yield from ask(self.calls.uplink(id, name))
            try:
                yield from work(lambda carrier: put(carrier, link, path, name, progress))  # noqa: B023
                return
            except TransferBroken as error:
                yield from self._pause_before_retry(number, error)
            number += 1

    def download(
        self, id: str, folder: Path, progress: Progress, paths: Collection[str] | None
    ) -> Flow[list[Path]]:
        def links() -> Flow[list[ArtifactURL]]:
            all_links = yield from ask(self.calls.downlinks(id))
            return [link for link in all_links if paths is None or link.artifact.path in paths]

        return (yield from self._fetch_all((yield from links()), links, folder, progress))

    def evidence(self, id: str, folder: Path, progress: Progress) -> Flow[Evidence]:
        answer = yield from ask(self.calls.evidence(id))

        def links() -> Flow[list[ArtifactURL]]:
            return (yield from ask(self.calls.evidence(id))).files

        files = yield from self._fetch_all(answer.files, links, folder, progress)
        return Evidence(tuple(files), {missing.path: missing.reason for missing in answer.notIncluded})

    def _fetch_all(
        self, first: Sequence[ArtifactURL], renew: Links, folder: Path, progress: Progress
    ) -> Flow[list[Path]]:
        links = _leaves(first)
        targets = {name: find_target(folder, name) for name in links}
        for name, target in targets.items():
            yield from self._fetch(renew, links[name], target, progress)
        return list(targets.values())

    def _fetch(self, renew: Links, link: ArtifactURL, target: Path, progress: Progress) -> Flow[None]:
        number, renewed = 1, False
        while True:
            try:
                yield from work(lambda carrier: fetch(carrier, link, target, progress))  # noqa: B023
                return
            except TransferBroken as error:
                yield from self._pause_before_retry(number, error)
            except LinkExpired:  # all links were signed before the first file was fetched
                links = _leaves((yield from renew()))
                # Once: a second expiry says that this machine's clock, or the store's, is wrong.
                if renewed or link.artifact.path not in links:
                    raise
                link, renewed = links[link.artifact.path], True
            number += 1

    def _pause_before_retry(self, number: int, error: TransferBroken) -> Flow[None]:
        """Pause before another try, or raise the error. Uploads and downloads may both be repeated."""
        if error.response is None:
            seconds = self.retries.after_fault(number, error)
        else:
            seconds = self.retries.after_answer(number, error.response)
        if seconds is None:
            raise error
        yield from pause(seconds)

    # ---- entities of files

    def from_files(self, files: Paths, fields: Fields, key: str | None, options: UploadOptions) -> Flow[E]:
        """Create an entity of files and upload them; with a key, complete what an earlier call has begun."""
        paths = yield from work(lambda _: name_files(files))
        description = paths.get(CROISSANT) if self.calls.entity is Dataset else None
        content = (yield from work(lambda _: json_object(description))) if description else None
        if self.calls.entity is Dataset:
            # A folder may hold a dataset card and pictures in addition to its Parquet files: only the Parquet files
            # hold rows.
            paths = {name: path for name, path in paths.items() if path.suffix == ".parquet"} or dict(paths)
        request = yield from work(lambda _: _fields_of_files(self.calls.entity, paths, fields) | dict(fields))
        entity = yield from ask(self.calls.create(None, request, key))
        # With a key, an earlier call may have come further than the creation.
        if entity.status == "WaitingForUpload":
            uploaded = yield from self.upload(entity.id, paths, options)
            if content is not None:  # now, when the files that it may name are there to be compared with
                yield from ask(self.calls.take_croissant(entity.id, content))
                uploaded = yield from ask(self.calls.get(entity.id))
            return uploaded
        return (yield from self.wait(entity.id, options.timeout, None)) if options.wait else entity

    # ---- inference sessions

    def session(self, request: Request, fields: Fields, key: str | None) -> Flow[InferenceSessionAndToken]:
        return (yield from self._start(self.calls.create_session(request, fields, key)))

    def session_again(self, id: str, key: str | None) -> Flow[InferenceSessionAndToken]:
        return (yield from self._start(self.calls.rerun_session(id, key)))

    def _start(self, call: Call[InferenceSessionAndToken]) -> Flow[InferenceSessionAndToken]:
        session = yield from ask(call)
        self.tokens[session.inferencesession.id] = session.token
        return session

    def ready(self, id: str) -> Flow[bool]:
        answer = yield from ask(self.calls.ready(id))
        # A runner of any kind answers at its own path, with whatever body: only a plain "no" counts.
        return not (isinstance(answer, dict) and answer.get("ready") is False)

    def infer(self, id: str, endpoint: str, body: Any, token: str | None) -> Flow[Any]:
        """Send an inference; without a token, with one that is asked for once, and again when it has expired."""
        known = token or self.tokens.get(id)
        if known is not None:
            try:
                return (yield from ask(self.calls.infer(id, endpoint, body, known)))
            except Unauthenticated:
                if token is not None:
                    raise
        self.tokens[id] = yield from ask(self.calls.session_token(id, None))
        return (yield from ask(self.calls.infer(id, endpoint, body, self.tokens[id])))


def _names(entity: DyffEntity) -> Iterable[str]:
    match entity:
        case Dataset() | Module():
            return [file.path for file in entity.artifacts]
        case Model() if entity.source.kind == "Upload" and entity.artifact.volume is not None:
            return [file.path for file in entity.artifact.volume.files]
        case DataSource():
            return list(list_uploads(entity))
    return []


def _fields_of_files(kind: type[DyffEntity], files: Mapping[str, Path], fields: Fields) -> dict[str, Any]:
    """Return the fields of a create request that describe the files."""
    if kind is not Model:
        content: dict[str, Any] = {"artifacts": list_artifacts(files)}
        if kind is DataSource:
            return {"sourceKind": UPLOAD, **content}
        if kind is Dataset and fields.get("schema") is None:
            content["schema"] = {"arrowSchema": read_arrow_schema(files)}
        return content
    volume = list_volume(files)
    mebibytes = max(1, -(-sum(file.size for file in volume) // (1 << 20)))
    return {
        "artifact": {"kind": "Volume", "volume": {"files": volume}},
        "source": {"kind": "Upload"},
        "resources": {"storage": f"{mebibytes}Mi"},
    }


def _leaves(links: Sequence[ArtifactURL]) -> dict[str, ArtifactURL]:
    """Return links by path, without links to folders, which some servers list along with the files in them."""
    by_path = {link.artifact.path: link for link in links}
    # Object stores list "folders" as empty objects, which would take the name of the folder on disk.
    folders = {name[:end] for name in by_path for end, character in enumerate(name) if character == "/"}
    return {name: link for name, link in by_path.items() if name not in folders}
