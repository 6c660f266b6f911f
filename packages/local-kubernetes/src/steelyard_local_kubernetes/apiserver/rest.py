"""The REST interface of objects: one request on one kind, chosen by method and path, done on `Objects`.

`core.py` calls it with a path that it has parsed.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import orjson

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver import errors
from steelyard_local_kubernetes.apiserver.answers import AnswersPending, Question
from steelyard_local_kubernetes.apiserver.bodies import read_object
from steelyard_local_kubernetes.apiserver.deletions import deletion_options
from steelyard_local_kubernetes.apiserver.errors import Refusal
from steelyard_local_kubernetes.apiserver.item import Item
from steelyard_local_kubernetes.apiserver.kinds import ResourceType, find_field
from steelyard_local_kubernetes.apiserver.listing import list_response
from steelyard_local_kubernetes.apiserver.managed.apply import APPLY, apply_config, read_config
from steelyard_local_kubernetes.apiserver.managed.tracking import make_write
from steelyard_local_kubernetes.apiserver.messages import Request, Response
from steelyard_local_kubernetes.apiserver.object_decoding import decode
from steelyard_local_kubernetes.apiserver.objects import Objects
from steelyard_local_kubernetes.apiserver.options import Deletion, Options
from steelyard_local_kubernetes.apiserver.parameters import (
    check_version,
    content_type,
    integer,
    json_value,
    patch_options,
    watch_options,
    write_options,
)
from steelyard_local_kubernetes.apiserver.patch_refusals import is_undecodable, patch_refusal
from steelyard_local_kubernetes.apiserver.patching import STRATEGIC, make_patch
from steelyard_local_kubernetes.apiserver.rendering import render_list, renderer
from steelyard_local_kubernetes.apiserver.selection import selection
from steelyard_local_kubernetes.apiserver.watch import Watch


@dataclass(frozen=True)
class Target:
    """Object or collection that a path names."""

    kind: ResourceType
    namespace: str | None  # None for all, or for what has none
    name: str = ""
    subresource: str = ""

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace or "", self.name


@dataclass
class Rest:
    objects: Objects
    monotonic: Callable[[], float] = time.monotonic

    def handle(self, request: Request, target: Target) -> Response:
        """Handle all requests but those of `core.py`; the answer is sent once the store has settled."""
        match request.method, bool(target.name):
            case "GET", True if not target.subresource or target.subresource == "status":
                check_version(request.query.get("resourceVersion", ""), self.objects.store.version)
                item = self.objects.item(target.kind, target.key)
                render = renderer(target.kind, request)
                return Response(render.one(item))
            case "GET", False:
                if request.flag("watch"):
                    return self._watch(request, target)
                return list_response(self.objects.store, target.kind, target.namespace, request)
            case "POST", False:
                return self._create(request, target)
            case "PUT", True:
                return self._put(request, target)
            case "PATCH", True:
                return self._patch(request, target)
            case "DELETE", True if not target.subresource:
                return self._delete(request, target)
            case "DELETE", False:
                return self._delete_collection(request, target)
        raise errors.method_not_allowed()

    # ---- reading

    def _watch(self, request: Request, target: Target) -> Response:
        kind = target.kind
        labels, fields = request.query.get("labelSelector", ""), request.query.get("fieldSelector", "")
        selects = selection(kind, labels, fields, target.namespace)
        options = watch_options(request, self.objects.store.version)
        render = renderer(kind, request).event
        watch = Watch(self.objects.store, kind, selects, render, options, self.monotonic)
        return Response(watch.stream())

    # ---- writing

    def _create(self, request: Request, target: Target) -> Response:
        # The collection over all namespaces can be read only: the request does not say where the object is to go.
        if target.kind.namespaced and target.namespace is None:
            raise errors.method_not_allowed()
        options = self._options(request, target, write_options(request, "CreateOptions"))
        obj = read_object(request, target.kind, options)
        raw = self.objects.create(
            target.kind.storage_version, target.namespace or "", self._in(target, obj, options), options
        )
        return self._write_response(request, target, raw, options, 201)

    def _put(self, request: Request, target: Target) -> Response:
        options = self._options(request, target, write_options(request, "UpdateOptions"))
        obj = read_object(request, target.kind, options)
        self._check_url(target, obj)
        item = self.objects.item(target.kind, target.key)
        raw = self.objects.update(
            target.kind.storage_version, item, self._in(target, obj, options), options, target.subresource
        )
        return self._write_response(request, target, raw, options)

    def _patch(self, request: Request, target: Target) -> Response:
        if content_type(request) == APPLY:
            return self._apply(request, target)
        options = self._options(request, target, patch_options(request))
        patch = make_patch(request, target.kind, options)
        item = self.objects.item(target.kind, target.key)
        new = _patch_served(target.kind, item, patch)
        self._check_url(target, new)
        _check_uid(target.kind, item, new)
        try:
            raw = self.objects.update(
                target.kind.storage_version, item, self._in(target, new, options), options, target.subresource
            )
        except Refusal as refusal:
            if not is_undecodable(refusal):
                raise
            # Made again for the message: an update changes its argument.
            sent_patch = json_value(request.body) if content_type(request) == STRATEGIC else None
            again = make_patch(request, target.kind, Options(validation="Ignore"))
            raise patch_refusal(
                refusal, _patch_served(target.kind, item, again), strategic=sent_patch
            ) from refusal
        return self._write_response(request, target, raw, options)

    def _apply(self, request: Request, target: Target) -> Response:
        """Server-side apply, which creates missing objects."""
        kind = target.kind
        options = self._options(request, target, patch_options(request, apply=True))
        config = read_config(request, options)
        stored = self.objects.store.get(kind.bucket, target.key)
        if stored is None and target.subresource:
            raise errors.not_found(kind.group, kind.plural, target.name)
        write = make_write(kind, kind.api_version, target.subresource, self.objects.clock.stamp())
        live = stored.parse() if stored else {}
        if kind.convert_out and live:
            live = kind.convert_out(live)
        obj = apply_config(kind, write, live, config, options, force=request.flag("force"))
        options.applied = True
        if stored is None:
            options.kind = "CreateOptions"
            self._check_new(target, obj)
            raw = self.objects.create(
                kind.storage_version, target.namespace or "", self._in(target, obj, options), options
            )
            return self._write_response(request, target, raw, options, 201)
        self._check_url(target, obj)
        _check_uid(kind, stored, obj)
        raw = self.objects.update(
            kind.storage_version, stored, self._in(target, obj, options), options, target.subresource
        )
        return self._write_response(request, target, raw, options)

    def _check_new(self, target: Target, obj: Json) -> None:
        """An object that is created by its name in the URL has that name, and no uid yet."""
        if isinstance(obj.get("metadata"), dict):
            obj["metadata"] = {
                name: obj["metadata"][name] for name in obj["metadata"] if name != "resourceVersion"
            }
        if uid := find_field(obj, "metadata", "uid"):
            text = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            raise errors.conflict(target.kind.group, target.kind.plural, target.name, text)
        self._check_url(target, obj)

    def _options(self, request: Request, target: Target, options: Options) -> Options:
        options.requested = target.kind
        if target.kind.stored_as:
            options.api_version = target.kind.api_version
        return options

    def _check_url(self, target: Target, obj: Json) -> None:
        metadata = obj.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        if not isinstance(metadata, dict) or not name:
            text = f"the name of the object ({target.name} based on URL) was undeterminable"
            raise errors.bad_request(f"{text}: name must be provided")
        if name != target.name:
            text = f"the name of the object ({name}) does not match the name on the URL ({target.name})"
            raise errors.bad_request(text)
        if target.namespace and metadata.get("namespace", target.namespace) != target.namespace:
            text = "the namespace of the provided object does not match the namespace sent on the request"
            raise errors.bad_request(text)

    def _in(self, target: Target, obj: Json, options: Options) -> Json:
        """Return the object as it is stored, where another form is served."""
        if target.kind.convert_in is None:
            return obj
        if not target.kind.custom:
            # Its faults are those of the form in which it came.
            decode(target.kind, obj, options)
        return target.kind.convert_in(obj)

    def _write_response(
        self, request: Request, target: Target, raw: bytes, options: Options, status: int = 200
    ) -> Response:
        return Response(renderer(target.kind, request).raw(raw), status, warnings=options.warnings)

    # ---- deleting

    def _delete(self, request: Request, target: Target) -> Response:
        deletion, options = deletion_options(request)
        self._options(request, target, options)
        item = self.objects.item(target.kind, target.key)
        raw, gone = self._delete_item(target.kind.storage_version, item, deletion, options)
        if gone and not target.kind.returned:
            return Response(_success(target.kind, item), warnings=options.warnings)
        # A deletion that takes its dependents along and is not done yet is accepted.
        return self._write_response(request, target, raw, options, 202 if deletion.cascades else 200)

    def _delete_item(
        self, kind: ResourceType, item: Item, deletion: Deletion, options: Options
    ) -> tuple[bytes, bool]:
        if kind.bucket == "jobs.batch" and not deletion.propagation:
            options.warnings.append(_ORPHANS)
        return self.objects.delete(kind, item, deletion, options)

    def _delete_collection(self, request: Request, target: Target) -> Response:
        kind = target.kind
        # Kubernetes has neither: one request would empty the whole server.
        if kind.bucket == "namespaces" or (kind.namespaced and target.namespace is None):
            raise errors.method_not_allowed()
        deletion, options = deletion_options(request)
        self._options(request, target, options)
        options.collection = True
        labels, fields = request.query.get("labelSelector", ""), request.query.get("fieldSelector", "")
        selects = selection(kind, labels, fields)
        limit = integer(request, "limit")
        items = [
            item for item in self.objects.store.bucket(kind.bucket).items(target.namespace) if selects(item)
        ]
        admitted, refusal = self._admit_deletions(kind.storage_version, items[: limit or None], options)
        for item in admitted:
            self._delete_item(kind.storage_version, item, deletion, options)
        if refusal is not None:
            raise refusal
        # As a list of them would have been before: nothing says what became of each.
        metadata: Json = {"resourceVersion": str(self.objects.store.version)}
        return Response(render_list(kind, admitted, metadata), warnings=options.warnings)

    def _admit_deletions(
        self, kind: ResourceType, items: list[Item], options: Options
    ) -> tuple[list[Item], Refusal | None]:
        """Return the items before the first one that may not be deleted, and why that one may not.

        Before the first deletion: an attempt that lacks an answer must not have written anything.
        """
        questions: list[Question] = []
        for index, item in enumerate(items):
            try:
                self.objects.admission.admit_delete(kind, item, options)
            except Refusal as refusal:
                if not questions:
                    return items[:index], refusal
            except AnswersPending as pending:
                questions += pending.questions
            if len(questions) >= _AT_ONCE:
                break
        if questions:
            raise AnswersPending(questions)
        return items, None


def _patch_served(kind: ResourceType, item: Item, patch: Callable[[Json], Json]) -> Json:
    """The patched object in the version that the client knows: a JSON patch may test `apiVersion`."""
    stored = item.parse()
    return patch(kind.convert_out(stored) if kind.convert_out else stored)


_AT_ONCE = 64  # questions about one collection
_ORPHANS = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)


def _success(kind: ResourceType, item: Item) -> bytes:
    details: Json = {"name": item.name, "kind": kind.plural, "uid": item.uid}
    if kind.group:
        details["group"] = kind.group
    content: Json = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    }
    return orjson.dumps(content)


def _check_uid(kind: ResourceType, item: Item, new: Json) -> None:
    """Refuse another uid in a patch or an apply; in a replacement it is a conflict."""
    metadata = new.get("metadata")
    uid = metadata.get("uid") if isinstance(metadata, dict) else None
    if uid not in (None, "", item.uid):
        cause = errors.invalid("metadata.uid", uid, "field is immutable")
        # A real server checks twice.
        raise errors.is_invalid(kind.group, kind.kind, item.name, [cause, cause])
