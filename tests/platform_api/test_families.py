"""Families: tags for entities of one kind, and `family@tag` in requests."""

import pytest

from steelyard_common.types import Json
from tests.platform_api.memory_platform import MemoryPlatform, dataset, grant, model, service
from tests.platform_api.test_collection import METHOD, OUTPUTS, a_method, a_service
from tests.platform_api.test_submissions import a_contest, submit


async def test_tags_are_given_and_taken_and_stand_for_entities(platform: MemoryPlatform) -> None:
    family = await platform.created("families", memberKind="Method")
    method, served = await a_method(platform), await a_service(platform)
    data = await platform.created("datasets", **dataset())
    path = f"/families/{family['id']}/members"
    member = {"entity": {"id": method["id"], "kind": "Method"}, "description": "the first"}
    answer = await platform.admin.patch(path, json={"members": {"v1": member}})
    assert answer.status_code == 200, answer.text
    stored = (await platform.admin.get(f"/families/{family['id']}")).json()["members"]["v1"]
    assert stored == answer.json()["members"]["v1"]
    assert stored.items() >= {**member, "name": "v1", "family": family["id"]}.items()

    analysis = await platform.created(
        "safetycases",
        method=f"{family['id']}@v1",
        scope={"inferenceService": served["id"]},
        inputs=[{"keyword": "data", "entity": data["id"]}],
    )
    assert analysis["method"]["id"] == method["id"]

    # A tag that goes to another entity does not keep the description of the one before.
    plain = {"entity": {"id": (await a_method(platform))["id"], "kind": "Method"}}
    answer = await platform.admin.patch(path, json={"members": {"v1": plain, "v2": member}})
    assert "description" not in answer.json()["members"]["v1"]
    answer = await platform.admin.patch(path, json={"members": {"v1": None}})
    assert list(answer.json()["members"]) == ["v2"]


@pytest.mark.parametrize(
    ("reference", "named"),
    [("{family}@v9", "no tag 'v9'"), ("{stranger}@v1", "there is no Family"), ("{other}@v1", "is a Dataset")],
)
async def test_a_reference_that_leads_nowhere_is_refused(
    platform: MemoryPlatform, reference: str, named: str
) -> None:
    family = await platform.created("families", memberKind="Method")
    other = await platform.created("families", memberKind="Dataset")
    data = await platform.created("datasets", **dataset())
    member = {"entity": {"id": data["id"], "kind": "Dataset"}}
    await platform.admin.patch(f"/families/{other['id']}/members", json={"members": {"v1": member}})
    method = reference.format(family=family["id"], other=other["id"], stranger="0" * 32)
    refused = await platform.admin.post("/safetycases", json={"account": "acme", "method": method})
    assert (refused.status_code, refused.json()["field"]) == (422, "method")
    assert named in refused.json()["detail"]


BAD: dict[str, tuple[Json, str]] = {
    "another kind": ({"v1": {"entity": {"id": "{data}", "kind": "Model"}}}, "members.v1.entity.kind"),
    "no such entity": ({"v1": {"entity": {"id": "0" * 32, "kind": "Dataset"}}}, "members.v1.entity"),
    "a tag that is none": ({"-v1": None}, "members.-v1"),
}


@pytest.mark.parametrize(("members", "field"), BAD.values(), ids=BAD)
async def test_members_that_cannot_be_are_refused(
    platform: MemoryPlatform, members: Json, field: str
) -> None:
    family = await platform.created("families", memberKind="Dataset")
    refused = await platform.admin.patch(f"/families/{family['id']}/members", json={"members": members})
    assert refused.status_code == 422
    assert refused.json()["field"].startswith(field)


async def test_a_tag_gives_no_right_to_what_it_names(platform: MemoryPlatform) -> None:
    family = await platform.created("families", memberKind="Method")
    method = await a_method(platform)
    member = {"entity": {"id": method["id"], "kind": "Method"}}
    await platform.admin.patch(f"/families/{family['id']}/members", json={"members": {"v1": member}})
    asking = await platform.holder(
        grant("safetycases", ["create"], ["acme"]), grant("families", ["*"], ["acme"])
    )
    refused = await asking.post("/safetycases", json={"account": "acme", "method": f"{family['id']}@v1"})
    assert (refused.status_code, refused.json()["field"]) == (422, "method")


