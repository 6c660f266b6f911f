"""The edge on its own: an error of one resource, a child that the API does not take, and deletes by uid."""

from datetime import UTC, datetime, timedelta

import pytest

from steelyard.operator.controller import Controller
from steelyard.operator.desired import Event
from steelyard.operator.edge import Defect, Key, Stale, SyncResult
from steelyard.operator.simulation.lagging_caches import SETTINGS, LaggingCaches
from steelyard.operator.simulation.resources import (
    NAMESPACE,
    make_audit,
    make_evaluation,
    make_model,
    make_report,
    make_session,
)
from steelyard.operator.training.simulation.job_simulation import make_job
from steelyard.operator.workflow import TRAINING_WORKFLOW
from steelyard_common.types import Json
from steelyard_kube.errors import ApiError, BadRequest, Forbidden, Invalid, Unreachable
from steelyard_kube.memory import MemoryCluster
from steelyard_kube.objects import true_condition
from steelyard_kube.resource import DEPLOYMENTS, EVENTS, INFERENCE_SESSIONS, JOBS, Resource, find_resource

BEGIN = datetime(2026, 1, 1, 1, tzinfo=UTC)


class ResourceSimulation:
    """One resource in a cluster, a controller whose caches are always current, and the events that it records."""

    def __init__(self, resource: Json) -> None:
        self.now = BEGIN
        self.events: list[Event] = []
        self.cluster = MemoryCluster(lambda: self.now)
        self.kind = find_resource(resource)
        self.name = resource["metadata"]["name"]
        metadata = {"name": self.name, "namespace": NAMESPACE}
        self.cluster.store.put({**resource, "metadata": metadata})
        self._key = Key(self.kind, NAMESPACE, self.name)
        self._caches = LaggingCaches(self._key)
        self._controller = Controller(self.cluster, self._caches, self)

    async def sync(self) -> SyncResult:
        self._caches.seen = dict(self.cluster.store.snapshot().objects)
        return await self.sync_from_old_caches()

    async def sync_from_old_caches(self) -> SyncResult:
        """Reconcile what the caches showed at the last sync."""
        return await self._controller.sync(self._key, self.now)

    def record_write(self, verb: str, owner: Json, obj: Json) -> None:
        pass

    def record_event(self, resource: Json, event: Event) -> None:
        self.events.append(event)

    @property
    def resource(self) -> Json:
        """Returns the resource as the API has it now."""
        resource = self.cluster.store.find(self.kind, self.name, NAMESPACE)
        assert resource
        return resource

    def condition(self, kind: str) -> Json:
        return next(
            condition for condition in self.resource["status"]["conditions"] if condition["type"] == kind
        )

    def set_status(self, status: Json) -> None:
        self.cluster.store.set_status(self.kind, self.name, NAMESPACE, status)

    def refuse(self, error: ApiError, *kinds: Resource) -> None:
        """Makes the API refuse every new object of these kinds."""

        def before(verb: str, resource: Resource, name: str) -> None:
            if verb == "create" and resource in kinds:
                raise error

        self.cluster.before_call = before


DYFF = [make_audit(), make_evaluation(), make_model(), make_report(), make_session()]
UNREADABLE: Json = {"attempts": {"run": {}, "client": {}}, "firstStart": "yesterday"}
UNREADABLE_JOB: Json = {"ports": [{"type": "Master"}], "conditions": []}


def unreadable(resource: Json) -> Json:
    """The resource with a status that no reconciliation can read, as no schema would let it in."""
    training = resource["apiVersion"].startswith("kubeflow.org")
    return {**resource, "status": UNREADABLE_JOB if training else UNREADABLE}


def by_kind(value: object) -> str | None:
    return str(value["kind"]) if isinstance(value, dict) else None


# ---- unexpected errors


@pytest.mark.parametrize("resource", DYFF, ids=by_kind)
async def test_an_unexpected_error_is_a_condition_of_the_resource(resource: Json) -> None:
    simulation = ResourceSimulation(unreadable(resource))
    with pytest.raises(Defect):
        await simulation.sync()
    progressing = simulation.condition("Progressing")
    assert (progressing["status"], progressing["reason"]) == ("True", "Error")
    assert progressing["message"].startswith(("KeyError: ", "ValueError: "))
    assert simulation.resource["status"]["reason"] == "Error"
    assert true_condition(simulation.resource, "Finished") is None
    assert [(event.type, event.reason) for event in simulation.events] == [("Warning", "Error")]


