"""Built-in kinds that are stored as a real server stores them, whether anything here acts on them or not."""

import pytest

from steelyard_common.types import Json
from tests.kubernetes_api.api import TABLE, Api, pod
from tests.kubernetes_api.conftest import Server

CLAIM: Json = {
    "metadata": {"name": "c"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
HOOK: Json = {
    "name": "a.b.c",
    "clientConfig": {"url": "https://127.0.0.1/x"},
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
}
AUTOSCALER: Json = {
    "metadata": {"name": "h"},
    "spec": {
        "maxReplicas": 3,
        "targetCPUUtilizationPercentage": 60,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
    },
}


async def test_a_stateful_set_is_completed_and_scaled(api: Api, namespace: str) -> None:
    labels, containers = {"app": "a"}, pod("a")["spec"]["containers"]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    spec = {"serviceName": "s", "selector": {"matchLabels": labels}, "template": template}
    path = f"/apis/apps/v1/namespaces/{namespace}/statefulsets"
    body = {"metadata": {"name": "s"}, "spec": {**spec, "replicas": 0, "volumeClaimTemplates": [CLAIM]}}
    made = (await api.post(path, body)).ok(201).json
    assert made["spec"]["podManagementPolicy"] == "OrderedReady"
    assert made["spec"]["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
    claim = made["spec"]["volumeClaimTemplates"][0]
    assert (claim["kind"], claim["spec"]["volumeMode"]) == ("PersistentVolumeClaim", "Filesystem")
    answer = await api.merge(f"{path}/s", {"spec": {"serviceName": "other"}})
    assert "updates to statefulset spec for fields other than" in answer.message
    scale = (await api.get(f"{path}/s/scale")).ok(200).json
    assert (scale["spec"], scale["status"]["selector"]) == ({}, "app=a")
    (await api.delete(f"{path}/s")).ok(200)


async def test_a_stateful_set_may_mount_its_claims(api: Api, namespace: str) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/statefulsets"
    (await api.post(path, mounting("s", "data"))).ok(201)
    (await api.merge(f"{path}/s", {"spec": {"replicas": 0, "minReadySeconds": 1}})).ok(200)
    (await api.delete(f"{path}/s")).ok(200)


@pytest.mark.parametrize(
    ("mounted", "changed", "causes"),
    [
        ("other", {}, {"spec.template.spec.containers[0].volumeMounts[0].name": 'Not found: "other"'}),
        (
            "data",
            {"accessModes": []},
            {
                "spec.volumeClaimTemplates[0].spec.accessModes": (
                    "Required value: at least 1 access mode is required"
                )
            },
        ),
        (
            "data",
            {"resources": {}},
            {"spec.volumeClaimTemplates[0].spec.resources[storage]": "Required value"},
        ),
    ],
    ids=["a mount without a claim", "no access modes", "no size"],
)
async def test_a_stateful_set_with_wrong_claims_is_refused(
    api: Api, namespace: str, mounted: str, changed: Json, causes: dict[str, str]
) -> None:
    body = mounting("s", mounted, **changed)
    answer = await api.post(f"/apis/apps/v1/namespaces/{namespace}/statefulsets", body)
    assert (answer.status, answer.causes()) == (422, causes)


def mounting(name: str, mounted: str, **claim: object) -> Json:
    """A StatefulSet with claims of the name `data`, of whose containers one mounts something."""
    labels = {"app": "a"}
    container = {
        "name": "main",
        "image": "x",
        "volumeMounts": [{"name": mounted, "mountPath": "/data"}],
    }
    storage = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **claim}
    spec = {
        "serviceName": "s",
        "replicas": 0,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": storage}],
    }
    return {"metadata": {"name": name}, "spec": spec}


async def test_finalizers_of_a_deployment_come_with_its_status_and_labels_do_not(
    api: Api, namespace: str
) -> None:
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": pod("a")["spec"]["containers"]}}
    spec = {"replicas": 0, "selector": {"matchLabels": {"app": "a"}}, "template": template}
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    (await api.post(path, {"metadata": {"name": "d"}, "spec": spec})).ok(201)
    sent = {"labels": {"b": "c"}, "annotations": {"x": "y"}, "finalizers": ["a.b/c"]}
    metadata = (await api.merge(f"{path}/d/status", {"metadata": sent})).ok(200).json["metadata"]
    assert (metadata["finalizers"], metadata["annotations"]["x"]) == (["a.b/c"], "y")
    assert ("labels" in metadata, metadata["generation"]) == (False, 1)
    (await api.merge(f"{path}/d", {"metadata": {"finalizers": None}})).ok(200)
    (await api.delete(f"{path}/d")).ok(200)


async def test_a_network_of_services_is_ready_and_is_deleted_in_two_steps(api: Api) -> None:
    path, finalizer = "/apis/networking.k8s.io/v1/servicecidrs", "networking.k8s.io/service-cidr-finalizer"
    (await api.post(path, {"metadata": {"name": "own"}, "spec": {"cidrs": ["10.77.0.0/24"]}})).ok(201)

    async def is_ready() -> bool:
        made = (await api.get(f"{path}/own")).ok(200).json
        conditions = made.get("status", {}).get("conditions", [])
        ready = [(condition["type"], condition["status"]) for condition in conditions] == [("Ready", "True")]
        return ready and made["metadata"].get("finalizers") == [finalizer]

    for _ in range(2):  # also after a client took the finalizer away
        # A real server's controller sees to it a moment later.
        await api.eventually(is_ready, "the network is ready and has its finalizer")
        (await api.merge(f"{path}/own", {"metadata": {"finalizers": None}})).ok(200)
    await api.eventually(is_ready, "the network has its finalizer again")
    deleted = (await api.delete(f"{path}/own")).ok(200).json
    assert (deleted["kind"], deleted["metadata"]["finalizers"]) == ("ServiceCIDR", [finalizer])
    await api.gone(f"{path}/own")


async def test_a_claim_goes_when_no_pod_uses_it(api: Api, core: str) -> None:
    made = (await api.post(f"{core}/persistentvolumeclaims", CLAIM)).ok(201).json
    assert made["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    assert made["status"] == {"phase": "Pending"}
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    user = pod("user", nodeName="nowhere", volumes=[volume])
    (await api.post(f"{core}/pods", user)).ok(201)
    path = f"{core}/persistentvolumeclaims/c"
    (await api.delete(path)).ok(200)
    # The next write is later than what the server does about a deletion.
    (await api.post(f"{core}/configmaps", {"metadata": {"name": "later"}})).ok(201)
    assert (await api.get(path)).ok(200).json["metadata"]["deletionTimestamp"]
    (await api.delete(f"{core}/pods/user", {"gracePeriodSeconds": 0})).ok(200)
    await api.gone(path)


async def test_webhooks_are_completed(api: Api, namespace: str) -> None:
    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    rules = [{"operations": ["CREATE"], "apiGroups": ["x.y"], "apiVersions": ["v1"], "resources": ["z"]}]
    body = {"metadata": {"name": namespace}, "webhooks": [{**HOOK, "rules": rules}]}
    made = (await api.post(path, body)).ok(201).json["webhooks"][0]
    (await api.delete(f"{path}/{namespace}")).ok(200)
    assert (made["failurePolicy"], made["timeoutSeconds"]) == ("Fail", 10)
    assert (made["reinvocationPolicy"], made["rules"][0]["scope"]) == ("Never", "*")


async def test_an_autoscaler_is_the_same_in_both_versions(api: Api, namespace: str) -> None:
    path = "/apis/autoscaling/{}/namespaces/" + namespace + "/horizontalpodautoscalers"
    old = (await api.post(path.format("v1"), AUTOSCALER)).ok(201).json
    assert old["spec"]["targetCPUUtilizationPercentage"] == 60
    new = (await api.get(path.format("v2") + "/h")).ok(200).json
    target = {"type": "Utilization", "averageUtilization": 60}
    assert new["spec"]["metrics"] == [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    pods = {
        "type": "Pods",
        "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "5"}},
    }
    await api.merge(path.format("v2") + "/h", {"spec": {"metrics": [*new["spec"]["metrics"], pods]}})
    shown = (await api.get(path.format("v1") + "/h")).ok(200).json
    assert "autoscaling.alpha.kubernetes.io/metrics" in shown["metadata"]["annotations"]
    sent = (await api.put(path.format("v1") + "/h", shown)).ok(200).json
    assert sent["spec"] == shown["spec"]


RANGES = [
    ("largest", {"max": {"cpu": "2"}}, {"cpu": "2"}, {"cpu": "2"}),
    ("smallest", {"min": {"cpu": "1"}}, None, {"cpu": "1"}),
    ("default", {"default": {"cpu": "1"}, "max": {"cpu": "2"}}, {"cpu": "1"}, {"cpu": "1"}),
]


@pytest.mark.parametrize(
    ("limit", "default", "request_"), [r[1:] for r in RANGES], ids=[r[0] for r in RANGES]
)
async def test_ranges_of_limits(
    api: Api, core: str, limit: Json, default: Json | None, request_: Json
) -> None:
    body = {"metadata": {"name": "r"}, "spec": {"limits": [{"type": "Container", **limit}]}}
    made = (await api.post(f"{core}/limitranges", body)).ok(201).json["spec"]["limits"][0]
    assert (made.get("default"), made["defaultRequest"]) == (default, request_)


async def test_quantities_are_written_as_a_real_server_writes_them(api: Api, core: str) -> None:
    body = {"metadata": {"name": "q"}, "spec": {"hard": {"requests.cpu": "1000m", "count/jobs.batch": 3}}}
    made = (await api.post(f"{core}/resourcequotas", body)).ok(201).json
    assert made["spec"]["hard"] == {"requests.cpu": "1", "count/jobs.batch": "3"}


async def test_a_volume_is_available(api: Api, namespace: str) -> None:
    spec = {"capacity": {"storage": "1024Mi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
    path = "/api/v1/persistentvolumes"
    made = (await api.post(path, {"metadata": {"name": namespace}, "spec": spec})).ok(201).json
    assert (made["spec"]["capacity"], made["status"]["phase"]) == ({"storage": "1Gi"}, "Pending")

    async def available() -> bool:
        volume = (await api.get(f"{path}/{namespace}")).ok(200).json
        return bool(volume["status"]["phase"] == "Available")

    await api.eventually(available, "the volume's phase")
    (await api.delete(f"{path}/{namespace}")).ok(200)
    await api.gone(f"{path}/{namespace}")


REFUSED: list[tuple[str, Json, str]] = [
    ("/apis/node.k8s.io/v1/runtimeclasses", {}, "handler"),
    ("/apis/apiregistration.k8s.io/v1/apiservices", {}, "spec.groupPriorityMinimum"),
    (
        "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
        {"spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Queue"}}}},
        "spec.limited.limitResponse.queuing",
    ),
    (
        "{core}/endpoints",
        {"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 1}, {"port": 2, "name": "b"}]}]},
        "subsets[0].ports[0].name",
    ),
    ("{core}/podtemplates", {"template": {"spec": {}}}, "template.spec.containers"),
]


@pytest.mark.parametrize(("path", "body", "field"), REFUSED, ids=[row[0] for row in REFUSED])
async def test_what_is_refused(api: Api, core: str, path: str, body: Json, field: str) -> None:
    answer = await api.post(path.format(core=core), {"metadata": {"name": "a"}, **body})
    assert answer.status == 422
    assert field in answer.causes()


async def test_a_request_for_a_certificate_is_approved(api: Api, namespace: str, embedded: Server) -> None:
    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    spec: Json = {"request": "eA==", "signerName": "example.dev/x", "usages": ["client auth"]}
    spec |= {"username": "else", "extra": {"a": ["b"]}}
    made = (await api.post(path, {"metadata": {"name": namespace}, "spec": spec})).ok(201).json
    assert "system:masters" in made["spec"]["groups"]
    assert (made["spec"]["username"] != "else", "extra" in made["spec"]) == (True, False)
    condition = {"type": "Approved", "status": "True", "reason": "R", "message": "m"}
    made["status"] = {"conditions": [condition]}
    (await api.put(f"{path}/{namespace}/approval", made)).ok(200)
    row = (await api.get(f"{path}/{namespace}", TABLE)).ok(200).json["rows"][0]["cells"]
    assert row[-1] == "Approved"
    (await api.delete(f"{path}/{namespace}")).ok(200)


async def test_the_parts_of_the_control_plane(api: Api, embedded: Server) -> None:
    path = "/api/v1/componentstatuses"
    table = (await api.get(path, TABLE)).ok(200)
    assert [row["cells"][1] for row in table.json["rows"]] == ["Healthy"] * 3
    assert table.warnings == ["v1 ComponentStatus is deprecated in v1.19+"]
    one = (await api.get(f"{path}/scheduler")).ok(200).json
    assert one["conditions"][0]["type"] == "Healthy"
    assert (await api.get(f"{path}/none")).status == 404


async def test_a_binding_names_its_pod(api: Api, core: str) -> None:
    (await api.post(f"{core}/pods", pod("a"))).ok(201)
    target = {"kind": "Node", "name": "nowhere"}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": target}
    (await api.post(f"{core}/bindings", body)).ok(201)
    assert (await api.get(f"{core}/pods/a")).json["spec"]["nodeName"] == "nowhere"
