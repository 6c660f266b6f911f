"""The `scale` subresource: the one number of replicas, wherever a kind keeps it. `core.py` asks for it."""

from typing import Any

import orjson

from steelyard_common.types import Json
from steelyard_kube.objects import read_spec
from steelyard_local_kubernetes.apiserver import errors
from steelyard_local_kubernetes.apiserver.bodies import read_object
from steelyard_local_kubernetes.apiserver.columns import selector_text
from steelyard_local_kubernetes.apiserver.decoding import Undecodable, decode_fields
from steelyard_local_kubernetes.apiserver.errors import Refusal
from steelyard_local_kubernetes.apiserver.item import Item
from steelyard_local_kubernetes.apiserver.kinds import ResourceType, ScalePaths, find_field
from steelyard_local_kubernetes.apiserver.managed.apply import (
    APPLY,
    check_config,
    conflict_refusal,
    read_config,
)
from steelyard_local_kubernetes.apiserver.managed.entries import (
    Entry,
    Manager,
    applier,
    encode_managers,
    updater,
)
from steelyard_local_kubernetes.apiserver.managed.fieldset import Path, field_set
from steelyard_local_kubernetes.apiserver.managed.ownership import FIRST, Conflicts, apply_fields
from steelyard_local_kubernetes.apiserver.managed.tracking import make_write, read_managers
from steelyard_local_kubernetes.apiserver.messages import Request, Response, json_response
from steelyard_local_kubernetes.apiserver.objects import Objects
from steelyard_local_kubernetes.apiserver.options import Options
from steelyard_local_kubernetes.apiserver.parameters import content_type, patch_options, write_options
from steelyard_local_kubernetes.apiserver.patch_refusals import patch_refusal
from steelyard_local_kubernetes.apiserver.patching import make_patch
from steelyard_local_kubernetes.apiserver.published import schema_node
from steelyard_local_kubernetes.apiserver.rest import Target

API_VERSION, KIND = "autoscaling/v1", "Scale"
_SHOWN = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def handle(objects: Objects, request: Request, target: Target) -> Response:
    item, scaling = objects.item(target.kind, target.key), target.kind.scaling
    assert scaling is not None
    match request.method:
        case "GET":
            return json_response(make_scale(target.kind, scaling, item.parse()))
        case "PUT":
            scale = read_object(request, target.kind)
            options = write_options(request, "UpdateOptions")
            options.part = "scale"
            return _write(objects, target, item, scale, options)
        case "PATCH" if content_type(request) == APPLY:
            return _apply(objects, request, target, item)
        case "PATCH":
            options = patch_options(request)
            options.part = "scale"
            patch, obj = make_patch(request, target.kind, options), item.parse()
            # A Scale without a number cannot be shown; a patch may be what sets the first one.
            if find_field(obj, *scaling.replicas) is None:
                set_field(obj, scaling.replicas, 0)
            scale = patch(make_scale(target.kind, scaling, obj))
            try:
                return _write(objects, target, item, scale, options)
            except Refusal as refusal:
                raise patch_refusal(refusal) from refusal
    raise errors.method_not_allowed()


def _apply(objects: Objects, request: Request, target: Target, item: Item) -> Response:
    """Server-side apply of the number alone, which is a field of the object like any other."""
    kind, scaling = target.kind, target.kind.scaling
    assert scaling is not None
    options = patch_options(request, apply=True)
    options.applied, options.part = True, "scale"
    config = read_config(request, options)
    check_config(API_VERSION, KIND, config)
    config.setdefault("metadata", {}).setdefault("name", target.name)
    metadata, replicas = _read_scale(target, config)
    live = item.parse()
    managers = read_managers(live["metadata"].pop("managedFields", None))
    write = make_write(kind, kind.api_version, "scale", "")
    desired: Json = {}
    if find_field(config, "spec", "replicas") is not None:
        set_field(desired, scaling.replicas, replicas)
    if not managers:
        path = tuple(f"f:{name}" for name in scaling.replicas)
        managers = {updater(FIRST, kind.api_version, "scale"): Entry(field_set(path), kind.api_version)}
    try:
        result = apply_fields(
            write, live, desired, managers, applier(options.manager, "scale"), force=request.flag("force")
        )
    except Conflicts as error:
        raise conflict_refusal([_in_scale(*conflict) for conflict in error.conflicts]) from error
    obj = {
        **result.obj,
        "metadata": {**result.obj["metadata"], "managedFields": encode_managers(result.managers)},
    }
    obj["metadata"]["resourceVersion"] = metadata.get("resourceVersion") or str(item.version)
    raw = objects.update(kind.storage_version, item, obj, options)
    return json_response(make_scale(kind, scaling, orjson.loads(raw)))


