"""CustomResourceDefinitions: completed, and refused where a real server refuses them or this one cannot serve them."""

from typing import Any

from steelyard.local.apiserver.errors import Cause, forbidden_field, invalid, required, unsupported
from steelyard.local.apiserver.expressions.rules import ruled
from steelyard.local.apiserver.kinds import Rules, field_of
from steelyard.local.apiserver.names import name_causes
from steelyard.local.apiserver.rules.common import defaults, immutable
from steelyard.local.apiserver.rules.structural import structural_causes
from steelyard.local.apiserver.schema import compile_schema
from steelyard.local.apiserver.validation import Validator
from steelyard.types import Json, mapping


def _prepare(crd: Json) -> None:
    # Which names are accepted only `definitions.py` says, once the definition is committed.
    crd["status"] = {"conditions": [], "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": []}
    names = field_of(crd, "spec", "versions") or []
    crd["status"]["storedVersions"] = [
        name_entry.get("name") for name_entry in names if name_entry.get("storage")
    ]


def _default(crd: Json) -> None:
    spec = crd.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = names.get("kind") or ""
    defaults(names, singular=kind.lower(), listKind=f"{kind}List")
    defaults(spec, conversion={"strategy": "None"}, versions=[])
    defaults(spec["conversion"], strategy="None")


def _check(crd: Json, old: Json | None) -> list[Cause]:
    spec, names = crd["spec"], crd["spec"]["names"]
    causes = _names_causes(crd, spec, names)
    if spec.get("scope") not in ("Namespaced", "Cluster"):
        causes.append(unsupported("spec.scope", spec.get("scope", ""), ["Cluster", "Namespaced"]))
    if spec["conversion"]["strategy"] != "None":
        causes.append(forbidden_field("spec.conversion.strategy", "this server converts by no webhook"))
    causes += _version_causes(spec["versions"])
    # Objects are stored by these names: under others they would not be found again.
    for name in ("group", "scope", "names.kind", "names.plural"):
        causes += immutable(crd, old, f"spec.{name}")
    return causes


def _names_causes(crd: Json, spec: Json, names: Json) -> list[Cause]:
    causes = []
    for name in ("group",):
        causes += (
            name_causes(spec.get(name) or "", f"spec.{name}")
            if spec.get(name)
            else [required(f"spec.{name}")]
        )
    for name in ("plural", "singular", "kind", "listKind"):
        value = names.get(name) or ""
        where = f"spec.names.{name}"
        causes += name_causes(value.lower(), where, "service") if value else [required(where)]
    if "." not in (spec.get("group") or ""):
        causes.append(
            invalid("spec.group", spec.get("group", ""), "should be a domain with at least one dot")
        )
    expected = f"{names.get('plural')}.{spec.get('group')}"
    if crd["metadata"].get("name") != expected:
        text = 'must be spec.names.plural+"."+spec.group'
        causes.append(invalid("metadata.name", crd["metadata"].get("name"), text))
    return causes


def _version_causes(versions: list[Json]) -> list[Cause]:
    causes: list[Cause] = []
    if not versions:
        return [required("spec.versions")]
    if sum(bool(version.get("storage")) for version in versions) != 1:
        text = "must have exactly one version marked as storage version"
        causes.append(invalid("spec.versions", [v.get("name") for v in versions], text))
    # Kubernetes keeps what all versions share at the top of the definition, and names its faults there.
    together = all(version.get("schema") == versions[0].get("schema") for version in versions)
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        causes += name_causes(version.get("name") or "", f"{path}.name", "service")
        schema: Any = field_of(version, "schema", "openAPIV3Schema")
        where = f"{path}.schema.openAPIV3Schema"
        if not isinstance(schema, dict):
            causes.append(required(where, "schemas are required"))
            continue
        if not together or index == 0:  # what is the same for all versions is said once
            place = "spec.validation.openAPIV3Schema" if together else where
            causes += _schema_causes(schema, place)
        if not together or index == 0:
            where = "spec.subresources.scale" if together else f"{path}.subresources.scale"
            causes += _scale_causes(mapping(version, "subresources").get("scale"), where)
    return causes


def _schema_causes(schema: Json, path: str) -> list[Cause]:
    """Return the faults of a schema, else what makes the engines that check objects refuse it before it is stored."""
    try:
        if causes := structural_causes(schema, path):
            return causes
        Validator(schema)
        ruled(schema)
        compile_schema(schema)
    except Exception as error:  # noqa: BLE001 - what a client wrote may have any shape
        return [invalid(path, "", f"this server cannot check objects by it: {str(error)[:500]}")]
    return []


def _scale_causes(scale: Json | None, path: str) -> list[Cause]:
    """The paths lead into spec and status."""
    if scale is None:
        return []
    causes = []
    roots = {"specReplicasPath": (".spec",), "statusReplicasPath": (".status",)}
    for name, allowed in (roots | {"labelSelectorPath": (".spec", ".status")}).items():
        value = scale.get(name) or ""
        if not value:
            causes += [required(f"{path}.{name}")] if name in roots else []
        elif not value.startswith("."):
            causes.append(invalid(f"{path}.{name}", value, "must be a simple json path starting with ."))
        elif not value.startswith(tuple(f"{prefix}." for prefix in allowed)):
            places = f"either {' or '.join(allowed)}" if len(allowed) > 1 else allowed[0]
            text = f"should be a json path under {places}"
            causes.append(invalid(f"{path}.{name}", value, text))
    return causes


DEFINITION = Rules(prepare=_prepare, default=_default, check=_check)
