"""Methods, measurements and safety cases: what fits together, queries, and scores."""

import orjson
import pytest

from steelyard.api.settings import ApiSettings
from steelyard.schema.ids import namespaced_id
from steelyard.schema.names import place
from steelyard.types import Json
from tests.platform_api.test_collection import METHOD, OUTPUTS, a_method, a_service, an_analysis
from tests.platform_api.world import World, dataset, grant, make_world

BAD_METHODS: dict[str, tuple[Json, str]] = {
    "no output of its kind": ({"output": {"kind": "Measurement"}}, "output.measurement"),
    "no such program": ({"implementation": {"kind": "Magic"}}, "implementation.kind"),
    "no program of its kind": (
        {"implementation": {"kind": "JupyterNotebook"}},
        "implementation.jupyterNotebook",
    ),
    "a parameter twice": ({"parameters": [{"keyword": "a"}, {"keyword": "a"}]}, "parameters.1"),
    "no such module": ({"modules": ["0" * 32]}, "modules.0"),
    "no module with the notebook": (
        {
            "implementation": {
                "kind": "JupyterNotebook",
                "jupyterNotebook": {"notebookModule": "0" * 32, "notebookPath": "a.ipynb"},
            }
        },
        "implementation.jupyterNotebook.notebookModule",
    ),
}


@pytest.mark.parametrize(("changes", "field"), BAD_METHODS.values(), ids=BAD_METHODS)
async def test_a_method_that_does_not_fit_is_refused(world: World, changes: Json, field: str) -> None:
    output = {"kind": "SafetyCase", "safetyCase": OUTPUTS["SafetyCase"]}
    body = {"account": "acme", "output": output, **METHOD, **changes}
    refused = await world.admin.post("/methods", json=body)
    assert (refused.status_code, refused.json()["field"]) == (422, field)


BAD_ANALYSES: dict[str, tuple[Json, str]] = {
    "no scope": ({"scope": {}}, "scope.inferenceService"),
    "a parameter that is none": ({"arguments": [{"keyword": "x", "value": "1"}]}, "arguments.0.keyword"),
    "an input that is none": ({"inputs": [{"keyword": "x", "entity": "0" * 32}]}, "inputs.0.keyword"),
    "an input too few": ({"inputs": []}, "inputs"),
    "an input that is not there": ({"inputs": [{"keyword": "data", "entity": "0" * 32}]}, "inputs.0.entity"),
}


@pytest.mark.parametrize(("changes", "field"), BAD_ANALYSES.values(), ids=BAD_ANALYSES)
async def test_an_analysis_that_does_not_fit_its_method_is_refused(
    world: World, changes: Json, field: str
) -> None:
    method, served = await a_method(world), await a_service(world)
    data = await world.created("datasets", **dataset())
    body = {
        "account": "acme",
        "method": method["id"],
        "scope": {"inferenceService": served["id"]},
        "inputs": [{"keyword": "data", "entity": data["id"]}],
        **changes,
    }
    refused = await world.admin.post("/safetycases", json=body)
    assert (refused.status_code, refused.json()["field"]) == (422, field)


async def test_a_method_makes_what_it_says_and_nothing_else(world: World) -> None:
    method = await a_method(world, "Measurement")
    refused = await world.admin.post("/safetycases", json={"account": "acme", "method": method["id"]})
    assert (refused.status_code, refused.json()["field"]) == (422, "method")


async def test_analyses_are_found_by_method_scope_and_inputs(world: World) -> None:
    one, two = await an_analysis(world, "SafetyCase"), await an_analysis(world, "SafetyCase")
    inputs = [case["inputs"][0]["entity"] for case in (one, two)]
    for params, expected in (
        ({"method": one["method"]["id"]}, [one]),
        ({"methodName": "counting"}, [one, two]),
        ({"inferenceService": two["scope"]["inferenceService"]}, [two]),
        ({"inputs": inputs[0]}, [one]),
        ({"inputs": ",".join(inputs)}, [one, two]),
        ({"inputs": inputs[0], "method": two["method"]["id"]}, []),
        ({"query": orjson.dumps({"inputs": inputs}).decode()}, [one, two]),
        ({"query": orjson.dumps({"inputs": inputs, "methodName": "other"}).decode()}, []),
        ({"query": orjson.dumps([{"inputs": inputs[1]}, {"id": one["id"]}]).decode()}, [one, two]),
        ({"inputs": "0" * 32}, []),
    ):
        # Before and after the view has them.
        for settle in (False, True):
            for case in (one, two) if settle else ():
                await world.settled("SafetyCase", case["id"])
            listed = (await world.admin.get("/safetycases", params=params)).json()
            assert [case["id"] for case in listed] == [case["id"] for case in expected], params
    assert (await world.admin.get("/methods", params={"outputKind": "SafetyCase"})).json() != []
    assert (await world.admin.get("/methods", params={"outputKind": "Measurement"})).json() == []


def score(case: Json, name: str) -> Json:
    refs = {"method": case["method"]["id"], **case["scope"]}
    return {
        "name": name,
        "title": "T",
        "summary": "S",
        "metadata": {"refs": refs},
        "analysis": case["id"],
        "quantity": 0.5,
        "quantityString": "0.5",
        "text": "half",
    }


