"""The AppWrapper controller: components, resets, retries and deletions."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from steelyard_common.types import Json
from steelyard_kube.memory import Crash, CrashAt, MemoryCluster
from steelyard_kube.resource import APP_WRAPPERS, CONFIG_MAPS, JOBS, PODS, RAY_CLUSTERS, find_resource
from steelyard_local_kubernetes.controllers.app_wrapper.components import LABEL
from steelyard_local_kubernetes.controllers.app_wrapper.settings import duration, read_settings
from steelyard_local_kubernetes.controllers.kinds import APP_WRAPPER
from steelyard_local_kubernetes.controllers.objects import edge, make_job, make_pod
from steelyard_local_kubernetes.controllers.pods import make_condition
from steelyard_local_kubernetes.controllers.ray.test_cluster import make_ray_cluster
from steelyard_local_kubernetes.controllers.sync import sync

KEY = ("default", "w")
PREFIX = "workload.codeflare.dev.appwrapper/"


def make_config_map() -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}}


def make_wrapper(*templates: Json, **settings: str) -> Json:
    annotations = {PREFIX + name: value for name, value in settings.items()}
    return {
        "apiVersion": "workload.codeflare.dev/v1beta2",
        "kind": "AppWrapper",
        "metadata": {"name": "w", "namespace": "default", "annotations": annotations},
        "spec": {"components": [{"template": template} for template in templates]},
    }


class Simulation:
    """An AppWrapper on the in-memory cluster; `settle` syncs until nothing changes, each time twice."""

    def __init__(self, *templates: Json, **settings: str) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)
        self.cluster = MemoryCluster(now=lambda: self.time)
        wrapper = make_wrapper(*(templates or (make_job("j"), make_config_map())), **settings)
        self.cluster.store.create(APP_WRAPPERS, wrapper)
        self.edge = edge(self.cluster)

    async def settle(self) -> None:
        for _ in range(20):
            before = self.cluster.store.version
            await sync(self.edge, APP_WRAPPER, KEY)
            if self.cluster.store.version == before:
                await sync(self.edge, APP_WRAPPER, KEY)
                assert self.cluster.store.version == before
                return
        raise AssertionError("the AppWrapper does not come to rest")

    async def after(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)
        await self.settle()

    def pod(self, name: str, phase: str, exit_code: int = 1) -> None:
        pod = make_pod(name, labels={LABEL: "w"})
        terminated = {"state": {"terminated": {"exitCode": exit_code}}, "name": "main"}
        status = {"phase": phase, "containerStatuses": [terminated] if phase == "Failed" else []}
        self.cluster.store.put({**pod, "status": status})

    def change(self, **spec: Any) -> None:
        self.cluster.store.put({**self.obj, "spec": {**self.obj["spec"], **spec}})

    def remove_pods(self) -> None:
        for pod in self.cluster.store.objects(PODS):
            self.cluster.store.remove(PODS, pod["metadata"]["name"], "default")

    @property
    def obj(self) -> Json:
        stored = self.cluster.store.find(APP_WRAPPERS, "w", "default")
        assert stored is not None
        return stored

    @property
    def phase(self) -> str:
        return str(self.obj["status"]["phase"])

    def condition(self, kind: str) -> tuple[str, str]:
        condition = make_condition(self.obj, kind) or {}
        return condition.get("status", ""), condition.get("reason", "")


async def test_components_are_made_and_the_wrapper_succeeds_with_them() -> None:
    simulation = Simulation()
    await simulation.settle()
    (job,) = simulation.cluster.store.objects(JOBS)
    assert len(simulation.cluster.store.objects(CONFIG_MAPS)) == 1
    assert job["spec"]["template"]["metadata"]["labels"][LABEL] == "w"
    assert job["metadata"]["ownerReferences"][0]["kind"] == "AppWrapper"
    assert simulation.phase == "Running"
    assert simulation.condition("PodsReady") == ("False", "InsufficientPodsReady")
    simulation.pod("p", "Running")
    await simulation.settle()
    assert simulation.condition("PodsReady") == ("True", "SufficientPodsReady")
    assert simulation.condition("QuotaReserved")[0] == simulation.condition("ResourcesDeployed")[0] == "True"
    done = {"conditions": [{"type": "Complete", "status": "True"}]}
    simulation.cluster.store.set_status(JOBS, "j", "default", done)
    await simulation.settle()
    assert simulation.phase == "Running"  # its Pod still holds what it has
    simulation.pod("p", "Succeeded")
    await simulation.settle()
    assert (simulation.phase, simulation.condition("PodsReady")) == ("Succeeded", ("True", "PodsSucceeded"))
    simulation.time += timedelta(days=8)
    await simulation.settle()
    assert simulation.cluster.store.objects(JOBS) == []
    simulation.remove_pods()
    await simulation.after(1)
    assert (simulation.phase, simulation.condition("ResourcesDeployed")) == (
        "Succeeded",
        ("False", "Succeeded"),
    )


async def test_a_wrapper_runs_on_while_a_ray_cluster_outlives_a_job_that_has_ended() -> None:
    simulation = Simulation(make_job("j"), make_ray_cluster())
    await simulation.settle()
    simulation.pod("p", "Succeeded")
    done = {"conditions": [{"type": "Complete", "status": "True"}]}
    simulation.cluster.store.set_status(JOBS, "j", "default", done)
    await simulation.settle()
    assert simulation.phase == "Running"
    assert simulation.condition("QuotaReserved")[0] == "True"


async def test_a_suspended_wrapper_has_no_components() -> None:
    simulation = Simulation()
    simulation.change(suspend=True)
    await simulation.settle()
    assert (simulation.phase, simulation.cluster.store.objects(JOBS)) == ("Suspended", [])
    simulation.change(suspend=False)
    await simulation.settle()
    assert simulation.phase == "Running"
    simulation.pod("p", "Running")
    simulation.change(suspend=True)
    await simulation.settle()
    assert (simulation.phase, simulation.cluster.store.objects(JOBS)) == ("Suspending", [])
    simulation.remove_pods()
    await simulation.settle()
    assert simulation.phase == "Suspended"
    assert simulation.condition("QuotaReserved") == ("False", "Suspended")


async def test_failed_pods_reset_the_wrapper_until_its_limit() -> None:
    simulation = Simulation(retryLimit="1", failureGracePeriodDuration="10s", retryPausePeriodDuration="1m")
    await simulation.settle()
    simulation.pod("p", "Failed")
    await simulation.settle()
    assert (simulation.phase, simulation.condition("Unhealthy")) == ("Running", ("True", "FoundFailedPods"))
    await simulation.after(11)
    assert (simulation.phase, simulation.obj["status"]["resettingCount"]) == ("Resetting", 1)
    simulation.remove_pods()
    await simulation.settle()
    assert (simulation.phase, simulation.cluster.store.objects(JOBS)) == ("Resetting", [])
    await simulation.after(61)
    assert (simulation.phase, len(simulation.cluster.store.objects(JOBS))) == ("Running", 1)
    simulation.pod("p", "Failed")
    await simulation.settle()
    await simulation.after(11)
    assert simulation.phase == "Failed"
    simulation.remove_pods()
    await simulation.settle()
    assert simulation.cluster.store.objects(JOBS) == []
    assert simulation.condition("ResourcesDeployed") == ("False", "Failed")


@pytest.mark.parametrize(
    ("settings", "code", "phase"),
    [
        ({"terminalExitCodes": "3,4"}, 4, "Failed"),
        ({"terminalExitCodes": "3,4"}, 5, "Running"),
        ({"retryableExitCodes": "3"}, 4, "Failed"),
        ({"retryableExitCodes": "3"}, 3, "Running"),
    ],
)
async def test_exit_codes_say_whether_anything_is_tried_again(settings: Json, code: int, phase: str) -> None:
    simulation = Simulation(**settings)
    await simulation.settle()
    simulation.pod("p", "Failed", code)
    await simulation.settle()
    assert simulation.phase == phase


@pytest.mark.parametrize(("there", "seconds"), [(False, 61), (True, 301)], ids=["no Pods", "no Pod ready"])
async def test_pods_that_do_not_come_in_time_reset_the_wrapper(there: bool, seconds: float) -> None:
    simulation = Simulation()
    await simulation.settle()
    if there:
        simulation.pod("p", "Pending")
    await simulation.settle()
    await simulation.after(seconds - 2)
    assert simulation.phase == "Running"
    await simulation.after(3)
    assert simulation.phase == "Resetting"


async def test_a_deleted_component_resets_the_wrapper() -> None:
    simulation = Simulation()
    await simulation.settle()
    simulation.cluster.store.remove(CONFIG_MAPS, "c", "default")
    await simulation.settle()
    assert (simulation.phase, simulation.condition("Unhealthy")) == (
        "Resetting",
        ("True", "MissingComponent"),
    )


async def test_a_ray_cluster_counts_its_head_and_workers() -> None:
    cluster = make_ray_cluster()
    del cluster["metadata"]["namespace"]
    simulation = Simulation(cluster)
    await simulation.settle()
    (made,) = simulation.cluster.store.objects(RAY_CLUSTERS)
    head = made["spec"]["headGroupSpec"]["template"]
    assert head["metadata"]["labels"] == {LABEL: "w"}
    for name in ("a", "b"):
        simulation.pod(name, "Running")
    await simulation.settle()
    assert simulation.condition("PodsReady")[0] == "False"
    simulation.pod("c", "Running")
    await simulation.settle()
    assert simulation.condition("PodsReady")[0] == "True"


@pytest.mark.parametrize(
    "strange",
    [
        {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}},
        {**make_wrapper(make_job("j")), "metadata": {"name": "inner"}},
    ],
    ids=["a kind that is not there", "an AppWrapper"],
)
async def test_what_cannot_be_made_fails_the_wrapper(strange: Json) -> None:
    simulation = Simulation(strange)
    await simulation.settle()
    assert (simulation.phase, simulation.condition("Unhealthy")) == ("Failed", ("True", "CreateFailed"))


async def test_anothers_object_of_the_same_name_fails_the_wrapper() -> None:
    simulation = Simulation()
    other = make_job("j")
    simulation.cluster.store.create(find_resource(other), other)
    await simulation.settle()
    assert (simulation.phase, simulation.condition("Unhealthy")) == ("Failed", ("True", "CreateFailed"))
    assert len(simulation.cluster.store.objects(JOBS)) == 1


@pytest.mark.parametrize("after", [False, True], ids=["before a call", "after a call"])
async def test_a_crash_between_any_two_calls_makes_each_component_once(after: bool) -> None:
    for call in range(1, 80):
        simulation = Simulation()
        crash = CrashAt(call)
        setattr(simulation.cluster, "after_call" if after else "before_call", crash)
        for _ in range(6):
            try:
                await sync(simulation.edge, APP_WRAPPER, KEY)
            except Crash:
                continue
        assert (simulation.phase, len(simulation.cluster.store.objects(JOBS))) == ("Running", 1)
        if crash.calls < call:
            return
    raise AssertionError("no run without a crash")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0.0), ("90s", 90.0), ("1h30m", 5400.0), ("1.5m", 90.0), ("250ms", 0.25), ("", None), ("5", None)],
)
def test_durations_are_those_of_go(text: str, seconds: float | None) -> None:
    assert duration(text) == seconds


def test_settings_that_cannot_be_read_are_the_defaults() -> None:
    settings = read_settings(make_wrapper(retryLimit="many", warmupGracePeriodDuration="soon"))
    assert (settings.retry_limit, settings.warmup) == (3, 300.0)
