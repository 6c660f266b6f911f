"""The CustomResourceDefinitions of the kinds of training jobs."""

from steelyard_common.types import Json
from steelyard_schema.structural import structural
from steelyard_schema.training.kinds import TRAINING, TrainingKind
from steelyard_schema.training.status import STATUS
from steelyard_schema.unknown_fields import complete, pod_template_schema


def training_definitions() -> list[Json]:
    """Return all definitions, in the order of `TRAINING`."""
    return [_definition(kind) for kind in TRAINING.values()]


def training_spec_schema(kind: TrainingKind) -> Json:
    """Return the structural schema of a kind's spec. A null counts as absent, as in v1, so nothing is nullable.

    Its templates have all fields of a Pod's: as with v1's definitions, an unknown one is refused, and not lost.
    """
    schema = structural(kind.spec.model_json_schema(by_alias=True))
    _forbid_nulls(schema)
    if kind.replicas:
        replica = schema["properties"][kind.replicas]["additionalProperties"]
        complete(replica["properties"]["template"], pod_template_schema())
    return schema


def _forbid_nulls(node: Json) -> None:
    # v1's definitions have no nullable field: a null in a manifest is left out by the API server, as Go's
    # decoder does.
    node.pop("nullable", None)
    for field in node.get("properties", {}).values():
        _forbid_nulls(field)
    for word in ("items", "additionalProperties"):
        if word in node:
            _forbid_nulls(node[word])


def _definition(kind: TrainingKind) -> Json:
    names: Json = {
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
        "plural": kind.plural,
        "singular": kind.singular,
    }
    if kind.short_names:
        names |= {"shortNames": list(kind.short_names), "categories": ["dyff"]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": names,
            "versions": [_version(kind)],
        },
    }


def _version(kind: TrainingKind) -> Json:
    age = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
    # The condition that changed last stands last, as in v1: it is the state.
    state = {"name": "State", "type": "string", "jsonPath": ".status.conditions[-1:].type"}
    version: Json = {"name": kind.version, "served": True, "storage": True}
    if kind.job:
        # A Framework has no status: it does not run.
        version["subresources"] = {"status": {}, **_scale(kind)}
    version["additionalPrinterColumns"] = [state, age] if kind.job else [age]
    return {**version, "schema": {"openAPIV3Schema": _schema(kind)}}


def _scale(kind: TrainingKind) -> Json:
    if not kind.scalable:
        return {}
    return {
        "scale": {
            "specReplicasPath": f".spec.{kind.replicas}.{kind.scalable}.replicas",
            "statusReplicasPath": f".status.replicaStatuses.{kind.scalable}.active",
            "labelSelectorPath": f".status.replicaStatuses.{kind.scalable}.selector",
        }
    }


def _schema(kind: TrainingKind) -> Json:
    rules = [{"rule": rule, "message": message} for rule, message in kind.rules]
    return {
        "type": "object",
        "description": kind.spec.__doc__ or "",
        "required": ["spec"],
        "x-kubernetes-validations": rules,
        "properties": {
            "apiVersion": {"type": "string", "description": f"{kind.group}/{kind.version}"},
            "kind": {"type": "string", "description": kind.kind},
            "metadata": {"type": "object"},
            "spec": training_spec_schema(kind),
            **({"status": STATUS} if kind.job else {}),
        },
    }
