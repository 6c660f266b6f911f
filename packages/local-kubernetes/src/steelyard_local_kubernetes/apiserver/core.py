"""The server without a transport: `handle(Request) -> Response`.

Parses paths, answers requests that are not about objects, hands the rest to `rest.py`, and sends no answer before the
commit of what it reports.
"""

import logging
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from steelyard_common.disk_space import no_room
from steelyard_common.figures import CONTENT_TYPE, Figures
from steelyard_local_kubernetes.apiserver import errors, scale
from steelyard_local_kubernetes.apiserver.access.attributes import parse_attributes
from steelyard_local_kubernetes.apiserver.access.impersonation import effective_user
from steelyard_local_kubernetes.apiserver.access.refusals import forbidden
from steelyard_local_kubernetes.apiserver.access.tokens import discovery_document
from steelyard_local_kubernetes.apiserver.access.users import User
from steelyard_local_kubernetes.apiserver.answers import ATTEMPTS, AnswersPending
from steelyard_local_kubernetes.apiserver.components import component_response
from steelyard_local_kubernetes.apiserver.discovery import Discovery
from steelyard_local_kubernetes.apiserver.errors import NoSuchPage, Refusal
from steelyard_local_kubernetes.apiserver.execution import prepare_execution
from steelyard_local_kubernetes.apiserver.health import HEALTH, health_response, not_a_page
from steelyard_local_kubernetes.apiserver.item import Item
from steelyard_local_kubernetes.apiserver.logs import PodLogs
from steelyard_local_kubernetes.apiserver.messages import Request, Response, json_response
from steelyard_local_kubernetes.apiserver.metrics import ApiServerMetrics
from steelyard_local_kubernetes.apiserver.openapi import OpenApi
from steelyard_local_kubernetes.apiserver.parameters import write_options
from steelyard_local_kubernetes.apiserver.registry import Registry
from steelyard_local_kubernetes.apiserver.rest import Rest, Target
from steelyard_local_kubernetes.apiserver.reviews import KINDS as REVIEWS
from steelyard_local_kubernetes.apiserver.reviews import Reviews
from steelyard_local_kubernetes.apiserver.store import Store
from steelyard_local_kubernetes.apiserver.streams.attaching import prepare_attachment
from steelyard_local_kubernetes.apiserver.streams.forwarding import prepare_forwarding
from steelyard_local_kubernetes.apiserver.streams.session import (
    Session,
    check_upgrade,
    check_websocket,
    connection_options,
)
from steelyard_local_kubernetes.apiserver.streams.upstream import Upstream, find_upstream
from steelyard_local_kubernetes.apiserver.subresources import bind, binding_target, evict
from steelyard_local_kubernetes.apiserver.yaml_answers import in_yaml, wants_yaml
from steelyard_local_kubernetes.faults import Faults

log = logging.getLogger(__name__)

MAX_BODY = 3 << 20
ROOM_SECONDS = 5  # after which a client may ask again
# Subresources whose methods are below; of others clients learn that they exist, but not here.
_SERVED = ("scale", "log", "token", "binding", "eviction", "approval", "finalize")
# What the refusal of a subresource names instead.
_INSTEAD = {
    "ephemeralcontainers": ": a Pod's containers are fixed when it starts; use kubectl exec or kubectl debug --copy-to",
    "proxy": ": programs of this machine reach the node's address itself",
}


@dataclass
class _RequestTarget:
    """Target of a request, once it is known; None where the request names no kind that is served."""

    target: Target | None = None


