"""Quotas: the use of objects, the refusals, and that no two writes take the same rest."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.access.users import administrator
from steelyard_local_kubernetes.apiserver.admission.quota import BUCKET, QuotaExceeded, charge
from steelyard_local_kubernetes.apiserver.admission.usage import in_scope, usage, usage_buckets
from steelyard_local_kubernetes.apiserver.amounts import texts
from steelyard_local_kubernetes.apiserver.clock import Clock
from steelyard_local_kubernetes.apiserver.messages import Request
from steelyard_local_kubernetes.apiserver.server import ApiServerConfig, Parts, make_parts

TESTER = administrator("tester")
CORE = "/api/v1/namespaces/default"


def pod(name: str = "p", resources: Json | None = None, **spec: Any) -> Json:
    containers = [{"name": "main", "image": "x", "resources": resources or {}}]
    return {"metadata": {"name": name}, "spec": {"containers": containers, **spec}}


def quota(hard: Json, used: Json | None = None, **spec: Any) -> Json:
    metadata = {"name": "q", "namespace": "default", "uid": "q", "creationTimestamp": "2026-01-01T00:00:00Z"}
    obj = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard, **spec}}
    return obj | {"status": {"hard": hard, "used": used} if used is not None else {}}


RESOURCES: Json = {
    "requests": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "2"},
    "limits": {"cpu": "2", "nvidia.com/gpu": "2"},
}


def test_a_pod_uses_what_it_requests_until_it_ends() -> None:
    running = pod(resources=RESOURCES)
    assert texts(usage("pods", running)) == {
        "count/pods": "1",
        "pods": "1",
        "cpu": "1",
        "requests.cpu": "1",
        "limits.cpu": "2",
        "memory": "1Gi",
        "requests.memory": "1Gi",
        "requests.nvidia.com/gpu": "2",
    }
    assert texts(usage("pods", running | {"status": {"phase": "Failed"}})) == {"count/pods": "1"}


def test_services_and_claims_use_their_own_kinds_of_resources() -> None:
    service = {"spec": {"type": "LoadBalancer", "ports": [{"port": 1}, {"port": 2}]}}
    assert texts(usage("services", service)) == {
        "count/services": "1",
        "services": "1",
        "services.nodeports": "2",
        "services.loadbalancers": "1",
    }
    requests = {"requests": {"storage": "3Gi"}}
    claim = {"metadata": {}, "spec": {"storageClassName": "fast", "resources": requests}}
    assert texts(usage("persistentvolumeclaims", claim)) == {
        "count/persistentvolumeclaims": "1",
        "persistentvolumeclaims": "1",
        "fast.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
        "requests.storage": "3Gi",
        "fast.storageclass.storage.k8s.io/requests.storage": "3Gi",
    }
    assert texts(usage("configmaps", {})) == {"count/configmaps": "1", "configmaps": "1"}
    assert texts(usage("widgets.a.b", {})) == {"count/widgets.a.b": "1"}


def test_kinds_are_known_by_their_resources() -> None:
    names = ["cpu", "requests.storage", "secrets", "count/jobs.batch", "count/events"]
    assert usage_buckets(names) == {"pods", "persistentvolumeclaims", "secrets", "jobs.batch"}


@pytest.mark.parametrize(
    ("scopes", "made", "inside"),
    [
        (["Terminating"], pod(activeDeadlineSeconds=5), True),
        (["Terminating"], pod(), False),
        (["NotTerminating"], pod(), True),
        (["BestEffort", "NotTerminating"], pod() | {"status": {"qosClass": "BestEffort"}}, True),
        (["NotBestEffort"], pod() | {"status": {"qosClass": "BestEffort"}}, False),
        (["PriorityClass"], pod(priorityClassName="high"), True),
        (["PriorityClass"], pod(), False),
        (["CrossNamespacePodAffinity"], pod(), False),
    ],
)
def test_scopes_choose_pods(scopes: list[str], made: Json, inside: bool) -> None:
    assert in_scope(quota({}, scopes=scopes), "pods", made) is inside


@pytest.mark.parametrize(
    ("operator", "names", "inside"),
    [("In", ["high"], True), ("NotIn", ["high"], False), ("Exists", [], True), ("DoesNotExist", [], False)],
)
def test_selectors_of_scopes_choose_by_name(operator: str, names: list[str], inside: bool) -> None:
    expression = {"scopeName": "PriorityClass", "operator": operator, "values": names}
    chosen = quota({}, scopeSelector={"matchExpressions": [expression]})
    assert in_scope(chosen, "pods", pod(priorityClassName="high")) is inside


@pytest.mark.parametrize(
    ("hard", "used", "text"),
    [
        (
            {"pods": "2", "requests.cpu": "1500m"},
            {"pods": "1", "requests.cpu": "1"},
            "exceeded quota: q, requested: requests.cpu=1, used: requests.cpu=1, limited: requests.cpu=1500m",
        ),
        (
            {"limits.memory": "1Gi", "limits.cpu": "9"},
            {"limits.memory": "0", "limits.cpu": "0"},
            "failed quota: q: must specify limits.memory for: main",
        ),
        ({"pods": "2"}, {}, "status unknown for quota: q, resources: pods"),
    ],
)
def test_what_does_not_fit_is_refused_in_the_words_of_a_real_server(
    hard: Json, used: Json, text: str
) -> None:
    with pytest.raises(QuotaExceeded) as refused:
        charge(quota(hard, used), "pods", pod(resources=RESOURCES), None)
    assert str(refused.value) == text


def test_an_update_is_charged_with_what_it_uses_more() -> None:
    old = {"metadata": {}, "spec": {"type": "NodePort", "ports": [{"port": 1}]}}
    new = {"metadata": {}, "spec": {"type": "NodePort", "ports": [{"port": 1}, {"port": 2}]}}
    hard, used = {"services": "1", "services.nodeports": "2"}, {"services": "1", "services.nodeports": "1"}
    after = charge(quota(hard, used), "services", new, old)
    assert after is not None
    assert texts(after) == {"services": "1", "services.nodeports": "2"}
    assert charge(quota(hard, used), "services", old, new) is None


# ---- in a server


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[Parts]:
    made = await make_parts(ApiServerConfig(tmp_path / "db", tmp_path / "pki", {}), Clock())
    yield made
    made.store.close()


async def ask(
    parts: Parts, method: str, path: str, body: Json | None = None, **query: str
) -> tuple[int, Json]:
    data = orjson.dumps(body) if body is not None else b""
    request = Request(method, path, query, {"content-type": "application/json"}, data, TESTER)
    response = await parts.core.handle(request)
    assert isinstance(response.body, bytes)
    return response.status, orjson.loads(response.body)


def status_of(parts: Parts) -> Json:
    item = parts.store.get(BUCKET, ("default", "q"))
    assert item is not None
    status: Json = item.parse()["status"]
    return status


async def settled(parts: Parts) -> None:
    """The controller's own writes follow a commit with one of their own."""
    while parts.store.committed != parts.store.version:
        await parts.store.wait_durable()


