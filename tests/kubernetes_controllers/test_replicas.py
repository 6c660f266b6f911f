"""Deployments and ReplicaSets: rollouts, their bounds, revisions, and replacements."""

from steelyard_common.types import Json
from steelyard_kube.objects import read_annotations, read_labels, read_status
from steelyard_kube.resource import DEPLOYMENTS, PODS, REPLICA_SETS
from tests.kubernetes_controllers.sandbox import Sandbox, conditions, make_set, now, template, until

REVISION = "deployment.kubernetes.io/revision"
AVAILABLE = ("Available", "True", "MinimumReplicasAvailable")
DONE = ("Progressing", "True", "NewReplicaSetAvailable")


async def rollout(sandbox: Sandbox, wanted: int, generation: int) -> tuple[Json, int, int]:
    """Report every Pod as ready until the Deployment is rolled out.

    Returns its status, the most replicas that were wanted and the least Pods that were ready.
    """
    most, least = 0, wanted
    status: Json = {}

    async def probe() -> bool:
        nonlocal most, least, status
        for pod in await sandbox.active():
            if read_status(pod).get("phase") != "Running":
                await sandbox.run(pod)
        pods = await sandbox.active()
        ready = [pod for pod in pods if read_status(pod).get("phase") == "Running"]
        most = max(most, sum(one["spec"]["replicas"] for one in await sandbox.all(REPLICA_SETS)))
        least = min(least, len(ready))
        status = read_status(await sandbox.get(DEPLOYMENTS, "web"))
        numbers = [status.get(key) for key in ("replicas", "updatedReplicas", "availableReplicas")]
        return (
            numbers == [wanted] * 3 and status.get("observedGeneration") == generation and len(pods) == wanted
        )

    await until(probe, "rolled out")
    return status, most, least


async def sets(sandbox: Sandbox) -> list[tuple[str, int]]:
    """The ReplicaSets' revisions and replicas, in order."""
    present = await sandbox.all(REPLICA_SETS)
    return sorted((read_annotations(one).get(REVISION, ""), one["spec"]["replicas"]) for one in present)


async def image(sandbox: Sandbox, name: str) -> None:
    await sandbox.patch(DEPLOYMENTS, "web", {"spec": {"template": template(image=name)}})


async def test_a_deployment_is_available_once_its_pods_are(sandbox: Sandbox) -> None:
    await sandbox.create(make_set("Deployment", replicas=3))
    await sandbox.pods(3)
    status = await sandbox.status(DEPLOYMENTS, "web", replicas=3, updatedReplicas=3, unavailableReplicas=3)
    assert sorted(conditions(status)) == [
        ("Available", "False", "MinimumReplicasUnavailable"),
        ("Progressing", "True", "ReplicaSetUpdated"),
    ]
    await sandbox.run_all(3)
    status = await sandbox.status(DEPLOYMENTS, "web", availableReplicas=3, readyReplicas=3)

    async def done() -> bool:
        status = read_status(await sandbox.get(DEPLOYMENTS, "web"))
        return sorted(conditions(status)) == [AVAILABLE, DONE]

    await until(done, "rolled out")
    numbers = {key: value for key, value in status.items() if isinstance(value, int)}
    expected = dict.fromkeys(("replicas", "updatedReplicas", "availableReplicas", "readyReplicas"), 3)
    # 1.33 and later report how many Pods are ending.
    assert {"terminatingReplicas": 0} | numbers == expected | {
        "observedGeneration": 1,
        "terminatingReplicas": 0,
    }
    assert read_annotations(await sandbox.get(DEPLOYMENTS, "web"))[REVISION] == "1"
    (replica_set,) = await sandbox.all(REPLICA_SETS)
    mark = read_labels(replica_set)["pod-template-hash"]
    assert replica_set["metadata"]["name"] == f"web-{mark}"
    assert replica_set["spec"]["selector"]["matchLabels"] == {"app": "web", "pod-template-hash": mark}
    status = await sandbox.status(REPLICA_SETS, f"web-{mark}", availableReplicas=3)
    assert (status["replicas"], status["fullyLabeledReplicas"], status["readyReplicas"]) == (3, 3, 3)


