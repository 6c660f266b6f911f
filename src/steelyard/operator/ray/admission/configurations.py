"""Configurations of our webhooks: what the API asks them about, by which address, and whom it trusts there."""

import base64
from urllib.parse import urlsplit

from steelyard.operator.ray.owned import MANAGED, service_address
from steelyard.operator.ray.settings import RaySettings
from steelyard_common.types import Json
from steelyard_schema.ray_annotations import CERTIFICATES

NAME = "steelyard-ray"
VALIDATE, MUTATE = "/validate", "/mutate"
_GROUP = "admissionregistration.k8s.io/v1"
_CLUSTERS = {"apiGroups": ["ray.io"], "apiVersions": ["v1"], "resources": ["rayclusters"]}
_JOBS = {"apiGroups": ["ray.io"], "apiVersions": ["v1"], "resources": ["rayjobs"]}
_WRAPPERS = {
    "apiGroups": ["workload.codeflare.dev"],
    "apiVersions": ["v1beta2"],
    "resources": ["appwrappers"],
}
_CHANGED = "request.operation == 'CREATE' || object.spec != oldObject.spec"
_TAKEN_AWAY = " && ".join(
    (
        "has(oldObject.metadata.annotations)",
        f"'{CERTIFICATES}' in oldObject.metadata.annotations",
        f"!(has(object.metadata.annotations) && '{CERTIFICATES}' in object.metadata.annotations)",
    )
)


def configurations(settings: RaySettings, url: str, bundle: str) -> list[Json]:
    """Return the configurations that should exist.

    They fail closed, but only for three kinds, when an object is made or its specification changes: metadata and
    statuses, which controllers write, and deletions never wait for us.
    """
    made: list[Json] = []
    if settings.admission:
        condition = f"{_CHANGED} || ({_TAKEN_AWAY})"
        hook = _hook(
            "validate.ray.steelyard.dev", VALIDATE, [_CLUSTERS, _JOBS, _WRAPPERS], condition, settings, url
        )
        made.append(_configuration("ValidatingWebhookConfiguration", hook, bundle))
    if settings.certificates:
        hook = _hook("certificates.ray.steelyard.dev", MUTATE, [_CLUSTERS], _CHANGED, settings, url)
        # Another webhook may add a container after ours, which then has to be put first again.
        hook["reinvocationPolicy"] = "IfNeeded"
        made.append(_configuration("MutatingWebhookConfiguration", hook, bundle))
    return made


def _hook(name: str, path: str, rules: list[Json], condition: str, settings: RaySettings, url: str) -> Json:
    if settings.url or url:
        client: Json = {"url": service_address(settings, url, path)}
    else:
        place = urlsplit(service_address(settings, url, path))
        service = {"namespace": settings.namespace, "name": settings.service_name, "path": place.path}
        client = {"service": {**service, "port": 443}}
    own = {
        "key": "kubernetes.io/metadata.name",
        "operator": "NotIn",
        "values": ["kube-system", settings.namespace],
    }
    if settings.namespace == "kube-system":
        own["values"] = ["kube-system"]
    return {
        "name": name,
        "clientConfig": client,
        "rules": [{**rule, "operations": ["CREATE", "UPDATE"], "scope": "Namespaced"} for rule in rules],
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": 10,
        "admissionReviewVersions": ["v1"],
        "namespaceSelector": {"matchExpressions": [own]},
        "matchConditions": [{"name": "specification", "expression": condition}],
    }


def _configuration(kind: str, hook: Json, bundle: str) -> Json:
    hook["clientConfig"]["caBundle"] = base64.b64encode(bundle.encode()).decode()
    metadata = {"name": NAME, "labels": dict(MANAGED)}
    return {"apiVersion": _GROUP, "kind": kind, "metadata": metadata, "webhooks": [hook]}
