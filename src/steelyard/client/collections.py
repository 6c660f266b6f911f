"""`client.datasets`, `client.evaluations` …: what can be done with the entities of one kind.

`async_collections.py` has the same methods, awaited. Neither decides anything: requests are described in `calls.py`,
what takes several of them in `flows.py`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

from steelyard.client.calls import Calls, Grants, Request
from steelyard.client.files import Paths, by_name
from steelyard.client.flows import Bringing, Evidence, Flows
from steelyard.client.pages import Pages
from steelyard.client.transfer import Progress, quiet
from steelyard.client.transport import Transport
from steelyard.schema.account import AccessGrant, Account, APIKey
from steelyard.schema.answers import (
    InferenceSessionAndToken,
    QuarantinedEntity,
    Status,
    WorkflowLogsResponse,
    WorkflowProgress,
)
from steelyard.schema.base import DocumentationBase, DyffEntity
from steelyard.schema.dataset import Dataset
from steelyard.schema.inference_session import InferenceSession

E = TypeVar("E", bound=DyffEntity)
WAIT_SECONDS = 3600.0


class Collection(Generic[E]):
    """Entities of one kind."""

    def __init__(self, calls: Calls[E], transport: Transport) -> None:
        self._calls, self._transport = calls, transport
        self._flows = Flows(calls, transport.sender.retries)

    def create(self, request: Request = None, *, idempotency_key: str | None = None, **fields: Any) -> E:
        """Make an entity of a create request of `steelyard.schema.requests`, or of its fields.

        With an `idempotency_key`, a repeat gives the same entity. Raises Invalid, which names the field.
        """
        return self._transport.send(self._calls.create(request, fields, idempotency_key))

    def get(self, id: str) -> E:
        """The entity. Raises NotFound."""
        return self._transport.send(self._calls.get(id))

    def query(self, **filters: Any) -> Iterator[E]:
        """Every entity that matches, page by page, oldest first unless `orderBy` and `order` say otherwise.

        Filters are the API's: `status="Ready"`, `name=…`, `labels={…}`, `dataset=<id>`; of a list, one has to match.
        `query={…}`, or a list of alternatives, holds more. `limit` is the most that come. Raises Invalid for a filter
        that the kind does not have.
        """
        pages = Pages(self._calls.path, self._calls.entity, filters, filters.pop("limit", None))
        while (call := pages.call()) is not None:
            yield from pages.take(self._transport.send(call))

    def delete(self, id: str) -> Status:
        """Delete it; what still runs of it is ended. `message` of the answer says what uses it."""
        return self._transport.send(self._calls.delete(id))

    def label(self, id: str, labels: Mapping[str, str | None]) -> None:
        """Set labels, and with None take them away; others stay."""
        self._transport.send(self._calls.label(id, labels))

    def documentation(self, id: str) -> DocumentationBase:
        """What a person reads about it."""
        return self._transport.send(self._calls.documentation(id))

    def edit_documentation(self, id: str, **patch: str | None) -> DocumentationBase:
        """Set `title` (at most 140 characters), `summary` (280), `fullPage`; None takes away, others stay."""
        return self._transport.send(self._calls.edit_documentation(id, patch))

    def terminate(self, id: str) -> Status:
        """End what runs of it."""
        return self._transport.send(self._calls.terminate(id))

    def wait(
        self, id: str, *, timeout: float = WAIT_SECONDS, on_change: Callable[[E], None] | None = None
    ) -> E:
        """The entity once it has ended well; a session once it is ready. `timeout` in seconds.

        `on_change` is called with the entity at first and whenever its status, reason or message has changed. A
        platform that is started again meanwhile is waited for. Raises WorkflowFailed, and WaitTimeout, which says
        what it waits for.
        """
        return self._transport.run(self._flows.wait(id, timeout, on_change))

    def download(self, id: str, folder: Path | str, *, progress: Progress = quiet) -> list[Path]:
        """Its files, into a folder. What is there already and is the same stays, so that a download that broke off is
        completed by another one. Raises TransferFailed, also where something else is in the way.
        """
        return self._transport.run(self._flows.download(id, Path(folder), progress))

    def download_evidence(self, id: str, folder: Path | str, *, progress: Progress = quiet) -> Evidence:
        """A report or an audit with everything that it was made from, laid out to be checked by
        `steelyard report verify` and `steelyard audit verify`. Raises TransferFailed.
        """
        return self._transport.run(self._flows.evidence(id, Path(folder), progress))

    def progress(self, id: str) -> WorkflowProgress:
        """How far its workflow is, or what it waits for and how far that is."""
        return self._transport.send(self._calls.progress(id))

    def logs(self, id: str, *, since: str | None = None, limit: int = 1000) -> WorkflowLogsResponse:
        """The newest lines that its Pods have written; `since` such as 1h, 30m or 2d."""
        return self._transport.send(self._calls.logs(id, since, limit))


class Uploaded(Collection[E]):
    """Kinds whose files a client brings."""

    def upload(
        self,
        id: str,
        files: Paths,
        *,
        progress: Progress = quiet,
        wait: bool = False,
        timeout: float = WAIT_SECONDS,
    ) -> E:
        """Bring the files that the entity names, from a folder or each by its name, and finalize it.

        With `wait`, until it is Ready. Raises BadFiles, TransferFailed.
        """
        return self._transport.run(self._flows.upload(id, files, Bringing(progress, wait, timeout)))

    def finalize(self, id: str) -> None:
        """Say that every file is there; from now on nothing of it changes."""
        self._transport.send(self._calls.finalize(id))

    def create_from_folder(
        self,
        folder: Paths,
        *,
        account: str,
        name: str,
        progress: Progress = quiet,
        wait: bool = False,
        idempotency_key: str | None = None,
        **fields: Any,
    ) -> E:
        """An entity of a folder's files, uploaded; what begins with a dot is left out.

        Of a dataset, the Parquet files, whose schema is read from them unless `schema` is given (this needs pyarrow);
        of a model, `resources` is by default the storage that its files take. With `wait`, until it is Ready; with an
        `idempotency_key`, a repeat finishes what was begun. Raises BadFiles, TransferFailed.
        """
        asked = {**fields, "account": account, "name": name}
        return self._transport.run(
            self._flows.from_files(folder, asked, idempotency_key, Bringing(progress, wait))
        )


class Datasets(Uploaded[Dataset]):
    """Rows that never change once they are Ready."""

    def create_from_parquet(self, *files: Path | str, account: str, name: str, **more: Any) -> Dataset:
        """A dataset of Parquet files, under their own names. `more` is as of `create_from_folder`."""
        return self.create_from_folder(by_name(files), account=account, name=name, **more)


class InferenceSessions(Collection[InferenceSession]):
    """Replicas that run for a while."""

    def create(  # type: ignore[override]  # a session comes with its token
        self, request: Request = None, *, idempotency_key: str | None = None, **fields: Any
    ) -> InferenceSessionAndToken:
        """Start a session; its token is good for it alone."""
        return self._transport.run(self._flows.session(request, fields, idempotency_key))

    def ready(self, id: str) -> bool:
        """Whether a replica answers."""
        return self._transport.run(self._flows.ready(id))

    def token(self, id: str, *, expires: datetime | None = None) -> str:
        """Another token of the session; by default it ends with the session."""
        return self._transport.send(self._calls.session_token(id, expires))

    def infer(self, id: str, endpoint: str, body: Any, *, token: str | None = None) -> Any:
        """What a replica answers to a JSON body at its `endpoint`.

        Without a `token`, the client uses the one that came with the session, or asks for one. The body goes out as
        it is: pipelines of the service's interface are not applied.
        """
        return self._transport.run(self._flows.infer(id, endpoint, body, token))


class Accounts:
    """Who owns entities, and who may do what."""

    def __init__(self, calls: Calls[Account], transport: Transport) -> None:
        self._calls, self._transport = calls, transport

    def create(self, name: str, *, idempotency_key: str | None = None) -> Account:
        """An account; its name is its own. Raises Conflict where another has it.

        With an `idempotency_key`, a repeat gives the same account.
        """
        return self._transport.send(self._calls.create_account({"name": name}, idempotency_key))

    def get(self, id: str) -> Account:
        """The account. Raises NotFound."""
        return self._transport.send(self._calls.get(id))

    def query(self, **filters: Any) -> Iterator[Account]:
        """All accounts that the token may see; `name` names one."""
        yield from self._transport.send(self._calls.all(filters))

    def delete(self, id: str) -> Status:
        """Delete it and end its keys; what it owns stays."""
        return self._transport.send(self._calls.delete(id))

    def suspend(self, id: str) -> Status:
        """Let none of its keys count until it is reactivated; what it owns stays and goes on."""
        return self._transport.send(self._calls.suspend(id))

    def reactivate(self, id: str) -> Status:
        """Let its keys count again."""
        return self._transport.send(self._calls.reactivate(id))

    def rotate_signing_key(self) -> str:
        """Sign tokens with a new key from now on, whose id is returned; earlier tokens stay good until they expire."""
        return self._transport.send(self._calls.rotate_signing_key())

    def permissions(self, id: str) -> list[AccessGrant]:
        """What keys of the account may be given at most."""
        return self._transport.send(self._calls.permissions(id))

    def set_permissions(self, id: str, permissions: Grants) -> list[AccessGrant]:
        """Replace them."""
        return self._transport.send(self._calls.set_permissions(id, permissions))

    def create_token(self, id: str, *, grants: Grants, expires: datetime) -> str:
        """A token, shown this once. Raises Forbidden for more than the account may."""
        return self._transport.send(self._calls.create_token(id, grants, expires))

    def tokens(self, id: str) -> list[APIKey]:
        """Its keys."""
        return self._transport.send(self._calls.tokens(id))

    def revoke(self, id: str, key: str | None = None) -> None:
        """End one key, or all."""
        self._transport.send(self._calls.revoke(id, key))


class Quarantine:
    """Entities in quarantine, since a consumer could not take a message about them; for administrators."""

    def __init__(self, calls: Calls[QuarantinedEntity], transport: Transport) -> None:
        self._calls, self._transport = calls, transport

    def list(self) -> list[QuarantinedEntity]:
        """All entities in quarantine, the longest first."""
        return self._transport.send(self._calls.quarantined())

    def get(self, id: str, consumer: str | None = None) -> Sequence[QuarantinedEntity]:
        """Quarantines of one entity, by consumer, with the messages that wait. Raises NotFound."""
        return self._transport.send(self._calls.quarantined_entity(id, consumer))

    def release(self, id: str, consumer: str | None = None) -> Status:
        """Try the failed message once more, then those that wait behind it. Raises NotFound."""
        return self._transport.send(self._calls.end_quarantine(id, "release", consumer))

    def drop(self, id: str, consumer: str | None = None) -> Status:
        """Leave out the failed message, and go on with those that wait behind it. Raises NotFound."""
        return self._transport.send(self._calls.end_quarantine(id, "drop", consumer))
