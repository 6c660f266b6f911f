"""Restarts, probes, orderly and disorderly ends, and what a Pod must not take."""

import asyncio
from pathlib import Path
from typing import Any, Literal

import pytest

from steelyard_common.types import Json
from steelyard_kube.errors import NotFound
from steelyard_kube.resource import EVENTS, PODS
from steelyard_local_kubernetes.kubelet.testing import (
    Machine,
    condition,
    container_status,
    is_running,
    make_config,
    make_container,
    make_pod,
    phase,
    termination,
)
from tests.kubelet.conftest import nothing_left_of

STUBBORN = "trap '' TERM; (trap '' TERM; setsid sleep 61) & echo up; while :; do sleep 0.05; done"


def ready(pod: Json, name: str = "main") -> bool:
    return bool(container_status(pod, name).get("ready"))


async def test_a_failed_container_starts_again_until_it_succeeds(machine: Machine) -> None:
    shared: Json = {"volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}
    script = "echo run >> /shared/runs; test $(wc -l < /shared/runs) -ge 3"
    container = make_container(script, **shared)
    volumes = [{"name": "shared", "emptyDir": {}}]
    pod = await machine.run(make_pod(container, volumes=volumes, restartPolicy="OnFailure"))
    assert phase(pod) == "Succeeded"
    assert container_status(pod)["restartCount"] == 2
    assert container_status(pod)["lastState"]["terminated"]["exitCode"] == 1
    assert (machine.folder(pod).path / "volumes/shared/runs").read_text() == "run\n" * 3


async def test_a_container_that_always_ends_backs_off(machine: Machine) -> None:
    await machine.cluster.create(PODS, make_pod(make_container("exit 3"), restartPolicy="Always"))
    pod = await machine.until(
        lambda pod: (
            container_status(pod).get("state", {}).get("waiting", {}).get("reason") == "CrashLoopBackOff"
        )
    )
    assert phase(pod) == "Running"
    assert (
        "s restarting failed container=main pod=pod" in container_status(pod)["state"]["waiting"]["message"]
    )
    assert container_status(pod)["lastState"]["terminated"]["exitCode"] == 3
    await machine.until(lambda pod: container_status(pod)["restartCount"] >= 3)


async def test_one_container_goes_on_while_another_has_ended(machine: Machine) -> None:
    await machine.cluster.create(
        PODS, make_pod(make_container("sleep 60"), make_container("exit 1", "other"))
    )
    pod = await machine.until(lambda pod: "terminated" in container_status(pod, "other").get("state", {}))
    await machine.until(is_running)
    assert phase(pod) in ("Pending", "Running")
    pod = await machine.until(lambda pod: phase(pod) == "Running")
    assert "unready status: [other]" in condition(pod, "Ready")["message"]


SERVER = """
import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if os.path.exists('/shared' + self.path) else 503)
        self.end_headers()
    def log_message(self, *args): pass
http.server.HTTPServer((os.environ['POD_IP'], 8000), Handler).serve_forever()
"""


def make_server(**probes: Any) -> Json:
    env = [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
    mounts = [{"name": "shared", "mountPath": "/shared"}]
    return make_container(env=env, volumeMounts=mounts, **probes) | {"command": ["python", "-c", SERVER]}


def http(path: str, **fields: int) -> Json:
    return {"httpGet": {"path": path, "port": 8000}, "periodSeconds": 0.05, **fields}


async def test_readiness_follows_the_probe(machine: Machine) -> None:
    container = make_server(readinessProbe=http("/ready", failureThreshold=1))
    await machine.cluster.create(PODS, make_pod(container, volumes=[{"name": "shared", "emptyDir": {}}]))
    pod = await machine.until(is_running)
    assert not ready(pod)
    flag = machine.folder(pod).path / "volumes/shared/ready"
    flag.touch()
    pod = await machine.until(ready)
    assert condition(pod, "Ready")["status"] == "True"
    flag.unlink()
    await machine.until(lambda pod: not ready(pod))


async def test_a_container_that_is_not_live_is_started_again(machine: Machine) -> None:
    container = make_server(livenessProbe=http("/live", failureThreshold=2, initialDelaySeconds=1))
    pod = make_pod(container, volumes=[{"name": "shared", "emptyDir": {}}], restartPolicy="Always")
    await machine.cluster.create(PODS, pod)
    pod = await machine.until(lambda pod: container_status(pod).get("restartCount") == 1)
    assert container_status(pod)["lastState"]["terminated"]["exitCode"] == 143


async def test_nothing_is_probed_before_the_startup_probe_succeeds(machine: Machine) -> None:
    container = make_server(startupProbe=http("/up", failureThreshold=1000), readinessProbe=http("/up"))
    await machine.cluster.create(PODS, make_pod(container, volumes=[{"name": "shared", "emptyDir": {}}]))
    pod = await machine.until(is_running)
    assert not container_status(pod)["started"]
    (machine.folder(pod).path / "volumes/shared/up").touch()
    pod = await machine.until(ready)
    assert container_status(pod)["started"]


@pytest.mark.parametrize("mounts", ["auto", "never"])
async def test_exec_and_tcp_probes(tmp_path: Path, machine: Machine, mounts: str) -> None:
    """Paths of volumes in the command of a probe are those of the container, also where nothing can be mounted."""
    await machine.stop()
    machine.config = make_config(tmp_path / "state", interval=0.05, mounts=mounts)
    machine.start()
    seen = {"exec": {"command": ["test", "-e", "/shared/seen"]}, "periodSeconds": 0.05, "timeoutSeconds": 5}
    container = make_server(
        readinessProbe=seen,
        startupProbe={"tcpSocket": {"port": 8000}, "periodSeconds": 0.05, "failureThreshold": 1000},
    )
    await machine.cluster.create(PODS, make_pod(container, volumes=[{"name": "shared", "emptyDir": {}}]))
    pod = await machine.until(lambda pod: container_status(pod).get("started"))
    assert not ready(pod)
    (machine.folder(pod).path / "volumes/shared/seen").touch()
    await machine.until(ready)


async def test_a_deleted_pod_ends_in_order(machine: Machine) -> None:
    shared: Json = {"volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}
    script = "trap 'echo bye >&2; exit 0' TERM; echo up; while :; do sleep 0.02; done"
    container = make_container(script, **shared)
    await machine.cluster.create(PODS, make_pod(container, volumes=[{"name": "shared", "emptyDir": {}}]))
    pod = await machine.until(is_running)
    await machine.until(lambda _: machine.log(pod))
    watch = machine.cluster.watch(PODS, resource_version=pod["metadata"]["resourceVersion"])
    await machine.cluster.delete(PODS, "pod", "default")
    last = pod
    async for event in watch:
        if event.type == "DELETED":
            break
        last = event.object
    assert termination(last)["exitCode"] == 0
    await machine.until_gone()


async def test_a_stubborn_tree_is_killed_after_its_grace_period(machine: Machine, tmp_path: Path) -> None:
    await machine.cluster.create(PODS, make_pod(make_container(STUBBORN)))
    pod = await machine.until(is_running)
    await machine.until(lambda _: machine.log(pod))
    begun = asyncio.get_running_loop().time()
    await machine.cluster.delete(PODS, "pod", "default", grace_seconds=1)
    await machine.until_gone()
    assert asyncio.get_running_loop().time() - begun >= 1
    await nothing_left_of(tmp_path)


@pytest.mark.parametrize("pids", ["auto", "never"])
async def test_what_a_container_leaves_behind_ends_with_it(
    machine: Machine, tmp_path: Path, pids: Literal["auto", "never"]
) -> None:
    """Try it also without process numbers of the Pod's own, whose end would end them all."""
    await machine.stop()
    machine.config = make_config(tmp_path / "state", interval=0.05, crash_backoff=0.05, pids=pids)
    machine.start()
    pod = await machine.run(
        make_pod(make_container("setsid sh -c 'trap \"\" TERM HUP; sleep 62' & echo gone"))
    )
    assert phase(pod) == "Succeeded"
    await nothing_left_of(tmp_path)


async def test_a_pod_made_again_under_its_name_is_another(machine: Machine) -> None:
    await machine.cluster.create(PODS, make_pod(make_container("echo old; sleep 60")))
    old = await machine.until(is_running)
    await machine.cluster.delete(PODS, "pod", "default", grace_seconds=0)
    with pytest.raises(NotFound):
        await machine.pod()
    new = await machine.run(make_pod(make_container("echo new")))
    assert machine.log(new) == ["new"]
    assert new["status"]["podIP"] != old["status"]["podIP"]


@pytest.mark.parametrize("address", ["0.0.0.0", "::"])
async def test_a_process_that_listens_on_all_addresses_fails_its_pod(machine: Machine, address: str) -> None:
    family = "AF_INET6" if ":" in address else "AF_INET"
    script = f"import socket as s, time; x = s.socket(s.{family}); x.bind(('{address}', 0))"
    script += "; print(x.getsockname()[1], flush=True); x.listen(); time.sleep(60)"  # it may end as soon as it listens
    pod = await machine.run(make_pod(make_container() | {"command": ["python", "-c", script]}))
    assert (phase(pod), pod["status"]["reason"]) == ("Failed", "BoundToAllAddresses")
    assert f"listens on port {machine.log(pod)[0]} of all addresses" in pod["status"]["message"]


async def test_the_host_network_and_what_trains_may_listen_everywhere(machine: Machine) -> None:
    script = "import socket as s, time; x = s.create_server(('0.0.0.0', 0)); time.sleep(0.4)"
    command = {"command": ["python", "-c", script]}
    training = make_pod(make_container() | command, name="training")
    training["metadata"]["labels"]["training.kubeflow.org/job-name"] = "x"
    host = make_pod(make_container() | command, name="host", hostNetwork=True)
    pods = await asyncio.gather(machine.run(training), machine.run(host))
    assert [phase(pod) for pod in pods] == ["Succeeded", "Succeeded"]


def messages(machine: Machine, reason: str) -> str:
    """Return the messages of all events of a reason, one after the other."""
    events = machine.cluster.store.objects(EVENTS)
    return "\n".join(event["message"] for event in events if event["reason"] == reason)


async def test_memory_beyond_the_limit_is_a_kill(machine: Machine) -> None:
    script = "x = bytearray(200 << 20); import time; time.sleep(60)"
    limits: Json = {"resources": {"limits": {"memory": "64Mi"}}}
    pod = await machine.run(make_pod(make_container(**limits) | {"command": ["python", "-c", script]}))
    state = {name: value for name, value in termination(pod).items() if not name.endswith("At")}
    assert state == {"exitCode": 137, "reason": "OOMKilled"}
    async with asyncio.timeout(60):  # events are written some time after what they report
        while "its limit is 64Mi" not in messages(machine, "OOMKilled"):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_a_lease_that_is_not_renewed_ends_the_container(machine: Machine, tmp_path: Path) -> None:
    await machine.stop()
    machine.config = type(machine.config)(**(vars(machine.config) | {"lease_seconds": 0.5}))
    machine.start()
    await machine.cluster.create(PODS, make_pod(make_container("exec sleep 63")))
    pod = await machine.until(is_running)
    await machine.stop()
    await nothing_left_of(tmp_path)
    machine.start()
    pod = await machine.until(lambda pod: phase(pod) == "Failed")
    assert termination(pod)["reason"] == "LeaseExpired"
