"""Pods that really run, on the in-memory cluster."""

import asyncio
import gc
import os
import sys
from pathlib import Path

import pytest

from steelyard_common.types import Json
from steelyard_kube.errors import Unreachable
from steelyard_kube.resource import (
    CONFIG_MAPS,
    EVENTS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    SERVICES,
    Resource,
)
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
from steelyard_local_kubernetes.kubelet.worker import PodWorker
from steelyard_local_kubernetes.names.folder import namespace_file


async def test_a_pod_that_succeeds(machine: Machine) -> None:
    pod = await machine.run(make_pod(make_container("echo out; echo err >&2")))
    assert phase(pod) == "Succeeded"
    assert termination(pod) | {"startedAt": "", "finishedAt": ""} == {
        "exitCode": 0,
        "reason": "Completed",
        "startedAt": "",
        "finishedAt": "",
    }
    assert sorted(machine.log(pod)) == ["err", "out"]
    assert condition(pod, "PodScheduled")["status"] == "True"
    assert condition(pod, "Ready") | {"lastTransitionTime": ""} == {
        "type": "Ready",
        "status": "False",
        "reason": "PodCompleted",
        "message": "",
        "lastProbeTime": None,
        "lastTransitionTime": "",
    }


async def test_a_login_shell_finds_the_programs_of_its_image(machine: Machine) -> None:
    """The machine's /etc/profile sets a PATH of its own, which lacks them."""
    program = "command -v python; bash -lc 'command -v python'; sh -lc 'command -v python'"
    pod = await machine.run(make_pod(make_container(program)))
    assert machine.log(pod) == [f"{Path(sys.executable).parent}/python"] * 3
    variable = {"name": "PATH", "value": "/own:/usr/bin:/bin"}
    pod = await machine.run(make_pod(make_container("bash -lc 'echo $PATH'", env=[variable]), name="own"))
    assert machine.log(pod) == ["/own:/usr/bin:/bin"]


async def test_exit_code_and_last_words_are_reported(machine: Machine) -> None:
    pod = await machine.run(
        make_pod(make_container('printf \'{"code": "Bad"}\' > /dev/termination-log; exit 65'))
    )
    assert phase(pod) == "Failed"
    assert (termination(pod)["exitCode"], termination(pod)["reason"]) == (65, "Error")
    assert termination(pod)["message"] == '{"code": "Bad"}'


async def test_last_words_are_cut_at_4096_bytes(machine: Machine) -> None:
    pod = await machine.run(
        make_pod(make_container("head -c 9000 /dev/zero | tr '\\0' x > /dev/termination-log"))
    )
    assert termination(pod)["message"] == "x" * 4096


async def test_the_log_speaks_where_the_policy_asks_for_it(machine: Machine) -> None:
    talkative = make_container(
        "echo first; echo last >&2; exit 3", terminationMessagePolicy="FallbackToLogsOnError"
    )
    pod = await machine.run(make_pod(talkative))
    assert sorted(termination(pod)["message"].split()) == ["first", "last"]


async def test_a_signal_is_reported_as_such(machine: Machine) -> None:
    pod = await machine.run(make_pod(make_container("kill -9 $$$$")))
    assert (termination(pod)["exitCode"], termination(pod)["signal"]) == (137, 9)


async def test_a_program_that_does_not_exist(machine: Machine) -> None:
    pod = await machine.run(make_pod(make_container() | {"command": ["/no/such/program"]}))
    assert (termination(pod)["exitCode"], termination(pod)["reason"]) == (128, "StartError")
    assert "/no/such/program: No such file" in termination(pod)["message"]


