"""Creating, changing and deleting objects: what a write does before and after its rules. The heart of the server.

Used by the REST handlers (`rest.py`), by garbage collection and by namespaces; every method runs without an await,
so that what it reads is still so when it writes.
"""

import contextlib
import copy
from datetime import timedelta
from typing import Any

import orjson

from steelyard_common.types import Json, copy_value
from steelyard_kube.objects import read_annotations, read_spec, read_status
from steelyard_kube.times import format_time
from steelyard_local_kubernetes.apiserver import errors
from steelyard_local_kubernetes.apiserver.admission.admission import Admission
from steelyard_local_kubernetes.apiserver.clock import Clock
from steelyard_local_kubernetes.apiserver.decoding import Undecodable, decode_fields
from steelyard_local_kubernetes.apiserver.deletion_rules import grace_seconds, is_held, set_propagation
from steelyard_local_kubernetes.apiserver.errors import Cause, Refusal
from steelyard_local_kubernetes.apiserver.item import Item, Key
from steelyard_local_kubernetes.apiserver.kinds import ResourceType, find_field
from steelyard_local_kubernetes.apiserver.managed.tracking import after_update, make_write, without_times
from steelyard_local_kubernetes.apiserver.names import metadata_causes, update_causes
from steelyard_local_kubernetes.apiserver.object_decoding import decode
from steelyard_local_kubernetes.apiserver.options import Deletion, Options
from steelyard_local_kubernetes.apiserver.schema import fill_defaults
from steelyard_local_kubernetes.apiserver.store import Store

SIGNING_REQUESTS = "certificatesigningrequests.certificates.k8s.io"
DEPLOYMENTS = "deployments.apps"
_WHO = ("username", "uid", "groups", "extra")
GENERATE_TRIES = 8
MAX_BYTES = 3 << 20  # of an object; patches could make it grow without end
NAMESPACE_BYTES, POD_BYTES = 512 << 20, 128 << 20
"""Most bytes of all objects of a namespace, and of its Pods: they are in memory, several times where controllers watch
them. What an owner, a name that is made up or many owners multiply ends here, whoever makes it.
"""
_PODS = "pods"
_FIRST = ("apiVersion", "kind", "metadata")  # as people expect to read an object
_SERVER_SET = [
    "name", "namespace", "uid", "resourceVersion", "creationTimestamp", "generation", "deletionTimestamp",
    "deletionGracePeriodSeconds", "generateName",
]  # fmt: skip


