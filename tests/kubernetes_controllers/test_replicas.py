"""Deployments and ReplicaSets: rollouts, their bounds, revisions, and what is replaced."""

from steelyard.kube.objects import annotations_of, labels_of, status_of
from steelyard.kube.resource import DEPLOYMENTS, PODS, REPLICA_SETS
from steelyard.types import Json
from tests.kubernetes_controllers.world import World, conditions, make_set, now, template, until

REVISION = "deployment.kubernetes.io/revision"
AVAILABLE = ("Available", "True", "MinimumReplicasAvailable")
DONE = ("Progressing", "True", "NewReplicaSetAvailable")


async def rollout(world: World, wanted: int, generation: int) -> tuple[Json, int, int]:
    """Report every Pod as ready until the Deployment is rolled out.

    Returns its status, the most replicas that were wanted and the least Pods that were ready.
    """
    most, least = 0, wanted
    status: Json = {}

    async def probe() -> bool:
        nonlocal most, least, status
        for pod in await world.active():
            if status_of(pod).get("phase") != "Running":
                await world.run(pod)
        pods = await world.active()
        ready = [pod for pod in pods if status_of(pod).get("phase") == "Running"]
        most = max(most, sum(one["spec"]["replicas"] for one in await world.all(REPLICA_SETS)))
        least = min(least, len(ready))
        status = status_of(await world.get(DEPLOYMENTS, "web"))
        numbers = [status.get(key) for key in ("replicas", "updatedReplicas", "availableReplicas")]
        return (
            numbers == [wanted] * 3 and status.get("observedGeneration") == generation and len(pods) == wanted
        )

    await until(probe, "rolled out")
    return status, most, least


async def sets(world: World) -> list[tuple[str, int]]:
    """The ReplicaSets' revisions and replicas, in order."""
    present = await world.all(REPLICA_SETS)
    return sorted((annotations_of(one).get(REVISION, ""), one["spec"]["replicas"]) for one in present)


async def image(world: World, name: str) -> None:
    await world.patch(DEPLOYMENTS, "web", {"spec": {"template": template(image=name)}})


async def test_a_deployment_is_available_once_its_pods_are(world: World) -> None:
    await world.create(make_set("Deployment", replicas=3))
    await world.pods(3)
    status = await world.status(DEPLOYMENTS, "web", replicas=3, updatedReplicas=3, unavailableReplicas=3)
    assert sorted(conditions(status)) == [
        ("Available", "False", "MinimumReplicasUnavailable"),
        ("Progressing", "True", "ReplicaSetUpdated"),
    ]
    await world.run_all(3)
    status = await world.status(DEPLOYMENTS, "web", availableReplicas=3, readyReplicas=3)

    async def done() -> bool:
        status = status_of(await world.get(DEPLOYMENTS, "web"))
        return sorted(conditions(status)) == [AVAILABLE, DONE]

    await until(done, "rolled out")
    numbers = {key: value for key, value in status.items() if isinstance(value, int)}
    expected = dict.fromkeys(("replicas", "updatedReplicas", "availableReplicas", "readyReplicas"), 3)
    # 1.33 and later tell how many Pods are ending.
    assert {"terminatingReplicas": 0} | numbers == expected | {
        "observedGeneration": 1,
        "terminatingReplicas": 0,
    }
    assert annotations_of(await world.get(DEPLOYMENTS, "web"))[REVISION] == "1"
    (replica_set,) = await world.all(REPLICA_SETS)
    mark = labels_of(replica_set)["pod-template-hash"]
    assert replica_set["metadata"]["name"] == f"web-{mark}"
    assert replica_set["spec"]["selector"]["matchLabels"] == {"app": "web", "pod-template-hash": mark}
    status = await world.status(REPLICA_SETS, f"web-{mark}", availableReplicas=3)
    assert (status["replicas"], status["fullyLabeledReplicas"], status["readyReplicas"]) == (3, 3, 3)