OUTPUT = {"kind": "SafetyCase", "safetyCase": OUTPUTS["SafetyCase"]}


async def a_module(platform: MemoryPlatform) -> Json:
    return await platform.created("modules", name="m", artifacts=dataset()["artifacts"])


async def tagged(platform: MemoryPlatform, kind: str, entity: Json) -> str:
    """Give an entity a tag in a family of its own, and return the reference."""
    family = await platform.created("families", memberKind=kind)
    member = {"entity": {"id": entity["id"], "kind": kind}}
    answer = await platform.admin.patch(f"/families/{family['id']}/members", json={"members": {"v1": member}})
    assert answer.status_code == 200, answer.text
    return f"{family['id']}@v1"


async def test_an_entity_keeps_the_id_that_a_tag_stood_for(platform: MemoryPlatform) -> None:
    """A tag may go to another entity later: an entity keeps the one that it was created with."""
    module = await a_module(platform)
    reference = await tagged(platform, "Module", module)
    method = await platform.created("methods", **METHOD, output=OUTPUT, modules=[reference])
    assert method["modules"] == [module["id"]]
    assert method["annotations"] == [{"key": "steelyard/tag-modules-0", "value": reference}]

    made = service()
    data = {"source": {"id": reference, "kind": "Module"}}
    made["runner"]["volumeMounts"] = [{"kind": "Data", "name": "d", "mountPath": "/d", "data": data}]
    mounting = await platform.created("inferenceservices", **made)
    assert mounting["runner"]["volumeMounts"][0]["data"]["source"]["id"] == module["id"]

    # A tag of another family stands for its entity, not for the tag.
    again = await tagged(platform, "Module", {"id": reference})
    (member,) = (await platform.admin.get(f"/families/{again[:32]}")).json()["members"].values()
    assert member["entity"]["id"] == module["id"]


async def test_a_requirement_keeps_the_id_that_a_tag_stood_for(platform: MemoryPlatform) -> None:
    data = await platform.created("datasets", **dataset())
    requirements = [{"dataset": await tagged(platform, "Dataset", data), "rubric": "r"}]
    procedure = await platform.created("auditprocedures", name="p", requirements=requirements)
    assert procedure["requirements"] == [{"dataset": data["id"], "rubric": "r"}]


async def test_a_notebook_keeps_the_id_that_a_tag_stood_for(platform: MemoryPlatform) -> None:
    module = await platform.created("modules", name="m", artifacts=[{"path": "n.ipynb"}])
    notebook = {"notebookModule": await tagged(platform, "Module", module), "notebookPath": "n.ipynb"}
    implementation = {"kind": "JupyterNotebook", "jupyterNotebook": notebook}
    fields = {**METHOD, "implementation": implementation, "output": OUTPUT}
    method = await platform.created("methods", **fields)
    assert method["implementation"]["jupyterNotebook"]["notebookModule"] == module["id"]


async def test_a_submission_keeps_the_id_that_a_tag_stood_for(platform: MemoryPlatform) -> None:
    challenge, task, team, submitted = await a_contest(platform)
    reference = {"id": await tagged(platform, "InferenceService", submitted)}
    answer = await submit(platform.admin, challenge, task, team, reference)
    assert answer.status_code == 200, answer.text
    assert answer.json()["submission"]["id"] == submitted["id"]
    run = (await platform.admin.get(f"/pipelines/runs/{answer.json()['pipelineRun']}")).json()
    assert run["arguments"] == {"service": submitted["id"]}


