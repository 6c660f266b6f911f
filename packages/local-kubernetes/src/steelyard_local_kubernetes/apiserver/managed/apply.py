"""Server-side apply: the object in a request's body over the one that is stored. `rest.py` and `scale.py` ask."""

import orjson

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver import errors
from steelyard_local_kubernetes.apiserver.content import TOO_DEEP, is_too_deep
from steelyard_local_kubernetes.apiserver.errors import Cause, Refusal
from steelyard_local_kubernetes.apiserver.kinds import ResourceType, find_field
from steelyard_local_kubernetes.apiserver.managed.entries import Entry, Manager, applier, encode_managers
from steelyard_local_kubernetes.apiserver.managed.fieldset import Path, path_text
from steelyard_local_kubernetes.apiserver.managed.ownership import (
    ApplyResult,
    Conflicts,
    Write,
    apply_fields,
    yielding,
)
from steelyard_local_kubernetes.apiserver.managed.reading import apply_faults
from steelyard_local_kubernetes.apiserver.managed.shape import ANY, below
from steelyard_local_kubernetes.apiserver.managed.tracking import read_managers
from steelyard_local_kubernetes.apiserver.managed.yaml import BadYaml, yaml_object
from steelyard_local_kubernetes.apiserver.messages import Request
from steelyard_local_kubernetes.apiserver.options import Options
from steelyard_local_kubernetes.apiserver.schema import Node

APPLY = "application/apply-patch+yaml"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def read_config(request: Request, options: Options) -> Json:
    """The object in the body, as JSON or YAML."""
    twice: list[str] = []
    try:
        config = yaml_object(request.body, twice if options.validation != "Ignore" else None)
    except BadYaml as error:
        raise errors.bad_request(f"error decoding YAML: {error}") from error
    if is_too_deep(config):
        raise errors.bad_request(f"error decoding YAML: {TOO_DEEP}")
    if twice:
        if options.validation == "Strict":
            text = "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:"
            raise errors.bad_request("\n  ".join([text, *twice]))
        options.warnings += twice
    return config


def apply_config(
    kind: ResourceType, write: Write, live: Json, config: Json, options: Options, *, force: bool
) -> Json:
    """The object to be stored, with its managed fields; `live` is empty for a new object."""
    check_config(kind.api_version, kind.kind, config)
    live, known = _without_managers(live)
    manager = applier(options.manager, write.subresource)
    if faults := apply_faults(write.node, config):
        text = faults[0] if len(faults) == 1 else "errors:\n  " + "\n  ".join(faults)
        name = f"{find_field(config, 'metadata', 'namespace') or ''}/{find_field(config, 'metadata', 'name') or ''}"
        described = f"{name}; {_group_version(kind.api_version)}, Kind={kind.kind}"
        raise Refusal(500, "", f"failed to create typed patch object ({described}): {text}")
    managers = read_managers(known)
    try:
        result = apply_fields(write, live, config, managers, manager, force=force)
    except Conflicts as error:
        result = _apply_after_kubectl(write, live, config, known, manager, error)
    obj = result.obj
    if kind.custom and (causes := null_causes(write.node, obj)):
        name = find_field(obj, "metadata", "name") or ""
        raise errors.is_invalid(kind.group, kind.kind, name, causes)
    if entries := encode_managers(result.managers):
        obj = {**obj, "metadata": {**obj.get("metadata", {}), "managedFields": entries}}
    if manager.name == "kubectl":
        _renew_last_applied(obj, config)
    return obj


def check_config(api_version: str, kind: str, config: Json) -> None:
    version, name = config.get("apiVersion") or "", config.get("kind") or ""
    if (version, name) != (api_version, kind):
        raise errors.bad_request(f"invalid object type: {_group_version(str(version))}, Kind={name}")
    metadata = config.get("metadata")
    if isinstance(metadata, dict) and metadata.get("managedFields") is not None:
        raise errors.bad_request("metadata.managedFields must be nil")


