"""Workflows get their secrets as Kubernetes Secrets of their own, or wait and say which one is missing."""

import base64
import copy
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest
from pydantic import SecretStr

from steelyard.accounts.claims import Claim
from steelyard.accounts.quotas import Quotas, QuotaSettings
from steelyard.accounts.secrets import SecretUnreadable
from steelyard.services.orchestrator.cache import ResourceCache, slim
from steelyard.services.orchestrator.edge import Edge, NotYet
from steelyard.services.orchestrator.manifest import manifest
from steelyard.services.orchestrator.namespaces import PER_ROUND, namespace_objects
from steelyard.services.orchestrator.secrets import WAITING, lacking_secrets
from steelyard.services.orchestrator.settings import OrchestratorSettings
from steelyard.services.orchestrator.test_edge import EdgeHarness
from steelyard.services.orchestrator.test_waiting import claim_of
from steelyard.services.orchestrator.waiting import Wait
from steelyard.services.simulation.entities import (
    ACCOUNT,
    START,
    make_evaluation,
    make_measurement,
    make_model,
    make_report,
    make_safety_case,
    make_service,
    make_session,
)
from steelyard.services.simulation.platform import (
    PlatformHarness,
    has_status,
    open_harness,
    until,
    wait_for_admission,
    wait_for_release,
)
from steelyard.services.status_commands import Status
from steelyard_kube.cluster import ObjectList
from steelyard_kube.errors import Conflict, Forbidden, NotFound, Unreachable
from steelyard_kube.memory import Crash, CrashAt, MemoryCluster
from steelyard_kube.resource import MODELS, NAMESPACES, SECRETS, Resource
from steelyard_schema.base import DyffEntity
from steelyard_schema.names import account_namespace

VALUE = "hf_a-distinctive-value"
DOCKER = json.dumps({"auths": {"registry.example.com": {"auth": "dXNlcjpwYXNz"}}})
MODEL = make_model(annotations=[{"key": "steelyard/secret-source", "value": "hub-token"}])
PULLING = [
    {"key": "steelyard/secret-imagePull", "value": "registry"},
    {"key": "steelyard/secret-provider", "value": "key"},
]
CLAIM = replace(claim_of(MODEL), admitted_at=START)


@dataclass
class Values:
    """Secrets of accounts, by account and name; `unreadable` ones cannot be decrypted."""

    values: dict[tuple[str, str], str] = field(default_factory=lambda: {(ACCOUNT, "hub-token"): VALUE})
    unreadable: bool = False
    looked_up: list[tuple[str, str]] = field(default_factory=list)

    async def has(self, account: str, name: str) -> bool:
        self.looked_up.append((account, name))
        return (account, name) in self.values

    async def value(self, account: str, name: str) -> SecretStr | None:
        if self.unreadable:
            raise SecretUnreadable(f"secret {name} of account {account}: is encrypted with the key k")
        value = self.values.get((account, name))
        return None if value is None else SecretStr(value)


def edge_harness(claim: Claim = CLAIM, values: Values | None = None, **more: Any) -> EdgeHarness:
    return EdgeHarness(claim, secrets=values or Values(), **more)


def namespace_of(account: str) -> dict[str, Any]:
    (_, namespace), *_ = namespace_objects(account, OrchestratorSettings())
    return namespace


def secrets(harness: EdgeHarness | PlatformHarness) -> list[dict[str, Any]]:
    return harness.cluster.store.objects(SECRETS)


def value_of(secret: dict[str, Any]) -> str:
    (value,) = secret["data"].values()
    return base64.b64decode(value).decode()