async def test_a_rolling_update_keeps_within_its_bounds(world: World) -> None:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
    await world.create(make_set("Deployment", replicas=4, strategy=rolling))
    await rollout(world, 4, 1)
    await image(world, "y")
    _, most, least = await rollout(world, 4, 2)
    assert (most <= 5, least >= 3) == (True, True)
    assert await sets(world) == [("1", 0), ("2", 4)]
    assert annotations_of(await world.get(DEPLOYMENTS, "web"))[REVISION] == "2"
    assert {pod["spec"]["containers"][0]["image"] for pod in await world.active()} == {"y"}
    await image(world, "x")
    await rollout(world, 4, 3)
    assert await sets(world) == [("2", 0), ("3", 4)]


async def test_recreate_ends_all_pods_first(world: World) -> None:
    await world.create(make_set("Deployment", replicas=2, strategy={"type": "Recreate"}))
    await rollout(world, 2, 1)
    await image(world, "y")
    _, most, _ = await rollout(world, 2, 2)
    assert most == 2
    assert await sets(world) == [("1", 0), ("2", 2)]


async def test_an_update_waits_for_pods_that_do_not_get_ready(world: World) -> None:
    await world.create(make_set("Deployment", replicas=4))
    await rollout(world, 4, 1)
    await image(world, "y")
    status = await world.status(DEPLOYMENTS, "web", updatedReplicas=2, replicas=5)
    assert (status["availableReplicas"], status["unavailableReplicas"]) == (3, 2)
    assert await sets(world) == [("1", 3), ("2", 2)]


async def test_a_rollout_without_progress_is_said(world: World) -> None:
    await world.create(make_set("Deployment", replicas=1, progressDeadlineSeconds=2, minReadySeconds=1))
    await world.pods(1)
    status = await world.condition(DEPLOYMENTS, "web", "Progressing", "False")
    assert ("Progressing", "False", "ProgressDeadlineExceeded") in conditions(status)


async def test_a_deployment_is_scaled_and_keeps_little_history(world: World) -> None:
    await world.create(make_set("Deployment", replicas=2, revisionHistoryLimit=1))
    await rollout(world, 2, 1)
    await world.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 4}})
    await rollout(world, 4, 2)
    await world.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 1}})
    await rollout(world, 1, 3)
    assert await sets(world) == [("1", 1)]
    for number, name in enumerate(("y", "z")):
        await image(world, name)
        await rollout(world, 1, 4 + number)

    async def short() -> bool:
        return await sets(world) == [("2", 0), ("3", 1)]

    await until(short, "one old ReplicaSet")


async def test_a_deleted_deployment_takes_all_with_it(world: World) -> None:
    await world.create(make_set("Deployment", replicas=2))
    await rollout(world, 2, 1)
    await world.delete(DEPLOYMENTS, "web")

    async def nothing() -> bool:
        return not await world.all(REPLICA_SETS) and not await world.all(PODS)

    await until(nothing, "nothing left")


async def test_pods_that_are_lost_are_replaced(world: World) -> None:
    await world.create(make_set("ReplicaSet", replicas=3))
    first, second, third = await world.run_all(3)
    await world.status(REPLICA_SETS, "web", readyReplicas=3, availableReplicas=3)
    await world.delete(PODS, first["metadata"]["name"])
    await world.report(second, {"phase": "Failed"})

    async def replaced() -> bool:
        pods = {pod["metadata"]["uid"] for pod in await world.active()}
        lost = {first["metadata"]["uid"], second["metadata"]["uid"]}
        return len(pods) == 3 and not pods & lost

    await until(replaced, "two others")
    status = await world.status(REPLICA_SETS, "web", replicas=3, readyReplicas=1)
    assert status["observedGeneration"] == 1
    assert third["metadata"]["uid"] in {pod["metadata"]["uid"] for pod in await world.active()}


