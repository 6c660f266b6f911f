# ruff: noqa: E501 - tables are read by their rows
"""Custom kinds: what their definitions must be, and what they make of objects."""

from typing import Any

import pytest

from steelyard_common.types import Json
from steelyard_schema.crd import custom_resource_definitions
from tests.kubernetes_api.api import Api, definition
from tests.kubernetes_api.conftest import ANYTHING, CRDS, WIDGET, established, widget


async def test_objects_are_pruned_and_completed(api: Api, widgets: str) -> None:
    body = widget(
        widgets, "w", extra=1, parts=[{"id": "a", "more": 1}], free={"any": {"thing": 1}}, name=None
    )
    answer = (await api.post(widgets, body)).ok(201)
    assert answer.json["spec"] == {
        "size": 1,
        "colour": "red",
        "parts": [{"id": "a", "weight": 1}],
        "free": {"any": {"thing": 1}},
        "name": None,
    }
    assert sorted(answer.warnings) == ['unknown field "spec.extra"', 'unknown field "spec.parts[0].more"']
    strict = await api.post(f"{widgets}?fieldValidation=Strict", body)
    assert strict.status == 400
    assert 'strict decoding error: unknown field "spec.extra"' in strict.message


REFUSED: list[tuple[str, Json, str, str]] = [
    ("a required field", {"size": None}, "spec.size", "Required value"),
    ("a type", {"size": "x"}, "spec.size", 'must be of type integer: "string"'),
    ("a minimum", {"size": 0}, "spec.size", "should be greater than or equal to 1"),
    ("a maximum", {"size": 11}, "spec.size", "should be less than or equal to 10"),
    ("an enumeration", {"colour": "blue"}, "spec.colour", 'supported values: "red", "green"'),
    ("a pattern", {"name": "A"}, "spec.name", "should match '^[a-z]+$'"),
    ("a length", {"name": "abcdefghi"}, "spec.name", "Too long: may not be more than 8 bytes"),
    ("a number of items", {"parts": [{"id": c} for c in "abcd"]}, "spec.parts", "must have at most 3 items"),
    ("a field of an item", {"parts": [{"weight": 1}]}, "spec.parts[0].id", "Required value"),
    ("a key twice", {"parts": [{"id": "a"}, {"id": "a"}]}, "spec.parts[1]", "Duplicate value"),
    ("a number or text", {"port": True}, "spec.port", "port"),
]


@pytest.mark.parametrize(
    ("spec", "field", "message"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
async def test_what_the_schema_forbids_is_refused(
    api: Api, widgets: str, spec: Json, field: str, message: str
) -> None:
    answer = await api.post(widgets, widget(widgets, "w", **spec))
    assert (answer.status, answer.json["reason"]) == (422, "Invalid")
    assert message in answer.causes()[field]
    (await api.post(widgets, widget(widgets, "w"))).ok(201)
    patched = await api.merge(f"{widgets}/w", {"spec": spec})
    assert patched.status == 422
    assert (await api.get(f"{widgets}/w")).json["metadata"]["generation"] == 1


ALTERNATIVES: Json = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "oneOf": [{"required": ["image"]}, {"required": ["imageRef"]}],
            "anyOf": [{"required": ["image"]}, {"required": ["imageRef"]}],
            "not": {"required": ["neither"]},
        }
    },
}


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"image": "a", "imageRef": "b"},
        {"image": "{limit.x}", "{0}": "", "imageRef": "}"},
        {"neither": ""},
    ],
    ids=["none", "both", "with braces", "what must not be"],
)
async def test_what_fits_no_alternative_is_refused(api: Api, namespace: str, spec: Json) -> None:
    group = f"{namespace}.example.dev"
    (await api.post(CRDS, definition(group, ALTERNATIVES))).ok()
    await established(api, f"widgets.{group}")
    path = f"/apis/{group}/v1/namespaces/{namespace}/widgets"
    body = {**widget(path, "w"), "spec": spec}
    answer = await api.post(path, body)
    assert (answer.status, answer.json["reason"]) == (422, "Invalid")
    assert any("spec" in f"{field} {message}" for field, message in answer.causes().items())
    (await api.post(path, {**body, "spec": {"image": "a"}})).ok(201)


