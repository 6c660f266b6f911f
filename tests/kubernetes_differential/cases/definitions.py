# ruff: noqa: E501 - a table is read by its rows
"""Definitions and custom resources (suite E): what a definition may say; pruning, defaults, validation, versions."""

from steelyard_common.types import Json
from tests.kubernetes_differential.case import TABLE, Case, Step, Until, delete, get, merge, post, put
from tests.kubernetes_differential.samples import ANYTHING, CRDS, DRY, STRICT, WIDGETS, definition, widget

NAME = CRDS + "/widgets.{{group}}"
STRING: Json = {"type": "string"}
INTEGER: Json = {"type": "integer"}
ITEM: Json = {"type": "object", "required": ["k"], "properties": {"k": STRING, "v": STRING}}


def made(crd: Json) -> tuple[Step, ...]:
    """Create a definition and wait until its kind is served."""
    return (
        post(CRDS, crd, compare=("spec", "message", "details")),
        Until(
            NAME,
            {"status.conditions[type=Established].status": "True"},
            compare=("status.acceptedNames", "status.storedVersions"),
        ),
        Until(WIDGETS, compare=("kind", "apiVersion")),
    )


def spec_of(**properties: Json) -> Json:
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}


def versions(*rows: Json, **spec: object) -> Json:
    crd = definition()
    crd["spec"] |= {"versions": list(rows), **spec}
    return crd


def version(
    name: str, schema: Json | None = None, *, served: bool = True, storage: bool = False, **more: object
) -> Json:
    return {
        "name": name,
        "served": served,
        "storage": storage,
        "schema": {"openAPIV3Schema": schema or {"type": "object", "properties": {"spec": ANYTHING}}},
        **more,
    }


def named(**names: object) -> Json:
    crd = definition()
    crd["spec"]["names"] |= names
    return crd


