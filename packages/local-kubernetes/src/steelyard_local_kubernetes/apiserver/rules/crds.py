"""CustomResourceDefinitions: completed, and refused where a real server refuses them or this one cannot serve them."""

from collections.abc import Iterator
from typing import Any

from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.objects import read_annotations
from steelyard_local_kubernetes.apiserver.errors import Cause, forbidden_field, invalid, missing_value
from steelyard_local_kubernetes.apiserver.expressions.rules import compile_rules
from steelyard_local_kubernetes.apiserver.kinds import Rules
from steelyard_local_kubernetes.apiserver.names import name_causes
from steelyard_local_kubernetes.apiserver.rules.common import defaults, immutable
from steelyard_local_kubernetes.apiserver.rules.structural import has_default, structural_causes
from steelyard_local_kubernetes.apiserver.rules.table import Rule, causes_by, choice, if_given, need, values
from steelyard_local_kubernetes.apiserver.schema import compile_schema
from steelyard_local_kubernetes.apiserver.validation import Validator
from steelyard_local_kubernetes.definitions.vouched import is_vouched

_APPROVED = "api-approved.kubernetes.io"
_MIGRATION = (
    "missing from spec.versions; {0} was previously a storage version, and must remain in spec.versions until a "
    "storage migration ensures no data remains persisted in {0} and removes {0} from status.storedVersions"
)
_FORMATS = {
    "bsonobjectid", "uri", "email", "hostname", "ipv4", "ipv6", "cidr", "mac", "uuid", "uuid3", "uuid4", "uuid5",
    "isbn", "isbn10", "isbn13", "creditcard", "ssn", "hexcolor", "rgbcolor", "byte", "password", "date", "duration",
    "datetime",
}  # fmt: skip


def _prepare(crd: Json) -> None:
    # Which names are accepted only `definitions.py` says, once the definition is committed.
    stored = [version["name"] for version in sequence(crd, "spec", "versions") if version.get("storage")][:1]
    accepted = {"plural": "", "kind": ""}
    crd["status"] = {"conditions": None, "acceptedNames": accepted, "storedVersions": stored or None}


def _default(crd: Json) -> None:
    spec = crd.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = names.get("kind") or ""
    for name, value in (("singular", kind.lower()), ("listKind", f"{kind}List" if kind else "")):
        if value and not names.get(name):
            names[name] = value
    defaults(spec, conversion={"strategy": "None"})


def _check(crd: Json, old: Json | None) -> list[Cause]:
    spec = crd["spec"]
    causes = [] if old else _name_causes(crd)
    causes += causes_by(_SPEC, spec, "spec")
    causes += _version_causes(spec)
    causes += need("plural", "singular", "kind", "listKind")(spec["names"], "spec.names")
    causes += causes_by(_NAMES, spec["names"], "spec.names")
    causes += _top_part_causes(spec)
    strategy = spec["conversion"].get("strategy")
    if spec.get("preserveUnknownFields") and strategy != "None":
        text = "must be None if spec.preserveUnknownFields is true"
        causes.append(invalid("spec.conversion.strategy", strategy, text))
    causes += _conversion_causes(spec["conversion"])
    # Objects are stored by these names: under others they would not be found again.
    for name in ("scope", "names.kind", "group", "names.plural"):
        causes += immutable(crd, old, f"spec.{name}")
    causes += _storage_causes(crd) + _approval_causes(crd, old)
    if spec.get("preserveUnknownFields"):
        text = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        causes.append(invalid("spec.preserveUnknownFields", True, text))
    if not causes and spec["conversion"]["strategy"] != "None":
        causes.append(forbidden_field("spec.conversion.strategy", "this server converts by no webhook"))
    return causes