async def test_what_is_fixed_stays(api: Api, widgets: str) -> None:
    (await api.post(widgets, widget(widgets, "w"))).ok(201)
    (await api.merge(f"{widgets}/w", {"spec": {"fixed": {"a": 1}}})).ok(200)
    answer = await api.merge(f"{widgets}/w", {"spec": {"fixed": {"a": 2}}})
    assert answer.status == 422
    assert "fixed is fixed" in answer.causes()["spec.fixed"]
    (await api.merge(f"{widgets}/w", {"spec": {"fixed": {"a": 1}, "size": 2}})).ok(200)


async def test_status_is_apart(api: Api, widgets: str) -> None:
    made = (await api.post(widgets, widget(widgets, "w") | {"status": {"phase": "x"}})).ok(201).json
    assert "status" not in made
    assert (await api.merge(f"{widgets}/w", {"status": {"phase": "x"}})).ok(200).version == made["metadata"][
        "resourceVersion"
    ]
    status = {"status": {"phase": "x"}, "spec": {"size": 9}, "metadata": {"labels": {"a": "b"}}}
    written = (await api.merge(f"{widgets}/w/status", status)).ok(200).json
    assert (written["status"], written["spec"]["size"], written["metadata"]["generation"]) == (
        {"phase": "x"},
        1,
        1,
    )
    assert "labels" not in written["metadata"]
    labelled = (await api.merge(f"{widgets}/w", {"metadata": {"labels": {"a": "b"}}})).ok(200).json
    assert labelled["metadata"]["generation"] == 1
    assert (await api.merge(f"{widgets}/w", {"spec": {"size": 2}})).ok(200).json["metadata"][
        "generation"
    ] == 2


async def test_a_replacement_needs_a_version(api: Api, widgets: str) -> None:
    made = (await api.post(widgets, widget(widgets, "w"))).ok(201).json
    answer = await api.put(f"{widgets}/w", widget(widgets, "w", size=2))
    assert answer.status == 422
    assert answer.causes()["metadata.resourceVersion"] == "Invalid value: 0: must be specified for an update"
    made["spec"]["size"] = 2
    (await api.put(f"{widgets}/w", made)).ok(200)


async def test_an_object_of_another_kind_is_refused(api: Api, widgets: str) -> None:
    body = widget(widgets, "w")
    assert (await api.post(widgets, body | {"kind": "Gadget"})).status == 422
    assert (await api.post(widgets, body | {"apiVersion": "example.dev/v9"})).status == 400
    del body["kind"]
    assert (await api.post(widgets, body)).status == 400


async def test_a_definition_goes_with_its_objects(api: Api, widgets: str) -> None:
    (await api.post(widgets, widget(widgets, "a"))).ok(201)
    (await api.post(widgets, widget(widgets, "b"))).ok(201)
    name = f"widgets.{widgets.split('/')[2]}"
    async with api.watch(f"{widgets}?watch=1&timeoutSeconds=40") as events:
        await events.take(2)
        (await api.delete(f"{CRDS}/{name}")).ok(200)
        assert sorted([(await events.next(40))["type"] for _ in range(2)]) == ["DELETED", "DELETED"]
    await api.gone(f"{CRDS}/{name}")

    async def unserved() -> bool:
        return (await api.get(widgets)).status == 404

    await api.eventually(unserved, "the kind not served")


