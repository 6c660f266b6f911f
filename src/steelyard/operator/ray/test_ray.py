"""The objects that a platform adds to a Ray cluster: ingress, networks, certificates."""

import asyncio
import base64
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from steelyard.operator.ray.applying import apply_configurations, covers, remove_configurations
from steelyard.operator.ray.certificates.authorities import new_key, request_for
from steelyard.operator.ray.dashboards import dashboard_host
from steelyard.operator.ray.objects import annotation_changes, make_objects
from steelyard.operator.ray.owned import Platform
from steelyard.operator.ray.run import Surroundings, dashboard_kind, find_platform, run_ray, sync
from steelyard.operator.ray.settings import RaySettings
from steelyard_common.types import Json
from steelyard_kube.errors import ApiError, Conflict, NotFound, ServerTimeout
from steelyard_kube.memory import Crash, CrashAt, MemoryCluster
from steelyard_kube.resource import (
    CONFIG_MAPS,
    ENDPOINT_SLICES,
    HTTP_ROUTES,
    INGRESSES,
    MUTATING_WEBHOOKS,
    NETWORK_POLICIES,
    RAY_CLUSTERS,
    ROUTES,
    SECRETS,
    SERVICES,
    VALIDATING_WEBHOOKS,
    Resource,
)
from steelyard_schema.ray_annotations import ANSWER, CERTIFICATES, REQUEST
from steelyard_schema.ray_annotations import DASHBOARD as ADDRESS

KEY = ("default", "demo")
NOW = datetime(2026, 3, 1, tzinfo=UTC)
NOTHING = Platform(NOW)
DASHBOARDS = RaySettings(dashboard="ingress", domain="example.com", network_policy=True)
ALL = RaySettings.model_validate(
    DASHBOARDS.model_dump()
    | {"login": ":8080", "certificates": True, "client_authorities": True, "admission": True}
)


def make_cluster(annotations: dict[str, str] | None = None) -> MemoryCluster:
    cluster = MemoryCluster()
    metadata = {"name": "demo", "namespace": "default", "annotations": annotations or {}}
    obj = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": metadata,
        "spec": {"headGroupSpec": {}},
    }
    cluster.store.create(RAY_CLUSTERS, obj)
    return cluster


def spec_of(cluster: MemoryCluster, resource: Resource, name: str) -> Json:
    obj = cluster.store.find(resource, name, "default")
    assert obj is not None
    spec: Json = obj["spec"]
    return spec


def ray_cluster(cluster: MemoryCluster) -> Json:
    obj = cluster.store.find(RAY_CLUSTERS, "demo", "default")
    assert obj is not None
    return obj


async def reconcile(cluster: MemoryCluster, settings: RaySettings, now: datetime = NOW) -> None:
    """Do what the loop does: a round, and the cluster."""
    surroundings = Surroundings(now=lambda: now)
    platform = await find_platform(cluster, settings, surroundings)
    await sync(cluster, settings, KEY, platform)


async def test_the_dashboard_gets_an_ingress_and_its_pods_policies() -> None:
    cluster = make_cluster()
    await reconcile(cluster, DASHBOARDS)
    (rule,) = spec_of(cluster, INGRESSES, "ray-dashboard-demo")["rules"]
    assert rule["host"] == "ray-dashboard-demo-default.example.com"
    backend = rule["http"]["paths"][0]["backend"]["service"]
    assert backend == {"name": "demo-head-svc", "port": {"number": 8265}}
    (own,) = spec_of(cluster, NETWORK_POLICIES, "demo-worker")["ingress"]
    assert own == {"from": [{"podSelector": {"matchLabels": {"ray.io/cluster": "demo"}}}]}
    _, others = spec_of(cluster, NETWORK_POLICIES, "demo-head")["ingress"]
    assert [port["port"] for port in others["ports"]] == [8265, 10001]
    address = "http://ray-dashboard-demo-default.example.com"
    assert ray_cluster(cluster)["metadata"]["annotations"] == {ADDRESS: address}
    version = cluster.store.version
    await reconcile(cluster, DASHBOARDS)
    assert cluster.store.version == version


