# ruff: noqa: E501 - a table is read by its rows
"""Numbers, quantities, names, ports, probes and paths beyond what the fields mean: a table, the same on both servers.

Each row is a field that a controller, the scheduler or the kubelet reads.
"""

from dataclasses import dataclass
from typing import Any

import pytest

from steelyard_common.types import Json
from tests.kubernetes_api.api import Api, job, pod

CORE, APPS = "/api/v1/namespaces/{}", "/apis/apps/v1/namespaces/{}"
BATCH, SLICES = "/apis/batch/v1/namespaces/{}/jobs", "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices"
CONTAINER = {"name": "main", "image": "x"}
INT32, INT64 = 2**31 - 1, 2**63 - 1


@dataclass(frozen=True)
class Case:
    name: str
    path: str
    body: Json
    status: int
    message: str  # a part of it
    field: str = ""


def pods(name: str, message: str, field: str, status: int = 422, **spec: Any) -> Case:
    return Case(
        name, f"{CORE}/pods", pod("p", **spec), status, message, f"spec.{field}" if status == 422 else ""
    )


def one(name: str, message: str, field: str, status: int = 422, **container: Any) -> Case:
    spec = {"containers": [CONTAINER | container], "volumes": [{"name": "v", "emptyDir": {}}]}
    return pods(name, message, f"containers[0].{field}", status, **spec)


def volume(name: str, message: str, field: str, **source: Any) -> Case:
    return pods(name, message, f"volumes[0].{field}", volumes=[{"name": "v", **source}])


def workload(
    name: str, message: str, field: str, status: int = 422, plural: str = "deployments", **spec: Any
) -> Case:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [CONTAINER]}}
    whole = {"selector": {"matchLabels": {"a": "b"}}, "template": template, **spec}
    return Case(name, f"{APPS}/{plural}", {"metadata": {"name": "d"}, "spec": whole}, status, message, field)


def jobs(name: str, message: str, field: str, status: int = 422, **spec: Any) -> Case:
    return Case(name, BATCH, job("j", **spec), status, message, field)


def service(name: str, message: str, field: str, *ports: Json, **spec: Any) -> Case:
    body = {"metadata": {"name": "s"}, "spec": {"ports": list(ports), **spec}}
    return Case(name, f"{CORE}/services", body, 422, message, field)


def slices(name: str, message: str, field: str, *ports: Json, **endpoint: Any) -> Case:
    endpoints = [{"addresses": ["10.1.2.3"], **endpoint}]
    body = {"metadata": {"name": "e"}, "addressType": "IPv4", "endpoints": endpoints, "ports": list(ports)}
    return Case(name, SLICES, body, 422, message, field)


def rolling(**update: Any) -> Json:
    return {"strategy": {"rollingUpdate": update}}


def requests(**amounts: Any) -> Json:
    return {"resources": {"requests": amounts}}


