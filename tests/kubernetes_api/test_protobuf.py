"""Bodies in protobuf: those of Go's own tests and of kubectl, and damaged ones, which are refused with the reason."""

import base64
import gzip
import random
from pathlib import Path

import orjson
import pytest

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.content import BadContent
from steelyard_local_kubernetes.apiserver.protobuf.body import PROTOBUF, decode_envelope, envelope
from tests.kubernetes_api.api import Answer, Api
from tests.kubernetes_api.conftest import CRDS, Server
from tests.kubernetes_api.test_kubectl import Kubectl, kc
from tests.kubernetes_differential.cases.rows import Value, encoded, labels
from tests.kubernetes_differential.cases.rows import envelope as enveloped

__all__ = ["kc"]
SAMPLES: dict[str, tuple[str, Json]] = orjson.loads(
    gzip.decompress((Path(__file__).parent / "protobuf_samples.json.gz").read_bytes())
)
# Of kubectl 1.32: `create deployment d --image=localhost/none --replicas=2 --port=80`.
DEPLOYMENT = bytes.fromhex(
    "6b3873000a150a07617070732f7631120a4465706c6f796d656e7412b8010a1b0a016412001a0022002a003200380042005a080a0361707012"
    "0164128a010802120a0a080a036170701201641a720a1a0a0012001a0022002a003200380042005a080a03617070120164125412360a046e6f"
    "6e65120e6c6f63616c686f73742f6e6f6e652a00320a0a001000185022002a0042006a007200800100880100900100a201001a00320042004a"
    "0052005800600068008201008a01009a0100c2010022020a00280038001a0c0800100018002000280038001a002200"
)
CONFIG_MAP = enveloped("v1", "ConfigMap", {1: {1: "a"}, 2: labels(k="v")})


def read(body: bytes) -> Json:
    return decode_envelope(envelope(body))


@pytest.mark.parametrize("name", SAMPLES)
def test_what_go_writes_is_read_as_its_json(name: str) -> None:
    body, obj = SAMPLES[name]
    assert read(base64.b64decode(body)) == obj


def test_what_kubectl_writes_is_read() -> None:
    container = {"name": "none", "image": "localhost/none", "ports": [{"containerPort": 80}], "resources": {}}
    spec: Json = {"replicas": 2, "selector": {"matchLabels": {"app": "d"}}, "strategy": {}}
    obj = read(DEPLOYMENT)
    assert obj["spec"].pop("template")["spec"]["containers"] == [container]
    assert obj["spec"] == spec
    assert obj["metadata"] == {"name": "d", "creationTimestamp": None, "labels": {"app": "d"}}


def test_zeros_stay_where_their_absence_means_something_else() -> None:
    body = enveloped("apps/v1", "Deployment", {1: {1: "d"}, 2: {1: 0, 5: 0}})
    assert read(body)["spec"] == {"replicas": 0}


def test_parts_of_one_message_are_one_value() -> None:
    first, second = encoded({1: {1: "a", 11: labels(x="y")}}), encoded({1: {3: "b", 11: labels(z="w")}})
    body = b"k8s\0" + encoded({1: {1: "v1", 2: "ConfigMap"}, 2: first + second})
    assert read(body)["metadata"] == {"name": "a", "namespace": "b", "labels": {"x": "y", "z": "w"}}


def raw(content: bytes, kind: str = "ConfigMap", version: str = "v1") -> bytes:
    return b"k8s\0" + encoded({1: {1: version, 2: kind}, 2: content})


def nested(levels: int) -> bytes:
    """A definition whose schema has that many levels."""
    schema = b""
    for _ in range(levels):
        schema = encoded({25: schema})  # `not`
    return raw(encoded({2: {7: {4: {1: schema}}}}), "CustomResourceDefinition", "apiextensions.k8s.io/v1")


