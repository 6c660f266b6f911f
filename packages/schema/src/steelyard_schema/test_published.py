"""Ours against the published schema, in both directions, on random instances: entities, requests, answers, commands."""

import json
import warnings
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from steelyard_schema import account, answers, curve, quota, requests, score
from steelyard_schema.base import SchemaModel
from steelyard_schema.commands import parse_command
from steelyard_schema.conftest import instances
from steelyard_schema.entities import ENTITIES, PLURALS, parse_entity

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from dyff.schema.v0.r1 import commands as published_commands
    from dyff.schema.v0.r1 import platform
    from dyff.schema.v0.r1 import requests as published_requests
    from dyff.schema.v0.r1 import responses as published_responses

Pair = tuple[type[SchemaModel], type[BaseModel]]


def pairs(ours: Any, theirs: Any, *names: str) -> list[Pair]:
    return [(getattr(ours, name), getattr(theirs, name)) for name in names]


ABSTRACT = {"History"}
"""Kinds that the published package cannot make instances of: their classes lack methods."""
SAID: list[Pair] = [
    *((ours, getattr(platform, kind)) for kind, ours in ENTITIES.items() if kind not in ABSTRACT),
    *pairs(account, platform, "AccessGrant", "Account", "APIKey"),
    *pairs(score, platform, "Score"),
    *pairs(curve, platform, "Curve"),
    *pairs(quota, platform, "Quota"),
    *pairs(answers, platform, "ArtifactURL", "InferenceSessionAndToken", "Status", "StorageSignedURL"),
    *pairs(answers, published_responses, "WorkflowLogsResponse"),
]
ASKED: list[Pair] = pairs(
    requests,
    published_requests,
    "AccountCreateRequest",
    "AccountPermissionsSetRequest",
    "AccountTokenCreateRequest",
    "AnalysisCreateRequest",
    "ArtifactCreateRequest",
    "ChallengeContentEditRequest",
    "ChallengeCreateRequest",
    "ChallengeRulesEditRequest",
    "ChallengeTaskCreateRequest",
    "ChallengeTaskRulesEditRequest",
    "ChallengeTeamCreateRequest",
    "ConcernCreateRequest",
    "DatasetCreateRequest",
    "DocumentationEditRequest",
    "EvaluationCreateRequest",
    "FamilyCreateRequest",
    "FamilyMembersEditRequest",
    "InferenceServiceCreateRequest",
    "InferenceSessionCreateRequest",
    "InferenceSessionTokenCreateRequest",
    "LabelsEditRequest",
    "MethodCreateRequest",
    "ModelCreateRequest",
    "ModuleCreateRequest",
    "PipelineCreateRequest",
    "PipelineRunRequest",
    "QuotaCreateRequest",
    "ReportCreateRequest",
    "ResubmissionRequest",
    "SubmissionCreateRequest",
    "TeamEditRequest",
)
PAIRS = [(ours, theirs, False) for ours, theirs in SAID] + [(ours, theirs, True) for ours, theirs in ASKED]
NAMES = [theirs.__name__ for _, theirs, _ in PAIRS]

OURS_ALONE = {
    "Account": {"labels"},
    "InferenceServiceCreateRequest": {"secrets"},
    "MethodCreateRequest": {"secrets"},
    "ModelCreateRequest": {"secrets"},
}
"""Fields that the published classes lack: the client ignores those of answers, and sends requests without them."""

# A fifth of the examples: there are a hundred and sixty cases, which differ little.
quick = settings(
    max_examples=settings().max_examples // 5, deadline=None, suppress_health_check=list(HealthCheck)
)


def dumped(model: BaseModel) -> Any:
    """Return the JSON as the published packages write it: patches with their nulls, everything else without."""
    return json.loads(model.model_dump_json(by_alias=True, exclude_none=True))


def whole(model: BaseModel) -> Any:
    """Return the JSON with defaults: the platform fills them in, the published client does not send them."""
    return json.loads(BaseModel.model_dump_json(model, by_alias=True, exclude_none=True))


def with_our_defaults(model: BaseModel) -> Any:
    """Return the JSON with defaults, and with our time for an answer: theirs, 30 s, cuts long answers off."""
    value = whole(model)
    said = dumped(model).get("client") or {}
    if "requestTimeoutSeconds" in (value.get("client") or {}) and "requestTimeoutSeconds" not in said:
        value["client"]["requestTimeoutSeconds"] = 600
    return value


