"""The RayCluster controller: heads, workers, autoscaling and crashes."""

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from steelyard_common.types import Json
from steelyard_kube.errors import Invalid
from steelyard_kube.memory import Crash, CrashAt, MemoryCluster
from steelyard_kube.resource import (
    PODS,
    RAY_CLUSTERS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    SERVICES,
    Resource,
)
from steelyard_local_kubernetes.controllers.kinds import RAY_CLUSTER
from steelyard_local_kubernetes.controllers.objects import edge
from steelyard_local_kubernetes.controllers.pods import make_condition
from steelyard_local_kubernetes.controllers.ray.cluster import decide
from steelyard_local_kubernetes.controllers.ray.pods import head_pod, start_command
from steelyard_local_kubernetes.controllers.sync import sync
from steelyard_local_kubernetes.controllers.writes import Refused

KEY = ("default", "demo")


def make_group(name: str = "small", **fields: Any) -> Json:
    return {
        "groupName": name,
        "replicas": 2,
        "minReplicas": 0,
        "maxReplicas": 5,
        "template": template(),
        **fields,
    }


def template(**fields: Any) -> Json:
    resources = {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "2Gi"}}
    return {
        "spec": {"containers": [{"name": "ray", "image": "rayproject/ray", "resources": resources, **fields}]}
    }


def make_ray_cluster(name: str = "demo", **spec: Any) -> Json:
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "headGroupSpec": {"template": template(), "rayStartParams": {"num-gpus": "0"}},
            "workerGroupSpecs": [make_group()],
            **spec,
        },
    }


class Simulation:
    """A RayCluster on the in-memory cluster; `settle` syncs until nothing changes, each time twice."""

    def __init__(self, **spec: Any) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)
        self.cluster = MemoryCluster(now=lambda: self.time)
        self.cluster.store.create(RAY_CLUSTERS, make_ray_cluster(**spec))
        self.edge = edge(self.cluster)

    async def settle(self) -> None:
        for _ in range(20):
            before = self.cluster.store.version
            await sync(self.edge, RAY_CLUSTER, KEY)
            once = self.cluster.store.version
            await sync(self.edge, RAY_CLUSTER, KEY)
            assert self.cluster.store.version == once, "a second sync of the same state must change nothing"
            if self.cluster.store.version == before:
                return
        raise AssertionError("the cluster does not come to rest")

    def change(self, **spec: Any) -> None:
        self.cluster.store.put({**self.obj, "spec": {**self.obj["spec"], **spec}})

    def run(self) -> None:
        """Make all Pods run, ready."""
        for number, pod in enumerate(self.pods):
            ready = {"type": "Ready", "status": "True"}
            status = {"phase": "Running", "podIP": f"127.1.0.{number}", "conditions": [ready]}
            self.cluster.store.set_status(PODS, pod["metadata"]["name"], "default", status)

    def end(self, pod: Json) -> None:
        self.cluster.store.set_status(PODS, pod["metadata"]["name"], "default", {"phase": "Failed"})

    @property
    def obj(self) -> Json:
        stored = self.cluster.store.find(RAY_CLUSTERS, "demo", "default")
        assert stored is not None
        return stored

    @property
    def status(self) -> Json:
        status: Json = self.obj["status"]
        return status

    @property
    def pods(self) -> list[Json]:
        return self.cluster.store.objects(PODS)

    @property
    def names(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.pods]

    def condition(self, kind: str) -> tuple[str, str]:
        condition = make_condition(self.obj, kind) or {}
        return condition.get("status", ""), condition.get("reason", "")


