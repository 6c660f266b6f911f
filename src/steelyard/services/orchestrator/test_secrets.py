"""Workflows get their secrets as Kubernetes Secrets of their own, or wait and say which one is missing."""

import base64
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest
from pydantic import SecretStr

from steelyard.accounts.database import Claim
from steelyard.accounts.open import open_accounts_database
from steelyard.accounts.quotas import Quotas, QuotaSettings
from steelyard.accounts.secrets import SecretUnreadable
from steelyard.kube.errors import NotFound, Unreachable
from steelyard.kube.memory import Crash, CrashAt
from steelyard.kube.resource import MODELS, NAMESPACES, SECRETS, Resource
from steelyard.schema.base import DyffEntity
from steelyard.schema.names import namespace_of
from steelyard.services.orchestrator.cache import ResourceCache, slim
from steelyard.services.orchestrator.edge import Edge, NotYet
from steelyard.services.orchestrator.manifest import manifest
from steelyard.services.orchestrator.secrets import WAITING, lacking_secrets
from steelyard.services.orchestrator.test_edge import Bench as EdgeBench
from steelyard.services.orchestrator.test_waiting import claim_of
from steelyard.services.orchestrator.waiting import Wait
from steelyard.services.simulation.entities import (
    ACCOUNT,
    START,
    make_evaluation,
    make_model,
    make_report,
    make_service,
    make_session,
)
from steelyard.services.simulation.platform import Bench, until
from steelyard.services.status_commands import Status

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


def edge_bench(claim: Claim = CLAIM, values: Values | None = None, **more: Any) -> EdgeBench:
    return EdgeBench(claim, secrets=values or Values(), **more)


def secrets(bench: EdgeBench | Bench) -> list[dict[str, Any]]:
    return bench.cluster.store.objects(SECRETS)


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


async def test_the_secret_is_made_beside_the_resource_which_owns_it() -> None:
    bench = edge_bench()
    await bench.reconcile()
    (model,), (secret,) = bench.models(), secrets(bench)
    assert bench.reports == [Status("Admitted")]
    assert secret["metadata"]["namespace"] == namespace_of(ACCOUNT)
    assert secret["metadata"]["name"] == model["spec"]["secrets"]["source"]
    assert (secret["type"], secret["data"].keys(), value_of(secret)) == ("Opaque", {"value"}, VALUE)
    (owner,) = secret["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("Model", model["metadata"]["uid"])
    assert VALUE not in json.dumps(model)


async def test_an_images_secret_has_the_type_and_the_key_that_kubernetes_wants() -> None:
    session = make_session("m1", annotations=PULLING)
    values = Values({(ACCOUNT, "registry"): DOCKER, (ACCOUNT, "key"): VALUE})
    bench = edge_bench(replace(claim_of(session), admitted_at=START, status="Admitted"), values)
    await bench.reconcile()
    by_type = {secret["type"]: secret for secret in secrets(bench)}
    assert by_type.keys() == {"Opaque", "kubernetes.io/dockerconfigjson"}
    pull = by_type["kubernetes.io/dockerconfigjson"]
    assert (pull["data"].keys(), value_of(pull)) == ({".dockerconfigjson"}, DOCKER)


@pytest.mark.parametrize("text", ["user:password", "{}", '{"auths": []}', "[]", "[" * 100_000])
async def test_what_is_no_docker_configuration_is_waited_for_and_not_repeated(text: str) -> None:
    session = make_session("m1", annotations=PULLING[:1])
    bench = edge_bench(replace(claim_of(session), admitted_at=START), Values({(ACCOUNT, "registry"): text}))
    with pytest.raises(NotYet, match="no Docker configuration") as error:
        await bench.reconcile()
    assert "user:password" not in str(error.value)
    (report,) = bench.reports
    assert (report.status, report.reason) == ("Created", WAITING)
    assert "secrets.imagePull: secret registry" in (report.message or "")
    assert secrets(bench) == []


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (Values({}), f"secrets.source: account {ACCOUNT} has no secret hub-token; it is waited for"),
        (Values(unreadable=True), "is encrypted with the key k"),
    ],
)
async def test_one_that_is_gone_when_the_resource_is_made_is_waited_for(values: Values, message: str) -> None:
    bench = edge_bench(values=values)
    with pytest.raises(NotYet):
        await bench.reconcile()
    assert bench.models() == []
    (report,) = bench.reports
    assert (report.status, report.reason) == ("Created", WAITING)
    assert message in (report.message or "")
    # Said once: the next attempts find the words in the claim.
    bench.newest_claim = replace(CLAIM, reason=report.reason, message=report.message)
    with pytest.raises(NotYet):
        await bench.reconcile()
    assert len(bench.reports) == 1


