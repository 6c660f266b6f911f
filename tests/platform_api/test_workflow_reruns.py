"""Every workflow that has ended runs again, as a new entity of the same request; every running one is stopped."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest

from steelyard.api.kinds import KINDS
from steelyard_common.types import Json
from steelyard_schema.base import DyffEntity
from steelyard_schema.entities import PLURALS, parse_entity
from steelyard_schema.secrets import list_secrets
from steelyard_schema.status import FOLLOWING, WITH_WORKFLOW, failure_status
from tests.platform_api.memory_platform import (
    MemoryPlatform,
    data_source,
    dataset,
    grant,
    model,
    service,
    uploaded_source,
)
from tests.platform_api.test_collection import MAKE, PATHS, a_dataset_of_a_source, a_service

HOUR = timedelta(hours=1)
OWN = {"id", "creationTime", "lastTransitionTime", "status", "reason", "message", "metadata", "annotations"}
"""Fields in which a new entity differs from the one that it repeats."""
WORKFLOWS = {**{kind: MAKE[kind] for kind in sorted(WITH_WORKFLOW)}, "Dataset": a_dataset_of_a_source}


def path_of(entity: Json) -> str:
    return f"/{PATHS[entity['kind']]}/{entity['id']}"


async def rerun(client: Any, entity: Json, **more: Any) -> Any:
    return await client.post(f"{path_of(entity)}/rerun", **more)


def entity_in(answer: Any) -> Json:
    """The entity of an answer; that of a session has its token, too."""
    assert answer.status_code == 200, answer.text
    content: Json = answer.json()
    entity: Json = content.get("inferencesession", content)
    return entity


def described(entity: Json) -> Json:
    return {name: value for name, value in entity.items() if name not in OWN}


def notes(entity: Json) -> Mapping[str, str]:
    return {note["key"]: note["value"] for note in entity.get("annotations", ())}


def test_every_kind_with_a_workflow_is_tried_here() -> None:
    assert WORKFLOWS.keys() == WITH_WORKFLOW == {kind.name for kind in KINDS if kind.workflow}


@pytest.mark.parametrize("end", ["failed", "terminated"])
@pytest.mark.parametrize("kind", WORKFLOWS)
async def test_a_workflow_that_has_ended_runs_again(platform: MemoryPlatform, kind: str, end: str) -> None:
    before = await WORKFLOWS[kind](platform)
    refused = await rerun(platform.admin, before)
    assert (refused.status_code, refused.json()["reason"]) == (409, "Conflict")
    assert "is Created: terminate it before it runs again" in refused.json()["detail"]
    if end == "failed":
        await platform.says(kind, before["id"], failure_status(kind))
    else:
        assert (await platform.admin.put(f"{path_of(before)}/terminate")).status_code == 200
    after = entity_in(await rerun(platform.admin, before))
    assert after["id"] != before["id"]
    assert (after["kind"], after["status"]) == (kind, "Created")
    assert {**described(after), "expires": None} == {**described(before), "expires": None}
    assert notes(after) == {**notes(before), "steelyard/rerun-of": before["id"]}
    # An audit's reports are chosen again: of those that failed with it, others are created.
    needed = [entity["metadata"].get("preconditions", []) for entity in (before, after)]
    assert [one["kind"] for one in needed[0]] == [one["kind"] for one in needed[1]]
    # The rerun may run again, too, and names what it repeats.
    await platform.says(kind, after["id"], failure_status(kind))
    third = entity_in(await rerun(platform.admin, after, json={"account": "acme"}))
    assert notes(third) == {**notes(before), "steelyard/rerun-of": after["id"]}


@pytest.mark.parametrize("kind", WORKFLOWS)
async def test_a_repeat_with_the_same_key_is_the_same_entity(platform: MemoryPlatform, kind: str) -> None:
    before = await WORKFLOWS[kind](platform)
    await platform.says(kind, before["id"], failure_status(kind))
    key = {"headers": {"Idempotency-Key": "once"}}
    first = entity_in(await rerun(platform.admin, before, **key))
    # The answer was lost, and the earlier one is deleted before the repeat.
    await platform.admin.put(f"{path_of(before)}/delete")
    assert entity_in(await rerun(platform.admin, before, **key))["id"] == first["id"]
    assert notes(first)["steelyard/rerun-of"] == before["id"]
    refused = await rerun(platform.admin, before)
    assert (refused.status_code, refused.json()["detail"]) == (
        409,
        f"status: {kind} {before['id']} is deleted: create another one",
    )


@pytest.mark.parametrize("kind", WORKFLOWS)
async def test_a_running_workflow_is_stopped_by_its_deletion_and_the_answer_says_so(
    platform: MemoryPlatform, kind: str
) -> None:
    made = await WORKFLOWS[kind](platform)
    await platform.says(kind, made["id"], "Admitted", "orchestrator")
    answer = (await platform.admin.put(f"{path_of(made)}/delete")).json()
    assert answer["status"] == "Deleted"
    assert f"{kind} {made['id']} was running, and is being stopped" in answer["message"]


@pytest.mark.parametrize("kind", sorted(FOLLOWING))
async def test_what_has_started_workflows_ends_them_by_its_deletion_and_says_so(
    platform: MemoryPlatform, kind: str
) -> None:
    made = await MAKE[kind](platform)
    run = made["id"] if kind == "PipelineRun" else made["pipelineRun"]
    answer = (await platform.admin.put(f"{path_of(made)}/delete")).json()
    assert (answer["status"], answer["message"]) == ("Deleted", "1 running workflow ended with it")
    shown = (await platform.admin.get(f"/pipelines/runs/{run}/status")).json()["nodes"]
    assert [node["status"] for node in shown.values()] == ["Terminated"]
    repeated = (await platform.admin.put(f"{path_of(made)}/delete")).json()
    assert repeated == {"status": "Deleted", "reason": "DeleteCommand"}


async def test_what_a_client_has_uploaded_is_uploaded_again(platform: MemoryPlatform) -> None:
    files = [{"path": "weights", "size": 4, "digest": {"md5": "X03MO1qnZdYdgyfeuILPmQ=="}}]
    artifact = {"kind": "Volume", "volume": {"files": files}}
    uploaded = {**model(), "artifact": artifact, "source": {"kind": "Upload"}}
    for made in (
        await platform.created("models", **uploaded),
        await platform.created("datasets", **dataset()),
        await platform.created("datasources", **uploaded_source({"a.csv": b"x"})),
    ):
        await platform.says(made["kind"], made["id"], "Error", "api")
        refused = await rerun(platform.admin, made)
        assert (refused.status_code, refused.json()["reason"]) == (409, "Conflict")
        assert "was uploaded: create another one" in refused.json()["detail"]


async def test_another_account_and_unknown_fields_are_refused(platform: MemoryPlatform) -> None:
    made = await a_service(platform)
    await platform.says("InferenceService", made["id"], "Error")
    for body, field in ({"account": "other"}, "account"), ({"steps": ["ask"]}, "steps"):
        refused = await rerun(platform.admin, made, json=body)
        assert (refused.status_code, refused.json()["field"]) == (422, field)


@pytest.mark.parametrize("kind", ["Evaluation", "InferenceSession"])
async def test_a_session_lasts_as_long_as_the_first_was_to(platform: MemoryPlatform, kind: str) -> None:
    served, data = await a_service(platform), await platform.created("datasets", **dataset())
    ends = (platform.engines.clock.now + 2 * HOUR).isoformat()
    own = {"inferenceService": served["id"], "expires": ends}
    fields = own if kind == "InferenceSession" else {"dataset": data["id"], "inferenceSession": own}
    created = await platform.created(PLURALS[kind], **fields)
    before: Json = created.get("inferencesession", created)
    await platform.says(kind, before["id"], failure_status(kind))
    platform.engines.clock.now += 5 * HOUR
    answer = await rerun(platform.admin, before)
    after = entity_in(answer)
    expires = datetime.fromisoformat(after.get("inferenceSession", after)["expires"])
    lasts = expires - datetime.fromisoformat(after["creationTime"])
    assert abs(lasts - 2 * HOUR) < timedelta(seconds=1)
    if kind == "InferenceSession":
        token = platform.client(answer.json()["token"])
        # The token opens the new session alone.
        assert (await token.get(f"/inferencesessions/{after['id']}/served")).status_code not in {401, 403}
        assert (await token.get(f"/inferencesessions/{before['id']}/served")).status_code == 404


async def a_model_with_a_secret(platform: MemoryPlatform) -> Json:
    hub = {"kind": "HuggingFaceHub", "huggingFaceHub": {"repoID": "org/gated", "revision": "main"}}
    cache = {"kind": "HuggingFaceCache", "huggingFaceCache": {"repoID": "org/gated", "revision": "main"}}
    fields = {**model(), "source": hub, "artifact": cache}
    return await platform.created("models", **fields, secrets={"source": "token"})


async def a_source_with_a_secret(platform: MemoryPlatform) -> Json:
    secrets = {"source": "token"}
    return await platform.created("datasources", **data_source(files=["data/*.csv"]), secrets=secrets)


async def a_service_with_secrets(platform: MemoryPlatform) -> Json:
    secrets = {"provider": "token", "imagePull": "token"}
    return await platform.created("inferenceservices", **service(), secrets=secrets)


WITH_SECRETS = [a_model_with_a_secret, a_source_with_a_secret, a_service_with_secrets]


@pytest.mark.parametrize("make", WITH_SECRETS, ids=lambda make: make.__name__)
async def test_the_same_secrets_are_named(
    platform: MemoryPlatform, make: Callable[..., Awaitable[Json]]
) -> None:
    secret = "/accounts/acme/secrets/token"
    assert (await platform.admin.put(secret, json={"value": "first"})).status_code == 200
    before = await make(platform)
    await platform.says(before["kind"], before["id"], "Error")
    after = entity_in(await rerun(platform.admin, before))
    named: list[DyffEntity] = [parse_entity(entity) for entity in (before, after)]
    assert list_secrets(named[0]) == list_secrets(named[1]) != {}
    # As for a create: who may not use the account's secrets makes nothing that does.
    resource = PLURALS[before["kind"]]
    lacking = await platform.holder(grant(resource, ["create", "get"], ["acme"]))
    refused = await rerun(lacking, before)
    assert (refused.status_code, refused.json()["detail"]) == (
        403,
        "secrets: the token lacks accounts/consume for account 'acme'",
    )
    await platform.admin.delete(secret)
    refused = await rerun(platform.admin, before)
    assert (refused.status_code, refused.json()["detail"][:8]) == (422, "secrets.")


async def test_only_an_administrator_repeats_privileges(platform: MemoryPlatform) -> None:
    first = await MAKE["Evaluation"](platform)
    own = {"inferenceService": first["inferenceSession"]["inferenceService"]["id"]}
    privileges = {"trusted": False, "ignoreQuotas": []}
    before = await platform.created(
        "evaluations", dataset=first["dataset"], inferenceSession=own, securityContext=privileges
    )
    await platform.says("Evaluation", before["id"], "Failed")
    may = [grant("evaluations", ["create", "get"], ["acme"])]
    may += [grant(resource, ["consume"], ["acme"]) for resource in ("datasets", "inferenceservices")]
    refused = await rerun(await platform.holder(*may), before)
    assert refused.status_code == 403
    assert entity_in(await rerun(platform.admin, before))["securityContext"] == privileges


async def test_a_rerun_takes_the_rights_to_see_the_first_and_to_use_what_it_names(
    platform: MemoryPlatform,
) -> None:
    before = await MAKE["Evaluation"](platform)
    await platform.says("Evaluation", before["id"], "Failed")
    create, see = (grant("evaluations", [function], ["acme"]) for function in ("create", "get"))
    use = [grant(resource, ["consume"], ["acme"]) for resource in ("datasets", "inferenceservices")]
    for grants, status in (
        ([create, *use], 404),
        ([see, *use], 403),
        ([create, see], 422),  # who may not see the dataset is not told that it is there
        ([create, see, *use], 200),
    ):
        answer = await rerun(await platform.holder(*grants), before)
        assert answer.status_code == status, answer.text


async def test_what_names_something_that_has_failed_is_refused(platform: MemoryPlatform) -> None:
    before = await MAKE["Report"](platform)
    await platform.says("Evaluation", before["evaluation"], "Failed")
    await platform.says("Report", before["id"], "Failed")
    refused = await rerun(platform.admin, before)
    assert (refused.status_code, refused.json()["field"]) == (422, "evaluation")
    assert "is Failed" in refused.json()["detail"]