async def test_a_cluster_gets_a_head_its_service_and_workers_and_is_ready_when_they_are() -> None:
    simulation = Simulation()
    await simulation.settle()
    assert len(simulation.names) == 3
    assert "demo-head" in simulation.names
    assert sum(name.startswith("demo-small-worker-") for name in simulation.names) == 2
    (service,) = simulation.cluster.store.objects(SERVICES)
    assert (service["metadata"]["name"], service["spec"]["clusterIP"]) == ("demo-head-svc", "None")
    assert simulation.condition("RayClusterProvisioned") == ("False", "RayClusterPodsProvisioning")
    assert "state" not in simulation.status
    simulation.run()
    await simulation.settle()
    assert simulation.status["state"] == "ready"
    assert (simulation.status["desiredWorkerReplicas"], simulation.status["readyWorkerReplicas"]) == (2, 2)
    assert (simulation.status["desiredCPU"], simulation.status["desiredMemory"]) == ("3", "6Gi")
    assert simulation.status["head"]["serviceIP"] == simulation.status["head"]["podIP"]
    assert simulation.status["endpoints"]["dashboard"] == "8265"
    assert simulation.condition("HeadPodReady") == ("True", "HeadPodRunningAndReady")
    assert simulation.condition("RayClusterProvisioned") == ("True", "AllPodRunningAndReadyFirstTime")


def test_what_head_and_autoscaler_both_mount_or_set_is_there_once() -> None:
    mount, variable = {"name": "certificates", "mountPath": "/c"}, {"name": "RAY_USE_TLS", "value": "1"}
    own = {"name": "logs", "mountPath": "/l"}
    cluster = make_ray_cluster(
        enableInTreeAutoscaling=True,
        autoscalerOptions={"volumeMounts": [mount, own], "env": [variable, {"name": "POD_IP", "value": "a"}]},
    )
    template = cluster["spec"]["headGroupSpec"]["template"]["spec"]
    template["containers"][0] |= {"volumeMounts": [mount], "env": [variable]}
    cluster["metadata"]["uid"] = "u"
    _, autoscaler = head_pod(cluster)["spec"]["containers"]
    assert sorted(mount["mountPath"] for mount in autoscaler["volumeMounts"]) == ["/c", "/l", "/tmp/ray"]
    values = [variable.get("value") for variable in autoscaler["env"] if variable["name"] == "POD_IP"]
    assert values == ["a"]


def test_the_autoscaler_looks_for_the_head_at_the_address_of_its_pod(tmp_path: Path) -> None:
    """Ray of any release has this command; only from 2.60 on has it an option for the address."""
    module = tmp_path / "ray/autoscaler/_private/kuberay/run_autoscaler.py"
    module.parent.mkdir(parents=True)
    module.write_text("get_node_ip_address = lambda: 'of the machine'\n")
    scripts = tmp_path / "ray/scripts/scripts.py"
    scripts.parent.mkdir()
    ran = "def main():\n    print(run_autoscaler.get_node_ip_address(), *sys.argv)\n"
    scripts.write_text(f"import sys\nfrom ray.autoscaler._private.kuberay import run_autoscaler\n{ran}")
    cluster = make_ray_cluster(enableInTreeAutoscaling=True)
    cluster["metadata"]["uid"] = "u"
    container = head_pod(cluster)["spec"]["containers"][1]
    program = (
        container["args"][0]
        .replace("$(RAY_CLUSTER_NAME)", "demo")
        .replace("$(RAY_CLUSTER_NAMESPACE)", "team")
    )
    paths = {"PATH": f"{Path(sys.executable).parent}:/bin", "PYTHONPATH": str(tmp_path)}
    shell = [*container["command"], program]
    said = subprocess.run(
        shell, env={**paths, "POD_IP": "127.1.1.1"}, capture_output=True, text=True, check=True
    )
    assert said.stdout == "127.1.1.1 ray kuberay-autoscaler --cluster-name demo --cluster-namespace team\n"