def _in_scale(manager: Manager, entry: Entry, path: Path) -> tuple[Manager, Entry, Path]:
    """A conflict of the object's field as one of the Scale's."""
    if manager.operation == "Update":
        manager = manager._replace(api_version=API_VERSION)
    return manager, entry, ("f:spec", "f:replicas")


def make_scale(kind: ResourceType, scaling: ScalePaths, obj: Json) -> Json:
    replicas = find_field(obj, *scaling.replicas)
    if replicas is None:
        text = f'the spec replicas field ".{".".join(scaling.replicas)}" does not exist'
        raise Refusal(
            500, "InternalError", f"Internal error occurred: {text}", {"causes": [{"message": text}]}
        )
    status: Json = {"replicas": find_field(obj, *scaling.current) or 0}
    if selector := _selector(kind, scaling, obj):
        status["selector"] = selector
    return {
        "kind": KIND,
        "apiVersion": API_VERSION,
        "metadata": {key: obj["metadata"][key] for key in _SHOWN if key in obj["metadata"]},
        # Go leaves out a zero of this field.
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def _selector(kind: ResourceType, scaling: ScalePaths, obj: Json) -> str:
    if not kind.custom:
        return selector_text(find_field(obj, *scaling.selector) or {})
    return str(find_field(obj, *scaling.selector) or "") if scaling.selector else ""


def _write(objects: Objects, target: Target, item: Item, scale: Json, options: Options) -> Response:
    scaling = target.kind.scaling
    assert scaling is not None
    metadata, replicas = _read_scale(target, scale)
    obj = item.parse()
    set_field(obj, scaling.replicas, replicas)
    # The Scale's version is the object's: who scales what has changed since gets a conflict.
    obj["metadata"]["resourceVersion"] = metadata.get("resourceVersion") or str(item.version)
    obj["metadata"]["uid"] = metadata.get("uid") or item.uid
    # A write of the whole object like any other: its rules, its generation and its watchers see it.
    raw = objects.update(target.kind.storage_version, item, obj, options)
    return json_response(make_scale(target.kind, scaling, orjson.loads(raw)))


def _read_scale(target: Target, scale: Json) -> tuple[Json, int]:
    """The metadata and the number in a Scale, if it is one of this object."""
    if (scale.get("apiVersion", API_VERSION), scale.get("kind", KIND)) != (API_VERSION, KIND):
        raise errors.bad_request(f"the object provided is unrecognized (must be of type {KIND})")
    try:
        decode_fields(schema_node(f"io.k8s.api.autoscaling.v1.{KIND}"), scale, [])
    except Undecodable as error:
        raise errors.bad_request(f'Scale in version "v1" cannot be handled as a Scale: {error}') from error
    metadata, spec = scale.get("metadata"), read_spec(scale)
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or not name:
        text = (
            f"the name of the object ({target.name} based on URL) was undeterminable: name must be provided"
        )
        raise errors.bad_request(text)
    if name != target.name:
        text = f"the name of the object ({name}) does not match the name on the URL ({target.name})"
        raise errors.bad_request(text)
    replicas = spec.get("replicas") or 0
    if replicas < 0:
        raise _negative(target, replicas)
    return metadata, replicas


def _negative(target: Target, replicas: int) -> Refusal:
    kind = target.kind
    if kind.custom and kind.scaling:
        where = "." + ".".join(kind.scaling.replicas)
        cause = errors.invalid(where, replicas, "should be a non-negative integer")
        return errors.is_invalid(kind.group, kind.kind, target.name, [cause])
    cause = errors.invalid("spec.replicas", replicas, "must be greater than or equal to 0")
    return errors.is_invalid("autoscaling", KIND, target.name, [cause])


def set_field(obj: Any, path: tuple[str, ...], value: object) -> None:
    """Set a field at a path of keys."""
    for key in path[:-1]:
        if not isinstance(obj.get(key), dict):
            obj[key] = {}
        obj = obj[key]
    obj[path[-1]] = value