async def test_init_containers_run_one_after_the_other_before_the_rest(machine: Machine) -> None:
    shared: Json = {"volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}
    init = [
        make_container(f"sleep 0.05; echo {name} >> /shared/order", name, **shared) for name in ("one", "two")
    ]
    pod = await machine.run(
        make_pod(
            make_container("echo main >> /shared/order; cat /shared/order", **shared),
            initContainers=init,
            volumes=[{"name": "shared", "emptyDir": {}}],
        )
    )
    assert machine.log(pod) == ["one", "two", "main"]
    assert [container_status(pod, name)["ready"] for name in ("one", "two")] == [True, True]


async def test_a_failed_init_container_fails_the_pod(machine: Machine) -> None:
    pod = await machine.run(
        make_pod(initContainers=[make_container("exit 4", "first"), make_container("", "second")])
    )
    assert phase(pod) == "Failed"
    assert termination(pod, "first")["exitCode"] == 4
    assert container_status(pod, "second")["state"] == {"waiting": {"reason": "PodInitializing"}}
    assert container_status(pod)["state"] == {"waiting": {"reason": "PodInitializing"}}
    assert condition(pod, "Initialized")["status"] == "False"


MOUNTED = make_container(
    "cat /etc/steelyard/config.json; echo weights > /dyff/mnt/volume/model; cat /dyff/mnt/volume/model; "
    "touch /tmp/scratch; ls /tmp | grep -v -e work -e root; echo $STEELYARD_TERMINATION_LOG | head -c 5 >/dev/null; "
    "printf done > $STEELYARD_TERMINATION_LOG",
    env=[{"name": "STEELYARD_TERMINATION_LOG", "value": "/dev/termination-log"}],
    volumeMounts=[
        {"name": "config", "mountPath": "/etc/steelyard"},
        {"name": "model", "mountPath": "/dyff/mnt/volume"},
        {"name": "scratch", "mountPath": "/tmp"},
    ],
)
VOLUMES = [
    {"name": "config", "configMap": {"name": "config"}},
    {"name": "model", "emptyDir": {}},
    {"name": "scratch", "emptyDir": {}},
]


@pytest.mark.parametrize("mounts", ["auto", "never"])
async def test_volumes_are_seen_at_paths_that_the_host_lacks(
    tmp_path: Path, machine: Machine, mounts: str
) -> None:
    await machine.stop()
    machine.config = make_config(tmp_path / "state", mounts=mounts)
    machine.start()
    await machine.config_map("config", **{"config.json": '{"step": "x"}\n'})
    pod = await machine.run(make_pod(MOUNTED, volumes=VOLUMES))
    assert phase(pod) == "Succeeded", machine.log(pod)
    assert machine.log(pod)[:2] == ['{"step": "x"}', "weights"]
    assert "scratch" in machine.log(pod)
    assert termination(pod)["message"] == "done"
    assert (machine.folder(pod).path / "volumes/model/model").read_text() == "weights\n"
    assert (machine.folder(pod).path / "volumes/scratch/scratch").exists()
    assert not {"dyff", "steelyard"} & {*os.listdir("/"), *os.listdir("/etc")}


def accounts() -> tuple[int, int]:
    """Lines of the machine's /etc/passwd, and when it was last written."""
    path = Path("/etc/passwd")
    return path.read_text().count("\n"), path.stat().st_mtime_ns


@pytest.mark.mounts
async def test_what_a_container_writes_in_etc_is_its_own(machine: Machine) -> None:
    name = "steelyard-test-of-layers"
    # An ordinary user may not touch the second; one stream, because lines of two may come in either order.
    write = (
        f"exec 2>&1; wc -l < /etc/passwd; touch /etc/{name} /etc/passwd; ls /etc/{name}; readlink /etc/hosts"
    )
    before = accounts()
    pod = await machine.run(make_pod(make_container(write), name="writes"))
    lines, *seen = machine.log(pod)
    assert int(lines) == before[0]
    assert seen[-2:] == [f"/etc/{name}", str(namespace_file(machine.config.hosts, "default").absolute())]
    assert name not in os.listdir("/etc")
    assert accounts() == before
    pod = await machine.run(make_pod(make_container(f"ls /etc/{name}"), name="looks"))
    assert phase(pod) == "Failed"


@pytest.mark.mounts
async def test_a_pod_has_its_host_name_in_etc(machine: Machine) -> None:
    script = 'test "$(uname -n)" = "$(cat /etc/hostname)" && cat /etc/hostname'
    usual = await machine.run(make_pod(make_container(script), name="usual"))
    own = await machine.run(make_pod(make_container(script), name="own", hostname="chosen"))
    assert (machine.log(usual), machine.log(own)) == (["usual"], ["chosen"])


async def test_a_container_has_variables_of_its_namespaces_services(machine: Machine) -> None:
    for namespace, name, address in (("default", "web", "127.9.128.1"), ("other", "far", "127.9.128.2")):
        metadata = {"name": name, "namespace": namespace}
        spec = {"clusterIP": address, "ports": [{"port": 80}]}
        await machine.cluster.create(SERVICES, {"metadata": metadata, "spec": spec})
    # The kubelet hears of Services by a watch of its own.
    await machine.stop()
    machine.start()
    script = "echo $(URL) ${WEB_SERVICE_HOST:-none} ${FAR_SERVICE_HOST:-none}"
    container = make_container(script, env=[{"name": "URL", "value": "http://$(WEB_SERVICE_HOST)"}])
    linked = await machine.run(make_pod(container, name="linked"))
    assert machine.log(linked) == ["http://127.9.128.1 127.9.128.1 none"]
    script = "echo ${WEB_SERVICE_HOST:-none} ${FAR_SERVICE_HOST:-none}"
    unlinked = await machine.run(make_pod(make_container(script), name="unlinked", enableServiceLinks=False))
    assert machine.log(unlinked) == ["none none"]


async def test_a_container_waits_until_the_services_are_known(machine: Machine) -> None:
    """A kubelet that starts reads Pods and Services by different watches, in either order."""
    await machine.stop()
    spec = {"clusterIP": "127.9.128.1", "ports": [{"port": 80}]}
    await machine.cluster.create(
        SERVICES, {"metadata": {"name": "web", "namespace": "default"}, "spec": spec}
    )
    await machine.config_map("settings")
    begins = asyncio.Event()

    def before_call(verb: str, resource: Resource, name: str) -> None:
        if (verb, name) == ("get", "settings"):  # the last answer that a container needs before it starts
            begins.set()
        if (verb, resource) == ("list", SERVICES) and not begins.is_set():
            raise Unreachable("the list of the Services comes late")

    machine.cluster.before_call = before_call
    machine.start()
    source = [{"configMapRef": {"name": "settings"}}]
    container = make_container("echo ${WEB_SERVICE_HOST:-none}", envFrom=source)
    pod = await machine.run(make_pod(container, nodeName=machine.config.node))
    assert machine.log(pod) == ["127.9.128.1"]


@pytest.mark.mounts
async def test_names_of_services_are_known_and_follow_the_hosts_file(machine: Machine) -> None:
    script = (
        "import socket, sys, time; look = lambda: socket.gethostbyname('service.default.svc'); print(look())"
    )
    script += "; sys.stdin.close(); time.sleep(0.2); print(look())"
    python = make_container() | {"command": ["python", "-c", script]}
    await machine.cluster.create(PODS, make_pod(python))
    pod = await machine.until(is_running)
    await machine.until(lambda _: machine.log(pod))
    known = namespace_file(machine.config.hosts, "default")
    replacement = known.with_suffix(".new")
    replacement.write_text("127.8.8.8 service.default.svc\n")
    replacement.rename(known)
    pod = await machine.until(lambda pod: phase(pod) == "Succeeded")
    assert machine.log(pod) == ["127.9.9.9", "127.8.8.8"]


async def test_the_environment_is_the_pods_and_nothing_else(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_HOST", "x")
    env = [
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "HOST", "value": "$(POD_IP)"},
        {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    ]
    command = ["python", "-c", "import os, sys; print(sys.argv[1], sys.executable); print(dict(os.environ))"]
    container = make_container(env=env) | {"command": command, "args": ["--host=$(POD_IP)"]}
    pod = await machine.run(make_pod(container))
    ip = pod["status"]["podIP"]
    assert machine.log(pod)[0] == f"--host={ip} {sys.executable}"
    assert f"'HOST': '{ip}'" in machine.log(pod)[1]
    assert "'NAME': 'pod'" in machine.log(pod)[1]
    assert "SECRET_OF_THE_HOST" not in machine.log(pod)[1]


async def test_pods_never_share_an_address(machine: Machine) -> None:
    pods = [await machine.run(make_pod(name=f"pod-{number}")) for number in range(3)]
    await machine.stop()
    machine.start()
    pods.append(await machine.run(make_pod(name="pod-3")))
    assert len({pod["status"]["podIP"] for pod in pods}) == 4


async def test_an_unknown_image_waits_and_says_where_to_write_it(machine: Machine) -> None:
    await machine.cluster.create(PODS, make_pod(make_container() | {"image": "localhost/other:1@sha256:00"}))
    pod = await machine.until(lambda pod: "waiting" in container_status(pod).get("state", {}))
    pod = await machine.until(lambda pod: container_status(pod)["state"]["waiting"].get("message"))
    waiting = container_status(pod)["state"]["waiting"]
    assert waiting["reason"] == "ErrImageNeverPull"
    assert "'localhost/other'" in waiting["message"]
    assert "images.toml" in waiting["message"]


async def test_a_missing_config_map_is_waited_for(machine: Machine) -> None:
    wanted = [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "late", "key": "x"}}}]
    await machine.cluster.create(PODS, make_pod(make_container("echo $X", env=wanted)))
    await machine.until(lambda pod: 'configmap "late" not found' in str(container_status(pod).get("state")))
    await machine.config_map("late", x="here")
    pod = await machine.until(lambda pod: phase(pod) == "Succeeded")
    assert machine.log(pod) == ["here"]


