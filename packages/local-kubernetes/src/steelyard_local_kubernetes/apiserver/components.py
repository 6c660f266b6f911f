"""`componentstatuses`, which nothing stores: the parts of the control plane, all in the process that answers."""

import orjson

from steelyard_local_kubernetes.apiserver import errors
from steelyard_local_kubernetes.apiserver.item import Item
from steelyard_local_kubernetes.apiserver.kinds import ResourceType
from steelyard_local_kubernetes.apiserver.messages import Request, Response
from steelyard_local_kubernetes.apiserver.published import kind_node
from steelyard_local_kubernetes.apiserver.rendering import renderer
from steelyard_local_kubernetes.apiserver.selection import selection

_NAMES = ("controller-manager", "etcd-0", "scheduler")
KIND = ResourceType(
    "",
    "v1",
    "componentstatuses",
    "ComponentStatus",
    lambda: kind_node("", "v1", "ComponentStatus"),
    namespaced=False,
    deprecation="v1 ComponentStatus is deprecated in v1.19+",
)


def component_response(request: Request, name: str) -> Response:
    if request.method != "GET":
        raise errors.method_not_allowed()
    render, warnings = renderer(KIND, request), [KIND.deprecation]
    if not name:
        labels, fields = request.query.get("labelSelector", ""), request.query.get("fieldSelector", "")
        selects = selection(KIND, labels, fields)
        items = [item for item in map(_item, _NAMES) if selects(item)]
        return Response(render.many(items, {}), warnings=warnings)
    if name not in _NAMES:
        raise errors.not_found("", KIND.plural, name)
    return Response(render.one(_item(name)), warnings=warnings)


def _item(name: str) -> Item:
    condition = {"type": "Healthy", "status": "True", "message": "ok"}
    own = {"apiVersion": "v1", "kind": KIND.kind, "metadata": {"name": name}}
    return Item(orjson.dumps({**own, "conditions": [condition]}), 0, "", name, "", {}, (), False)
