"""Trace of a workflow through the operator: from the annotation of its resource into the environment of its steps."""

from collections.abc import Mapping

from steelyard.telemetry.tracing import TRACEPARENT, valid
from steelyard_common.types import Json, sequence
from steelyard_kube.objects import read_annotations
from steelyard_schema.names import TRACE

SPANNED = frozenset({"Job", "Deployment", "Pod", "InferenceSession"})
"""Kinds of children that run something; the others are there for these."""


def read_trace(resource: Json) -> str | None:
    """Return the span that a resource belongs to."""
    annotation = read_annotations(resource).get(TRACE)
    return valid(annotation) if isinstance(annotation, str) else None


def carry(child: Json, traceparent: str | None, more: Mapping[str, str]) -> Json:
    """Return a child that belongs to a span: by its annotation, and by variables of its containers.

    `more` are variables with which programs send spans of their own. What a container sets itself is left alone.
    """
    if traceparent is None or child["kind"] not in SPANNED:
        return child
    metadata = child["metadata"]
    annotations = {TRACE: traceparent, **read_annotations(child)}
    carried = {**child, "metadata": {**metadata, "annotations": annotations}}
    variables = {TRACEPARENT: traceparent, **more}
    if child["kind"] == "Pod":
        return {**carried, "spec": _with_variables(child["spec"], variables)}
    if template := child["spec"].get("template"):
        template = {**template, "spec": _with_variables(template["spec"], variables)}
        return {**carried, "spec": {**child["spec"], "template": template}}
    return carried


def _with_variables(spec: Json, variables: Mapping[str, str]) -> Json:
    changed = {
        field: [_with_environment(container, variables) for container in spec[field]]
        for field in ("initContainers", "containers")
        if spec.get(field)
    }
    return {**spec, **changed}


def _with_environment(container: Json, variables: Mapping[str, str]) -> Json:
    env = sequence(container, "env")
    own = {variable["name"] for variable in env}
    # Programs of others get the trace that they belong to, but no order to send spans.
    ours = any(word.startswith("steelyard.steps.") for word in sequence(container, "command"))
    added = [
        {"name": name, "value": value}
        for name, value in variables.items()
        if name not in own and (ours or name == TRACEPARENT)
    ]
    return {**container, "env": [*env, *added]}
