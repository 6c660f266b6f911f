"""Random histories of Pods, and what must hold after each reconciliation, whatever they are."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steelyard.operator.desired import DesiredState
from steelyard.operator.training.conditions import finished, holds
from steelyard.operator.training.dl_job import reconcile
from steelyard.operator.training.labels import ATTEMPT
from steelyard.operator.training.observed.ownership import observe
from steelyard.operator.training.simulation.job_simulation import BEGIN, SETTINGS, make_job
from steelyard_common.types import Json
from steelyard_kube.times import format_time

LIMIT = 2


@dataclass
class History:
    """A job and its Pods, which obey every decision at once."""

    job: Json
    pods: dict[str, Json] = field(default_factory=dict)
    objects: dict[tuple[str, str], Json] = field(default_factory=dict)
    made: int = 0
    now = BEGIN

    def look(self) -> DesiredState:
        children = observe(self.job, self.objects.values(), self.pods.values())
        want = reconcile(self.job, children, self.now, SETTINGS)
        self.check(want.status)
        for child in want.create:
            self._make(child)
        for child in (*want.delete, *want.force_delete):
            name = child["metadata"]["name"]
            gone = self.pods.pop(name) if child["kind"] == "Pod" else self.objects.pop((child["kind"], name))
            assert gone["metadata"]["uid"] == child["metadata"]["uid"]
        self.job = {**self.job, "status": want.status}
        return want

    def settle(self) -> None:
        """Reconcile until there is nothing more to do."""
        for _ in range(12):
            before = self.job.get("status"), self.made
            want = self.look()
            if (self.job["status"], self.made) == before and not want.delete:
                return
        raise AssertionError("it never comes to rest")

    def _make(self, child: Json) -> None:
        kind, name = child["kind"], child["metadata"]["name"]
        assert name not in self.pods if kind == "Pod" else (kind, name) not in self.objects, "made twice"
        self.made += 1
        metadata = {**child["metadata"], "uid": f"uid-{self.made}", "resourceVersion": str(self.made)}
        made = {**child, "metadata": metadata, "status": {"phase": "Pending"}}
        if kind == "Pod":
            self.pods[name] = made
        else:
            self.objects[kind, name] = made

    def happen(self, event: str, number: int) -> None:
        """Something befalls one of the Pods, or the time goes on."""
        self.now += timedelta(seconds=7)
        if event == "wait" or not self.pods:
            self.now += timedelta(seconds=400)
            return
        name = sorted(self.pods)[number % len(self.pods)]
        pod = self.pods[name]
        phase = pod["status"]["phase"]
        if event == "vanish":
            del self.pods[name]
        elif event == "start" and phase == "Pending":
            self._status(pod, "Running", {"running": {}})
        elif event in CODES and phase == "Running":
            code = CODES[event]
            ended = {"exitCode": code, "finishedAt": format_time(self.now)}
            self._status(pod, "Failed" if code else "Succeeded", {"terminated": ended})
        elif event == "evict" and phase == "Running":
            pod["status"] = {"phase": "Failed", "reason": "Evicted"}
        elif event == "delete" and phase == "Running":
            end = self.now + timedelta(seconds=30)
            marks = {"deletionTimestamp": format_time(end), "deletionGracePeriodSeconds": 30}
            self.pods[name] = {**pod, "metadata": {**pod["metadata"], **marks}}

    def _status(self, pod: Json, phase: str, state: Json) -> None:
        main = {"name": pod["spec"]["containers"][0]["name"], "state": state}
        pod["status"] = {"phase": phase, "containerStatuses": [main]}

    # ---- what must hold

    def check(self, status: Json) -> None:
        was: Json = self.job.get("status") or {}
        conditions = status["conditions"]
        assert not (holds(conditions, "Succeeded") and holds(conditions, "Failed"))
        if finished(was.get("conditions") or ()):
            assert status == was, "a finished job has changed"
            return
        assert status.get("restarts", 0) <= LIMIT
        assert status.get("restarts", 0) >= was.get("restarts", 0)
        assert status.get("disruptions", 0) >= was.get("disruptions", 0)
        if not finished(conditions):
            self._counts_agree(status)

    def _counts_agree(self, status: Json) -> None:
        wanted = {entry["pod"]: entry for entry in status["replicas"]}
        active: dict[str, int] = {}
        for name, pod in self.pods.items():
            current = int(pod["metadata"]["labels"][ATTEMPT]) == wanted[name]["attempt"]
            if current and pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]:
                role = wanted[name]["type"]
                active[role] = active.get(role, 0) + 1
        said = {role: counts.get("active", 0) for role, counts in status["replicaStatuses"].items()}
        assert said == {role: active.get(role, 0) for role in said}


CODES: Mapping[str, int] = {"succeed": 0, "fail": 1, "kill": 137}
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["start", "start", "start", *CODES, "evict", "delete", "vanish", "wait"]),
        st.integers(0, 3),
    ),
    max_size=25,
)
KINDS = st.sampled_from(
    [
        ("PyTorchJob", {"Master": 1, "Worker": 2}),
        ("PyTorchJob", {"Worker": 2}),
        ("TFJob", {"Chief": 1, "PS": 1, "Worker": 2}),
        ("TFJob", {"Worker": 2}),
        ("MXJob", {"Scheduler": 1, "Server": 1, "Worker": 2}),
        ("JAXJob", {"Worker": 2}),
        ("XGBoostJob", {"Master": 1, "Worker": 1}),
        ("PaddleJob", {"Master": 1, "Worker": 1}),
        ("MPIJob", {"Launcher": 1, "Worker": 1}),
    ]
)
RESTARTS = st.sampled_from(["Never", "OnFailure", "ExitCode", "Always"])
SCOPES = st.sampled_from([None, "Pod", "ReplicaType", "Job"])
Events = list[tuple[str, int]]


def play(kind: tuple[str, dict[str, int]], restart: str, scope: str | None, events: Events) -> None:
    annotations = {"steelyard/restart-scope": scope} if scope else None
    mode = {"jobMode": "MXTrain"} if kind[0] == "MXJob" else {}
    policy = {"backoffLimit": LIMIT}
    job = make_job(kind[0], kind[1], restart=restart, policy=policy, annotations=annotations, **mode)
    history = History(job)
    history.settle()
    for event, number in events:
        history.happen(event, number)
        history.settle()


ANY = given(KINDS, RESTARTS, SCOPES, EVENTS)
QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large]


@ANY
@settings(deadline=None, derandomize=True, suppress_health_check=QUIET)
def test_any_history(
    kind: tuple[str, dict[str, int]], restart: str, scope: str | None, events: Events
) -> None:
    play(kind, restart, scope, events)


@pytest.mark.soak
@ANY
@settings(max_examples=2000, deadline=None, suppress_health_check=QUIET)
def test_any_history_at_length(
    kind: tuple[str, dict[str, int]], restart: str, scope: str | None, events: Events
) -> None:
    play(kind, restart, scope, events)
