"""Tests of OCI archives: one image has one digest, every descriptor is right, and other programs read them."""

import hashlib
import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from deploy.images.archive import Configuration, Image, unpack, write
from deploy.images.layers import Layer, pack
from steelyard_common.types import Json

REFERENCE = "localhost/steelyard/small:1.0"
CONFIGURATION = Configuration(
    entrypoint=["/usr/local/bin/steelyard"],
    user="65532:65532",
    created="2026-01-02T03:04:05Z",
    variables={"PATH": "/usr/bin", "LANG": "C.UTF-8"},
    annotations={"org.opencontainers.image.version": "1.0"},
)


def make_layers(folder: Path) -> list[Layer]:
    layers = []
    for name in ("base", "own"):
        (folder / name).mkdir(parents=True)
        (folder / name / "file").write_text(name)
        layers.append(pack(folder / name, folder / f"{name}.tar.gz", name))
    return layers


@pytest.fixture
def image(tmp_path: Path) -> Image:
    return write(tmp_path / "small.tar", REFERENCE, make_layers(tmp_path), CONFIGURATION)


def read_blobs(image: Image) -> dict[str, bytes]:
    """Return the files of an archive by their names."""
    blobs = {}
    with tarfile.open(image.path) as archive:
        for member in archive:
            content = archive.extractfile(member)
            assert content is not None
            blobs[member.name] = content.read()
    return blobs


def find_manifest(blobs: dict[str, bytes], image: Image) -> Json:
    manifest: Json = json.loads(blobs[f"blobs/sha256/{image.digest.removeprefix('sha256:')}"])
    return manifest


def test_the_same_image_has_the_same_bytes(image: Image, tmp_path: Path) -> None:
    again = write(tmp_path / "again.tar", REFERENCE, make_layers(tmp_path / "again"), CONFIGURATION)
    assert again.digest == image.digest
    assert again.path.read_bytes() == image.path.read_bytes()


def test_the_digest_is_the_same_in_every_registry(image: Image, tmp_path: Path) -> None:
    other = write(tmp_path / "other.tar", "registry.example.org/small:1.0", image.layers, CONFIGURATION)
    assert other.digest == image.digest
    assert other.path.read_bytes() != image.path.read_bytes()


def test_every_descriptor_names_the_digest_and_the_size_of_its_file(image: Image) -> None:
    blobs = read_blobs(image)
    manifest = find_manifest(blobs, image)
    (entry,) = json.loads(blobs["index.json"])["manifests"]
    assert entry["digest"] == image.digest
    for descriptor in (entry, manifest["config"], *manifest["layers"]):
        content = blobs[f"blobs/sha256/{descriptor['digest'].removeprefix('sha256:')}"]
        assert descriptor["digest"] == f"sha256:{hashlib.sha256(content).hexdigest()}"
        assert descriptor["size"] == len(content)
    assert len([name for name in blobs if name.startswith("blobs/")]) == 4


def test_the_configuration_says_what_runs_as_whom(image: Image) -> None:
    blobs = read_blobs(image)
    name = find_manifest(blobs, image)["config"]["digest"].removeprefix("sha256:")
    config = json.loads(blobs[f"blobs/sha256/{name}"])
    assert config["config"] == {
        "User": "65532:65532",
        "Entrypoint": ["/usr/local/bin/steelyard"],
        "Env": ["LANG=C.UTF-8", "PATH=/usr/bin"],
        "Labels": {"org.opencontainers.image.version": "1.0"},
        "WorkingDir": "/",
    }
    assert config["created"] == "2026-01-02T03:04:05Z"
    assert config["rootfs"]["diff_ids"] == [f"sha256:{layer.content_digest}" for layer in image.layers]


def test_programs_find_the_reference(image: Image) -> None:
    blobs = read_blobs(image)
    (entry,) = json.loads(blobs["index.json"])["manifests"]
    assert entry["annotations"]["io.containerd.image.name"] == REFERENCE
    (for_docker,) = json.loads(blobs["manifest.json"])
    assert for_docker["RepoTags"] == [REFERENCE]
    assert set(blobs) >= {for_docker["Config"], *for_docker["Layers"]}


def test_the_layers_are_laid_over_one_another(image: Image, tmp_path: Path) -> None:
    unpack(image.path, tmp_path / "root")
    assert (tmp_path / "root/file").read_text() == "own"


@pytest.mark.skipif(not shutil.which("skopeo"), reason="there is no skopeo")
@pytest.mark.skipif(os.geteuid() != 0, reason="Debian's skopeo gives the files of an archive to root")
def test_skopeo_copies_an_archive(image: Image, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    command = ("skopeo", "copy", "--quiet", f"oci-archive:{image.path}", f"dir:{target}")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert hashlib.sha256((target / "manifest.json").read_bytes()).hexdigest() == image.digest[7:]