@pytest.mark.parametrize(
    ("entity", "named"),
    [
        (MODEL, {"source": "model-m1-source"}),
        (make_model(), None),
        (
            make_session(annotations=PULLING),
            {"imagePull": "inferencesession-i1-image-pull", "provider": "inferencesession-i1-provider"},
        ),
        (
            make_evaluation(annotations=PULLING),
            {"imagePull": "evaluation-e1-image-pull", "provider": "evaluation-e1-provider"},
        ),
        (make_evaluation(annotations=PULLING, inferenceSessionReference="i1"), None),
        (make_safety_case(annotations=PULLING[:1]), {"imagePull": "safetycase-f1-image-pull"}),
        (make_measurement(annotations=PULLING[:1]), {"imagePull": "measurement-n1-image-pull"}),
        (make_service(annotations=PULLING), None),
        (make_report(annotations=PULLING), None),
    ],
)
def test_a_resource_names_the_secrets_that_its_own_workflow_needs(
    entity: DyffEntity, named: dict[str, str] | None
) -> None:
    made = manifest(entity)
    assert made["spec"].get("secrets") == named
    assert "hub-token" not in json.dumps(made)


async def test_the_secret_is_made_with_the_resource_which_owns_it() -> None:
    harness = edge_harness()
    await harness.reconcile()
    (model,), (secret,) = harness.models(), secrets(harness)
    assert harness.reports == [Status("Admitted")]
    assert secret["metadata"]["namespace"] == account_namespace(ACCOUNT)
    assert secret["metadata"]["name"] == model["spec"]["secrets"]["source"]
    assert (secret["type"], secret["data"].keys(), value_of(secret)) == ("Opaque", {"value"}, VALUE)
    (owner,) = secret["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("Model", model["metadata"]["uid"])
    assert VALUE not in json.dumps(model)


async def test_an_images_secret_has_the_type_and_the_key_that_kubernetes_wants() -> None:
    session = make_session("m1", annotations=PULLING)
    values = Values({(ACCOUNT, "registry"): DOCKER, (ACCOUNT, "key"): VALUE})
    harness = edge_harness(replace(claim_of(session), admitted_at=START, status="Admitted"), values)
    await harness.reconcile()
    by_type = {secret["type"]: secret for secret in secrets(harness)}
    assert by_type.keys() == {"Opaque", "kubernetes.io/dockerconfigjson"}
    pull = by_type["kubernetes.io/dockerconfigjson"]
    assert (pull["data"].keys(), value_of(pull)) == ({".dockerconfigjson"}, DOCKER)


@pytest.mark.parametrize("text", ["user:password", "{}", '{"auths": []}', "[]", "[" * 100_000])
async def test_what_is_no_docker_configuration_is_waited_for_and_not_repeated(text: str) -> None:
    session = make_session("m1", annotations=PULLING[:1])
    harness = edge_harness(
        replace(claim_of(session), admitted_at=START), Values({(ACCOUNT, "registry"): text})
    )
    with pytest.raises(NotYet, match="not a Docker configuration") as error:
        await harness.reconcile()
    assert "user:password" not in str(error.value)
    (report,) = harness.reports
    assert (report.status, report.reason) == ("Created", WAITING)
    assert "secrets.imagePull: secret registry" in (report.message or "")
    assert secrets(harness) == []


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (Values({}), f"secrets.source: account {ACCOUNT} has no secret hub-token; it is waited for"),
        (Values(unreadable=True), "is encrypted with the key k"),
    ],
)
async def test_one_that_is_gone_when_the_resource_is_made_is_waited_for(values: Values, message: str) -> None:
    harness = edge_harness(values=values)
    with pytest.raises(NotYet):
        await harness.reconcile()
    assert harness.models() == []
    (report,) = harness.reports
    assert (report.status, report.reason) == ("Created", WAITING)
    assert message in (report.message or "")
    # Said once: the next attempts find the words in the claim.
    harness.newest_claim = replace(CLAIM, reason=report.reason, message=report.message)
    with pytest.raises(NotYet):
        await harness.reconcile()
    assert len(harness.reports) == 1


async def test_a_secret_of_the_name_with_another_owner_is_left_alone() -> None:
    harness = edge_harness()
    metadata = {"name": "model-m1-source", "namespace": account_namespace(ACCOUNT)}
    harness.cluster.store.put(
        {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"a": "Yg=="}}
    )
    await harness.reconcile()
    (report,) = harness.reports
    assert (report.status, report.reason) == ("Error", "NameConflict")
    assert [secret["data"] for secret in secrets(harness)] == [{"a": "Yg=="}]