@pytest.mark.parametrize(
    ("resource", "settings"),
    [(ROUTES, {"dashboard": "route"}), (HTTP_ROUTES, {"dashboard": "httproute", "gateway": "infra/main"})],
)
async def test_the_object_is_the_settings_choice(resource: Resource, settings: Any) -> None:
    cluster = make_cluster()
    await reconcile(cluster, RaySettings(**settings))
    spec = spec_of(cluster, resource, "ray-dashboard-demo")
    assert "demo-head-svc" in str(spec)
    assert resource is ROUTES or spec["parentRefs"] == [{"name": "main", "namespace": "infra"}]


@pytest.mark.parametrize(
    ("present", "gateway", "kind"),
    [
        ({ROUTES, HTTP_ROUTES}, "a/b", "route"),
        ({HTTP_ROUTES}, "a/b", "httproute"),
        ({HTTP_ROUTES}, "", "ingress"),
        (set(), "a/b", "ingress"),
    ],
)
async def test_the_object_is_chosen_by_what_the_api_has(
    present: set[Resource], gateway: str, kind: str
) -> None:
    cluster = make_cluster()

    def refuse(verb: str, resource: Resource, name: str) -> None:
        if verb == "list" and resource not in present:
            raise NotFound(resource.plural)

    cluster.before_call = refuse
    assert await dashboard_kind(cluster, RaySettings(dashboard="auto", gateway=gateway)) == kind


async def test_nothing_is_made_unless_asked_for() -> None:
    cluster = make_cluster()
    version = cluster.store.version
    await reconcile(cluster, RaySettings())
    assert (cluster.store.version, RaySettings().enabled) == (version, False)


async def test_what_was_changed_by_hand_is_corrected_and_anothers_object_is_not() -> None:
    cluster = make_cluster()
    await reconcile(cluster, DASHBOARDS)
    policy = cluster.store.find(NETWORK_POLICIES, "demo-worker", "default")
    assert policy is not None
    cluster.store.put({**policy, "spec": {**policy["spec"], "ingress": [{}]}})
    ingress = cluster.store.find(INGRESSES, "ray-dashboard-demo", "default")
    assert ingress is not None
    foreign = {**ingress, "metadata": {**ingress["metadata"], "ownerReferences": []}, "spec": {}}
    cluster.store.put(foreign)
    await reconcile(cluster, DASHBOARDS)
    assert spec_of(cluster, NETWORK_POLICIES, "demo-worker")["ingress"] != [{}]
    assert spec_of(cluster, INGRESSES, "ray-dashboard-demo") == {}


def with_operators(cluster: MemoryCluster) -> None:
    """Add the endpoints of the operators' Service."""
    labels = {"kubernetes.io/service-name": "steelyard-ray"}
    cluster.store.put(
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": "s", "namespace": "steelyard", "labels": labels},
            "ports": [{"name": "webhooks", "port": 9443}, {"name": "login", "port": 8080}],
            "endpoints": [
                {"addresses": ["10.0.0.2"], "conditions": {"ready": True}},
                {"addresses": ["10.0.0.3"], "conditions": {"ready": False}},
            ],
        }
    )


def request_of_a_client() -> dict[str, str]:
    return {CERTIFICATES: "v1", REQUEST + "me": request_for(new_key(), "me")}


async def test_with_a_login_the_ingress_leads_to_the_operators() -> None:
    cluster = make_cluster()
    with_operators(cluster)
    await reconcile(cluster, ALL)
    (rule,) = spec_of(cluster, INGRESSES, "ray-dashboard-demo")["rules"]
    backend = rule["http"]["paths"][0]["backend"]["service"]
    assert backend == {"name": "ray-dashboard-demo", "port": {"number": 80}}
    assert "selector" not in spec_of(cluster, SERVICES, "ray-dashboard-demo")
    endpoints = cluster.store.find(ENDPOINT_SLICES, "ray-dashboard-demo", "default")
    assert endpoints is not None
    assert [endpoint["addresses"] for endpoint in endpoints["endpoints"]] == [["10.0.0.2"]]
    assert endpoints["ports"][0]["port"] == 8080
    assert endpoints["metadata"]["labels"]["kubernetes.io/service-name"] == "ray-dashboard-demo"
    # Only the operators' namespace reaches the dashboard from outside, in addition to the cluster's own.
    *_, operators = spec_of(cluster, NETWORK_POLICIES, "demo-head")["ingress"]
    assert "steelyard" in str(operators["from"])


