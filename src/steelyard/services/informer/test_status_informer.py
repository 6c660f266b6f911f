"""The informer: conditions of resources become statuses of entities."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from steelyard.accounts.quotas import Quotas, QuotaSettings
from steelyard.broker.quarantine.administration import list_entries
from steelyard.services.aggregator.transitions import is_allowed
from steelyard.services.informer.status import Observation, entity_id, make_command, read_status, slim
from steelyard.services.orchestrator.manifest import KUBE, manifest
from steelyard.services.simulation.entities import make_model, make_session
from steelyard.services.simulation.platform import PlatformHarness, find_place, open_harness, until
from steelyard.services.status_commands import Status
from steelyard_common.types import Json
from steelyard_schema.base import DyffEntity
from steelyard_schema.names import TRACE, resource_kind
from steelyard_schema.resources import RESOURCES

NOON = "2026-01-01T12:00:00Z"


def make_resource(
    kind: str, condition: str = "", reason: str = "", message: str = "", **metadata: Any
) -> Json:
    """The resource of entity x1 of a kind whose condition holds since noon, among all others, which do not."""
    conditions = [
        {
            "type": condition_,
            "status": "True" if condition_ == condition else "False",
            "reason": reason,
            "message": message,
            "lastTransitionTime": NOON if condition_ == condition else "2026-01-01T11:00:00Z",
        }
        for condition_ in RESOURCES[resource_kind(kind)].conditions
    ]
    return {
        "kind": resource_kind(kind),
        "metadata": {
            "name": f"{kind.lower()}-x1",
            "namespace": "n",
            "uid": "uid-1",
            "resourceVersion": "7",
            "labels": {"dyff.io/entity": "x1", "dyff.io/kind": kind},
            **metadata,
        },
        "spec": {},
        "status": {"conditions": conditions} if condition else {},
    }


def test_a_command_belongs_to_the_resources_trace() -> None:
    trace = f"00-{'1' * 32}-{'2' * 16}-01"
    for annotation, expected in ((trace, trace), ("nonsense", None)):
        resource = make_resource("Model", "Ready", annotations={TRACE: annotation, "other": "x"})
        slimmed = slim(resource)
        assert slimmed["metadata"]["annotations"] == {TRACE: annotation}
        observed = read_status(slimmed)
        assert observed is not None
        assert make_command(slimmed, observed).headers.get("traceparent") == expected


TABLE = [
    ("Evaluation", "Progressing", "SessionStarting", Status("Admitted", "Incomplete", "words")),
    ("Evaluation", "Progressing", "ClientRunning", Status("Admitted", "Incomplete", "words")),
    ("Evaluation", "Progressing", "Unschedulable", Status("Admitted", "Incomplete", "words")),
    ("Evaluation", "Progressing", "Unverified", Status("Admitted", "Unverified", "words")),
    ("Evaluation", "Progressing", "Restarted", Status("Admitted", "Restarted", "words")),
    ("Evaluation", "Complete", "Verified", Status("Complete")),
    ("Evaluation", "Failed", "ClientFailed", Status("Failed", "ClientFailed", "words")),
    ("Evaluation", "Failed", "NameConflict", Status("Failed", "NameConflict", "words")),
    ("Model", "Progressing", "Fetching", Status("Admitted", None, "words")),
    ("Model", "Ready", "Ready", Status("Ready")),
    ("Model", "Failed", "FetchFailed", Status("Error", "FetchFailed", "words")),
    ("InferenceService", "Progressing", "Building", Status("Admitted", None, "words")),
    ("InferenceService", "Ready", "Ready", Status("Ready")),
    ("InferenceService", "Failed", "BadImage", Status("Error", "BadImage", "words")),
    ("InferenceSession", "Progressing", "Starting", Status("Admitted", "Starting", "words")),
    ("InferenceSession", "Ready", "Ready", Status("Admitted")),
    ("InferenceSession", "Expired", "SessionExpired", Status("Terminated", "SessionExpired", "words")),
    ("InferenceSession", "Failed", "StartDeadline", Status("Error", "StartDeadline", "words")),
    ("Report", "Progressing", "Running", Status("Admitted", None, "words")),
    ("Report", "Complete", "Complete", Status("Complete")),
    ("Report", "Failed", "NoSuchRubric", Status("Failed", "NoSuchRubric", "words")),
    ("Audit", "Progressing", "Running", Status("Admitted", None, "words")),
    ("Audit", "Complete", "Complete", Status("Complete")),
    ("Audit", "Failed", "NotImplemented", Status("Failed", "NotImplemented", "words")),
    ("Measurement", "Progressing", "Running", Status("Admitted", None, "words")),
    ("Measurement", "Complete", "Complete", Status("Complete")),
    ("Measurement", "Failed", "OutputInvalid", Status("Failed", "OutputInvalid", "words")),
    ("SafetyCase", "Complete", "Complete", Status("Complete")),
    ("SafetyCase", "Failed", "MethodFailed", Status("Failed", "MethodFailed", "words")),
]


@pytest.mark.parametrize(("kind", "condition", "reason", "said"), TABLE, ids=str)
def test_a_condition_becomes_a_status(kind: str, condition: str, reason: str, said: Status) -> None:
    resource = make_resource(kind, condition, reason, "words")
    assert read_status(resource) == Observation(said, datetime(2026, 1, 1, 12, tzinfo=UTC))
    assert read_status(slim(resource)) == read_status(resource)


@pytest.mark.parametrize(("kind", "condition", "reason", "said"), TABLE, ids=str)
def test_each_status_is_one_that_the_informer_may_bring_about(
    kind: str, condition: str, reason: str, said: Status
) -> None:
    assert is_allowed(kind, "informer", "Admitted", said.status)


@pytest.mark.parametrize("kind", sorted(KUBE))
def test_a_resource_that_says_nothing_yet_says_nothing(kind: str) -> None:
    assert read_status(make_resource(kind)) is None


def test_an_end_outweighs_what_else_may_still_hold() -> None:
    resource = make_resource("InferenceSession", "Ready")
    failed = make_resource("InferenceSession", "Failed", "RunnerFailed", "it exited 1")
    resource["status"]["conditions"] += [
        condition for condition in failed["status"]["conditions"] if condition["type"] == "Failed"
    ]
    observed = read_status(resource)
    assert observed
    assert observed.status == Status("Error", "RunnerFailed", "it exited 1")


@pytest.mark.parametrize(
    ("change", "id"),
    [
        ({}, "x1"),
        ({"labels": {}}, None),
        ({"labels": None}, None),
        ({"name": "my-copy"}, None),
        ({"labels": {"dyff.io/entity": "x2"}}, None),
    ],
)
def test_a_resource_speaks_for_the_entity_that_its_label_and_its_name_agree_on(
    change: Json, id: str | None
) -> None:
    assert entity_id(make_resource("Model", "Ready", **change)) == id


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({}, "Measurement"),
        (
            {"name": "safetycase-x1", "labels": {"dyff.io/entity": "x1", "dyff.io/kind": "SafetyCase"}},
            "SafetyCase",
        ),
        ({"labels": {"dyff.io/entity": "x1", "dyff.io/kind": "SafetyCase"}}, None),
        ({"labels": {"dyff.io/entity": "x1", "dyff.io/kind": "Report"}}, None),
        ({"labels": {"dyff.io/entity": "x1"}}, None),
        ({"name": "analysis-x1", "labels": {"dyff.io/entity": "x1"}}, None),
    ],
)
def test_an_analysis_speaks_for_an_entity_of_the_kind_that_its_label_and_its_name_agree_on(
    change: Json, kind: str | None
) -> None:
    resource = slim(make_resource("Measurement", "Complete", **change))
    assert (entity_id(resource), resource["kind"]) == ("x1" if kind else None, "Analysis")
    if kind:
        observed = read_status(resource)
        assert observed
        assert orjson.loads(make_command(resource, observed).value or b"")["data"]["kind"] == kind


# ---- the informer running, along with the aggregator


MODEL, SESSION = make_model(), make_session()


@pytest.fixture
async def harness() -> AsyncIterator[PlatformHarness]:
    async with open_harness(Quotas(QuotaSettings())) as harness:
        yield harness


async def make(harness: PlatformHarness, entity: DyffEntity) -> None:
    """An entity and its resource, as the orchestrator leaves them."""
    await harness.create(entity)
    await harness.cluster.create(find_place(entity)[0], manifest(entity))


async def has_status(harness: PlatformHarness, id: str, status: str, reason: str | None = None) -> None:
    async def holds() -> bool:
        if await harness.status(id) != status:
            return False
        return (await harness.entity(id)).reason == reason

    await until(holds)


async def test_what_a_resource_says_becomes_its_entitys_status(harness: PlatformHarness) -> None:
    harness.inform()
    await make(harness, MODEL)
    await make(harness, SESSION)
    harness.set_condition(SESSION, "Progressing", "Starting")
    await has_status(harness, "i1", "Admitted", "Starting")
    harness.set_condition(SESSION, "Ready", "Ready")
    await has_status(harness, "i1", "Admitted")
    harness.set_condition(MODEL, "Failed", "FetchFailed")
    await has_status(harness, "m1", "Error", "FetchFailed")
    assert (await harness.entity("m1")).lastTransitionTime == datetime(2026, 1, 1, 0, 5, tzinfo=UTC)


async def test_the_same_level_is_reported_once(harness: PlatformHarness) -> None:
    harness.inform()
    await make(harness, SESSION)
    for replicas in range(5):
        harness.set_condition(SESSION, "Ready", "Ready", f"{replicas} of 5 replicas are ready")
        await asyncio.sleep(0.01)
    await has_status(harness, "i1", "Admitted")
    assert await harness.reports("i1") == [("Admitted", None)]


async def test_a_level_comes_back_though_it_was_reported_before(harness: PlatformHarness) -> None:
    """Both changes fall within one second, so that no time distinguishes them."""
    harness.inform()
    await make(harness, SESSION)
    for _ in range(2):
        harness.set_condition(SESSION, "Ready", "Ready")
        await has_status(harness, "i1", "Admitted")
        harness.set_condition(SESSION, "Progressing", "Starting")
        await has_status(harness, "i1", "Admitted", "Starting")


async def test_a_restart_tells_what_is_and_changes_nothing(harness: PlatformHarness) -> None:
    first = harness.inform()
    await make(harness, MODEL)
    await make(harness, SESSION)
    harness.set_condition(SESSION, "Ready", "Ready")
    await has_status(harness, "i1", "Admitted")
    await harness.kill(first)
    harness.set_condition(MODEL, "Ready", "Ready")
    before = await harness.entity("i1")
    harness.inform()
    await has_status(harness, "m1", "Ready")

    async def told_again() -> bool:
        return await harness.reports("i1") == [("Admitted", None)] * 2

    await until(told_again)
    assert await harness.entity("i1") == before
    ids = await harness.command_ids("i1")
    assert len(ids) == 2
    assert len(set(ids)) == 1


async def test_a_deleted_resource_says_nothing(harness: PlatformHarness) -> None:
    harness.inform()
    await make(harness, SESSION)
    harness.set_condition(SESSION, "Ready", "Ready")
    await has_status(harness, "i1", "Admitted")
    harness.remove(SESSION)
    await make(harness, MODEL)
    harness.set_condition(MODEL, "Ready", "Ready")
    await has_status(harness, "m1", "Ready")
    assert await harness.reports("i1") == [("Admitted", None)]


async def test_what_comes_late_changes_nothing_that_has_ended(harness: PlatformHarness) -> None:
    first = harness.inform()
    await make(harness, MODEL)
    harness.set_condition(MODEL, "Ready", "Ready")
    await has_status(harness, "m1", "Ready")
    await harness.kill(first)
    await harness.update_status(MODEL, "Admitted", source="informer")
    await harness.update_status(MODEL, "Created", "QuotaLimit", source="orchestrator")
    await harness.update_status(MODEL, "Admitted", source="orchestrator")
    await harness.update_status(MODEL, "Deleted")
    await has_status(harness, "m1", "Deleted")
    harness.inform()

    async def told_again() -> bool:
        return (await harness.reports("m1"))[-1] == ("Ready", None)

    await until(told_again)
    await make(harness, SESSION)
    harness.set_condition(SESSION, "Ready", "Ready")
    await has_status(harness, "i1", "Admitted")
    assert await harness.status("m1") == "Deleted"


async def test_resources_of_others_say_nothing(harness: PlatformHarness) -> None:
    theirs = manifest(make_model("x1"))
    theirs["metadata"]["labels"] = {}
    harness.cluster.store.put(theirs)
    copy = manifest(SESSION)
    copy["metadata"]["name"] = "my-copy"
    harness.cluster.store.put(copy)
    harness.inform()
    await make(harness, SESSION)
    condition = {"type": "Failed", "status": "True", "reason": "RunnerFailed", "lastTransitionTime": NOON}
    namespace = copy["metadata"]["namespace"]
    harness.cluster.store.set_status(
        find_place(SESSION)[0], "my-copy", namespace, {"conditions": [condition]}
    )
    harness.set_condition(SESSION, "Ready", "Ready")
    await has_status(harness, "i1", "Admitted")
    assert await harness.reports("x1") == []


async def test_a_resource_in_the_namespace_of_another_account_speaks_for_no_entity(
    harness: PlatformHarness,
) -> None:
    harness.inform()
    await make(harness, MODEL)
    await make(harness, SESSION)
    forged = manifest(MODEL)
    forged["metadata"]["namespace"] = "acct-mallory"
    # Even its own word on whose it is counts for nothing.
    forged["spec"]["account"] = "mallory"
    harness.cluster.store.put(forged)
    resource, name = find_place(MODEL)
    condition = {"type": "Ready", "status": "True", "reason": "Ready", "lastTransitionTime": NOON}
    harness.cluster.store.set_status(resource, name, "acct-mallory", {"conditions": [condition]})

    async def said() -> bool:
        return await harness.reports("m1") == [("Ready", None)]

    await until(said)
    # Commands about one entity are applied in their order.
    await harness.update_status(MODEL, "Created", "QuotaLimit", source="orchestrator")
    await has_status(harness, "m1", "Created", "QuotaLimit")
    harness.set_condition(MODEL, "Ready", "Ready")
    await has_status(harness, "m1", "Ready")


async def test_a_resource_that_cannot_be_read_silences_no_other(harness: PlatformHarness) -> None:
    harness.inform()
    await make(harness, MODEL)
    await make(harness, SESSION)
    resource, name = find_place(MODEL)
    namespace = manifest(MODEL)["metadata"]["namespace"]
    condition = {"type": "Ready", "status": "True", "reason": "Ready", "lastTransitionTime": "soon"}
    harness.cluster.store.set_status(resource, name, namespace, {"conditions": [condition]})
    harness.set_condition(SESSION, "Ready", "Ready")
    await has_status(harness, "i1", "Admitted")

    async def held() -> bool:
        return [(entity.key, entity.consumer) for entity in await list_entries(harness.log)] == [
            ("m1", "informer")
        ]

    await until(held)
    harness.set_condition(MODEL, "Ready", "Ready")
    await has_status(harness, "m1", "Ready")

    async def over() -> bool:
        return await list_entries(harness.log) == []

    await until(over)


async def test_a_resource_of_another_account_puts_no_entity_into_quarantine_and_takes_none_out(
    harness: PlatformHarness,
) -> None:
    harness.inform()
    await make(harness, MODEL)
    await make(harness, SESSION)
    resource, name = find_place(MODEL)
    forged = manifest(MODEL)
    own = forged["metadata"]["namespace"]
    forged["metadata"]["namespace"] = "acct-mallory"
    harness.cluster.store.put(forged)
    unreadable = {"type": "Ready", "status": "True", "reason": "Ready", "lastTransitionTime": "soon"}
    readable = unreadable | {"lastTransitionTime": NOON}

    def show(namespace: str, condition: Json) -> None:
        harness.cluster.store.set_status(resource, name, namespace, {"conditions": [condition]})

    async def quarantined() -> list[str]:
        return [entity.key for entity in await list_entries(harness.log)]

    async def held() -> bool:
        return await quarantined() == ["m1"]

    show("acct-mallory", unreadable)
    # Seen after it, in the order of the events.
    harness.set_condition(SESSION, "Progressing", "Starting")
    await has_status(harness, "i1", "Admitted", "Starting")
    assert await quarantined() == []
    show(own, unreadable)
    await until(held)
    show("acct-mallory", readable)
    harness.set_condition(SESSION, "Ready", "Ready")
    await has_status(harness, "i1", "Admitted")
    assert await held()
    show(own, readable)
    await has_status(harness, "m1", "Ready")
