"""Parts of the Pods that the operator creates: hardened, with limits, without a service account's token."""

from collections.abc import Mapping, Sequence
from typing import Any

from steelyard.operator.pod_settings import Toleration
from steelyard.operator.settings import OperatorSettings
from steelyard_common.types import Json, mapping
from steelyard_schema.quantity import amount

CONFIG_FOLDER = "/etc/steelyard"
CONFIG_FILE = f"{CONFIG_FOLDER}/config.json"
CONFIG_MOUNT: Json = {"name": "config", "mountPath": CONFIG_FOLDER, "readOnly": True}
TERMINATION_LOG = "/dev/termination-log"
SECRETS_FOLDER = "/var/run/steelyard/secrets"
"""Folder with a file for each secret. It lies outside of the configuration's folder, which is mounted read-only."""

OWN_HOST, OWN_FOLDER = "localhost", "steelyard/"
"""Host and folder of the images of our own programs, as presets and examples name them."""
ANY_DIGEST = "sha256:" + "0" * 64
"""Digest of the images of one machine, which are names of Python environments."""

POD_SECURITY: Json = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
CONTAINER_SECURITY: Json = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
POD_IP: Json = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
POD_UID: Json = {"name": "POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}
"""Environment variable with the Pod's uid, under which a step keeps its log in storage."""


def step_container(name: str, module: str, settings: OperatorSettings, secret: str | None) -> Json:
    """Make a container that runs one of our steps with the Pod's configuration file."""
    container: Json = {
        "name": name,
        "image": settings.images.steps,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python", "-m", f"steelyard.steps.{module}", "--config", CONFIG_FILE],
        "env": [
            POD_IP,
            POD_UID,
            {"name": "STEELYARD_TERMINATION_LOG", "value": TERMINATION_LOG},
            {"name": "TMPDIR", "value": "/tmp"},
            {"name": "HOME", "value": "/tmp"},
        ],
        "resources": step_resources(settings),
        "securityContext": CONTAINER_SECURITY,
        "terminationMessagePath": TERMINATION_LOG,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            CONFIG_MOUNT,
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }
    if secret:
        container["envFrom"] = [{"secretRef": {"name": secret}}]
    return container


def step_volumes(config_map: str) -> list[Json]:
    return [{"name": "config", "configMap": {"name": config_map}}, {"name": "tmp", "emptyDir": {}}]


def secrets_volume(names: Mapping[str, str]) -> Json:
    """Make the volume with the secrets of a Pod, from the names of their Kubernetes Secrets by purpose."""
    sources = [
        {"secret": {"name": name, "items": [{"key": "value", "path": purpose}]}}
        for purpose, name in sorted(names.items())
    ]
    # Readable for every user: the Pod does not run as root, and one container alone mounts it.
    return {"name": "secrets", "projected": {"defaultMode": 0o444, "sources": sources}}


def with_secrets(container: Json) -> Json:
    """Let a container of ours read the secrets of its Pod as files: `steps/secret_files.py` does.

    No value is in the environment, where a crash report or a child process would show it.
    """
    return {
        **container,
        "env": [*container["env"], {"name": "STEELYARD_SECRETS", "value": SECRETS_FOLDER}],
        "volumeMounts": [
            *container["volumeMounts"],
            {"name": "secrets", "mountPath": SECRETS_FOLDER, "readOnly": True},
        ],
    }


def image_name(image: Json, settings: OperatorSettings) -> str:
    """Return the name by which an image is pulled: its digest says which one it is.

    Our own runners are named as on one machine, and pulled by the names of the settings. The digest that one machine
    gives all of them is that of no image, so it leaves the choice to the settings.
    """
    name, digest = image["name"], image["digest"]
    own = settings.images.runners.get(name.removeprefix(OWN_FOLDER)) if image["host"] == OWN_HOST else None
    if own is None:
        return f"{image['host']}/{name}@{digest}"
    return own if digest == ANY_DIGEST else f"{repository(own)}@{digest}"


def repository(reference: str) -> str:
    """Return an image's name without its tag and digest. A colon before the last slash begins a port."""
    name = reference.partition("@")[0]
    folder, slash, last = name.rpartition("/")
    return f"{folder}{slash}{last.partition(':')[0]}"


def step_resources(settings: OperatorSettings) -> Json:
    step = settings.step_resources
    return {"requests": {"cpu": step.cpu, "memory": step.memory}, "limits": {"memory": step.memory_limit}}


def pod_template(
    labels: Mapping[str, str],
    containers: list[Json],
    volumes: list[Json],
    settings: OperatorSettings,
    *,
    pull_secrets: Sequence[str] = (),
    spot: bool = False,
    **more: Any,
) -> Json:
    """Make the template of a Pod, with the settings of all Pods; `spot` lets it run on nodes that can be taken away."""
    chosen = settings.pods
    metadata: Json = {"labels": {**chosen.labels, **labels}}  # selectors rest on ours
    if chosen.annotations:
        metadata["annotations"] = dict(chosen.annotations)
    spec: Json = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": POD_SECURITY,
        "containers": containers,
        "volumes": volumes,
        **more,
    }
    for kind in ("initContainers", "containers"):
        if kind in spec:
            spec[kind] = [limit_cpu(container, chosen.cpu_limit) for container in spec[kind]]
    places = (chosen, chosen.spot) if spot else (chosen,)
    added: Json = {
        "imagePullSecrets": [{"name": name} for name in dict.fromkeys((*pull_secrets, *chosen.pull_secrets))],
        "nodeSelector": {key: value for place in places for key, value in place.node_selector.items()},
        "tolerations": [write_toleration(item) for place in places for item in place.tolerations],
        "priorityClassName": chosen.priority_class,
        "runtimeClassName": chosen.runtime_class,
    }
    return {"metadata": metadata, "spec": spec | {name: value for name, value in added.items() if value}}


def write_toleration(toleration: Toleration) -> Json:
    seconds = toleration.toleration_seconds
    fields = {
        "key": toleration.key,
        "operator": toleration.operator,
        "value": toleration.value,
        "effect": toleration.effect,
    }
    written: Json = {name: value for name, value in fields.items() if value}
    return written | ({"tolerationSeconds": seconds} if seconds is not None else {})


def limit_cpu(container: Json, limit: str | None) -> Json:
    """Give a container without a limit of processors that of the settings, or its request where that is more."""
    resources = mapping(container, "resources")
    limits, requested = mapping(resources, "limits"), mapping(resources, "requests").get("cpu")
    if not limit or "cpu" in limits:
        return container
    chosen = requested if requested and amount(requested) > amount(limit) else limit
    return {**container, "resources": {**resources, "limits": {**limits, "cpu": chosen}}}
