# ruff: noqa: E501 - a table is read by its rows
"""Tests of all causes of a refusal, in their order: a table, the same on both servers."""

from typing import Any

import pytest

from steelyard_common.types import Json
from tests.kubernetes_api.api import Api
from tests.kubernetes_api.conftest import CRDS

CONTAINER: Json = {"name": "main", "image": "x"}
APPS = "/apis/apps/v1/namespaces/{namespace}"
JOBS = "/apis/batch/v1/namespaces/{namespace}/jobs"
SCALERS = "/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers"
IMAGE = "spec.template.spec.containers[0].image: Required value"
UNMATCHED = "spec.template.metadata.labels: Invalid value: {}: `selector` does not match template `labels`"
LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character "
    "(e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
NO_STORED = "status.storedVersions: Invalid value: null: must have at least one stored version"
SCHEMA = "spec.validation.openAPIV3Schema"


def templated(labels: Json | None, *containers: Json, **spec: Any) -> Json:
    template = {
        "metadata": {} if labels is None else {"labels": labels},
        "spec": {"containers": list(containers)},
    }
    return {"metadata": {"name": "a"}, "spec": {"template": template, **spec}}


def definition(name: str = "v1", schema: Json | None = None, **spec: Any) -> Json:
    version = {
        "name": name,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema or {"type": "object"}},
    }
    names = {"plural": "as", "kind": "A"}
    whole = {"group": "example.dev", "scope": "Namespaced", "names": names, "versions": [version], **spec}
    return {
        "metadata": {"name": "as.example.dev"},
        "spec": {name: value for name, value in whole.items() if value != "absent"},
    }


def ruled(rule: Json, **more: Any) -> Json:
    return {
        "type": "object",
        "properties": {"spec": {"type": "object", "x-kubernetes-validations": [rule], **more}},
    }


