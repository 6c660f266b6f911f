"""Every route that takes a body, with requests beyond all bounds: no service stops, and acknowledged entities are
there.

Of the accepted ones, every custom resource and every object of a session is then offered to the embedded API server:
the rules of Kubernetes are those of the POST.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

import orjson
import pytest
from pydantic import BaseModel

from steelyard.accounts.open import open_accounts_database
from steelyard.accounts.quotas import QuotaSettings
from steelyard.accounts.secrets import Secrets
from steelyard.api.kinds import KINDS
from steelyard.broker.log import DEAD, QUARANTINE, WAITING
from steelyard.broker.open import open_log
from steelyard.operator.session_objects import session_objects
from steelyard.operator.settings import OperatorSettings
from steelyard.services.orchestrator.manifest import KUBE, manifest
from steelyard.services.orchestrator.orchestrator import run_orchestrator
from steelyard.services.orchestrator.rules import make_rules
from steelyard.services.orchestrator.settings import OrchestratorSettings
from steelyard.views.open import open_view
from steelyard_common.types import Json
from steelyard_evaluation.storage.store import open_store
from steelyard_kube.leader import Candidate, SystemClock
from steelyard_kube.memory import MemoryCluster
from steelyard_local_kubernetes.apiserver.access.users import administrator
from steelyard_local_kubernetes.apiserver.clock import Clock
from steelyard_local_kubernetes.apiserver.messages import Request
from steelyard_local_kubernetes.apiserver.server import ApiServerConfig, Parts, make_parts
from steelyard_schema.crd import custom_resource_definitions
from steelyard_schema.dependencies import has_workflow
from steelyard_schema.entities import PLURALS, parse_entity
from steelyard_schema.ids import random_id
from steelyard_schema.requests import (
    CREATE_REQUESTS,
    AccountCreateRequest,
    AccountPermissionsSetRequest,
    AccountTokenCreateRequest,
    DocumentationEditRequest,
    LabelsEditRequest,
    SecretSetRequest,
    WebhookCreateRequest,
)
from tests.platform_api.fuzzing import FIT, Fuzz
from tests.platform_api.memory_platform import Engines, MemoryPlatform, dataset, make_platform
from tests.platform_api.test_collection import an_audit, an_evaluation

CREATED = [kind.name for kind in KINDS if not kind.own_creation or kind.name == "InferenceSession"]
"""Kinds with a creation of the common form: runs of pipelines have another path."""
SELDOM = {"Method", "Measurement", "SafetyCase", "Pipeline"}
"""Kinds whose parts have to fit each other: random requests hardly ever do, and only their refusals are tried."""
HEADERS = {"Content-Type": "application/json"}
PATHS = {"Deployment": "/apis/apps/v1/namespaces/default/deployments"}
PATHS |= {kind: f"/api/v1/namespaces/default/{kind.lower()}s" for kind in ("Service", "ConfigMap")}
FILTERS = ("query", "labels", "orderBy", "order", "limit", "after", "id", "name", "status")


async def test_nothing_that_the_types_allow_stops_the_platform(tmp_path: Path) -> None:
    async with fuzzed_platform(tmp_path) as platform:
        accepted = await fuzzed(platform, Random(1), 250)
        assert set(accepted.values()) >= set(CREATED) - SELDOM, "so few say nothing"
        await offered_to_kubernetes(platform, accepted, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 42))
async def test_nothing_that_the_types_allow_stops_the_platform_for_long(seed: int, tmp_path: Path) -> None:
    async with fuzzed_platform(tmp_path) as platform:
        accepted = await fuzzed(platform, Random(seed), 2000)
        await offered_to_kubernetes(platform, accepted, tmp_path)


@asynccontextmanager
async def fuzzed_platform(folder: Path) -> AsyncIterator[MemoryPlatform]:
    """API, aggregator, view and orchestrator on databases, with Kubernetes in memory; none of them may end."""
    log, view = await open_log(f"sqlite:{folder / 'log.db'}"), await open_view(f"sqlite:{folder / 'view.db'}")
    accounts_database = await open_accounts_database(f"sqlite:{folder / 'accounts.db'}")
    stop = asyncio.Event()
    async with AsyncExitStack() as stack:
        for engine in (log, view, accounts_database):
            stack.push_async_callback(engine.close)
        engines = Engines(log, view, accounts_database, open_store("memory://fuzz"))
        platform = await stack.enter_async_context(make_platform(engines))
        orchestrator = asyncio.create_task(
            run_orchestrator(
                log,
                accounts_database.claims,
                MemoryCluster(),
                OrchestratorSettings(),
                make_rules(QuotaSettings()),
                candidate=Candidate("fuzz", SystemClock()),
                new_id=random_id,
                stop=stop,
                secrets=Secrets(accounts_database.secrets, engines.secret_keys),
            )
        )
        yield platform
        assert not orchestrator.done(), orchestrator
        stop.set()
        await orchestrator


async def fuzzed(platform: MemoryPlatform, random: Random, count: int) -> dict[str, str]:
    """Sends so many requests; the kinds of the entities that were acknowledged, by id."""
    evaluation, audit = await an_evaluation(platform), await an_audit(platform)
    module = await platform.created("modules", name="m", artifacts=dataset()["artifacts"])
    service = evaluation["inferenceSession"]["inferenceService"]
    ids = {
        "dataset": evaluation["dataset"],
        "inferenceService": service["id"],
        "model": service["model"]["id"],
        "evaluation": evaluation["id"],
        "auditProcedure": audit["auditProcedure"],
        "baseline": audit["id"],
        "modules": module["id"],
    }
    for account in FIT["account"]:
        for name in FIT["provider"]:
            await platform.admin.put(f"/accounts/{account}/secrets/{name}", json={"value": "hf_0123456789"})
    fuzz, accepted, answers = Fuzz(random, ids), dict[str, str](), Counter[int]()
    for number in range(count):
        kind = random.choice(CREATED)
        status = await _create(platform, fuzz, kind, accepted)
        answers[status] += 1
        if number % 4 == 0:
            answers[await _other(platform, fuzz, evaluation["id"], accepted)] += 1
    print(f"{dict(answers)}, {dict(Counter(accepted.values()))}")
    await _check_kept(platform, accepted)
    return accepted


async def _create(platform: MemoryPlatform, fuzz: Fuzz, kind: str, accepted: dict[str, str]) -> int:
    body = fuzz.request(CREATE_REQUESTS[kind])
    response = await platform.admin.post(f"/{PLURALS[kind]}", content=body, headers=HEADERS)
    _check_answer(response.status_code, response.content, body)
    if response.status_code == 200:
        made = response.json()
        accepted[(made.get("inferencesession") or made)["id"]] = kind
    return response.status_code


async def _other(platform: MemoryPlatform, fuzz: Fuzz, id: str, accepted: dict[str, str]) -> int:
    """One request of another route: an edit, a query, an account."""
    random = fuzz.random
    target, kind = random.choice([(id, "Evaluation"), *accepted.items()])
    path = f"/{PLURALS[kind]}/{target}"
    wild = {
        name: random.choice([fuzz.text(), json.dumps(fuzz.anything())])
        for name in random.sample(FILTERS, k=2)
    }
    query = {name: text.encode("utf-8", "replace").decode()[:2000] for name, text in wild.items()}
    routes: list[tuple[str, str, type[BaseModel] | None, Json]] = [
        ("PATCH", f"{path}/labels", LabelsEditRequest, {}),
        ("PATCH", f"{path}/documentation", DocumentationEditRequest, {}),
        ("GET", f"/{PLURALS[kind]}", None, query),
        ("GET", f"/{PLURALS[kind]}/{query.get('id', 'x')[:100]}", None, {}),
        ("POST", "/accounts", AccountCreateRequest, {}),
        ("PUT", f"/accounts/{'0' * 32}/permissions", AccountPermissionsSetRequest, {}),
        ("POST", f"/accounts/{'0' * 32}/tokens", AccountTokenCreateRequest, {}),
        ("POST", f"/accounts/{'0' * 32}/webhooks", WebhookCreateRequest, {}),
        ("PUT", f"/accounts/acme/secrets/{random.choice(FIT['provider'])}", SecretSetRequest, {}),
    ]
    method, url, model, parameters = random.choice(routes)
    body = fuzz.request(model) if model else b""
    response = await platform.admin.request(
        method, quote(url), params=parameters, content=body, headers=HEADERS
    )
    _check_answer(response.status_code, response.content, body)
    return response.status_code


def _check_answer(status: int, content: bytes, body: bytes) -> None:
    assert status == 200 or 400 <= status < 500, (status, content[:500], body[:2000])
    answer = orjson.loads(content)
    assert status == 200 or {"detail", "reason"} <= answer.keys()


async def _check_kept(platform: MemoryPlatform, accepted: dict[str, str]) -> None:
    """Every service is alive, every entity is readable, and nothing waits."""
    for id, kind in accepted.items():
        kept = await platform.settled(kind, id)
        assert parse_entity(kept).id == id
        assert (await platform.admin.get(f"/{PLURALS[kind]}/{id}")).json()["id"] == id
    for kind in CREATED:
        listed = (await platform.admin.get(f"/{PLURALS[kind]}")).json()
        assert {entity["id"] for entity in listed} >= {id for id, its in accepted.items() if its == kind}
    log, outbox = platform.engines.log, platform.engines.accounts_database.outbox
    for topic in (DEAD, QUARANTINE, WAITING):
        for partition in range(log.partitions):
            assert not await log.read(topic, partition, 0), topic
    async with asyncio.timeout(60):
        while await outbox.pending():
            await platform.engines.view.wait_for_change(platform.engines.view.version(), 0.05)
    made = await platform.created("datasets", **dataset())
    assert (await platform.settled("Dataset", made["id"]))["id"] == made["id"]


async def offered_to_kubernetes(platform: MemoryPlatform, accepted: dict[str, str], folder: Path) -> None:
    parts = await make_parts(ApiServerConfig(folder / "db", folder / "pki", {}), Clock())
    try:
        crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        for definition in custom_resource_definitions():
            await _taken(parts, crds, definition)
        for id, kind in accepted.items():
            entity = parse_entity(await platform.settled(kind, id))
            if kind in KUBE and has_workflow(entity):
                resource = manifest(entity)
                resource["metadata"]["namespace"] = "default"
                path = f"/apis/{resource['apiVersion']}/namespaces/default/{PLURALS[kind]}"
                made = await _taken(parts, path, resource)
                for child in session_objects(made, OperatorSettings()) if _served(made) else ():
                    await _taken(parts, PATHS[child["kind"]], child)
    finally:
        parts.store.close()


def _served(resource: Json) -> bool:
    return bool(resource["kind"] == "InferenceSession" and resource["spec"]["inferenceService"].get("runner"))


async def _taken(parts: Parts, path: str, body: Json) -> Json:
    headers = {"content-type": "application/json"}
    request = Request("POST", path, {}, headers, orjson.dumps(body), administrator("tester"))
    response = await parts.core.handle(request)
    assert isinstance(response.body, bytes)
    answer: dict[str, Any] = orjson.loads(response.body)
    assert response.status == 201, (answer.get("message"), body)
    return answer
