"""`pods/binding`: the scheduler's word on which node a Pod is to run."""

from steelyard.local.apiserver import errors
from steelyard.local.apiserver.kinds import field_of
from steelyard.local.apiserver.messages import Request, Response, json_response
from steelyard.local.apiserver.objects import Objects
from steelyard.local.apiserver.parameters import read_object, write_options
from steelyard.local.apiserver.rest import Target


def bind(objects: Objects, request: Request, target: Target) -> Response:
    binding, options = read_object(request, target.kind), write_options(request, "CreateOptions")
    node = field_of(binding, "target", "name")
    if not node:
        raise errors.is_invalid("", "Binding", target.name, [errors.required("target.name")])
    item = objects.item(target.kind, target.key)
    pod = item.parsed()
    uid = field_of(binding, "metadata", "uid")
    if pod["spec"].get("nodeName"):
        text = f'pod {target.name} is already assigned to node "{pod["spec"]["nodeName"]}"'
        raise errors.conflict("", "pods/binding", target.name, text)
    if item.deleting or (uid and uid != item.uid):
        raise errors.conflict(
            "", "pods/binding", target.name, f"pod {target.name} is being deleted, cannot be assigned"
        )
    pod["spec"]["nodeName"] = node
    objects.update(target.kind, item, pod, options)
    _scheduled(objects, target)
    return json_response(
        {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, 201
    )


def _scheduled(objects: Objects, target: Target) -> None:
    """The condition that a Pod has its node."""
    item = objects.item(target.kind, target.key)
    pod = item.parsed()
    if not field_of(pod, "spec", "nodeName"):
        return  # a dry run
    status = pod.setdefault("status", {})
    others = [each for each in status.get("conditions") or () if each["type"] != "PodScheduled"]
    moment = objects.clock.stamp()
    condition = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": moment,
    }
    status["conditions"] = [*others, condition]
    objects.store.put(target.kind.bucket, pod)
