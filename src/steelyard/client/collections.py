"""`client.datasets`, `client.evaluations` …: what can be done with the entities of one kind."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from steelyard.client import files
from steelyard.client.calls import PAGE, Calls, cursor
from steelyard.client.errors import NotFound, TransferFailed, Unavailable
from steelyard.client.files import Progress, quiet
from steelyard.client.transport import Transport
from steelyard.client.waiting import Waiting
from steelyard.schema.account import AccessGrant, Account, APIKey
from steelyard.schema.answers import InferenceSessionAndToken, Status, WorkflowLogsResponse
from steelyard.schema.base import DocumentationBase, DyffEntity
from steelyard.schema.dataset import Dataset
from steelyard.schema.inference_session import InferenceSession
from steelyard.schema.model import Model
from steelyard.schema.module import Module

E = TypeVar("E", bound=DyffEntity)
A = TypeVar("A", bound=DyffEntity | Account)
Request = BaseModel | Mapping[str, Any] | None
WAIT_SECONDS = 3600.0


class Queried(Generic[A]):
    """What every collection has."""

    def __init__(self, calls: Calls[A], transport: Transport) -> None:
        self._calls, self._transport = calls, transport

    def get(self, id: str) -> A:
        """The entity. Raises NotFound."""
        return self._transport.send(self._calls.get(id))

    def query(self, **filters: Any) -> Iterator[A]:
        """Every entity that matches, page by page, oldest first unless `orderBy` and `order` say otherwise.

        Filters are the API's: `status="Ready"`, `name=…`, `labels={…}`, `dataset=<id>`, `query={"status": [...]}`.
        `limit` is the most that come. Raises Invalid for a filter that the kind does not have.
        """
        left: int | None = filters.pop("limit", None)
        order_by = filters.setdefault("orderBy", "creationTime")
        last = None
        while left is None or left > 0:
            size = PAGE if left is None else min(left, PAGE)
            page = self._transport.send(self._calls.page(filters, last, size))
            yield from page
            left = None if left is None else left - len(page)
            last = cursor(page[-1], order_by) if page else None
            if len(page) < size or last is None:
                return


class Collection(Queried[E]):
    """Entities of one kind."""

    def create(self, request: Request = None, *, idempotency_key: str | None = None, **fields: Any) -> E:
        """Make an entity of a create request of `steelyard.schema.requests`, or of its fields.

        With an `idempotency_key`, a repeat gives the same entity. Raises Invalid, which names the field.
        """
        return self._transport.send(self._calls.create(request, fields, idempotency_key))

    def delete(self, id: str) -> Status:
        """Delete it; what still runs of it is ended."""
        return self._transport.send(self._calls.delete(id))

    def label(self, id: str, labels: Mapping[str, str | None]) -> None:
        """Set labels, and with None take them away."""
        self._transport.send(self._calls.label(id, labels))

    def documentation(self, id: str) -> DocumentationBase:
        """What a person reads about it."""
        return self._transport.send(self._calls.documentation(id))

    def edit_documentation(self, id: str, **patch: str | None) -> DocumentationBase:
        """Set `title` (at most 140 characters), `summary` (280), `fullPage`; None takes away."""
        return self._transport.send(self._calls.edit_documentation(id, patch))

    def terminate(self, id: str) -> Status:
        """End what runs of it."""
        return self._transport.send(self._calls.terminate(id))

    def wait(
        self, id: str, *, timeout: float = WAIT_SECONDS, on_change: Callable[[E], None] | None = None
    ) -> E:
        """The entity once it has ended well; a session once it is ready. `timeout` in seconds.

        `on_change` is called with each new status. Raises WorkflowFailed, WaitTimeout.
        """
        waiting = Waiting[E](time.monotonic() + timeout, on_change)
        while True:
            entity = self.get(id)
            pause = waiting.look(entity, time.monotonic())
            if pause is None:
                return entity
            time.sleep(pause)

    def download(self, id: str, folder: Path | str, *, progress: Progress = quiet) -> list[Path]:
        """Its files, into a folder that is not there yet. Raises TransferFailed."""
        links = self._transport.send(self._calls.downlinks(id))
        return files.fetch_all(self._transport.http, links, Path(folder), progress)

    def logs(self, id: str, *, since: str | None = None, limit: int = 1000) -> WorkflowLogsResponse:
        """The newest lines that its Pods have written; `since` such as 1h, 30m or 2d."""
        return self._transport.send(self._calls.logs(id, since, limit))


class Uploaded(Collection[E]):
    """Kinds whose files a client brings."""

    def upload(self, id: str, folder: Path | str, *, progress: Progress = quiet) -> E:
        """Bring the files that the entity names, finalise it, and return it. Raises TransferFailed."""
        root = Path(folder)
        for name in self._names(self.get(id)):
            path = root / name
            if not path.is_file():
                raise TransferFailed(f"{path}: there is no such file, and entity {id} names it")
            link = self._transport.send(self._calls.uplink(id, name))
            files.put(self._transport.http, link, path, name, progress)
        self.finalize(id)
        return self.get(id)

    def finalize(self, id: str) -> None:
        """Say that every file is there; from now on nothing of it changes."""
        self._transport.send(self._calls.finalize(id))

    def _names(self, entity: E) -> Iterable[str]:
        match entity:
            case Dataset() | Module():
                return [each.path for each in entity.artifacts]
            case Model() if entity.artifact.volume is not None:
                return [each.path for each in entity.artifact.volume.files]
        return []


class Datasets(Uploaded[Dataset]):
    """Rows that never change once they are Ready."""

    def create_from_folder(
        self, folder: Path | str, *, account: str, name: str, progress: Progress = quiet, **fields: Any
    ) -> Dataset:
        """A dataset of the folder's Parquet files, uploaded. Its schema is read from them unless `schema` is given."""
        root = Path(folder)
        schema = fields.pop("schema", None) or {"arrowSchema": files.arrow_schema_of(root)}
        artifacts = [each.dump() for each in files.artifacts_of(root)]
        made = self.create(account=account, name=name, artifacts=artifacts, schema=schema, **fields)
        return self.upload(made.id, root, progress=progress)


