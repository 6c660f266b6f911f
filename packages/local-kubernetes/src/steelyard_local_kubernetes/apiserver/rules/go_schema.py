"""Schemas in the form in which a real server shows them in a refusal: its own fields, all of them, in their order."""

from typing import Any

from steelyard_common.types import Json, JsonValue

# By the field's name there: the word of a schema, and what stands for one that is not given.
_FIELDS: dict[str, tuple[str, JsonValue]] = {
    "ID": ("id", ""), "Schema": ("$schema", ""), "Ref": ("$ref", None), "Description": ("description", ""),
    "Type": ("type", ""), "Nullable": ("nullable", False), "Format": ("format", ""), "Title": ("title", ""),
    "Default": ("default", None), "Maximum": ("maximum", None), "ExclusiveMaximum": ("exclusiveMaximum", False),
    "Minimum": ("minimum", None), "ExclusiveMinimum": ("exclusiveMinimum", False), "MaxLength": ("maxLength", None),
    "MinLength": ("minLength", None), "Pattern": ("pattern", ""), "MaxItems": ("maxItems", None),
    "MinItems": ("minItems", None), "UniqueItems": ("uniqueItems", False), "MultipleOf": ("multipleOf", None),
    "Enum": ("enum", None), "MaxProperties": ("maxProperties", None), "MinProperties": ("minProperties", None),
    "Required": ("required", None), "Items": ("items", None), "AllOf": ("allOf", None), "OneOf": ("oneOf", None),
    "AnyOf": ("anyOf", None), "Not": ("not", None), "Properties": ("properties", None),
    "AdditionalProperties": ("additionalProperties", None), "PatternProperties": ("patternProperties", None),
    "Dependencies": ("dependencies", None), "AdditionalItems": ("additionalItems", None),
    "Definitions": ("definitions", None), "ExternalDocs": ("externalDocs", None), "Example": ("example", None),
    "XPreserveUnknownFields": ("x-kubernetes-preserve-unknown-fields", None),
    "XEmbeddedResource": ("x-kubernetes-embedded-resource", False),
    "XIntOrString": ("x-kubernetes-int-or-string", False), "XListMapKeys": ("x-kubernetes-list-map-keys", None),
    "XListType": ("x-kubernetes-list-type", None), "XMapType": ("x-kubernetes-map-type", None),
    "XValidations": ("x-kubernetes-validations", None),
}  # fmt: skip
_AT_ROOT = (
    "Description", "Type", "Format", "Title", "Maximum", "ExclusiveMaximum", "Minimum", "ExclusiveMinimum",
    "MaxLength", "MinLength", "Pattern", "MaxItems", "MinItems", "UniqueItems", "MultipleOf", "Required", "Items",
    "Properties", "ExternalDocs", "Example", "XPreserveUnknownFields", "XValidations",
)  # fmt: skip
_LISTS = ("AllOf", "OneOf", "AnyOf")
_MAPS = ("Properties", "PatternProperties", "Definitions")
_RULE: dict[str, tuple[str, JsonValue]] = {
    "Rule": ("rule", ""), "Message": ("message", ""), "MessageExpression": ("messageExpression", ""),
    "Reason": ("reason", None), "FieldPath": ("fieldPath", ""), "OptionalOldSelf": ("optionalOldSelf", None),
}  # fmt: skip


def root_fault(schema: Json) -> str:
    """Say what the root of a schema with a status may not hold; empty where it holds no such thing."""
    others = {word: unset for field, (word, unset) in _FIELDS.items() if field not in _AT_ROOT}
    if all(schema.get(word) in (None, unset) for word, unset in others.items()):
        return ""
    allowed = " ".join(_AT_ROOT)
    return (
        f"only [{allowed}] fields are allowed at the root of the schema if the status subresource is enabled"
    )


def go_form(schema: Json) -> Json:
    """Return the schema with the fields of the real server's own type."""
    return {field: _value(field, schema.get(word), unset) for field, (word, unset) in _FIELDS.items()}


def _value(field: str, value: Any, unset: JsonValue) -> Any:  # noqa: PLR0911 - one for each form
    if value is None:
        return unset
    if field in _LISTS:
        return [go_form(part) for part in value]
    if field in _MAPS:
        return {name: go_form(value[name]) for name in sorted(value)}
    match field:
        case "Not":
            return go_form(value)
        case "Items":
            whole = isinstance(value, dict)
            return {
                "Schema": go_form(value) if whole else None,
                "JSONSchemas": None if whole else [go_form(part) for part in value],
            }
        case "AdditionalProperties" | "AdditionalItems":
            whole = isinstance(value, dict)
            return {"Allows": True if whole else value, "Schema": go_form(value) if whole else None}
        case "Dependencies":
            return {name: _dependency(value[name]) for name in sorted(value)}
        case "ExternalDocs":
            return {"Description": value.get("description") or "", "URL": value.get("url") or ""}
        case "XValidations":
            return [
                {
                    name: unset if rule.get(word) is None else rule[word]
                    for name, (word, unset) in _RULE.items()
                }
                for rule in value
            ]
    return value


def _dependency(value: Any) -> Json:
    whole = isinstance(value, dict)
    return {"Schema": go_form(value) if whole else None, "Property": None if whole else value}
