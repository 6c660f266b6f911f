"""Volumes, probes and variables: how a container sees them, and which are refused before anything is made."""

import socket
from pathlib import Path

import pytest

from steelyard_common.types import Json
from steelyard_local_kubernetes.kubelet import volumes
from steelyard_local_kubernetes.kubelet.env import (
    ConfigMissing,
    Facts,
    Objects,
    UnsupportedField,
    environment,
    references,
)
from steelyard_local_kubernetes.kubelet.testing import make_container, make_pod


def test_one_file_of_a_writable_volume(tmp_path: Path) -> None:
    """An init container has written it; a folder of that name cannot be made any more."""
    (tmp_path / "config.json").write_text("{}")
    mount = {"name": "v", "mountPath": "/etc/config.json", "subPath": "config.json"}
    pod = make_pod(make_container(volumeMounts=[mount]), volumes=[{"name": "v", "emptyDir": {}}])
    (shown,) = volumes.mounts(pod["spec"]["containers"][0], pod, {"v": tmp_path}, {})
    assert (shown.source, shown.read_only) == (str(tmp_path / "config.json"), False)


@pytest.mark.parametrize(
    ("below", "shown"),
    [
        ("a", "a"),
        ("./a/../b", "b"),
        (".", "."),
        ("../v/a", "a"),
        ("../vv", None),
        ("..", None),
        ("/usr", None),
    ],
)
def test_a_part_of_a_volume_lies_in_it(tmp_path: Path, below: str, shown: str | None) -> None:
    folder = tmp_path / "v"
    pod, container = _with_part(folder, below)
    if shown is None:
        with pytest.raises(UnsupportedField, match="leaves its volume"):
            volumes.mounts(container, pod, {"v": folder}, {})
        return
    (mounted,) = volumes.mounts(container, pod, {"v": folder}, {})
    assert mounted.source == str(folder / shown)


def test_a_part_of_the_whole_machine(tmp_path: Path) -> None:
    pod, container = _with_part(Path("/"), str(tmp_path)[1:])
    (mounted,) = volumes.mounts(container, pod, {"v": Path("/")}, {})
    assert mounted.source == str(tmp_path)


def _with_part(folder: Path, below: str) -> tuple[Json, Json]:
    container = make_container(volumeMounts=[{"name": "v", "mountPath": "/shown", "subPath": below}])
    return make_pod(container, volumes=[{"name": "v", "hostPath": {"path": str(folder)}}]), container


@pytest.mark.parametrize("kind", ["livenessProbe", "readinessProbe", "startupProbe"])
def test_a_probe_that_would_never_be_asked_is_refused(kind: str) -> None:
    pod = make_pod({**make_container(), kind: {"grpc": {"port": 50051}}})
    with pytest.raises(UnsupportedField, match=f"container 'main': {kind} by grpc is not implemented"):
        volumes.check(pod)


@pytest.mark.parametrize(
    ("kind", "is_right"),
    [
        ("", True),
        ("File", True),
        ("FileOrCreate", True),
        ("Directory", False),
        ("DirectoryOrCreate", False),
        ("Socket", False),
        ("CharDevice", False),
        ("BlockDevice", False),
    ],
)
def test_a_file_of_the_host_by_the_type_that_is_asked_for(tmp_path: Path, kind: str, is_right: bool) -> None:
    path = tmp_path / "file"
    path.write_text("kept")
    volume: Json = {"name": "v", "hostPath": {"path": str(path), "type": kind}}
    if not is_right:
        with pytest.raises(ConfigMissing, match="hostPath type check failed"):
            volumes.make(volume, {}, tmp_path / "v")
        return
    assert volumes.make(volume, {}, tmp_path / "v").read_text() == "kept"


def test_a_path_of_the_host_that_is_made(tmp_path: Path) -> None:
    def make(name: str, kind: str) -> Path:
        volume = {"name": "v", "hostPath": {"path": str(tmp_path / name), "type": kind}}
        return volumes.make(volume, {}, tmp_path / "v")

    assert make("file", "FileOrCreate").read_bytes() == b""
    assert make("a/b", "DirectoryOrCreate").is_dir()
    for kind in ("", "File", "Directory", "Socket"):
        with pytest.raises(ConfigMissing, match="absent"):
            make("absent", kind)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        assert make("socket", "Socket").is_socket()


