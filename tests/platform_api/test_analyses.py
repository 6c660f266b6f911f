"""Methods, measurements and safety cases: what fits together, queries, and scores."""

import base64

import httpx
import orjson
import pytest

from steelyard.api.settings import ApiSettings
from steelyard_common.types import Json
from steelyard_schema.entities import PLURALS
from steelyard_schema.ids import id_in_namespace
from steelyard_schema.names import place
from tests.platform_api.memory_platform import (
    MemoryPlatform,
    dataset,
    grant,
    make_platform,
    md5,
    model,
    service,
)
from tests.platform_api.test_collection import (
    METHOD,
    OUTPUTS,
    a_method,
    a_service,
    an_analysis,
    an_evaluation,
)

BAD_METHODS: dict[str, tuple[Json, str]] = {
    "no output of its kind": ({"output": {"kind": "Measurement"}}, "output.measurement"),
    "no such program": ({"implementation": {"kind": "Magic"}}, "implementation.kind"),
    "no program of its kind": (
        {"implementation": {"kind": "JupyterNotebook"}},
        "implementation.jupyterNotebook",
    ),
    "a parameter twice": ({"parameters": [{"keyword": "a"}, {"keyword": "a"}]}, "parameters.1"),
    "a parameter and an input of one name": ({"parameters": [{"keyword": "data"}]}, "parameters.0.keyword"),
    **{
        f"a function named {name!r}": (
            {"implementation": {"kind": "PythonFunction", "pythonFunction": {"fullyQualifiedName": name}}},
            "implementation.pythonFunction.fullyQualifiedName",
        )
        for name in ("", "count", "a.b:count", "a/b.py", ".count", "a.2b")
    },
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
async def test_a_method_that_does_not_fit_is_refused(
    platform: MemoryPlatform, changes: Json, field: str
) -> None:
    output = {"kind": "SafetyCase", "safetyCase": OUTPUTS["SafetyCase"]}
    body = {"account": "acme", "output": output, **METHOD, **changes}
    refused = await platform.admin.post("/methods", json=body)
    assert (refused.status_code, refused.json()["field"]) == (422, field)


BAD_ANALYSES: dict[str, tuple[Json, str]] = {
    "no scope": ({"scope": {}}, "scope.inferenceService"),
    "an input that is none": ({"inputs": [{"keyword": "x", "entity": "0" * 32}]}, "inputs.0.keyword"),
    "an input too few": ({"inputs": []}, "inputs"),
    "an argument twice": ({"arguments": [{"keyword": "depth", "value": "1"}] * 2}, "arguments.1.keyword"),
    "an input twice": ({"inputs": [{"keyword": "data", "entity": "0" * 32}] * 2}, "inputs.1.keyword"),
    "an input that is not there": ({"inputs": [{"keyword": "data", "entity": "0" * 32}]}, "inputs.0.entity"),
}


@pytest.mark.parametrize(("changes", "field"), BAD_ANALYSES.values(), ids=BAD_ANALYSES)
async def test_an_analysis_that_does_not_fit_its_method_is_refused(
    platform: MemoryPlatform, changes: Json, field: str
) -> None:
    method, served = await a_method(platform), await a_service(platform)
    data = await platform.created("datasets", **dataset())
    body = {
        "account": "acme",
        "method": method["id"],
        "scope": {"inferenceService": served["id"]},
        "inputs": [{"keyword": "data", "entity": data["id"]}],
        **changes,
    }
    refused = await platform.admin.post("/safetycases", json=body)
    assert (refused.status_code, refused.json()["field"]) == (422, field)


async def test_a_method_without_an_image_gets_that_of_the_settings() -> None:
    image = f"localhost/steelyard/steps@sha256:{'0' * 64}"
    async with make_platform(settings=ApiSettings(analysis_image=image)) as platform:
        output = {"kind": "SafetyCase", "safetyCase": OUTPUTS["SafetyCase"]}
        method = await platform.created("methods", **METHOD, output=output)
        parts = {"host": "localhost", "name": "steelyard/steps", "digest": image.partition("@")[2]}
        assert method["analysisImage"] == parts
        own = {**parts, "name": "team/methods"}
        method = await platform.created("methods", **METHOD, output=output, analysisImage=own)
        assert method["analysisImage"] == own


async def test_an_analysis_keeps_the_arguments_that_its_method_does_not_declare(
    platform: MemoryPlatform,
) -> None:
    case = await an_analysis(platform, "SafetyCase")
    given = {name: case[name] for name in ("account", "scope", "inputs")}
    arguments = [{"keyword": "depth", "value": "3"}, {"keyword": "other", "value": "1"}]
    again = await platform.created("safetycases", **given, method=case["method"]["id"], arguments=arguments)
    assert again["arguments"] == arguments


async def test_a_notebook_is_a_file_of_its_module(platform: MemoryPlatform) -> None:
    artifacts = [{"path": path} for path in ("a/one.ipynb", "two.ipynb", "code.py")]
    module = (await platform.created("modules", name="m", artifacts=artifacts))["id"]
    output = {"kind": "SafetyCase", "safetyCase": OUTPUTS["SafetyCase"]}
    for path, status in (("a/one.ipynb", 200), ("one.ipynb", 422)):
        notebook = {"notebookModule": module, "notebookPath": path}
        implementation = {"kind": "JupyterNotebook", "jupyterNotebook": notebook}
        body = {"account": "acme", **METHOD, "output": output, "implementation": implementation}
        response = await platform.admin.post("/methods", json=body)
        assert response.status_code == status, response.text
    assert "has no file 'one.ipynb'; its notebooks are a/one.ipynb, two.ipynb" in response.json()["detail"]


async def test_an_input_of_another_kind_is_called_what_it_is(platform: MemoryPlatform) -> None:
    method, served = await a_method(platform), await a_service(platform)
    body = {"method": method["id"], "scope": {"inferenceService": served["id"]}}
    own = await platform.holder(
        grant("*", ["*"], ["other"]),
        grant("methods", ["consume"], ["acme"]),
        grant("inferenceservices", ["consume"], ["acme"]),
    )
    for client, account, said in (
        (platform.admin, "acme", f"there is no Dataset {served['id']}: it is the id of an InferenceService"),
        (own, "other", f"there is no Dataset {served['id']}"),
    ):
        inputs = [{"keyword": "data", "entity": served["id"]}]
        refused = await client.post("/safetycases", json={"account": account, **body, "inputs": inputs})
        assert refused.status_code == 422
        assert refused.json()["detail"] == f"inputs.0.entity: {said}"


async def test_the_scope_is_that_of_its_evaluation(platform: MemoryPlatform) -> None:
    output = {"kind": "SafetyCase", "safetyCase": OUTPUTS["SafetyCase"]}
    method = await platform.created(
        "methods", **{**METHOD, "scope": "Evaluation", "inputs": []}, output=output
    )
    evaluation, other = await an_evaluation(platform), await an_evaluation(platform)
    service = evaluation["inferenceSession"]["inferenceService"]["id"]
    own = {"evaluation": evaluation["id"], "dataset": evaluation["dataset"], "inferenceService": service}
    body = {"account": "acme", "method": method["id"]}
    assert (await platform.admin.post("/safetycases", json={**body, "scope": own})).status_code == 200
    for name, id in (
        ("dataset", other["dataset"]),
        ("inferenceService", other["inferenceSession"]["inferenceService"]["id"]),
    ):
        refused = await platform.admin.post("/safetycases", json={**body, "scope": {**own, name: id}})
        assert (refused.status_code, refused.json()["field"]) == (422, f"scope.{name}")


async def test_a_method_makes_what_it_says_and_nothing_else(platform: MemoryPlatform) -> None:
    method = await a_method(platform, "Measurement")
    refused = await platform.admin.post("/safetycases", json={"account": "acme", "method": method["id"]})
    assert (refused.status_code, refused.json()["field"]) == (422, "method")


@pytest.mark.parametrize("kind", ["Measurement", "SafetyCase"])
async def test_a_download_of_what_has_failed_says_why_there_is_nothing(
    platform: MemoryPlatform, kind: str
) -> None:
    made, plural = await an_analysis(platform, kind), PLURALS[kind]
    path = f"/{plural}/{made['id']}/downlinks"
    early = (await platform.admin.get(path)).json()["detail"]
    assert early == f"status: {kind} {made['id']} is Created: its files are not final before it is Complete"
    await platform.engines.store.put(
        f"{place(kind, made['id'])}/part-0.parquet", b"of an attempt that failed"
    )
    await platform.says(kind, made["id"], "Failed", reason="MethodFailed")
    refused = await platform.admin.get(path)
    assert (refused.status_code, refused.json()["detail"]) == (
        409,
        f"status: {kind} {made['id']} is Failed (MethodFailed): it has no files to download; "
        "its log is at logs/workflow",
    )


OF_A_CASE = {"kind": "SafetyCase", "safetyCase": OUTPUTS["SafetyCase"]}


def data_of(analysis: Json) -> dict[str, Json]:
    return {item["key"]: orjson.loads(base64.b64decode(item["value"])) for item in analysis["data"]}


async def about(
    platform: MemoryPlatform, served: Json, client: httpx.AsyncClient | None = None
) -> dict[str, Json]:
    """Create a safety case about a service; return its data."""
    method = await platform.created("methods", **{**METHOD, "inputs": []}, output=OF_A_CASE)
    body = {"account": "acme", "method": method["id"], "scope": {"inferenceService": served["id"]}}
    answer = await (client or platform.admin).post("/safetycases", json=body)
    assert answer.status_code == 200, answer.text
    return data_of(answer.json())


@pytest.mark.parametrize("kind", ["Measurement", "SafetyCase"])
async def test_an_analysis_knows_the_model_that_it_is_about_and_its_method(
    platform: MemoryPlatform, kind: str
) -> None:
    made = await an_analysis(platform, kind)
    data = data_of(made)
    served = (await platform.admin.get(f"/inferenceservices/{made['scope']['inferenceService']}")).json()
    for key, named, id in (
        ("system", "Model", served["model"]["id"]),
        ("usecase", "Method", made["method"]["id"]),
    ):
        spec, documentation = data[key]["spec"], data[key]["documentation"]
        assert (spec["kind"], spec["id"]) == (named, id)
        # Pages show titles and summaries, and dyff-audit takes no null for one.
        assert documentation == {"entity": id, "title": spec["name"], "summary": ""}
        assert {"metadata", "labels", "annotations"}.isdisjoint(spec)


async def test_a_service_without_a_model_is_the_subject_itself(platform: MemoryPlatform) -> None:
    served = await platform.created("inferenceservices", **service())
    system = (await about(platform, served))["system"]
    assert (system["spec"]["kind"], system["spec"]["id"]) == ("InferenceService", served["id"])


async def test_a_model_shows_what_pages_need_to_those_who_may_see_it(platform: MemoryPlatform) -> None:
    files = [{"path": f"{number}.bin", "size": 4, "digest": {"md5": md5(b"x")}} for number in range(900)]
    artifact = {"kind": "Volume", "volume": {"files": files}}
    used = await platform.created("models", **{**model(), "artifact": artifact, "source": {"kind": "Upload"}})
    await platform.admin.patch(f"/models/{used['id']}/labels", json={"labels": {"secret": "x"}})
    texts = {"title": "A model", "summary": "It counts.", "fullPage": "f" * 100_000}
    await platform.admin.patch(f"/models/{used['id']}/documentation", json={"documentation": texts})
    served = await platform.created("inferenceservices", **service(used["id"]))
    system = (await about(platform, served))["system"]
    assert (system["spec"]["kind"], system["spec"]["artifact"]["volume"]) == ("Model", {"files": []})
    assert system["documentation"] == {"entity": used["id"], "title": "A model", "summary": "It counts."}
    assert "labels" not in system["spec"]
    may = [grant("safetycases", ["create"], ["acme"])]
    may += [grant(kind, ["consume"], ["acme"]) for kind in ("methods", "inferenceservices")]
    stranger = await platform.holder(*may)
    assert (await about(platform, served, stranger))["system"]["spec"]["kind"] == "InferenceService"
    await platform.admin.put(f"/models/{used['id']}/delete")
    assert (await about(platform, served))["system"]["spec"]["kind"] == "InferenceService"


async def test_a_subject_too_large_to_copy_is_left_out_and_the_analysis_is_made(
    platform: MemoryPlatform,
) -> None:
    texts = {"description": "d" * 200_000}
    method = await platform.created("methods", **{**METHOD, **texts, "inputs": []}, output=OF_A_CASE)
    served = await a_service(platform)
    made = await platform.created(
        "safetycases", method=method["id"], scope={"inferenceService": served["id"]}
    )
    assert data_of(made).keys() == {"system"}


async def test_analyses_are_found_by_method_scope_and_inputs(platform: MemoryPlatform) -> None:
    one, two = await an_analysis(platform, "SafetyCase"), await an_analysis(platform, "SafetyCase")
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
        ({"query": orjson.dumps([{"inputs": inputs[1]}, {"id": one["id"]}]).decode()}, []),
        ({"query": orjson.dumps([{"inputs": inputs}, {"inputs": inputs[1]}]).decode()}, [two]),
        ({"inputs": inputs[0], "query": orjson.dumps({"inputs": ",".join(inputs)}).decode()}, [one]),
        ({"query": '{"inputs": []}'}, []),
        ({"inputs": ","}, []),
        ({"inputs": "0" * 32}, []),
    ):
        # Before and after the view has them.
        for settle in (False, True):
            for case in (one, two) if settle else ():
                await platform.settled("SafetyCase", case["id"])
            listed = (await platform.admin.get("/safetycases", params=params)).json()
            assert [case["id"] for case in listed] == [case["id"] for case in expected], params
    assert (await platform.admin.get("/methods", params={"outputKind": "SafetyCase"})).json() != []
    assert (await platform.admin.get("/methods", params={"outputKind": "Measurement"})).json() == []


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