async def test_a_resource_that_is_made_again_has_a_secret_with_the_newest_value() -> None:
    values = Values()
    harness = edge_harness(replace(CLAIM, status="Admitted"), values)
    await harness.reconcile()
    (first,) = secrets(harness)
    harness.cluster.store.remove(MODELS, "model-m1", account_namespace(ACCOUNT))
    values.values[ACCOUNT, "hub-token"] = "rotated"
    await harness.reconcile()
    (second,), (model,) = secrets(harness), harness.models()
    assert value_of(second) == "rotated"
    # Another object: the garbage collection may be about to delete that of the earlier resource.
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    assert second["metadata"]["ownerReferences"][0]["uid"] == model["metadata"]["uid"]


async def test_a_workflow_that_has_stopped_leaves_no_secret_though_its_resource_stays() -> None:
    harness = edge_harness()
    await harness.reconcile()
    finished = {"type": "Finished", "status": "True"}
    status = {"conditions": [finished]}
    harness.cluster.store.set_status(MODELS, "model-m1", account_namespace(ACCOUNT), status)
    harness.newest_claim = replace(CLAIM, status="Ready", terminal_at=START)
    await harness.reconcile()
    assert harness.released == ["m1"]
    assert len(harness.models()) == 1
    assert secrets(harness) == []


async def test_secrets_stay_where_a_pod_still_runs() -> None:
    harness = edge_harness()
    await harness.reconcile()
    harness.newest_claim = replace(CLAIM, status="Ready", terminal_at=START)
    await harness.reconcile()
    assert harness.released == []
    assert len(secrets(harness)) == 1


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_whenever_it_dies_the_next_one_ends_with_one_secret_and_its_owner(moment: str) -> None:
    call = 0
    while True:
        call += 1
        harness = edge_harness()
        dying = CrashAt(call)
        setattr(harness.cluster, f"{moment}_call", dying)
        try:
            await harness.reconcile()
        except Crash:
            setattr(harness.cluster, f"{moment}_call", None)
            await harness.reconcile()
            (secret,), (model,) = secrets(harness), harness.models()
            assert [owner["uid"] for owner in secret["metadata"].get("ownerReferences", [])] == [
                model["metadata"]["uid"]
            ], f"after a death at call {call}"
        else:
            break
    assert call > 5


# ---- two orchestrators, of which one was suspended and goes on


def suspend(harness: EdgeHarness, verb: str, kind: str, meanwhile: Callable[[], None]) -> None:
    """Do what another orchestrator does right before the next call of this kind."""

    def before(called: str, resource: Resource, name: str) -> None:
        if (called, resource.kind) == (verb, kind):
            harness.cluster.before_call = None
            meanwhile()

    harness.cluster.before_call = before


def crash() -> None:
    raise Crash


def secret_of_another(harness: EdgeHarness, *owners: str, value: str = "newer") -> dict[str, Any]:
    """Put a Secret there as another orchestrator makes it, with these owners' uids."""
    namespace, name = account_namespace(ACCOUNT), "model-m1-source"
    labels = {"app.kubernetes.io/managed-by": "steelyard-orchestrator", "steelyard/entity": "m1"}
    references = [
        {"apiVersion": "dyff.io/v1alpha1", "kind": "Model", "name": "model-m1", "uid": uid} for uid in owners
    ]
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata | ({"ownerReferences": references} if references else {}),
        "type": "Opaque",
        "data": {"value": base64.b64encode(value.encode()).decode()},
    }
    return harness.cluster.store.put(secret)


async def reconcile_to_the_end(harness: EdgeHarness) -> None:
    """Reconcile as a worker does: again after a conflict."""
    with suppress(Conflict):
        await harness.reconcile()
        return
    await harness.reconcile()