@pytest.mark.parametrize("kind", ["PyTorchJob", "TFJob"])
async def test_an_unexpected_error_is_a_condition_of_the_training_job(kind: str) -> None:
    simulation = ResourceSimulation(unreadable(make_job(kind, {"Worker": 1})))
    with pytest.raises(Defect):
        await simulation.sync()
    (error,) = simulation.resource["status"]["conditions"]
    assert (error["type"], error["status"], error["reason"]) == ("Created", "False", "Error")
    assert error["message"].startswith("KeyError: ")


async def test_the_error_goes_with_the_first_reconciliation_that_succeeds() -> None:
    for resource in (make_report(), make_job()):
        simulation = ResourceSimulation(unreadable(resource))
        with pytest.raises(Defect):
            await simulation.sync()
        readable = {key: value for key, value in simulation.resource["status"].items() if key == "conditions"}
        simulation.set_status(readable)
        await simulation.sync()
        reasons = {condition["reason"] for condition in simulation.resource["status"]["conditions"]}
        assert reasons
        assert "Error" not in reasons


async def test_an_error_that_comes_again_is_written_once() -> None:
    """Check that an error is written once: its own write would wake the resource before its pause is over."""
    for resource in (make_report(), make_job()):
        simulation = ResourceSimulation(unreadable(resource))
        versions = []
        for _ in range(3):
            with pytest.raises(Defect):
                await simulation.sync()
            versions.append(simulation.resource["metadata"]["resourceVersion"])
        assert len(set(versions)) == 1


async def test_what_has_ended_stays_as_it_ended_whatever_error_comes() -> None:
    simulation = ResourceSimulation(make_model(source="Mock", ttlSecondsAfterFinished=60))
    await simulation.sync()
    ended = simulation.resource["status"]
    unreadable = [{**condition, "lastTransitionTime": "yesterday"} for condition in ended["conditions"]]
    simulation.set_status({**ended, "conditions": unreadable})
    with pytest.raises(Defect):
        await simulation.sync()
    assert simulation.resource["status"] == {**ended, "conditions": unreadable}
    assert [event.reason for event in simulation.events] == ["Ready", "Error"]


# ---- old caches


async def test_a_resource_that_is_to_be_kept_longer_by_now_is_not_deleted() -> None:
    simulation = ResourceSimulation(make_model(source="Mock", ttlSecondsAfterFinished=60))
    await simulation.sync()
    await simulation.sync()
    simulation.cluster.store.put(
        {**simulation.resource, "spec": {**simulation.resource["spec"], "ttlSecondsAfterFinished": 10**6}}
    )
    simulation.now += timedelta(seconds=61)
    with pytest.raises(Stale, match="has changed"):
        await simulation.sync_from_old_caches()
    assert simulation.resource["spec"]["ttlSecondsAfterFinished"] == 10**6


# ---- times without bounds


@pytest.mark.parametrize("seconds", [10**12, 2**63 - 1])
async def test_no_time_of_a_stored_resource_overflows(seconds: int) -> None:
    evaluation = make_evaluation(
        inferenceSessionReference="b1",
        client={"totalTimeoutSeconds": seconds},
        ttlSecondsAfterFinished=seconds,
    )
    evaluation["status"] = {"observedGeneration": 1}  # it was accepted before there were bounds
    simulation = ResourceSimulation(evaluation)
    synced = await simulation.sync()
    (job,) = simulation.cluster.store.objects(JOBS)
    assert job["spec"]["activeDeadlineSeconds"] == 2**31 - 1
    assert synced.requeue_at
    assert synced.requeue_at > simulation.now


async def test_a_session_that_expires_at_the_end_of_the_calendar_runs() -> None:
    session = make_session(expires="9999-12-31T23:59:59-23:59")
    session["status"] = {"observedGeneration": 1}
    simulation = ResourceSimulation(session)
    assert (await simulation.sync()).requeue_at
    assert simulation.resource["status"]["reason"] == "Starting"
    assert simulation.cluster.store.objects(DEPLOYMENTS)


