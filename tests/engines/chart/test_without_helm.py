"""`kubectl apply -k deploy/kustomize`: the chart's objects, with secrets that the user gives."""

import base64
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from deploy import generate, without_helm
from steelyard.accounts.secrets import KeyFileError, read_keys
from steelyard.services.storage_server.run import make_server
from steelyard.settings import Settings, load
from steelyard_common.errors import UsageError
from steelyard_common.types import Json
from tests.engines.build import binaries, helm
from tests.engines.chart.helm import ProgramFailed, named, pods, run, template
from tests.pod_security import restricted_faults

LARGEST_ANNOTATION = 256 * 1024
"""Bytes that annotations of an object may have; `kubectl apply` keeps the whole object in one."""
SECRET_KEYS = ("token", "secret-keys", "access-key", "secret-key", "credentials")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of deploy/kustomize with new secrets, beside a copy of the definitions."""
    copied = tmp_path_factory.mktemp("deploy")
    kustomize, crds = copied / "kustomize", generate.CRDS.relative_to(generate.DEPLOY)
    shutil.copytree(generate.DEPLOY / "kustomize", kustomize, ignore=shutil.ignore_patterns("secrets.env*"))
    shutil.copytree(generate.CRDS, copied / crds)
    run("sh", kustomize / "secrets.sh")
    return kustomize


def render(folder: Path) -> list[Json]:
    return list(yaml.safe_load_all(run(binaries() / "kubectl", "kustomize", folder)))


@pytest.fixture(scope="module")
def objects(folder: Path) -> list[Json]:
    return render(folder)


def secrets(objects: list[Json]) -> dict[str, str]:
    data = named(objects, "Secret")[without_helm.SECRET]["data"]
    return {key: base64.b64decode(value).decode() for key, value in data.items()}


def test_they_are_the_objects_of_the_chart() -> None:
    committed = (generate.DEPLOY / generate.OBJECTS).read_text()
    assert committed == generate.objects(helm()), "run `python -m deploy.generate`"


def test_no_hook_is_lost() -> None:
    """Hooks are left out; those of other shapes would have to become ordinary Jobs."""
    hooks = {
        obj["metadata"]["annotations"]["helm.sh/hook"]
        for obj in template(without_helm.VALUES)
        if "helm.sh/hook" in obj["metadata"].get("annotations", {})
    }
    assert hooks == {"test"}


def test_kubectl_applies_them_in_one_call(objects: list[Json]) -> None:
    assert objects[0]["kind"] == "Namespace"
    assert len(named(objects, "CustomResourceDefinition")) == len(list(generate.CRDS.glob("*.yaml")))
    cluster_wide = ("Namespace", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding")
    for obj in objects:
        assert len(json.dumps(obj)) < LARGEST_ANNOTATION, obj["metadata"]["name"]
        assert (obj["metadata"].get("namespace") == "steelyard") == (obj["kind"] not in cluster_wide)


def test_they_are_of_the_version_of_the_chart(objects: list[Json]) -> None:
    chart = yaml.safe_load((generate.CHART / "Chart.yaml").read_text())
    for pod in pods(objects):
        assert [container["image"].rpartition(":")[2] for container in pod["containers"]] == [
            chart["appVersion"]
        ]
    assert "helm" not in json.dumps([obj["metadata"] for obj in objects]).lower()


def test_every_pod_keeps_to_the_standard_of_its_namespace(objects: list[Json]) -> None:
    [namespace] = named(objects, "Namespace").values()
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    for pod in pods(objects):
        assert restricted_faults(pod) == []


def references(node: object) -> Iterator[tuple[str, str]]:
    """Yield name and key of each Secret that a Pod reads; the key is empty where it reads all of them."""
    if isinstance(node, dict):
        if "secretKeyRef" in node:
            yield node["secretKeyRef"]["name"], node["secretKeyRef"]["key"]
        if "secretName" in node:
            yield node["secretName"], ""
        for inner in node.values():
            yield from references(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from references(inner)


def test_pods_find_the_secrets_that_they_read(objects: list[Json]) -> None:
    read = {reference for pod in pods(objects) for reference in references(pod)}
    assert {name for name, _ in read} == {without_helm.SECRET}
    assert {key for _, key in read if key} | {"secret-keys"} == set(SECRET_KEYS) == set(secrets(objects))


def test_new_secrets_are_those_that_the_chart_would_make(objects: list[Json]) -> None:
    made = named(template({}), "Secret")
    expected = json.loads(base64.b64decode(made["steelyard-storage"]["data"]["credentials"]))
    credentials = json.loads(secrets(objects)["credentials"])
    assert credentials == expected | {"AWS_SECRET_ACCESS_KEY": secrets(objects)["secret-key"]}
    assert secrets(objects)["access-key"] == credentials["AWS_ACCESS_KEY_ID"]


def test_secrets_are_never_made_twice(folder: Path) -> None:
    before = (folder / "secrets.env").read_text()
    assert (folder / "secrets.env").stat().st_mode & 0o077 == 0
    with pytest.raises(ProgramFailed, match="there already"):
        run("sh", folder / "secrets.sh")
    assert (folder / "secrets.env").read_text() == before


def test_nothing_is_applied_without_secrets(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder.parent, tmp_path / "deploy")
    (tmp_path / "deploy/kustomize/secrets.env").unlink()
    with pytest.raises(ProgramFailed, match=r"secrets\.env: no such file"):
        render(tmp_path / "deploy/kustomize")


def settings_of(
    objects: list[Json], given: Mapping[str, str], folder: Path, environment: pytest.MonkeyPatch
) -> Settings:
    """Return the platform's settings where the Secret has these values. Raises UsageError."""
    [container] = named(objects, "Deployment")["steelyard-platform"]["spec"]["template"]["spec"]["containers"]
    for entry in container["env"]:
        reference = entry.get("valueFrom", {}).get("secretKeyRef")
        environment.setenv(entry["name"], given[reference["key"]] if reference else entry["value"])
    path = folder / "steelyard.toml"
    path.write_text(named(objects, "ConfigMap")["steelyard-settings"]["data"]["steelyard.toml"])
    return load(path, folder / "state")


def start(settings: Settings, given: Mapping[str, str], folder: Path) -> None:
    """Do what the start of the platform does with what it was given."""
    make_server(f"file://{folder}", settings.storage_server, registry=None)
    (folder / "secret-keys").write_text(given["secret-keys"])
    read_keys(folder / "secret-keys")


def test_the_platform_takes_the_new_secrets(
    objects: list[Json], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = secrets(objects)
    settings = settings_of(objects, given, tmp_path, monkeypatch)
    start(settings, given, tmp_path)
    assert settings.api.administrator_token.get_secret_value() == given["token"]
    assert settings.orchestrator.storage_credentials


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("token", r"api\.administrator_token: is empty"),
        ("secret-keys", "has 0 keys"),
        ("access-key", "storage_server: access_key should be a name"),
        ("secret-key", "secret_key should have at least 16 characters"),
        ("credentials", r"orchestrator\.storage_credentials"),
    ],
)
def test_a_secret_that_is_left_empty_is_named_at_the_start(
    objects: list[Json], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, said: str
) -> None:
    given = secrets(objects) | {key: ""}
    with pytest.raises((UsageError, KeyFileError), match=said):
        start(settings_of(objects, given, tmp_path, monkeypatch), given, tmp_path)