@pytest.mark.parametrize("verb", ["create", "patch"])
async def test_an_orchestrator_that_was_suspended_writes_no_older_value_over_a_newer_one(verb: str) -> None:
    """The value was set again after it was read, and another orchestrator has made the Secret with it."""
    values = Values()
    harness = edge_harness(values=values)
    if verb == "patch":
        secret_of_another(harness, value=VALUE)

    def make() -> None:
        values.values[ACCOUNT, "hub-token"] = "newer"
        secret_of_another(harness, value="newer")

    suspend(harness, verb, "Secret", make)
    with pytest.raises(Conflict):
        await harness.reconcile()
    assert [value_of(secret) for secret in secrets(harness)] == ["newer"]
    await harness.reconcile()
    assert [value_of(secret) for secret in secrets(harness)] == ["newer"]
    assert harness.reports == [Status("Admitted")]


async def test_an_orchestrator_that_was_suspended_takes_no_secret_from_a_workflow_that_runs() -> None:
    """Another one has made the resource, and the Secret that belongs to it."""
    harness = edge_harness()
    made: list[dict[str, Any]] = []

    def make() -> None:
        model = harness.cluster.store.put(manifest(MODEL))
        made.append(secret_of_another(harness, model["metadata"]["uid"]))

    suspend(harness, "get", "Secret", make)
    await harness.reconcile()
    assert [secret["metadata"]["uid"] for secret in secrets(harness)] == [made[0]["metadata"]["uid"]]
    assert harness.reports == [Status("Admitted")]


async def test_an_orchestrator_that_was_suspended_gives_no_secret_to_a_resource_that_has_gone() -> None:
    """The resource was deleted by hand after it was read, and another one has made it again with its Secret."""
    harness = edge_harness()

    def make_again() -> None:
        harness.cluster.store.remove(MODELS, "model-m1", account_namespace(ACCOUNT))
        harness.cluster.store.remove(SECRETS, "model-m1-source", account_namespace(ACCOUNT))
        model = harness.cluster.store.put(manifest(MODEL))
        secret_of_another(harness, model["metadata"]["uid"])

    suspend(harness, "patch", "Secret", make_again)
    await reconcile_to_the_end(harness)
    (secret,), (model,) = secrets(harness), harness.models()
    assert [owner["uid"] for owner in secret["metadata"]["ownerReferences"]] == [model["metadata"]["uid"]]


async def test_an_orchestrator_that_was_suspended_deletes_no_secret_of_an_entity_that_runs_again() -> None:
    """The entity had ended, was restored, and another orchestrator has made its resource and its Secret again."""
    harness = edge_harness(replace(CLAIM, status="Deleted", terminal_at=START))
    secret_of_another(harness, "an-earlier-uid")

    def restore() -> None:
        harness.newest_claim = replace(CLAIM, status="Admitted")
        harness.cluster.store.remove(SECRETS, "model-m1-source", account_namespace(ACCOUNT))
        secret_of_another(harness, "a-later-uid")

    suspend(harness, "get", "Secret", restore)
    await harness.reconcile()
    assert len(secrets(harness)) == 1
    assert harness.released == []


class SuspendingCluster(MemoryCluster):
    """A cluster whose client is suspended right before it deletes a Secret, while others do something."""

    meanwhile: Callable[[], Awaitable[None]] | None = None

    async def delete(
        self, resource: Resource, name: str, namespace: str | None = None, **options: Any
    ) -> None:
        if resource == SECRETS and (meanwhile := self.meanwhile):
            self.meanwhile = None
            await meanwhile()
        await super().delete(resource, name, namespace, **options)


DELETED = replace(CLAIM, status="Deleted", terminal_at=START)


@pytest.mark.parametrize("has_made", ["its Secret", "its Secret and its resource"])
@pytest.mark.parametrize("claim", [DELETED, replace(DELETED, released_at=START)], ids=["held", "released"])
async def test_an_orchestrator_that_goes_on_at_a_deletion_leaves_the_secret_of_an_entity_that_was_restored(
    claim: Claim, has_made: str
) -> None:
    """The Secret was made after the workflow had stopped, and another orchestrator uses it for the restored entity."""
    cluster = SuspendingCluster()
    harness = edge_harness(claim, cluster=cluster)
    cluster.store.put(namespace_of(ACCOUNT))
    secret_of_another(harness, value=VALUE)
    edge = Edge(
        cluster, ResourceCache(cluster, lambda id, resource, gone: None), harness, harness.settings, Values()
    )
    await edge.note_secrets()

    async def restore() -> None:
        harness.newest_claim = replace(CLAIM, status="Admitted")
        if has_made == "its Secret":
            suspend(harness, "create", "Model", crash)
        with suppress(Crash):
            await harness.reconcile()

    cluster.meanwhile = restore
    with pytest.raises(Conflict):
        await edge.reconcile("m1", START)
    assert len(secrets(harness)) == 1
    assert harness.released == []
    await edge.reconcile("m1", START)
    assert len(secrets(harness)) == len(harness.models()) == 1