LEAST, RANGE, PORT = (
    "must be greater than or equal to 0",
    "must be between 1 and 2147483647, inclusive",
    "must be between 1 and 65535, inclusive",
)
FORM, MODE = "quantities must match the regular expression", "must be a number between 0 and 0777 (octal)"
TYPES = "json: cannot unmarshal number"
PROBE: Json = {"exec": {"command": ["true"]}}
CASES = [
    # ---- Deployments and ReplicaSets
    workload("replicas of 64 bits", f"{TYPES} {INT64}", "", 400, replicas=INT64),
    workload("one replica too many", f"{TYPES} {INT32 + 1}", "", 400, "replicasets", replicas=INT32 + 1),
    workload("negative replicas", LEAST, "spec.replicas", replicas=-1),
    workload("a surge of letters", "a valid percent string must be", "spec.strategy.rollingUpdate.maxSurge", **rolling(maxSurge="abc")),
    workload("a negative surge", LEAST, "spec.strategy.rollingUpdate.maxSurge", **rolling(maxSurge=-1)),
    workload("a surge of 41 bits", f"{TYPES} {2**40}", "", 400, **rolling(maxSurge=2**40)),
    workload("more than all unavailable", "must not be greater than 100%", "spec.strategy.rollingUpdate.maxUnavailable", **rolling(maxUnavailable="200%")),
    workload("no room at all", "may not be 0 when `maxSurge` is 0", "spec.strategy.rollingUpdate.maxUnavailable", **rolling(maxUnavailable=0, maxSurge="0%")),
    workload("bounds of what is recreated", "may not be specified when strategy `type` is 'Recreate'", "spec.strategy.rollingUpdate", strategy={"type": "Recreate", "rollingUpdate": {}}),
    workload("progress before readiness", "must be greater than minReadySeconds", "spec.progressDeadlineSeconds", progressDeadlineSeconds=5, minReadySeconds=10),
    workload("no selection", "empty selector is invalid for deployment", "spec.selector", selector={}),
    workload("a selector without values", "must be specified when `operator` is 'In' or 'NotIn'", "spec.selector.matchExpressions[0].values", selector={"matchExpressions": [{"key": "a", "operator": "In"}]}),
    workload("a selector of a bad key", "name part must consist of", "spec.selector.matchExpressions[0].key", selector={"matchExpressions": [{"key": "a b", "operator": "Exists"}]}),
    workload("a selector without a key", "name part must be non-empty", "", selector={"matchExpressions": [{"operator": "Exists"}]}),
    workload("a deadline of what never ends", "activeDeadlineSeconds in ReplicaSet is not Supported", "spec.template.spec.activeDeadlineSeconds", plural="replicasets", template={"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [CONTAINER], "activeDeadlineSeconds": 5}}),
    # ---- Jobs
    jobs("a deadline of 65 bits", TYPES, "", 400, activeDeadlineSeconds=2**63),
    jobs("completions of 33 bits", TYPES, "", 400, completions=2**31),
    jobs("a negative time", LEAST, "spec.ttlSecondsAfterFinished", ttlSecondsAfterFinished=-1),
    jobs("indexes without an end", "when completion mode is Indexed", "spec.completions", completionMode="Indexed", parallelism=2),
    jobs("too many indexes at once", "must be less than or equal to 100000 when completion mode is Indexed", "spec.parallelism", completionMode="Indexed", completions=5, parallelism=100_001),
    jobs("an unknown replacement", "Unsupported value", "spec.podReplacementPolicy", podReplacementPolicy="x"),
    jobs("a selector of one's own without one", "Required value", "spec.selector", manualSelector=True),
    # ---- what containers ask for
    one("no number", FORM, "", 400, **requests(memory="NaN")),
    one("an empty amount", FORM, "", 400, **requests(memory="")),
    one("an exponent of 20 digits", "quantit", "", 400, **requests(memory="1e99999999999999999999")),
    one("a negative amount", LEAST, "resources.requests[memory]", **requests(memory="-1")),
    one("an unknown resource", "must be a standard resource", "resources.requests[foo]", **requests(foo="1")),
    one("half a device", "must be an integer", "resources.limits[nvidia.com/gpu]", resources={"limits": {"nvidia.com/gpu": "0.5"}}),
    one("a device without a limit", "Limit must be set for non overcommitable resources", "resources.limits", **requests(**{"nvidia.com/gpu": "1"})),
    # ---- Pods
    pods("a deadline of 64 bits", RANGE, "activeDeadlineSeconds", activeDeadlineSeconds=INT64),
    pods("a deadline at once", RANGE, "activeDeadlineSeconds", activeDeadlineSeconds=0),
    pods("a time of 65 bits", TYPES, "", 400, terminationGracePeriodSeconds=2**63),
    pods("a bad node", "a lowercase RFC 1123 subdomain", "nodeName", nodeName="A b"),
    pods("a bad host name", "a lowercase RFC 1123 label", "hostname", hostname="A b"),
    pods("a bad label of nodes", "name part must consist of", "nodeSelector", nodeSelector={"a b": "c"}),
    pods("a bad account", 'serviceaccount "A" not found', "", 403, serviceAccountName="A"),
    pods("a host of no address", "must be a valid IP address", "hostAliases[0].ip", hostAliases=[{"ip": "x", "hostnames": ["a"]}]),
    pods("a negative user", "must be between 0 and 2147483647, inclusive", "securityContext.runAsUser", securityContext={"runAsUser": -1}),
    # ---- ports and probes
    one("a negative port", PORT, "ports[0].containerPort", ports=[{"containerPort": -1}]),
    one("a port of 17 bits", PORT, "ports[0].containerPort", ports=[{"containerPort": 70_000}]),
    one("a bad name of a port", "must contain only alpha-numeric characters", "ports[0].name", ports=[{"containerPort": 1, "name": "A_b"}]),
    one("a port's name twice", 'Duplicate value: "a"', "ports[1].name", ports=[{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]),
    one("an unknown protocol", "Unsupported value", "ports[0].protocol", ports=[{"containerPort": 1, "protocol": "x"}]),
    *(one(f"a negative {name}", LEAST, f"readinessProbe.{name}", readinessProbe=PROBE | {name: -1})
      for name in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")),
    one("a threshold of liveness", "must be 1", "livenessProbe.successThreshold", livenessProbe=PROBE | {"successThreshold": 2}),
    one("a probe of nothing", "Required value", "readinessProbe.exec.command", readinessProbe={"exec": {}}),
    one("a probe of port 0", PORT, "readinessProbe.httpGet.port", readinessProbe={"httpGet": {"port": 0}}),
    one("a probe of a long name", "must be no more than 15 characters", "readinessProbe.tcpSocket.port", readinessProbe={"tcpSocket": {"port": "x" * 20}}),
    one("a header of two lines", "a valid HTTP header must consist of", "readinessProbe.httpGet.httpHeaders", readinessProbe={"httpGet": {"port": 80, "httpHeaders": [{"name": "a\r\nb", "value": "c"}]}}),
    one("an unknown scheme", "Unsupported value", "readinessProbe.httpGet.scheme", readinessProbe={"httpGet": {"port": 80, "scheme": "ftp"}}),
    one("a hook of nothing", "must specify a handler type", "lifecycle.preStop", lifecycle={"preStop": {}}),
    # ---- variables
    one("a variable with a sign", "must consist only of printable ASCII characters other than '='", "env[0].name", env=[{"name": "a=b"}]),
    one("a variable with an end", "must consist only of printable ASCII", "env[0].name", env=[{"name": "a\x00b"}]),
    one("a source of nothing", "must specify one of", "env[0].valueFrom", env=[{"name": "a", "valueFrom": {}}]),
    one("an unknown field", "field label not supported: foo", "env[0].valueFrom.fieldRef.fieldPath", env=[{"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "foo"}}}]),
    one("an unknown amount", "Unsupported value", "env[0].valueFrom.resourceFieldRef.resource", env=[{"name": "a", "valueFrom": {"resourceFieldRef": {"resource": "foo"}}}]),
    one("a key with a slash", "a valid config key", "env[0].valueFrom.configMapKeyRef.key", env=[{"name": "a", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "a/b"}}}]),
    one("all of nothing", "must specify one of: `configMapRef` or `secretRef`", "envFrom", envFrom=[{}]),
    # ---- volumes
    one("a point twice", "must be unique", "volumeMounts[1].mountPath", volumeMounts=[{"name": "v", "mountPath": "/a"}] * 2),
    one("a mount out of its volume", "must not contain '..'", "volumeMounts.subPath", volumeMounts=[{"name": "v", "mountPath": "/a", "subPath": "../x"}]),
    one("a mount of the machine", "must be a relative path", "volumeMounts.subPath", volumeMounts=[{"name": "v", "mountPath": "/a", "subPath": "/x"}]),
    volume("a mode beyond", MODE, "configMap.defaultMode", configMap={"name": "a", "defaultMode": 4096}),
    volume("a file out of its volume", "must not contain '..'", "configMap.items[0].path", configMap={"name": "a", "items": [{"key": "k", "path": "../x"}]}),
    volume("a file with two dots", "must not start with '..'", "secret.items[0].path", secret={"secretName": "a", "items": [{"key": "k", "path": "..x"}]}),
    volume("a negative size", "SizeLimit field must be a valid resource quantity", "emptyDir.sizeLimit", emptyDir={"sizeLimit": "-1"}),
    volume("a way up", "must not contain '..'", "hostPath.path", hostPath={"path": "/a/../b"}),
    volume("no claim", "Required value", "persistentVolumeClaim.claimName", persistentVolumeClaim={"claimName": ""}),
    volume("a file of nothing", "one of fieldRef and resourceFieldRef is required", "downwardAPI", downwardAPI={"items": [{"path": "a"}]}),
    volume("two kinds", "may not specify more than 1 volume type", "hostPath", emptyDir={}, hostPath={"path": "/"}),
    # ---- Services and their endpoints
    service("a port twice", 'Duplicate value: {"Name":""', "spec.ports[1]", {"name": "a", "port": 80}, {"name": "b", "port": 80}),
    service("a name twice", 'Duplicate value: "a"', "spec.ports[1].name", {"name": "a", "port": 80}, {"name": "a", "port": 81}),
    service("a port of no number", PORT, "spec.ports[0].port", {"port": 70_000}),
    service("a target of no number", PORT, "spec.ports[0].targetPort", {"port": 1, "targetPort": 70_000}),
    service("a target of a long name", "must be no more than 15 characters", "spec.ports[0].targetPort", {"port": 1, "targetPort": "x" * 30}),
    service("a bad selector", "name part must consist of", "spec.selector", {"port": 1}, selector={"a b": "c"}),
    service("an address of letters", "must be a valid IP address", "spec.clusterIPs[0]", {"port": 1}, clusterIP="x"),
    slices("an address with a line", "must be a valid IP address", "endpoints[0].addresses[0]", addresses=["10.1.2.3\n10.1.2.4 evil"]),
    slices("a bad host", "a lowercase RFC 1123 label", "endpoints[0].hostname", hostname="a b"),
    slices("a name of two ports", 'Duplicate value: ""', "ports[1].name", {"port": 5}, {"port": 6}),
    Case("a key that is a folder", f"{CORE}/configmaps", {"metadata": {"name": "c"}, "data": {"..": "x"}}, 422, "must not be '..'", "data[..]"),
    Case("a key in both", f"{CORE}/configmaps", {"metadata": {"name": "c"}, "data": {"a": "x"}, "binaryData": {"a": "eA=="}}, 422, "duplicate of key present in binaryData", "data[a]"),
    Case("a time without an hour", "/apis/coordination.k8s.io/v1/namespaces/{}/leases", {"metadata": {"name": "l"}, "spec": {"renewTime": "2026-01-01"}}, 400, 'parsing time "2026-01-01"'),
    Case("a list for one", f"{CORE}/pods", {"kind": "List", "apiVersion": "v1", "items": []}, 400, 'List in version "v1" cannot be handled as a Pod'),
]  # fmt: skip
# A real server takes them, and the kernel refuses the container's start.
OF_THE_KERNEL = [
    one("a variable that is too large", "Too long: may not take more than 131071 bytes", "env[0].value", env=[{"name": "a", "value": "x" * 131_070}]),
    one("variables that double", "once its variables are filled in", "env[16].value", env=[{"name": "A0", "value": "xx"}, *({"name": f"A{n}", "value": f"$(A{n - 1})" * 2} for n in range(1, 31))]),
    one("arguments that grow", "Too long: may not take more than 131071 bytes once", "args[0]", env=[{"name": "a", "value": "x" * 3000}], args=["$(a)" * 60]),
    one("a start that is too large", "together with its arguments", "env", env=[{"name": f"a{n}", "value": "x" * 130_000} for n in range(17)]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_what_a_field_does_not_hold_is_refused(case: Case, api: Api, namespace: str) -> None:
    answer = await api.post(f"{case.path.format(namespace)}?dryRun=All", case.body)
    assert answer.status == case.status, answer.raw
    assert case.message in answer.message
    if case.field:
        assert case.field in answer.causes()


@pytest.mark.parametrize("case", OF_THE_KERNEL, ids=lambda case: case.name)
@pytest.mark.usefixtures("embedded")
async def test_what_the_kernel_would_refuse_is_refused(case: Case, api: Api, namespace: str) -> None:
    await test_what_a_field_does_not_hold_is_refused(case, api, namespace)


TAKEN = [
    ("the largest Deployment", workload("", "", "", replicas=INT32)),
    (
        "a Job until the end of time",
        jobs("", "", "", activeDeadlineSeconds=INT64, ttlSecondsAfterFinished=INT32),
    ),
    ("the largest Job", jobs("", "", "", parallelism=100_000, completions=INT32, completionMode="Indexed")),
    ("more memory than there is", one("", "", "", **requests(memory="1e999"))),
    ("less than nothing more", one("", "", "", **requests(memory="1e-999"))),
    ("half a byte", one("", "", "", **requests(memory=1.5))),
    ("all the time to end", pods("", "", "", terminationGracePeriodSeconds=INT64)),
    ("0 for the default", one("", "", "", readinessProbe=PROBE | {"periodSeconds": 0})),
]


@pytest.mark.parametrize(("name", "case"), TAKEN, ids=[name for name, _ in TAKEN])
async def test_what_a_real_server_takes_is_taken(name: str, case: Case, api: Api, namespace: str) -> None:
    (await api.post(f"{case.path.format(namespace)}?dryRun=All", case.body)).ok(201)


async def test_bodies_that_cannot_be_parsed_are_refused(api: Api, namespace: str) -> None:
    path = CORE.format(namespace) + "/configmaps"
    deep = b'{"a":' * 20_000 + b"1" + b"}" * 20_000
    for body in (deep, b"[" * 100_000, b'{"metadata":{"name":"a"},"data":' + deep + b"}", b"\xff\xfe", b""):
        answer = await api.request("POST", path, body)
        assert (answer.status, answer.json["kind"]) == (400, "Status"), body[:40]
    for query in (
        f"limit={'9' * 5000}",
        f"resourceVersion={'9' * 5000}",
        f"watch=1&timeoutSeconds={'9' * 30}",
    ):
        assert (await api.get(f"{path}?{query}")).status == 400