async def test_scores_are_those_of_the_files_of_safety_cases(platform: MemoryPlatform) -> None:
    one, two = await an_analysis(platform, "SafetyCase"), await an_analysis(platform, "SafetyCase")
    assert (await platform.admin.get(f"/safetycases/{one['id']}/scores")).json() == []
    for case in (one, two):
        content = {"scores": [score(case, "good"), score(case, "bad")]}
        path = f"{place('SafetyCase', case['id'])}/.dyff/scores.json"
        await platform.engines.store.put(path, orjson.dumps(content))
        await platform.says("SafetyCase", case["id"], "Complete")
    own = (await platform.admin.get(f"/safetycases/{one['id']}/scores")).json()
    assert [(item["kind"], item["id"]) for item in own] == [
        ("Score", id_in_namespace(one["id"], name)) for name in ("good", "bad")
    ]
    for params, count in (
        ({"id": one["id"], "method": one["method"]["id"]}, 2),
        ({"id": id_in_namespace(two["id"], "bad")}, 1),
        ({"analysis": two["id"], "name": "good"}, 1),
        ({"inferenceService": two["scope"]["inferenceService"]}, 2),
        ({"query": '{"name": ["good", "bad"]}'}, 4),
        ({"query": '[{"name": ["good", "bad"]}, {"name": "good", "analysis": null}]'}, 2),
        ({"query": '[{"name": "good"}, {"name": "none"}]'}, 0),
        ({"id": id_in_namespace(two["id"], "bad"), "query": f'{{"id": "{two["id"]}"}}'}, 1),
        ({"method": "0" * 32}, 0),
    ):
        assert len((await platform.admin.get("/safetycases/scores", params=params)).json()) == count, params
    refused = await platform.admin.get("/safetycases/scores", params={"colour": "red"})
    assert (refused.status_code, refused.json()["field"]) == (422, "colour")
    assert (await platform.admin.get(f"/safetycases/{one['id']}/curves")).json() == []