class CacheThatSeesAll:
    """A cache that shows what the cluster has at this moment."""

    def __init__(self, harness: EdgeHarness) -> None:
        self._harness = harness

    def find_resources(self, id: str) -> list[dict[str, Any]]:
        return [slim(model) for model in self._harness.models()]


async def test_a_resource_that_the_cache_shows_already_gets_its_secret_whichever_process_died_before() -> (
    None
):
    harness = edge_harness()

    def die(verb: str, resource: Resource, name: str) -> None:
        if (verb, resource.kind) == ("create", "Model"):
            raise Crash

    harness.cluster.after_call = die
    with pytest.raises(Crash):
        await harness.reconcile()
    harness.cluster.after_call = None
    assert "ownerReferences" not in secrets(harness)[0]["metadata"]
    cache = cast("ResourceCache", CacheThatSeesAll(harness))
    await Edge(harness.cluster, cache, harness, harness.settings, harness.secrets).reconcile("m1", START)
    assert (
        secrets(harness)[0]["metadata"]["ownerReferences"][0]["uid"] == harness.models()[0]["metadata"]["uid"]
    )
    assert harness.reports == [Status("Admitted")]


async def test_an_api_that_is_away_fails_nothing() -> None:
    harness = edge_harness()

    def away(verb: str, resource: Resource, name: str) -> None:
        if resource.kind == "Secret":
            raise Unreachable("no answer")

    harness.cluster.before_call = away
    with pytest.raises(Unreachable):
        await harness.reconcile()
    assert harness.reports == []


async def test_many_entities_with_one_secret_ask_for_it_once() -> None:
    values, note = Values({}), {"key": "steelyard/secret-source", "value": "hub-token"}
    claims = [claim_of(make_model(f"m{number}", annotations=[note])) for number in range(20)]
    waits = await lacking_secrets(claims, values)
    message = f"secrets.source: account {ACCOUNT} has no secret hub-token; it is waited for"
    assert waits == {claim.id: Wait(WAITING, message) for claim in claims}
    assert values.looked_up == [(ACCOUNT, "hub-token")]


# ---- the whole orchestrator


@pytest.fixture
async def harness() -> AsyncIterator[PlatformHarness]:
    async with open_harness(Quotas(QuotaSettings()), secrets=Values({})) as harness:
        yield harness


def values_of(harness: PlatformHarness) -> Values:
    assert isinstance(harness.secrets, Values)
    return harness.secrets


async def status(harness: PlatformHarness, id: str) -> tuple[str, str | None, str | None]:
    claim = await harness.claim(id)
    return (claim.status, claim.reason, claim.message) if claim else ("", None, None)


async def test_an_entity_waits_for_its_secret_and_goes_on_when_it_is_set(harness: PlatformHarness) -> None:
    harness.start()
    await harness.create(MODEL)

    async def waits() -> bool:
        message = f"secrets.source: account {ACCOUNT} has no secret hub-token; it is waited for"
        return await status(harness, "m1") == ("Created", WAITING, message)

    await until(waits)
    assert harness.cluster.store.objects(MODELS) == []
    # A waiting entity takes no capacity, and stops no other.
    other = make_model("m2")
    await harness.create(other)
    await until(lambda: harness.resource(other) is not None)
    values_of(harness).values[ACCOUNT, "hub-token"] = VALUE
    await until(lambda: harness.resource(MODEL) is not None)

    async def admitted() -> bool:
        return (await status(harness, "m1"))[0] == "Admitted"

    await until(admitted)
    assert [value_of(secret) for secret in secrets(harness)] == [VALUE]