async def test_scores_are_those_of_the_files_of_safety_cases(world: World) -> None:
    one, two = await an_analysis(world, "SafetyCase"), await an_analysis(world, "SafetyCase")
    assert (await world.admin.get(f"/safetycases/{one['id']}/scores")).json() == []
    for case in (one, two):
        content = {"scores": [score(case, "good"), score(case, "bad")]}
        path = f"{place('SafetyCase', case['id'])}/.dyff/scores.json"
        await world.engines.store.put(path, orjson.dumps(content))
        await world.says("SafetyCase", case["id"], "Complete")
    own = (await world.admin.get(f"/safetycases/{one['id']}/scores")).json()
    assert [(item["kind"], item["id"]) for item in own] == [
        ("Score", namespaced_id(one["id"], name)) for name in ("good", "bad")
    ]
    for params, count in (
        ({"id": one["id"], "method": one["method"]["id"]}, 2),
        ({"id": namespaced_id(two["id"], "bad")}, 1),
        ({"analysis": two["id"], "name": "good"}, 1),
        ({"inferenceService": two["scope"]["inferenceService"]}, 2),
        ({"query": '{"name": ["good", "bad"]}'}, 4),
        ({"query": '[{"name": "good"}, {"name": "none"}]'}, 2),
        ({"method": "0" * 32}, 0),
    ):
        assert len((await world.admin.get("/safetycases/scores", params=params)).json()) == count, params
    refused = await world.admin.get("/safetycases/scores", params={"colour": "red"})
    assert (refused.status_code, refused.json()["field"]) == (422, "colour")
    assert (await world.admin.get(f"/safetycases/{one['id']}/curves")).json() == []


async def test_scores_are_read_page_by_page_and_none_is_lost(world: World) -> None:
    cases = [await an_analysis(world, "SafetyCase") for _ in range(3)]
    for case in cases:
        content = {"scores": [score(case, name) for name in ("a", "b", "c")]}
        path = f"{place('SafetyCase', case['id'])}/.dyff/scores.json"
        await world.engines.store.put(path, orjson.dumps(content))
        await world.says("SafetyCase", case["id"], "Complete")
    everything = (await world.admin.get("/safetycases/scores")).json()
    assert len(everything) == 9
    for limit in (1, 2, 3, 4, 9):
        paged: list[Json] = []
        params: Json = {"limit": str(limit)}
        while True:
            answer = await world.admin.get("/safetycases/scores", params=params)
            paged += answer.json()
            if answer.headers.get("steelyard-more") != "true":
                break
            params["after"] = orjson.dumps([paged[-1]["analysis"], paged[-1]["id"]]).decode()
        assert paged == everything, limit
    stranger = await world.holder(grant("safetycases", ["query"], ["other"]))
    for client, bad in (
        (world.admin, {"limit": "0"}),
        (world.admin, {"limit": "many"}),
        (world.admin, {"limit": "٣"}),
        (world.admin, {"after": "x"}),
        (world.admin, {"after": "[1]"}),
        (world.admin, {"after": '["none", "none"]'}),
        (stranger, {"after": orjson.dumps([everything[0]["analysis"], everything[0]["id"]]).decode()}),
    ):
        refused = await client.get("/safetycases/scores", params=bad)
        assert (refused.status_code, refused.json()["field"]) == (422, next(iter(bad))), bad


async def test_more_scores_than_one_answer_holds_are_announced() -> None:
    async with make_world(settings=ApiSettings(query_limit=2)) as world:
        case = await an_analysis(world, "SafetyCase")
        content = {"scores": [score(case, name) for name in ("a", "b", "c")]}
        await world.engines.store.put(
            f"{place('SafetyCase', case['id'])}/.dyff/scores.json", orjson.dumps(content)
        )
        await world.says("SafetyCase", case["id"], "Complete")
        answer = await world.admin.get("/safetycases/scores")
        assert (len(answer.json()), answer.headers["steelyard-more"]) == (2, "true")


async def test_a_query_of_scores_shows_those_of_visible_safety_cases_alone(world: World) -> None:
    one, two = [await an_analysis(world, "SafetyCase") for _ in range(2)]
    for case in (one, two):
        path = f"{place('SafetyCase', case['id'])}/.dyff/scores.json"
        await world.engines.store.put(path, orjson.dumps({"scores": [score(case, "a")]}))
        await world.says("SafetyCase", case["id"], "Complete")
    for given, seen in (
        (grant("safetycases", ["query"], [], [one["id"]]), [one]),
        (grant("safetycases", ["query"], ["other"]), []),
        (grant("safetycases", ["query"], ["acme"]), [two, one]),
    ):
        client = await world.holder(given)
        for params in ({}, {"query": '[{"name": "a"}, {}]'}, {"inferenceService": ""}):
            scores = (await client.get("/safetycases/scores", params=params)).json()
            assert [item["analysis"] for item in scores] == [case["id"] for case in seen]
        hidden = (await client.get("/safetycases/scores", params={"id": two["id"]})).json()
        assert bool(hidden) == (two in seen)