async def test_a_container_whose_variables_are_too_large_says_so_and_waits(machine: Machine) -> None:
    """The kubelet and the other Pods go on: values of a ConfigMap are known at the start alone."""
    await machine.config_map("large", x="x" * 100_000)
    part = {"name": "X", "valueFrom": {"configMapKeyRef": {"name": "large", "key": "x"}}}
    double = {"name": "Y", "value": "$(X)$(X)"}
    await machine.cluster.create(PODS, make_pod(make_container("echo here", env=[part, double])))
    pod = await machine.until(lambda pod: "waiting" in container_status(pod).get("state", {}))
    pod = await machine.until(lambda pod: container_status(pod)["state"]["waiting"].get("message"))
    waiting = container_status(pod)["state"]["waiting"]
    assert waiting["reason"] == "CreateContainerError"
    assert waiting["message"].startswith("variable 'Y' takes more than 131071 bytes")
    await machine.cluster.patch(CONFIG_MAPS, "large", {"data": {"x": "x"}}, "default")
    pod = await machine.until(lambda pod: phase(pod) == "Succeeded")
    assert machine.log(pod) == ["here"]


async def test_a_volume_of_another_kind_is_refused_by_name(machine: Machine) -> None:
    pod = await machine.run(make_pod(volumes=[{"name": "all", "nfs": {"server": "s", "path": "/"}}]))
    assert phase(pod) == "Failed"
    assert pod["status"]["reason"] == "NotImplemented"
    assert "volume 'all': nfs" in pod["status"]["message"]