@pytest.mark.parametrize("id", ["m1", "forgotten"])
async def test_a_secret_that_was_made_after_its_workflow_had_stopped_is_found_and_deleted(
    harness: PlatformHarness, id: str
) -> None:
    """An orchestrator that was suspended before it made the Secret goes on, and is killed before it looks again."""
    values_of(harness).values[ACCOUNT, "hub-token"] = VALUE
    harness.start()
    running = make_model("m2", annotations=MODEL.dump()["annotations"])
    await wait_for_admission(harness, running, MODEL)
    await has_status(harness, MODEL.id, "Admitted")
    harness.finish(MODEL)
    await harness.update_status(MODEL, "Ready", source="informer")
    await wait_for_release(harness, MODEL.id)
    late = copy.deepcopy(secrets(harness)[0])
    late["metadata"] = {
        "name": f"model-{id}-source",
        "namespace": account_namespace(ACCOUNT),
        "labels": late["metadata"]["labels"] | {"steelyard/entity": id},
    }
    harness.cluster.store.put(late)
    await until(lambda: [secret["metadata"]["name"] for secret in secrets(harness)] == ["model-m2-source"])


async def test_where_secrets_may_not_be_listed_the_comparison_goes_on(
    harness: PlatformHarness, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(verb: str, resource: Resource, name: str) -> None:
        if (verb, resource.kind) == ("list", "Secret"):
            raise Forbidden("secrets is forbidden")

    harness.cluster.before_call = refuse
    values_of(harness).values[ACCOUNT, "hub-token"] = VALUE
    harness.start()
    await wait_for_admission(harness, MODEL)
    harness.remove(MODEL)
    await until(lambda: harness.creations(MODEL) == 2)
    words = "Secrets that are left over are not searched for: Forbidden (403): secrets is forbidden"
    await until(lambda: words in caplog.text)


class ListingCluster(MemoryCluster):
    """A cluster that keeps where Secrets were listed."""

    listed: list[str | None]

    async def list(self, resource: Resource, namespace: str | None = None, **selectors: str) -> ObjectList:
        if resource == SECRETS:
            self.listed.append(namespace)
        return await super().list(resource, namespace, **selectors)


async def test_secrets_are_listed_in_the_namespaces_of_accounts_alone_some_at_a_time() -> None:
    cluster = ListingCluster()
    cluster.listed = []
    harness = edge_harness(cluster=cluster)
    accounts = [f"a{number:02}" for number in range(PER_ROUND + 3)]
    for account in accounts:
        cluster.store.put(namespace_of(account))
    cluster.store.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}})
    edge = Edge(
        cluster, ResourceCache(cluster, lambda id, resource, gone: None), harness, harness.settings, Values()
    )
    await edge.note_secrets()
    assert len(cluster.listed) == PER_ROUND
    await edge.note_secrets()
    assert set(cluster.listed) == {account_namespace(account) for account in accounts}
    assert len(cluster.listed) == 2 * PER_ROUND, "the second round begins again at its end"


async def test_a_namespace_deleted_by_hand_is_made_again_before_a_secret(harness: PlatformHarness) -> None:
    """The double knows no namespaces: what the API would say of a missing one is said here."""
    there, namespace = set[str](), account_namespace(ACCOUNT)

    def check(verb: str, resource: Resource, name: str) -> None:
        if verb == "create" and resource.kind in {"Model", "Secret"} and namespace not in there:
            raise NotFound("namespaces not found")

    def note(verb: str, resource: Resource, name: str) -> None:
        if (verb, resource) == ("create", NAMESPACES):
            there.add(name)

    harness.cluster.before_call, harness.cluster.after_call = check, note
    values_of(harness).values[ACCOUNT, "hub-token"] = VALUE
    harness.start()
    other = make_model("m2")
    await harness.create(other)
    await until(lambda: harness.resource(other) is not None)
    harness.cluster.store.remove(NAMESPACES, namespace)
    there.clear()
    await harness.create(MODEL)
    await until(lambda: harness.resource(MODEL) is not None)
    assert [value_of(secret) for secret in secrets(harness)] == [VALUE]
