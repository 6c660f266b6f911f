"""Bodies as a real server's decoder reads them; the messages are a real server's."""

from typing import Any

import pytest

from steelyard_local_kubernetes.apiserver.decoding import Undecodable, decode_fields
from steelyard_local_kubernetes.apiserver.published import kind_node

Value = dict[str, Any]


def decoded(kind: str, value: Value, group: str = "") -> list[str]:
    """The unknown fields; the value is changed in place."""
    unknown: list[str] = []
    decode_fields(kind_node(group, "v1", kind), value, unknown)
    return unknown


CONTAINERS = "json: cannot unmarshal %s into Go struct field Container.spec.containers.%s of type %s"


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (
            "Pod",
            {"spec": {"containers": {}}},
            "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        ("Pod", {"spec": {"containers": [{"name": 1}]}}, CONTAINERS % ("number", "name", "string")),
        (
            "Pod",
            {"spec": {"containers": [{"resources": {"limits": []}}]}},
            "json: cannot unmarshal array into Go struct field ResourceRequirements.spec.containers.resources.limits"
            " of type v1.ResourceList",
        ),
        (
            "Pod",
            {"spec": {"containers": [{"imagePullPolicy": True}]}},
            CONTAINERS % ("bool", "imagePullPolicy", "v1.PullPolicy"),
        ),
        (
            "Pod",
            {"spec": {"activeDeadlineSeconds": 1.5}},
            "json: cannot unmarshal number 1.5 into Go struct field PodSpec.spec.activeDeadlineSeconds of type int64",
        ),
        (
            "Service",
            {"spec": {"ports": [{"targetPort": 2**31}]}},
            "json: cannot unmarshal number 2147483648 into Go struct field ServicePort.spec.ports.targetPort of type"
            " int32",
        ),
        (
            "Pod",
            {"metadata": {"labels": {"a": True}}},
            "json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            "Pod",
            {"spec": {"containers": [{"resources": {"limits": {"cpu": "many"}}}]}},
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        ("Secret", {"data": {"a": "x"}}, "illegal base64 data at input byte 0"),
        ("Secret", {"data": {"a": "eA=a"}}, "illegal base64 data at input byte 2"),
        ("Secret", {"data": {"a": "eHg=a"}}, "illegal base64 data at input byte 4"),
    ],
)
def test_what_does_not_fit_is_refused_in_gos_words(kind: str, value: Value, message: str) -> None:
    with pytest.raises(Undecodable) as caught:
        decoded(kind, value)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("x", ' as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"'),
        ("2020-01-01", ' as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T"'),
        ("2020-13-01T00:00:00Z", ": month out of range"),
        ("2020-02-30T00:00:00Z", ": day out of range"),
        ("2020-01-01T00:00:00", ' as "2006-01-02T15:04:05Z07:00": cannot parse "" as "Z07:00"'),
        ("2020-01-01T00:00:00Zx", ': extra text: "x"'),
    ],
)
def test_times_that_are_none(text: str, fault: str) -> None:
    with pytest.raises(Undecodable) as caught:
        decoded("Pod", {"metadata": {"creationTimestamp": text}})
    assert str(caught.value) == f'parsing time "{text}"{fault}'


def test_times_are_written_in_utc() -> None:
    value: Value = {"metadata": {"creationTimestamp": "2020-01-01T01:00:00.5+01:00"}, "spec": {}}
    decoded("Pod", value)
    assert value["metadata"] == {"creationTimestamp": "2020-01-01T00:00:00Z"}


def test_nulls_and_empty_fields_are_as_go_writes_them() -> None:
    container: Value = {"name": None, "image": "", "ports": [], "resources": None, "stdin": False}
    value: Value = {
        "spec": {"nodeName": None, "priority": 0, "containers": [container, None]},
        "status": None,
    }
    assert decoded("Pod", value) == []
    empty = {"name": "", "resources": {}}
    assert value == {"metadata": {}, "spec": {"priority": 0, "containers": [empty, empty]}, "status": {}}


def test_an_empty_list_that_is_always_written_is_null() -> None:
    value: Value = {"rules": []}
    decoded("Role", value, "rbac.authorization.k8s.io")
    assert value == {"metadata": {}, "rules": None}


def test_a_field_behind_a_gate_is_read_and_dropped() -> None:
    value: Value = {"spec": {"strategy": "OldestEmulationVersion", "holderIdentity": "a"}}
    assert decoded("Lease", value, "coordination.k8s.io") == []
    assert value["spec"] == {"holderIdentity": "a"}


def test_a_schema_in_a_schema_is_decoded_for_itself() -> None:
    """A real server names the place of the inner schema, and no unknown fields in it."""

    def definition(**schema: Any) -> Value:
        return {"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}}

    group = "apiextensions.k8s.io"
    value = definition(items={"type": "string", "typo": 1}, typo=1)
    assert decoded("CustomResourceDefinition", value, group) == [
        "spec.versions[0].schema.openAPIV3Schema.typo"
    ]
    assert value["spec"]["versions"][0]["schema"]["openAPIV3Schema"] == {"items": {"type": "string"}}
    with pytest.raises(Undecodable, match="boolean or JSON schema expected"):
        decoded("CustomResourceDefinition", definition(additionalProperties=1), group)
    place = "JSONSchemaProps.spec.versions.schema.openAPIV3Schema.items of type bool"
    with pytest.raises(Undecodable, match=place):
        decoded("CustomResourceDefinition", definition(items={"nullable": 1}), group)