async def test_the_deadline_of_a_pod(machine: Machine) -> None:
    pod = await machine.run(make_pod(make_container("sleep 60"), activeDeadlineSeconds=1))
    assert (phase(pod), pod["status"]["reason"]) == ("Failed", "DeadlineExceeded")


async def test_a_pod_that_does_not_fit_waits_until_it_does(tmp_path: Path, machine: Machine) -> None:
    await machine.stop()
    machine.config = make_config(tmp_path / "state", cpu=1.0, memory=2**30)
    machine.start()
    large: Json = {"resources": {"requests": {"cpu": "700m", "memory": "64Mi"}}}
    await machine.cluster.create(PODS, make_pod(make_container("sleep 60", **large), name="first"))
    await machine.until(is_running, "first")
    await machine.cluster.create(PODS, make_pod(make_container(**large), name="second"))
    pod = await machine.until(lambda pod: condition(pod, "PodScheduled"), "second")
    assert phase(pod) == "Pending"
    assert condition(pod, "PodScheduled")["reason"] == "Unschedulable"
    message = condition(pod, "PodScheduled")["message"]
    assert "Insufficient cpu (the Pod asks for 700m, 300m of 1 is free)" in message
    await machine.cluster.delete(PODS, "first", "default", grace_seconds=0)
    await machine.until(lambda pod: phase(pod) == "Succeeded", "second")