async def test_creates_at_once_do_not_exceed_a_quota(parts: Parts) -> None:
    parts.store.put(BUCKET, quota({"pods": "3"}))
    await settled(parts)
    answers = await asyncio.gather(*(ask(parts, "POST", f"{CORE}/pods", pod(f"p{i}")) for i in range(8)))
    assert sorted(status for status, _ in answers) == [201] * 3 + [403] * 5
    refused = next(body for status, body in answers if status == 403)
    assert refused["message"] == (
        'pods "p3" is forbidden: exceeded quota: q, requested: pods=1, used: pods=3, limited: pods=3'
    )
    assert status_of(parts) == {"hard": {"pods": "3"}, "used": {"pods": "3"}}


async def test_what_goes_or_ends_is_given_back(parts: Parts) -> None:
    parts.store.put(BUCKET, quota({"pods": "2", "count/pods": "5"}))
    await settled(parts)
    for name in ("a", "b"):
        assert (await ask(parts, "POST", f"{CORE}/pods", pod(name)))[0] == 201
    body = (await ask(parts, "GET", f"{CORE}/pods/a"))[1]
    body["status"]["phase"] = "Succeeded"
    assert (await ask(parts, "PUT", f"{CORE}/pods/a/status", body))[0] == 200
    await settled(parts)
    assert status_of(parts)["used"] == {"pods": "1", "count/pods": "2"}
    assert (await ask(parts, "DELETE", f"{CORE}/pods/b"))[0] == 200
    await settled(parts)
    assert status_of(parts)["used"] == {"pods": "0", "count/pods": "1"}


async def test_a_dry_run_and_a_refused_write_use_nothing(parts: Parts) -> None:
    parts.store.put(BUCKET, quota({"pods": "2"}))
    await settled(parts)
    assert (await ask(parts, "POST", f"{CORE}/pods", pod("a"), dryRun="All"))[0] == 201
    assert status_of(parts)["used"] == {"pods": "0"}
    assert (await ask(parts, "POST", f"{CORE}/pods", pod("a")))[0] == 201
    assert (await ask(parts, "POST", f"{CORE}/pods", pod("a")))[0] == 409
    await settled(parts)
    assert status_of(parts)["used"] == {"pods": "1"}


async def test_another_limit_counts_at_once_and_what_is_there_is_counted(parts: Parts) -> None:
    assert (await ask(parts, "POST", f"{CORE}/secrets", {"metadata": {"name": "a"}}))[0] == 201
    parts.store.put(BUCKET, quota({"pods": "2"}))
    await settled(parts)
    stored = parts.store.get(BUCKET, ("default", "q"))
    assert stored is not None
    changed = stored.parse()
    changed["spec"]["hard"] = {"secrets": "1", "example.dev/nothing": "1"}
    parts.store.put(BUCKET, changed)
    await settled(parts)
    assert status_of(parts) == {
        "hard": {"secrets": "1", "example.dev/nothing": "1"},
        "used": {"secrets": "1"},
    }
    assert (await ask(parts, "POST", f"{CORE}/secrets", {"metadata": {"name": "b"}}))[0] == 403
