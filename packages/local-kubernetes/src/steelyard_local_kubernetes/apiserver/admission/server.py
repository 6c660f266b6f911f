"""All of the admission of one server: the order in which its parts are asked. `objects.py` asks it at each write."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from steelyard_common.types import Json, sequence
from steelyard_local_kubernetes.apiserver import errors
from steelyard_local_kubernetes.apiserver.access.components import check_components
from steelyard_local_kubernetes.apiserver.access.escalation import check_escalation
from steelyard_local_kubernetes.apiserver.access.rbac import Rbac
from steelyard_local_kubernetes.apiserver.admission import limits
from steelyard_local_kubernetes.apiserver.admission.accounts import add_account
from steelyard_local_kubernetes.apiserver.admission.admission import Admission
from steelyard_local_kubernetes.apiserver.admission.attributes import Attributes, kind_of_part
from steelyard_local_kubernetes.apiserver.admission.cluster_addresses import Addresses
from steelyard_local_kubernetes.apiserver.admission.node_ports import NodePorts
from steelyard_local_kubernetes.apiserver.admission.policies import Policies
from steelyard_local_kubernetes.apiserver.admission.queues import add_queue
from steelyard_local_kubernetes.apiserver.admission.quota import QuotaAdmission
from steelyard_local_kubernetes.apiserver.admission.runtimes import check_runtime, set_runtime
from steelyard_local_kubernetes.apiserver.admission.webhooks.dispatch import MUTATING, VALIDATING, Webhooks
from steelyard_local_kubernetes.apiserver.clock import Clock
from steelyard_local_kubernetes.apiserver.decoding import Undecodable, decode_fields
from steelyard_local_kubernetes.apiserver.errors import Cause
from steelyard_local_kubernetes.apiserver.item import Item, Key
from steelyard_local_kubernetes.apiserver.kinds import ResourceType, find_field, set_no_defaults
from steelyard_local_kubernetes.apiserver.objects import complete
from steelyard_local_kubernetes.apiserver.options import Options
from steelyard_local_kubernetes.apiserver.priorities import assign_priority
from steelyard_local_kubernetes.apiserver.scale import make_scale, set_field
from steelyard_local_kubernetes.apiserver.schema import drop_unknown
from steelyard_local_kubernetes.apiserver.store import Store

PERMANENT = ("default", "kube-system", "kube-public")
DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
CONNECTED = ("exec", "attach", "portforward", "proxy")
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


class ServerAdmission(Admission):
    """The server's own."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        service_network: str,
        rbac: Rbac,
        webhooks: Webhooks,
        policies: Policies,
    ) -> None:
        self._store, self._clock = store, clock
        self._rbac, self._webhooks, self._policies = rbac, webhooks, policies
        self._addresses = Addresses(store, service_network)
        self._node_ports = NodePorts(store)
        self._quota = QuotaAdmission(store)

    def check_place(self, kind: ResourceType, obj: Json) -> None:
        # Updates pass also in a namespace that is being deleted: finalizers and last statuses are written then.
        self._check_namespace(kind, obj)
        self._check_definition(kind, obj)

    def add_to(self, kind: ResourceType, obj: Json, options: Options) -> None:
        if kind.bucket == "pods":
            assign_priority(self._store, obj | {"spec": obj.setdefault("spec", {})})
            add_account(self._store, obj, partial(options.keep, "account", self._clock.suffix))
            set_runtime(self._store, obj)
        add_queue(self._store, kind, obj)

    def mutates(self, kind: ResourceType, old: Json | None, options: Options) -> bool:
        limited = kind.bucket == "pods" and old is None and self._store.bucket(limits.BUCKET).size
        return bool(limited) or (options.answers is not None and self._webhooks.exist(MUTATING))

    def mutate(
        self, kind: ResourceType, obj: Json, old: Json | None, options: Options, subresource: str = ""
    ) -> None:
        new_pod = kind.bucket == "pods" and old is None
        if new_pod:
            assign_priority(self._store, obj)
            limits.add_defaults(self._limit_ranges(obj), obj)
        if options.answers is None or not self._webhooks.exist(MUTATING):
            return
        attributes = write_attributes(kind, obj, old, options, subresource)
        self._webhooks.mutate(attributes, partial(_complete, kind))
        if attributes.obj is not obj:
            set_replicas(kind, obj, attributes.obj)
        if new_pod:
            # Webhooks may have added containers.
            self.add_to(kind, obj, options)
            limits.add_defaults(self._limit_ranges(obj), obj)

    def admit(
        self, kind: ResourceType, obj: Json, old: Json | None, options: Options, subresource: str = ""
    ) -> None:
        if not subresource:
            self._admit_whole(kind, obj, old, options)
        if options.answers is not None:
            self._ask(kind, obj, old, options, subresource)
        # The last of all: what another check refuses uses nothing.
        if not subresource:
            self._quota.admit(kind, obj, old, options)

    def admit_part(
        self, kind: ResourceType, key: Key, part: Json | None, options: Options, subresource: str
    ) -> None:
        group, version, name = kind_of_part(kind, subresource)
        if part is not None:
            part["apiVersion"], part["kind"] = f"{group}/{version}".lstrip("/"), name
        operation = "CONNECT" if subresource in CONNECTED else "CREATE"
        attributes = Attributes(operation, kind, *key, part, None, options, subresource)
        if options.answers is not None and self._webhooks.exist(MUTATING):
            self._webhooks.mutate(attributes, lambda _: None)
        self._ask_about(lambda: attributes)

    def _ask(
        self, kind: ResourceType, obj: Json | None, old: Json | None, options: Options, subresource: str
    ) -> None:
        self._ask_about(lambda: write_attributes(kind, obj, old, options, subresource))

    def _ask_about(self, facts: Callable[[], Attributes]) -> None:
        """Ask the policies first, which answer at once, and then the webhooks."""
        by_policy, by_webhook = self._policies.exist(), self._webhooks.exist(VALIDATING)
        if by_policy or by_webhook:
            attributes = facts()
            if by_policy:
                self._policies.validate(attributes)
            if by_webhook:
                self._webhooks.validate(attributes)

    def _admit_whole(self, kind: ResourceType, obj: Json, old: Json | None, options: Options) -> None:
        check_escalation(self._rbac, kind, obj, old, options.user)
        check_components(self._rbac, kind, obj, old, options.user)
        if kind.bucket == "pods" and old is None:
            assign_priority(self._store, obj)
            check_runtime(self._store, obj)
        if kind.bucket == "services":
            self._addresses.assign(kind, obj, old, options)
            self._node_ports.assign(kind, obj, old, options)
        self._check_limits(kind, obj, old)

    def _limit_ranges(self, obj: Json) -> list[Json]:
        namespace = obj["metadata"]["namespace"]
        return [item.parse() for item in self._store.bucket(limits.BUCKET).items(namespace)]

    def _check_limits(self, kind: ResourceType, obj: Json, old: Json | None) -> None:
        if not self._store.bucket(limits.BUCKET).size or kind.bucket not in limits.LIMITED:
            return
        # The containers of a Pod do not change; what is being deleted may always be written.
        if old is not None and (kind.bucket == "pods" or "deletionTimestamp" in old["metadata"]):
            return
        if said := limits.violations(self._limit_ranges(obj), kind.bucket, obj):
            name = obj["metadata"]["name"]
            raise errors.forbidden(kind.group, kind.plural, name, limits.refusal_text(said))

    def _check_namespace(self, kind: ResourceType, obj: Json) -> None:
        if not kind.namespaced:
            return
        name = obj["metadata"]["namespace"]
        namespace = self._store.get("namespaces", ("", name))
        if namespace is None:
            raise errors.not_found("", "namespaces", name)
        # Else its controllers would fill it as fast as it is emptied, and it would never go.
        if namespace.deleting:
            text = f"unable to create new content in namespace {name} because it is being terminated"
            cause = Cause(
                "metadata.namespace", f"namespace {name} is being terminated", "NamespaceTerminating"
            )
            raise errors.forbidden_new(kind.group, kind.plural, obj, text, cause)

    def _check_definition(self, kind: ResourceType, obj: Json) -> None:
        if not kind.custom:
            return
        definition = self._store.get(DEFINITIONS, ("", kind.bucket))
        # A definition is served until it is gone; objects created meanwhile would hold it for ever.
        if definition is None or definition.deleting:
            raise errors.Refusal(
                405, "MethodNotAllowed", "create not allowed while custom resource definition is terminating"
            )

    def admit_delete(self, kind: ResourceType, item: Item, options: Options) -> None:
        if kind.bucket == "namespaces" and item.name in PERMANENT:
            raise errors.forbidden("", "namespaces", item.name, "this namespace may not be deleted")
        if options.answers is None:
            return
        if self._webhooks.exist(MUTATING):
            self._webhooks.mutate(write_attributes(kind, None, item.parse(), options, ""), set_no_defaults)
        if self._policies.exist() or self._webhooks.exist(VALIDATING):
            self._ask(kind, None, item.parse(), options, "")

    def before_delete(self, kind: ResourceType, obj: Json) -> None:
        """A definition waits for its objects."""
        if kind.bucket != DEFINITIONS:
            return
        name, metadata = obj["metadata"]["name"], obj["metadata"]
        if self._store.bucket(name).size and CLEANUP not in sequence(metadata, "finalizers"):
            # A finalizer and not a loop here: the objects may have finalizers of
            # their own, and a crash in between loses nothing.
            metadata["finalizers"] = [*sequence(metadata, "finalizers"), CLEANUP]