# ---- children that the API does not take


@pytest.mark.parametrize(
    ("resource", "status", "reason"),
    [
        (make_evaluation(inferenceSessionReference="b1"), "Failed", "BadRequest"),
        (make_model(), "Error", "FetchFailed"),
        (make_report(), "Failed", "BadRequest"),
        (make_audit(), "Failed", "BadRequest"),
        (make_session(), "Error", "RunnerFailed"),
    ],
    ids=by_kind,
)
@pytest.mark.parametrize("error", [Invalid, BadRequest])
async def test_a_child_that_is_invalid_ends_the_resource_with_the_apis_words(
    resource: Json, status: str, reason: str, error: type[ApiError]
) -> None:
    simulation = ResourceSimulation(resource)
    simulation.refuse(error("spec.memory: 1e999 is no quantity"), JOBS, DEPLOYMENTS)
    await simulation.sync()
    assert (simulation.resource["status"]["status"], simulation.resource["status"]["reason"]) == (
        status,
        reason,
    )
    assert "spec.memory: 1e999 is no quantity" in simulation.condition("Failed")["message"]
    assert simulation.condition("Finished")["status"] == "True"


async def test_a_child_beyond_a_quota_is_tried_again_and_the_resource_says_why() -> None:
    simulation = ResourceSimulation(make_report())
    simulation.refuse(Forbidden("exceeded quota: compute, used: cpu=4, limited: cpu=4"), JOBS)
    versions = []
    for _ in range(3):
        with pytest.raises(Forbidden):
            await simulation.sync()
        versions.append(simulation.resource["metadata"]["resourceVersion"])
    assert len(set(versions)) == 1
    progressing = simulation.condition("Progressing")
    assert (progressing["status"], progressing["reason"]) == ("True", "FailedCreate")
    assert "exceeded quota: compute" in progressing["message"]
    assert ("Warning", "FailedCreate") in [(event.type, event.reason) for event in simulation.events]

    simulation.cluster.before_call = None
    await simulation.sync()
    (job,) = simulation.cluster.store.objects(JOBS)
    assert job["metadata"]["name"].endswith("-run-a1")
    assert simulation.condition("Progressing")["reason"] == "Running"


@pytest.mark.parametrize("verb", ["delete", "get"])
async def test_a_right_that_is_missing_for_a_child_is_said_on_the_resource(verb: str) -> None:
    """The evaluation's client has succeeded, so that its session goes; the Job's name is asked for before a retry."""
    simulation = ResourceSimulation(make_evaluation())
    await simulation.sync()
    if verb == "delete":
        simulation.set_status(
            {**simulation.resource["status"], "milestones": ["ClientSucceeded"], "attempts": {}}
        )
    else:
        # Its uid is not on record yet, so that the API itself is asked what is there.
        simulation.set_status(
            {**simulation.resource["status"], "attempts": {"client": {"number": 1, "counted": 0, "uid": ""}}}
        )
    kinds = {"delete": INFERENCE_SESSIONS, "get": JOBS}

    def refuse(called: str, resource: Resource, name: str) -> None:
        if (called, resource) == (verb, kinds[verb]):
            raise Forbidden(f"{resource.plural} is forbidden: the operator cannot {verb} it")

    simulation.cluster.before_call = refuse
    with pytest.raises(Forbidden):
        await simulation.sync()
    assert f"the operator cannot {verb} it" in simulation.condition("Progressing")["message"]