class Objects:
    """Writes of objects of any kind."""

    def __init__(self, store: Store, clock: Clock, admission: Admission) -> None:
        self.store, self.clock, self.admission = store, clock, admission

    def item(self, kind: ResourceType, key: Key) -> Item:
        stored = self.store.get(kind.bucket, key)
        if stored is None:
            raise errors.not_found(kind.group, kind.plural, key[1])
        return stored

    # ---- create

    def create(self, kind: ResourceType, namespace: str, obj: Json, options: Options) -> bytes:
        """Raw JSON of the new object."""
        decode(kind, obj, options)
        metadata = obj["metadata"]
        managers = metadata.pop("managedFields", None)
        version = str(metadata.get("resourceVersion") or "")
        # What is no number is no version, and no object can have it.
        if is_version(version) and int(version):
            raise Refusal(500, "", "resourceVersion should not be set on objects to be created")
        _set_namespace(kind, namespace, metadata)
        self.admission.check_place(kind, obj)
        if kind.has_status and kind.bucket != "nodes":
            obj.pop("status", None)  # a Node is registered with its status
        obj["metadata"] = metadata
        if not options.applied and (managers or options.named):
            # What the server changes in the object below has no manager.
            own = copy_value(obj)
            complete(kind, own)
            managers = self._track_managers(kind, {}, own, None, managers, options, "")
        self.admission.add_to(kind, obj, options)
        if self.admission.mutates(kind, None, options):
            # Asked of whole objects: a request that follows from a limit is none that is left out.
            complete(kind, obj)
            self.admission.mutate(kind, obj, None, options)
            obj["metadata"].pop("managedFields", None)
            _set_namespace(kind, namespace, obj["metadata"])
            if kind.has_status and kind.bucket != "nodes":
                obj.pop("status", None)
        # Before the rules: a Job's selector is made of the uid.
        self._new_metadata(kind, obj["metadata"], options)
        if kind.bucket == SIGNING_REQUESTS:
            # Who asks is known, and not what a client says of itself.
            own = {name: value for name, value in read_spec(obj).items() if name not in _WHO}
            obj["spec"] = own | options.user.info()
        kind.rules.prepare(obj)
        complete(kind, obj)
        metadata = obj["metadata"]
        if managers:
            metadata["managedFields"] = managers
        causes = metadata_causes(metadata, kind.name_check) + kind.rules.check(obj, None)
        if options.requested is not None:
            causes += options.requested.new_check(obj, None)
        if causes:
            raise invalid(kind, obj, causes)
        kind.rules.trim(obj)
        options.warnings += kind.rules.warn(obj, None)
        self.admission.admit(kind, obj, None, options)
        # After the checks: the answer names the faults of an object, also where its name is taken.
        there = self.store.get(kind.bucket, (metadata.get("namespace", ""), metadata["name"]))
        if there is not None:
            refusal = errors.already_exists(kind.group, kind.plural, metadata["name"])
            if there.deleting:
                refusal.message = f"object is being deleted: {refusal.message}"
            raise refusal
        return self._put(kind, obj, options)

    def _new_metadata(self, kind: ResourceType, metadata: Json, options: Options) -> None:
        """Set the server's own metadata."""
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds"):
            metadata.pop(name, None)
        metadata.pop("resourceVersion", None)
        metadata["uid"] = options.keep("uid", self.clock.uid)
        metadata["creationTimestamp"] = options.keep("time", self.clock.stamp)
        if kind.has_generation:
            metadata["generation"] = 1
        if not metadata.get("generateName") or metadata.get("name"):
            return
        for attempt in range(GENERATE_TRIES + 1):
            suffix = options.keep(f"suffix {attempt}", self.clock.suffix)
            metadata["name"] = metadata["generateName"][:58] + suffix
            if self.store.get(kind.bucket, (metadata.get("namespace", ""), metadata["name"])) is None:
                return

    # ---- update

    def update(
        self, kind: ResourceType, item: Item, new: Json, options: Options, subresource: str = ""
    ) -> bytes:
        """Replace the stored object by `new`; each subresource writes its own part. Returns the result as raw JSON."""
        old = item.parse()
        # Before the fields are read: an empty list means more than none.
        known, sent = (find_field(obj, "metadata", "managedFields") for obj in (old, new))
        # A stored object of this process was decoded when it was written: most of a changed one is as it was.
        decode(kind, new, options, old if item.version > self.store.start else None)
        for obj in (old, new):
            obj["metadata"].pop("managedFields", None)
        self._check_identity(kind, item, old, new)
        new = self._merge(kind, old, new, subresource)
        complete(kind, new)
        managers = sent
        # What was never applied has no managers, and no time is spent on them.
        if not options.applied and (known or sent):
            entries = None if subresource else sent
            managers = self._track_managers(kind, old, new, known, entries, options, subresource)
        if self.admission.mutates(kind, old, options):
            self.admission.mutate(kind, new, old, options, subresource)
            new["metadata"].pop("managedFields", None)
            # What a client may not write, no webhook may.
            new = self._merge(kind, old, new, subresource)
            complete(kind, new)
        causes = self._update_causes(kind, old, new, subresource)
        if causes:
            raise invalid(kind, new, causes)
        kind.rules.trim(new)
        options.warnings += kind.rules.warn(new, old) if not subresource else []
        if kind.has_generation and not subresource and _spec_changed(kind, old, new):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        self.admission.admit(kind, new, old, options, subresource)
        metadata = new["metadata"]
        finished = "deletionTimestamp" in metadata and not metadata.get("finalizers")
        # The write that drops the last finalizer of a deleted object removes it: no other write would come.
        if finished and not metadata.get("deletionGracePeriodSeconds") and not is_held(kind, new):
            if managers:
                new["metadata"] = {**new["metadata"], "managedFields": managers}
            # As there: watches see the object as it was last stored, and the writer what it has written.
            self._remove(kind, item.parse(), options)
            return orjson.dumps(new)
        # A write that changes nothing is no event: controllers that write at every reconciliation would wake themselves
        # for ever.
        if new == old and without_times(managers) == without_times(known):
            return item.raw
        if managers:
            new["metadata"] = {**new["metadata"], "managedFields": managers}
        return self._put(kind, new, options)

    def _merge(self, kind: ResourceType, old: Json, new: Json, subresource: str) -> Json:
        """The object with that part of a new one that a write may change."""
        if subresource != "status":
            self._keep(kind, old, new, subresource)
            return new
        merged = {**old, "status": new.get("status")}
        if not kind.keeps_metadata:
            # With a status of these kinds come labels, annotations and finalizers, as on a real server.
            whole: Json = {"metadata": copy.copy(new["metadata"])}
            self._keep(kind, old, whole)
            merged["metadata"] = whole["metadata"]
        kind.rules.keep_status(merged, old)
        if merged["status"] is None:
            del merged["status"]
        return merged

    def _track_managers(
        self,
        kind: ResourceType,
        old: Json,
        new: Json,
        known: list[Json] | None,
        sent: list[Json] | None,
        options: Options,
        subresource: str,
    ) -> list[Json]:
        """Managed fields after a write other than an apply."""
        # What is written as a Scale has no time, as on a real server.
        time = "" if options.part else self.clock.stamp()
        write = make_write(kind, options.api_version or kind.api_version, options.part or subresource, time)
        return after_update(write, old, new, known, sent, options.manager)

    def _check_identity(self, kind: ResourceType, item: Item, old: Json, new: Json) -> None:
        """The name, uid and version in `new`, where given, are those of the stored object."""
        metadata = new.get("metadata")
        if not isinstance(metadata, dict):
            raise invalid(kind, old, [errors.missing_value("metadata.name", "name is required")])
        version = metadata.get("resourceVersion") or ""
        if not version and not kind.unconditional:
            text = "must be specified for an update"
            cause = Cause("metadata.resourceVersion", f"Invalid value: 0: {text}")
            raise errors.is_invalid(kind.group, kind.plural, item.name, [cause])
        if version and not is_version(version):
            raise Refusal(500, "", f'strconv.ParseUint: parsing "{version}": invalid syntax')
        if version and version != str(item.version):
            # The client saw another state than there is: what it decided may be wrong by now.
            raise errors.conflict(kind.group, kind.plural, item.name)
        # Made again under its name, it is another object, which the client does not mean.
        uid = metadata.get("uid") or item.uid
        if uid != item.uid:
            key = "/".join(filter(None, ["/registry", kind.plural, *item.key]))
            text = (
                f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
            )
            text += f"Precondition failed: UID in precondition: {uid}, UID in object meta: {item.uid}"
            raise errors.conflict(kind.group, kind.plural, item.name, text)

    def _keep(self, kind: ResourceType, old: Json, new: Json, subresource: str = "") -> None:
        """Keep the fields that a replacement of the whole object may not change."""
        before, metadata = old["metadata"], new["metadata"]
        # What clients send of these is ignored and not refused: they send back what they have read.
        for name in _SERVER_SET:
            if name.startswith("deletion") and name not in before:
                continue  # it is refused
            metadata.pop(name, None)
            if name in before:
                metadata[name] = before[name]
        if kind.bucket == "namespaces" and subresource != "finalize":
            # Its spec holds the finalizer that keeps a namespace until it is empty.
            new["spec"] = old.get("spec")
        if kind.has_status:
            new.pop("status", None)
            if "status" in old:
                new["status"] = old["status"]
        kind.rules.carry(old, new)

    def _update_causes(self, kind: ResourceType, old: Json, new: Json, subresource: str) -> list[Cause]:
        metadata, before = new["metadata"], old["metadata"]
        if subresource == "status" and (kind.keeps_metadata or metadata == before):
            return kind.rules.status_check(new, old)
        # A real server checks twice: for all kinds alike, and by the rules of the kind.
        changed = update_causes(metadata, before)
        causes = metadata_causes(metadata, "path") + changed
        if not kind.custom:
            # An object that was stored while its name was allowed can still be changed, and let go of.
            known = metadata_causes(before, kind.name_check)
            named = [cause for cause in metadata_causes(metadata, kind.name_check) if cause not in known]
            causes += changed + named
        else:
            causes += changed
        if subresource == "status":
            return causes + kind.rules.status_check(new, old)
        return causes + self._new_causes(kind, new, old)

    def _new_causes(self, kind: ResourceType, new: Json, old: Json) -> list[Cause]:
        """Return the faults that the old object did not have: an object stored before a rule came can be
        mended, and deleted.
        """
        causes = kind.rules.check(new, old)
        if not causes or kind.custom:
            return causes
        before = copy_value(old)
        # As today's version stores it: a field that an older version did not set, or wrote in another form, is no
        # fault of this update.
        with contextlib.suppress(Undecodable):
            decode_fields(kind.node(), before, [])
        complete(kind, before)
        known = kind.rules.check(copy_value(before), old)
        return [cause for cause in kind.rules.check(new, before) if cause not in known]

    # ---- writing

    def _put(self, kind: ResourceType, obj: Json, options: Options) -> bytes:
        ordered: dict[str, Any] = {name: obj[name] for name in _FIRST}
        obj = ordered | {name: value for name, value in obj.items() if name not in ordered}
        raw = orjson.dumps(obj)
        # An object that has grown too large can still be deleted.
        if len(raw) > MAX_BYTES and "deletionTimestamp" not in obj["metadata"]:
            text = f"Request entity too large: limit is {MAX_BYTES}"
            raise Refusal(413, "RequestEntityTooLarge", text)
        self._check_room(kind, obj["metadata"], len(raw), options)
        return raw if options.dry_run else self.store.put(kind.bucket, obj).raw

    def _check_room(self, kind: ResourceType, metadata: Json, size: int, options: Options) -> None:
        """Refuse a write for which the namespace has no room. An object that is there can always be let go of, and its
        status be written by the platform's own parts.
        """
        namespace = metadata.get("namespace", "")
        old = self.store.get(kind.bucket, (namespace, metadata["name"]))
        growth = size - (len(old.raw) if old else 0)
        if growth <= 0 or (old is not None and (options.user.is_master or "deletionTimestamp" in metadata)):
            return
        rooms = [("objects", self.store.namespace_bytes(namespace), NAMESPACE_BYTES)]
        if kind.bucket == _PODS:
            rooms.insert(0, ("Pods", self.store.bucket(_PODS).bytes[namespace], POD_BYTES))
        for what, held, most in rooms:
            if held + growth > most:
                where = (
                    f"the namespace {namespace} has" if namespace else "the kinds without a namespace have"
                )
                text = f"{where} {what} of {held} bytes, and room for at most {most}"
                raise errors.forbidden(kind.group, kind.plural, metadata["name"], text)

    def _remove(self, kind: ResourceType, obj: Json, options: Options) -> bytes:
        if options.dry_run:
            return orjson.dumps(obj)
        return self.store.remove(kind.bucket, obj).raw

    # ---- delete

    def delete(
        self, kind: ResourceType, item: Item, request: Deletion, options: Options
    ) -> tuple[bytes, bool]:
        """Raw JSON of the object, and whether it is gone already."""
        self.check_preconditions(kind, item, request)
        self.admission.admit_delete(kind, item, options)
        obj = item.parse()
        metadata = obj["metadata"]
        # Written into the object: the garbage collector works later, maybe in
        # another process, and knows the wish by it alone.
        set_propagation(kind, metadata, request.propagation)
        self.admission.before_delete(kind, obj)
        grace = grace_seconds(kind, obj, request.grace)
        # No client has anything left to do: it goes at once.
        if not metadata.get("finalizers") and not grace and not is_held(kind, obj):
            return self._remove_now(kind, obj, options), True
        self._mark_deleted(kind, obj, grace or 0)
        return (item.raw if obj == item.parse() else self._put(kind, obj, options)), False

    def _remove_now(self, kind: ResourceType, obj: Json, options: Options) -> bytes:
        """Remove an object at once; of a Pod the answer and the watches say first that it has no grace left."""
        if kind.bucket == "pods":
            before = copy_value(obj["metadata"])
            self._mark_deleted(kind, obj, 0)
            # As on a real server: who watches Pods sees each one end before it is gone. Both changes are one commit.
            if obj["metadata"] != before:
                self._put(kind, obj, options)
        return self._remove(kind, obj, options)

    def check_preconditions(self, kind: ResourceType, item: Item, request: Deletion) -> None:
        uid, version = request.uid, request.version
        if uid and uid != item.uid:
            text = (
                f"the UID in the precondition ({uid}) does not match the UID in record ({item.uid}). "
                "The object might have been deleted and then recreated"
            )
            raise errors.conflict(kind.group, kind.kind, item.name, text)
        if version and version != str(item.version):
            text = (
                f"the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record "
                f"({item.version}). The object might have been modified"
            )
            raise errors.conflict(kind.group, kind.kind, item.name, text)

    def _mark_deleted(self, kind: ResourceType, obj: Json, grace: int) -> None:
        metadata = obj["metadata"]
        already = metadata.get("deletionGracePeriodSeconds")
        # A repeated deletion may only shorten the grace: it never gives a Pod more time than the first one did.
        if "deletionTimestamp" in metadata and already is not None and already <= grace:
            return
        if "deletionTimestamp" not in metadata and "generation" in metadata:
            metadata["generation"] += 1
        # Kubernetes' contract: the time at which the grace ends, and not that of the request.
        moment = self.clock.now() + timedelta(seconds=grace)
        metadata["deletionTimestamp"] = format_time(moment)
        metadata["deletionGracePeriodSeconds"] = grace
        if kind.bucket == "namespaces":
            metadata.pop("deletionGracePeriodSeconds")
            obj["status"] = {**read_status(obj), "phase": "Terminating"}


def _set_namespace(kind: ResourceType, namespace: str, metadata: Json) -> None:
    if not kind.namespaced:
        metadata.pop("namespace", None)
        return
    if metadata.get("namespace", namespace) != namespace:
        text = "the namespace of the provided object does not match the namespace sent on the request"
        raise errors.bad_request(text)
    metadata["namespace"] = namespace


def is_version(text: object) -> bool:
    return isinstance(text, str) and text.isascii() and text.isdecimal()


def complete(kind: ResourceType, obj: Json) -> None:
    """Fill in what was left out."""
    if kind.custom:
        fill_defaults(kind.node(), obj)
    kind.rules.default(obj)


def invalid(kind: ResourceType, obj: Json, causes: list[Cause]) -> Refusal:
    return errors.is_invalid(kind.group, kind.kind, obj["metadata"].get("name") or "", causes)


def _spec_changed(kind: ResourceType, old: Json, new: Json) -> bool:
    apart = {"metadata", "status"} if kind.has_status else {"metadata"}
    if kind.bucket == DEPLOYMENTS and read_annotations(old) != read_annotations(new):
        return True  # the one kind of which a real server counts them
    return any(old.get(key) != new.get(key) for key in (old.keys() | new.keys()) - apart)