async def test_a_definition_may_change(api: Api, widgets: str) -> None:
    (await api.post(widgets, widget(widgets, "a"))).ok(201)
    name = f"widgets.{widgets.split('/')[2]}"
    crd = (await api.get(f"{CRDS}/{name}")).ok(200).json
    properties = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    properties["weight"] = {"type": "integer", "default": 7}
    (await api.put(f"{CRDS}/{name}", crd)).ok(200)

    async def completed() -> bool:
        answer = await api.post(f"{widgets}?dryRun=All", widget(widgets, "b"))
        return bool(answer.ok(201).json["spec"].get("weight") == 7)

    await api.eventually(completed, "the new field's default")


def schema(**properties: Any) -> Json:
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}


LIST_MAP = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
ITEM = {"type": "object", "properties": {"k": {"type": "string"}}}
ROOT = "spec.validation.openAPIV3Schema"
BAD_DEFINITIONS = [
    ("no type", schema(a={}), "must not be empty for specified object fields"),
    ("no type at the root", {"properties": {}}, "must not be empty"),
    ("a list of nothing", schema(a={"type": "array"}), "items"),
    ("a list map without its key", schema(a=LIST_MAP | {"items": ITEM}), "must have a default or be a required property"),
    ("a default of another type", schema(a={"type": "string", "default": 5}), "must be of type string"),
    ("an unknown type", schema(a={"type": "thing"}), 'Unsupported value: "thing"'),
    ("two ways of fields", schema(a={"type": "object", "properties": {"x": {"type": "string"}}, "additionalProperties": {"type": "string"}}), "mutual exclusive"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "message"), [case[1:] for case in BAD_DEFINITIONS], ids=[e[0] for e in BAD_DEFINITIONS]
)
async def test_a_schema_that_is_not_structural_is_refused(
    api: Api, namespace: str, content: Json, message: str
) -> None:
    answer = await api.post(CRDS, definition(f"{namespace}.example.dev", content))
    assert answer.status == 422
    assert message in answer.message


async def test_names_of_definitions_are_checked(api: Api, namespace: str) -> None:
    group = f"{namespace}.example.dev"
    other = definition(group, WIDGET)
    other["metadata"]["name"] = f"gadgets.{group}"
    assert "metadata.name" in (await api.post(CRDS, other)).causes()
    other = definition(group, WIDGET)
    other["spec"]["scope"] = "Everywhere"
    assert "spec.scope" in (await api.post(CRDS, other)).causes()


async def test_two_definitions_of_one_name(api: Api, widgets: str) -> None:
    """The second is kept, not served, and says why."""
    group = widgets.split("/")[2]
    rival = definition(group, {"type": "object", "properties": {"spec": ANYTHING}})
    rival["metadata"]["name"] = f"others.{group}"
    rival["spec"]["names"] |= {"plural": "others", "singular": "other", "kind": "Widget"}
    (await api.post(CRDS, rival)).ok(201)

    async def is_refused() -> bool:
        status = (await api.get(f"{CRDS}/others.{group}")).json.get("status") or {}
        conditions = {condition["type"]: condition for condition in status.get("conditions") or ()}
        return bool(conditions.get("NamesAccepted", {}).get("status") == "False")

    await api.eventually(is_refused, "the conflict of names")
    (await api.delete(f"{CRDS}/others.{group}")).ok(200)


async def test_versions_are_one_object(api: Api, namespace: str) -> None:
    group = f"{namespace}.example.dev"
    crd = definition(group, {"type": "object", "properties": {"spec": ANYTHING}})
    crd["spec"]["versions"].append({**crd["spec"]["versions"][0], "name": "v2", "storage": False})
    (await api.post(CRDS, crd)).ok(201)
    await established(api, f"widgets.{group}")
    old, new = (f"/apis/{group}/{version}/namespaces/{namespace}/widgets" for version in ("v1", "v2"))

    async def served() -> bool:
        return (await api.get(new)).status == 200

    await api.eventually(served, "the second version")
    (
        await api.post(
            new, {"apiVersion": f"{group}/v2", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"a": 1}}
        )
    ).ok(201)
    first, second = (await api.get(f"{old}/w")).ok(200).json, (await api.get(f"{new}/w")).ok(200).json
    assert (first["apiVersion"], second["apiVersion"]) == (f"{group}/v1", f"{group}/v2")
    assert first["metadata"]["uid"] == second["metadata"]["uid"]
    (await api.merge(f"{new}/w", {"spec": {"a": 2}})).ok(200)
    assert (await api.get(f"{old}/w")).json["spec"] == {"a": 2}
    listed = (await api.get(new)).ok(200).json
    assert listed["items"][0]["apiVersion"] == f"{group}/v2"
    (await api.delete(f"{CRDS}/widgets.{group}")).ok(200)


