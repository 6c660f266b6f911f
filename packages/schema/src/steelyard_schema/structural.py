"""Lowers pydantic's JSON Schema to the structural schema that a CustomResourceDefinition takes.

Contract: https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/
"""

from steelyard_common.types import Json

_KEPT = (
    "type", "description", "default", "enum", "format", "pattern", "minimum", "maximum", "minLength", "maxLength",
    "minItems", "maxItems", "minProperties", "maxProperties", "required", "x-kubernetes-validations",
)  # fmt: skip


EXACT = 2**53
"""Largest maximum that is written: an API server reads bounds as 64-bit floats, in which 2^63-1 becomes 2^63."""


def structural(schema: Json) -> Json:
    """Return `schema` with its definitions inlined, nulls as `nullable`, and free-form objects marked as such."""
    return _lower(schema, schema.get("$defs", {}))


def _lower(node: Json, definitions: Json) -> Json:
    node = _resolve(node, definitions)
    if node.get("x-kubernetes-int-or-string"):
        return {key: node[key] for key in ("description", "x-kubernetes-int-or-string") if key in node}
    if "anyOf" in node:
        node = _nullable(node, definitions)
    lowered: Json = {key: node[key] for key in _KEPT if key in node}
    if node.get("nullable"):
        lowered["nullable"] = True
    if "const" in node:
        lowered["enum"] = [node["const"]]
    for word in ("Minimum", "Maximum"):
        if f"exclusive{word}" in node:
            # OpenAPI 3.0, which Kubernetes follows, has a boolean next to the bound; JSON Schema has the bound
            # itself.
            lowered[word.lower()] = node[f"exclusive{word}"]
            lowered[f"exclusive{word}"] = True
    if lowered.get("maximum", 0) > EXACT:
        del lowered["maximum"]
        lowered["format"] = "int64"
    # A structural schema takes a null default only of a nullable field, and an absent field says the same.
    if lowered.get("default", ...) is None:
        del lowered["default"]
    match node.get("type"):
        case "object":
            _lower_object(node, lowered, definitions)
        case "array":
            lowered["items"] = _lower(node["items"], definitions)
        # Without a type, the API server would prune the value.
        case None:
            lowered["x-kubernetes-preserve-unknown-fields"] = True
    return lowered


def _lower_object(node: Json, lowered: Json, definitions: Json) -> None:
    if "properties" in node:
        lowered["properties"] = {
            name: _lower(field, definitions) for name, field in node["properties"].items()
        }
        if node.get("additionalProperties") is True:  # a model that keeps what it does not know
            lowered["x-kubernetes-preserve-unknown-fields"] = True
    else:
        # A free-form object is a map to anything: of two objects whose unknown fields alone differ, the API server's
        # `self == oldSelf` compares the values of common names, so that a renamed field would pass for unchanged.
        values = node.get("additionalProperties")
        lowered["additionalProperties"] = _lower(values if isinstance(values, dict) else {}, definitions)


def _resolve(node: Json, definitions: Json) -> Json:
    """Return the node with its reference replaced; keys next to the reference win over those it refers to."""
    while "$ref" in node:
        target = definitions[node["$ref"].rpartition("/")[2]]
        node = {**target, **{key: value for key, value in node.items() if key != "$ref"}}
    return node


def _nullable(node: Json, definitions: Json) -> Json:
    """Return `anyOf [T, null]` as a nullable T; other unions are free-form."""
    others = [_resolve(choice, definitions) for choice in node["anyOf"] if choice.get("type") != "null"]
    siblings = {key: value for key, value in node.items() if key != "anyOf"}
    nullable = len(others) < len(node["anyOf"])
    # A structural schema must give a type outside of `anyOf`: a union of several has none.
    if len(others) != 1:
        return {**siblings, "nullable": nullable}
    return {**others[0], **siblings, "nullable": nullable}
