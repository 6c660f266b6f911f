"""Facts about one write that webhooks and policies are chosen by, and asked about."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.objects import read_labels
from steelyard_local_kubernetes.apiserver.kinds import ResourceType
from steelyard_local_kubernetes.apiserver.options import Options
from steelyard_local_kubernetes.apiserver.rules.common import labels_match
from steelyard_local_kubernetes.apiserver.store import Store

EXEMPT_GROUP = "admissionregistration.k8s.io"
PARTS = {
    "scale": ("autoscaling", "v1", "Scale"),
    "binding": ("", "v1", "Binding"),
    "eviction": ("policy", "v1", "Eviction"),
    "token": ("authentication.k8s.io", "v1", "TokenRequest"),
    "exec": ("", "v1", "PodExecOptions"),
    "attach": ("", "v1", "PodAttachOptions"),
    "portforward": ("", "v1", "PodPortForwardOptions"),
}
"""Kinds of the documents for subresources, where they differ from the object's."""
_META = "meta.k8s.io/v1"


@dataclass(frozen=True)
class Attributes:
    """One write: the operation, the object and the user."""

    operation: str  # CREATE, UPDATE, DELETE or CONNECT
    kind: ResourceType  # as requested
    namespace: str
    name: str
    obj: Json | None
    old: Json | None
    options: Options
    subresource: str = ""

    def in_version(self, kind: ResourceType) -> "Attributes":
        """The same write with its objects, which are given as they are stored, in the form of a version."""
        convert = kind.convert_out
        if convert is None:
            return replace(self, kind=kind)
        obj, old = (convert(obj) if obj is not None else None for obj in (self.obj, self.old))
        return replace(self, kind=kind, obj=obj, old=old)


def review_request(attributes: Attributes, called: Attributes, uid: str = "") -> Json:
    """`request` of an AdmissionReview; `called` has the version that a webhook or policy asks for."""
    options = attributes.options
    request: Json = {"uid": uid} if uid else {}
    request["kind"] = _kind(called)
    request["resource"] = _resource(called.kind)
    if called.subresource:
        request["subResource"] = called.subresource
    request["requestKind"] = _kind(attributes)
    request["requestResource"] = _resource(attributes.kind)
    if attributes.subresource:
        request["requestSubResource"] = attributes.subresource
    if attributes.name:
        request["name"] = attributes.name
    if attributes.namespace:
        request["namespace"] = attributes.namespace
    request["operation"] = attributes.operation
    request["userInfo"] = options.user.info()
    request["object"], request["oldObject"] = called.obj, called.old
    request["dryRun"] = options.dry_run
    connects = attributes.operation == "CONNECT"
    request["options"] = None if connects else {"kind": options.kind, "apiVersion": _META, **options.sent}
    return request


def kind_of_part(kind: ResourceType, subresource: str) -> tuple[str, str, str]:
    """Group, version and kind of the document for a subresource."""
    if subresource == "proxy":
        return "", "v1", f"{kind.kind}ProxyOptions"
    return PARTS.get(subresource, (kind.group, kind.version, kind.kind))


def _kind(attributes: Attributes) -> Json:
    group, version, name = kind_of_part(attributes.kind, attributes.subresource)
    return {"group": group, "version": version, "kind": name}


def _resource(kind: ResourceType) -> Json:
    return {"group": kind.group, "version": kind.version, "resource": kind.plural}


# ---- matching


def matching_kind(
    rules: Sequence[Json], policy: str, attributes: Attributes, kinds: Sequence[ResourceType]
) -> ResourceType | None:
    """The version in which a rule wants the object; None where no rule matches."""
    if any(_matches(rule, attributes, attributes.kind) for rule in rules):
        return attributes.kind
    if policy == "Equivalent":
        for rule in rules:
            for kind in kinds:
                # The same objects by another name: a rule for one version holds for all.
                if kind.bucket == attributes.kind.bucket and _matches(rule, attributes, kind):
                    return kind
    return None


def _matches(rule: Json, attributes: Attributes, kind: ResourceType) -> bool:
    scope = rule.get("scope") or "*"
    in_namespace = bool(attributes.namespace) and kind.bucket != "namespaces"
    if scope != "*" and (scope == "Namespaced") is not in_namespace:
        return False
    return (
        _holds(rule, "operations", attributes.operation)
        and _holds(rule, "apiGroups", kind.group)
        and _holds(rule, "apiVersions", kind.version)
        and (not (names := sequence(rule, "resourceNames")) or attributes.name in names)
        and any(_is_resource(name, kind, attributes.subresource) for name in sequence(rule, "resources"))
    )


def _holds(rule: Json, field: str, value: str) -> bool:
    values = sequence(rule, field)
    return "*" in values or value in values


def _is_resource(name: str, kind: ResourceType, subresource: str) -> bool:
    plural, _, part = name.partition("/")
    return plural in ("*", kind.plural) and part in ("*", subresource)


def selectors_match(match: Json, attributes: Attributes, store: Store) -> bool:
    """Return whether the selectors of namespaces and of objects choose a write."""
    selector = mapping(match, "namespaceSelector")
    in_namespace = attributes.namespace or attributes.kind.bucket == "namespaces"
    if selector and in_namespace and not labels_match(selector, _namespace_labels(attributes, store)):
        return False
    selector = mapping(match, "objectSelector")
    if not selector:
        return True
    # An object may not leave the webhook's sight by the change of a label that it would refuse.
    both = [obj for obj in (attributes.obj, attributes.old) if obj is not None]
    return any(labels_match(selector, read_labels(obj)) for obj in both)


def _namespace_labels(attributes: Attributes, store: Store) -> Json:
    is_namespace = attributes.kind.bucket == "namespaces" and not attributes.subresource
    if is_namespace and attributes.obj is not None:
        return read_labels(attributes.obj)
    namespace = store.get("namespaces", ("", attributes.namespace or attributes.name))
    return dict(namespace.labels) if namespace is not None else {}
