"""Tests of defaults in built-in objects: exactly those of a real server of 1.34."""

from typing import Any

from steelyard_common.types import Json
from tests.kubernetes_api.api import Api, pod


def subset(wanted: Any, actual: Any, path: str = "") -> None:
    """Every field of `wanted` is in `found`; lists have as many items."""
    if isinstance(wanted, dict):
        for key, value in wanted.items():
            assert key in actual, f"{path}.{key} is missing in {actual}"
            subset(value, actual[key], f"{path}.{key}")
    elif isinstance(wanted, list):
        assert len(wanted) == len(actual), path
        for index, value in enumerate(wanted):
            subset(value, actual[index], f"{path}[{index}]")
    else:
        assert wanted == actual, f"{path}: {actual!r}, not {wanted!r}"


CONTAINER = {
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "imagePullPolicy": "Always",
}
POD_SPEC = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "schedulerName": "default-scheduler",
}


async def test_pods(api: Api, core: str) -> None:
    body = pod(
        "p",
        containers=[
            {"name": "a", "image": "x", "ports": [{"containerPort": 80}], "volumeMounts": []},
            {"name": "b", "image": "x:1", "readinessProbe": {"httpGet": {"port": 80}}},
            {"name": "c", "image": "x:latest", "resources": {"limits": {"cpu": "1"}}},
            {"name": "d", "image": "host:5000/x@sha256:1"},
        ],
        volumes=[
            {"name": "c", "configMap": {"name": "x"}},
            {"name": "s", "secret": {"secretName": "x"}},
            {"name": "e"},
            {"name": "h", "hostPath": {"path": "/x"}},
        ],
    )
    made = (await api.post(f"{core}/pods", body)).ok(201).json
    probe = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
    containers = [
        CONTAINER | {"ports": [{"containerPort": 80, "protocol": "TCP"}]},
        {
            "imagePullPolicy": "IfNotPresent",
            "readinessProbe": {"httpGet": {"path": "/", "scheme": "HTTP"}} | probe,
        },
        {"imagePullPolicy": "Always", "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}},
        {"imagePullPolicy": "IfNotPresent"},
    ]
    account = {"serviceAccountName": "default", "serviceAccount": "default", "enableServiceLinks": True}
    wanted = {"containers": containers, **POD_SPEC, **account}
    subset(wanted, made["spec"])
    volumes = {volume["name"]: volume for volume in made["spec"]["volumes"]}
    assert volumes["c"]["configMap"]["defaultMode"] == volumes["s"]["secret"]["defaultMode"] == 420
    assert volumes["e"]["emptyDir"] == {}
    assert volumes["h"]["hostPath"]["type"] == ""
    assert made["metadata"]["generation"] == 1
    subset({"phase": "Pending", "qosClass": "Burstable"}, made["status"])


async def test_jobs(api: Api, namespace: str) -> None:
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "m", "image": "x"}]},
    }
    body = {"metadata": {"name": "j"}, "spec": {"suspend": True, "template": template}}
    made = (await api.post(f"/apis/batch/v1/namespaces/{namespace}/jobs", body)).ok(201).json
    uid = made["metadata"]["uid"]
    labels = {"a": "b", "controller-uid": uid, "job-name": "j"}
    labels |= {"batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": "j"}
    assert made["metadata"]["labels"] == labels
    spec = POD_SPEC | {"restartPolicy": "Never", "containers": [CONTAINER]}
    wanted: Json = {
        "parallelism": 1,
        "completions": 1,
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "manualSelector": False,
        "podReplacementPolicy": "TerminatingOrFailed",
        "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}},
        "template": {"metadata": {"labels": labels}, "spec": spec},
    }
    subset(wanted, made["spec"])
    assert made["status"] == {}