V1, V2 = version("v1", storage=True), version("v2")
SCHEMAS: dict[str, Json] = {
    "no type": {"properties": {}}, "another type": {"type": "string"}, "an unknown type": spec_of(a={"type": "foo"}), "no type below": spec_of(a={}), "no items": spec_of(a={"type": "array"}),
    "two types": spec_of(a={"type": "string", "x-kubernetes-int-or-string": True}), "a reference": spec_of(a={"$ref": "#/x"}), "a definition": {"type": "object", "definitions": {}}, "items in a list": spec_of(a={"type": "array", "items": [STRING]}),
    "unique items": spec_of(a={"type": "array", "items": STRING, "uniqueItems": True}), "properties and more": spec_of(a={"type": "object", "properties": {"b": STRING}, "additionalProperties": STRING}),
    "additional true": spec_of(a={"type": "object", "additionalProperties": True}), "additional false": spec_of(a={"type": "object", "additionalProperties": False}), "preserve false": spec_of(a={"type": "object", "x-kubernetes-preserve-unknown-fields": False}),
    "an embedded object": spec_of(a={"type": "object", "x-kubernetes-embedded-resource": True}), "an embedded string": spec_of(a={"type": "string", "x-kubernetes-embedded-resource": True}),
    "a map without keys": spec_of(a={"type": "array", "x-kubernetes-list-type": "map", "items": ITEM}), "keys without a map": spec_of(a={"type": "array", "x-kubernetes-list-map-keys": ["k"], "items": ITEM}),
    "a key that is optional": spec_of(a={"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["v"], "items": ITEM}), "an unknown key": spec_of(a={"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["z"], "items": ITEM}),
    "a key twice": spec_of(a={"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "k"], "items": ITEM}), "a map of strings": spec_of(a={"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": STRING}),
    "an unknown list type": spec_of(a={"type": "array", "x-kubernetes-list-type": "foo", "items": STRING}), "a list type of an object": spec_of(a={"type": "object", "x-kubernetes-list-type": "atomic"}), "an unknown map type": spec_of(a={"type": "object", "x-kubernetes-map-type": "foo"}),
    "a set of objects": spec_of(a={"type": "array", "x-kubernetes-list-type": "set", "items": ITEM}), "a default of the wrong type": spec_of(a={"type": "integer", "default": "x"}), "a default beyond": spec_of(a={"type": "integer", "maximum": 3, "default": 5}),
    "a default with more": spec_of(a={"type": "object", "properties": {"b": STRING}, "default": {"c": 1}}), "a default of null": spec_of(a={"type": "string", "default": None}), "a default in a value": {"type": "object", "properties": {"spec": {"type": "object", "anyOf": [{"properties": {"a": {"default": 1}}}]}}},
    "a type in a value": {"type": "object", "properties": {"spec": {"type": "object", "anyOf": [{"type": "object"}]}}}, "a property of a value alone": {"type": "object", "properties": {"spec": {"type": "object", "not": {"properties": {"a": {}}}}}},
    "a bad pattern": spec_of(a={"type": "string", "pattern": "("}), "an unknown format": spec_of(a={"type": "string", "format": "foo"}), "a negative length": spec_of(a={"type": "string", "minLength": -1}), "an enum of wrong types": spec_of(a={"type": "integer", "enum": ["x"]}),
    "an empty enum": spec_of(a={"type": "string", "enum": []}), "metadata restricted": {"type": "object", "properties": {"metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 3}}}}}, "metadata refined": {"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}},
    "an API version": {"type": "object", "properties": {"apiVersion": {"type": "integer"}}}, "nullable": spec_of(a={"type": "string", "nullable": True, "default": None}), "an unknown word": spec_of(a={"type": "string", "foo": "bar"}), "an external doc": spec_of(a={"type": "string", "externalDocs": {"url": "x"}}),
    "a rule": spec_of(a={"type": "integer", "x-kubernetes-validations": [{"rule": "self > 0"}]}), "a rule of no sense": spec_of(a={"type": "integer", "x-kubernetes-validations": [{"rule": "self >"}]}), "a rule of the wrong type": spec_of(a={"type": "integer", "x-kubernetes-validations": [{"rule": "self.b > 0"}]}),
    "an empty rule": spec_of(a={"type": "integer", "x-kubernetes-validations": [{"rule": ""}]}), "a rule that costs": spec_of(a={"type": "array", "items": {"type": "array", "items": STRING}, "x-kubernetes-validations": [{"rule": "self.all(x, x.all(y, self.all(z, z.all(w, w == y))))"}]}),
    "a rule that is no boolean": spec_of(a={"type": "integer", "x-kubernetes-validations": [{"rule": "self + 1"}]}), "a message with a break": spec_of(a={"type": "integer", "x-kubernetes-validations": [{"rule": "self > 0", "message": "a\nb"}]}),
    "a reason": spec_of(a={"type": "integer", "x-kubernetes-validations": [{"rule": "self > 0", "reason": "Foo"}]}), "a number's bounds": spec_of(a={"type": "number", "minimum": 5, "maximum": 3, "exclusiveMinimum": True, "multipleOf": 0}),
}  # fmt: skip
DEFINITIONS: dict[str, Json] = {
    "no versions": versions(), "no storage": versions(V2), "two storages": versions(V1, V1 | {"name": "v2"}), "one name twice": versions(V1, version("v1")), "a bad version": versions(version("V_1", storage=True)), "none served": versions(version("v1", storage=True, served=False)),
    "no schema": versions({"name": "v1", "served": True, "storage": True}), "a scope": versions(V1, scope="Foo"), "no scope": versions(V1, scope=""), "another group": versions(V1, group="other.example.dev"), "a bad group": versions(V1, group="A_b"),
    "an upper plural": named(plural="Widgets"), "no kind": named(kind=""), "a lower kind": named(kind="widget"), "a singular": named(singular="A b"), "short names": named(shortNames=["w", "W"]), "a category": named(categories=["all", "A b"]), "a list kind": named(listKind="Widget"),
    "unknown fields preserved": versions(V1, preserveUnknownFields=True), "conversion None": versions(V1, conversion={"strategy": "None"}), "conversion foo": versions(V1, conversion={"strategy": "Foo"}), "conversion without a webhook": versions(V1, conversion={"strategy": "Webhook"}),
    "a webhook of None": versions(V1, conversion={"strategy": "None", "webhook": {"conversionReviewVersions": ["v1"]}}), "a status": versions(V1 | {"subresources": {"status": {}}}), "a scale": versions(V1 | {"subresources": {"scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}}}),
    "a scale without paths": versions(V1 | {"subresources": {"scale": {}}}), "a scale of bad paths": versions(V1 | {"subresources": {"scale": {"specReplicasPath": "spec", "statusReplicasPath": ".foo", "labelSelectorPath": ".spec[0]"}}}),
    "a column": versions(V1 | {"additionalPrinterColumns": [{"name": "A", "type": "integer", "jsonPath": ".spec.a"}]}), "a column of a bad type": versions(V1 | {"additionalPrinterColumns": [{"name": "A", "type": "foo", "jsonPath": ".spec.a"}]}), "a column without a path": versions(V1 | {"additionalPrinterColumns": [{"name": "A", "type": "string"}]}),
    "a column of a bad path": versions(V1 | {"additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": "{.spec"}]}), "a column of a bad format": versions(V1 | {"additionalPrinterColumns": [{"name": "A", "type": "string", "format": "foo", "jsonPath": ".spec.a"}]}),
    "a selectable field": versions(version("v1", spec_of(a=STRING), storage=True, selectableFields=[{"jsonPath": ".spec.a"}])), "an unknown selectable field": versions(version("v1", spec_of(a=STRING), storage=True, selectableFields=[{"jsonPath": ".spec.b"}])),
    "a selectable object": versions(version("v1", spec_of(a=ITEM), storage=True, selectableFields=[{"jsonPath": ".spec.a"}])), "a deprecation": versions(V1, version("v2", deprecated=True, deprecationWarning="old")), "a warning without one": versions(V1 | {"deprecationWarning": "old"}),
    "an unknown field": definition() | {"foo": 1}, "a Kubernetes group": definition() | {"metadata": {"name": "widgets.apps.k8s.io"}, "spec": definition()["spec"] | {"group": "apps.k8s.io"}}, "another name": definition() | {"metadata": {"name": "foo"}},
}  # fmt: skip
RULES = spec_of(
    size={"type": "integer", "minimum": 1, "maximum": 10, "multipleOf": 2}, colour={"type": "string", "enum": ["red", "green"], "default": "red"}, name={"type": "string", "pattern": "^[a-z]+$", "maxLength": 5, "minLength": 2, "nullable": True},
    port={"x-kubernetes-int-or-string": True}, number={"type": "number", "exclusiveMaximum": True, "maximum": 3}, flag={"type": "boolean"}, when={"type": "string", "format": "date-time"}, ip={"type": "string", "format": "ipv4"}, bytes={"type": "string", "format": "byte"}, small={"type": "integer", "format": "int32"},
    parts={"type": "array", "maxItems": 2, "minItems": 1, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": ITEM | {"properties": {"k": STRING, "v": {"type": "string", "default": "v"}}}}, set={"type": "array", "x-kubernetes-list-type": "set", "items": STRING},
    map={"type": "object", "maxProperties": 1, "additionalProperties": INTEGER}, deep={"type": "object", "required": ["a"], "properties": {"a": STRING, "b": {"type": "object", "default": {}, "properties": {"c": {"type": "integer", "default": 7}}}}},
    either={"type": "object", "properties": {"a": INTEGER, "b": INTEGER}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, free=ANYTHING, ruled={"type": "integer", "x-kubernetes-validations": [{"rule": "self != 13", "message": "bad luck"}, {"rule": "self >= oldSelf", "message": "it only grows", "reason": "FieldValueForbidden"}]},
    embedded={"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
)  # fmt: skip
SPECS: list[Json] = [
    {}, {"size": 4}, {"size": 3}, {"size": 0}, {"size": 12}, {"size": 2.5}, {"size": "4"}, {"size": 4.0}, {"size": True}, {"size": None}, {"colour": "blue"}, {"colour": None}, {"name": "A"}, {"name": "abcdefg"}, {"name": None}, {"port": 1}, {"port": "x"}, {"port": 1.5}, {"port": []}, {"number": 3}, {"number": 2.9},
    {"flag": "true"}, {"when": "x"}, {"when": "2020-01-01T00:00:00Z"}, {"ip": "1.2.3"}, {"bytes": "a"}, {"small": 2**31}, {"parts": []}, {"parts": [{"k": "1"}]}, {"parts": [{"k": "1"}, {"k": "1"}]}, {"parts": [{"v": "1"}]}, {"parts": [{"k": "1"}, {"k": "2"}, {"k": "3"}]}, {"parts": {}}, {"parts": [None]}, {"set": ["a", "a"]},
    {"map": {"a": 1}}, {"map": {"a": "x"}}, {"map": {"a": 1, "b": 2}}, {"map": {"a": None}}, {"deep": {}}, {"deep": {"a": "x"}}, {"deep": {"a": "x", "b": {"c": 1, "d": 2}}}, {"deep": {"a": None}}, {"either": {}}, {"either": {"a": 1, "b": 1}}, {"either": {"a": 1}}, {"free": {"x": [1, None]}}, {"ruled": 13}, {"ruled": 5},
    {"embedded": {}}, {"embedded": {"apiVersion": "v1", "kind": "X", "metadata": {"name": "A_b", "foo": 1}}}, {"foo": 1},
]  # fmt: skip

CASES = [
    *[Case(f"definitions: {name}", post(f"{CRDS}?{DRY}&fieldValidation=Strict", definition(schema))) for name, schema in SCHEMAS.items()],
    *[Case(f"definitions: {name}", post(f"{CRDS}?{DRY}", crd)) for name, crd in DEFINITIONS.items()],
    Case("definitions: made and removed", *made(definition()), post(WIDGETS, widget("w", a=1)), get(NAME, compare=("spec", "status.acceptedNames", "status.storedVersions")), delete(NAME, compare=("kind", "metadata.finalizers")), Until(NAME, status=404), Until(WIDGETS, status=404)),
    Case("definitions: names that clash", *made(definition()), post(CRDS, definition() | {"metadata": {"name": "others.{{group}}"}, "spec": definition()["spec"] | {"names": {"plural": "others", "kind": "Widget", "shortNames": ["x"]}}}, compare=("spec.names",)),
         Until(CRDS + "/others.{{group}}", {"status.conditions[type=NamesAccepted].status": "False"}, compare=("status.conditions", "status.acceptedNames"))),
    Case("definitions: changed", *made(definition()), merge(NAME, {"spec": {"group": "x.dev"}}), merge(NAME, {"spec": {"scope": "Cluster"}}), merge(NAME, {"spec": {"names": {"plural": "foos"}}}), merge(NAME, {"spec": {"names": {"shortNames": ["wi"]}}}, compare=("spec.names",)),
         merge(NAME, {"spec": {"versions": [V1 | {"name": "v3"}]}}), merge(NAME, {"spec": {"versions": []}}), put(NAME, definition())),
    Case("definitions: two versions", *made(versions(V1, V2)), post(WIDGETS, widget("w", a=1)), get("/apis/{{group}}/v2/namespaces/{{ns}}/widgets/w"), merge(NAME, {"spec": {"versions": [version("v1"), version("v2", storage=True)]}}, compare=("spec.versions.0.storage",)),
         Until(NAME, {"status.storedVersions": ["v1", "v2"]}, compare=("status.storedVersions",)), merge(NAME, {"spec": {"versions": [version("v2", storage=True)]}}), merge(f"{NAME}/status", {"status": {"storedVersions": ["v2"]}}, compare=("status.storedVersions",)),
         merge(NAME, {"spec": {"versions": [version("v2", storage=True)]}}, compare=("spec.versions.0.name", "message")), get("/apis/{{group}}/v2/namespaces/{{ns}}/widgets/w")),
    Case("definitions: new defaults on stored objects", *made(definition(spec_of(a=STRING))), post(WIDGETS, widget("w", a="1"), name="made"), merge(NAME, {"spec": {"versions": [version("v1", spec_of(a=STRING, b={"type": "string", "default": "new"}), storage=True)]}}, compare=("kind",)),
         Until(f"{WIDGETS}/w", {"spec.b": "new"})),
    Case("definitions: fields that are gone", *made(definition(spec_of(a=STRING, b=STRING))), post(WIDGETS, widget("w", a="1", b="2")), merge(NAME, {"spec": {"versions": [version("v1", spec_of(a=STRING), storage=True)]}}, compare=("kind",)), Until(f"{WIDGETS}/w", {"spec.b": None})),
    Case("definitions: not served any more", *made(versions(V1, V2)), merge(NAME, {"spec": {"versions": [V1, version("v2", served=False)]}}, compare=("kind",)), Until("/apis/{{group}}/v2/namespaces/{{ns}}/widgets", status=404), Until("/apis/{{group}}", {"preferredVersion.version": "v1"}, compare=("versions", "preferredVersion"))),
    Case("definitions: deprecated", *made(versions(V1 | {"deprecated": True}, version("v2", deprecated=True, deprecationWarning="it is old"))), get(WIDGETS, compare=("kind",)), get("/apis/{{group}}/v2/namespaces/{{ns}}/widgets", compare=("kind",))),
    Case("definitions: of the cluster", post(CRDS, definition(scope="Cluster"), compare=("spec.scope",)), Until("/apis/{{group}}/v1/widgets", compare=("kind",)), post("/apis/{{group}}/v1/widgets", widget("w", a=1)), get(WIDGETS), delete("/apis/{{group}}/v1/widgets/w")),
    Case("definitions: columns", *made(versions(V1 | {"additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size", "description": "how large"}, {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status', "priority": 1}, {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]})),
         post(WIDGETS, widget("w", size=3)), get(WIDGETS, accept=TABLE, compare=("columnDefinitions.1", "columnDefinitions.2", "columnDefinitions.3", "rows.0.cells.0", "rows.0.cells.1", "rows.0.cells.2"))),
    Case("definitions: scale", *made(versions(V1 | {"subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n", "labelSelectorPath": ".status.s"}}})), post(WIDGETS, widget("w", n=3)), get(f"{WIDGETS}/w/scale"), merge(f"{WIDGETS}/w/scale", {"spec": {"replicas": 5}}), merge(f"{WIDGETS}/w/status", {"status": {"n": 2, "s": "a=b"}}), get(f"{WIDGETS}/w/scale"),
         put(f"{WIDGETS}/w/scale", {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "w"}, "spec": {"replicas": -1}})),
    Case("definitions: selectable fields", *made(versions(version("v1", spec_of(a=STRING, n=INTEGER), storage=True, selectableFields=[{"jsonPath": ".spec.a"}, {"jsonPath": ".spec.n"}]))), post(WIDGETS, widget("w", a="1", n=5)), post(WIDGETS, widget("x", a="2")), *[get(f"{WIDGETS}?fieldSelector={selector}", compare=("items.0.metadata.name", "items.1.metadata.name", "message")) for selector in ("spec.a=1", "spec.a!=1", "spec.n=5", "spec.n=", "spec.b=1")]),
    Case("definitions: status", *made(definition()), post(WIDGETS, widget("w", a=1) | {"status": {"b": 1}}), merge(f"{WIDGETS}/w/status", {"status": {"b": 2}, "spec": {"a": 2}}), merge(f"{WIDGETS}/w", {"status": {"b": 3}}), put(f"{WIDGETS}/w/status", widget("w", a=3) | {"status": {"b": 3}}), put(f"{WIDGETS}/w", widget("w", a=3)), put(f"{WIDGETS}/w", widget("w", a=3))),
    Case("custom resources: values", *made(definition(RULES)), *[post(f"{WIDGETS}?{DRY}", widget("w") | {"spec": spec}) for spec in SPECS]),
    Case("custom resources: unknown fields", *made(definition(RULES)), *[post(f"{WIDGETS}?{DRY}&fieldValidation={mode}", widget("w", size=2, foo=1, deep={"a": "x", "z": 1})) for mode in ("Strict", "Warn", "Ignore")], post(f"{WIDGETS}?{STRICT}", widget("w") | {"metadata": {"name": "w", "foo": 1}}),
         post(f"{WIDGETS}?{STRICT}", b'{"apiVersion":"{{group}}/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"size":2,"size":4}}')),
    Case("custom resources: transitions", *made(definition(RULES)), post(WIDGETS, widget("w", ruled=5)), merge(f"{WIDGETS}/w", {"spec": {"ruled": 4}}), merge(f"{WIDGETS}/w", {"spec": {"ruled": 6}}), merge(f"{WIDGETS}/w", {"spec": {"ruled": 13}}), merge(f"{WIDGETS}/w", {"spec": {"colour": "blue"}})),
    Case("custom resources: names and kinds", *made(definition()), post(WIDGETS, widget("A_b")), post(WIDGETS, widget("w") | {"kind": "Foo"}), post(WIDGETS, widget("w") | {"apiVersion": "foo/v1"}), post(WIDGETS, {"metadata": {"name": "w"}}), post(WIDGETS, widget("w") | {"metadata": {"name": "w", "labels": {"a b": "c"}}}), post(WIDGETS, {"apiVersion": "{{group}}/v1", "kind": "Widget", "metadata": {"name": "w", "labels": 5}}), post(WIDGETS, b"{"), post(WIDGETS, b"[]")),
]  # fmt: skip