async def test_a_cluster_that_scales_itself_has_rays_autoscaler_next_to_its_head_and_its_rights() -> None:
    simulation = Simulation(
        enableInTreeAutoscaling=True,
        autoscalerOptions={"resources": {"limits": {"cpu": "100m"}}, "version": "v2"},
        workerGroupSpecs=[make_group(replicas=0, minReplicas=1, maxReplicas=3)],
    )
    await simulation.settle()
    head = next(pod for pod in simulation.pods if pod["metadata"]["name"] == "demo-head")
    ray, autoscaler = head["spec"]["containers"]
    assert "--no-monitor" in ray["args"][0]
    assert "kuberay-autoscaler --cluster-name $(RAY_CLUSTER_NAME)" in autoscaler["args"][0]
    assert autoscaler["resources"] == {"limits": {"cpu": "100m"}}
    # Both write into the same folder of logs.
    assert ray["volumeMounts"] == autoscaler["volumeMounts"]
    for container in (ray, autoscaler):
        assert {"name": "RAY_enable_autoscaler_v2", "value": "1"} in container["env"]
    assert (head["spec"]["serviceAccountName"], head["spec"]["restartPolicy"]) == ("demo", "Never")
    (account,) = simulation.cluster.store.objects(SERVICE_ACCOUNTS)
    (role,) = simulation.cluster.store.objects(ROLES)
    (binding,) = simulation.cluster.store.objects(ROLE_BINDINGS)
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"][0]["name"] == account["metadata"]["name"] == "demo"
    assert role["rules"][1] == {
        "apiGroups": ["ray.io"],
        "resources": ["rayclusters"],
        "verbs": ["get", "patch"],
    }
    assert len(simulation.pods) == 2
    worker = next(name for name in simulation.names if "worker" in name)

    # What the autoscaler writes, both ways.
    simulation.change(workerGroupSpecs=[make_group(replicas=3, minReplicas=1, maxReplicas=3)])
    await simulation.settle()
    assert len(simulation.pods) == 4
    strategy = {"workersToDelete": [worker]}
    group = make_group(replicas=2, minReplicas=1, maxReplicas=3, scaleStrategy=strategy)
    simulation.change(workerGroupSpecs=[group])
    await simulation.settle()
    assert len(simulation.pods) == 3
    assert worker not in simulation.names


async def test_an_account_of_the_template_gets_the_rights_and_no_other_is_made() -> None:
    own = template()
    own["spec"]["serviceAccountName"] = "mine"
    simulation = Simulation(enableInTreeAutoscaling=True, headGroupSpec={"template": own})
    await simulation.settle()
    assert simulation.cluster.store.objects(SERVICE_ACCOUNTS) == []
    (binding,) = simulation.cluster.store.objects(ROLE_BINDINGS)
    assert binding["subjects"][0]["name"] == "mine"


async def test_a_worker_does_not_get_the_name_of_one_that_is_gone() -> None:
    simulation, names = Simulation(workerGroupSpecs=[make_group(replicas=1)]), list[str]()
    for _ in range(4):
        await simulation.settle()
        simulation.run()
        await simulation.settle()
        (worker,) = (name for name in simulation.names if "worker" in name)
        names.append(worker)
        simulation.cluster.store.remove(PODS, worker, "default")
    assert len(set(names)) == 4


async def test_the_number_of_workers_follows_the_group_within_its_bounds() -> None:
    simulation = Simulation()
    await simulation.settle()
    simulation.change(workerGroupSpecs=[make_group(replicas=9)])
    await simulation.settle()
    assert len(simulation.pods) == 6
    simulation.change(workerGroupSpecs=[make_group(replicas=0, minReplicas=1)])
    await simulation.settle()
    assert len(simulation.pods) == 2
    simulation.change(workerGroupSpecs=[make_group("large", replicas=1)])
    await simulation.settle()
    assert [name for name in simulation.names if "worker" in name] == [
        name for name in simulation.names if "large-worker" in name
    ]
    simulation.change(workerGroupSpecs=[make_group("large", replicas=1, suspend=True)])
    await simulation.settle()
    assert simulation.names == ["demo-head"]


async def test_named_workers_go_first() -> None:
    simulation = Simulation()
    await simulation.settle()
    chosen = next(name for name in simulation.names if "worker" in name)
    simulation.change(workerGroupSpecs=[make_group(replicas=1, scaleStrategy={"workersToDelete": [chosen]})])
    await simulation.settle()
    assert len(simulation.names) == 2
    assert chosen not in simulation.names