HUGE = b"\xff\xff\xff\xff\x0f"
PLACE = "the object provided is unrecognized (must be of type ConfigMap): "
HANDLED = 'ConfigMap in version "v1" cannot be handled as a ConfigMap: '
DAMAGED: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", PLACE + "empty data (<empty>)"),
    "JSON": (
        b"{}", PLACE + "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0] ({})"),
    "the mark alone": (b"k8s\0", PLACE + "empty body (6b387300)"),
    "a cut envelope": (b"k8s\0\x0a\x7f", PLACE + "unexpected EOF (6b3873000a7f)"),
    "a number in place of the type": (
        b"k8s\0\x08\x01", PLACE + "proto: wrong wireType = 0 for field TypeMeta (6b3873000801)"),
    "a cut object": (raw(b"\x0a\x7f"), HANDLED + "unexpected EOF"),
    "a number in place of metadata": (raw(b"\x08\x01"), HANDLED + "proto: wrong wireType = 0 for field ObjectMeta"),
    "a text in place of a number": (
        raw(b"\x0a\x02\x3a\x00"), HANDLED + "proto: wrong wireType = 2 for field Generation"),
    "a number in place of a pair": (raw(b"\x10\x01"), HANDLED + "proto: wrong wireType = 0 for field Data"),
    "four gigabytes that are not there": (raw(b"\x0a" + HUGE), HANDLED + "unexpected EOF"),
    "a negative length": (
        raw(b"\x0a" + b"\xff" * 9 + b"\x01"), HANDLED + "proto: negative length found during unmarshaling"),
    "an endless number": (raw(b"\x08" + b"\xff" * 20), HANDLED + "proto: integer overflow"),
    "an endless tag": (raw(b"\xff" * 20), HANDLED + "proto: integer overflow"),
    "field 0": (raw(b"\x02\x00"), HANDLED + "proto: ConfigMap: illegal tag 0 (wire type 2)"),
    "the end of no group": (raw(b"\x0c"), HANDLED + "proto: ConfigMap: wiretype end group for non-group"),
    "a wire type that does not exist": (raw(b"\x7e"), HANDLED + "proto: illegal wireType 6"),
    "a group without an end": (raw(b"\x7b" * 1000), HANDLED + "unexpected EOF"),
    "an unknown kind": (
        raw(b"", "Nothing"),
        'Nothing in version "v1" cannot be handled as a ConfigMap: no kind "Nothing" is registered'),
    "another kind": (enveloped("v1", "Secret", {1: {1: "a"}}), "Secret"),
    "managed fields that are no JSON": (
        raw(encoded({1: {1: "a", 17: {7: {1: "{"}}}})), HANDLED),
}  # fmt: skip


@pytest.mark.parametrize(("body", "message"), DAMAGED.values(), ids=DAMAGED.keys())
async def test_a_damaged_body_is_refused_with_the_reason(
    embedded: Server, api: Api, core: str, body: bytes, message: str
) -> None:
    answer = await send(api, f"{core}/configmaps", body)
    assert (answer.status, answer.json["reason"]) == (400, "BadRequest")
    assert message in answer.message


async def send(api: Api, path: str, body: bytes, method: str = "POST") -> Answer:
    return await api.request(method, path, body, type=PROTOBUF)


async def test_fields_and_groups_of_later_versions_are_passed_over(api: Api, core: str) -> None:
    later = b"\xf8\x3f\x01" + b"\xfb\x3f\x08\x01\x13\x14\xfc\x3f" + b"\xfd\x3f1234" + b"\xf9\x3f12345678"
    stored = await send(api, f"{core}/configmaps", raw(encoded({1: {1: "a"}, 2: labels(k="v")}) + later))
    assert stored.ok(201).json["data"] == {"k": "v"}


async def test_any_damage_is_a_refusal(embedded: Server, api: Api, core: str) -> None:
    """Bytes changed, cut off, doubled: other content is a 400, and nothing ends the server."""
    chance = random.Random(5)
    bodies = [DEPLOYMENT, *(base64.b64decode(body) for body, _ in SAMPLES.values())]
    outcomes = set()
    for _ in range(3000):
        body = bytearray(chance.choice(bodies))
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(4, len(body))
            match chance.randrange(3):
                case 0:
                    body[at] = chance.randrange(256)
                case 1:
                    del body[at:]
                    body += b"k8s\0\0"[: max(0, 5 - len(body))]
                case 2:
                    body[at:at] = body[at : at + chance.randint(1, 9)]
        try:
            orjson.dumps(read(bytes(body)))
            outcomes.add("read")
        except BadContent:
            outcomes.add("refused")
    assert outcomes == {"read", "refused"}
    for cut in range(0, len(DEPLOYMENT), 7):
        path = f"/apis/apps/v1/{core.removeprefix('/api/v1/')}/deployments?dryRun=All"
        assert (await send(api, path, DEPLOYMENT[:cut])).status in (400, 422)


async def test_schemas_within_schemas_have_an_end(embedded: Server, api: Api) -> None:
    assert "exceeded max depth" in (await send(api, CRDS, nested(500))).message
    assert (await send(api, CRDS, nested(500))).status == 400
    assert "max depth" not in (await send(api, f"{CRDS}?dryRun=All", nested(20))).message