async def test_the_pods_that_are_worth_least_go_first(world: World) -> None:
    await world.create(make_set("ReplicaSet", replicas=3))
    pods = await world.pods(3)
    await world.run(pods[0])
    await world.run(pods[1], ready=False)
    await world.status(REPLICA_SETS, "web", readyReplicas=1)
    for count in (2, 1):
        await world.patch(REPLICA_SETS, "web", {"spec": {"replicas": count}})
        left = [pod["metadata"]["uid"] for pod in await world.pods(count)]
        assert set(left) == {pod["metadata"]["uid"] for pod in pods[:count]}
    await world.status(REPLICA_SETS, "web", replicas=1, observedGeneration=3)


async def test_a_pod_is_available_some_time_after_it_is_ready(world: World) -> None:
    await world.create(make_set("ReplicaSet", replicas=1, minReadySeconds=2))
    (pod,) = await world.pods(1)
    await world.run(pod, since=now())
    status = await world.status(REPLICA_SETS, "web", readyReplicas=1)
    assert not status.get("availableReplicas")
    await world.status(REPLICA_SETS, "web", availableReplicas=1)


async def test_a_paused_deployment_makes_nothing_until_it_is_resumed(world: World) -> None:
    await world.create(make_set("Deployment", replicas=1, paused=True))
    status = await world.condition(DEPLOYMENTS, "web", "Progressing", "Unknown")
    assert [row for row in conditions(status) if row[0] == "Progressing"] == [
        ("Progressing", "Unknown", "DeploymentPaused")
    ]
    assert not await world.names(REPLICA_SETS)
    await world.patch(DEPLOYMENTS, "web", {"spec": {"paused": None}})
    await world.run_all(1)
    await world.condition(DEPLOYMENTS, "web", "Progressing")
    assert len(await world.names(REPLICA_SETS)) == 1


async def test_a_paused_deployment_is_scaled_and_keeps_its_template(world: World) -> None:
    await world.create(make_set("Deployment", replicas=1))
    await world.run_all(1)
    await world.status(DEPLOYMENTS, "web", readyReplicas=1)
    await world.patch(DEPLOYMENTS, "web", {"spec": {"paused": True}})
    changed = {"template": template(image="y"), "replicas": 3}
    await world.patch(DEPLOYMENTS, "web", {"spec": changed})
    pods = await world.run_all(3)
    await world.status(DEPLOYMENTS, "web", readyReplicas=3, updatedReplicas=None)
    assert len(await world.names(REPLICA_SETS)) == 1
    assert {pod["spec"]["containers"][0]["image"] for pod in pods} == {"x"}
    await world.patch(DEPLOYMENTS, "web", {"spec": {"paused": False}})

    async def rolled() -> bool:
        for pod in await world.active():
            await world.run(pod)
        return {pod["spec"]["containers"][0]["image"] for pod in await world.active()} == {"y"}

    await until(rolled, "the new template")
    assert len(await world.names(REPLICA_SETS)) == 2


async def test_a_roll_out_that_is_paused_half_way_is_scaled_in_proportion(world: World) -> None:
    strategy = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    await world.create(make_set("Deployment", replicas=4, strategy=strategy))
    await world.run_all(4)
    await world.status(DEPLOYMENTS, "web", readyReplicas=4)
    await world.patch(DEPLOYMENTS, "web", {"spec": {"template": template(image="y")}})
    await world.pods(5)

    async def sizes() -> list[int]:
        return sorted(obj["spec"]["replicas"] for obj in await world.all(REPLICA_SETS))

    await world.status(DEPLOYMENTS, "web", replicas=5, updatedReplicas=1)
    await world.patch(DEPLOYMENTS, "web", {"spec": {"paused": True, "replicas": 8}})
    await world.pods(9)
    assert await sizes() == [2, 7]
    await world.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 0}})
    await world.pods(0)
    assert await sizes() == [0, 0]