async def test_what_a_pod_leaves_in_a_claim_the_next_one_finds(machine: Machine) -> None:
    """Checkpoints of training jobs: Pods come and go, a claim stays."""
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "checkpoints"}}
    mounts: Json = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    await machine.run(
        make_pod(make_container("echo 7 > /data/step", **mounts), name="first", volumes=[volume])
    )
    await machine.cluster.delete(PODS, "first", "default", grace_seconds=0)
    await machine.until_gone("first")
    pod = await machine.run(make_pod(make_container("cat /data/step", **mounts), volumes=[volume]))
    assert machine.log(pod) == ["7"]


STRANGE: list[Json] = [
    {"spec": None},
    {"spec": {"nodeName": "this-machine"}},
    {"spec": {"nodeName": "this-machine", "containers": [{}]}},
    {"spec": {"nodeName": "this-machine", "containers": [make_container(ports=5, env=[None])]}},
    {"spec": {"containers": [make_container(resources={"limits": {"memory": "1e999", "cpu": "-1"}})]}},
    {"spec": {"containers": [make_container(resources={"limits": {"memory": "much"}})]}},
    {"spec": {"containers": [make_container(command=["echo", "a\x00b"])], "restartPolicy": "Never"}},
    {"spec": {"containers": [make_container(livenessProbe={"exec": {}, "periodSeconds": -5})]}},
    {
        "spec": {"containers": [make_container()], "activeDeadlineSeconds": 2**63},
        "status": {"conditions": [{}]},
    },
]


async def test_pods_that_cannot_be_read_leave_the_others_alone(machine: Machine) -> None:
    """Stored in spite of every check, by an older version for one."""
    for number, strange in enumerate(STRANGE):
        metadata = {"name": f"strange-{number}", "namespace": "default"}
        machine.cluster.store.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, **strange})
    assert phase(await machine.run(make_pod(name="usual"))) == "Succeeded"
    for number in range(len(STRANGE)):
        machine.cluster.store.remove(PODS, f"strange-{number}", "default")
    assert phase(await machine.run(make_pod(name="again"))) == "Succeeded"


async def test_a_pod_waits_for_a_label_that_a_user_gives_the_node(machine: Machine) -> None:
    await machine.cluster.create(PODS, make_pod(make_container("true"), nodeSelector={"disk": "fast"}))
    pod = await machine.until(lambda pod: condition(pod, "PodScheduled"))
    said = condition(pod, "PodScheduled")["message"]
    assert said == "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
    labels = {"metadata": {"labels": {"disk": "fast"}}}
    await machine.cluster.patch(NODES, machine.config.node, labels)
    await machine.until(lambda pod: phase(pod) == "Succeeded")


async def test_a_taint_ends_a_running_pod_that_does_not_tolerate_it(machine: Machine) -> None:
    await machine.cluster.create(PODS, make_pod(make_container("sleep 60")))
    await machine.until(is_running)
    taint = {"key": "maintenance", "effect": "NoExecute"}
    await machine.cluster.patch(NODES, machine.config.node, {"spec": {"taints": [taint]}})
    await machine.until_gone()


