"""Lists: a snapshot of one kind, selected, in pages, as bytes joined without parsing."""

import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass

import orjson

from steelyard.local.apiserver import errors
from steelyard.local.apiserver.item import Item, Key
from steelyard.local.apiserver.kinds import ResourceType
from steelyard.local.apiserver.messages import Request, Response
from steelyard.local.apiserver.parameters import check_version, integer, list_options
from steelyard.local.apiserver.rendering import renderer
from steelyard.local.apiserver.selection import selection
from steelyard.local.apiserver.store import Store
from steelyard.types import Json


@dataclass(frozen=True)
class Page:
    """Position at which a list continues: after this object, in the state of (at least) this version."""

    version: int
    after: Key

    def token(self) -> str:
        return base64.urlsafe_b64encode(orjson.dumps([self.version, *self.after])).decode().rstrip("=")


def _page(token: str) -> Page:
    try:
        # The token came in a query, where the padding of base64 would have to be escaped: it is left out.
        version, namespace, name = orjson.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        return Page(int(version), (str(namespace), str(name)))
    except (ValueError, TypeError, binascii.Error) as error:
        raise errors.bad_request(f"invalid continue token: continue key is not valid: {error}") from error


def list_response(store: Store, kind: ResourceType, namespace: str | None, request: Request) -> Response:
    page = _page(token) if (token := request.query.get("continue", "")) else None
    _check_version(store, request, page)
    selects = selection(kind, request.query.get("labelSelector", ""), request.query.get("fieldSelector", ""))
    items: Iterable[Item] = store.bucket(kind.bucket).items(namespace)
    if page:
        # A watch from this list's version could not be served any more, so the list is not finished either.
        if page.version < store.bucket(kind.bucket).ring.floor:
            raise errors.expired(
                "The provided continue parameter is too old to display a consistent list result. You must start a "
                "new list without the continue parameter."
            )
        # By key and not by number: what was created or removed since shifts
        # nothing, and no object is skipped or shown twice.
        items = (item for item in items if item.key > page.after)
    chosen = [item for item in items if selects(item)]
    limit = integer(request, "limit")
    # Of every page that of the first: whoever watches from it misses nothing that came between two pages.
    version = page.version if page else store.version
    metadata: Json = {"resourceVersion": str(version)}
    if limit and len(chosen) > limit:
        metadata["continue"] = Page(version, chosen[limit - 1].key).token()
        metadata["remainingItemCount"] = len(chosen) - limit
        chosen = chosen[:limit]
    return Response(renderer(kind, request).many(chosen, metadata))


def _check_version(store: Store, request: Request, page: Page | None) -> None:
    version, match = request.query.get("resourceVersion", ""), request.query.get("resourceVersionMatch", "")
    check_version(version, store.version)
    if not match:
        return
    if not version:
        raise list_options(
            "resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided"
        )
    if page:
        raise list_options(
            "resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided"
        )
    if match == "Exact" and int(version) != store.version:
        raise errors.expired(
            f"The resourceVersion for the provided list is too old: {version} ({store.version})"
        )