@pytest.mark.parametrize(
    ("steps", "count"),
    [(["Complete"], 1), (["Failed"], 0), (["Terminated"], 0), (["Complete", "Deleted"], 0)],
)
async def test_only_complete_safety_cases_show_scores(
    platform: MemoryPlatform, steps: list[str], count: int
) -> None:
    """An attempt writes the file before its end is known, and a file that was published stays for a time."""
    case = await an_analysis(platform, "SafetyCase")
    for name in ("scores", "curves"):
        path = f"{place('SafetyCase', case['id'])}/.dyff/{name}.json"
        await platform.engines.store.put(path, orjson.dumps({name: [score(case, "good")]}))
    assert (await platform.admin.get(f"/safetycases/{case['id']}/scores")).json() == []
    for status in steps:
        source = "informer" if status in {"Complete", "Failed"} else "api"
        await platform.says("SafetyCase", case["id"], status, source)
    for name in ("scores", "curves"):
        assert len((await platform.admin.get(f"/safetycases/{case['id']}/{name}")).json()) == count
        assert len((await platform.admin.get(f"/safetycases/{name}")).json()) == count


async def test_scores_are_read_page_by_page_and_none_is_lost(platform: MemoryPlatform) -> None:
    cases = [await an_analysis(platform, "SafetyCase") for _ in range(3)]
    for case in cases:
        content = {"scores": [score(case, name) for name in ("a", "b", "c")]}
        path = f"{place('SafetyCase', case['id'])}/.dyff/scores.json"
        await platform.engines.store.put(path, orjson.dumps(content))
        await platform.says("SafetyCase", case["id"], "Complete")
    everything = (await platform.admin.get("/safetycases/scores")).json()
    assert len(everything) == 9
    for limit in (1, 2, 3, 4, 9):
        paged: list[Json] = []
        params: Json = {"limit": str(limit)}
        while True:
            answer = await platform.admin.get("/safetycases/scores", params=params)
            paged += answer.json()
            if answer.headers.get("steelyard-more") != "true":
                break
            params["after"] = orjson.dumps([paged[-1]["analysis"], paged[-1]["id"]]).decode()
        assert paged == everything, limit
    stranger = await platform.holder(grant("safetycases", ["query"], ["other"]))
    for client, bad in (
        (platform.admin, {"limit": "0"}),
        (platform.admin, {"limit": "many"}),
        (platform.admin, {"limit": "٣"}),
        (platform.admin, {"after": "x"}),
        (platform.admin, {"after": "[1]"}),
        (platform.admin, {"after": '["none", "none"]'}),
        (stranger, {"after": orjson.dumps([everything[0]["analysis"], everything[0]["id"]]).decode()}),
    ):
        refused = await client.get("/safetycases/scores", params=bad)
        assert (refused.status_code, refused.json()["field"]) == (422, next(iter(bad))), bad