def _group_version(api_version: str) -> str:
    """Group and version as Go prints them with a kind."""
    return api_version if "/" in api_version else f"/{api_version}"


def _without_managers(obj: Json) -> tuple[Json, object]:
    metadata = dict(obj.get("metadata") or {})
    known = metadata.pop("managedFields", None)
    return ({**obj, "metadata": metadata} if obj else {}), known


def null_causes(node: Node, value: object, path: str = "") -> list[Cause]:
    """Nulls of a custom object where none may be: what other requests leave out is refused in an apply."""
    causes: list[Cause] = []
    if isinstance(value, dict):
        for name, member in value.items():
            inner = below(node, name)
            where = f"{path}.{name}" if path else name
            if member is not None or path == "metadata":
                causes += null_causes(inner, member, where)
            elif inner.type and not inner.nullable and not inner.has_default:
                text = f'Invalid value: "null": {where} in body must be of type {inner.type}: "null"'
                causes.append(Cause(where, text, "FieldValueTypeInvalid"))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            causes += null_causes(node.items or ANY, item, f"{path}[{index}]")
    return causes


# ---- conflicts


def _apply_after_kubectl(
    write: Write, live: Json, config: Json, known: object, manager: Manager, error: Conflicts
) -> ApplyResult:
    """Apply with force where kubectl's earlier client-side apply set all that conflicts; refuse otherwise."""
    text = find_field(live, "metadata", "annotations", _LAST_APPLIED)
    conflicts = error.conflicts
    if manager.name == "kubectl" and isinstance(text, str) and (last := _read_last_applied(write, text)):
        yields = yielding(write.node, live, last)
        conflicts = [conflict for conflict in conflicts if not yields(conflict[2])]
        if not conflicts:
            return apply_fields(write, live, config, read_managers(known), manager, force=True)
    raise conflict_refusal(conflicts)


def _read_last_applied(write: Write, text: str) -> Json:
    try:
        last = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    fits = isinstance(last, dict) and last.get("apiVersion") == write.api_version
    return last if fits and not apply_faults(write.node, last) else {}


def conflict_refusal(conflicts: list[tuple[Manager, Entry, Path]]) -> Refusal:
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {_manager_text(manager)}",
            "field": path_text(path),
        }
        for manager, _, path in conflicts
    ]
    return Refusal(409, "Conflict", _message(conflicts), {"causes": causes})


def _message(conflicts: list[tuple[Manager, Entry, Path]]) -> str:
    if len(conflicts) == 1:
        manager, _, path = conflicts[0]
        return f"Apply failed with 1 conflict: conflict with {_manager_text(manager)}: {path_text(path)}"
    lines: list[str] = []
    for manager in dict.fromkeys(manager for manager, _, _ in conflicts):
        lines.append(f"conflicts with {_manager_text(manager)}:")
        lines += [f"- {path_text(path)}" for other, _, path in conflicts if other == manager]
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)


def _manager_text(manager: Manager) -> str:
    text = orjson.dumps(manager.name).decode()
    if manager.subresource:
        text += f' with subresource "{manager.subresource}"'
    return f"{text} using {manager.api_version}" if manager.operation == "Update" else text


# ---- kubectl's annotation


def _renew_last_applied(obj: Json, config: Json) -> None:
    """Keep the annotation of client-side apply true, where there is one: the next user may not apply by server."""
    if not find_field(obj, "metadata", "annotations", _LAST_APPLIED):
        return
    metadata = {**(config.get("metadata") or {})}
    annotations = {**(metadata.get("annotations") or {})}
    annotations.pop(_LAST_APPLIED, None)
    if annotations or "annotations" in metadata:
        metadata["annotations"] = annotations
    text = orjson.dumps({**config, "metadata": metadata}, option=orjson.OPT_SORT_KEYS).decode() + "\n"
    kept = {**obj["metadata"]["annotations"], _LAST_APPLIED: text}
    obj["metadata"] = {**obj["metadata"], "annotations": kept}