async def test_somebody_elses_secret_of_the_name_is_left_alone() -> None:
    bench = edge_bench()
    metadata = {"name": "model-m1-source", "namespace": namespace_of(ACCOUNT)}
    bench.cluster.store.put(
        {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"a": "Yg=="}}
    )
    await bench.reconcile()
    (report,) = bench.reports
    assert (report.status, report.reason) == ("Error", "NameConflict")
    assert [secret["data"] for secret in secrets(bench)] == [{"a": "Yg=="}]


async def test_a_resource_that_is_made_again_has_a_secret_with_the_newest_value() -> None:
    values = Values()
    bench = edge_bench(replace(CLAIM, status="Admitted"), values)
    await bench.reconcile()
    (first,) = secrets(bench)
    bench.cluster.store.remove(MODELS, "model-m1", namespace_of(ACCOUNT))
    values.values[ACCOUNT, "hub-token"] = "rotated"
    await bench.reconcile()
    (second,), (model,) = secrets(bench), bench.models()
    assert value_of(second) == "rotated"
    # Another object: the garbage collection may be about to delete that of the earlier resource.
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    assert second["metadata"]["ownerReferences"][0]["uid"] == model["metadata"]["uid"]


async def test_a_workflow_that_has_stopped_leaves_no_secret_though_its_resource_stays() -> None:
    bench = edge_bench()
    await bench.reconcile()
    finished = {"type": "Finished", "status": "True"}
    status = {"conditions": [finished]}
    bench.cluster.store.set_status(MODELS, "model-m1", namespace_of(ACCOUNT), status)
    bench.newest_claim = replace(CLAIM, status="Ready", terminal_at=START)
    await bench.reconcile()
    assert bench.released == ["m1"]
    assert len(bench.models()) == 1
    assert secrets(bench) == []


async def test_secrets_stay_where_a_pod_still_runs() -> None:
    bench = edge_bench()
    await bench.reconcile()
    bench.newest_claim = replace(CLAIM, status="Ready", terminal_at=START)
    await bench.reconcile()
    assert bench.released == []
    assert len(secrets(bench)) == 1


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_whenever_it_dies_the_next_one_ends_with_one_secret_and_its_owner(moment: str) -> None:
    call = 0
    while True:
        call += 1
        bench = edge_bench()
        dying = CrashAt(call)
        setattr(bench.cluster, f"{moment}_call", dying)
        try:
            await bench.reconcile()
        except Crash:
            setattr(bench.cluster, f"{moment}_call", None)
            await bench.reconcile()
            (secret,), (model,) = secrets(bench), bench.models()
            assert [owner["uid"] for owner in secret["metadata"].get("ownerReferences", [])] == [
                model["metadata"]["uid"]
            ], f"after a death at call {call}"
        else:
            break
    assert call > 5


class CacheThatSeesAll:
    """A cache that shows what the cluster has at this moment."""

    def __init__(self, bench: EdgeBench) -> None:
        self._bench = bench

    def resources_of(self, id: str) -> list[dict[str, Any]]:
        return [slim(model) for model in self._bench.models()]


