"""The whole orchestrator with the real aggregator, in memory: from created to gone."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any, cast

import pytest

from steelyard.accounts.claims import Claim, Claims
from steelyard.accounts.quotas import QuotaSettings
from steelyard.services.orchestrator.manifest import manifest
from steelyard.services.orchestrator.namespaces import NETWORK_POLICIES
from steelyard.services.orchestrator.orchestrator import run_orchestrator
from steelyard.services.orchestrator.rules import make_rules
from steelyard.services.orchestrator.settings import OrchestratorSettings
from steelyard.services.simulation.entities import (
    ACCOUNT,
    make_dataset,
    make_evaluation,
    make_model,
    make_service,
    make_session,
)
from steelyard.services.simulation.platform import (
    QUICK,
    PlatformHarness,
    Slots,
    find_place,
    has_status,
    open_harness,
    until,
    wait_for_admission,
    wait_for_release,
)
from steelyard_common.types import Json
from steelyard_kube.errors import Invalid, NotFound, Unreachable
from steelyard_kube.leader import Candidate, SystemClock
from steelyard_kube.resource import NAMESPACES, Resource
from steelyard_schema.base import DyffEntity
from steelyard_schema.names import account_namespace


class CountingClaims:
    """Claims that count how often all of them were compared."""

    def __init__(self, claims: Claims) -> None:
        self.comparisons = 0
        self._claims = claims

    def __getattr__(self, name: str) -> Any:
        return getattr(self._claims, name)

    async def list_unfinished(self) -> Sequence[Claim]:
        self.comparisons += 1
        return await self._claims.list_unfinished()


@pytest.fixture
async def harness() -> AsyncIterator[PlatformHarness]:
    async with open_harness(Slots()) as harness:
        yield harness


MODEL, SERVICE, EVALUATION = make_model(), make_service(status="Ready"), make_evaluation()


async def test_what_waits_for_nothing_is_made_and_then_admitted(harness: PlatformHarness) -> None:
    harness.start()
    await wait_for_admission(harness, MODEL)
    made = harness.resource(MODEL)
    assert made
    assert made["spec"] == manifest(MODEL)["spec"]
    entity = await harness.entity("m1")
    assert (entity.reason, entity.message) == (None, None)
    assert await harness.reports("m1") == [("Admitted", None)]
    assert harness.metrics.admitted.labels("Model")._value.get() == 1


async def test_the_namespace_stands_first_with_its_policies(harness: PlatformHarness) -> None:
    order = list[str]()
    harness.cluster.after_call = lambda verb, resource, name: (
        order.append(f"{resource.kind} {name}") if verb == "create" and resource.kind != "Lease" else None
    )
    harness.start()
    await wait_for_admission(harness, MODEL)
    assert order == [
        f"Namespace {account_namespace(ACCOUNT)}",
        "NetworkPolicy steelyard-default",
        "NetworkPolicy steelyard-runners",
        "Model model-m1",
    ]


async def test_an_evaluation_waits_for_what_it_needs_and_says_so(harness: PlatformHarness) -> None:
    harness.start()
    await harness.create(EVALUATION, SERVICE)

    async def says(words: str) -> None:
        async def holds() -> bool:
            return words in await harness.message("e1")

        await until(holds)

    await says("waiting for Dataset d1, which is not there yet")
    await harness.create(make_dataset(status="WaitingForUpload"))
    await says("waiting for Dataset digits, whose upload is not finalized")
    assert (await harness.entity("e1")).reason == "UnsatisfiedDependency"
    assert harness.resource(EVALUATION) is None
    await harness.update_status(make_dataset(), "Ready")
    await has_status(harness, "e1", "Admitted")
    assert (await harness.entity("e1")).message is None


async def test_a_dependency_that_fails_fails_those_who_wait(harness: PlatformHarness) -> None:
    harness.start()
    await harness.create(SERVICE, EVALUATION, make_dataset(status="WaitingForUpload"))
    await harness.update_status(make_dataset(), "Error", "UploadFailed")
    await has_status(harness, "e1", "Error")
    entity = await harness.entity("e1")
    assert (entity.reason, entity.message) == ("FailedDependency", "Dataset digits failed: UploadFailed")
    assert harness.resource(EVALUATION) is None


async def test_who_finds_no_room_waits_until_another_lets_go(harness: PlatformHarness) -> None:
    harness.limits = Slots(1)
    first, second = make_model("m1"), make_model("m2")
    harness.start()
    await wait_for_admission(harness, first)
    await harness.create(second)

    async def waits() -> bool:
        return "quota" in await harness.message("m2")

    await until(waits)
    assert (await harness.entity("m2")).message == "Global quota exceeded: slots: 1/1 (position 1)"
    harness.pod(first, "Running")
    harness.finish(first, "Ready")
    await harness.update_status(first, "Ready", source="informer")
    await has_status(harness, "m1", "Ready")
    await until(lambda: True)
    assert await harness.status("m2") == "Created"  # a Pod of the first one runs still
    harness.pod(first, "Succeeded")
    await wait_for_release(harness, "m1")
    await has_status(harness, "m2", "Admitted")
    assert (await harness.entity("m2")).message is None


async def test_what_is_terminated_goes_at_once_and_what_is_complete_after_a_while(
    harness: PlatformHarness,
) -> None:
    harness.start()
    await harness.create(SERVICE)
    one, other = make_session("i1"), make_model("m2")
    await wait_for_admission(harness, one)
    await wait_for_admission(harness, other)
    harness.finish(other, "Ready")
    await harness.update_status(other, "Ready", source="informer")
    await harness.update_status(one, "Terminated", "TerminateCommand")
    await until(lambda: harness.resource(one) is None)
    await wait_for_release(harness, "i1")
    await wait_for_release(harness, "m2")
    assert harness.resource(other) is not None
    harness.now += timedelta(hours=2)
    await until(lambda: harness.resource(other) is None)
    assert harness.creations(one) == harness.creations(other) == 1


async def test_a_resource_deleted_by_hand_comes_back_while_its_entity_is_unfinished(
    harness: PlatformHarness,
) -> None:
    harness.start()
    await wait_for_admission(harness, MODEL)
    harness.remove(MODEL)
    await until(lambda: harness.resource(MODEL) is not None)
    assert harness.creations(MODEL) == 2
    harness.finish(MODEL, "Ready")
    await harness.update_status(MODEL, "Ready", source="informer")
    await wait_for_release(harness, "m1")
    harness.remove(MODEL)
    await harness.create(make_model("m2"))
    await has_status(harness, "m2", "Admitted")
    assert harness.creations(MODEL) == 2


async def test_a_finished_resource_deleted_by_hand_is_not_made_again_by_the_comparison(
    harness: PlatformHarness,
) -> None:
    """The news of its end is on its way: the informer has seen it, and its command has not been read yet."""
    claims = CountingClaims(harness.claims)
    harness.claims = cast(Claims, claims)
    harness.settings = QUICK.model_copy(update={"reconcile_seconds": 0.01, "recreate_seconds": 60})
    harness.start()
    await wait_for_admission(harness, MODEL)
    harness.finish(MODEL, "Ready")
    harness.remove(MODEL)
    before = claims.comparisons
    await until(lambda: claims.comparisons > before + 3)
    assert harness.resource(MODEL) is None
    await harness.update_status(MODEL, "Ready", source="informer")
    await wait_for_release(harness, "m1")
    assert harness.creations(MODEL) == 1


def make_forged(entity: DyffEntity) -> Json:
    """The resource of an entity in the namespace of another account, as its user can make it."""
    forged = manifest(entity)
    return forged | {"metadata": forged["metadata"] | {"namespace": account_namespace("mallory")}}


async def test_a_resource_of_another_account_does_not_end_the_pause_of_one_that_has_gone(
    harness: PlatformHarness,
) -> None:
    claims = CountingClaims(harness.claims)
    harness.claims = cast(Claims, claims)
    harness.settings = QUICK.model_copy(update={"reconcile_seconds": 0.01, "recreate_seconds": 60})
    harness.start()
    await wait_for_admission(harness, MODEL)
    harness.finish(MODEL, "Ready")
    harness.remove(MODEL)
    harness.cluster.store.put(make_forged(MODEL))
    before = claims.comparisons
    await until(lambda: claims.comparisons > before + 3)
    assert harness.resource(MODEL) is None


async def test_a_resource_of_another_account_that_goes_delays_no_admission(harness: PlatformHarness) -> None:
    slots = cast(Slots, harness.limits)
    slots.limit = 1
    harness.settings = QUICK.model_copy(update={"recreate_seconds": 600})
    harness.start()
    await wait_for_admission(harness, make_model("m0"))
    await harness.create(MODEL)
    await has_status(harness, "m1", "Created")

    async def waits() -> bool:
        return (await harness.entity("m1")).reason == "QuotaLimit"

    await until(waits)
    harness.cluster.store.put(make_forged(MODEL))
    resource, name = find_place(MODEL)
    harness.cluster.store.remove(resource, name, account_namespace("mallory"))
    harness.finish(make_model("m0"), "Ready")
    await harness.update_status(make_model("m0"), "Ready", source="informer")
    await has_status(harness, "m1", "Admitted")
    assert harness.resource(MODEL) is not None


async def test_a_restored_entity_ends_as_its_resource_that_is_still_there(harness: PlatformHarness) -> None:
    first = harness.start()
    harness.inform()
    await wait_for_admission(harness, MODEL)
    running = await harness.entity("m1")
    harness.finish(MODEL, "Ready")
    await has_status(harness, "m1", "Ready")
    await harness.kill(first)
    await harness.update_status(MODEL, "Deleted")
    await has_status(harness, "m1", "Deleted")
    await harness.restore(running)
    await has_status(harness, "m1", "Admitted")
    harness.start("two")
    await has_status(harness, "m1", "Ready")
    assert harness.creations(MODEL) == 1


async def test_a_kubernetes_made_again_gets_what_is_unfinished_again(harness: PlatformHarness) -> None:
    running, ended = make_model("m1"), make_model("m2")
    first = harness.start()
    empty = harness.cluster.snapshot()
    await wait_for_admission(harness, running)
    await wait_for_admission(harness, ended)
    harness.finish(ended, "Ready")
    await harness.update_status(ended, "Ready", source="informer")
    await wait_for_release(harness, "m2")
    await harness.kill(first)
    harness.cluster.restore(empty)
    harness.start()
    await until(lambda: harness.resource(running) is not None)
    assert harness.resource(ended) is None
    assert await harness.status("m1") == "Admitted"


async def test_objects_without_our_label_are_never_touched_and_superfluous_ones_go(
    harness: PlatformHarness,
) -> None:
    theirs, stray = manifest(make_model("x1")), manifest(make_model("x2"))
    theirs["metadata"]["labels"] = {}
    harness.cluster.store.put(theirs)
    harness.cluster.store.put(stray)
    harness.start()
    await wait_for_admission(harness, MODEL)
    await until(lambda: harness.resource(make_model("x2")) is None)
    assert harness.resource(make_model("x1")) is not None


async def test_a_name_that_is_taken_is_said(harness: PlatformHarness) -> None:
    theirs = manifest(MODEL)
    theirs["metadata"]["labels"] = {}
    harness.cluster.store.put(theirs)
    harness.start()
    await harness.create(MODEL)
    await has_status(harness, "m1", "Error")
    assert (await harness.entity("m1")).reason == "NameConflict"
    await wait_for_release(harness, "m1")
    assert harness.resource(MODEL) is not None


async def test_what_the_api_server_refuses_is_said(harness: PlatformHarness) -> None:
    def refuse(verb: str, resource: Resource, name: str) -> None:
        if (verb, resource.kind) == ("create", "Model"):
            raise Invalid("spec.name: Too long: may not be more than 10 bytes")

    harness.cluster.before_call = refuse
    harness.start()
    await harness.create(MODEL)
    await has_status(harness, "m1", "Error")
    entity = await harness.entity("m1")
    assert (entity.reason, entity.message) == (
        "BadRequest",
        "spec.name: Too long: may not be more than 10 bytes",
    )


async def test_while_kubernetes_is_away_everything_waits(harness: PlatformHarness) -> None:
    harness.start()
    await wait_for_admission(harness, make_model("m2"))

    def away(verb: str, resource: Resource, name: str) -> None:
        raise Unreachable("no route to host")

    harness.cluster.before_call = away
    harness.cluster.end_watches()
    await harness.create(MODEL)
    await harness.update_status(make_model("m2"), "Terminated")
    await has_status(harness, "m2", "Terminated")
    harness.cluster.before_call = None
    await until(lambda: harness.resource(MODEL) is not None)
    await has_status(harness, "m1", "Admitted")
    await until(lambda: harness.resource(make_model("m2")) is None)
    assert harness.creations(MODEL) == 1


async def test_a_namespace_deleted_by_hand_is_made_again(harness: PlatformHarness) -> None:
    """The double knows no namespaces: what the API would say of a missing one is said here."""
    there = set[str]()

    def check(verb: str, resource: Resource, name: str) -> None:
        if verb == "create" and resource.kind == "Model" and account_namespace(ACCOUNT) not in there:
            raise NotFound("namespaces not found")

    def note(verb: str, resource: Resource, name: str) -> None:
        if (verb, resource) == ("create", NAMESPACES):
            there.add(name)

    harness.cluster.before_call, harness.cluster.after_call = check, note
    harness.start()
    await wait_for_admission(harness, MODEL)
    harness.cluster.store.remove(NAMESPACES, account_namespace(ACCOUNT))
    there.clear()
    await wait_for_admission(harness, make_model("m2"))
    policies = harness.cluster.store.objects(NETWORK_POLICIES)
    assert [policy["metadata"]["name"] for policy in policies] == ["steelyard-default", "steelyard-runners"]


async def test_an_upload_that_is_never_finalized_expires(harness: PlatformHarness) -> None:
    harness.settings = harness.settings.model_copy(update={"upload_seconds": 3600})
    harness.start()
    await harness.create(make_dataset(status="WaitingForUpload"))
    await has_status(harness, "d1", "WaitingForUpload")
    harness.now += timedelta(hours=1)
    await has_status(harness, "d1", "Error")
    assert (await harness.entity("d1")).reason == "Expired"


async def test_it_runs_with_the_settings_as_they_are(harness: PlatformHarness) -> None:
    stop = asyncio.Event()
    settings, rules = OrchestratorSettings(), make_rules(QuotaSettings())
    running = asyncio.create_task(
        run_orchestrator(
            harness.log,
            harness.claims,
            harness.cluster,
            settings,
            rules,
            candidate=Candidate("one", SystemClock()),
            new_id=harness.new_id,
            stop=stop,
        )
    )
    await wait_for_admission(harness, make_session("i1"), make_service(status="Ready"))
    claim = await harness.claim("i1")
    assert claim
    assert claim.quantities == {"cpu": "1", "memory": "1Gi", "workflows.dyff.io/admitted": "1"}
    stop.set()
    await asyncio.wait_for(running, 60)
