"""Answers of every view to queries. Engines run each of `CASES`, and those of `view_sink`."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

import orjson

from steelyard.views.fields import cursor
from steelyard.views.matching import parse
from steelyard.views.view import BadQuery, Change, Position, Query, View
from steelyard_schema.account import Scope

Case = Callable[[View], Awaitable[None]]


def dataset(id: str, **fields: object) -> dict[str, object]:
    given = {"kind": "Dataset", "id": id, "account": "a1", "status": "Ready", "name": f"name of {id}"}
    return given | {"creationTime": "2026-01-31T12:00:00Z"} | fields


def service(id: str) -> dict[str, object]:
    return {"id": id, "name": f"name of {id}", "model": {"id": f"{id}-m", "name": f"name of {id}-m"}}


def change(entity: Mapping[str, object], offset: int, epoch: int = 1) -> Change:
    return Change(str(entity["id"]), orjson.dumps(entity), Position(epoch, offset))


def deletion(id: str, offset: int, epoch: int = 1) -> Change:
    return Change(id, None, Position(epoch, offset))


async def put(view: View, *entities: Mapping[str, object], epoch: int = 1) -> None:
    changes = [change(entity, offset, epoch) for offset, entity in enumerate(entities, 1)]
    await view.apply(changes, epoch, {0: len(changes)})


async def ids(view: View, query: Query) -> list[str]:
    return [stored.id for stored in await view.query(query)]


async def pages(view: View, query: Query) -> list[str]:
    """All ids, found page by page."""
    listed: list[str] = []
    while page := await view.query(query):
        listed += [stored.id for stored in page]
        query = replace(query, after=cursor(parse(page[-1]), query.kind, query.order_by))
    return listed


# ---- looking up


async def an_entity_is_got_as_it_was_put(view: View) -> None:
    entity = dataset("d1", text="naïve \u0000 \u2028")
    await put(view, entity)
    stored = await view.get("Dataset", "d1")
    assert stored is not None
    assert (stored.kind, stored.id, stored.json, stored.position) == (
        "Dataset",
        "d1",
        orjson.dumps(entity),
        Position(1, 1),
    )
    assert await view.find("d1") == stored
    assert await view.query(Query("Dataset")) == [stored]


async def an_id_of_another_kind_is_not_got(view: View) -> None:
    await put(view, dataset("d1"))
    assert await view.get("Model", "d1") is None
    assert await view.get("Spoon", "d1") is None
    assert await view.get("Dataset", "d2") is None
    assert await view.find("d2") is None


async def the_kinds_of_those_that_are_there_come_by_id(view: View) -> None:
    model = {"kind": "Model", "id": "m1", "account": "a1", "creationTime": "2026-01-31T12:00:00Z"}
    strange = "strange \u0000 $id"
    await put(view, dataset("d1"), dataset("d2"), model, dataset(strange), dataset("d3"))
    await view.apply([deletion("d2", 9)], 1, {0: 10})
    assert await view.kinds(["d1", "d2", "m1", "d4", strange]) == {
        "d1": "Dataset",
        "m1": "Model",
        strange: "Dataset",
    }
    assert await view.kinds([]) == {}


async def filters_read_their_fields(view: View) -> None:
    base = {"account": "a1", "creationTime": "2026-01-31T12:00:00Z", "status": "Created"}
    evaluation = base | {"kind": "Evaluation", "id": "e", "dataset": "d", "reason": "QuotaLimit"}
    report = {"kind": "Report", "id": "r", "rubric": "R", "dataset": "d", "evaluation": "e"}
    entities: list[Mapping[str, object]] = [
        evaluation | {"inferenceSession": {"inferenceService": service("s")}},
        base | service("s") | {"kind": "InferenceService"},
        base | {"kind": "InferenceSession", "id": "n", "inferenceService": service("s")},
        base | report | {"inferenceService": "s", "model": "s-m"},
        base | {"kind": "Audit", "id": "t", "auditProcedure": "p", "inferenceService": "s"},
        base | {"kind": "AuditProcedure", "id": "p", "name": "name of p"},
    ]
    await put(view, *entities)
    about = {"inferenceServiceName": "name of s", "model": "s-m", "modelName": "name of s-m"}
    queries = {
        "Evaluation": {"id": "e", "dataset": "d", "reason": "QuotaLimit", "inferenceService": "s", **about},
        "InferenceService": {"id": "s", "name": "name of s", "model": "s-m", "modelName": "name of s-m"},
        "InferenceSession": {"id": "n", "inferenceService": "s", "status": "Created", **about},
        "Report": {"report": "R", "rubric": "R", "dataset": "d", "evaluation": "e",
                   "inferenceService": "s", "model": "s-m"},
        "Audit": {"auditProcedure": "p", "inferenceService": "s", "account": "a1"},
        "AuditProcedure": {"name": "name of p"},
    }  # fmt: skip
    for kind, filters in queries.items():
        for name, text in filters.items():
            assert len(await view.query(Query(kind, filters={name: [text]}))) == 1, (kind, name)
            assert await view.query(Query(kind, filters={name: ["another"]})) == [], (kind, name)
    assert await view.query(Query("Audit", filters={"name": ["None"]})) == []


async def values_of_a_filter_are_alternatives_and_filters_are_not(view: View) -> None:
    await put(view, dataset("d1"), dataset("d2", status="Error"), dataset("d3", account="a2"))
    assert await ids(view, Query("Dataset", filters={"status": ["Ready", "Error"], "account": ["a1"]})) == [
        "d1",
        "d2",
    ]
    assert await ids(view, Query("Dataset", filters={"status": []})) == []


async def one_condition_of_any_of_has_to_hold(view: View) -> None:
    await put(view, dataset("d1"), dataset("d2", status="Error"), dataset("d3", account="a2"))
    either = [
        {"status": ["Error"]},
        {"account": ["a2"], "id": ["d3", "d1"]},
        {"status": ["Ready"], "id": ["d9"]},
    ]
    assert await ids(view, Query("Dataset", any_of=either)) == ["d2", "d3"]
    assert await ids(view, Query("Dataset", filters={"account": ["a1"]}, any_of=either)) == ["d2"]
    assert await ids(view, Query("Dataset", any_of=[{}, {"id": ["d1"]}], limit=2)) == ["d1", "d2"]


async def all_labels_have_to_match(view: View) -> None:
    await put(
        view, dataset("d1", labels={"x": "1", "a.b/c": "2"}), dataset("d2", labels={"x": "1"}), dataset("d3")
    )
    assert await ids(view, Query("Dataset", labels={"x": "1"})) == ["d1", "d2"]
    assert await ids(view, Query("Dataset", labels={"x": "1", "a.b/c": "2"})) == ["d1"]
    assert await ids(view, Query("Dataset", labels={"x": "2"})) == []
    assert await ids(view, Query("Dataset", any_of=[{"labels.a.b/c": ["2", "3"]}])) == ["d1"]


async def labels_follow_their_entity(view: View) -> None:
    await put(view, dataset("d1", labels={"x": "1", "y": "1"}))
    await view.apply([change(dataset("d1", labels={"x": "2", "z": "1"}), 2)], 1, {0: 2})
    assert await ids(view, Query("Dataset", labels={"x": "1"})) == []
    assert await ids(view, Query("Dataset", labels={"y": "1"})) == []
    assert await ids(view, Query("Dataset", labels={"x": "2", "z": "1"})) == ["d1"]
    await view.apply([deletion("d1", 3), change(dataset("d2"), 4)], 1, {0: 4})
    assert await ids(view, Query("Dataset", any_of=[{"labels.z": ["1"]}, {"labels.x": ["1", "2"]}])) == []


async def a_scope_hides_the_rest(view: View) -> None:
    await put(view, dataset("d1"), dataset("d2", account="a2"), dataset("d3", account="a3"))
    scope = Scope(accounts=frozenset({"a1"}), entities=frozenset({"d3", "d1"}))
    assert await ids(view, Query("Dataset", scope=scope)) == ["d1", "d3"]
    assert await ids(view, Query("Dataset", scope=scope, filters={"account": ["a2", "a3"]})) == ["d3"]
    assert await ids(view, Query("Dataset", scope=Scope(frozenset(), frozenset()))) == []
    assert await ids(view, Query("Dataset", scope=Scope(frozenset(), frozenset({"*"})))) == ["d1", "d2", "d3"]


# ---- order


async def entities_come_in_order_of_creation(view: View) -> None:
    """Entities within one second are in order, too, although a whole second's text is greater than its fractions'."""
    times = ["00Z", "00.000001Z", "00.5Z", "00.500001Z", "01Z"]
    entities = [dataset(f"d{5 - n}", creationTime=f"2026-01-31T12:00:{time}") for n, time in enumerate(times)]
    await put(view, *entities[2:], *entities[:2])
    expected = ["d5", "d4", "d3", "d2", "d1"]
    assert await ids(view, Query("Dataset")) == expected
    for limit in (1, 2, 5, 9):
        down = Query("Dataset", order_by="creationTime", order="descending", limit=limit)
        assert await pages(view, down) == expected[::-1]
        assert await pages(view, replace(down, order="ascending")) == expected


async def ties_are_in_the_order_of_ids(view: View) -> None:
    await put(view, *(dataset(f"d{n}", name="same") for n in (3, 1, 2)))
    for order_by in ("name", "creationTime"):
        up = Query("Dataset", order_by=order_by, limit=1)
        assert await pages(view, up) == ["d1", "d2", "d3"]
        assert await pages(view, replace(up, order="descending")) == ["d3", "d2", "d1"]


async def entities_without_the_field_come_last(view: View) -> None:
    await put(view, dataset("d1"), dataset("d2", reason="B"), dataset("d3", reason="A"), dataset("d4"))
    for limit in (1, 2, 3, 4):
        up = Query("Dataset", order_by="reason", limit=limit)
        assert await pages(view, up) == ["d3", "d2", "d1", "d4"]
        assert await pages(view, replace(up, order="descending")) == ["d2", "d3", "d4", "d1"]
        changed = Query("Dataset", order_by="lastTransitionTime", limit=limit)
        assert await pages(view, changed) == ["d1", "d2", "d3", "d4"]


async def a_page_begins_after_an_entity_that_is_gone(view: View) -> None:
    await put(view, *(dataset(f"d{n}") for n in (1, 2, 3)))
    await view.apply([deletion("d2", 9)], 1, {})
    after = Query("Dataset", order_by="id", after=("d2", "d2"))
    assert await ids(view, after) == ["d3"]
    assert await ids(view, replace(after, order="descending")) == ["d1"]


async def a_wrong_query_is_refused(view: View) -> None:
    wrong = {
        "kind": Query("Spoon"),
        "model": Query("Dataset", filters={"model": ["m"]}),
        "colour": Query("Dataset", any_of=[{"colour": ["red"]}]),
        "orderBy": Query("Dataset", order_by="metadata"),
        "limit": Query("Dataset", limit=0),
        "after": Query("Dataset", after=("yesterday", "d1")),
    }
    for field, query in wrong.items():
        try:
            await view.query(query)
        except BadQuery as refusal:
            named = refusal.field
        else:
            named = "none"
        assert named == field


CASES: Mapping[str, Case] = {
    case.__name__: case
    for case in (
        an_entity_is_got_as_it_was_put,
        an_id_of_another_kind_is_not_got,
        the_kinds_of_those_that_are_there_come_by_id,
        filters_read_their_fields,
        values_of_a_filter_are_alternatives_and_filters_are_not,
        one_condition_of_any_of_has_to_hold,
        all_labels_have_to_match,
        labels_follow_their_entity,
        a_scope_hides_the_rest,
        entities_come_in_order_of_creation,
        ties_are_in_the_order_of_ids,
        entities_without_the_field_come_last,
        a_page_begins_after_an_entity_that_is_gone,
        a_wrong_query_is_refused,
    )
}
