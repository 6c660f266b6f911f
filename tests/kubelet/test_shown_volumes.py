"""Volumes of running Pods follow what they show."""

import base64

import pytest

from steelyard_common.types import Json
from steelyard_kube.resource import CONFIG_MAPS, PODS, SECRETS
from steelyard_local_kubernetes.kubelet import tokens
from steelyard_local_kubernetes.kubelet.stopping import stop_all_pods
from steelyard_local_kubernetes.kubelet.testing import (
    Machine,
    container_status,
    is_running,
    make_container,
    make_pod,
    phase,
)

MOUNT = {"name": "v", "mountPath": "/shown"}


VARIABLES: dict[str, Json] = {
    "a variable": {"env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "s", "key": "a"}}}]},
    "all variables": {"envFrom": [{"secretRef": {"name": "s"}}]},
}


def config_map(text: str) -> Json:
    return {"metadata": {"name": "c", "namespace": "default"}, "data": {"a": text}}


def secret(text: str) -> Json:
    data = {"a": base64.b64encode(text.encode()).decode()}
    return {"metadata": {"name": "s", "namespace": "default"}, "data": data}


def shows(script: str, **spec: str) -> Json:
    volumes = [{"name": "v", "configMap": {"name": "c"}}]
    return make_pod(make_container(script, volumeMounts=[MOUNT]), volumes=volumes, **spec)


async def change(machine: Machine, text: str) -> None:
    await machine.cluster.patch(CONFIG_MAPS, "c", {"data": {"a": text}}, "default")


async def test_a_running_pod_sees_a_change(machine: Machine) -> None:
    await machine.cluster.create(CONFIG_MAPS, config_map("one"))
    script = "cat /shown/a; until grep -q two /shown/a; do sleep 0.05; done; cat /shown/a"
    await machine.cluster.create(PODS, shows(script))
    await machine.until(is_running)
    await change(machine, "two")
    pod = await machine.until(lambda pod: pod["status"]["phase"] == "Succeeded")
    assert "".join(machine.log(pod)) == "onetwo"


async def test_a_change_while_no_kubelet_runs_is_seen_by_the_next(machine: Machine) -> None:
    await machine.cluster.create(CONFIG_MAPS, config_map("one"))
    await machine.cluster.create(PODS, shows("until grep -q two /shown/a; do sleep 0.05; done"))
    await machine.until(is_running)
    await machine.stop()
    await change(machine, "two")
    machine.start()
    await machine.until(lambda pod: pod["status"]["phase"] == "Succeeded")


async def test_a_container_that_starts_again_begins_with_the_change(machine: Machine) -> None:
    await machine.cluster.create(CONFIG_MAPS, config_map("one"))
    await machine.cluster.create(PODS, shows("cat /shown/a; grep -q two /shown/a", restartPolicy="OnFailure"))
    await machine.until(lambda pod: container_status(pod).get("restartCount", 0) >= 1)
    await change(machine, "two")
    await machine.until(lambda pod: pod["status"]["phase"] == "Succeeded")


@pytest.mark.parametrize("script", ["true", "false"])
@pytest.mark.parametrize(
    "source",
    [
        {"secret": {"secretName": "s"}},
        {"projected": {"sources": [{"secret": {"name": "s"}}]}},
    ],
    ids=["secret", "projected"],
)
@pytest.mark.parametrize("variables", VARIABLES.values(), ids=VARIABLES)
async def test_a_pod_that_has_ended_leaves_no_value_of_a_secret(
    machine: Machine, source: Json, script: str, variables: Json
) -> None:
    """A cluster unmounts volumes then. The log stays, and so does what else the Pod has written."""
    await machine.cluster.create(SECRETS, secret("a-distinctive-value"))
    await machine.cluster.create(CONFIG_MAPS, config_map("one"))
    kept = {"name": "kept", "mountPath": "/kept"}
    script = f"test $X$a = a-distinctive-value && wc -c < /shown/a > /kept/size; {script} $(X)"
    container = make_container(script, volumeMounts=[MOUNT, kept], **variables)
    volumes = [
        {"name": "v", **source},
        {"name": "kept", "emptyDir": {}},
        {"name": "c", "configMap": {"name": "c"}},
    ]
    await machine.cluster.create(PODS, make_pod(container, volumes=volumes, restartPolicy="Never"))
    await machine.until(lambda pod: pod["status"]["phase"] in ("Succeeded", "Failed"))
    files = [path for path in machine.config.pods.rglob("*") if path.is_file()]
    assert [path.read_text().strip() for path in files if path.name == "size"] == ["19"]
    assert any(path.read_bytes() == b"one" for path in files)
    assert not any(b"a-distinctive-value" in path.read_bytes() for path in files)


async def test_a_pod_that_ends_while_no_kubelet_runs_leaves_no_token(machine: Machine) -> None:
    """No manifest names the volume of an account's token, and the kubelet that made it is gone."""
    kept = {"name": "kept", "mountPath": "/kept"}
    container = make_container("while ! test -e /kept/end; do sleep 0.01; done", volumeMounts=[kept])
    pod = make_pod(container, volumes=[{"name": "kept", "emptyDir": {}}], restartPolicy="Never")
    await machine.cluster.create(PODS, pod)
    pod = await machine.until(is_running)
    folder = machine.folder(pod).path / "volumes"
    (folder / tokens.VOLUME).mkdir()
    (folder / tokens.VOLUME / "token").write_text("a token")
    await machine.crash()
    (folder / "kept" / "end").write_text("")
    await machine.until(lambda _: machine.folder(pod).base("main", 0).with_suffix(".exited").exists())
    machine.start()
    await machine.until(lambda pod: phase(pod) == "Succeeded")
    assert not (folder / tokens.VOLUME).exists()
    assert (folder / "kept" / "end").exists()


async def test_a_machine_that_is_stopped_leaves_no_value_of_a_secret(machine: Machine) -> None:
    """A Pod that has ended when no kubelet runs any more to remove it leaves none, either."""
    await machine.cluster.create(SECRETS, secret("a-distinctive-value"))
    volumes = [{"name": "v", "secret": {"secretName": "s"}}, {"name": "kept", "emptyDir": {}}]
    mounts = [MOUNT, {"name": "kept", "mountPath": "/kept"}]
    script = "ln -s 1 /kept/..data; wc -c < /shown/a > /kept/size; sleep 600"
    container = make_container(script, volumeMounts=mounts, **VARIABLES["a variable"])
    pod = await machine.cluster.create(PODS, make_pod(container, volumes=volumes))
    folder = machine.folder(pod).path / "volumes"
    await machine.until(lambda _: (folder / "kept" / "size").exists())
    await machine.crash()
    (folder / "w.making").mkdir()
    await stop_all_pods(machine.config, grace=0.0)
    files = [path for path in machine.config.pods.rglob("*") if path.is_file()]
    assert not any(b"a-distinctive-value" in path.read_bytes() for path in files)
    assert [path.name for path in folder.iterdir()] == ["kept"]
    machine.start()
    await machine.until(lambda pod: phase(pod) == "Failed")


async def test_a_pod_that_goes_on_after_a_stop_has_its_secret_again(machine: Machine) -> None:
    """The first container has ended, and the next one waits: nothing of it ran when the machine was stopped."""
    await machine.cluster.create(SECRETS, secret("value"))
    awaited = [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "a"}}}]
    script = "grep -q value /shown/a"
    pod = make_pod(
        make_container(script, env=awaited, volumeMounts=[MOUNT]),
        initContainers=[make_container(script, "first", volumeMounts=[MOUNT])],
        volumes=[{"name": "v", "secret": {"secretName": "s"}}],
    )
    pod = await machine.cluster.create(PODS, pod)
    first = machine.folder(pod).base("first", 0)
    await machine.until(lambda _: first.with_suffix(".exited").exists())
    await machine.crash()
    await stop_all_pods(machine.config, grace=0.0)
    assert not (machine.folder(pod).path / "volumes" / "v").exists()
    await machine.cluster.create(CONFIG_MAPS, config_map("one"))
    machine.start()
    await machine.until(lambda pod: phase(pod) == "Succeeded")


async def test_a_container_that_starts_again_still_has_its_secret(machine: Machine) -> None:
    await machine.cluster.create(SECRETS, secret("value"))
    volumes = [{"name": "v", "secret": {"secretName": "s"}}, {"name": "kept", "emptyDir": {}}]
    mounts = [MOUNT, {"name": "kept", "mountPath": "/kept"}]
    script = "grep -q value /shown/a && test -e /kept/once || { touch /kept/once; exit 1; }"
    pod = make_pod(make_container(script, volumeMounts=mounts), volumes=volumes, restartPolicy="OnFailure")
    await machine.cluster.create(PODS, pod)
    await machine.until(lambda pod: pod["status"]["phase"] == "Succeeded")
