"""Options of a deletion: the DeleteOptions in the body, or else the query parameters, read and checked."""

from steelyard_common.types import Json, mapping
from steelyard_local_kubernetes.apiserver import errors
from steelyard_local_kubernetes.apiserver.content import BadContent, decode_json
from steelyard_local_kubernetes.apiserver.decoding import Undecodable, decode_fields
from steelyard_local_kubernetes.apiserver.errors import Cause
from steelyard_local_kubernetes.apiserver.managed.yaml import BadYaml, yaml_object
from steelyard_local_kubernetes.apiserver.messages import Request
from steelyard_local_kubernetes.apiserver.options import Deletion, Options
from steelyard_local_kubernetes.apiserver.parameters import (
    META_GROUP,
    YAML,
    content_type,
    dry_run_causes,
    integer,
    write_options,
)
from steelyard_local_kubernetes.apiserver.protobuf.body import PROTOBUF, decode_envelope, envelope
from steelyard_local_kubernetes.apiserver.published import META, schema_node

_CHOICES = ["Foreground", "Background", "Orphan"]


def deletion_options(request: Request) -> tuple[Deletion, Options]:
    """Options of the deletion, and those of the write.

    As on a real server the query does not count where there is a body: kubectl asks for a dry run in the body alone.
    """
    content = _body(request) if request.body.strip() else _query(request)
    causes = _causes(content)
    if causes:
        raise errors.is_invalid(META_GROUP, "DeleteOptions", "", causes)
    conditions = mapping(content, "preconditions")
    propagation = content.get("propagationPolicy") or ""
    # The field from before propagation policies; old clients still send it.
    if (orphan := content.get("orphanDependents")) is not None:
        propagation = "Orphan" if orphan else "Background"
    deletion = Deletion(
        content.get("gracePeriodSeconds"),
        propagation,
        str(conditions.get("uid") or ""),
        str(conditions.get("resourceVersion") or ""),
        cascades=orphan is False,
    )
    options = write_options(request, "DeleteOptions", dry_run=content.get("dryRun") or [])
    options.sent |= _options_object(deletion)
    return deletion, options


def _body(request: Request) -> Json:
    try:
        if content_type(request) == PROTOBUF:
            content = decode_envelope(envelope(request.body))
        elif content_type(request) == YAML:
            content = yaml_object(request.body)
        else:
            content = decode_json(request.body)
    except (BadContent, BadYaml) as error:
        raise errors.bad_request(f"invalid DeleteOptions: {error}") from error
    if not isinstance(content, dict):
        raise errors.bad_request("invalid DeleteOptions: not an object")
    try:
        decode_fields(schema_node(f"{META}DeleteOptions"), content, [])
    except Undecodable as error:
        raise errors.bad_request(f"invalid DeleteOptions: {error}") from error
    return content


def _query(request: Request) -> Json:
    content: Json = {}
    if "gracePeriodSeconds" in request.query:
        content["gracePeriodSeconds"] = integer(request, "gracePeriodSeconds", signed=True)
    if policy := request.query.get("propagationPolicy"):
        content["propagationPolicy"] = policy
    if "orphanDependents" in request.query:
        content["orphanDependents"] = request.flag("orphanDependents")
    if "dryRun" in request.query:
        content["dryRun"] = list(request.all_values("dryRun"))
    return content


def _causes(content: Json) -> list[Cause]:
    policy, causes = content.get("propagationPolicy"), []
    if policy is not None and content.get("orphanDependents") is not None:
        text = "orphanDependents and deletionPropagation cannot be both set"
        causes.append(errors.invalid("propagationPolicy", policy, text))
    if policy is not None and policy not in _CHOICES:
        causes.append(errors.not_supported("propagationPolicy", policy, [*_CHOICES, "nil"]))
    return causes + dry_run_causes(content.get("dryRun") or [])


def _options_object(deletion: Deletion) -> Json:
    """The options of a deletion as their object has them."""
    fields: Json = {"gracePeriodSeconds": deletion.grace, "propagationPolicy": deletion.propagation or None}
    conditions = {"uid": deletion.uid, "resourceVersion": deletion.version}
    conditions = {name: value for name, value in conditions.items() if value}
    fields["preconditions"] = conditions or None
    return {name: value for name, value in fields.items() if value is not None}