def _name_causes(crd: Json) -> list[Cause]:
    names, name = crd["spec"]["names"], crd["metadata"].get("name") or ""
    if name == f"{names.get('plural') or ''}.{crd['spec'].get('group') or ''}":
        return []
    return [invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')]


def _group_causes(group: str, path: str) -> list[Cause]:
    causes = name_causes(group, path)
    if not causes and "." not in group:
        causes.append(invalid(path, group, "should be a domain with at least one dot"))
    return causes


def _label(value: str, path: str) -> list[Cause]:
    return name_causes(value, path, "service")


def _any_case_label(value: str, path: str) -> list[Cause]:
    """A label but for its capitals."""
    text = "may have mixed case, but should otherwise match: "
    return [
        invalid(path, value, text + cause.message.partition(": ")[2].partition(": ")[2])
        for cause in _label(value.lower(), path)
    ]


def _kind_causes(names: Json, path: str) -> list[Cause]:
    if not names.get("kind") or names.get("kind") != names.get("listKind"):
        return []
    return [invalid(f"{path}.listKind", names["kind"], "kind and listKind may not be the same")]


_SPEC: tuple[Rule, ...] = (
    need("group"),
    if_given("group", _group_causes),
    choice("scope", "Cluster", "Namespaced", needed=True),
)
_NAMES: tuple[Rule, ...] = (
    if_given("plural", _label),
    if_given("singular", _label),
    if_given("kind", _any_case_label),
    if_given("listKind", _any_case_label),
    values("shortNames", _label),
    _kind_causes,
    values("categories", _label),
)


# ---- versions


def _version_causes(spec: Json) -> list[Cause]:
    versions = spec["versions"] or []
    causes = [
        missing_value(f"spec.versions[{index}].schema.openAPIV3Schema")
        for index, version in enumerate(versions)
        if _version_schema(version) is None
    ]
    if spec.get("preserveUnknownFields") and any(
        has_default(_version_schema(version) or {}) for version in versions
    ):
        text = "must be false in order to use defaults in the schema"
        causes.append(invalid("spec.preserveUnknownFields", True, text))
    shared = {name for name in _PARTS if _is_shared(versions, name)}
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        causes += _label(version.get("name") or "", f"{path}.name")
        if version.get("deprecationWarning") is not None and not version.get("deprecated"):
            text = "can only be set for deprecated versions"
            causes.append(invalid(f"{path}.deprecationWarning", version["deprecationWarning"], text))
        for name in _PARTS:
            causes += _part_causes(version, name, f"{path}.{name}") if name not in shared else []
    names = [version.get("name") for version in versions]
    shown = [_in_go(version, shared) for version in versions] if spec["versions"] is not None else None
    if len({*names}) < len(names):
        causes.append(invalid("spec.versions", shown, "must contain unique version names"))
    if sum(bool(version.get("storage")) for version in versions) != 1:
        text = "must have exactly one version marked as storage version"
        causes.append(invalid("spec.versions", shown, text))
    return causes + (_label(names[0], "spec.version") if names and names[0] else [])


def _top_part_causes(spec: Json) -> list[Cause]:
    """Kubernetes keeps what all versions share at the top of the definition, and names its faults there."""
    versions = spec["versions"] or []
    causes: list[Cause] = []
    for name, top in _PARTS.items():
        if versions and _is_shared(versions, name):
            causes += _part_causes(versions[0], name, f"spec.{top}")
    return causes


def _is_shared(versions: list[Json], name: str) -> bool:
    return all(version.get(name) == versions[0].get(name) for version in versions)


# Parts of a version, and where they are if all versions share them.
_PARTS = {
    "schema": "validation",
    "subresources": "subresources",
    "additionalPrinterColumns": "additionalPrinterColumns",
    "selectableFields": "selectableFields",
}


def _version_schema(version: Json) -> Json | None:
    schema = mapping(version, "schema").get("openAPIV3Schema")
    return schema if isinstance(schema, dict) else None


def _part_causes(version: Json, name: str, path: str) -> list[Cause]:
    match name:
        case "schema":
            status = mapping(version, "subresources").get("status") is not None
            return _schema_causes(_version_schema(version), f"{path}.openAPIV3Schema", status=status)
        case "subresources":
            return _scale_causes(mapping(version, "subresources").get("scale"), f"{path}.scale")
        case "selectableFields":
            return list(_selectable_causes(version, path))
        case _:
            columns = enumerate(sequence(version, name))
            return [cause for at, column in columns for cause in causes_by(_COLUMN, column, f"{path}[{at}]")]


def _schema_causes(schema: Json | None, path: str, *, status: bool) -> list[Cause]:
    """Return the faults of a schema, unless somebody vouches for it."""
    return [] if schema is None or is_vouched(schema) else schema_causes(schema, path, status=status)


def schema_causes(schema: Json, path: str, *, status: bool) -> list[Cause]:
    """Return the faults of a schema, else what makes the engines that check objects refuse it before it is stored."""
    try:
        if causes := structural_causes(schema, path, status=status):
            return causes
        Validator(schema)
        compile_rules(schema)
        compile_schema(schema)
    except Exception as error:  # noqa: BLE001 - what a client wrote may have any shape
        return [invalid(path, "", f"this server cannot check objects by it: {str(error)[:500]}")]
    return []


def _path(value: str, path: str) -> list[Cause]:
    return (
        [] if value.startswith(".") else [invalid(path, value, "must be a simple json path starting with .")]
    )


def _column_text(name: str, *choices: str) -> Rule:
    text = f"must be one of {','.join(choices)}"
    return if_given(name, lambda value, path: [] if value in choices else [invalid(path, value, text)])


def _column_path(column: Json, path: str) -> list[Cause]:
    # As a real server spells the field.
    value, where = column.get("jsonPath") or "", f"{path}.JSONPath"
    return _path(value, where) if value else [missing_value(where)]


_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN: tuple[Rule, ...] = (
    need("name"),
    need("type", detail=f"must be one of {','.join(_TYPES)}"),
    _column_text("type", *_TYPES),
    _column_text("format", "byte", "date", "date-time", "double", "float", "int32", "int64", "password"),
    _column_path,
)


def _selectable_causes(version: Json, path: str) -> Iterator[Cause]:
    seen = set()
    for index, field in enumerate(sequence(version, "selectableFields")):
        where, value = f"{path}[{index}].jsonPath", field.get("jsonPath") or ""
        if not value:
            yield missing_value(where)
            continue
        schema: Any = _version_schema(version)
        for name in value.removeprefix(".").split("."):
            schema = mapping(schema, "properties").get(name) if isinstance(schema, dict) else None
        if schema is None:
            yield invalid(where, value, "is an invalid path: does not refer to a valid field")
            continue
        if value.startswith(".metadata"):
            yield invalid(where, value, "must not point to fields in metadata")
        if schema.get("type") not in ("string", "boolean", "integer"):
            text = "must point to a field of type string, boolean or integer. "
            yield invalid(where, value, f"{text}Enum string fields and strings with formats are allowed.")
        if value in seen:
            yield Cause(where, f'Duplicate value: "{value}"', "FieldValueDuplicate")
        seen.add(value)


def _scale_causes(scale: Json | None, path: str) -> list[Cause]:
    """The paths lead into spec and status."""
    if scale is None:
        return []
    causes = []
    roots = {"specReplicasPath": (".spec",), "statusReplicasPath": (".status",)}
    for name, allowed in (roots | {"labelSelectorPath": (".spec", ".status")}).items():
        value, where = scale.get(name) or "", f"{path}.{name}"
        if not value:
            causes += [missing_value(where)] if name in roots else []
        elif not value.startswith("."):
            causes += _path(value, where)
        elif not value.startswith(tuple(f"{prefix}." for prefix in allowed)):
            places = f"either {' or '.join(allowed)}" if len(allowed) > 1 else allowed[0]
            causes.append(invalid(where, value, f"should be a json path under {places}"))
    return causes


def _in_go(version: Json, shared: set[str]) -> Json:
    """A version as a real server shows it, without the parts that it keeps elsewhere."""
    names = ("name", "served", "storage", "deprecated", "deprecationWarning", *_PARTS)
    empty = {"served": False, "storage": False, "deprecated": False}
    return {
        name[0].upper() + name[1:]: None if name in shared else version.get(name, empty.get(name))
        for name in names
    }


# ---- what the versions have in common


def _conversion_causes(conversion: Json) -> list[Cause]:
    causes = choice("strategy", "None", "Webhook", needed=True)(conversion, "spec.conversion")
    # A real server spells the fields as it keeps them.
    client, reviews = "spec.conversion.webhookClientConfig", "spec.conversion.conversionReviewVersions"
    webhook = mapping(conversion, "webhook")
    if conversion.get("strategy") != "Webhook":
        text = "should not be set when strategy is not set to Webhook"
        causes += [forbidden_field(client, text)] if webhook.get("clientConfig") is not None else []
        return causes + ([forbidden_field(reviews, text)] if webhook.get("conversionReviewVersions") else [])
    if webhook.get("clientConfig") is None:
        causes.append(missing_value(client, "required when strategy is set to Webhook"))
    if not webhook.get("conversionReviewVersions"):
        causes.append(missing_value(reviews))
    return causes


def _storage_causes(crd: Json) -> list[Cause]:
    """Objects may be stored in every version that was the storage version once."""
    path, versions = "status.storedVersions", crd["spec"]["versions"] or []
    stored = sequence(crd, "status", "storedVersions")
    storages = [version.get("name") for version in versions if version.get("storage")]
    if storages and storages[0] not in stored and crd.get("status"):
        stored = [*stored, storages[0]]
    if not stored:
        return [invalid(path, None, "must have at least one stored version")]
    causes = [
        invalid(path, stored, f"must have the storage version {name}")
        for name in storages
        if name not in stored
    ]
    names = {version.get("name") for version in versions}
    for index, name in enumerate(stored):
        if name not in names:
            causes.append(invalid(f"{path}[{index}]", name, _MIGRATION.format(name)))
    return causes


def _approval_causes(crd: Json, old: Json | None) -> list[Cause]:
    """Groups of Kubernetes' own need its people's word."""
    group = crd["spec"].get("group") or ""
    if not f".{group}".endswith((".k8s.io", ".kubernetes.io")):
        return []
    value = read_annotations(crd).get(_APPROVED)
    if old is not None and value == read_annotations(old).get(_APPROVED):
        return []
    where = f"metadata.annotations[{_APPROVED}]"
    see = "see https://github.com/kubernetes/enhancements/pull/1111"
    text = f'protected groups must have approval annotation "{_APPROVED}"'
    if not value:
        return [missing_value(where, f"{text}, {see}")]
    if "://" in value or value.startswith("unapproved"):
        return []
    return [invalid(where, value, f'{text} with either a URL or a reason starting with "unapproved", {see}')]


def _warn(crd: Json, old: Json | None) -> list[str]:
    """Formats of values that nothing checks."""
    unknown: list[str] = []

    def look(schema: object) -> None:
        if isinstance(schema, dict):
            name = schema.get("format")
            # Hyphens do not count: `date-time` is `datetime`.
            if schema.get("type") == "string" and isinstance(name, str) and name:
                unknown.extend([name] if name.replace("-", "") not in _FORMATS else [])
            for below in schema.values():
                look(below)
        elif isinstance(schema, list):
            for below in schema:
                look(below)

    for version in sequence(crd, "spec", "versions"):
        look(mapping(version, "schema"))
    return [f'unrecognized format "{name}"' for name in dict.fromkeys(unknown)]


DEFINITION = Rules(prepare=_prepare, default=_default, check=_check, warn=_warn)
