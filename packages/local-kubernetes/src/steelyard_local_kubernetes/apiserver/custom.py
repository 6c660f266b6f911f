"""Kinds from CustomResourceDefinitions: their fields, and the faults of an object, in the real server's words.

Both are compiled when a kind is first used: a start with many definitions, whose schemas hold whole Pods, uses few.
"""

from dataclasses import replace
from functools import cache, partial

from steelyard_common.types import Json, mapping, sequence
from steelyard_local_kubernetes.apiserver.errors import Cause, invalid
from steelyard_local_kubernetes.apiserver.expressions.rules import compile_rules, rule_causes
from steelyard_local_kubernetes.apiserver.kinds import Check, ResourceType, Rules, ScalePaths
from steelyard_local_kubernetes.apiserver.published import metadata_node
from steelyard_local_kubernetes.apiserver.schema import Node, compile_schema
from steelyard_local_kubernetes.apiserver.validation import Validator


def read_kinds(crd: Json) -> list[ResourceType]:
    """One per served version."""
    spec = crd["spec"]
    stored = next(_kind(spec, version) for version in spec["versions"] if version.get("storage"))
    others = [
        _kind(spec, version)
        for version in spec["versions"]
        if version.get("served") and not version.get("storage")
    ]
    served = (
        [stored]
        # A version may be stored and not served: its objects are then seen in the others' form.
        if any(version.get("storage") and version.get("served") for version in spec["versions"])
        else []
    )
    return served + [_make_version(older, stored) for older in others]


def _make_version(kind: ResourceType, stored: ResourceType) -> ResourceType:
    """A version other than the stored one: the same object by another name (conversion strategy None)."""
    return replace(
        kind,
        stored_as=stored,
        convert_in=partial(_with_version, stored.api_version),
        convert_out=partial(_with_version, kind.api_version),
    )


def _with_version(api_version: str, obj: Json) -> Json:
    return {**obj, "apiVersion": api_version}


def _kind(spec: Json, version: Json) -> ResourceType:
    names = spec["names"]
    schema = version["schema"]["openAPIV3Schema"]
    subresources = mapping(version, "subresources")
    scaling = _scaling(subresources["scale"]) if "scale" in subresources else None
    check = _checks(schema)
    return ResourceType(
        group=spec["group"],
        version=version["name"],
        plural=names["plural"],
        kind=names["kind"],
        node=cache(partial(_node, schema)),
        rules=Rules(check=check, status_check=check),
        singular=names.get("singular") or names["kind"].lower(),
        list_kind=names.get("listKind") or "",
        short_names=tuple(sequence(names, "shortNames")),
        categories=tuple(sequence(names, "categories")),
        namespaced=spec["scope"] == "Namespaced",
        has_status="status" in subresources,
        subresources=("scale",) if scaling else (),
        scaling=scaling,
        unconditional=False,
        selectable=frozenset(
            field["jsonPath"].removeprefix(".") for field in sequence(version, "selectableFields")
        ),
        custom=True,
        keeps_metadata=True,
        deprecation=_deprecation(spec, version),
        schema=schema,
        columns=tuple(sequence(version, "additionalPrinterColumns")),
    )


def _deprecation(spec: Json, version: Json) -> str:
    if not version.get("deprecated"):
        return ""
    own = version.get("deprecationWarning")
    return own or f"{spec['group']}/{version['name']} {spec['names']['kind']} is deprecated"


def _scaling(scale: Json) -> ScalePaths:
    paths = (scale["specReplicasPath"], scale["statusReplicasPath"], scale.get("labelSelectorPath") or "")
    return ScalePaths(*(tuple(path.strip(".").split(".")) if path else () for path in paths))


def _node(schema: Json) -> Node:
    """The schema's fields, and those that every object has."""
    node = compile_schema(schema)
    text = Node(type="string")
    # The server's own metadata, whatever the definition says of it.
    own = {"apiVersion": text, "kind": text, "metadata": metadata_node()}
    node.properties = {**(node.properties or {}), **own}
    node.preserve = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    _name_metadata(node)
    return node


def _name_metadata(node: Node) -> None:
    """The metadata of objects within the object is that of every object."""
    if node.embedded:
        node.metadata = metadata_node
    for below in (*(node.properties or {}).values(), node.items, node.values):
        if below is not None and below.struct == "":
            _name_metadata(below)


def _checks(schema: Json) -> Check:
    compiled = cache(lambda: (Validator(schema), compile_rules(schema)))

    def check(obj: Json, old: Json | None) -> list[Cause]:
        try:
            validator, rules = compiled()
        except Exception as error:  # noqa: BLE001 - an older version stored what this one refuses
            return [invalid("", "", f"its definition cannot check objects: {str(error)[:500]}")]
        causes = validator.causes(obj, old)
        return causes + rule_causes(rules, obj, old, causes)

    return check