async def test_replaced_and_deleted_in_protobuf(api: Api, core: str) -> None:
    (await send(api, f"{core}/configmaps", CONFIG_MAP)).ok(201)
    changed = enveloped("v1", "ConfigMap", {1: {1: "a"}, 2: labels(k="w")})
    replaced = (await send(api, f"{core}/configmaps/a", changed, "PUT")).ok(200)
    assert replaced.json["data"] == {"k": "w"}
    wrong: dict[int, Value | list[Value]] = {2: {1: "another-uid"}}
    options = enveloped("v1", "DeleteOptions", wrong)
    assert (await send(api, f"{core}/configmaps/a", options, "DELETE")).status == 409
    own: dict[int, Value | list[Value]] = {2: {1: replaced.json["metadata"]["uid"]}}
    (await send(api, f"{core}/configmaps/a", enveloped("v1", "DeleteOptions", own), "DELETE")).ok(200)
    assert (await api.get(f"{core}/configmaps/a")).status == 404


async def test_damaged_options_delete_nothing(embedded: Server, api: Api, core: str) -> None:
    (await send(api, f"{core}/configmaps", CONFIG_MAP)).ok(201)
    assert (await send(api, f"{core}/configmaps/a", raw(b"\x0a\x7f"), "DELETE")).status == 400
    (await api.get(f"{core}/configmaps/a")).ok(200)


async def test_custom_objects_are_not_sent_in_protobuf(embedded: Server, api: Api, widgets: str) -> None:
    """A real server refuses the body unread, and often ends the connection before its answer is read."""
    answer = await send(api, widgets, CONFIG_MAP)
    assert answer.status == 415
    assert answer.message.endswith("accepted media types include: application/json, application/yaml")


async def test_answers_in_protobuf_alone_are_refused(embedded: Server, api: Api, core: str) -> None:
    assert (await api.get(f"{core}/configmaps", accept=PROTOBUF)).status == 406
    answer = await api.get(f"{core}/configmaps", accept=f"{PROTOBUF},application/json")
    assert answer.ok(200).headers["Content-Type"] == "application/json"


async def test_bodies_in_yaml(api: Api, core: str) -> None:
    body = b"metadata: {name: yaml}\ndata:\n  a: b\n"
    made = await api.request("POST", f"{core}/configmaps", body, type="application/yaml")
    assert made.ok(201).json["data"] == {"a": "b"}
    refused = await api.request("POST", f"{core}/configmaps", b"a: [", type="application/yaml")
    assert refused.status == 400
    for letter, value in (("y", "bool"), ("N", "bool"), ("1", "number")):
        unfit = await api.request(
            "POST", f"{core}/configmaps", b"metadata: {name: %b}" % letter.encode(), type="application/yaml"
        )
        assert (unfit.status, f"cannot unmarshal {value} into Go struct field" in unfit.message) == (
            400,
            True,
        )
    options = b"preconditions: {uid: other}"
    assert (
        await api.request("DELETE", f"{core}/configmaps/yaml", options, type="application/yaml")
    ).status == 409


async def test_generators_of_kubectl(kc: Kubectl, api: Api, core: str, namespace: str) -> None:
    assert await kc("create", "namespace", f"{namespace}-x") == f"namespace/{namespace}-x created\n"
    await kc("delete", "namespace", f"{namespace}-x", "--wait=false")
    image = "--image=localhost/none"
    assert await kc("create", "deployment", "d", image, "--replicas=0") == "deployment.apps/d created\n"
    assert await kc("run", "p", image, "--restart=Never", "--", "true") == "pod/p created\n"
    assert await kc("create", "job", "j", image, "--", "true") == "job.batch/j created\n"
    assert await kc("create", "configmap", "c", "--from-literal=a=b") == "configmap/c created\n"
    assert await kc("create", "secret", "generic", "s", "--from-literal=a=b") == "secret/s created\n"
    assert await kc("create", "role", "r", "--verb=get", "--resource=pods") == (
        "role.rbac.authorization.k8s.io/r created\n"
    )
    await kc("create", "rolebinding", "b", "--role=r", "--serviceaccount=a:b")
    await kc("create", "serviceaccount", "account")
    await kc("create", "service", "clusterip", "service", "--tcp=80:8080")
    assert (await api.get(f"{core}/configmaps/c")).json["data"] == {"a": "b"}
    assert (await api.get(f"{core}/secrets/s")).json["data"] == {"a": "Yg=="}
    pod = (await api.get(f"{core}/pods/p")).json
    assert pod["spec"]["containers"][0]["args"] == ["true"]
    assert (await kc("create", "token", "account")).count(".") == 2
    assert await kc("auth", "can-i", "get", "pods") == "yes\n"
    assert "Username" in await kc("auth", "whoami")
    assert "already exists" in await kc("create", "configmap", "c", ok=False)