@pytest.mark.parametrize("turns", range(12))
async def test_the_loop_ends_although_a_change_comes_as_it_is_cancelled(turns: int) -> None:
    cluster = make_cluster()
    running = asyncio.create_task(run_ray(cluster, ALL, surroundings=Surroundings(now=lambda: NOW)))
    async with asyncio.timeout(60):
        while not ray_cluster(cluster)["metadata"].get("annotations"):  # noqa: ASYNC110 - no event tells of it
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.01)  # until it waits for the next round
        labels = {"kubernetes.io/service-name": ALL.service_name}
        metadata = {"name": "operators", "namespace": ALL.namespace, "labels": labels}
        cluster.store.create(ENDPOINT_SLICES, {"metadata": metadata, "endpoints": []})
        for _ in range(turns):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running])
    assert running.cancelled()


@pytest.mark.parametrize("after", [False, True], ids=["before a call", "after a call"])
async def test_a_crash_between_any_two_calls_leaves_nothing_out(after: bool) -> None:
    for call in range(1, 80):
        cluster = make_cluster(request_of_a_client())
        with_operators(cluster)
        crash = CrashAt(call)
        setattr(cluster, "after_call" if after else "before_call", crash)
        try:
            await reconcile(cluster, ALL)
            crashed = False
        except Crash:
            crashed = True
        cluster.before_call = cluster.after_call = None
        if crashed:
            await reconcile(cluster, ALL)
        assert len(cluster.store.objects(NETWORK_POLICIES)) == 2
        assert len(cluster.store.objects(INGRESSES)) == 1
        assert len(cluster.store.objects(SECRETS)) == 2
        assert len(cluster.store.objects(CONFIG_MAPS)) == 1
        assert len(cluster.store.objects(VALIDATING_WEBHOOKS)) == 1
        assert "BEGIN CERTIFICATE" in ray_cluster(cluster)["metadata"]["annotations"][ANSWER + "me"]
        version = cluster.store.version
        await reconcile(cluster, ALL)
        assert cluster.store.version == version
        if not crashed:
            return
    raise AssertionError("no run without a crash")


@pytest.mark.parametrize("error", [Conflict("changed"), ServerTimeout("slow")], ids=["conflict", "timeout"])
@pytest.mark.parametrize("after", [False, True], ids=["before a call", "after a call"])
async def test_an_error_at_any_call_is_made_up_for_by_the_next_try(error: ApiError, after: bool) -> None:
    wanted: set[tuple[str, str]] = set()
    for call in range(80):  # the first without an error
        cluster = make_cluster(request_of_a_client())
        with_operators(cluster)
        calls = 0

        def fail(verb: str, resource: Resource, name: str, call: int = call) -> None:
            nonlocal calls
            calls += 1
            if calls == call:
                raise error

        setattr(cluster, "after_call" if after else "before_call", fail)
        with suppress(ApiError):
            await reconcile(cluster, ALL)
        made = calls
        cluster.before_call = cluster.after_call = None
        await reconcile(cluster, ALL)
        objects = {(obj["kind"], obj["metadata"]["name"]) for obj in cluster.store.objects()}
        wanted = wanted or objects
        assert objects == wanted
        if 0 < made < call:
            return
    raise AssertionError("no run without an error")


async def test_webhooks_trust_the_authorities_of_their_time_and_go_when_none_serves_them() -> None:
    cluster = make_cluster()
    await reconcile(cluster, ALL)

    def bundle() -> str:
        obj = cluster.store.find(MUTATING_WEBHOOKS, "steelyard-ray")
        assert obj is not None
        return base64.b64decode(obj["webhooks"][0]["clientConfig"]["caBundle"]).decode()

    first = bundle()
    await reconcile(cluster, ALL, NOW + timedelta(days=365))
    # Two of three are still there: no caller is without one that it trusts.
    parts = [set(text.split("-----BEGIN")[1:]) for text in (first, bundle())]
    assert len(parts[0] & parts[1]) == 2
    await reconcile(cluster, DASHBOARDS)
    assert cluster.store.objects(MUTATING_WEBHOOKS) == cluster.store.objects(VALIDATING_WEBHOOKS) == []


