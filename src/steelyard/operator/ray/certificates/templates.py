"""The part of a cluster's Pod templates that asks for certificates and makes Ray use them: a pure function.

A Pod makes its own key. Its first container shows the operator who the Pod is, by a token of its account that holds for
nothing else, and gets a certificate for the Pod's own address; no Pod sees the key of an authority.
"""

from copy import deepcopy

from steelyard.operator.ray.certificates.decisions import trust_name
from steelyard.operator.ray.owned import service_address
from steelyard.operator.ray.settings import RaySettings
from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.objects import read_annotations
from steelyard_kube.pods import join_by
from steelyard_schema.ray_annotations import CERTIFICATES

AUDIENCE = "steelyard-ray"
PATH = "/certificate"
FOLDER, IDENTITY = "/etc/steelyard/ray-tls", "/etc/steelyard/ray-identity"
CONTAINER = "steelyard-certificate"
FILES_VOLUME, IDENTITY_VOLUME = "steelyard-ray-tls", "steelyard-ray-identity"
USE_TLS = "RAY_USE_TLS"
VARIABLES = {
    USE_TLS: "1",
    "RAY_TLS_SERVER_CERT": f"{FOLDER}/tls.crt",
    "RAY_TLS_SERVER_KEY": f"{FOLDER}/tls.key",
    "RAY_TLS_CA_CERT": f"{FOLDER}/ca.crt",
}
_TOKEN_SECONDS = 3600
_MOUNT = {"name": FILES_VOLUME, "mountPath": FOLDER, "readOnly": True}


def with_certificates(cluster: Json, settings: RaySettings, url: str) -> Json:
    """Return the cluster as it asks for certificates; the same again where it does already.

    A cluster that chooses about TLS by itself stays as it is.
    """
    spec = cluster.get("spec")
    if not isinstance(spec, dict) or (not read_annotations(cluster).get(CERTIFICATES) and _chooses(spec)):
        return cluster
    changed = deepcopy(cluster)
    metadata = changed.setdefault("metadata", {})
    metadata["annotations"] = {**read_annotations(changed), CERTIFICATES: "v1"}
    for group in _groups(changed["spec"]):
        pod = mapping(group, "template", "spec")
        if sequence(pod, "containers"):
            _add(pod, changed, settings, url)
    if changed["spec"].get("enableInTreeAutoscaling"):
        # The autoscaler's container is KubeRay's, and calls the head as Ray's own do.
        _use(changed["spec"].setdefault("autoscalerOptions", {}))
    return changed


def _groups(spec: Json) -> list[Json]:
    head = mapping(spec, "headGroupSpec")
    return [*([head] if head else []), *sequence(spec, "workerGroupSpecs")]


def _chooses(spec: Json) -> bool:
    return any(
        variable.get("name") == USE_TLS
        for group in _groups(spec)
        for container in sequence(group, "template", "spec", "containers")
        for variable in sequence(container, "env")
    )


def _add(pod: Json, cluster: Json, settings: RaySettings, url: str) -> None:
    sources = [
        {"configMap": {"name": trust_name(cluster), "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {
            "serviceAccountToken": {
                "audience": AUDIENCE,
                "expirationSeconds": _TOKEN_SECONDS,
                "path": "token",
            }
        },
    ]
    files = {"name": FILES_VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}
    identity = {"name": IDENTITY_VOLUME, "projected": {"sources": sources}}
    pod["volumes"] = join_by("name", sequence(pod, "volumes"), [files, identity])
    # First: Ray's own containers, also the one in which KubeRay waits for the head, use the certificate.
    others = [item for item in sequence(pod, "initContainers") if item.get("name") != CONTAINER]
    pod["initContainers"] = [_container(settings, url), *others]
    _use(pod["containers"][0])


def _use(container: Json) -> None:
    variables = [{"name": name, "value": value} for name, value in VARIABLES.items()]
    container["env"] = join_by("name", sequence(container, "env"), variables)
    container["volumeMounts"] = join_by("mountPath", sequence(container, "volumeMounts"), [_MOUNT])


def _container(settings: RaySettings, url: str) -> Json:
    return {
        "name": CONTAINER,
        "image": settings.certificate_image,
        "command": ["python", "-m", "steelyard.operator.ray.certificates.fetch"],
        "args": ["--url", service_address(settings, url, PATH), "--identity", IDENTITY, "--folder", FOLDER],
        "volumeMounts": [
            {"name": FILES_VOLUME, "mountPath": FOLDER},
            {"name": IDENTITY_VOLUME, "mountPath": IDENTITY, "readOnly": True},
        ],
        "resources": {
            "requests": {"cpu": "50m", "memory": "64Mi"},
            "limits": {"cpu": "1", "memory": "256Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