@dataclass
class Core:
    store: Store
    registry: Registry
    rest: Rest
    discovery: Discovery
    openapi: OpenApi
    logs: PodLogs
    reviews: Reviews
    pods: Path | None = None  # where the kubelet keeps them
    faults: Faults = field(default_factory=Faults)
    figures: Figures = field(default_factory=Figures)

    def __post_init__(self) -> None:
        self._metrics = ApiServerMetrics(self.figures.registry)
        self.figures.registry.register(self.faults)
        self.figures.look_up("objects", self._count_objects)

    async def session(self, request: Request) -> Session | Response:
        """Return what a request of `exec`, `attach` or `portforward` connects to, or the refusal."""
        parts = [segment for segment in request.path.split("/") if segment]
        try:
            self._authorize(request)
            target = self._target("", "v1", parts[2:])
            item = self.rest.objects.item(target.kind, target.key)
            check_upgrade(request)
            await self._admit_session(request, target)
            session = self._make_session(target.subresource, request, item)
            # Last: kubectl tries SPDY once a WebSocket was refused, and shows the refusal of that.
            check_websocket(request, target.subresource)
            return session
        except Refusal as refusal:
            return await self._answer_refusal(refusal)

    def _make_session(self, subresource: str, request: Request, item: Item) -> Session:
        if subresource == "portforward":
            return prepare_forwarding(self.pods, request, item)
        if subresource == "attach":
            return prepare_attachment(self.pods, request, item)
        return prepare_execution(self.pods, sys.executable, request, item)

    async def upstream(self, request: Request) -> Upstream | Response:
        """Return the program to which a request below `proxy` is passed on, or the refusal."""
        parts = [segment for segment in request.path.split("/") if segment]
        try:
            self._authorize(request)
            target = self._target("", "v1", parts[2:7])
            upstream = find_upstream(self.rest.objects, target)
            if request.headers.get("upgrade"):
                text = "this server passes on no upgraded connections: use kubectl port-forward"
                raise errors.not_implemented(text)
            await self._admit_session(request, target)
            return upstream
        except Refusal as refusal:
            return await self._answer_refusal(refusal)

    async def _admit_session(self, request: Request, target: Target) -> None:
        """Ask webhooks and policies about a connection, in as many attempts as their answers take."""
        for _ in range(ATTEMPTS):
            options = write_options(request, "")
            connection = connection_options(request, target.subresource)
            try:
                admission = self.rest.objects.admission
                return admission.admit_part(target.kind, target.key, connection, options, target.subresource)
            except AnswersPending as pending:
                await request.answers.fetch(pending)
        raise Refusal(
            409, "Conflict", "Operation cannot be fulfilled: the Pod changes faster than webhooks answer"
        )

    async def handle(self, request: Request) -> Response:
        if request.path == "/metrics" and request.method == "GET":
            try:
                self._authorize(request)
            except Refusal as refusal:
                return await self._answer_refusal(refusal)
            return Response(await self.figures.text(), content_type=CONTENT_TYPE)
        request = with_parameter(request)
        began = time.perf_counter()
        routed = _RequestTarget()
        response = await self._handle(request, routed)
        if routed.target and routed.target.kind.deprecation:
            response.warnings = [routed.target.kind.deprecation, *response.warnings]
        if wants_yaml(request):
            response = in_yaml(response)
        self._metrics.count(request, routed.target, response.status, time.perf_counter() - began)
        return response

    async def _count_objects(self) -> None:
        for kind in self.store.kinds():
            self._metrics.show_objects(kind, self.store.bucket(kind).size)

    async def _handle(self, request: Request, routed: "_RequestTarget") -> Response:
        try:
            if len(request.body) > MAX_BODY:
                text = f"Request entity too large: limit is {MAX_BODY}"
                raise Refusal(413, "RequestEntityTooLarge", text)
            self._authorize(request)
            # Without an await: what a request reads is still so when it writes,
            # and all writes of this turn are one commit.
            response = await self._answer(request, routed)
            await self.store.wait_durable()
        except Refusal as refusal:
            response = await self._answer_refusal(refusal)
            response.warnings = request.warnings
            return response
        except OSError as error:
            return _disk_refusal(error)
        except Exception:
            # The outermost edge: one request's fault must not end the server.
            log.exception("%s %s failed", request.method, request.path)
            self.faults.count("apiserver", "request")
            # The exception's own text may quote the object, and with it a Secret.
            text = "Internal error occurred: see the server's log"
            return json_response(Refusal(500, "InternalError", text).status(), 500)
        return response

    async def _answer(self, request: Request, routed: "_RequestTarget") -> Response:
        """Make one attempt after another, each with the answers that the last one lacked."""
        warnings = len(request.warnings)
        for _ in range(ATTEMPTS):
            del request.warnings[warnings:]  # said again by the next attempt
            try:
                with errors.limit_causes():
                    return self._route(request, routed)
            except AnswersPending as pending:
                # No write is begun and nothing is held: a client that does not answer keeps no other client waiting.
                await request.answers.fetch(pending)
        text = "Operation cannot be fulfilled: the object changes faster than webhooks answer"
        raise Refusal(409, "Conflict", text)

    async def _answer_refusal(self, refusal: Refusal) -> Response:
        """A refusal, too, reports stored states: for example, that a name is taken."""
        try:
            await self.store.wait_durable()
        except OSError as error:
            return _disk_refusal(error)
        if isinstance(refusal, NoSuchPage):
            return not_a_page()
        response = json_response(refusal.status(), refusal.code)
        response.retry_after = (refusal.details or {}).get("retryAfterSeconds", 0)
        return response

    def _authorize(self, request: Request) -> None:
        """Raise Refusal where the user may not make the request; called before anything is looked up."""
        if request.user.is_master:
            return
        attributes = parse_attributes(request)
        decision = self.reviews.rbac.decide(request.user, attributes)
        if not decision.allowed:
            raise forbidden(request.user, attributes, decision.reason)

    def effective_user(self, user: User, headers: Iterable[tuple[str, str]]) -> User:
        """The user in whose name a request is sent; raises Refusal."""
        return effective_user(self.reviews.rbac, user, headers)

    def _route(self, request: Request, routed: "_RequestTarget") -> Response:
        parts = [part for part in request.path.split("/") if part]
        match parts:
            case ["api", version, *rest] if rest:
                return self._resource(request, routed, "", version, rest)
            case ["apis", group, version, *rest] if rest:
                return self._resource(request, routed, group, version, rest)
        if request.method not in ("GET", "HEAD"):
            raise errors.method_not_allowed()
        match parts:
            case [first, *checks] if first in HEALTH:
                return health_response(request, first, "/".join(checks))
            case [".well-known", "openid-configuration"]:
                host = request.headers.get("host", "")
                return json_response(discovery_document(f"https://{host}"))
            case ["openid", "v1", "jwks"]:
                return json_response(self.reviews.authentication.accounts.key_set())
            case ["openapi", "v2"]:
                return self.openapi.swagger(request)
            case ["openapi", "v3", *document]:
                return self.openapi.response("/".join(document))
        return self.discovery.response(request, parts)

    def _resource(
        self, request: Request, routed: "_RequestTarget", group: str, version: str, parts: list[str]
    ) -> Response:
        namespace, plural = (parts[1], parts[2]) if _in_namespace(parts) else ("", parts[0])
        review = REVIEWS.get((group, version, plural))
        if review and review.namespaced == bool(namespace):
            return self.reviews.answer(request, review, namespace)
        match group, version, parts:
            case "", "v1", ["componentstatuses", *names] if len(names) < 2:
                return component_response(request, "".join(names))
            case "", "v1", ["namespaces", _, "bindings"] if request.method == "POST":
                # The older path of a binding names its Pod in the body alone.
                pod = self._target("", "v1", ["namespaces", namespace, "pods"])
                return bind(self.rest.objects, request, binding_target(request, pod))
        target = routed.target = self._target(group, version, parts)
        if target.subresource not in ("", "status"):
            return self._subresource(request, target)
        return self.rest.handle(request, target)

    def _target(self, group: str, version: str, parts: list[str]) -> Target:
        namespace: str | None = None
        # `namespaces/x/pods` is a collection in a namespace, `namespaces/x/status` a part of the namespace itself.
        if parts[0] == "namespaces" and len(parts) > 2 and (group or parts[2] not in ("status", "finalize")):
            namespace, parts = parts[1], parts[2:]
        kind = self.registry.find(group, version, parts[0])
        # What no built-in group has, no part of a real server answers.
        known = not group or self.registry.has_builtin(group, version)
        missing = errors.no_such_path() if known else NoSuchPage()
        # What is below `proxy` is the path of another program.
        if kind is None or (len(parts) > 3 and parts[2] != "proxy"):
            raise missing
        if kind.namespaced is False and namespace is not None:
            raise missing
        # A list over all namespaces has a path of its own; an object without its namespace has none.
        if kind.namespaced and namespace is None and len(parts) > 1:
            raise errors.no_such_path()
        name, subresource = (*parts[1:], "", "")[:2]
        if subresource == "status" and not kind.has_status:
            raise errors.no_such_path()
        if subresource and subresource != "status" and subresource not in kind.subresources:
            raise errors.no_such_path()
        return Target(kind, namespace, name, subresource)

    def _subresource(self, request: Request, target: Target) -> Response:
        match request.method, target.subresource:
            case _, "scale":
                return scale.handle(self.rest.objects, request, target)
            case "GET", "log":
                return self.logs.response(request, self.rest.objects.item(target.kind, target.key))
            case "POST", "token":
                account = self.rest.objects.item(target.kind, target.key)
                return self.reviews.request_token(request, target.kind, account)
            case "POST", "binding":
                return bind(self.rest.objects, request, target)
            case "POST", "eviction":
                return evict(self.rest.objects, request, target)
            case "PUT", "finalize" if target.kind.bucket == "namespaces":
                return self.rest.handle(request, target)
            case "GET" | "PUT" | "PATCH", "approval":
                # What a client says of a request for a certificate are its conditions.
                return self.rest.handle(request, replace(target, subresource="status"))
        if target.subresource not in _SERVED:
            text = f"this server does not serve {target.kind.plural}/{target.subresource}"
            raise errors.not_implemented(text + _INSTEAD.get(target.subresource, ""))
        raise errors.method_not_allowed()


