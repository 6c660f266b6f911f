"""Lifecycle hooks and sidecars of Pods that really run."""

import pytest

from steelyard_common.types import Json
from steelyard_kube.resource import EVENTS, PODS
from steelyard_local_kubernetes.kubelet.testing import (
    Machine,
    container_status,
    is_running,
    make_container,
    make_pod,
    phase,
)

SHARED: Json = {"volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}
VOLUMES: Json = {"volumes": [{"name": "shared", "emptyDir": {}}]}
SERVE = "trap 'echo term >> /shared/words; exit 0' TERM; echo up; while :; do sleep 0.05; done"


def shell(script: str) -> Json:
    return {"exec": {"command": ["sh", "-c", script]}}


def words(machine: Machine, pod: Json) -> list[str]:
    return (machine.folder(pod).volume(pod, "shared") / "words").read_text().split()


def reasons(machine: Machine) -> set[str]:
    return {event["reason"] for event in machine.cluster.store.objects(EVENTS)}


async def test_the_hook_after_the_start_comes_before_readiness(machine: Machine) -> None:
    hook = {"postStart": shell("while ! test -e /shared/go; do sleep 0.05; done; echo hook >> /shared/words")}
    container = make_container(SERVE, lifecycle=hook, **SHARED)
    await machine.cluster.create(PODS, make_pod(container, restartPolicy="Always", **VOLUMES))
    pod = await machine.until(is_running)
    assert not container_status(pod)["ready"]
    (machine.folder(pod).volume(pod, "shared") / "go").touch()
    pod = await machine.until(lambda pod: container_status(pod)["ready"])
    # A kubelet that starts again does not run it again.
    await machine.crash()
    machine.start()
    await machine.until(lambda pod: container_status(pod)["ready"])
    assert words(machine, pod) == ["hook"]


async def test_a_container_whose_hook_fails_starts_again(machine: Machine) -> None:
    container = make_container("sleep 60", lifecycle={"postStart": shell("exit 3")})
    await machine.cluster.create(PODS, make_pod(container, restartPolicy="Always"))
    await machine.until(lambda pod: container_status(pod).get("restartCount", 0) >= 1)
    await machine.until(lambda pod: "FailedPostStartHook" in reasons(machine))


@pytest.mark.parametrize(
    ("hook", "said"),
    [
        pytest.param(shell("echo hook >> /shared/words"), ["hook", "term"], id="exec"),
        pytest.param({"sleep": {"seconds": 0}}, ["term"], id="sleep"),
        pytest.param(shell("exit 1"), ["term"], id="a hook that fails holds nothing up"),
    ],
)
async def test_the_hook_before_the_end_comes_before_the_signal(
    machine: Machine, hook: Json, said: list[str]
) -> None:
    container = make_container(SERVE, lifecycle={"preStop": hook}, **SHARED)
    # The finalizer keeps the Pod's folder until its words were read.
    pod = make_pod(container, make_container("sleep 60", name="other"), **VOLUMES)
    pod["spec"]["activeDeadlineSeconds"] = 2
    await machine.cluster.create(PODS, pod)
    await machine.until(lambda pod: machine.log(pod) == ["up"] if is_running(pod) else False)
    pod = await machine.until(lambda pod: phase(pod) == "Failed")
    assert words(machine, pod) == said


async def test_sidecars_start_before_the_containers_and_end_after_them(machine: Machine) -> None:
    # It fails some times, fewer on a slow machine: three failures, the default, would end the sidecar.
    probe = {
        "startupProbe": {**shell("test -e /shared/ready"), "periodSeconds": 0.05, "failureThreshold": 1000}
    }
    proxy = make_container(f"sleep 0.3; touch /shared/ready; {SERVE}", name="proxy", **SHARED, **probe)
    main = make_container("test -e /shared/ready && echo main >> /shared/words", **SHARED)
    pod = await machine.run(make_pod(main, initContainers=[{**proxy, "restartPolicy": "Always"}], **VOLUMES))
    assert phase(pod) == "Succeeded"
    assert words(machine, pod) == ["main", "term"]


async def test_a_sidecar_that_ends_starts_again_while_the_containers_run(machine: Machine) -> None:
    proxy = {**make_container("sleep 0.2", name="proxy"), "restartPolicy": "Always"}
    await machine.cluster.create(PODS, make_pod(make_container("sleep 60"), initContainers=[proxy]))
    pod = await machine.until(
        lambda pod: is_running(pod) and container_status(pod, "proxy").get("restartCount", 0) >= 2
    )
    assert (phase(pod), container_status(pod)["restartCount"]) == ("Running", 0)
