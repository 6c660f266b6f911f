"""Parts of the Pods that the operator creates: hardened, with limits, without a service account's token."""

from collections.abc import Mapping
from typing import Any

from steelyard.operator.settings import OperatorSettings
from steelyard_common.types import Json

CONFIG_FOLDER = "/etc/steelyard"
CONFIG_FILE = f"{CONFIG_FOLDER}/config.json"
CONFIG_MOUNT: Json = {"name": "config", "mountPath": CONFIG_FOLDER, "readOnly": True}
TERMINATION_LOG = "/dev/termination-log"
SECRETS_FOLDER = "/var/run/steelyard/secrets"
"""Folder with a file for each secret. It lies outside of the configuration's folder, which is mounted read-only."""

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


def image_name(image: Json) -> str:
    """Return the name by which a registry's image is pulled: its digest says which one it is."""
    return f"{image['host']}/{image['name']}@{image['digest']}"


def step_resources(settings: OperatorSettings) -> Json:
    step = settings.step_resources
    return {"requests": {"cpu": step.cpu, "memory": step.memory}, "limits": {"memory": step.memory_limit}}


def pod_spec(containers: list[Json], volumes: list[Json], **more: Any) -> Json:
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": POD_SECURITY,
        "containers": containers,
        "volumes": volumes,
        **more,
    }