async def test_a_container_called_volumes_has_a_folder_of_its_own(machine: Machine) -> None:
    mount = {"volumeMounts": [{"name": "home", "mountPath": "/shared"}]}
    container = make_container("echo one > /shared/file; ls $HOME; cat /shared/file", name="volumes", **mount)
    pod = await machine.run(make_pod(container, volumes=[{"name": "home", "emptyDir": {}}]))
    assert phase(pod) == "Succeeded"
    assert machine.log(pod, "volumes") == ["one"]


async def _until_event(machine: Machine, reason: str, message: str) -> None:
    def is_recorded() -> bool:
        events = machine.cluster.store.objects(EVENTS)
        return any(event["reason"] == reason and event["message"] == message for event in events)

    await machine.until(lambda _: is_recorded())


async def test_a_pod_whose_volume_shows_nothing_yet_stays_in_creation(machine: Machine) -> None:
    volumes = [{"name": "v", "configMap": {"name": "late"}}]
    container = make_container("cat /v/a", volumeMounts=[{"name": "v", "mountPath": "/v"}])
    await machine.cluster.create(PODS, make_pod(container, volumes=volumes))
    message = 'MountVolume.SetUp failed for volume "v" : configmap "late" not found'
    await _until_event(machine, "FailedMount", message)
    pod = await machine.until(lambda pod: "waiting" in container_status(pod).get("state", {}))
    assert container_status(pod)["state"]["waiting"] == {"reason": "ContainerCreating"}
    late = {"metadata": {"name": "late", "namespace": "default"}, "data": {"a": "here"}}
    await machine.cluster.create(CONFIG_MAPS, late)
    pod = await machine.until(lambda pod: phase(pod) == "Succeeded")
    assert machine.log(pod) == ["here"]


async def test_a_pod_waits_for_a_claim_that_is_not_bound(machine: Machine) -> None:
    metadata = {"name": "data", "namespace": "default"}
    await machine.cluster.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": metadata, "spec": {}})
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    container = make_container("echo kept > /data/file", volumeMounts=[{"name": "v", "mountPath": "/data"}])
    await machine.cluster.create(PODS, make_pod(container, volumes=volumes))
    pod = await machine.until(lambda pod: "waiting" in container_status(pod).get("state", {}))
    await _until_event(machine, "FailedMount", "persistentvolumeclaim 'data' is not bound")
    assert container_status(pod)["state"]["waiting"] == {"reason": "ContainerCreating"}
    bound = {"status": {"phase": "Bound"}}
    await machine.cluster.patch(PERSISTENT_VOLUME_CLAIMS, "data", bound, "default", subresource="status")
    await machine.until(lambda pod: phase(pod) == "Succeeded")
    assert (machine.config.claims / "default/data/file").read_text() == "kept\n"


async def test_nothing_of_a_pod_that_is_gone_stays_in_memory(machine: Machine) -> None:
    gc.collect()
    gc.disable()  # what only a search for cycles would find stays for hours in a process with many objects
    try:
        await machine.run(make_pod(make_container("true")))
        await machine.cluster.delete(PODS, "pod", "default", grace_seconds=0)
        await machine.until_gone()
        async with asyncio.timeout(60):
            while any(task.get_name() == "pod pod" for task in asyncio.all_tasks()):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert not [obj for obj in gc.get_objects() if type(obj) is PodWorker]
    finally:
        gc.enable()


async def test_fields_without_effect_are_named_in_an_event(machine: Machine) -> None:
    await machine.run(make_pod(runtimeClassName="gvisor"))

    def messages() -> list[str]:
        events = machine.cluster.store.objects(EVENTS)
        return [event["message"] for event in events if event["reason"] == "NotApplied"]

    await machine.until(lambda pod: messages())
    assert messages() == ["Without effect on this machine: spec.runtimeClassName"]