async def test_more_scores_than_one_answer_holds_are_announced() -> None:
    async with make_platform(settings=ApiSettings(query_limit=2)) as platform:
        case = await an_analysis(platform, "SafetyCase")
        content = {"scores": [score(case, name) for name in ("a", "b", "c")]}
        await platform.engines.store.put(
            f"{place('SafetyCase', case['id'])}/.dyff/scores.json", orjson.dumps(content)
        )
        await platform.says("SafetyCase", case["id"], "Complete")
        answer = await platform.admin.get("/safetycases/scores")
        assert (len(answer.json()), answer.headers["steelyard-more"]) == (2, "true")


async def test_a_query_of_scores_shows_those_of_visible_safety_cases_alone(platform: MemoryPlatform) -> None:
    one, two = [await an_analysis(platform, "SafetyCase") for _ in range(2)]
    for case in (one, two):
        path = f"{place('SafetyCase', case['id'])}/.dyff/scores.json"
        await platform.engines.store.put(path, orjson.dumps({"scores": [score(case, "a")]}))
        await platform.says("SafetyCase", case["id"], "Complete")
    for given, seen in (
        (grant("safetycases", ["query"], [], [one["id"]]), [one]),
        (grant("safetycases", ["query"], ["other"]), []),
        (grant("safetycases", ["query"], ["acme"]), [two, one]),
    ):
        client = await platform.holder(given)
        for params in ({}, {"query": '[{"name": "a"}, {}]'}, {"inferenceService": ""}):
            scores = (await client.get("/safetycases/scores", params=params)).json()
            assert [item["analysis"] for item in scores] == [case["id"] for case in seen]
        hidden = (await client.get("/safetycases/scores", params={"id": two["id"]})).json()
        assert bool(hidden) == (two in seen)
