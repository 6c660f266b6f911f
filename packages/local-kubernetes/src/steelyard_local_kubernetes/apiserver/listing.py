"""Lists: a snapshot of one kind, selected, in pages, as bytes joined without parsing."""

import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass

import orjson

from steelyard_common.types import Json
from steelyard_kube.selectors import parse_labels
from steelyard_local_kubernetes.apiserver import errors
from steelyard_local_kubernetes.apiserver.item import Item
from steelyard_local_kubernetes.apiserver.kinds import ResourceType
from steelyard_local_kubernetes.apiserver.messages import Request, Response
from steelyard_local_kubernetes.apiserver.parameters import check_list_options, check_version, integer
from steelyard_local_kubernetes.apiserver.rendering import renderer
from steelyard_local_kubernetes.apiserver.ring import VersionForgotten
from steelyard_local_kubernetes.apiserver.selection import everything, selection
from steelyard_local_kubernetes.apiserver.store import Store

_VERSION = "meta.k8s.io/v1"


@dataclass(frozen=True)
class Page:
    """Position at which a list continues: after this object, in the state of this version."""

    version: int
    after: str

    def token(self) -> str:
        # The form of real servers, so that clients which read it find what they know.
        content = {"v": _VERSION, "rv": self.version, "start": f"{self.after}\0"}
        return base64.urlsafe_b64encode(orjson.dumps(content)).decode().rstrip("=")


def _page(token: str) -> Page:
    try:
        content = orjson.loads(_decode(token))
        form, version, start = content.get("v"), content.get("rv", 0), str(content.get("start", ""))
        if form != _VERSION:
            raise ValueError(f"server does not recognize this encoded version {form}")
        if not isinstance(version, int) or version <= 0:
            raise ValueError(f"incorrect encoded start resourceVersion (version {_VERSION})")
        if not start:
            raise ValueError(f"encoded start key empty (version {_VERSION})")
        return Page(version, start.rstrip("\0"))
    except (ValueError, TypeError, AttributeError) as error:
        raise errors.bad_request(f"invalid continue token: continue key is not valid: {error}") from error


def _decode(token: str) -> bytes:
    if token.strip(_DIGITS):
        at = next(index for index, character in enumerate(token) if character not in _DIGITS)
        raise ValueError(f"illegal base64 data at input byte {at}")
    try:
        # The token came in a query, where the padding of base64 would have to be escaped: it is left out.
        return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except binascii.Error as error:
        raise ValueError(f"illegal base64 data at input byte {len(token) // 4 * 4}") from error


def list_response(store: Store, kind: ResourceType, namespace: str | None, request: Request) -> Response:
    version, match = request.query.get("resourceVersion", ""), request.query.get("resourceVersionMatch", "")
    check_list_options(request)
    token = request.query.get("continue", "")
    check_version(version, store.version)
    if token and version not in ("", "0"):
        raise errors.bad_request("specifying resource version is not allowed when using continue")
    page, limit = _page(token) if token else None, integer(request, "limit", negative=True)
    labels, fields = request.query.get("labelSelector", ""), request.query.get("fieldSelector", "")
    selects = selection(kind, labels, fields)
    moment = store.version
    if page:
        moment = page.version
    # A page of a version is that version's, also if the client does not say so.
    elif match == "Exact" or (limit > 0 and not match and version not in ("", "0")):
        moment = int(version)
    items = _items_by_label(store, kind, namespace, labels) if not page and moment >= store.version else None
    if items is None:
        items = _snapshot(store, kind, namespace, moment, token)
    if page:
        items = (item for item in items if _key(item, namespace) > page.after)
    chosen = [item for item in items if selects(item)]
    metadata: Json = {"resourceVersion": str(moment)}
    if 0 < limit < len(chosen):
        metadata["continue"] = Page(moment, _key(chosen[limit - 1], namespace)).token()
        # A real server knows how many keys are left, but not how many of them would be selected.
        if selects is everything:
            metadata["remainingItemCount"] = len(chosen) - limit
        chosen = chosen[:limit]
    return Response(renderer(kind, request).many(chosen, metadata))


def _items_by_label(
    store: Store, kind: ResourceType, namespace: str | None, labels: str
) -> Iterable[Item] | None:
    """Return the objects that a label's value chooses, where the selector names one; None for all objects."""
    for requirement in parse_labels(labels) if labels else ():
        if requirement.operator in ("=", "==", "in"):
            return store.bucket(kind.bucket).find_by_label(requirement.key, requirement.values, namespace)
    return None


def _snapshot(
    store: Store, kind: ResourceType, namespace: str | None, version: int, token: str
) -> Iterable[Item]:
    """Return the objects as they were at this version; refused where changes since then are forgotten."""
    try:
        return store.items_at(kind.bucket, namespace, version)
    except VersionForgotten as error:
        if token:
            text = "The provided continue parameter is too old to display a consistent list result. You must "
            raise errors.resource_expired(
                f"{text}start a new list without the continue parameter."
            ) from error
        text = f"The resourceVersion for the provided list is too old: {version} ({store.version})"
        raise errors.resource_expired(text) from error


def _key(item: Item, namespace: str | None) -> str:
    return item.name if namespace is not None or not item.namespace else f"{item.namespace}/{item.name}"


_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
