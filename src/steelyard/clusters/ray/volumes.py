"""Volumes of Pods: claims, secrets, config maps and scratch space, each with the path where it is mounted."""

import posixpath
from base64 import b64encode
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from steelyard.clusters import rules
from steelyard.clusters.config import Amount, Config, DnsLabel, ObjectName, check_by
from steelyard.clusters.errors import Fault
from steelyard_common.types import Json
from steelyard_schema.quantity import amount

SECRET_BYTES = 1 << 20


def _class_name(value: str, path: str) -> Iterator[Fault]:
    if value:
        yield from rules.name(value, path)


StorageClass = Annotated[str, check_by(_class_name)]


class Volume(Config):
    """A volume and its mount. Made by `claim`, `secret`, `config_map`, `scratch`, or with a source of the Pod API."""

    name: DnsLabel
    mount_path: str
    source: Json
    read_only: bool = False
    sub_path: str = ""

    def relations(self) -> Iterator[Fault]:
        if not self.mount_path.startswith("/") or ":" in self.mount_path:
            yield Fault("mount_path", f"{self.mount_path!r} must be an absolute path without ':'")
        if posixpath.isabs(self.sub_path) or ".." in self.sub_path.split("/"):
            yield Fault("sub_path", f"{self.sub_path!r} must be a relative path without '..'")
        if len(self.source) != 1:
            yield Fault("source", "must have one field, such as persistentVolumeClaim")
        yield from rules.source(self.source, "source")

    @property
    def volume(self) -> Json:
        return {"name": self.name, **self.source}

    @property
    def mount(self) -> Json:
        mount: Json = {"name": self.name, "mountPath": self.mount_path}
        if self.read_only:
            mount["readOnly"] = True
        return {**mount, "subPath": self.sub_path} if self.sub_path else mount


def claim(name: str, mount_path: str, *, read_only: bool = False, sub_path: str = "") -> Volume:
    """Return a volume of a PersistentVolumeClaim."""
    source = {"persistentVolumeClaim": {"claimName": name, **({"readOnly": True} if read_only else {})}}
    return Volume(
        name=_volume_name(name), mount_path=mount_path, source=source, read_only=read_only, sub_path=sub_path
    )


def secret(name: str, mount_path: str) -> Volume:
    """Return a volume with a Secret's values as files."""
    return Volume(
        name=_volume_name(name),
        mount_path=mount_path,
        source={"secret": {"secretName": name}},
        read_only=True,
    )


def config_map(name: str, mount_path: str) -> Volume:
    """Return a volume with a ConfigMap's values as files."""
    return Volume(
        name=_volume_name(name), mount_path=mount_path, source={"configMap": {"name": name}}, read_only=True
    )


def scratch(name: str, mount_path: str, *, size: str | None = None, memory: bool = False) -> Volume:
    """Return an empty volume that goes with its Pod; with `memory`, a memory file system, such as for /dev/shm."""
    options: Json = {"medium": "Memory"} if memory else {}
    if size is not None:
        options["sizeLimit"] = size
    return Volume(name=name, mount_path=mount_path, source={"emptyDir": options})


class NewClaim(Config):
    """A PersistentVolumeClaim that is still to be made."""

    name: ObjectName
    size: Amount
    storage_class: StorageClass | None = None
    """Class of the storage; empty for a volume that is there already, of no class. Default: the cluster's own."""
    access: Literal["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"] = "ReadWriteOnce"

    def relations(self) -> Iterator[Fault]:
        if amount(str(self.size)) <= 0:
            yield Fault("size", f"{self.size} must be greater than 0")

    def manifest(self, namespace: str) -> Json:
        spec: Json = {
            "accessModes": [self.access],
            "resources": {"requests": {"storage": str(self.size)}},
        }
        if self.storage_class is not None:
            spec["storageClassName"] = self.storage_class
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": self.name, "namespace": namespace},
            "spec": spec,
        }


class NewSecret(Config):
    """A Secret that is still to be made, such as a password or a token of jobs."""

    name: ObjectName
    values: Annotated[dict[str, str], Field(min_length=1, repr=False)]

    def relations(self) -> Iterator[Fault]:
        for key in self.values:
            yield from rules.data_key(key, "values")
        if sum(len(value.encode()) for value in self.values.values()) > SECRET_BYTES:
            yield Fault("values", f"have more than {SECRET_BYTES} bytes")

    def manifest(self, namespace: str) -> Json:
        data = {key: b64encode(value.encode()).decode() for key, value in self.values.items()}
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": self.name, "namespace": namespace},
            "type": "Opaque",
            "data": data,
        }


def _volume_name(name: str) -> str:
    return name.replace(".", "-")[:63].rstrip("-")