CASES: dict[str, tuple[str, Json, list[str]]] = {
    "a set without a selector": (
        f"{APPS}/replicasets", templated({"a": "b"}),
        ["spec.selector: Required value", UNMATCHED.replace("{}", '{"a":"b"}'), "spec.template.spec.containers: Required value"],
    ),
    "a template with empty labels": (f"{APPS}/replicasets", templated({}, CONTAINER, selector={"matchLabels": {"a": "b"}}), [UNMATCHED]),
    "a template without labels": (
        f"{APPS}/deployments", templated(None, CONTAINER, selector={"matchLabels": {"a": "b"}}), [UNMATCHED.replace("{}", "null")],
    ),
    "a selector that cannot be used": (
        f"{APPS}/deployments", templated({"a": "b"}, selector={"matchExpressions": [{"values": ["b"], "key": "a"}]}),
        [
            'spec.selector.matchExpressions[0].operator: Invalid value: "": not a valid selector operator',
            'spec.selector: Invalid value: {"matchExpressions":[{"key":"a","operator":"","values":["b"]}]}: invalid label selector',
        ],
    ),
    "a template that ends": (
        f"{APPS}/deployments",
        {"metadata": {"name": "a"}, "spec": {"replicas": -1, "minReadySeconds": -1, "selector": {"matchLabels": {"a": "b"}}, "template": {
            "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main"}], "restartPolicy": "Never", "activeDeadlineSeconds": 1}}}},
        [
            "spec.replicas: Invalid value: -1: must be greater than or equal to 0", IMAGE,
            'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"',
            "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported",
            "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0",
        ],
    ),
    "an empty selector": (
        f"{APPS}/statefulsets", templated({"a": "b"}, {"name": "main"}, selector={}),
        ["spec.selector: Invalid value: {}: empty selector is invalid for statefulset", IMAGE],
    ),
    "a set of daemons without a selector": (
        f"{APPS}/daemonsets", templated({"a": "b"}, {"name": "main"}), [UNMATCHED.replace("{}", '{"a":"b"}'), IMAGE],
    ),
    "a Job that restarts always": (
        JOBS, templated(None, {"name": "main"}, completionMode="Never", maxFailedIndexes=1),
        [
            "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
            'spec.completionMode: Unsupported value: "Never": supported values: "NonIndexed", "Indexed"', IMAGE,
            'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"',
        ],
    ),
    "a Job of a selector of its own": (
        JOBS, templated({"a": "b"}, CONTAINER, manualSelector=True),
        [
            'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"',
            "spec.selector: Required value", UNMATCHED.replace("{}", '{"a":"b"}'),
        ],
    ),
    "users of its own beside the host's network": (
        "/api/v1/namespaces/{namespace}/pods",
        {"metadata": {"name": "p"}, "spec": {"hostUsers": False, "hostNetwork": True, "hostPID": True, "containers": [CONTAINER], "hostname": "A"}},
        [
            "spec.hostNetwork: Forbidden: when `hostUsers` is false",
            "spec.HostPID: Forbidden: when `hostUsers` is false",
            "spec.hostname: Invalid value: \"A\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
        ],
    ),
    "a CronJob of a Job that restarts always": (
        "/apis/batch/v1/namespaces/{namespace}/cronjobs",
        {"metadata": {"name": "a"}, "spec": {"schedule": "x", "failedJobsHistoryLimit": -1, "jobTemplate": {"spec": {
            **templated({"a": "b"}, {"name": "main"})["spec"], "parallelism": -1, "manualSelector": True, "maxFailedIndexes": 1, "selector": {"matchLabels": {"a": "b"}}}}}},
        [
            'spec.schedule: Invalid value: "x": expected exactly 5 fields, found 1: [x]',
            "spec.jobTemplate.spec.parallelism: Invalid value: -1: must be greater than or equal to 0",
            "spec.jobTemplate.spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
            "spec.jobTemplate.spec.maxFailedIndexes: Invalid value: 1: requires indexed completion mode",
            "spec.jobTemplate.spec.template.spec.containers[0].image: Required value",
            'spec.jobTemplate.spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"',
            'spec.jobTemplate.spec.selector: Invalid value: {"matchLabels":{"a":"b"}}: `selector` will be auto-generated',
            'spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: "nil", "false"',
            "spec.failedJobsHistoryLimit: Invalid value: -1: must be greater than or equal to 0",
        ],
    ),
    "a CronJob": (
        "/apis/batch/v1/namespaces/{namespace}/cronjobs",
        {"metadata": {"name": "a"}, "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}}}}}, [],
    ),
    "a CronJob with a name too long for its Jobs": (
        "/apis/batch/v1/namespaces/{namespace}/cronjobs",
        {"metadata": {"name": "x" * 53}, "spec": {"schedule": "TZ=UTC x", "timeZone": "../x", "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}}}}},
        [
            'spec.schedule: Invalid value: "TZ=UTC x": expected exactly 5 fields, found 1: [x]',
            'spec.schedule: Invalid value: "TZ=UTC x": cannot use TZ or CRON_TZ in schedule, use timeZone field instead',
            'spec.timeZone: Invalid value: "../x": unknown time zone ../x',
            f'metadata.name: Invalid value: "{"x" * 53}": must be no more than 52 characters',
        ],
    ),
    "an indexed Job with a name too long for its Pods": (
        JOBS, {"metadata": {"name": "x" * 61}, "spec": {"completions": 11, "completionMode": "Indexed", "template": {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}}},
        [f'metadata.name: Invalid value: "{"x" * 61}": will not able to create pod with invalid DNS label: {"x" * 61}-10'],
    ),
    "an autoscaler whose behavior and metrics cannot be used": (
        SCALERS,
        {"metadata": {"name": "a"}, "spec": {
            "maxReplicas": 2, "scaleTargetRef": {"kind": "Deployment", "name": "d/e"}, "behavior": {"scaleUp": {"stabilizationWindowSeconds": -1, "policies": [{"type": "Pods", "value": 1, "periodSeconds": 1801}]}},
            "metrics": [{"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "Value", "value": "0"}}}, {"type": "Object"}]}},
        [
            "spec.scaleTargetRef.name: Invalid value: \"d/e\": may not contain '/'",
            'spec.scaleTargetRef.apiVersion: Invalid value: "": apiVersion must specify API group',
            'spec.metrics[0].pods.target.value: Invalid value: "0": must be positive',
            "spec.metrics[0].pods.target.averageValue: Required value: must specify a positive target averageValue",
            "spec.metrics[1].object: Required value: must populate information for the given metric source",
            "spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: -1: must be greater than or equal to zero",
            "spec.behavior.scaleUp.policies[0].periodSeconds: Invalid value: 1801: must be less than or equal to 1800",
        ],
    ),
    "a StatefulSet with a name that is no host name": (
        f"{APPS}/statefulsets",
        {"metadata": {"name": "a.b"}, "spec": {**templated({"a": "b"}, CONTAINER, selector={"matchLabels": {"a": "b"}})["spec"], "serviceName": "A", "updateStrategy": {"type": "foo"}}},
        [
            'metadata.name: Invalid value: "a.b": must not contain dots',
            """spec.updateStrategy: Invalid value: {"Type":"foo","RollingUpdate":null}: must be 'RollingUpdate' or 'OnDelete'""",
            f'spec.serviceName: Invalid value: "A": {LABEL_TEXT}',
        ],
    ),
    "a DaemonSet that replaces no Pod": (
        f"{APPS}/daemonsets", templated({"a": "b"}, CONTAINER, selector={"matchLabels": {"a": "b"}}, updateStrategy={"rollingUpdate": {"maxUnavailable": 0}}),
        ["spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0"],
    ),
    "no Pods without a metric": (
        SCALERS, {"metadata": {"name": "a"}, "spec": {"minReplicas": 0, "maxReplicas": 2, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}},
        [
            "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1",
            "spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to zero replicas",
        ],
    ),
    "a definition without versions": (
        CRDS, definition(versions="absent"), ["spec.versions: Invalid value: null: must have exactly one version marked as storage version", NO_STORED],
    ),
    "a definition of no versions": (
        CRDS, definition(versions=[]), ["spec.versions: Invalid value: []: must have exactly one version marked as storage version", NO_STORED],
    ),
    "an exclusive bound without a bound": (
        CRDS, definition(schema={"type": "object", "properties": {"n": {"type": "integer", "exclusiveMinimum": True, "exclusiveMaximum": True}}}), [],
    ),
    "unknown fields that are kept, and a default": (
        CRDS, definition(preserveUnknownFields=True, schema={"type": "object", "properties": {"n": {"type": "integer", "default": 1}}}),
        [
            "spec.preserveUnknownFields: Invalid value: true: must be false in order to use defaults in the schema",
            "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        ],
    ),
    "an old self that no rule asks for": (
        CRDS, definition(schema=ruled({"rule": "self.size() > 0", "optionalOldSelf": False}, additionalProperties={"type": "string"}, maxProperties=2)),
        [f"{SCHEMA}.properties[spec].x-kubernetes-validations[0].optionalOldSelf: Invalid value: false: may not be set if oldSelf is not used in rule"],
    ),
    "a rule without its text beside another fault": (
        CRDS, definition(schema=ruled({"message": "m"}, uniqueItems=True)),
        [
            f"{SCHEMA}.properties[spec].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
            f"{SCHEMA}.properties[spec].x-kubernetes-validations[0].rule: Required value: rule is not specified",
        ],
    ),
    "a schema that cannot be read as a structure": (
        CRDS, definition(schema={"type": "object", "x-kubernetes-preserve-unknown-fields": False, "properties": {"a": {}}}),
        [f"{SCHEMA}.x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
async def test_all_causes_are_named_in_their_order(name: str, api: Api, namespace: str) -> None:
    path, body, faults = CASES[name]
    answer = await api.post(f"{path.format(namespace=namespace)}?dryRun=All", body)
    causes = answer.json.get("details", {}).get("causes", [])
    assert answer.status == (422 if faults else 201), answer.raw
    assert [f"{cause['field']}: {cause['message']}" for cause in causes] == faults


async def test_labels_that_are_none_are_left_out_of_what_is_written(api: Api, namespace: str) -> None:
    path, none_of_them = (
        APPS.format(namespace=namespace),
        {"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]},
    )
    for plural in ("deployments", "replicasets", "statefulsets", "daemonsets"):
        made = (
            await api.post(f"{path}/{plural}?dryRun=All", templated({}, CONTAINER, selector=none_of_them))
        ).ok(201)
        assert "labels" not in made.json["spec"]["template"]["metadata"], plural


async def test_ports_in_the_network_of_the_host_are_the_hosts(api: Api, core: str) -> None:
    ports = [{"containerPort": 8080}, {"containerPort": 8081, "hostPort": 8081}]
    spec = {"hostNetwork": True, "containers": [{**CONTAINER, "ports": ports}]}
    made = (await api.post(f"{core}/pods?dryRun=All", {"metadata": {"name": "p"}, "spec": spec})).ok(201)
    assert [port["hostPort"] for port in made.json["spec"]["containers"][0]["ports"]] == [8080, 8081]
