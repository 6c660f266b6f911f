"""Volumes of running Pods follow what they show."""

from steelyard.kube.resource import CONFIG_MAPS, PODS
from steelyard.local.kubelet.testing import Machine, container_status, is_running, make_container, make_pod
from steelyard.types import Json

MOUNT = {"name": "v", "mountPath": "/shown"}


def config_map(text: str) -> Json:
    return {"metadata": {"name": "c", "namespace": "default"}, "data": {"a": text}}


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


async def test_a_change_while_no_kubelet_looks_is_seen_by_the_next(machine: Machine) -> None:
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