@pytest.mark.parametrize("whole", [False, True], ids=["one-key", "the-whole-secret"])
def test_a_variable_holds_no_bytes_that_are_no_text(whole: bool) -> None:
    """The container waits and says so, as for a key that is missing; the Pod's other containers start."""
    objects: Objects = {("Secret", "keys"): {"data": {"key": "/w=="}}}
    reference = {"secretKeyRef": {"name": "keys", "key": "key"}}
    env = [] if whole else [{"name": "KEY", "valueFrom": reference}]
    container = make_container(env=env, envFrom=[{"secretRef": {"name": "keys"}}] if whole else [])
    with pytest.raises(ConfigMissing, match="key 'key' of secret 'keys' is not text"):
        environment(container, make_pod(container), Facts("127.200.0.7", "127.0.0.1", "node"), objects)


def test_binary_data_of_a_config_map_is_for_volumes_alone() -> None:
    objects: Objects = {("ConfigMap", "c"): {"data": {"a": "1"}, "binaryData": {"b": "Mg=="}}}
    container = make_container(envFrom=[{"configMapRef": {"name": "c"}}])
    facts = Facts("127.200.0.7", "127.0.0.1", "node")
    assert environment(container, make_pod(container), facts, objects) == {"a": "1"}
    reference = {"configMapKeyRef": {"name": "c", "key": "b"}}
    container = make_container(env=[{"name": "B", "valueFrom": reference}])
    with pytest.raises(ConfigMissing, match="couldn't find key b"):
        environment(container, make_pod(container), facts, objects)
    volume = {"name": "v", "configMap": {"name": "c"}}
    assert volumes.volume_files(volume, make_pod(), facts, objects) == {"a": b"1", "b": b"2"}


def test_a_projected_volume_holds_the_files_of_all_its_sources(tmp_path: Path) -> None:
    token: Json = {"path": "token", "audience": "vault"}
    field = {"path": "labels/name", "fieldRef": {"fieldPath": "metadata.labels['app']"}}
    sources = [
        {"configMap": {"name": "c", "items": [{"key": "a", "path": "conf/a", "mode": 0o400}]}},
        {"secret": {"name": "s"}},
        {"downwardAPI": {"items": [field]}},
        {"serviceAccountToken": token},
    ]
    volume: Json = {"name": "v", "projected": {"defaultMode": 0o440, "sources": sources}}
    objects: Objects = {
        ("ConfigMap", "c"): {"data": {"a": "1", "b": "2"}},
        ("Secret", "s"): {"data": {"key": "Mw=="}},
        volumes.token_key(token): {"token": "t"},
    }
    pod = make_pod(volumes=[volume])
    pod["metadata"]["uid"] = "u"
    assert references(pod) == {("ConfigMap", "c"), ("Secret", "s")}
    files = volumes.volume_files(volume, pod, Facts("127.200.0.7", "127.0.0.1", "node"), objects)
    assert files == {"conf/a": b"1", "key": b"3", "labels/name": b"pod", "token": b"t"}
    folder = volumes.make(volume, files, tmp_path / "v")
    assert [(folder / name).stat().st_mode & 0o777 for name in ("conf/a", "key")] == [0o400, 0o440]


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        pytest.param(
            {"volumes": [{"name": "v", "projected": {"sources": [{"clusterTrustBundle": {}}]}}]},
            "clusterTrustBundle", id="a source that nothing serves",
        ),
    ],
)  # fmt: skip
def test_what_a_pod_cannot_have_is_refused_by_name(spec: Json, text: str) -> None:
    with pytest.raises(UnsupportedField, match=f"{text} is not implemented on one machine"):
        volumes.check(make_pod(**spec))


def test_a_file_of_an_object_that_may_be_absent_is_a_folder(tmp_path: Path) -> None:
    mount = {"name": "v", "mountPath": "/etc/ca.crt", "subPath": "ca.crt"}
    volume = {"name": "v", "configMap": {"name": "ca", "optional": True}}
    pod = make_pod(make_container(volumeMounts=[mount]), volumes=[volume])
    (shown,) = volumes.mounts(pod["spec"]["containers"][0], pod, {"v": tmp_path}, {})
    assert (Path(shown.source).is_dir(), shown.read_only) == (True, True)
