"""Wishes of requests in the words of authorization: a verb on a resource, or on a path."""

from dataclasses import dataclass

from steelyard_local_kubernetes.apiserver.messages import Request

_VERBS = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_OF_NAMESPACES = ("status", "finalize")


@dataclass(frozen=True, slots=True)
class Attributes:
    """One wish; without a resource it is about `path`."""

    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def full_resource(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def parse_attributes(request: Request) -> Attributes:
    """Read a request as every authorizer of Kubernetes does, also where nothing is served at its path."""
    parts = [part for part in request.path.split("/") if part]
    match parts:
        case ["api", version, *rest] if rest:
            return _resource_attributes(request, "", version, rest)
        case ["apis", group, version, *rest] if rest:
            return _resource_attributes(request, group, version, rest)
    verb = request.method.lower() if request.method != "HEAD" else "get"
    return Attributes(_VERBS.get(request.method, verb), path=request.path)


def _resource_attributes(request: Request, group: str, version: str, parts: list[str]) -> Attributes:
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 1:
        namespace = parts[1]
        if len(parts) > 2 and parts[2] not in _OF_NAMESPACES:
            parts = parts[2:]
    resource, name, subresource = (*parts[:3], "", "", "")[:3]
    verb = _VERBS.get(request.method, "")
    if verb == "get" and not name:
        verb = "watch" if request.flag("watch") else "list"
    elif verb == "delete" and not name:
        verb = "deletecollection"
    # A list of one name is a right that a role can give for that name alone.
    if verb in ("list", "watch", "deletecollection"):
        name = _find_name(request.query.get("fieldSelector", ""))
    return Attributes(verb, group, version, resource, subresource, namespace, name)


def _find_name(selector: str) -> str:
    for term in selector.split(","):
        field, _, value = term.partition("=")
        if field == "metadata.name":
            return value.removeprefix("=")
    return ""