def write_attributes(
    kind: ResourceType, obj: Json | None, old: Json | None, options: Options, subresource: str
) -> Attributes:
    """Facts about a write; of a Scale they are those of the Scale."""
    operation = "DELETE" if obj is None else "CREATE" if old is None else "UPDATE"
    metadata = (obj or old or {})["metadata"]
    requested, subresource = options.requested or kind, options.part or subresource
    if subresource == "scale" and kind.scaling is not None:
        obj, old = (make_scale(kind, kind.scaling, whole) if whole else None for whole in (obj, old))
        requested = replace(requested, convert_in=None, convert_out=None)
    name = metadata.get("name") or ""
    # As on a real server a namespace lies in itself.
    namespace = metadata.get("namespace") or (name if kind.bucket == "namespaces" else "")
    name = "" if options.collection else name
    return Attributes(operation, requested, namespace, name, obj, old, options, subresource)


def set_replicas(kind: ResourceType, obj: Json, scale: Json | None) -> None:
    """Take over a Scale that a webhook has changed."""
    assert kind.scaling is not None
    set_field(obj, kind.scaling.replicas, find_field(scale, "spec", "replicas") or 0)


def _complete(kind: ResourceType, obj: Json) -> None:
    """Bring what a patch has left to the kind's fields."""
    if obj.get("kind") != kind.kind:
        return
    try:
        drop_unknown(kind.node(), obj) if kind.custom else decode_fields(kind.node(), obj, [])
    except Undecodable as error:
        text, causes = str(error), [{"message": str(error)}]
        detail = f"Internal error occurred: {text}"
        raise errors.Refusal(500, "InternalError", detail, {"causes": causes}) from error
    complete(kind, obj)
