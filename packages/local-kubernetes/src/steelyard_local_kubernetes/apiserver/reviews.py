"""Reviews: who one is, what one may, and tokens. They are answered and not kept."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.times import format_time
from steelyard_local_kubernetes.apiserver import errors
from steelyard_local_kubernetes.apiserver.access.attributes import Attributes
from steelyard_local_kubernetes.apiserver.access.authentication import Authentication
from steelyard_local_kubernetes.apiserver.access.rbac import Rbac
from steelyard_local_kubernetes.apiserver.access.tokens import ISSUER
from steelyard_local_kubernetes.apiserver.access.users import User
from steelyard_local_kubernetes.apiserver.bodies import read_object
from steelyard_local_kubernetes.apiserver.clock import Clock
from steelyard_local_kubernetes.apiserver.errors import Cause
from steelyard_local_kubernetes.apiserver.item import Item
from steelyard_local_kubernetes.apiserver.kinds import ResourceType
from steelyard_local_kubernetes.apiserver.messages import Request, Response, json_response
from steelyard_local_kubernetes.apiserver.object_decoding import decode
from steelyard_local_kubernetes.apiserver.objects import Objects
from steelyard_local_kubernetes.apiserver.parameters import write_options
from steelyard_local_kubernetes.apiserver.published import kind_node

AUTHORIZATION, AUTHENTICATION = "authorization.k8s.io", "authentication.k8s.io"
SHORTEST, LONGEST = 600, 1 << 32  # seconds that a token may be good for


def _kind(group: str, plural: str, kind: str, *, namespaced: bool = False) -> ResourceType:
    node = partial(kind_node, group, "v1", kind)
    return ResourceType(
        group, "v1", plural, kind, node, namespaced=namespaced, has_status=False, has_generation=False
    )


KINDS = {
    (kind.group, kind.version, kind.plural): kind
    for kind in (
        _kind(AUTHORIZATION, "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
        _kind(AUTHORIZATION, "subjectaccessreviews", "SubjectAccessReview"),
        _kind(AUTHORIZATION, "localsubjectaccessreviews", "LocalSubjectAccessReview", namespaced=True),
        _kind(AUTHORIZATION, "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
        _kind(AUTHENTICATION, "selfsubjectreviews", "SelfSubjectReview"),
        _kind(AUTHENTICATION, "tokenreviews", "TokenReview"),
    )
}
TOKEN_REQUEST = _kind(AUTHENTICATION, "serviceaccounts/token", "TokenRequest")


@dataclass
class Reviews:
    """Answers of reviews by what the server knows of users and roles."""

    rbac: Rbac
    authentication: Authentication
    objects: Objects
    clock: Clock

    def answer(self, request: Request, kind: ResourceType, namespace: str) -> Response:
        if request.method != "POST":
            raise errors.method_not_allowed()
        options = write_options(request, "CreateOptions")
        review = read_object(request, kind, options)
        decode(kind, review, options)
        answers: dict[str, Callable[[], Json]] = {
            "SelfSubjectAccessReview": lambda: self._access(kind, review, request.user),
            "SubjectAccessReview": lambda: self._access(kind, review, None),
            "LocalSubjectAccessReview": lambda: self._local_access(kind, review, namespace),
            "SelfSubjectRulesReview": lambda: self._rules(review, request.user),
            "SelfSubjectReview": lambda: self._self(review, request.user),
            "TokenReview": lambda: self._token(review),
        }
        status = answers[kind.kind]()
        response = json_response({**review, "status": status}, 201)
        response.warnings = options.warnings
        return response

    # ---- authorization

    def _local_access(self, kind: ResourceType, review: Json, namespace: str) -> Json:
        if mapping(review, "spec", "resourceAttributes").get("namespace", "") != namespace:
            raise errors.bad_request(f"spec.resourceAttributes.namespace must match namespace: {namespace}")
        return self._access(kind, review, None)

    def _access(self, kind: ResourceType, review: Json, user: User | None) -> Json:
        spec = mapping(review, "spec")
        if causes := _access_causes(spec, own=user is not None):
            raise errors.is_invalid(kind.group, "", "", causes)  # of no kind, as on a real server
        if user is None:
            extra = tuple(sorted((key, tuple(values)) for key, values in mapping(spec, "extra").items()))
            user = User(spec.get("user") or "", tuple(sequence(spec, "groups")), spec.get("uid") or "", extra)
        decision = self.rbac.decide(user, _attributes(spec))
        status: Json = {"allowed": decision.allowed}
        return status | ({"reason": decision.reason} if decision.reason else {})

    def _rules(self, review: Json, user: User) -> Json:
        namespace = mapping(review, "spec").get("namespace") or ""
        if not namespace:
            raise errors.bad_request("no namespace on request")
        # As a real server answers: the namespace does not come back.
        review["spec"] = {}
        resources, paths = [], []
        held = list(self.rbac.rules(user, namespace))
        if user.is_master:
            everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
            held = [everything, {"verbs": ["*"], "nonResourceURLs": ["*"]}, *held]
        for rule in held:
            if sequence(rule, "resources"):
                fields = ("verbs", "apiGroups", "resources", "resourceNames")
                resources.append({field: rule[field] for field in fields if rule.get(field)})
            if sequence(rule, "nonResourceURLs"):
                paths.append({"verbs": rule["verbs"], "nonResourceURLs": rule["nonResourceURLs"]})
        return {"resourceRules": resources, "nonResourceRules": paths, "incomplete": False}

    # ---- authentication

    def _self(self, review: Json, user: User) -> Json:
        review["metadata"] = {"creationTimestamp": self.clock.stamp()}
        return {"userInfo": user.info()}

    def _token(self, review: Json) -> Json:
        spec = mapping(review, "spec")
        token = spec.get("token") or ""
        if not token:
            raise errors.bad_request("token is required for TokenReview in authentication")
        audiences = tuple(sequence(spec, "audiences"))
        account = self.authentication.accounts.user(token, audiences or (ISSUER,))
        if account:
            user, shared = account
            return {"authenticated": True, "user": user.info(), "audiences": shared}
        administrator = self.authentication.token_user(token)
        if administrator and (not audiences or ISSUER in audiences):
            return {"authenticated": True, "user": administrator.info(), "audiences": [ISSUER]}
        review["spec"] = {**spec}
        return {"user": {}, "error": "invalid bearer token"}

    def request_token(self, request: Request, account_kind: ResourceType, account: Item) -> Response:
        """`serviceaccounts/token`: a token of the account, bound to an object if asked."""
        if request.method != "POST":
            raise errors.method_not_allowed()
        options = write_options(request, "CreateOptions")
        token_request = read_object(request, TOKEN_REQUEST, options)
        decode(TOKEN_REQUEST, token_request, options)
        metadata = token_request["metadata"]
        if metadata.get("name") not in (None, "", account.name):
            text = f"the name of the object ({metadata['name']}) does not match the name on the URL ({account.name})"
            raise errors.bad_request(text)
        if metadata.get("namespace") not in (None, "", account.namespace):
            text = "the namespace of the provided object does not match the namespace sent on the request"
            raise errors.bad_request(text)
        spec = dict(mapping(token_request, "spec"))
        seconds = spec.get("expirationSeconds")
        seconds = 3600 if seconds is None else seconds
        spec = {
            "audiences": sequence(spec, "audiences") or [ISSUER],
            "expirationSeconds": seconds,
            "boundObjectRef": spec.get("boundObjectRef"),
        }
        created = options.keep("token time", self.clock.stamp)
        shown = {
            "metadata": {
                **metadata, "name": account.name, "namespace": account.namespace, "uid": account.uid,
                "creationTimestamp": created,
            },
            "spec": spec,
            "status": {"token": "", "expirationTimestamp": None},
        }  # fmt: skip
        self.objects.admission.admit_part(account_kind, account.key, shown, options, "token")
        spec = mapping(shown, "spec")
        seconds = spec.get("expirationSeconds") or seconds
        if cause := _seconds_cause(seconds):
            raise errors.is_invalid(AUTHENTICATION, "TokenRequest", "", [cause])
        bound = self._find_bound_object(account, spec["boundObjectRef"])
        token, end = self.authentication.accounts.issue(account, spec["audiences"], seconds, bound)
        names = {"name": account.name, "namespace": account.namespace, "uid": account.uid}
        names["creationTimestamp"] = self.clock.stamp()
        content = {
            "kind": "TokenRequest",
            "apiVersion": f"{AUTHENTICATION}/v1",
            "metadata": names,
            "spec": spec,
        }
        status = {"token": token, "expirationTimestamp": format_time(end)}
        response = json_response({**content, "status": status}, 201)
        response.warnings = options.warnings
        return response

    def _find_bound_object(self, account: Item, reference: Any) -> Json | None:
        """The object that a token is bound to, with its uid."""
        if not reference:
            return None
        kind, name = reference.get("kind") or "", reference.get("name") or ""
        buckets = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}
        if kind not in buckets or reference.get("apiVersion") not in (None, "", "v1"):
            text = f"cannot bind token to object of type {reference.get('apiVersion') or 'v1'}, Kind={kind}"
            raise errors.bad_request(text)
        namespace = "" if kind == "Node" else account.namespace
        item = self.objects.store.get(buckets[kind], (namespace, name))
        if item is None:
            raise errors.not_found("", buckets[kind], name)
        uid = reference.get("uid") or item.uid
        if uid != item.uid:
            text = f"the UID in the bound object reference ({uid}) does not match the UID in record. "
            text += "The object might have been deleted and then recreated"
            raise errors.conflict("", buckets[kind], name, text)
        bound: Json = {"kind": kind, "name": name, "uid": item.uid}
        if kind == "Pod":
            spec = mapping(item.parse(), "spec")
            if (spec.get("serviceAccountName") or "") != account.name:
                text = f'cannot bind token for serviceaccount "{account.name}" to pod running with different '
                text += f'serviceaccount name "{spec.get("serviceAccountName") or ""}".'
                raise errors.bad_request(text)
            if node := spec.get("nodeName"):
                there = self.objects.store.get("nodes", ("", node))
                bound["node"] = {"name": node, **({"uid": there.uid} if there else {})}
        return bound


def _seconds_cause(seconds: int) -> Cause | None:
    if seconds < SHORTEST:
        return errors.invalid(
            "spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"
        )
    if seconds > LONGEST:
        return errors.invalid(
            "spec.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds"
        )
    return None


def _access_causes(spec: Json, *, own: bool) -> list[Cause]:
    causes = []
    both = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
    if both[0] is not None and both[1] is not None:
        text = "cannot be specified in combination with resourceAttributes"
        shown = {"Path": both[1].get("path") or "", "Verb": both[1].get("verb") or ""}  # as Go names them
        causes.append(errors.invalid("spec.nonResourceAttributes", shown, text))
    elif both == (None, None):
        causes.append(errors.invalid("spec.resourceAttributes", None, text))
    if not own and not spec.get("user") and not spec.get("groups"):
        causes.append(errors.invalid("spec.user", "", "at least one of user or group must be specified"))
    return causes


def _attributes(spec: Json) -> Attributes:
    if paths := spec.get("nonResourceAttributes"):
        return Attributes(paths.get("verb") or "", path=paths.get("path") or "")
    requested = mapping(spec, "resourceAttributes")
    fields = ("verb", "group", "version", "resource", "subresource", "namespace", "name")
    return Attributes(*(requested.get(field) or "" for field in fields))
