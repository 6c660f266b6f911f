"""Pod Security `restricted`, and who can read the files of a Secret, as rules on a Pod's specification.

Only what manifests of this repository may have is known here: other fields of the standard have to be absent.
"""

from collections.abc import Iterator

from steelyard_common.types import Json

VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}
HOST = ("hostNetwork", "hostPID", "hostIPC", "hostUsers")
DEFAULT_MODE = 0o644
"""Mode of the files of a Secret whose volume names none."""


def restricted_faults(pod: Json) -> list[str]:
    """Return what Pod Security `restricted` refuses in a Pod's specification."""
    context = pod.get("securityContext") or {}
    faults = [name for name in HOST if pod.get(name)]
    faults += [
        f"volumes: {volume['name']}" for volume in pod.get("volumes") or [] if not VOLUMES & volume.keys()
    ]
    faults += [f"securityContext.{name}" for name in ("sysctls", "seLinuxOptions") if name in context]
    for container in containers(pod):
        security = container.get("securityContext") or {}
        seccomp = security.get("seccompProfile") or context.get("seccompProfile") or {}
        required = {
            "runAsNonRoot": security.get("runAsNonRoot", context.get("runAsNonRoot")) is True,
            "runAsUser": security.get("runAsUser", context.get("runAsUser")) != 0,
            "seccompProfile": seccomp.get("type") in ("RuntimeDefault", "Localhost"),
            "allowPrivilegeEscalation": security.get("allowPrivilegeEscalation") is False,
            "capabilities": security.get("capabilities") == {"drop": ["ALL"]},
            "privileged": not security.get("privileged"),
            "hostPort": not any("hostPort" in port for port in container.get("ports") or []),
        }
        faults += [f"{container['name']}: {name}" for name, met in required.items() if not met]
    return faults


def containers(pod: Json) -> Iterator[Json]:
    yield from pod.get("initContainers") or []
    yield from pod["containers"]


def can_read_secret(pod: Json, volume: Json) -> bool:
    """Return whether a Pod's user, who is not root, can read the files of a Secret's volume.

    The files are root's, and of the group `fsGroup`, where there is one; only then is the user in that group. A kubelet
    adds the group's right to read, which is not counted on.
    """
    mode: int = volume["secret"].get("defaultMode", DEFAULT_MODE)
    return bool(mode & (0o040 if "fsGroup" in (pod.get("securityContext") or {}) else 0o004))
