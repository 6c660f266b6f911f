"""Evictions under a PodDisruptionBudget, whose status is written by hand here: no controller runs."""

from steelyard_common.types import Json
from tests.kubernetes_api.api import Answer, Api, pod

BUDGETS = "/apis/policy/v1/namespaces/{}/poddisruptionbudgets"


async def running(api: Api, core: str, name: str, *, ready: bool = True) -> None:
    await api.post(
        f"{core}/pods", pod(name, nodeName="localhost") | {"metadata": {"name": name, "labels": {"a": "b"}}}
    )
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": str(ready)}]}
    (await api.merge(f"{core}/pods/{name}/status", {"status": status})).ok(200)


async def budget(api: Api, namespace: str, name: str, **status: object) -> str:
    path = BUDGETS.format(namespace)
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}
    (await api.post(path, {"metadata": {"name": name}, "spec": spec})).ok(201)
    counts = {"currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2, "disruptionsAllowed": 1}
    if status:
        (await api.merge(f"{path}/{name}/status", {"status": {**counts, **status}})).ok(200)
    return f"{path}/{name}"


async def evict(api: Api, core: str, name: str, **options: object) -> Answer:
    body: Json = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, **options}
    return await api.post(f"{core}/pods/{name}/eviction", body)


async def test_a_budget_is_charged_and_then_refuses(
    api: Api, core: str, namespace: str, embedded: object
) -> None:
    path = await budget(api, namespace, "b", observedGeneration=1)
    for name in ("one", "two"):
        await running(api, core, name)
    (await evict(api, core, "one")).ok(201)
    status = (await api.get(path)).json["status"]
    assert (status["disruptionsAllowed"], list(status["disruptedPods"])) == (0, ["one"])
    refused = await evict(api, core, "two")
    assert refused.status == 429
    assert refused.json["reason"] == "TooManyRequests"
    assert refused.message == "Cannot evict pod as it would violate the pod's disruption budget."
    cause = refused.json["details"]["causes"][0]
    assert cause["message"] == "The disruption budget b needs 1 healthy pods and has 2 currently"
    assert "deletionTimestamp" not in (await api.get(f"{core}/pods/two")).json["metadata"]


async def test_a_budget_that_is_not_counted_yet_refuses(
    api: Api, core: str, namespace: str, embedded: object
) -> None:
    await budget(api, namespace, "b")
    await running(api, core, "one")
    refused = await evict(api, core, "one")
    assert refused.status == 429
    assert refused.headers["Retry-After"] == "10"
    assert "is still being processed" in refused.json["details"]["causes"][0]["message"]


async def test_a_pod_that_is_not_ready_costs_nothing_while_enough_are(
    api: Api, core: str, namespace: str, embedded: object
) -> None:
    path = await budget(api, namespace, "b", observedGeneration=1, disruptionsAllowed=0)
    await running(api, core, "one", ready=False)
    (await evict(api, core, "one")).ok(201)
    assert "disruptedPods" not in (await api.get(path)).json["status"]


async def test_two_budgets_for_one_pod_are_refused(
    api: Api, core: str, namespace: str, embedded: object
) -> None:
    for name in ("b", "c"):
        await budget(api, namespace, name, observedGeneration=1)
    await running(api, core, "one")
    refused = await evict(api, core, "one")
    assert refused.status == 500
    assert "more than one PodDisruptionBudget" in refused.message
