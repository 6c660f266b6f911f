"""OCI archives: one image with its layers in a tar, as `ctr images import`, `docker load` and skopeo read it.

A `manifest.json` stands beside the OCI layout, because earlier versions of Docker look for that.
"""

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from deploy.images.layers import ENTRY_SECONDS, Layer
from steelyard_common.types import Json

MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
"""Names of machines in images, by their names in Linux."""
_MEDIA = "application/vnd.oci.image"


@dataclass(frozen=True)
class Configuration:
    """Settings of an image: the program that it runs, as which user, with which variables."""

    entrypoint: Sequence[str]
    user: str
    """Name or number; empty for root."""
    created: str
    """Time of the image, RFC 3339."""
    command: Sequence[str] = ()
    """Arguments that a container may replace; without an entrypoint they begin with the program."""
    variables: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Image:
    """A written image: its archive, its reference, and the digest of its manifest."""

    path: Path
    reference: str
    digest: str
    """Digest with its algorithm, as a reference names it."""
    layers: tuple[Layer, ...]


def architecture() -> str:
    """Return the architecture of images that are made on this machine."""
    return MACHINES.get(os.uname().machine, os.uname().machine)


def platform() -> dict[str, str]:
    """Return the platform of images that are made on this machine."""
    return {"architecture": architecture(), "os": "linux"}


def write(path: Path, reference: str, layers: Sequence[Layer], configuration: Configuration) -> Image:
    """Write an archive of an image. The digest depends on layers and configuration, not on the reference."""
    config = config_text(layers, configuration)
    manifest = _to_json(
        {
            "schemaVersion": 2,
            "mediaType": f"{_MEDIA}.manifest.v1+json",
            "config": _descriptor(config, "config.v1+json"),
            "layers": [
                {
                    "mediaType": f"{_MEDIA}.layer.v1.tar+gzip",
                    "digest": f"sha256:{layer.digest}",
                    "size": layer.size,
                }
                for layer in layers
            ],
            "annotations": dict(configuration.annotations),
        }
    )
    names = {
        "io.containerd.image.name": reference,
        "org.opencontainers.image.ref.name": reference.rpartition(":")[2],
    }
    entry = {**_descriptor(manifest, "manifest.v1+json"), "platform": platform(), "annotations": names}
    texts = {
        "oci-layout": _to_json({"imageLayoutVersion": "1.0.0"}),
        "index.json": _to_json(
            {"schemaVersion": 2, "mediaType": f"{_MEDIA}.index.v1+json", "manifests": [entry]}
        ),
        "manifest.json": _to_json(
            [
                {
                    "Config": _blob(hashlib.sha256(config).hexdigest()),
                    "Layers": [_blob(layer.digest) for layer in layers],
                    "RepoTags": [reference],
                }
            ]
        ),
        **{_blob(hashlib.sha256(text).hexdigest()): text for text in (config, manifest)},
    }
    half = path.with_name(f"{path.name}.new")
    with tarfile.open(half, "w", format=tarfile.PAX_FORMAT) as archive:
        files = {_blob(layer.digest): layer.path for layer in layers}
        for name in sorted({*texts, *files}):
            member = tarfile.TarInfo(name)
            member.mode, member.mtime = 0o644, ENTRY_SECONDS
            if name in texts:
                member.size = len(texts[name])
                archive.addfile(member, io.BytesIO(texts[name]))
            else:
                member.size = files[name].stat().st_size
                with files[name].open("rb") as content:
                    archive.addfile(member, content)
    half.rename(path)
    return Image(path, reference, entry["digest"], tuple(layers))


def unpack(path: Path, folder: Path) -> None:
    """Lay the files of all layers of an archive into a folder, with their rights, owned by who calls."""
    with tarfile.open(path) as archive:
        listed = archive.extractfile("manifest.json")
        assert listed is not None
        (image,) = json.loads(listed.read())
        for name in image["Layers"]:
            with tarfile.open(fileobj=archive.extractfile(name), mode="r:gz") as layer:
                # As they are: we made them. Debian's 3.11.2 has no filters, and newer ones warn where none is set.
                layer.extraction_filter = lambda member, _: member
                for member in layer:
                    if not (member.isdir() and (folder / member.name).is_dir()):
                        member.uid, member.gid, member.uname, member.gname = os.getuid(), os.getgid(), "", ""
                        layer.extract(member, folder)


def config_text(layers: Sequence[Layer], configuration: Configuration) -> bytes:
    """Return the configuration of an image with these layers, as its blob."""
    settings: Json = {
        "User": configuration.user,
        "Env": [f"{name}={value}" for name, value in sorted(configuration.variables.items())],
        "Entrypoint": list(configuration.entrypoint),
        "WorkingDir": "/",
        "Labels": dict(configuration.annotations),
    }
    return _to_json(
        {
            **platform(),
            "created": configuration.created,
            "config": settings | ({"Cmd": list(configuration.command)} if configuration.command else {}),
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer.content_digest}" for layer in layers]},
            "history": [{"created": configuration.created, "created_by": layer.title} for layer in layers],
        }
    )


def _descriptor(content: bytes, media: str) -> Json:
    digest = hashlib.sha256(content).hexdigest()
    return {"mediaType": f"{_MEDIA}.{media}", "digest": f"sha256:{digest}", "size": len(content)}


def _blob(digest: str) -> str:
    return f"blobs/sha256/{digest}"


def _to_json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