@pytest.mark.parametrize(("ours", "theirs", "request_"), PAIRS, ids=NAMES)
@quick
@given(data=st.data())
def test_theirs_parses_in_ours_and_comes_back(
    ours: type[SchemaModel], theirs: type[BaseModel], request_: bool, data: st.DataObject
) -> None:
    first = theirs.model_validate(data.draw(instances(theirs, request=request_)))
    back = theirs.model_validate_json(ours.parse(dumped(first)).dump_json())
    assert whole(back) == with_our_defaults(first)


@pytest.mark.parametrize(("ours", "theirs", "request_"), PAIRS, ids=NAMES)
@quick
@given(data=st.data())
def test_ours_parses_in_theirs_and_comes_back(
    ours: type[SchemaModel], theirs: type[BaseModel], request_: bool, data: st.DataObject
) -> None:
    first = ours.parse(data.draw(instances(ours, request=request_))).dump()
    first = {name: value for name, value in first.items() if name not in OURS_ALONE.get(ours.__name__, ())}
    back = theirs.model_validate(first)
    assert ours.parse(dumped(back)).dump() == first


def entities(module: Any) -> st.SearchStrategy[Any]:
    return st.one_of(*(instances(getattr(module, kind)) for kind in ENTITIES if kind not in ABSTRACT))


ATTRIBUTES = {
    "CreateChallengeTask": instances(published_commands.CreateChallengeTaskAttributes),
    "CreateChallengeTeam": instances(published_commands.CreateChallengeTeamAttributes),
    "EditChallengeContent": instances(published_commands.EditChallengeContentAttributes),
    "EditChallengeRules": instances(published_commands.EditChallengeRulesAttributes),
    "EditChallengeTaskRules": instances(published_commands.EditChallengeTaskRulesAttributes),
    "EditFamilyMembers": instances(published_commands.EditFamilyMembersAttributes),
    "EditTeam": instances(published_commands.EditTeamAttributes),
    "UpdateQuotaUsage": instances(published_commands.UpdateQuotaUsageAttributes),
    "UpdateEntityStatus": instances(published_commands.UpdateEntityStatusAttributes),
    "EditEntityLabels": instances(published_commands.EditEntityLabelsAttributes),
    "EditEntityDocumentation": instances(published_commands.EditEntityDocumentationAttributes),
    "RestoreEntity": st.builds(
        lambda entity, revision: {"entity": entity, **revision},
        entities(platform),
        st.sampled_from([{}, {"ifRevisionMatch": "a"}, {"ifRevisionUndefined": True}]),
    ),
}
IDENTIFIERS = st.fixed_dictionaries({"id": st.just("0" * 32), "kind": st.sampled_from(list(ENTITIES))})
FAMILY = st.just({"id": "0" * 32, "kind": "Family"})
DATA = {
    "CreateEntity": entities(platform),
    "ForgetEntity": IDENTIFIERS,
    "PutQuota": instances(platform.Quota),
    **{
        name: st.builds(
            lambda who, what: {**who, "attributes": what},
            FAMILY if name == "EditFamilyMembers" else IDENTIFIERS,
            attributes,
        )
        for name, attributes in ATTRIBUTES.items()
    },
}


@pytest.mark.parametrize("name", DATA)
@quick
@given(data=st.data())
def test_their_commands_come_back_and_their_program_reads_ours(name: str, data: st.DataObject) -> None:
    theirs = getattr(published_commands, name)
    first = theirs.model_validate({"command": name, "data": data.draw(DATA[name])}).model_dump_json()
    ours = parse_command(first.encode())
    back = theirs.model_validate_json(ours.dump_json())
    assert json.loads(back.model_dump_json()) == json.loads(first)
    assert parse_command(back.model_dump_json().encode()) == ours


@pytest.mark.parametrize("kind", ABSTRACT)
def test_a_kind_of_which_they_make_no_instance_has_the_published_fields(kind: str) -> None:
    theirs, ours = (model.model_json_schema() for model in (getattr(platform, kind), ENTITIES[kind]))
    assert ours["properties"].keys() == theirs["properties"].keys()
    assert set(ours["required"]) == set(theirs["required"])


@pytest.mark.parametrize("kind", PLURALS)
def test_every_kind_has_the_published_route(kind: str) -> None:
    assert PLURALS[kind] == platform.Resources.for_kind(platform.Entities(kind)).value


@quick
@given(data=st.data())
def test_an_entity_is_read_by_its_kind(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(list(ENTITIES)))
    entity = ENTITIES[kind].parse(data.draw(instances(ENTITIES[kind])))
    assert parse_entity(entity.dump_json()) == entity == parse_entity(entity.dump())