async def test_workflows_keep_the_ids_that_tags_stood_for(platform: MemoryPlatform) -> None:
    served, data, module = (
        await a_service(platform),
        await platform.created("datasets", **dataset()),
        await a_module(platform),
    )
    to_service, to_data = (
        await tagged(platform, "InferenceService", served),
        await tagged(platform, "Dataset", data),
    )
    session = await platform.created("inferencesessions", inferenceService=to_service)
    assert session["inferencesession"]["inferenceService"]["id"] == served["id"]

    asked = {"dataset": to_data, "inferenceSession": {"inferenceService": to_service}}
    evaluation = await platform.created("evaluations", **asked)
    embedded = evaluation["inferenceSession"]["inferenceService"]
    assert (evaluation["dataset"], embedded["id"]) == (data["id"], served["id"])
    matching = await platform.admin.get(
        "/evaluations", params={"dataset": data["id"], "inferenceService": served["id"]}
    )
    assert [listed["id"] for listed in matching.json()] == [evaluation["id"]]

    modules = [module["id"], await tagged(platform, "Module", module)]
    report = await platform.created("reports", rubric="r", evaluation=evaluation["id"], modules=modules)
    assert (report["modules"], report["dataset"]) == ([module["id"]] * 2, data["id"])


async def test_an_audit_keeps_the_id_that_a_tag_stood_for(platform: MemoryPlatform) -> None:
    served, data = await a_service(platform), await platform.created("datasets", **dataset())
    requirements = [{"dataset": data["id"], "rubric": "r"}]
    procedure = await platform.created("auditprocedures", name="p", requirements=requirements)
    reference = await tagged(platform, "InferenceService", served)
    audit = await platform.created("audits", auditProcedure=procedure["id"], inferenceService=reference)
    assert audit["inferenceService"] == served["id"]


async def test_a_service_embeds_the_model_that_a_tag_stood_for(platform: MemoryPlatform) -> None:
    made = await platform.created("models", **model())
    reference = await tagged(platform, "Model", made)
    assert (await platform.created("inferenceservices", **service(), model=reference))["model"]["id"] == made[
        "id"
    ]


async def test_a_run_keeps_the_ids_that_its_arguments_stood_for(platform: MemoryPlatform) -> None:
    served, data = await a_service(platform), await platform.created("datasets", **dataset())
    session = {"inferenceService": await tagged(platform, "InferenceService", served)}
    request = {"kind": "PipelineEvaluationRequest", "dataset": "$(data)", "inferenceSession": session}
    pipeline = await platform.created(
        "pipelines",
        name="p",
        nodes={"ask": {"name": "ask", "request": request}},
        parameters={"data": {"keyword": "data"}},
    )
    reference = await tagged(platform, "Dataset", data)
    run = await platform.created(
        f"pipelines/{pipeline['id']}/runs", pipeline=pipeline["id"], arguments={"data": reference}
    )
    evaluation = (await platform.admin.get(f"/pipelines/runs/{run['id']}/workflows")).json()["ask"]
    embedded = evaluation["inferenceSession"]["inferenceService"]
    assert (evaluation["dataset"], embedded["id"]) == (data["id"], served["id"])


REFERENCES: dict[str, tuple[str, Json, str]] = {
    "an evaluation's dataset": (
        "evaluations",
        {"dataset": "{reference}", "inferenceSession": {"inferenceService": "0" * 32}},
        "dataset",
    ),
    "a session's service": ("inferencesessions", {"inferenceService": "{reference}"}, "inferenceService"),
    "a service's model": ("inferenceservices", {**service(), "model": "{reference}"}, "model"),
}


@pytest.mark.parametrize(("path", "fields", "field"), REFERENCES.values(), ids=REFERENCES)
async def test_a_tag_that_was_taken_away_is_refused_by_its_field(
    platform: MemoryPlatform, path: str, fields: Json, field: str
) -> None:
    family = await platform.created("families", memberKind="Dataset")
    reference = f"{family['id']}@gone"
    content = {name: reference if value == "{reference}" else value for name, value in fields.items()}
    refused = await platform.admin.post(f"/{path}", json={"account": "acme", **content})
    assert (refused.status_code, refused.json()["field"]) == (422, field)
    assert "no tag 'gone'" in refused.json()["detail"]
