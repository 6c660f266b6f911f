"""Tests of Steelyard's own images and of those that stand for images of others."""

import sys
from pathlib import Path

import pytest

from steelyard.local import image_resolver
from steelyard.local.image_resolver import find
from steelyard_local_kubernetes.kubelet.images import ImageMissing


@pytest.mark.parametrize(
    "name", ["localhost/steelyard/steps:1", "r.example.org/dyff/workflows/run-report@sha256:0"]
)
def test_methods_of_the_steps_run_in_the_environment_of_dyff_audit(tmp_path: Path, name: str) -> None:
    path, python = tmp_path / "images.toml", tmp_path / "bin" / "python"
    path.write_text(f'["localhost/steelyard/runner-dyff-audit"]\npython = "{python}"\n')
    image = find(path, name)
    assert (image.is_own, image.variables) == (True, {})
    (tmp_path / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}").mkdir(parents=True)
    python.parent.mkdir()
    python.touch()
    assert find(path, name).variables == {"STEELYARD_ANALYSIS_PYTHON": str(python)}
    assert find(path, "localhost/steelyard/runner-mock").variables == {}


def test_an_image_of_rays_is_the_ray_of_this_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "images.toml"
    monkeypatch.setattr(image_resolver, "_RAY", "pydantic")  # a package that is there
    assert find(path, "quay.io/modh/pydantic@sha256:00").python == sys.executable
    monkeypatch.setattr(image_resolver, "_RAY", "no_such_package")
    with pytest.raises(ImageMissing, match=r"pip install 'steelyard\[ray\]'"):
        find(path, "docker.io/some/no_such_package:1")
