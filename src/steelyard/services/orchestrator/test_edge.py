"""Single reconciliations of one entity, where the whole orchestrator would hide what they do."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from steelyard.accounts.claims import Claim
from steelyard.services.orchestrator.cache import ResourceCache
from steelyard.services.orchestrator.edge import Edge, NotYet
from steelyard.services.orchestrator.manifest import manifest
from steelyard.services.orchestrator.namespaces import NETWORK_POLICIES
from steelyard.services.orchestrator.secrets import SecretValues
from steelyard.services.orchestrator.settings import STORAGE_SECRET, OrchestratorSettings
from steelyard.services.orchestrator.test_waiting import claim_of
from steelyard.services.simulation.entities import ACCOUNT, START, make_model
from steelyard.services.status_commands import Status
from steelyard_kube.errors import ApiError, Conflict, Forbidden, NotFound, Unreachable
from steelyard_kube.memory import MemoryCluster
from steelyard_kube.resource import MODELS, SECRETS, Resource
from steelyard_schema.names import TRACE, account_namespace

MODEL = make_model()
CLAIM = replace(claim_of(MODEL), admitted_at=START)


TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@dataclass
class EdgeHarness:
    """One claim, a cluster, and a cache that has seen nothing yet. It is the `Entities` of the edge."""

    newest_claim: Claim | None = CLAIM
    newest: bool = True
    settings: OrchestratorSettings = field(default_factory=OrchestratorSettings)
    cluster: MemoryCluster = field(default_factory=MemoryCluster)
    reports: list[Status] = field(default_factory=list)
    released: list[str] = field(default_factory=list)
    pause: float = 0.0
    leads: bool = True
    secrets: SecretValues | None = None

    async def claim(self, id: str) -> Claim | None:
        return self.newest_claim

    async def state_headers(self, claim: Claim) -> Mapping[str, str] | None:
        return {"traceparent": TRACEPARENT} if self.newest else None

    async def report(self, claim: Claim, status: Status) -> None:
        assert status.status != "Admitted" or self.models(), "it was reported before it was so"
        self.reports.append(status)

    async def release(self, id: str) -> None:
        self.released.append(id)

    def recreate_pause(self, id: str) -> float:
        return self.pause

    async def ensure_leader(self) -> None:
        if not self.leads:
            raise Deposed

    async def reconcile(self) -> float | None:
        cache = ResourceCache(self.cluster, lambda id, resource, gone: None)
        edge = Edge(self.cluster, cache, self, self.settings, self.secrets)
        return await edge.reconcile("m1", START)

    def models(self) -> list[dict[str, Any]]:
        return self.cluster.store.objects(MODELS)


async def test_nothing_is_made_while_the_log_knows_more() -> None:
    harness = EdgeHarness(newest=False)
    with pytest.raises(NotYet, match="the log knows more"):
        await harness.reconcile()
    assert not harness.models()


async def test_what_is_admitted_is_there() -> None:
    harness = EdgeHarness()
    await harness.reconcile()
    assert harness.reports == [Status("Admitted")]


async def test_a_resource_says_to_which_trace_it_belongs() -> None:
    harness = EdgeHarness()
    await harness.reconcile()
    (model,) = harness.models()
    assert model["metadata"]["annotations"] == {TRACE: TRACEPARENT}


async def test_what_is_there_already_counts_as_made() -> None:
    harness = EdgeHarness()
    harness.cluster.store.put(manifest(MODEL))
    await harness.reconcile()
    assert harness.reports == [Status("Admitted")]


async def test_an_admission_is_not_reported_again() -> None:
    harness = EdgeHarness(replace(CLAIM, status="Admitted"))
    await harness.reconcile()
    assert len(harness.models()) == 1
    assert harness.reports == []


async def test_what_is_being_deleted_is_waited_for() -> None:
    harness = EdgeHarness()
    going = manifest(MODEL)
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    harness.cluster.store.put(going)
    with pytest.raises(NotYet, match="is being deleted"):
        await harness.reconcile()
    assert harness.reports == []


async def test_who_is_admitted_already_fails_by_nobodys_word() -> None:
    harness = EdgeHarness(replace(CLAIM, status="Admitted"))
    theirs = manifest(MODEL)
    theirs["metadata"]["labels"] = {}
    harness.cluster.store.put(theirs)
    with pytest.raises(NotYet, match="cannot be made again: NameConflict"):
        await harness.reconcile()
    assert harness.reports == []


@pytest.mark.parametrize("status", ["Terminated", "Deleted"])
async def test_what_was_made_a_moment_ago_goes_before_the_cache_has_seen_it(status: str) -> None:
    harness = EdgeHarness(replace(CLAIM, status=status, terminal_at=START))
    harness.cluster.store.put(manifest(MODEL))
    await harness.reconcile()
    assert harness.models() == []
    assert harness.released == ["m1"]


async def test_what_has_ended_by_word_alone_holds_on_while_its_resource_goes_on() -> None:
    harness = EdgeHarness(replace(CLAIM, status="Error", terminal_at=START))
    harness.cluster.store.put(manifest(MODEL))
    assert await harness.reconcile() == 1.0
    assert harness.released == []


async def test_what_has_gone_is_not_made_again_before_its_pause_is_over_even_on_request() -> None:
    harness = EdgeHarness(replace(CLAIM, status="Admitted"), pause=30.0)
    assert await harness.reconcile() == 30.0
    assert not harness.models()
    harness.pause = 0.0
    await harness.reconcile()
    assert harness.models()


@pytest.mark.parametrize("kind", ["Namespace", "Model"])
async def test_what_kubernetes_does_not_take_now_is_tried_again_and_said(kind: str) -> None:
    harness = EdgeHarness()

    def refuse(verb: str, resource: Resource, name: str) -> None:
        if (verb, resource.kind) == ("create", kind):
            raise Forbidden("exceeded quota: count/models.dyff.io=10")

    harness.cluster.before_call = refuse
    with pytest.raises(Forbidden):
        await harness.reconcile()
    message = "Kubernetes does not take it: exceeded quota: count/models.dyff.io=10"
    assert harness.reports == [Status("Created", "FailedCreate", message)]
    harness.newest_claim = replace(CLAIM, reason="FailedCreate", message=message, position=(1, 9))
    with pytest.raises(Forbidden):
        await harness.reconcile()
    assert len(harness.reports) == 1, "it says so already"
    harness.cluster.before_call = None
    await harness.reconcile()
    assert harness.reports[-1] == Status("Admitted")


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_what_kubernetes_can_never_take_fails_at_once(status: int) -> None:
    harness = EdgeHarness()

    def refuse(verb: str, resource: Resource, name: str) -> None:
        if (verb, resource.kind) == ("create", "Model"):
            raise ApiError("spec.resources.storage: 1e999 is no quantity", status=status)

    harness.cluster.before_call = refuse
    await harness.reconcile()
    assert harness.reports == [Status("Error", "BadRequest", "spec.resources.storage: 1e999 is no quantity")]


async def test_a_kubernetes_that_is_away_is_nothing_to_say_of_an_entity() -> None:
    harness = EdgeHarness()

    def away(verb: str, resource: Resource, name: str) -> None:
        raise Unreachable("connection refused")

    harness.cluster.before_call = away
    with pytest.raises(Unreachable):
        await harness.reconcile()
    assert harness.reports == []


async def test_credentials_of_the_storage_lie_in_the_accounts_namespace() -> None:
    harness = EdgeHarness(
        settings=OrchestratorSettings.model_validate({"storage_credentials": {"KEY": "old"}})
    )
    await harness.reconcile()
    assert harness.models()[0]["spec"]["storage"]["secret"] == STORAGE_SECRET
    harness.settings = OrchestratorSettings.model_validate({"storage_credentials": {"KEY": "new"}})
    harness.cluster.store.remove(MODELS, "model-m1", account_namespace(ACCOUNT))
    await harness.reconcile()
    secret = harness.cluster.store.find(SECRETS, STORAGE_SECRET, account_namespace(ACCOUNT))
    assert secret
    assert secret["data"] == {"KEY": "bmV3"}


class Deposed(Exception):
    """The process does not lead any more."""


@pytest.mark.parametrize("call", ["create", "get", "patch"])
@pytest.mark.parametrize("before", ["older", "newer"])
async def test_an_orchestrator_that_was_suspended_writes_no_older_credentials_of_the_storage(
    call: str, before: str
) -> None:
    """A later leader, which has other settings, makes a workflow of the account meanwhile."""

    def with_credentials(value: str) -> OrchestratorSettings:
        return OrchestratorSettings.model_validate({"storage_credentials": {"KEY": value}})

    harness = EdgeHarness(settings=with_credentials(before))
    await harness.reconcile()
    harness.cluster.store.remove(MODELS, "model-m1", account_namespace(ACCOUNT))
    later = EdgeHarness(settings=with_credentials("newer"), cluster=harness.cluster)

    def suspend(verb: str, resource: Resource, name: str) -> None:
        if (verb, resource) == (call, SECRETS):
            harness.cluster.before_call = None
            # The double answers at once, so that this takes no turn of the event loop.
            with pytest.raises(StopIteration):
                later.reconcile().send(None)
            harness.leads = False

    harness.settings = with_credentials("older")
    harness.cluster.before_call = suspend
    with pytest.raises((Conflict, Deposed)):
        await harness.reconcile()
    secret = harness.cluster.store.find(SECRETS, STORAGE_SECRET, account_namespace(ACCOUNT))
    assert secret
    assert secret["data"] == {"KEY": base64.b64encode(b"newer").decode()}


async def test_a_kubernetes_without_network_policies_is_asked_once() -> None:
    harness, requested = EdgeHarness(), list[str]()

    def serve(verb: str, resource: Resource, name: str) -> None:
        if resource == NETWORK_POLICIES:
            requested.append(name)
            raise NotFound("the server could not find the requested resource")

    harness.cluster.before_call = serve
    await harness.reconcile()
    assert len(harness.models()) == 1
    assert requested == ["steelyard-default"]


@pytest.mark.parametrize(("status", "released"), [("Admitted", []), ("Complete", ["m1"])])
async def test_a_run_of_a_pipeline_has_no_resource_to_look_for(status: str, released: list[str]) -> None:
    # Claims that an earlier version has stored say of runs that they were admitted.
    claim = replace(
        CLAIM, kind="PipelineRun", status=status, terminal_at=None if status == "Admitted" else START
    )
    harness = EdgeHarness(claim)
    await harness.reconcile()
    assert harness.released == released
    assert not harness.models()