async def test_a_pod_that_has_ended_is_made_again() -> None:
    simulation = Simulation()
    await simulation.settle()
    simulation.run()
    old = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in simulation.pods}
    simulation.end(simulation.pods[0])
    simulation.end(next(pod for pod in simulation.pods if "worker" in pod["metadata"]["name"]))
    for _ in range(3):
        await sync(simulation.edge, RAY_CLUSTER, KEY)
    await simulation.settle()
    fresh = [pod for pod in simulation.pods if old.get(pod["metadata"]["name"]) != pod["metadata"]["uid"]]
    assert (len(simulation.pods), len(fresh)) == (3, 2)


async def test_a_suspended_cluster_has_no_pods_and_comes_back() -> None:
    simulation = Simulation()
    await simulation.settle()
    simulation.run()
    await simulation.settle()
    simulation.change(suspend=True)
    await simulation.settle()
    assert simulation.pods == []
    assert simulation.status["state"] == "suspended"
    assert simulation.condition("RayClusterSuspended") == ("True", "UserRequestSuspend")
    assert simulation.condition("RayClusterProvisioned")[0] == "False"
    simulation.change(suspend=False)
    await simulation.settle()
    simulation.run()
    await simulation.settle()
    assert (len(simulation.pods), simulation.status["state"]) == (3, "ready")
    assert simulation.condition("RayClusterSuspended") == ("False", "UserRequestResume")


async def test_what_the_api_refuses_is_said_in_the_status() -> None:
    simulation = Simulation()

    def refuse(verb: str, resource: Resource, _name: str) -> None:
        if (verb, resource) == ("create", PODS):
            raise Invalid("Pod is invalid: no image")

    simulation.cluster.before_call = refuse
    with pytest.raises(Refused, match="no image"):
        await sync(simulation.edge, RAY_CLUSTER, KEY)
    simulation.cluster.before_call = None
    assert (simulation.status["state"], simulation.status["reason"]) == ("failed", "Pod is invalid: no image")
    assert simulation.condition("RayClusterReplicaFailure") == ("True", "FailedCreate")
    await simulation.settle()
    simulation.run()
    await simulation.settle()
    assert simulation.status["state"] == "ready"
    assert "reason" not in simulation.status
    assert simulation.condition("RayClusterReplicaFailure")[0] == "False"


@pytest.mark.parametrize("after", [False, True], ids=["before a call", "after a call"])
async def test_a_crash_between_any_two_calls_doubles_nothing(after: bool) -> None:
    for call in range(1, 60):
        simulation = Simulation()
        crash = CrashAt(call)
        setattr(simulation.cluster, "after_call" if after else "before_call", crash)
        for _ in range(8):
            try:
                await sync(simulation.edge, RAY_CLUSTER, KEY)
            except Crash:
                continue
            simulation.run()
        assert len(simulation.names) == len(set(simulation.names)) == 3
        assert simulation.status["state"] == "ready"
        if crash.calls < call:
            return
    raise AssertionError("no run without a crash")


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({"workerGroupSpecs": [make_group(), make_group()]}, "worker group names must be unique"),
        ({"workerGroupSpecs": [make_group(minReplicas=6)]}, "worker group small has minReplicas greater"),
        ({"headGroupSpec": {"template": {}}}, "headGroupSpec should have at least one container"),
    ],
)
def test_a_specification_that_cannot_be_carried_out_is_reported(spec: Json, fault: str) -> None:
    cluster = make_ray_cluster(**spec)
    cluster["metadata"]["uid"] = "u"
    decision = decide(cluster, [], datetime(2026, 1, 1, tzinfo=UTC))
    assert not decision
    assert decision.events[0].message.startswith(fault)


def test_the_platforms_service_of_the_dashboard_is_not_taken_for_the_heads() -> None:
    cluster = make_ray_cluster()
    cluster["metadata"]["uid"] = "u"
    dashboard = {"kind": "Service", "metadata": {"name": "ray-dashboard-demo", "namespace": "default"}}
    decision = decide(cluster, [dashboard], datetime(2026, 1, 1, tzinfo=UTC))
    assert "demo-head-svc" in [obj["metadata"]["name"] for obj in decision.create]