async def test_a_rolling_update_keeps_within_its_bounds(sandbox: Sandbox) -> None:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
    await sandbox.create(make_set("Deployment", replicas=4, strategy=rolling))
    await rollout(sandbox, 4, 1)
    await image(sandbox, "y")
    _, most, least = await rollout(sandbox, 4, 2)
    assert (most <= 5, least >= 3) == (True, True)
    assert await sets(sandbox) == [("1", 0), ("2", 4)]
    assert read_annotations(await sandbox.get(DEPLOYMENTS, "web"))[REVISION] == "2"
    assert {pod["spec"]["containers"][0]["image"] for pod in await sandbox.active()} == {"y"}
    await image(sandbox, "x")
    await rollout(sandbox, 4, 3)
    assert await sets(sandbox) == [("2", 0), ("3", 4)]


async def test_recreate_ends_all_pods_first(sandbox: Sandbox) -> None:
    await sandbox.create(make_set("Deployment", replicas=2, strategy={"type": "Recreate"}))
    await rollout(sandbox, 2, 1)
    await image(sandbox, "y")
    _, most, _ = await rollout(sandbox, 2, 2)
    assert most == 2
    assert await sets(sandbox) == [("1", 0), ("2", 2)]


async def test_an_update_waits_for_pods_that_do_not_get_ready(sandbox: Sandbox) -> None:
    await sandbox.create(make_set("Deployment", replicas=4))
    await rollout(sandbox, 4, 1)
    await image(sandbox, "y")
    status = await sandbox.status(DEPLOYMENTS, "web", updatedReplicas=2, replicas=5)
    assert (status["availableReplicas"], status["unavailableReplicas"]) == (3, 2)
    assert await sets(sandbox) == [("1", 3), ("2", 2)]


async def test_a_rollout_without_progress_is_said(sandbox: Sandbox) -> None:
    await sandbox.create(make_set("Deployment", replicas=1, progressDeadlineSeconds=2, minReadySeconds=1))
    await sandbox.pods(1)
    status = await sandbox.condition(DEPLOYMENTS, "web", "Progressing", "False")
    assert ("Progressing", "False", "ProgressDeadlineExceeded") in conditions(status)


async def test_a_deployment_is_scaled_and_keeps_little_history(sandbox: Sandbox) -> None:
    await sandbox.create(make_set("Deployment", replicas=2, revisionHistoryLimit=1))
    await rollout(sandbox, 2, 1)
    await sandbox.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 4}})
    await rollout(sandbox, 4, 2)
    await sandbox.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 1}})
    await rollout(sandbox, 1, 3)
    assert await sets(sandbox) == [("1", 1)]
    for number, name in enumerate(("y", "z")):
        await image(sandbox, name)
        await rollout(sandbox, 1, 4 + number)

    async def short() -> bool:
        return await sets(sandbox) == [("2", 0), ("3", 1)]

    await until(short, "one old ReplicaSet")


async def test_a_deleted_deployment_takes_all_with_it(sandbox: Sandbox) -> None:
    await sandbox.create(make_set("Deployment", replicas=2))
    await rollout(sandbox, 2, 1)
    await sandbox.delete(DEPLOYMENTS, "web")

    async def nothing() -> bool:
        return not await sandbox.all(REPLICA_SETS) and not await sandbox.all(PODS)

    await until(nothing, "nothing left")


async def test_pods_that_are_lost_are_replaced(sandbox: Sandbox) -> None:
    await sandbox.create(make_set("ReplicaSet", replicas=3))
    first, second, third = await sandbox.run_all(3)
    await sandbox.status(REPLICA_SETS, "web", readyReplicas=3, availableReplicas=3)
    await sandbox.delete(PODS, first["metadata"]["name"])
    await sandbox.report(second, {"phase": "Failed"})

    async def replaced() -> bool:
        pods = {pod["metadata"]["uid"] for pod in await sandbox.active()}
        lost = {first["metadata"]["uid"], second["metadata"]["uid"]}
        return len(pods) == 3 and not pods & lost

    await until(replaced, "two others")
    status = await sandbox.status(REPLICA_SETS, "web", replicas=3, readyReplicas=1)
    assert status["observedGeneration"] == 1
    assert third["metadata"]["uid"] in {pod["metadata"]["uid"] for pod in await sandbox.active()}


