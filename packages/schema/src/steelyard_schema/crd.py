"""The CustomResourceDefinitions of the evaluation kinds and of training jobs, generated from the schema."""

from steelyard_common.types import Json
from steelyard_schema.resources import GROUP, RESOURCES, VERSION, ResourceKind
from steelyard_schema.structural import structural
from steelyard_schema.training.crd import training_definitions

IMMUTABLE = {"rule": "self == oldSelf", "message": "spec is immutable; make a new resource"}

_CONDITION: Json = {
    "type": "object",
    "required": ["type", "status"],
    "properties": {
        "type": {"type": "string", "description": "Type of the condition."},
        "status": {
            "type": "string",
            "enum": ["True", "False", "Unknown"],
            "description": "Whether it holds.",
        },
        "reason": {"type": "string", "description": "Why, in one word."},
        "message": {"type": "string", "description": "Why, in a sentence."},
        "lastTransitionTime": {"type": "string", "format": "date-time", "description": "Since when."},
        "observedGeneration": {
            "type": "integer",
            "format": "int64",
            "description": "The generation it is about.",
        },
    },
}


def custom_resource_definitions() -> list[Json]:
    """Return all definitions, in the order of their kinds' names, training jobs last."""
    return [*(_definition(kind) for kind in RESOURCES.values()), *training_definitions()]


def spec_schema(kind: ResourceKind) -> Json:
    """Return the structural schema of the kind's spec."""
    return structural(kind.spec.model_json_schema(by_alias=True))


def _definition(kind: ResourceKind) -> Json:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind.kind,
                "listKind": f"{kind.kind}List",
                "plural": kind.plural,
                "singular": kind.singular,
                "shortNames": list(kind.short_names),
                "categories": ["dyff"],
            },
            "versions": [_version(kind)],
        },
    }


def _version(kind: ResourceKind) -> Json:
    replicas: list[Json] = []
    if kind.kind == "InferenceSession":  # priority 1: only `kubectl get -o wide` shows the column
        replicas = [
            {"name": "Replicas", "type": "integer", "jsonPath": ".status.readyReplicas", "priority": 1}
        ]
    return {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            {"name": "Status", "type": "string", "jsonPath": ".status.status"},
            {"name": "Reason", "type": "string", "jsonPath": ".status.reason"},
            *replicas,
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
        "schema": {"openAPIV3Schema": _schema(kind)},
    }


def _schema(kind: ResourceKind) -> Json:
    spec = spec_schema(kind)
    return {
        "type": "object",
        "description": kind.spec.__doc__ or "",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": f"{GROUP}/{VERSION}"},
            "kind": {"type": "string", "description": kind.kind},
            "metadata": {"type": "object"},
            "spec": {**spec, "x-kubernetes-validations": [IMMUTABLE]},
            "status": _status(),
        },
    }


def _status() -> Json:
    return {
        "type": "object",
        "description": "What the operator has observed and done.",
        # An older definition in the cluster must not prune what a newer operator remembers in its status.
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {
            "status": {"type": "string", "description": "The entity's status, for reading."},
            "reason": {"type": "string", "description": "The entity's reason, for reading."},
            "readyReplicas": {"type": "integer", "description": "Replicas that are ready."},
            "observedGeneration": {
                "type": "integer",
                "format": "int64",
                "description": "The generation observed.",
            },
            "conditions": {
                "type": "array",
                "description": "Every type of the kind, always.",
                "items": _CONDITION,
                # By type, so that two appliers of conditions do not replace each other's.
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
            },
        },
    }
