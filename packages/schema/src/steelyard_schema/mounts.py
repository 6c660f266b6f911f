"""Mounts of a runner's Pod: the combinations that Kubernetes refuses, and the mounts of the platform itself."""

from collections.abc import Sequence

from steelyard_schema.inference_service import VolumeMount

OWN_MOUNTS = ("/tmp", "/etc/steelyard")
"""Paths at which every Pod of the platform has a folder or its configuration."""


def check_mounts(mounts: Sequence[VolumeMount]) -> None:
    """Raise ValueError, which names the mount, for mounts that Kubernetes or the platform does not allow together."""
    names: set[str] = set()
    paths: set[str] = set()
    for mount in mounts:
        place, path = f"runner.volumeMounts.{mount.name}", mount.mountPath.rstrip("/")
        if mount.name in names:
            raise ValueError(f"{place}: two mounts have this name")
        if path in OWN_MOUNTS:
            raise ValueError(f"{place}: mountPath {mount.mountPath!r} is the platform's own")
        if path in paths:
            raise ValueError(f"{place}: two mounts have the mountPath {mount.mountPath!r}")
        names.add(mount.name)
        paths.add(path)
