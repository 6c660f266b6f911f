"""Paths of watches from before watches were lists with a parameter; older clients still use them."""

from dataclasses import replace

from steelyard.local.apiserver.messages import Request


def with_parameter(request: Request) -> Request:
    """The same watch as a list with `watch=1`; requests of other paths stay as they are."""
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
