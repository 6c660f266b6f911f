# ruff: noqa: E501 - a table is read by its rows
"""Tests of refusals, which name the field and the reason: a table, the same on both servers."""

from dataclasses import dataclass
from typing import Any

import pytest

from tests.kubernetes_api.api import JSON_PATCH, MERGE, Api, config_map, job, pod


@dataclass(frozen=True)
class Case:
    name: str
    method: str
    path: str  # below the namespace's core group, unless it begins with a slash
    body: Any
    status: int
    message: str  # a part of it
    field: str = ""
    type: str = "application/json"


CONTAINER = {"name": "main", "image": "x"}
BATCH = "/apis/batch/v1/namespaces/{namespace}/jobs"
APPS = "/apis/apps/v1/namespaces/{namespace}/deployments"


def container(**more: Any) -> dict[str, Any]:
    return pod("p", containers=[CONTAINER | more])


def deployment(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "d"}, "spec": {"template": {"spec": {"containers": [CONTAINER]}}, **spec}}


CASES = [
    # ---- decoding
    Case("not JSON", "POST", "configmaps", b"{", 400, "the object provided is unrecognized"),
    Case("a list", "POST", "configmaps", [1], 400, "the object provided is unrecognized"),
    Case("another kind", "POST", "configmaps", {"kind": "Pod", "apiVersion": "v1"}, 400, "cannot be handled as a ConfigMap"),
    Case("a text for a list", "POST", "pods", pod("p", containers="x"), 400, "json: cannot unmarshal string"),
    Case("a text for a number", "POST", "pods", container(ports=[{"containerPort": "80"}]), 400, "cannot unmarshal string"),
    Case("no quantity", "POST", "pods", container(resources={"limits": {"cpu": "x"}}), 400, "quantities must match"),
    Case(
        "unknown fields, strictly", "POST", "pods?fieldValidation=Strict", container(foo=1, bar=2), 400,
        'strict decoding error: unknown field "spec.containers[0].',
    ),
    Case("an unknown mode", "POST", "configmaps?fieldValidation=foo", config_map("a"), 422, 'Unsupported value: "foo"', "fieldValidation"),
    Case("an unknown dry run", "POST", "configmaps?dryRun=foo", config_map("a"), 422, "Unsupported value", "dryRun"),
    Case("plain text", "POST", "configmaps", b"{}", 415, "unknown format", type="text/plain"),
    # ---- names
    Case("no name", "POST", "configmaps", {"metadata": {}}, 422, "name or generateName is required", "metadata.name"),
    Case("a bad name", "POST", "configmaps", config_map("A_b"), 422, "a lowercase RFC 1123 subdomain", "metadata.name"),
    Case("a long name", "POST", "configmaps", config_map("a" * 254), 422, "must be no more than 253", "metadata.name"),
    Case("a bad label", "POST", "configmaps", config_map("a", labels={"a": "b c"}), 422, "a valid label must be", "metadata.labels"),
    Case("a bad key", "POST", "configmaps", config_map("a", {"a/b": "x"}), 422, "a valid config key", "data[a/b]"),
    Case("another namespace", "POST", "configmaps", config_map("a", namespace="b"), 400, "does not match the namespace"),
    Case("a missing namespace", "POST", "/api/v1/namespaces/absent/configmaps", config_map("a"), 404, 'namespaces "absent" not found'),
    Case("no namespace", "POST", "/api/v1/configmaps", config_map("a"), 405, "does not allow this method"),
    # ---- identity
    Case("absent", "GET", "configmaps/no", None, 404, 'configmaps "no" not found'),
    Case("replacing the absent", "PUT", "configmaps/no", config_map("no"), 404, 'configmaps "no" not found'),
    Case("patching the absent", "PATCH", "configmaps/no", {}, 404, "not found", type=MERGE),
    Case("another name", "PUT", "configmaps/there", config_map("other"), 400, "does not match the name on the URL"),
    Case("twice", "POST", "configmaps", config_map("there"), 409, 'configmaps "there" already exists'),
    Case("a stale version", "PUT", "configmaps/there", config_map("there", resourceVersion="1"), 409, "the object has been modified"),
    Case("another uid", "PUT", "configmaps/there", config_map("there", uid="x"), 409, "UID in precondition: x"),
    Case("a patched uid", "PATCH", "configmaps/there", {"metadata": {"uid": "x"}}, 422, "field is immutable", "metadata.uid", MERGE),
    Case("deleting another uid", "DELETE", "configmaps/there", {"preconditions": {"uid": "x"}}, 409, "does not match the UID in record"),
    Case("deleting another version", "DELETE", "configmaps/there", {"preconditions": {"resourceVersion": "1"}}, 409, "does not match the ResourceVersion"),
    # ---- patches
    Case("a failed test", "PATCH", "configmaps/there", [{"op": "test", "path": "/data", "value": 1}], 422, "", type=JSON_PATCH),
    Case("an absent path", "PATCH", "configmaps/there", [{"op": "remove", "path": "/data/x"}], 422, "", type=JSON_PATCH),
    Case("a patch of another form", "PATCH", "configmaps/there", {"op": "x"}, 400, "error decoding patch", type=JSON_PATCH),
    Case("a merge patch of another form", "PATCH", "configmaps/there", [], 400, "error decoding patch", type=MERGE),
    Case("a patch of no known form", "PATCH", "configmaps/there", {}, 415, "Unsupported Media Type", type="text/plain"),
    Case("a number for a text", "PATCH", "configmaps/there", {"data": {"a": 1}}, 422, "cannot unmarshal number", "patch", MERGE),
    Case("an unknown field", "PATCH", "configmaps/there?fieldValidation=Strict", {"foo": 1}, 422, 'unknown field "foo"', "patch", MERGE),
    # ---- Pods
    Case("no containers", "POST", "pods", pod("p", containers=[]), 422, "Required value", "spec.containers"),
    Case("a bad container name", "POST", "pods", container(name="A"), 422, "a lowercase RFC 1123 label", "spec.containers[0].name"),
    Case("no image", "POST", "pods", container(image=""), 422, "Required value", "spec.containers[0].image"),
    Case("one name twice", "POST", "pods", pod("p", containers=[CONTAINER] * 2), 422, 'Duplicate value: "main"', "spec.containers[1].name"),
    Case("an absent volume", "POST", "pods", container(volumeMounts=[{"name": "v", "mountPath": "/v"}]), 422, 'Not found: "v"', "spec.containers[0].volumeMounts[0].name"),
    Case("an unknown policy", "POST", "pods", pod("p", restartPolicy="x"), 422, 'supported values: "Always", "OnFailure", "Never"', "spec.restartPolicy"),
    Case("more than the limit", "POST", "pods", container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}), 422, "must be less than or equal to cpu limit", "spec.containers[0].resources.requests"),
    Case("an edited Pod", "PATCH", "pods/there", {"spec": {"restartPolicy": "Never"}}, 422, "pod updates may not change fields other than", "spec", MERGE),
    # ---- workloads
    Case("a Job that restarts always", "POST", BATCH, job("j", template={"spec": {"containers": [CONTAINER]}}), 422, "Required value: valid values", "spec.template.spec.restartPolicy"),
    Case("a negative number", "POST", BATCH, job("j", backoffLimit=-1), 422, "must be greater than or equal to 0", "spec.backoffLimit"),
    Case("no selector", "POST", APPS, deployment(), 422, "Required value", "spec.selector"),
    Case("a selector of others", "POST", APPS, deployment(selector={"matchLabels": {"a": "b"}}), 422, "`selector` does not match template `labels`", "spec.template.metadata.labels"),
    Case("no ports", "POST", "services", {"metadata": {"name": "s"}, "spec": {}}, 422, "Required value", "spec.ports"),
    Case("a foreign address", "POST", "services", {"metadata": {"name": "s"}, "spec": {"clusterIP": "1.2.3.4", "ports": [{"port": 1}]}}, 422, "failed to allocate IP 1.2.3.4", "spec.clusterIPs"),
    Case("a lease of no time", "POST", "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases", {"metadata": {"name": "l"}, "spec": {"leaseDurationSeconds": 0}}, 422, "must be greater than 0", "spec.leaseDurationSeconds"),
    Case("an event of elsewhere", "POST", "events", {"metadata": {"name": "e"}, "involvedObject": {"namespace": "x"}}, 422, "does not match event.namespace", "involvedObject.namespace"),
    # ---- reading
    Case("a bad selector", "GET", "pods?labelSelector=a%3Db%3Dc", None, 400, ""),
    Case("an unknown field to select by", "GET", "pods?fieldSelector=foo%3Db", None, 400, "field label not supported: foo"),
    Case("a bad limit", "GET", "pods?limit=x", None, 400, 'strconv.ParseInt: parsing "x"'),
    Case("a bad version", "GET", "pods?resourceVersion=x", None, 400, "invalid resource version"),
    Case("a bad token", "GET", "pods?limit=1&continue=zz", None, 400, "continue key is not valid"),
    Case("a match without a version", "GET", "pods?resourceVersionMatch=Exact", None, 422, "is forbidden unless resourceVersion is provided", "resourceVersionMatch"),
    # ---- paths and methods
    Case("an unknown kind", "GET", "foos", None, 404, "the server could not find the requested resource"),
    Case("an unknown part", "GET", "pods/there/foo", None, 404, "the server could not find the requested resource"),
    Case("a method of one on all", "PUT", "configmaps", {}, 405, "does not allow this method"),
    Case("a method of all on one", "POST", "configmaps/there", {}, 405, "does not allow this method"),
    Case("a permanent namespace", "DELETE", "/api/v1/namespaces/default", None, 403, "this namespace may not be deleted"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_it_is_refused(case: Case, api: Api, core: str, namespace: str) -> None:
    for plural, obj in (("configmaps", config_map("there")), ("pods", pod("there"))):
        (await api.post(f"{core}/{plural}", obj)).ok(201)
    path = case.path.format(namespace=namespace) if case.path.startswith("/") else f"{core}/{case.path}"
    answer = await api.request(case.method, path, case.body, type=case.type)
    assert answer.status == case.status, answer.raw
    status = answer.json
    assert (status["kind"], status["status"], status["code"]) == ("Status", "Failure", case.status)
    assert case.message in answer.message
    if case.field:
        assert case.field in answer.causes()


async def test_unknown_fields_are_warned_of(api: Api, core: str) -> None:
    answer = (await api.post(f"{core}/configmaps", config_map("w") | {"foo": 1})).ok(201)
    assert answer.warnings == ['unknown field "foo"']
    assert "foo" not in answer.json
    ignored = (await api.post(f"{core}/configmaps?fieldValidation=Ignore", config_map("w2") | {"foo": 1})).ok(
        201
    )
    assert not ignored.warnings
    assert "foo" not in ignored.json


LATER = [
    ("PUT", "pods/p/ephemeralcontainers", {"spec": {"ephemeralContainers": [{"name": "e", "image": "x"}]}},
     "application/json", 501, "use kubectl exec or kubectl debug --copy-to"),
    ("POST", "configmaps", b"k8s\x00", "application/vnd.kubernetes.protobuf", 400, "empty body"),
    ("POST", "services", {"metadata": {"name": "n"}, "spec": {"ports": [{"port": 1, "protocol": "SCTP"}]}},
     "application/json", 422, 'supported values: "TCP", "UDP"'),
]  # fmt: skip


@pytest.mark.parametrize("case", LATER, ids=lambda case: case[5])
async def test_what_is_not_served_says_so(
    case: tuple[str, str, Any, str, int, str], embedded: object, api: Api, core: str, namespace: str
) -> None:
    method, path, body, media, status, message = case
    path = path.format(namespace=namespace) if path.startswith("/") else f"{core}/{path}"
    (await api.post(f"{core}/configmaps", config_map("there"))).ok(201)
    answer = await api.request(method, path, body, type=media)
    assert answer.status == status
    assert message in answer.message


async def test_too_large_a_body_is_refused(api: Api, core: str) -> None:
    answer = await api.post(f"{core}/configmaps", config_map("big", {"a": "x" * (3 << 20)}))
    assert (answer.status, answer.json["reason"]) == (413, "RequestEntityTooLarge")


@pytest.mark.parametrize("megabytes", [1.1, 2, 2.9, 3.1])
async def test_bodies_of_every_size_are_answered_in_json(
    embedded: object, api: Api, core: str, megabytes: float
) -> None:
    """An object larger than allowed is refused for its size, and beyond the limit of bodies for the body."""
    answer = await api.post(f"{core}/configmaps", config_map("big", {"a": "x" * int(megabytes * 2**20)}))
    assert answer.json["kind"] == ("ConfigMap" if answer.status == 201 else "Status"), answer
    assert answer.status in (201, 413, 422), answer.message
    assert ("limit is 3145728" in answer.message) == (megabytes > 3)


async def test_without_a_token_nothing_is_answered(embedded: object, api: Api, core: str) -> None:
    for token, refused in (("", (403, "Forbidden")), ("wrong", (401, "Unauthorized"))):
        answer = await api.request("GET", f"{core}/pods", token=token)
        assert (answer.status, answer.json["reason"]) == refused
        assert (await api.request("GET", "/healthz", token=token)).status == 200
