"""Rules in CEL of custom kinds: which objects they let through, what they say, and which rules there cannot be."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from steelyard_common.types import Json
from tests.kubernetes_api.api import Answer, Api, definition
from tests.kubernetes_api.conftest import CRDS, established, widget
from tests.kubernetes_api.rule_cases import (
    CASES,
    CHANGES,
    GROWS,
    LIST,
    REFUSED,
    TEXT,
    WHOLE,
    fields,
    ruled,
)

ROOT = "spec.validation.openAPIV3Schema"

Defined = Callable[..., Awaitable[str]]


@pytest.fixture
async def defined(api: Api, namespace: str) -> AsyncIterator[Defined]:
    """Makes a kind whose spec has a schema, with rules at its root; its path."""
    group = f"{namespace}.example.dev"

    async def make(spec: Json, *root: str | Json, **more: Json) -> str:
        (await api.post(CRDS, definition(group, ruled(fields(spec=spec, **more), *root)))).ok(201)
        await established(api, f"widgets.{group}")
        path = f"/apis/{group}/v1/namespaces/{namespace}/widgets"

        async def served() -> bool:
            return (await api.get(path)).status == 200

        await api.eventually(served, "the new kind served")
        return path

    yield make
    await api.delete(f"{CRDS}/widgets.{group}")


async def create(api: Api, path: str, spec: Json, name: str = "w") -> Answer:
    return await api.post(path, widget(path, name) | {"spec": spec})


@pytest.mark.parametrize(
    ("schema", "good", "bad", "field", "message"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
async def test_rules_on_new_objects(
    api: Api, defined: Defined, schema: Json, good: Json, bad: Json, field: str, message: str
) -> None:
    path = await defined(schema)
    (await create(api, path, good)).ok(201)
    answer = await create(api, path, bad, "other")
    assert (answer.status, answer.json["reason"]) == (422, "Invalid")
    assert message in answer.causes()[field]
    assert (await api.get(f"{path}/other")).status == 404


@pytest.mark.parametrize(
    ("schema", "first", "good", "bad", "field"), [case[1:] for case in CHANGES], ids=[e[0] for e in CHANGES]
)
async def test_rules_on_changes(
    api: Api, defined: Defined, schema: Json, first: Json, good: Json, bad: Json, field: str
) -> None:
    path = await defined(schema)
    (await create(api, path, first)).ok(201)
    (await api.merge(f"{path}/w", {"spec": good})).ok(200)
    answer = await api.merge(f"{path}/w", {"spec": bad})
    assert answer.status == 422
    assert field in answer.causes()
    (await api.merge(f"{path}/w", {"metadata": {"labels": {"a": "b"}}})).ok(200)


async def test_rules_see_names_and_all_of_the_object(api: Api, defined: Defined) -> None:
    rule = "self.metadata.name.size() <= 3 && self.kind == 'Widget' && self.spec.a == 1"
    path = await defined(fields(a=WHOLE), rule)
    (await create(api, path, {"a": 1}, "abc")).ok(201)
    for name, spec in (("abcd", {"a": 1}), ("abd", {"a": 2})):
        answer = await create(api, path, spec, name)
        assert answer.status == 422
        assert "failed rule" in answer.causes()["<nil>"]


async def test_rules_of_status_are_asked_when_it_is_written(api: Api, defined: Defined) -> None:
    rule = "!has(self.status) || self.status.b >= self.spec.a"
    path = await defined(fields(a=WHOLE), rule, status=fields(b=ruled(WHOLE, GROWS)))
    (await create(api, path, {"a": 1})).ok(201)
    (await api.merge(f"{path}/w/status", {"status": {"b": 2}})).ok(200)
    assert (await api.merge(f"{path}/w/status", {"status": {"b": 1}})).causes().keys() == {"status.b"}
    assert (await api.merge(f"{path}/w", {"spec": {"a": 3}})).causes().keys() == {"<nil>"}


async def test_what_the_schema_forbids_comes_first(api: Api, defined: Defined) -> None:
    path = await defined(
        ruled(fields(a={**WHOLE, "maximum": 5}, b={"type": "string", "enum": ["x"]}), "self.a < 3")
    )
    answer = await create(api, path, {"a": 9})
    assert answer.causes().keys() == {"spec.a", "spec"}
    answer = await create(api, path, {"a": 9, "b": "y"})
    assert answer.causes().keys() == {"spec.a", "spec.b", "<nil>"}
    assert "some validation rules were not checked because the object was invalid" in answer.causes()["<nil>"]


async def test_what_was_there_before_a_rule_may_stay(api: Api, defined: Defined) -> None:
    path = await defined(fields(a=WHOLE, b=WHOLE))
    (await create(api, path, {"a": 1, "b": 1})).ok(201)
    name = f"{CRDS}/widgets.{path.split('/')[2]}"
    crd = (await api.get(name)).ok(200).json
    spec = fields(a=ruled(WHOLE, "self > 1"), b=WHOLE)
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = spec
    (await api.put(name, crd)).ok(200)

    async def is_checked() -> bool:
        return (await create(api, f"{path}?dryRun=All", {"a": 1, "b": 1}, "v")).status == 422

    await api.eventually(is_checked, "the new rule")
    (await api.merge(f"{path}/w", {"spec": {"b": 2}})).ok(200)
    (await api.merge(f"{path}/w/status", {"status": {}})).ok(200)
    assert (await api.merge(f"{path}/w", {"spec": {"a": 0}})).status == 422


@pytest.mark.parametrize(
    ("spec", "word", "message"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
async def test_rules_that_cannot_be(api: Api, namespace: str, spec: Json, word: str, message: str) -> None:
    answer = await api.post(CRDS, definition(f"{namespace}.example.dev", fields(spec=spec)))
    assert answer.status == 422
    where = f"{ROOT}.properties[spec].x-kubernetes-validations[0].{word}"
    assert message in answer.causes()[where]


async def test_items_without_keys_have_no_past(api: Api, namespace: str) -> None:
    content = fields(spec=fields(l={**LIST, "items": ruled(WHOLE, "self >= oldSelf")}))
    answer = await api.post(CRDS, definition(f"{namespace}.example.dev", content))
    where = f"{ROOT}.properties[spec].properties[l].items.x-kubernetes-validations[0].rule"
    assert "oldSelf cannot be used on the uncorrelatable portion of the schema" in answer.causes()[where]


async def test_rules_of_which_the_engine_knows_nothing_are_refused(
    embedded: object, api: Api, namespace: str
) -> None:
    for rule in (
        "quantity(self) > quantity('1')",
        "isURL(self)",
        "optional.of(self).optMap(x, x).hasValue()",
    ):
        content = fields(spec=fields(a=ruled(TEXT, rule)))
        answer = await api.post(CRDS, definition(f"{namespace}.example.dev", content))
        assert answer.status == 422
        assert "undeclared reference" in answer.message