def _in_namespace(parts: list[str]) -> bool:
    return parts[0] == "namespaces" and len(parts) == 3


def _disk_refusal(error: OSError) -> Response:
    """A commit has failed, and with it whatever was asked for; without room the same may be asked again later."""
    if not no_room(error):
        return json_response(Refusal(500, "InternalError", str(error)).status(), 500)
    text = f"no room is left on the disk: {error}"
    refusal = Refusal(503, "ServiceUnavailable", text, {"retryAfterSeconds": ROOM_SECONDS})
    response = json_response(refusal.status(), 503)
    response.retry_after = ROOM_SECONDS
    return response


def with_parameter(request: Request) -> Request:
    """Return a watch whose path says so, as old clients send it, as a list with `watch=1`, and other requests as is."""
    if "/watch/" not in request.path:
        return request
    match request.path.split("/"):
        case ["", "api", version, "watch", *rest] if rest:
            root = f"/api/{version}"
        case ["", "apis", group, version, "watch", *rest] if rest:
            root = f"/apis/{group}/{version}"
        case _:
            return request
    query = {**request.query, "watch": "1"}
    # `namespaces/x` is one namespace, `namespaces/x/pods` a collection, and `namespaces/x/pods/y` one Pod.
    collection = rest[:3] if rest[0] == "namespaces" and len(rest) > 2 else rest[:1]
    if names := rest[len(collection) :]:
        fields = [query.get("fieldSelector", ""), f"metadata.name={names[0]}"]
        query["fieldSelector"] = ",".join(filter(None, fields))
    return replace(request, path="/".join([root, *collection]), query=query)