def test_a_cluster_of_another_controller_is_left_alone() -> None:
    cluster = make_ray_cluster(managedBy="kueue.x-k8s.io/multikueue")
    assert not decide(cluster, [], datetime(2026, 1, 1, tzinfo=UTC))


async def test_a_worker_starts_ray_at_its_own_address_and_at_the_heads_name() -> None:
    simulation = Simulation()
    await simulation.settle()
    head, worker = (
        next(pod for pod in simulation.pods if pod["metadata"]["labels"]["ray.io/node-type"] == kind)
        for kind in ("head", "worker")
    )
    (command,) = head["spec"]["containers"][0]["args"]
    assert "ray start --head --port=6379" in command
    assert "--node-ip-address=$POD_IP" in command
    assert "--num-gpus=0" in command
    (command,) = worker["spec"]["containers"][0]["args"]
    assert "--address=demo-head-svc.default.svc.cluster.local:6379" in command
    assert "--memory=2147483648" in command
    assert worker["spec"]["initContainers"][0]["name"] == "wait-gcs-ready"
    mounts = worker["spec"]["containers"][0]["volumeMounts"]
    assert mounts == [{"name": "ray-session", "mountPath": "/tmp/ray"}]


@pytest.mark.parametrize(
    ("env", "value"),
    [
        ([], "0"),
        ([{"name": "GRPC_ENABLE_FORK_SUPPORT", "value": "1"}], "1"),
    ],
    ids=["off by itself", "as the template says"],
)
async def test_grpc_does_nothing_between_fork_and_exec_of_the_servers_of_rays_clients(
    env: list[Json], value: str
) -> None:
    simulation = Simulation(headGroupSpec={"template": template(env=env)})
    await simulation.settle()
    head = next(pod for pod in simulation.pods if pod["metadata"]["name"] == "demo-head")
    variables = head["spec"]["containers"][0]["env"]
    assert [pair["value"] for pair in variables if pair["name"] == "GRPC_ENABLE_FORK_SUPPORT"] == [value]


def test_what_a_group_says_comes_before_what_is_filled_in() -> None:
    group = {"template": template(), "rayStartParams": {"block": "false", "object-store-memory": "99"}}
    command = start_command(make_ray_cluster(), group, {}, "head")
    assert "--block" not in command
    assert command.endswith("--object-store-memory=99") or "--object-store-memory=99 " in command


async def test_a_head_is_given_time_to_start_its_dashboard_on_a_busy_machine() -> None:
    simulation = Simulation()
    await simulation.settle()
    head, worker = (
        next(pod for pod in simulation.pods if pod["metadata"]["labels"]["ray.io/node-type"] == kind)
        for kind in ("head", "worker")
    )
    container = head["spec"]["containers"][0]
    assert "--runtime-env-agent-port=52367 " in container["args"][0]
    values = {pair["name"]: pair.get("value") for pair in container["env"]}
    limits = ("RAY_DASHBOARD_STARTUP_TIMEOUT_S", "RAY_DASHBOARD_SUBPROCESS_MODULE_WAIT_READY_TIMEOUT")
    assert [values[name] for name in limits] == ["300", "300"]
    assert not {pair["name"] for pair in worker["spec"]["containers"][0]["env"]} & set(limits)


def test_a_head_without_a_dashboard_is_started_so() -> None:
    group = {
        "template": template(),
        "rayStartParams": {"include-dashboard": "false", "disable-usage-stats": "false"},
    }
    command = start_command(make_ray_cluster(), group, {}, "head")
    assert "--include-dashboard=false" in command
    assert "--disable-usage-stats" not in command


async def test_a_templates_command_runs_along_with_ray() -> None:
    simulation = Simulation(
        headGroupSpec={"template": template(command=["echo", "hello"])}, workerGroupSpecs=[]
    )
    await simulation.settle()
    (args,) = simulation.pods[0]["spec"]["containers"][0]["args"]
    assert "echo hello & exec ray start --head" in args