async def test_a_step_whose_pod_is_refused_says_why() -> None:
    """Kubernetes makes the Job, and tells by an event of the Job alone that a quota refuses its Pod."""
    simulation = ResourceSimulation(make_report())
    simulation._caches.chosen = SETTINGS.model_copy(update={"step_pod_seconds": 15})
    await simulation.sync()
    (job,) = simulation.cluster.store.objects(JOBS)
    synced = await simulation.sync()
    assert simulation.condition("Progressing")["message"] == ""
    assert synced.requeue_at == simulation.now + timedelta(seconds=15)
    simulation.now += timedelta(seconds=15)
    await simulation.sync()
    assert simulation.condition("Progressing")["message"] == f"Job {job['metadata']['name']} has no Pod yet"
    words = 'Error creating: pods "r" is forbidden: failed quota: compute: must specify limits.cpu'
    await simulation.cluster.create(
        EVENTS,
        {
            "metadata": {"name": "e", "namespace": NAMESPACE},
            "involvedObject": {"uid": job["metadata"]["uid"]},
            "type": "Warning",
            "reason": "FailedCreate",
            "message": words,
        },
    )
    await simulation.sync()
    progressing = simulation.condition("Progressing")
    assert progressing["reason"] == "FailedCreate"
    assert words in progressing["message"]
    version = simulation.resource["metadata"]["resourceVersion"]
    await simulation.sync()
    assert simulation.resource["metadata"]["resourceVersion"] == version, "the same is not written again"


async def test_an_api_that_is_away_is_nothing_to_say_of_a_resource() -> None:
    simulation = ResourceSimulation(make_report())
    simulation.refuse(Unreachable("connection refused"), JOBS)
    with pytest.raises(Unreachable):
        await simulation.sync()
    assert "status" not in simulation.resource


async def test_a_session_whose_runner_the_api_never_takes_ends_at_its_start_deadline() -> None:
    simulation = ResourceSimulation(make_session())
    simulation.refuse(Forbidden("admission webhook denied the request"), DEPLOYMENTS)
    with pytest.raises(Forbidden):
        await simulation.sync()
    simulation.now += timedelta(minutes=31)
    await simulation.sync()
    assert simulation.resource["status"]["reason"] == "StartDeadline"
    assert "admission webhook denied the request" in simulation.condition("Failed")["message"]


async def test_a_deployment_whose_pods_are_refused_says_so_in_the_session() -> None:
    simulation = ResourceSimulation(make_session())
    await simulation.sync()
    (deployment,) = simulation.cluster.store.objects(DEPLOYMENTS)
    failure = {"type": "ReplicaFailure", "status": "True", "message": "pods are forbidden: exceeded quota"}
    simulation.cluster.store.set_status(
        DEPLOYMENTS, deployment["metadata"]["name"], NAMESPACE, {"conditions": [failure]}
    )
    await simulation.sync()
    assert simulation.condition("Progressing")["message"] == "pods are forbidden: exceeded quota"


# ---- deletes


async def test_a_child_that_was_made_again_under_its_name_is_not_deleted() -> None:
    """The cache shows the session's Deployment; another one has its name by now."""
    simulation = ResourceSimulation(make_session(expires="2026-01-01T02:00:00Z"))
    await simulation.sync()
    simulation.now += timedelta(hours=2)
    await simulation.sync()
    assert simulation.resource["status"]["reason"] == "SessionExpired"
    simulation._caches.seen = dict(simulation.cluster.store.snapshot().objects)
    (deployment,) = simulation.cluster.store.objects(DEPLOYMENTS)
    name = deployment["metadata"]["name"]
    simulation.cluster.store.remove(DEPLOYMENTS, name, NAMESPACE)
    simulation.cluster.store.put(
        {**deployment, "metadata": {"name": name, "namespace": NAMESPACE, "uid": "another"}}
    )
    await simulation._controller.sync(simulation._key, simulation.now)
    (left,) = simulation.cluster.store.objects(DEPLOYMENTS)
    assert left["metadata"]["uid"] == "another"


async def test_the_event_of_a_resource_whose_time_to_live_is_over_names_its_kind() -> None:
    simulation = ResourceSimulation(make_model("m", source="Mock", ttlSecondsAfterFinished=60))
    await simulation.sync()
    simulation.now += timedelta(seconds=61)
    await simulation.sync()
    assert simulation.cluster.store.find(simulation.kind, "m", NAMESPACE) is None
    assert simulation.events[-1] == Event(
        "Normal", "SuccessfulDeleteModel", "Deleted Model m after its time to live"
    )


def test_the_event_of_a_training_job_whose_time_to_live_is_over_is_v1s() -> None:
    assert TRAINING_WORKFLOW.expired(make_job()) == Event("Normal", "SuccessfulDeleteJob", "Deleted job: job")
