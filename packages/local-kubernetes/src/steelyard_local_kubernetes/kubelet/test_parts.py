"""Environment, images, volumes, addresses, mounts, log lines, listening sockets: the small pure parts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from steelyard_local_kubernetes.kubelet import images, shim, shim_processes, splice, volumes
from steelyard_local_kubernetes.kubelet.addresses import AHEAD, REST_SECONDS, Addresses, NoAddressLeft
from steelyard_local_kubernetes.kubelet.env import ConfigMissing, Facts, UnsupportedField, environment, field
from steelyard_local_kubernetes.kubelet.guard import Listener, parse_listeners
from steelyard_local_kubernetes.kubelet.records import log_tail
from steelyard_local_kubernetes.kubelet.splice import Mount, add_visible, folders_to_splice, rewrite
from steelyard_local_kubernetes.kubelet.testing import make_container, make_pod
from steelyard_schema.variables import expand

FACTS = Facts("127.200.0.7", "127.0.0.1", "node", {"cpu": 2.0, "memory": 2.0**30})


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("http://$(HOST):$(PORT)", "http://h:80"),
        ("$(UNKNOWN)", "$(UNKNOWN)"),
        ("$$(HOST)", "$(HOST)"),
        ("$$$(HOST)", "$h"),
        ("a$b $(", "a$b $("),
        ("$HOST", "$HOST"),
    ],
)
def test_expansion(text: str, expanded: str) -> None:
    assert expand(text, {"HOST": "h", "PORT": "80"}) == expanded


def test_the_environment_of_a_container() -> None:
    objects = {
        ("ConfigMap", "settings"): {"data": {"COLOUR": "red"}},
        ("Secret", "keys"): {"data": {"token": "c2VjcmV0"}},
        ("ConfigMap", "absent"): None,
    }
    container = make_container(
        envFrom=[
            {"prefix": "SET_", "configMapRef": {"name": "settings"}},
            {"configMapRef": {"name": "absent", "optional": True}},
        ],
        env=[
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "APP", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
            {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}}},
            {
                "name": "MAYBE",
                "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "no", "optional": True}},
            },
            {"name": "URL", "value": "http://$(IP)/$(SET_COLOUR)"},
            {"name": "THREADS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
            {
                "name": "MIB",
                "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}},
            },
        ],
        resources={"limits": {"cpu": "1500m"}},
    )
    assert environment(container, make_pod() | {"metadata": POD_METADATA}, FACTS, objects) == {
        "SET_COLOUR": "red",
        "IP": "127.200.0.7",
        "APP": "x",
        "TOKEN": "secret",
        "URL": "http://127.200.0.7/red",
        "THREADS": "2",
        "MIB": "1024",
    }


POD_METADATA = {"name": "pod", "namespace": "default", "uid": "u", "labels": {"app": "x"}}


def test_annotations_are_quoted_line_by_line() -> None:
    pod = make_pod() | {"metadata": {**POD_METADATA, "annotations": {"b": 'say "so"\nagain', "a": "ä"}}}
    assert field("metadata.annotations", pod, FACTS) == 'a="ä"\nb="say \\"so\\"\\nagain"'


def test_a_field_is_known_by_its_former_name() -> None:
    pod = make_pod() | {"metadata": POD_METADATA}
    assert field("spec.host", pod, FACTS) == field("spec.nodeName", pod, FACTS)


def test_what_is_missing_is_named() -> None:
    wanted = make_container(env=[{"name": "X", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "k"}}}])
    pod = make_pod() | {"metadata": POD_METADATA}
    with pytest.raises(ConfigMissing, match='secret "keys" not found'):
        environment(wanted, pod, FACTS, {})
    with pytest.raises(ConfigMissing, match="couldn't find key k in Secret default/keys"):
        environment(wanted, pod, FACTS, {("Secret", "keys"): {"data": {}}})
    with pytest.raises(UnsupportedField, match="qosClass"):
        field("status.qosClass", pod, FACTS)


@pytest.mark.parametrize(
    ("reference", "name"),
    [
        ("localhost/steelyard/steps", "localhost/steelyard/steps"),
        ("localhost/steelyard/steps:1.2@sha256:00", "localhost/steelyard/steps"),
        ("localhost:5000/steps", "localhost:5000/steps"),
        ("localhost:5000/steps:tag", "localhost:5000/steps"),
    ],
)
def test_the_name_of_an_image(reference: str, name: str) -> None:
    assert images.image_name(reference) == name


def test_an_image_brings_its_python_and_its_command(tmp_path: Path) -> None:
    path = tmp_path / "images.toml"
    path.write_text('["localhost/a"]\npython = "/env/bin/python"\ncommand = ["python", "-m", "server"]\n')
    image = images.ImageFile(path)("localhost/a:1")
    assert image.argv({"args": ["--x"]}) == ["/env/bin/python", "-m", "server", "--x"]
    assert image.argv({"command": ["python3", "y"]}) == ["/env/bin/python", "y"]
    assert image.argv({"command": ["sh"]}) == ["sh"]
    assert image.path().startswith("/env/bin:")
    with pytest.raises(images.ImageMissing, match=r'\["localhost/b"\]'):
        images.ImageFile(path)("localhost/b")


def test_a_volume_is_made_once_and_holds_what_is_asked_for(tmp_path: Path) -> None:
    volume = {"name": "v", "configMap": {"name": "c", "items": [{"key": "a", "path": "sub/A"}]}}
    objects = {("ConfigMap", "c"): {"data": {"a": "1", "b": "2"}}}
    files = volumes.volume_files(volume, make_pod(), FACTS, objects)
    folder = volumes.make(volume, files, tmp_path / "v")
    assert [(path.name, path.read_text()) for path in folder.rglob("*") if path.is_file()] == [("A", "1")]
    volumes.make(volume, {"other": b""}, folder)
    assert not (folder / "other").exists()


def test_a_file_of_a_volume_has_its_own_mode_or_the_volumes(tmp_path: Path) -> None:
    items = [{"key": "a", "path": "a", "mode": 0o555}, {"key": "b", "path": "b"}]
    volume = {"name": "v", "configMap": {"name": "c", "items": items, "defaultMode": 0o600}}
    folder = volumes.make(volume, {"a": b"", "b": b""}, tmp_path / "v")
    assert {name: (folder / name).stat().st_mode & 0o777 for name in "ab"} == {"a": 0o555, "b": 0o600}


@pytest.mark.parametrize("path", ["../out", "/etc/out", "a/../../out"])
def test_a_file_never_leaves_its_volume(tmp_path: Path, path: str) -> None:
    with pytest.raises(UnsupportedField, match="leaves its volume"):
        volumes.make({"name": "v", "configMap": {"name": "c"}}, {path: b""}, tmp_path / "v")


def test_an_address_is_given_once_also_by_the_next_counter(tmp_path: Path) -> None:
    given = [Addresses(tmp_path / "a", "127.200.0.0/29").take() for _ in range(6)]
    assert given == [f"127.200.0.{last}" for last in range(1, 7)]
    with pytest.raises(NoAddressLeft):
        Addresses(tmp_path / "a", "127.200.0.0/29").take()


def test_an_address_comes_again_when_its_pod_is_long_gone(tmp_path: Path) -> None:
    now = [1000.0]
    addresses = Addresses(tmp_path / "a", "127.200.0.0/29", lambda: now[0])
    first, second, *rest = (addresses.take() for _ in range(6))
    addresses.release(second)
    now[0] += 60
    addresses.release(first)
    with pytest.raises(NoAddressLeft):
        addresses.take()
    now[0] += REST_SECONDS - 60
    assert addresses.take() == second, "the first has not rested long enough"
    with pytest.raises(NoAddressLeft):
        addresses.take()
    now[0] += 60
    again = Addresses(tmp_path / "a", "127.200.0.0/29", lambda: now[0])
    again.adopt([second, *rest])
    assert again.take() == first
    lost = Addresses(tmp_path / "a", "127.200.0.0/29", lambda: now[0])
    lost.adopt([])  # a user has removed the Pods' folders
    with pytest.raises(NoAddressLeft):
        lost.take()
    now[0] += REST_SECONDS
    assert lost.take() in {first, second, *rest}


def test_addresses_that_an_older_kubelet_gave_rest_first(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("5")
    now = [1000.0]
    addresses = Addresses(tmp_path / "a", "127.200.0.0/29", lambda: now[0])
    assert addresses.take() == "127.200.0.6"
    with pytest.raises(NoAddressLeft):
        addresses.take()
    now[0] += REST_SECONDS
    assert addresses.take() == "127.200.0.1"


def test_what_a_claim_holds_stays_and_is_the_namespaces_own(tmp_path: Path) -> None:
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    folder = volumes.claim_folder(tmp_path / "ns", volume)
    (folder / "kept").touch()
    assert (volumes.claim_folder(tmp_path / "ns", volume) / "kept").exists()
    assert not (volumes.claim_folder(tmp_path / "other", volume) / "kept").exists()


def test_a_part_of_a_volume_by_a_variable(tmp_path: Path) -> None:
    mount = {"name": "v", "mountPath": "/data", "subPathExpr": "$(POD)/logs"}
    pod = make_pod(make_container(volumeMounts=[mount]), volumes=[{"name": "v", "emptyDir": {}}])
    (binding,) = volumes.mounts(pod["spec"]["containers"][0], pod, {"v": tmp_path}, {"POD": "worker-0"})
    assert (binding.source, binding.read_only) == (str(tmp_path / "worker-0/logs"), False)
    with pytest.raises(UnsupportedField, match="leaves its volume"):
        volumes.mounts(pod["spec"]["containers"][0], pod, {"v": tmp_path}, {"POD": "../.."})


def test_addresses_are_on_disk_before_they_are_given(tmp_path: Path) -> None:
    counter = Addresses(tmp_path / "a", "127.200.0.0/24")
    for number in range(1, 100):
        assert counter.take() == f"127.200.0.{number}"
        assert number <= int((tmp_path / "a").read_text()) < number + AHEAD
    written = int((tmp_path / "a").read_text())
    assert Addresses(tmp_path / "a", "127.200.0.0/24").take() == f"127.200.0.{written + 1}"


def test_which_folders_are_spliced() -> None:
    host = {"/", "/etc", "/etc/hosts", "/dev", "/tmp", "/opt", "/opt/models"}
    mounts = [
        Mount("h", "/etc/hosts", link=True),
        Mount("c", "/etc/steelyard"),
        Mount("t", "/dev/termination-log"),
        Mount("s", "/tmp"),
        Mount("x", "/tmp/deep/inside"),
        Mount("m", "/opt/models"),
        Mount("v", "/dyff/mnt/volume"),
        Mount("w", "/dyff/mnt/other"),
    ]
    assert folders_to_splice(mounts, host.__contains__) == ["/", "/dev", "/etc"]
    assert folders_to_splice([Mount("s", "/tmp")], host.__contains__) == []


def test_what_a_volume_would_hide_but_must_not_stays_visible() -> None:
    kept = add_visible([Mount("s", "/tmp"), Mount("y", "/opt")], ["/tmp/state", "/usr/lib", "/tmp"])
    assert [(mount.source, mount.target) for mount in kept] == [
        ("y", "/opt"),
        ("s", "/tmp"),
        ("/tmp/state", "/tmp/state"),
    ]


@pytest.mark.parametrize(
    ("text", "moved"),
    [
        ("/etc/steelyard/config.json", "/pods/config/config.json"),
        ("--config=/etc/steelyard/config.json", "--config=/pods/config/config.json"),
        ("file:///etc/steelyard", "file:///pods/config"),
        ("a:/tmp:/etc", "a:/pods/tmp:/etc"),
        ("open('/tmp/x')", "open('/pods/tmp/x')"),
        ("/etc/steelyard2", "/etc/steelyard2"),
        ("/var/tmp/x", "/var/tmp/x"),
        ("./tmp", "./tmp"),
        ("/tmp/etc/steelyard", "/pods/tmp/etc/steelyard"),
    ],
)
def test_paths_are_rewritten_where_there_are_no_mounts(text: str, moved: str) -> None:
    assert rewrite(text, {"/tmp": "/pods/tmp", "/etc/steelyard": "/pods/config"}) == moved


def test_log_lines_are_in_the_format_of_container_runtimes(tmp_path: Path) -> None:
    moment = 1_767_225_600_000_000_001
    lines, rest = shim.cri_lines("stdout", b"one\n\ntwo", moment)
    head = b"2026-01-01T00:00:00.000000001Z stdout "
    assert lines == head + b"F one\n" + head + b"F \n"
    assert rest == b"two"
    long = b"x" * (2 * shim.LINE + 1)
    lines, rest = shim.cri_lines("stdout", long + b"\n", moment)
    assert [(line.split(b" ")[2], len(line.split(b" ")[3])) for line in lines.splitlines()] == [
        (b"P", shim.LINE),
        (b"P", shim.LINE),
        (b"F", 1),
    ]
    log = tmp_path / "0.log"
    log.write_bytes(b"".join(head + b"F line %d\n" % number for number in range(200)))
    assert log_tail(log) == "".join(f"line {number}\n" for number in range(120, 200))
    log.write_bytes(head + b"P one " + b"\n" + head + b"F line\n" + head + b"P no end\n")
    assert log_tail(log) == "one line\nno end"


def test_only_what_listens_on_all_addresses_is_found() -> None:
    table = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11 1 0 100 0 0 10 0
   1: 0100007F:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12 1 0 100 0 0 10 0
   2: 00000000:1F41 0100007F:D2F0 01 00000000:00000000 00:00000000 00000000     0        0 13 1 0 100 0 0 10 0
   3: 00000000:1F42 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 14 1 0 100 0 0 10 0"""
    assert parse_listeners(table.splitlines()) == ({Listener(8000, 11)}, True)


def test_the_shim_needs_nothing_but_the_standard_library() -> None:
    code = shim_processes.program("sys.exit").replace("shim.sys.exit()", "print(*sorted(sys.modules))")
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    )
    ours = {name for name in done.stdout.split() if name.startswith("steelyard")}
    here = "steelyard_local_kubernetes.kubelet"
    assert ours == {
        "steelyard_common",
        "steelyard_common.processes",
        "steelyard_local_kubernetes",
        here,
        f"{here}.init",
        f"{here}.shim",
        f"{here}.splice",
    }
    assert splice.inside("/a/b", "/a")


def test_a_process_that_has_ended_before_it_is_killed_is_no_error() -> None:
    shim_processes.kill({2**22 + 1})  # more than Linux gives out


def test_a_record_is_there_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "0.exited"
    shim.write_whole(str(path), {"exitCode": 0})

    def full(fd: int) -> None:
        raise OSError("the machine dies here")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="dies"):
        shim.write_whole(str(path), {"exitCode": 1})
    assert path.read_text() == '{"exitCode": 0}'