async def test_our_own_definitions_are_taken(api: Api) -> None:
    for crd in custom_resource_definitions():
        (await api.request("POST", f"{CRDS}?fieldValidation=Strict", crd)).ok(201, 409)
        await established(api, crd["metadata"]["name"])


async def test_what_a_stricter_schema_forbids_may_stay_as_it_was(api: Api, widgets: str) -> None:
    parts = [{"id": "a", "weight": 5}, {"id": "b", "weight": 1}]
    (await api.post(widgets, widget(widgets, "w", size=9, parts=parts))).ok(201)
    name = f"{CRDS}/widgets.{widgets.split('/')[2]}"
    crd = (await api.get(name)).ok(200).json
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["size"]["maximum"] = 5
    spec["properties"]["parts"]["items"]["properties"]["weight"]["maximum"] = 3
    (await api.put(name, crd)).ok(200)

    async def stricter() -> bool:
        return (await api.post(f"{widgets}?dryRun=All", widget(widgets, "v", size=9))).status == 422

    await api.eventually(stricter, "the stricter schema")
    (await api.merge(f"{widgets}/w", {"spec": {"colour": "green"}})).ok(200)
    (await api.merge(f"{widgets}/w/status", {"status": {"a": 1}})).ok(200)
    (await api.merge(f"{widgets}/w", {"spec": {"parts": [parts[1], parts[0]]}})).ok(200)
    for change in (
        {"size": 8},
        {"size": "9"},
        {"parts": [{"id": "a", "weight": 4}]},
        {"parts": [{"id": "c", "weight": 5}]},
    ):
        assert (await api.merge(f"{widgets}/w", {"spec": change})).status == 422
    (await api.merge(f"{widgets}/w", {"spec": {"size": 5}})).ok(200)
    assert (await api.merge(f"{widgets}/w", {"spec": {"size": 9}})).status == 422


async def test_what_became_required_is_asked_for_when_its_object_changes(api: Api, widgets: str) -> None:
    (await api.post(widgets, widget(widgets, "w", fixed={"a": 1}, parts=[{"id": "a"}]))).ok(201)
    name = f"{CRDS}/widgets.{widgets.split('/')[2]}"
    crd = (await api.get(name)).ok(200).json
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["fixed"] |= {"required": ["b"], "x-kubernetes-validations": None}
    spec["properties"]["fixed"]["properties"]["b"] = {"type": "integer"}
    (await api.put(name, crd)).ok(200)

    async def stricter() -> bool:
        return (await api.post(f"{widgets}?dryRun=All", widget(widgets, "v", fixed={}))).status == 422

    await api.eventually(stricter, "the stricter schema")
    (await api.merge(f"{widgets}/w", {"spec": {"size": 2}})).ok(200)
    assert "spec.fixed.b" in (await api.merge(f"{widgets}/w", {"spec": {"fixed": {"a": 2}}})).causes()
    (await api.merge(f"{widgets}/w", {"spec": {"fixed": {"a": 2, "b": 2}}})).ok(200)


async def test_true_is_not_one(api: Api, widgets: str) -> None:
    (await api.post(widgets, widget(widgets, "w", size=1))).ok(201)
    answer = await api.merge(f"{widgets}/w", {"spec": {"size": True}})
    assert 'must be of type integer: "boolean"' in answer.causes()["spec.size"]