async def test_a_resource_that_the_cache_shows_already_gets_its_secret_whoever_died_before() -> None:
    bench = edge_bench()

    def die(verb: str, resource: Resource, name: str) -> None:
        if (verb, resource.kind) == ("create", "Model"):
            raise Crash

    bench.cluster.after_call = die
    with pytest.raises(Crash):
        await bench.reconcile()
    bench.cluster.after_call = None
    assert "ownerReferences" not in secrets(bench)[0]["metadata"]
    cache = cast("ResourceCache", CacheThatSeesAll(bench))
    await Edge(bench.cluster, cache, bench, bench.settings, bench.secrets).reconcile("m1", START)
    assert secrets(bench)[0]["metadata"]["ownerReferences"][0]["uid"] == bench.models()[0]["metadata"]["uid"]
    assert bench.reports == [Status("Admitted")]


async def test_an_api_that_is_away_fails_nothing() -> None:
    bench = edge_bench()

    def away(verb: str, resource: Resource, name: str) -> None:
        if resource.kind == "Secret":
            raise Unreachable("no answer")

    bench.cluster.before_call = away
    with pytest.raises(Unreachable):
        await bench.reconcile()
    assert bench.reports == []


async def test_many_entities_with_one_secret_ask_for_it_once() -> None:
    values, note = Values({}), {"key": "steelyard/secret-source", "value": "hub-token"}
    claims = [claim_of(make_model(f"m{number}", annotations=[note])) for number in range(20)]
    waits = await lacking_secrets(claims, values)
    message = f"secrets.source: account {ACCOUNT} has no secret hub-token; it is waited for"
    assert waits == {claim.id: Wait(WAITING, message) for claim in claims}
    assert values.looked_up == [(ACCOUNT, "hub-token")]


# ---- the whole orchestrator


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    opened = await open_accounts_database("memory:")
    made = Bench(opened.claims, Quotas(QuotaSettings()), secrets=Values({}))
    made.aggregate()
    yield made
    await made.close()
    await opened.close()


def values_of(bench: Bench) -> Values:
    assert isinstance(bench.secrets, Values)
    return bench.secrets


async def status(bench: Bench, id: str) -> tuple[str, str | None, str | None]:
    claim = await bench.claim(id)
    return (claim.status, claim.reason, claim.message) if claim else ("", None, None)


async def test_an_entity_waits_for_its_secret_and_goes_on_when_it_is_set(bench: Bench) -> None:
    bench.start()
    await bench.create(MODEL)

    async def waits() -> bool:
        message = f"secrets.source: account {ACCOUNT} has no secret hub-token; it is waited for"
        return await status(bench, "m1") == ("Created", WAITING, message)

    await until(waits)
    assert bench.cluster.store.objects(MODELS) == []
    # A waiting entity takes no capacity, and stops nobody.
    other = make_model("m2")
    await bench.create(other)
    await until(lambda: bench.resource(other) is not None)
    values_of(bench).values[ACCOUNT, "hub-token"] = VALUE
    await until(lambda: bench.resource(MODEL) is not None)

    async def admitted() -> bool:
        return (await status(bench, "m1"))[0] == "Admitted"

    await until(admitted)
    assert [value_of(secret) for secret in secrets(bench)] == [VALUE]


async def test_a_namespace_deleted_by_hand_is_made_again_before_a_secret(bench: Bench) -> None:
    """The double knows no namespaces: what the API would say of a missing one is said here."""
    there, namespace = set[str](), namespace_of(ACCOUNT)

    def check(verb: str, resource: Resource, name: str) -> None:
        if verb == "create" and resource.kind in {"Model", "Secret"} and namespace not in there:
            raise NotFound("namespaces not found")

    def note(verb: str, resource: Resource, name: str) -> None:
        if (verb, resource) == ("create", NAMESPACES):
            there.add(name)

    bench.cluster.before_call, bench.cluster.after_call = check, note
    values_of(bench).values[ACCOUNT, "hub-token"] = VALUE
    bench.start()
    other = make_model("m2")
    await bench.create(other)
    await until(lambda: bench.resource(other) is not None)
    bench.cluster.store.remove(NAMESPACES, namespace)
    there.clear()
    await bench.create(MODEL)
    await until(lambda: bench.resource(MODEL) is not None)
    assert [value_of(secret) for secret in secrets(bench)] == [VALUE]
