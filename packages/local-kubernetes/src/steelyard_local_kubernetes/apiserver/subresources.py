"""`pods/binding`: the scheduler's word on which node a Pod is to run. `pods/eviction`: a word that it is to go."""

from dataclasses import replace

from steelyard_common.types import Json, mapping, sequence
from steelyard_local_kubernetes.apiserver import budgets, errors
from steelyard_local_kubernetes.apiserver.bodies import read_object
from steelyard_local_kubernetes.apiserver.decoding import Undecodable, decode_fields
from steelyard_local_kubernetes.apiserver.kinds import find_field
from steelyard_local_kubernetes.apiserver.messages import Request, Response, json_response
from steelyard_local_kubernetes.apiserver.objects import Objects
from steelyard_local_kubernetes.apiserver.options import Deletion
from steelyard_local_kubernetes.apiserver.parameters import write_options
from steelyard_local_kubernetes.apiserver.published import META, schema_node
from steelyard_local_kubernetes.apiserver.rest import Target


def bind(objects: Objects, request: Request, target: Target) -> Response:
    binding, options = read_object(request, target.kind), write_options(request, "CreateOptions")
    if find_field(binding, "metadata", "name") != target.name:
        raise errors.bad_request("name in URL does not match name in Binding object")
    binding["metadata"] = with_target_name(mapping(binding, "metadata"), target)
    objects.admission.admit_part(target.kind, target.key, binding, options, "binding")
    # To a webhook a binding is no update of the Pod.
    options.answers = None
    node = find_field(binding, "target", "name")
    if not node:
        # As on a real server: a plain error of the handler, which is no Invalid.
        raise errors.Refusal(500, "", "target.name: Required value")
    item = objects.item(target.kind, target.key)
    pod = item.parse()
    uid = find_field(binding, "metadata", "uid")
    # Two schedulers may bind at once: the second learns of it, and the Pod starts once.
    if pod["spec"].get("nodeName"):
        text = f'pod {target.name} is already assigned to node "{pod["spec"]["nodeName"]}"'
        raise errors.conflict("", "pods/binding", target.name, text)
    if item.deleting or (uid and uid != item.uid):
        raise errors.conflict(
            "", "pods/binding", target.name, f"pod {target.name} is being deleted, cannot be assigned"
        )
    pod["spec"]["nodeName"] = node
    objects.update(target.kind, item, pod, options)
    _mark_scheduled(objects, target)
    return _success()


def binding_target(request: Request, target: Target) -> Target:
    """The Pod that a binding names."""
    name = find_field(read_object(request, target.kind), "metadata", "name")
    return replace(target, name=str(name or ""), subresource="binding")


def evict(objects: Objects, request: Request, target: Target) -> Response:
    """Delete a Pod, which says before that this says nothing about its program."""
    eviction, options = read_object(request, target.kind), write_options(request, "CreateOptions")
    name = find_field(eviction, "metadata", "name") or target.name
    if name != target.name:
        raise errors.bad_request("name in URL does not match name in Eviction object")
    eviction["metadata"] = with_target_name(mapping(eviction, "metadata"), target)
    delete_options = eviction.get("deleteOptions") or {}  # of any type still
    try:
        decode_fields(schema_node(f"{META}DeleteOptions"), delete_options, [])
    except Undecodable as error:
        text = f'Eviction in version "v1" cannot be handled as a Eviction: {error}'
        raise errors.bad_request(text) from error
    conditions = mapping(delete_options, "preconditions")
    options.dry_run |= bool(delete_options.get("dryRun"))
    objects.admission.admit_part(target.kind, target.key, eviction, options, "eviction")
    options.answers = None
    item = objects.item(target.kind, target.key)
    deletion = Deletion(delete_options.get("gracePeriodSeconds"), uid=str(conditions.get("uid") or ""))
    # Before the condition is written: what is refused leaves no trace.
    objects.check_preconditions(target.kind, item, deletion)
    budgets.charge(objects, item.parse(), dry_run=options.dry_run)
    if not (options.dry_run or item.deleting):
        condition = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
        _set_condition(objects, target, condition | {"message": "Eviction API: evicting"})
    # Read again: the condition was a write, and its version is another.
    objects.delete(target.kind, objects.item(target.kind, target.key), deletion, options)
    return _success()


def with_target_name(metadata: Json, target: Target) -> Json:
    """Return the metadata of a document for a Pod's subresource, with the Pod's own name and namespace."""
    namespace, name = target.key
    return {**metadata, "name": name, "namespace": namespace}


def _success() -> Response:
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    return json_response(status, 201)


def _mark_scheduled(objects: Objects, target: Target) -> None:
    """The condition that a Pod has its node."""
    item = objects.item(target.kind, target.key)
    pod = item.parse()
    if not find_field(pod, "spec", "nodeName"):
        return  # a dry run
    _set_condition(objects, target, {"type": "PodScheduled", "status": "True"})


def _set_condition(objects: Objects, target: Target, condition: Json) -> None:
    pod = objects.item(target.kind, target.key).parse()
    status = pod.setdefault("status", {})
    others = [other for other in sequence(status, "conditions") if other["type"] != condition["type"]]
    times = {"lastProbeTime": None, "lastTransitionTime": objects.clock.stamp()}
    status["conditions"] = [*others, condition | times]
    # Past the rules of an update: only this condition, the server's own, differs from what is stored.
    objects.store.put(target.kind.bucket, pod)