class Modules(Uploaded[Module]):
    """Files of code."""

    def create_from_folder(
        self, folder: Path | str, *, account: str, name: str, progress: Progress = quiet, **fields: Any
    ) -> Module:
        """A module of the folder's files, uploaded."""
        artifacts = [each.dump() for each in files.artifacts_of(Path(folder))]
        made = self.create(account=account, name=name, artifacts=artifacts, **fields)
        return self.upload(made.id, folder, progress=progress)


class Models(Uploaded[Model]):
    """Files of models."""

    def create_from_folder(
        self, folder: Path | str, *, account: str, name: str, progress: Progress = quiet, **fields: Any
    ) -> Model:
        """A model of the folder's files, uploaded. `resources` is by default the storage that they take."""
        volume = files.volume_of(Path(folder))
        size = max(1, -(-sum(each.size for each in volume) // (1 << 20)))
        made = self.create(
            account=account,
            name=name,
            artifact={"kind": "Volume", "volume": {"files": [each.dump() for each in volume]}},
            source={"kind": "Upload"},
            **{"resources": {"storage": f"{size}Mi"}, **fields},
        )
        return self.upload(made.id, folder, progress=progress)


class InferenceSessions(Collection[InferenceSession]):
    """Replicas that run for a while."""

    def create(  # type: ignore[override]  # a session comes with its token
        self, request: Request = None, *, idempotency_key: str | None = None, **fields: Any
    ) -> InferenceSessionAndToken:
        """Start a session; its token is good for it alone."""
        return self._transport.send(self._calls.create_session(request, fields, idempotency_key))

    def ready(self, id: str) -> bool:
        """Whether a replica answers."""
        try:
            answer = self._transport.send(self._calls.ready(id))
        except (NotFound, Unavailable):
            return False
        return not (isinstance(answer, dict) and answer.get("ready") is False)

    def token(self, id: str, *, expires: datetime | None = None) -> str:
        """Another token of the session; by default it ends with the session."""
        return self._transport.send(self._calls.session_token(id, expires.isoformat() if expires else None))

    def infer(self, id: str, endpoint: str, body: Any, *, token: str) -> Any:
        """What a replica answers to a JSON body at its `endpoint`."""
        return self._transport.send(self._calls.infer(id, endpoint, body, token))


class Accounts(Queried[Account]):
    """Who owns entities, and who may do what."""

    def create(self, name: str) -> Account:
        """An account; its name is its own."""
        return self._transport.send(self._calls.create(None, {"name": name}, None))

    def permissions(self, id: str) -> list[AccessGrant]:
        """What keys of the account may be given at most."""
        return self._transport.send(self._calls.permissions(id))

    def set_permissions(
        self, id: str, permissions: Sequence[AccessGrant | Mapping[str, Any]]
    ) -> list[AccessGrant]:
        """Replace them."""
        return self._transport.send(self._calls.set_permissions(id, list(permissions)))

    def create_token(
        self, id: str, *, grants: Sequence[AccessGrant | Mapping[str, Any]], expires: datetime
    ) -> str:
        """A token, shown this once. Raises Forbidden for more than the account may."""
        return self._transport.send(self._calls.create_token(id, list(grants), expires.isoformat()))

    def tokens(self, id: str) -> list[APIKey]:
        """Its keys."""
        return self._transport.send(self._calls.tokens(id))

    def revoke(self, id: str, key: str | None = None) -> None:
        """End one key, or all."""
        self._transport.send(self._calls.revoke(id, key))

    def query(self, **filters: Any) -> Iterator[Account]:
        """All accounts that the token may see; `name` names one."""
        params = {name: value for name, value in filters.items() if value is not None}
        yield from self._transport.send(self._calls.listed(params))
