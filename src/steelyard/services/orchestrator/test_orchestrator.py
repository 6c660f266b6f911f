"""The whole orchestrator beside the real aggregator, in memory: from created to gone."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from steelyard.accounts.database import Claim, Claims
from steelyard.accounts.open import open_accounts_database
from steelyard.accounts.quotas import GLOBAL, QuotaSettings, Shortage
from steelyard.broker.in_memory import MemoryLog
from steelyard.broker.log import STATE, Message, Record
from steelyard.kube.errors import Invalid, NotFound, Unreachable
from steelyard.kube.leader import Candidate, SystemClock
from steelyard.kube.resource import NAMESPACES, Resource
from steelyard.schema.base import DyffEntity
from steelyard.schema.names import namespace_of
from steelyard.services.orchestrator.manifest import manifest
from steelyard.services.orchestrator.namespaces import NETWORK_POLICIES
from steelyard.services.orchestrator.orchestrator import run_orchestrator
from steelyard.services.orchestrator.rules import rules_of
from steelyard.services.orchestrator.settings import OrchestratorSettings
from steelyard.services.simulation.entities import (
    ACCOUNT,
    make_dataset,
    make_evaluation,
    make_model,
    make_service,
    make_session,
)
from steelyard.services.simulation.platform import QUICK, Bench, until


@dataclass
class Slots:
    """Limits of one number of slots for all accounts."""

    limit: int = 100

    def shortages(self, claim: Claim, held: Sequence[Claim]) -> list[Shortage]:
        if len(held) < self.limit:
            return []
        return [Shortage(GLOBAL, "slots", f"Global quota exceeded: slots: {len(held)}/{self.limit}")]


class Counted:
    """Claims that count how often all of them were compared."""

    def __init__(self, claims: Claims) -> None:
        self.comparisons = 0
        self._claims = claims

    def __getattr__(self, name: str) -> Any:
        return getattr(self._claims, name)

    async def unfinished(self) -> Sequence[Claim]:
        self.comparisons += 1
        return await self._claims.unfinished()


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    accounts_database = await open_accounts_database("memory:")
    bench = Bench(accounts_database.claims, Slots())
    bench.aggregate()
    yield bench
    await bench.close()
    await accounts_database.close()


async def has_status(bench: Bench, id: str, status: str) -> None:
    async def holds() -> bool:
        return await bench.status(id) == status

    await until(holds)


async def released(bench: Bench, id: str) -> None:
    async def holds() -> bool:
        claim = await bench.claim(id)
        return claim is not None and claim.released_at is not None

    await until(holds)


async def admitted(bench: Bench, entity: DyffEntity, *others: DyffEntity) -> None:
    await bench.create(entity, *others)
    await until(lambda: bench.resource(entity) is not None)
    await has_status(bench, entity.id, "Admitted")


MODEL, SERVICE, EVALUATION = make_model(), make_service(status="Ready"), make_evaluation()


async def test_what_waits_for_nothing_is_made_and_then_admitted(bench: Bench) -> None:
    bench.start()
    await admitted(bench, MODEL)
    made = bench.resource(MODEL)
    assert made
    assert made["spec"] == manifest(MODEL)["spec"]
    entity = await bench.entity("m1")
    assert (entity.reason, entity.message) == (None, None)
    assert await bench.reports("m1") == [("Admitted", None)]
    assert bench.metrics.admitted.labels("Model")._value.get() == 1


async def test_the_namespace_stands_first_with_its_policies(bench: Bench) -> None:
    order = list[str]()
    bench.cluster.after_call = lambda verb, resource, name: (
        order.append(f"{resource.kind} {name}") if verb == "create" and resource.kind != "Lease" else None
    )
    bench.start()
    await admitted(bench, MODEL)
    assert order == [
        f"Namespace {namespace_of(ACCOUNT)}",
        "NetworkPolicy steelyard-default",
        "NetworkPolicy steelyard-runners",
        "Model model-m1",
    ]


async def test_an_evaluation_waits_for_what_it_needs_and_says_so(bench: Bench) -> None:
    bench.start()
    await bench.create(EVALUATION, SERVICE)

    async def says(words: str) -> None:
        async def holds() -> bool:
            return words in await bench.message("e1")

        await until(holds)

    await says("waiting for Dataset d1, which is not there yet")
    await bench.create(make_dataset(status="WaitingForUpload"))
    await says("waiting for Dataset digits, whose upload is not finalized")
    assert (await bench.entity("e1")).reason == "UnsatisfiedDependency"
    assert bench.resource(EVALUATION) is None
    await bench.update_status(make_dataset(), "Ready")
    await has_status(bench, "e1", "Admitted")
    assert (await bench.entity("e1")).message is None


async def test_a_dependency_that_fails_fails_those_who_wait(bench: Bench) -> None:
    bench.start()
    await bench.create(SERVICE, EVALUATION, make_dataset(status="WaitingForUpload"))
    await bench.update_status(make_dataset(), "Error", "UploadFailed")
    await has_status(bench, "e1", "Failed")
    entity = await bench.entity("e1")
    assert (entity.reason, entity.message) == ("FailedDependency", "Dataset digits failed: UploadFailed")
    assert bench.resource(EVALUATION) is None


async def test_who_finds_no_room_waits_until_another_lets_go(bench: Bench) -> None:
    bench.limits = Slots(1)
    first, second = make_model("m1"), make_model("m2")
    bench.start()
    await admitted(bench, first)
    await bench.create(second)

    async def waits() -> bool:
        return "quota" in await bench.message("m2")

    await until(waits)
    assert (await bench.entity("m2")).message == "Global quota exceeded: slots: 1/1 (position 1)"
    bench.pod(first, "Running")
    bench.finish(first, "Ready")
    await bench.update_status(first, "Ready", source="informer")
    await has_status(bench, "m1", "Ready")
    await until(lambda: True)
    assert await bench.status("m2") == "Created"  # a Pod of the first one runs still
    bench.pod(first, "Succeeded")
    await released(bench, "m1")
    await has_status(bench, "m2", "Admitted")
    assert (await bench.entity("m2")).message is None


async def test_what_is_terminated_goes_at_once_and_what_is_complete_after_a_while(bench: Bench) -> None:
    bench.start()
    await bench.create(SERVICE)
    one, other = make_session("i1"), make_model("m2")
    await admitted(bench, one)
    await admitted(bench, other)
    bench.finish(other, "Ready")
    await bench.update_status(other, "Ready", source="informer")
    await bench.update_status(one, "Terminated", "TerminateCommand")
    await until(lambda: bench.resource(one) is None)
    await released(bench, "i1")
    await released(bench, "m2")
    assert bench.resource(other) is not None
    bench.now += timedelta(hours=2)
    await until(lambda: bench.resource(other) is None)
    assert bench.creations(one) == bench.creations(other) == 1


async def test_a_resource_deleted_by_hand_comes_back_while_its_entity_is_unfinished(bench: Bench) -> None:
    bench.start()
    await admitted(bench, MODEL)
    bench.remove(MODEL)
    await until(lambda: bench.resource(MODEL) is not None)
    assert bench.creations(MODEL) == 2
    bench.finish(MODEL, "Ready")
    await bench.update_status(MODEL, "Ready", source="informer")
    await released(bench, "m1")
    bench.remove(MODEL)
    await bench.create(make_model("m2"))
    await has_status(bench, "m2", "Admitted")
    assert bench.creations(MODEL) == 2


async def test_a_finished_resource_deleted_by_hand_is_not_made_again_by_the_comparison(bench: Bench) -> None:
    """The news of its end is on its way: the informer has seen it, and its command has not been read yet."""
    claims = Counted(bench.claims)
    bench.claims = cast(Claims, claims)
    bench.settings = QUICK.model_copy(update={"reconcile_seconds": 0.01, "recreate_seconds": 60})
    bench.start()
    await admitted(bench, MODEL)
    bench.finish(MODEL, "Ready")
    bench.remove(MODEL)
    before = claims.comparisons
    await until(lambda: claims.comparisons > before + 3)
    assert bench.resource(MODEL) is None
    await bench.update_status(MODEL, "Ready", source="informer")
    await released(bench, "m1")
    assert bench.creations(MODEL) == 1


async def test_a_restored_entity_ends_as_its_resource_that_is_still_there(bench: Bench) -> None:
    first = bench.start()
    bench.inform()
    await admitted(bench, MODEL)
    running = await bench.entity("m1")
    bench.finish(MODEL, "Ready")
    await has_status(bench, "m1", "Ready")
    await bench.kill(first)
    await bench.update_status(MODEL, "Deleted")
    await has_status(bench, "m1", "Deleted")
    await bench.restore(running)
    await has_status(bench, "m1", "Admitted")
    bench.start("two")
    await has_status(bench, "m1", "Ready")
    assert bench.creations(MODEL) == 1


async def test_a_kubernetes_made_anew_gets_what_is_unfinished_again(bench: Bench) -> None:
    running, ended = make_model("m1"), make_model("m2")
    first = bench.start()
    empty = bench.cluster.snapshot()
    await admitted(bench, running)
    await admitted(bench, ended)
    bench.finish(ended, "Ready")
    await bench.update_status(ended, "Ready", source="informer")
    await released(bench, "m2")
    await bench.kill(first)
    bench.cluster.restore(empty)
    bench.start()
    await until(lambda: bench.resource(running) is not None)
    assert bench.resource(ended) is None
    assert await bench.status("m1") == "Admitted"


async def test_what_nobody_labelled_is_never_touched_and_what_nobody_wants_goes(bench: Bench) -> None:
    theirs, stray = manifest(make_model("x1")), manifest(make_model("x2"))
    theirs["metadata"]["labels"] = {}
    bench.cluster.store.put(theirs)
    bench.cluster.store.put(stray)
    bench.start()
    await admitted(bench, MODEL)
    await until(lambda: bench.resource(make_model("x2")) is None)
    assert bench.resource(make_model("x1")) is not None


async def test_a_name_that_is_taken_is_said(bench: Bench) -> None:
    theirs = manifest(MODEL)
    theirs["metadata"]["labels"] = {}
    bench.cluster.store.put(theirs)
    bench.start()
    await bench.create(MODEL)
    await has_status(bench, "m1", "Error")
    assert (await bench.entity("m1")).reason == "NameConflict"
    await released(bench, "m1")
    assert bench.resource(MODEL) is not None


async def test_what_the_api_server_refuses_is_said(bench: Bench) -> None:
    def refuse(verb: str, resource: Resource, name: str) -> None:
        if (verb, resource.kind) == ("create", "Model"):
            raise Invalid("spec.name: Too long: may not be more than 10 bytes")

    bench.cluster.before_call = refuse
    bench.start()
    await bench.create(MODEL)
    await has_status(bench, "m1", "Error")
    entity = await bench.entity("m1")
    assert (entity.reason, entity.message) == (
        "BadRequest",
        "spec.name: Too long: may not be more than 10 bytes",
    )


async def test_while_kubernetes_is_away_everything_waits(bench: Bench) -> None:
    bench.start()
    await admitted(bench, make_model("m2"))

    def away(verb: str, resource: Resource, name: str) -> None:
        raise Unreachable("no route to host")

    bench.cluster.before_call = away
    bench.cluster.end_watches()
    await bench.create(MODEL)
    await bench.update_status(make_model("m2"), "Terminated")
    await has_status(bench, "m2", "Terminated")
    bench.cluster.before_call = None
    await until(lambda: bench.resource(MODEL) is not None)
    await has_status(bench, "m1", "Admitted")
    await until(lambda: bench.resource(make_model("m2")) is None)
    assert bench.creations(MODEL) == 1


async def test_a_namespace_deleted_by_hand_is_made_again(bench: Bench) -> None:
    """The double knows no namespaces: what the API would say of a missing one is said here."""
    there = set[str]()

    def check(verb: str, resource: Resource, name: str) -> None:
        if verb == "create" and resource.kind == "Model" and namespace_of(ACCOUNT) not in there:
            raise NotFound("namespaces not found")

    def note(verb: str, resource: Resource, name: str) -> None:
        if (verb, resource) == ("create", NAMESPACES):
            there.add(name)

    bench.cluster.before_call, bench.cluster.after_call = check, note
    bench.start()
    await admitted(bench, MODEL)
    bench.cluster.store.remove(NAMESPACES, namespace_of(ACCOUNT))
    there.clear()
    await admitted(bench, make_model("m2"))
    policies = bench.cluster.store.objects(NETWORK_POLICIES)
    assert [policy["metadata"]["name"] for policy in policies] == ["steelyard-default", "steelyard-runners"]


async def test_an_upload_that_is_never_finalized_expires(bench: Bench) -> None:
    bench.settings = bench.settings.model_copy(update={"upload_seconds": 3600})
    bench.start()
    await bench.create(make_dataset(status="WaitingForUpload"))
    await has_status(bench, "d1", "WaitingForUpload")
    bench.now += timedelta(hours=1)
    await has_status(bench, "d1", "Error")
    assert (await bench.entity("d1")).reason == "Expired"


async def test_two_orchestrators_and_one_leader(bench: Bench) -> None:
    first, second = bench.start("one"), bench.start("two")
    models = [make_model(f"m{number}") for number in range(8)]
    await bench.create(*models[:4])
    for model in models[:4]:
        await has_status(bench, model.id, "Admitted")
    await bench.kill(first)
    await bench.create(*models[4:])
    for model in models:
        await has_status(bench, model.id, "Admitted")
    assert [bench.creations(model) for model in models] == [1] * 8
    assert not second.done()


async def test_a_leader_that_was_overtaken_stands_for_election_again(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    leader = bench.start()
    await admitted(bench, MODEL)
    overtaker = await bench.claims.lead("another", bench.now)
    other = make_model("m2")
    await bench.create(other)
    await until(lambda: bench.resource(other) is not None)
    assert "was replaced by leader" in caplog.text
    assert await bench.claims.lead("a third", bench.now) == overtaker + 2, "it was elected in between"
    assert not leader.done()


async def test_the_claims_have_the_last_word(bench: Bench) -> None:
    """Something is held that the leader has not heard of."""
    bench.limits = Slots(2)
    bench.start()
    # Once it admits, its start is over, in which a leader removes claims that the log does not know.
    await admitted(bench, MODEL)
    known = await bench.claim(MODEL.id)
    assert known
    leader = 1  # there was no other
    await bench.claims.apply([("x1", replace(known, id="x1"))], bench.log.epoch, {}, leader)
    other = make_model("m2")
    await bench.create(other)

    async def waits() -> bool:
        return "quota" in await bench.message(other.id)

    await until(waits)
    assert bench.resource(other) is None


async def test_claims_can_be_made_anew_from_the_log(bench: Bench) -> None:
    bench.limits = Slots(1)
    first = bench.start()
    await admitted(bench, MODEL)
    await bench.kill(first)
    accounts_database = await open_accounts_database("memory:")
    bench.claims = accounts_database.claims
    second = bench.start()
    await bench.create(make_model("m2"))

    async def waits() -> bool:
        return "quota" in await bench.message("m2")

    await until(waits)
    assert bench.creations(MODEL) == 1
    await bench.kill(second)
    await accounts_database.close()


class SlowLog(MemoryLog):
    """A log that takes its time."""

    async def read(self, topic: str, partition: int, start: int, limit: int = 500) -> Sequence[Record]:
        await asyncio.sleep(0.003)
        return await super().read(topic, partition, start, limit)


async def test_nothing_is_done_before_what_there_was_is_read() -> None:
    """Resources seem unwanted as long as there are no claims."""
    first, second = await open_accounts_database("memory:"), await open_accounts_database("memory:")
    bench = Bench(first.claims, Slots(), log=SlowLog())
    bench.aggregate()
    leader = bench.start()
    await admitted(bench, MODEL)
    await bench.kill(leader)
    bench.claims = second.claims
    bench.start()
    await admitted(bench, make_model("m2"))
    assert (bench.creations(MODEL), bench.deletions(MODEL)) == (1, 0)
    await bench.close()
    await first.close()
    await second.close()


async def test_a_log_made_anew_is_believed(bench: Bench) -> None:
    """The log was restored from a backup that lacks one of two entities; offsets begin again."""
    lost, kept = make_model("m1"), make_model("m2")
    leader = bench.start()
    await admitted(bench, lost)
    await admitted(bench, kept)
    await bench.kill(leader)
    bench.log = MemoryLog(epoch=2)
    bench.aggregate()
    await bench.create(kept.model_copy(update={"status": "Admitted"}))
    await has_status(bench, "m2", "Admitted")
    bench.start()
    await until(lambda: bench.resource(lost) is None)
    assert await bench.claim("m1") is None
    await admitted(bench, make_model("m3"))
    assert bench.creations(kept) == 1
    claim = await bench.claim("m2")
    assert claim
    assert claim.position[0] == 2


async def test_what_was_forgotten_long_ago_is_let_go_of(bench: Bench) -> None:
    """The leader was away while it was deleted, forgotten, buried, and its tombstone went."""
    leader = bench.start()
    await admitted(bench, MODEL)
    await bench.kill(leader)
    state = await bench.log.latest(STATE, "m1")
    assert state
    await bench.log.publish([Message(STATE, "m1", None, partition=state.partition)])
    assert await bench.log.expire(STATE, datetime.now(UTC) + timedelta(days=1)) == 1
    bench.start()
    await until(lambda: bench.resource(MODEL) is None)
    assert await bench.claim("m1") is None


async def test_a_forgotten_entity_leaves_nothing_behind(bench: Bench) -> None:
    bench.start()
    await admitted(bench, MODEL)
    await bench.update_status(MODEL, "Deleted")
    await until(lambda: bench.resource(MODEL) is None)
    await released(bench, "m1")
    await bench.forget(MODEL)

    async def unknown() -> bool:
        return await bench.claim("m1") is None

    await until(unknown)


async def test_it_runs_with_the_settings_as_they_are(bench: Bench) -> None:
    stop = asyncio.Event()
    settings, rules = OrchestratorSettings(), rules_of(QuotaSettings())
    running = asyncio.create_task(
        run_orchestrator(
            bench.log,
            bench.claims,
            bench.cluster,
            settings,
            rules,
            candidate=Candidate("one", SystemClock()),
            new_id=bench.new_id,
            stop=stop,
        )
    )
    await admitted(bench, make_session("i1"), make_service(status="Ready"))
    claim = await bench.claim("i1")
    assert claim
    assert claim.quantities == {"cpu": "1", "memory": "1Gi", "workflows.dyff.io/admitted": "1"}
    stop.set()
    await asyncio.wait_for(running, 60)