async def test_deployments_and_replica_sets(api: Api, namespace: str) -> None:
    template = {"metadata": {"labels": {"a": "d"}}, "spec": {"containers": [{"name": "m", "image": "x"}]}}
    spec = {"selector": {"matchLabels": {"a": "d"}}, "template": template}
    path = f"/apis/apps/v1/namespaces/{namespace}"
    made = (
        await api.post(f"{path}/deployments", {"metadata": {"name": "d"}, "spec": spec | {"paused": True}})
    ).ok(201)
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}
    wanted: Json = {
        "replicas": 1,
        "strategy": rolling,
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
    }
    wanted |= {"template": {"spec": POD_SPEC | {"containers": [CONTAINER]}}}
    subset(wanted, made.json["spec"])
    assert made.json["status"] == {}
    other = {"metadata": {"name": "r"}, "spec": spec | {"replicas": 0}}
    assert (await api.post(f"{path}/replicasets", other)).ok(201).json["status"] == {"replicas": 0}


async def test_services(api: Api, core: str) -> None:
    body = {"metadata": {"name": "s"}, "spec": {"selector": {"a": "b"}, "ports": [{"port": 80}]}}
    made = (await api.post(f"{core}/services", body)).ok(201).json
    wanted: Json = {
        "type": "ClusterIP",
        "sessionAffinity": "None",
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "internalTrafficPolicy": "Cluster",
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
    }
    subset(wanted, made["spec"])
    address = made["spec"]["clusterIP"]
    assert made["spec"]["clusterIPs"] == [address]
    assert made["status"] == {"loadBalancer": {}}
    replaced = body | {"metadata": {"name": "s", "resourceVersion": made["metadata"]["resourceVersion"]}}
    assert (await api.put(f"{core}/services/s", replaced)).ok(200).json["spec"]["clusterIP"] == address
    answer = await api.merge(f"{core}/services/s", {"spec": {"clusterIP": "None"}})
    assert answer.status == 422
    headless = {"metadata": {"name": "h"}, "spec": {"clusterIP": "None", "selector": {"a": "b"}}}
    made = (await api.post(f"{core}/services", headless)).ok(201).json
    assert (made["spec"]["clusterIP"], made["spec"]["clusterIPs"]) == ("None", ["None"])


async def test_addresses_of_services_differ(api: Api, core: str) -> None:
    addresses = set()
    for index in range(20):
        body = {"metadata": {"name": f"s{index}"}, "spec": {"ports": [{"port": 80}]}}
        addresses.add((await api.post(f"{core}/services", body)).ok(201).json["spec"]["clusterIP"])
    assert len(addresses) == 20
    taken = {"metadata": {"name": "taken"}, "spec": {"clusterIP": addresses.pop(), "ports": [{"port": 80}]}}
    answer = await api.post(f"{core}/services", taken)
    assert answer.status == 422
    assert "provided IP is already allocated" in answer.message


async def test_events_slices_and_namespaces(api: Api, core: str, namespace: str) -> None:
    about = {"kind": "Pod", "name": "p", "namespace": namespace}
    event = (
        (await api.post(f"{core}/events", {"metadata": {"name": "e"}, "involvedObject": about})).ok(201).json
    )
    wanted: Json = {"source": {}, "firstTimestamp": None, "lastTimestamp": None, "eventTime": None}
    subset(wanted | {"reportingComponent": "", "reportingInstance": ""}, event)
    body = {
        "metadata": {"name": "s"},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.1.2.3"]}],
        "ports": [{"port": 80}],
    }
    made = (
        (await api.post(f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices", body))
        .ok(201)
        .json
    )
    subset({"endpoints": [{"conditions": {}}], "ports": [{"name": "", "protocol": "TCP", "port": 80}]}, made)
    own = (await api.get(f"/api/v1/namespaces/{namespace}")).ok(200).json
    assert own["spec"] == {"finalizers": ["kubernetes"]}
    assert own["status"] == {"phase": "Active"}
    assert own["metadata"]["labels"] == {"kubernetes.io/metadata.name": namespace}
