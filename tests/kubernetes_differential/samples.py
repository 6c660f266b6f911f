"""Paths and objects that several files of cases use."""

from typing import Any

from steelyard_common.types import Json

CORE = "/api/v1/namespaces/{{ns}}"
APPS = "/apis/apps/v1/namespaces/{{ns}}"
BATCH = "/apis/batch/v1/namespaces/{{ns}}"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/{{group}}/v1/namespaces/{{ns}}/widgets"
MAPS = f"{CORE}/configmaps"
PODS = f"{CORE}/pods"
STRICT = "fieldValidation=Strict"
DRY = "dryRun=All"
LABELS = {"app": "a"}
CONTAINER: Json = {"name": "main", "image": "localhost/none:1"}
ANYTHING: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def config_map(name: str, data: Json | None = None, **metadata: Any) -> Json:
    obj: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}
    return obj | ({"data": data} if data is not None else {})


def pod(name: str, /, **spec: Any) -> Json:
    spec = {"containers": [CONTAINER], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": LABELS}, "spec": spec}


def container(**more: Any) -> Json:
    """A Pod of one container with these fields."""
    return pod("p", containers=[CONTAINER | more])


def template(**spec: Any) -> Json:
    return {"metadata": {"labels": LABELS}, "spec": {"containers": [CONTAINER], **spec}}


def job(name: str, /, **spec: Any) -> Json:
    spec = {"suspend": True, "template": template(restartPolicy="Never"), **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def cron_job(**spec: Any) -> Json:
    once = {"spec": {"template": template(restartPolicy="Never")}}
    spec = {"schedule": "@daily", "jobTemplate": once, **spec}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"}, "spec": spec}


def deployment(name: str, /, **spec: Any) -> Json:
    spec = {"replicas": 1, "selector": {"matchLabels": LABELS}, "template": template(), **spec}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def service(name: str, /, *ports: Json, **spec: Any) -> Json:
    spec = {"selector": LABELS, "ports": list(ports) or [{"port": 80}], **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def owned_by(step: str, kind: str = "ConfigMap", version: str = "v1", **more: Any) -> list[Json]:
    """Owner references to the object that a step was answered with."""
    owner = {"apiVersion": version, "kind": kind, "name": f"{{{{{step}:metadata.name}}}}"}
    return [owner | {"uid": f"{{{{{step}:metadata.uid}}}}", **more}]


def definition(schema: Json | None = None, scope: str = "Namespaced", **version: Any) -> Json:
    """A CustomResourceDefinition of Widgets in the case's own group."""
    first: Json = {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}}
    first |= {"schema": {"openAPIV3Schema": schema or {"type": "object", "properties": {"spec": ANYTHING}}}}
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.{{group}}"},
        "spec": {"group": "{{group}}", "scope": scope, "names": names, "versions": [first | version]},
    }


def widget(name: str, /, **spec: Any) -> Json:
    return {"apiVersion": "{{group}}/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec}