async def test_the_pods_that_are_worth_least_go_first(sandbox: Sandbox) -> None:
    await sandbox.create(make_set("ReplicaSet", replicas=3))
    pods = await sandbox.pods(3)
    await sandbox.run(pods[0])
    await sandbox.run(pods[1], ready=False)
    await sandbox.status(REPLICA_SETS, "web", readyReplicas=1)
    for count in (2, 1):
        await sandbox.patch(REPLICA_SETS, "web", {"spec": {"replicas": count}})
        left = [pod["metadata"]["uid"] for pod in await sandbox.pods(count)]
        assert set(left) == {pod["metadata"]["uid"] for pod in pods[:count]}
    await sandbox.status(REPLICA_SETS, "web", replicas=1, observedGeneration=3)


async def test_a_pod_is_available_some_time_after_it_is_ready(sandbox: Sandbox) -> None:
    await sandbox.create(make_set("ReplicaSet", replicas=1, minReadySeconds=2))
    (pod,) = await sandbox.pods(1)
    await sandbox.run(pod, since=now())
    status = await sandbox.status(REPLICA_SETS, "web", readyReplicas=1)
    assert not status.get("availableReplicas")
    await sandbox.status(REPLICA_SETS, "web", availableReplicas=1)


async def test_a_paused_deployment_makes_nothing_until_it_is_resumed(sandbox: Sandbox) -> None:
    await sandbox.create(make_set("Deployment", replicas=1, paused=True))
    status = await sandbox.condition(DEPLOYMENTS, "web", "Progressing", "Unknown")
    assert [row for row in conditions(status) if row[0] == "Progressing"] == [
        ("Progressing", "Unknown", "DeploymentPaused")
    ]
    assert not await sandbox.names(REPLICA_SETS)
    await sandbox.patch(DEPLOYMENTS, "web", {"spec": {"paused": None}})
    await sandbox.run_all(1)
    await sandbox.condition(DEPLOYMENTS, "web", "Progressing")
    assert len(await sandbox.names(REPLICA_SETS)) == 1


async def test_a_paused_deployment_is_scaled_and_keeps_its_template(sandbox: Sandbox) -> None:
    await sandbox.create(make_set("Deployment", replicas=1))
    await sandbox.run_all(1)
    await sandbox.status(DEPLOYMENTS, "web", readyReplicas=1)
    await sandbox.patch(DEPLOYMENTS, "web", {"spec": {"paused": True}})
    changed = {"template": template(image="y"), "replicas": 3}
    await sandbox.patch(DEPLOYMENTS, "web", {"spec": changed})
    pods = await sandbox.run_all(3)
    await sandbox.status(DEPLOYMENTS, "web", readyReplicas=3, updatedReplicas=None)
    assert len(await sandbox.names(REPLICA_SETS)) == 1
    assert {pod["spec"]["containers"][0]["image"] for pod in pods} == {"x"}
    await sandbox.patch(DEPLOYMENTS, "web", {"spec": {"paused": False}})

    async def rolled() -> bool:
        for pod in await sandbox.active():
            await sandbox.run(pod)
        return {pod["spec"]["containers"][0]["image"] for pod in await sandbox.active()} == {"y"}

    await until(rolled, "the new template")
    assert len(await sandbox.names(REPLICA_SETS)) == 2


async def test_a_roll_out_that_is_paused_half_way_is_scaled_in_proportion(sandbox: Sandbox) -> None:
    strategy = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    await sandbox.create(make_set("Deployment", replicas=4, strategy=strategy))
    await sandbox.run_all(4)
    await sandbox.status(DEPLOYMENTS, "web", readyReplicas=4)
    await sandbox.patch(DEPLOYMENTS, "web", {"spec": {"template": template(image="y")}})
    await sandbox.pods(5)

    async def sizes() -> list[int]:
        return sorted(obj["spec"]["replicas"] for obj in await sandbox.all(REPLICA_SETS))

    await sandbox.status(DEPLOYMENTS, "web", replicas=5, updatedReplicas=1)
    await sandbox.patch(DEPLOYMENTS, "web", {"spec": {"paused": True, "replicas": 8}})
    await sandbox.pods(9)
    assert await sizes() == [2, 7]
    await sandbox.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 0}})
    await sandbox.pods(0)
    assert await sizes() == [0, 0]