@pytest.mark.parametrize("call", [1, 2, 3, 4])
async def test_webhooks_of_an_earlier_setting_go_whichever_call_fails_at_first(call: int) -> None:
    cluster = make_cluster()
    await reconcile(cluster, ALL)
    calls = 0

    def fail(verb: str, resource: Resource, name: str) -> None:
        nonlocal calls
        calls += 1
        if calls == call:
            raise ServerTimeout("slow")

    cluster.before_call = fail
    await remove_configurations(cluster, pause=0)
    assert cluster.store.objects(MUTATING_WEBHOOKS) == cluster.store.objects(VALIDATING_WEBHOOKS) == []
    assert calls > 4, "no call has failed"


async def test_anothers_webhooks_of_our_name_stay() -> None:
    cluster = make_cluster()
    metadata = {"name": "steelyard-ray"}
    kind = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
    }
    cluster.store.put({**kind, "metadata": metadata, "webhooks": []})
    await apply_configurations(cluster, [])
    assert len(cluster.store.objects(VALIDATING_WEBHOOKS)) == 1


async def test_the_key_is_made_once_and_a_damaged_one_is_not_replaced() -> None:
    cluster = make_cluster()
    await reconcile(cluster, ALL)
    secret = cluster.store.find(SECRETS, "steelyard-ray", "steelyard")
    assert secret is not None
    await reconcile(cluster, ALL.model_copy(update={"certificate_days": 2}))
    assert cluster.store.find(SECRETS, "steelyard-ray", "steelyard") == secret
    cluster.store.put({**secret, "data": {"key": "AAAA", "days": "MQ=="}})
    with pytest.raises(Exception, match="steelyard/steelyard-ray"):
        await reconcile(cluster, ALL)


def test_a_host_is_one_label_below_the_domain() -> None:
    cluster = {"metadata": {"name": "n" * 60, "namespace": "default"}}
    host = dashboard_host(cluster, RaySettings(domain="example.com"))
    assert len(host.partition(".")[0]) == 63
    assert host.endswith(".example.com")


def test_no_two_clusters_share_a_host() -> None:
    pairs = [("a-b", "c"), ("a", "b-c"), ("n" * 60, "x"), ("n" * 60, "y"), ("a", "c")]
    clusters = [{"metadata": {"name": name, "namespace": namespace}} for name, namespace in pairs]
    assert len({dashboard_host(cluster, RaySettings(domain="example.com")) for cluster in clusters}) == 5


def test_a_cluster_that_is_deleted_gets_nothing_more() -> None:
    cluster = {"metadata": {"name": "n", "namespace": "d", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert make_objects(cluster, ALL, NOTHING) == []
    assert annotation_changes(cluster, ALL, NOTHING) == {}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"service": "steelyard-ray"}, "NAMESPACE/NAME"),
        ({"url": "http://localhost:9443"}, "https://"),
        ({"dashboard": "ingress", "login": ":8080"}, "domain"),
        ({"dashboard": "httproute"}, "gateway"),
        ({"listen": "9443"}, "HOST:PORT"),
        ({"certificate_days": 1}, "greater than or equal to 2"),
    ],
)
def test_settings_that_do_not_go_together_name_the_field(values: Json, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        RaySettings(**values)


@pytest.mark.parametrize(
    ("present", "wanted", "same"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": [{"b": 1, "c": 2}]}, {"a": [{"b": 1}]}, True),
        ({"a": [1, 2]}, {"a": [1]}, False),
        ({"a": None}, {"a": {"b": 1}}, False),
    ],
)
def test_what_the_api_fills_in_is_no_difference(present: Json, wanted: Json, same: bool) -> None:
    assert covers(present, wanted) is same
